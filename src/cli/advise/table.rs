//! What `bsr advise` prints: a table with a line for each block, and the verdict.

use std::fmt;

use bsr::KernelSpec;
use bsr::advise::{Advice, Blocking, Candidate, Spread, Verdict};
use comfy_table::Table;

use super::super::table::{markdown, or_dash, percent};

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
        let pruned = candidates.iter().any(|c| c.original.norm.is_some());
        let reordered = candidates.iter().any(|c| c.reordered.is_some());
        let measured = candidates.iter().any(|c| c.measured.is_some());
        // What one looks at to judge an order: how full the blocks are, or how much of the matrix is left.
        let quality = move |blocking: &Blocking| match blocking.norm {
            Some(norm) => format!("{norm:.3}"),
            None => format!("{:.2}", blocking.fill_in),
        };
        let of_reordered =
            |cell: &dyn Fn(&Blocking) -> String, candidate: &Candidate| or_dash(candidate.reordered.as_ref().map(cell));
        let number = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.1}")));
        let us = move |blocking: &Blocking| number(blocking.us());
        let mut columns: Vec<Column<'a>> = vec![
            ("block", Box::new(|c| format!("{}x{}", c.block[0], c.block[1]))),
            ("blocks", Box::new(|c| c.original.blocks.to_string())),
            ("density", Box::new(|c| percent(c.original.density))),
            (if pruned { "norm kept" } else { "fill-in" }, Box::new(move |c| quality(&c.original))),
            ("us", Box::new(move |c| us(&c.original))),
        ];
        if reordered {
            let title = if pruned { "reordered norm" } else { "reordered fill-in" };
            columns.push((title, Box::new(move |c| of_reordered(&quality, c))));
            columns.push(("reordered us", Box::new(move |c| of_reordered(&us, c))));
        }
        let limit = |c: &Candidate| c.chosen().predicted.as_ref().map_or("-", |predicted| predicted.limit().as_str());
        columns.push(("TFLOP/s", Box::new(move |c| number(c.chosen().useful_tflops))));
        columns.push(("limit", Box::new(move |c| limit(c).to_owned())));
        columns.push(("even below", Box::new(|c| or_dash(c.break_even.map(percent)))));
        columns.push(("kernel", Box::new(kernel)));
        if measured {
            let cell =
                |c: &Candidate, cell: &dyn Fn(&bsr::advise::Measured) -> String| or_dash(c.measured.as_ref().map(cell));
            columns.push(("measured us", Box::new(move |c| cell(c, &|m| format!("{:.1}", m.us)))));
            columns.push(("dense us", Box::new(move |c| cell(c, &|m| number(m.dense_us)))));
            columns.push(("measured TFLOP/s", Box::new(move |c| cell(c, &|m| format!("{:.1}", m.useful_tflops)))));
        }
        columns.push(("verdict", Box::new(verdict)));
        columns
    }

    fn table(&self) -> Table {
        let columns = self.columns();
        let titles = columns.iter().map(|(title, _)| *title);
        let mut table = markdown(titles, &["limit", "kernel", "verdict"]);
        table.add_rows(
            self.advice.candidates.iter().map(|c| columns.iter().map(|(_, cell)| cell(c)).collect::<Vec<_>>()),
        );
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
    let order = match (&candidate.measured, candidate.chosen() != &candidate.original) {
        (None, true) => ", reordered",
        _ => "",
    };
    match candidate.verdict() {
        verdict @ Verdict::Faster(_) => format!("{verdict}{order}"),
        verdict => verdict.to_string(),
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { advice, why_not } = self;
        let (rows, cols, n) = (advice.rows, advice.cols, advice.n);
        writeln!(f, "product   C[{rows}, {n}] = A[{rows}, {cols}] * B[{cols}, {n}], {}", advice.dtype)?;
        let tflops = 2.0 * rows as f64 * cols as f64 * n as f64 / (advice.dense.us * 1e6);
        writeln!(f, "dense     {:.1} us predicted, {tflops:.1} TFLOP/s", advice.dense.us)?;
        match (&advice.device, why_not) {
            (Some(device), _) => writeln!(f, "times     us are predicted, measured us are those of {device}")?,
            (None, why) => {
                let why = why.unwrap_or("no kernel");
                writeln!(f, "times     predicted by a model of one {}, not measured: {why}", advice.card.name)?;
            }
        }
        let nonzero = format!("{:.2} %", 100.0 * advice.nonzeros as f64 / (rows * cols).max(1) as f64);
        match advice.spread {
            Spread::Unstructured => writeln!(
                f,
                "spread    unstructured: {nonzero} of all values are not zero, and need about as many of these blocks as they \
                 would at random"
            )?,
            Spread::Dense => writeln!(f, "spread    dense: {nonzero} of all values are not zero")?,
            Spread::Blocks | Spread::Unknown => (),
        }
        writeln!(f, "\n{}", self.table())?;
        if advice.device.is_none() {
            writeln!(f, "\n{MODEL}")?;
        }
        let reason = |c: &Candidate| match (&c.no_kernel, &c.not_measured) {
            (Some(why), _) => Some(format!("has no kernel: {why}")),
            (None, why) => why.as_ref().map(|why| format!("is only predicted: {why}")),
        };
        let unmeasured = advice.candidates.iter().filter_map(|c| Some((c.block, reason(c)?)));
        for (at, ([bm, bk], why)) in unmeasured.enumerate() {
            writeln!(f, "{}{bm}x{bk} {why}", if at == 0 { "\n" } else { "" })?;
        }
        let Some(best) = advice.best() else { return Ok(()) };
        let [bm, bk] = best.block;
        let both = best.measured.as_ref().is_some_and(|measured| measured.dense_us.is_some());
        let how = if both { "measured" } else { "predicted" };
        let flag = if best.measured.is_none() && best.chosen() != &best.original { " --reorder" } else { "" };
        let blocks = format!("--block {bm}x{bk}{flag}");
        match best.verdict() {
            Verdict::Faster(times) => writeln!(f, "\nbest      {blocks}: {times:.2}x faster than dense, {how}")?,
            Verdict::Slower(times) => writeln!(
                f,
                "\nbest      stay dense: {times:.2}x faster than the best of these blocks ({blocks}), {how}"
            )?,
            Verdict::Full => {
                writeln!(f, "\nbest      stay dense: {bm}x{bk} would be the best, and stores every block")?
            }
            Verdict::Even | Verdict::NoKernel => {
                writeln!(f, "\nbest      stay dense: {blocks} is about as fast and none is faster, {how}")?;
            }
        }
        if advice.spread == Spread::Unstructured {
            writeln!(f, "{ELSE}")?;
        }
        Ok(())
    }
}

