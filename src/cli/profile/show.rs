//! What `bsr profile` prints.

use std::io::Write;

use bsr::roofs::Limit;
use comfy_table::{CellAlignment, Table, presets};

use super::super::exit::Failure;
use super::super::line;
use super::super::spec::Planned;
use super::super::width::fitted;
use super::counters::Counters;
use super::sections::{self, Section};
use super::source::{self, Row};

/// What was read of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'s> {
    pub(super) counters: &'s Counters,
    pub(super) sass: &'s [Row],
    /// Empty where the driver kept no lines of PTX.
    pub(super) ptx: &'s [Row],
}

/// Rows of each table.
const MOST: usize = 12;

pub(super) fn show(
    planned: &Planned,
    seen: &Seen<'_>,
    limit: &Option<Limit>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Seen { counters, sass, ptx } = *seen;
    line(out, "spec", planned.spec())?;
    line(out, "kernel", planned.ptx.entry())?;
    let clock = |mhz: Option<f64>| mhz.map_or("?".to_owned(), |mhz| format!("{mhz:.0}"));
    if let Some(us) = counters.us() {
        let [sm, memory] = counters.clocks();
        line(out, "time", format_args!("{us:.1} us at {} MHz, memory {} MHz", clock(sm), clock(memory)))?;
    }
    if let Some(percent) = counters.tensor_percent() {
        line(out, "tensor", format_args!("the tensor cores work in {percent:.1} % of the cycles"))?;
    }
    let [l2, read, written] =
        counters.bytes().map(|bytes| bytes.map_or("?".to_owned(), |bytes| format!("{:.1}", bytes / 1e6)));
    line(out, "bytes", format_args!("{l2} MB through L2, {read} MB read from device memory, {written} MB written"))?;
    if let Some(limit) = limit {
        line(out, "limit", limit.to_string().replace('\n', "\n          "))?;
    }
    let mix = source::mix(sass);
    let all: f64 = mix.iter().map(|(_, count)| count).sum();
    let rows =
        mix.iter().take(MOST).map(|(opcode, count)| [opcode.clone(), format!("{count:.0}"), percent(*count, all)]);
    print(out, ["instruction", "warps executed", "of all"], rows)?;
    let stalls = counters.stalls();
    let all: f64 = stalls.iter().map(|(_, count)| count).sum();
    let rows =
        stalls.iter().take(MOST).map(|(reason, count)| [reason.clone(), format!("{count:.0}"), percent(*count, all)]);
    print(out, ["warps wait for", "samples", "of all"], rows)?;
    let mut sections = sections::counted(planned.ptx.text(), ptx);
    let all: f64 = sections.iter().map(|section| section.samples).sum();
    sections.sort_by(|x, y| y.samples.total_cmp(&x.samples));
    let sections: Vec<Section> = sections.into_iter().filter(|section| section.samples > 0.0).take(MOST).collect();
    if sections.is_empty() {
        writeln!(out, "\nThe report has no samples by lines of PTX.")?;
        return Ok(());
    }
    let rows = sections.iter().map(|section| {
        let stall = section
            .stalls
            .first()
            .map_or(String::new(), |(reason, count)| format!(", {} {reason}", percent(*count, section.samples)));
        [
            format!("{} to {}: {}", section.lines.0, section.lines.1, section.title),
            percent(section.samples, all),
            stall.trim_start_matches(", ").to_owned(),
        ]
    });
    print(out, ["lines of the PTX", "samples", "mostly"], rows)
}

fn percent(part: f64, all: f64) -> String {
    if all > 0.0 { format!("{:.1} %", 100.0 * part / all) } else { "-".to_owned() }
}

fn print(out: &mut dyn Write, head: [&str; 3], rows: impl Iterator<Item = [String; 3]>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(head);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(writeln!(out, "\n{}", fitted(table))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::counters::tests::RAW;
    use super::*;

    #[test]
    fn a_launch_is_told_in_numbers_and_by_section() {
        let planned = super::super::spec::plan("bm = 512, bn = 128, bk = 112").unwrap();
        let wait = planned.ptx.text().lines().find(|line| line.contains("mbarrier.try_wait")).unwrap().to_owned();
        let ptx = [Row { source: wait, samples: 30.0, executed: 0.0, stalls: vec![("long_sb".to_owned(), 20.0)] }];
        let sass = [Row { source: "HGMMA.64x128x16".to_owned(), executed: 5.0, ..Row::default() }];
        let counters = Counters::read(RAW).unwrap();
        let mut out = vec![];
        let seen = Seen { counters: &counters, sass: &sass, ptx: &ptx };
        show(&planned, &seen, &None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for words in
            ["380.1 us at 1485 MHz", "91.5 %", "1610.6 MB through L2", "HGMMA", "gmma", "100.0 %", "66.7 % long_sb"]
        {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        let mut out = vec![];
        show(&planned, &Seen { ptx: &[], ..seen }, &None, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("no samples by lines of PTX"));
    }
}
