//! What `bsr advise` prints: a table with a line for each block, and the verdict.

use std::fmt;

use bsr::KernelSpec;
use bsr::advise::{Advice, Blocking, Candidate};
use comfy_table::{CellAlignment, Table, presets};

/// The advice, and why nothing was measured if that is so.
pub(super) struct Report<'a> {
    pub(super) advice: &'a Advice,
    pub(super) why_not: Option<&'a str>,
}

/// A column: its title, and its cell for each candidate. The last one is text, the others are numbers.
type Column<'a> = (&'static str, Box<dyn Fn(&Candidate) -> String + 'a>);

impl<'a> Report<'a> {
    fn columns(&self) -> Vec<Column<'a>> {
        let candidates = &self.advice.candidates;
        let pruned = candidates.iter().any(|c| c.given.norm.is_some());
        let reordered = candidates.iter().any(|c| c.reordered.is_some());
        let measured = candidates.iter().any(|c| c.measured.is_some());
        // What one looks at to judge an order: how full the blocks are, or how much of the matrix is left.
        let quality = move |blocking: &Blocking| match blocking.norm {
            Some(norm) => format!("{norm:.3}"),
            None => format!("{:.2}", blocking.fill_in),
        };
        let of_reordered = |cell: &dyn Fn(&Blocking) -> String, candidate: &Candidate| match &candidate.reordered {
            Some(blocking) => cell(blocking),
            None => "-".to_owned(),
        };
        let us = |blocking: &Blocking| format!("{:.1}", blocking.predicted.us);
        let mut columns: Vec<Column<'a>> = vec![
            ("block", Box::new(|c| format!("{}x{}", c.block[0], c.block[1]))),
            ("blocks", Box::new(|c| c.given.blocks.to_string())),
            ("density", Box::new(|c| percent(c.given.density))),
            (if pruned { "norm kept" } else { "fill-in" }, Box::new(move |c| quality(&c.given))),
            ("us", Box::new(move |c| us(&c.given))),
        ];
        if reordered {
            let title = if pruned { "reordered norm" } else { "reordered fill-in" };
            columns.push((title, Box::new(move |c| of_reordered(&quality, c))));
            columns.push(("reordered us", Box::new(move |c| of_reordered(&us, c))));
        }
        columns.push(("TFLOP/s", Box::new(|c| format!("{:.1}", c.chosen().useful_tflops))));
        columns.push(("limit", Box::new(|c| c.chosen().predicted.bound.to_string())));
        columns.push(("even below", Box::new(|c| percent(c.break_even))));
        columns.push(("kernel", Box::new(kernel)));
        if measured {
            let cell = |c: &Candidate, cell: &dyn Fn(&bsr::advise::Measured) -> String| {
                c.measured.as_ref().map_or_else(|| "-".to_owned(), cell)
            };
            let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            columns.push(("measured us", Box::new(move |c| cell(c, &|m| format!("{:.1}", m.us)))));
            columns.push(("dense us", Box::new(move |c| cell(c, &|m| or_none(m.dense_us)))));
            columns.push(("measured TFLOP/s", Box::new(move |c| cell(c, &|m| format!("{:.1}", m.useful_tflops)))));
        }
        columns.push(("verdict", Box::new(verdict)));
        columns
    }

    fn table(&self) -> Table {
        let columns = self.columns();
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(columns.iter().map(|(title, _)| *title));
        table.add_rows(
            self.advice.candidates.iter().map(|c| columns.iter().map(|(_, cell)| cell(c)).collect::<Vec<_>>()),
        );
        let numbers = columns.len() - 1;
        for (at, column) in table.column_iter_mut().enumerate().filter(|(at, _)| *at < numbers) {
            if !matches!(columns[at].0, "limit" | "kernel") {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// The family of the kernel that takes the block.
fn kernel(candidate: &Candidate) -> String {
    let spec = candidate.kernel.as_ref().and_then(|spec| spec.parse::<KernelSpec>().ok());
    spec.map_or_else(|| "none".to_owned(), |spec| spec.mma.to_string())
}

/// Who is faster, in words: by what was measured, else as predicted.
fn verdict(candidate: &Candidate) -> String {
    let order = match (&candidate.measured, candidate.chosen() != &candidate.given) {
        (None, true) => ", reordered",
        _ => "",
    };
    match candidate.speedup() {
        _ if candidate.kernel.is_none() => "no tensor-core kernel".to_owned(),
        speedup if speedup >= 1.05 => format!("{speedup:.2}x faster{order}"),
        speedup if speedup > 0.95 => "about even".to_owned(),
        speedup => format!("dense is faster: {:.2}x", 1.0 / speedup),
    }
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { advice, why_not } = self;
        let (rows, cols, n) = (advice.rows, advice.cols, advice.n);
        writeln!(f, "product   C[{rows}, {n}] = A[{rows}, {cols}] * B[{cols}, {n}], f16")?;
        let tflops = 2.0 * rows as f64 * cols as f64 * n as f64 / (advice.dense.us * 1e6);
        writeln!(f, "dense     {:.1} us predicted, {tflops:.1} TFLOP/s", advice.dense.us)?;
        match (&advice.device, why_not) {
            (Some(device), _) => writeln!(f, "times     us are predicted, measured us are those of {device}")?,
            (None, why) => {
                let why = why.unwrap_or("no kernel");
                writeln!(f, "times     predicted by a model of one {}, not measured: {why}", advice.card.name)?;
            }
        }
        writeln!(f, "\n{}", self.table())?;
        if advice.device.is_none() {
            writeln!(
                f,
                "\nThe model was held against measured times of blocks of 16x16, 32x32, 64x64, 128x32, 128x128 and 512x112: \
                 the\nfurther from these, the less it is worth. Where two are close, measure."
            )?;
        }
        let reason = |c: &'_ Candidate| c.no_kernel.clone().or(c.not_measured.clone());
        let unmeasured = advice.candidates.iter().filter_map(|c| Some((c.block, reason(c)?)));
        for (at, ([bm, bk], why)) in unmeasured.enumerate() {
            writeln!(f, "{}{bm}x{bk} is only predicted: {why}", if at == 0 { "\n" } else { "" })?;
        }
        let Some(best) = advice.best() else { return Ok(()) };
        let [bm, bk] = best.block;
        let both = best.measured.as_ref().is_some_and(|measured| measured.dense_us.is_some());
        let how = if both { "measured" } else { "predicted" };
        let flag = if best.measured.is_none() && best.chosen() != &best.given { " --reorder" } else { "" };
        let blocks = format!("--block {bm}x{bk}{flag}");
        match best.speedup() {
            speedup if speedup >= 1.05 => writeln!(f, "\nbest      {blocks}: {speedup:.2}x faster than dense, {how}"),
            speedup if speedup > 0.95 => {
                writeln!(f, "\nbest      stay dense: {blocks} is about as fast and none is faster, {how}")
            }
            speedup => writeln!(
                f,
                "\nbest      stay dense: {:.2}x faster than the best of these blocks ({blocks}), {how}",
                1.0 / speedup
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::advise::model::Card;
    use bsr::advise::{Measured, Request, advise};
    use bsr::read::Sparse;

    use super::*;

    fn advice() -> Advice {
        let diagonal = (0..1024u32).flat_map(|row| (0..64).map(move |col| (row, row / 64 * 64 + col, 1.0)));
        let sparse = Sparse::from_triplets(1024, 1024, diagonal.collect()).unwrap();
        advise(&sparse, &[(64, 64), (128, 128), (4, 4)], &Request::default(), &Card::H200).unwrap()
    }

    fn measured(us: f64, dense_us: Option<f64>) -> Option<Measured> {
        Some(Measured { spec: "bm = 64, bn = 256, bk = 64".to_owned(), us, dense_us, useful_tflops: 12.3 })
    }

    #[test]
    fn measured_times_are_shown_and_decide() {
        let mut advice = advice();
        advice.device = Some("a card".to_owned());
        advice.candidates[0].measured = measured(20.0, Some(15.0));
        advice.candidates[1].not_measured = Some("it did not fit".to_owned());
        let text = Report { advice: &advice, why_not: None }.to_string();
        assert!(text.contains("us are predicted, measured us are those of a card\n"), "{text}");
        assert!(text.contains("|        20.0 |     15.0 |             12.3 | dense is faster: 1.33x |"), "{text}");
        assert!(text.contains("|           - |        - |                - |"), "{text}");
        assert!(text.contains("128x128 is only predicted: it did not fit\n"), "{text}");
        assert!(text.contains("4x4 is only predicted: 4 block rows are not"), "{text}");
        let best = "best      stay dense: 1.33x faster than the best of these blocks (--block 64x64), measured\n";
        assert!(text.ends_with(best), "{text}");

        advice.candidates[0].measured = measured(5.0, Some(15.0));
        let text = Report { advice: &advice, why_not: None }.to_string();
        assert!(text.ends_with("best      --block 64x64: 3.00x faster than dense, measured\n"), "{text}");
    }

    #[test]
    fn a_dense_library_that_is_not_there_leaves_the_predicted_verdict() {
        let mut advice = advice();
        advice.candidates[0].measured = measured(5.0, None);
        let speedup = advice.candidates[0].predicted_speedup;
        assert!((advice.candidates[0].speedup() - speedup).abs() < 1e-12);
        let text = Report { advice: &advice, why_not: Some("a reason") }.to_string();
        assert!(text.contains("|         5.0 |        - |") && text.ends_with(", predicted\n"), "{text}");
    }
}