/// What predictions are worth.
const MODEL: &str = "\
A predicted time may be off by 15 % (of small blocks and of products of a few microseconds by more): what is nearer to
dense is called even. --measure on a GPU decides.";

/// What suits a matrix whose nonzeros are not in blocks.
const ELSE: &str = "\
else      the nonzeros are in no blocks: where they are few, a library for CSR (cuSPARSE) multiplies them alone; where
          values may be dropped, prune whole blocks (--keep 0.25) or two of every four values (2:4, cuSPARSELt)";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::advise::{Measured, Request, advise};
    use bsr::read::Sparse;
    use bsr::tuner::model::Card;

    use super::*;

    fn advice() -> Advice {
        let diagonal = (0..1024u32).flat_map(|row| (0..64).map(move |col| (row, row / 64 * 64 + col, 1.0)));
        let sparse = Sparse::from_triplets(1024, 1024, diagonal.collect()).unwrap();
        advise(&sparse, &[(64, 64), (128, 128), (4, 4)], &Request::default(), &Card::h200()).unwrap()
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
        assert!(text.contains("4x4 has no kernel: block rows of 4 are not"), "{text}");
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
        assert_eq!(advice.candidates[0].speedup(), speedup);
        let text = Report { advice: &advice, why_not: Some("a reason") }.to_string();
        assert!(text.contains("|         5.0 |        - |") && text.ends_with(", predicted\n"), "{text}");
    }
}
