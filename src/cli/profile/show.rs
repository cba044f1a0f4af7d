//! What `bsr profile` prints.

use std::collections::BTreeMap;
use std::io::Write;

use bsr::roofs::Limit;

use super::super::exit::Failure;
use super::super::line;
use super::super::spec::Planned;
use super::super::table::{fitted, markdown};
use super::counters::Counters;
use super::lines::Lined;
use super::sections;
use super::source::{self, Row};

/// What was read of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'s> {
    pub(super) counters: &'s Counters,
    pub(super) sass: &'s [Row],
    /// The machine code that was launched, or why its lines are not known.
    pub(super) lined: &'s Result<Lined, String>,
}

/// Rows of each table.
const MOST: usize = 12;
/// Reasons of a wait that are told of a section or a line.
const REASONS: usize = 3;
/// Characters of a line of PTX.
const WIDEST: usize = 72;

pub(super) fn show(
    planned: &Planned,
    seen: &Seen<'_>,
    limit: &Option<Limit>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Seen { counters, sass, lined } = *seen;
    line(out, "spec", planned.spec())?;
    line(out, "kernel", planned.ptx.entry())?;
    let compiler = lined.as_ref().map_or("the driver's compiler", |lined| &lined.ptxas);
    line(out, "code", format_args!("by {compiler}"))?;
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
    match lined {
        Ok(lined) => by_line(planned.ptx.text(), lined, sass, out),
        Err(why) => Ok(writeln!(out, "\nSamples are not attributed to lines of the PTX: {why}.")?),
    }
}

/// Where in the text the samples are.
fn by_line(text: &str, lined: &Lined, sass: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    let mut lines = lined.lines.counted(sass);
    let all: f64 = lines.iter().map(|line| line.samples).sum();
    let mut sections = sections::counted(text, &lines);
    let known: f64 = sections.iter().map(|section| section.samples).sum();
    sections.sort_by(|x, y| y.samples.total_cmp(&x.samples));
    let rows = sections.iter().filter(|section| section.samples > 0.0).take(MOST).map(|section| {
        let place = format!("{} to {}: {}", section.lines.0, section.lines.1, section.title);
        [place, percent(section.samples, all), reasons(&section.stalls, section.samples)]
    });
    print(out, ["section of the PTX", "samples", "of these"], rows)?;
    writeln!(out, "{} of the samples are in a section.", percent(known, all))?;
    lines.sort_by(|x, y| y.samples.total_cmp(&x.samples));
    let rows = lines.iter().filter(|line| line.line > 0 && line.samples > 0.0).take(MOST).map(|line| {
        let words: String = text.lines().nth(line.line - 1).unwrap_or_default().trim().chars().take(WIDEST).collect();
        [format!("{}: {words}", line.line), percent(line.samples, all), reasons(&line.stalls, line.samples)]
    });
    print(out, ["line of the PTX", "samples", "of these"], rows)
}

/// What most samples of a place waited for: `gmma 93.0 %, wait 4.0 %`.
fn reasons(stalls: &BTreeMap<String, f64>, all: f64) -> String {
    let mut stalls: Vec<(&String, &f64)> = stalls.iter().collect();
    stalls.sort_by(|x, y| y.1.total_cmp(x.1));
    let words = stalls.iter().take(REASONS).map(|(reason, count)| format!("{reason} {}", percent(**count, all)));
    words.collect::<Vec<_>>().join(", ")
}

fn percent(part: f64, all: f64) -> String {
    if all > 0.0 { format!("{:.1} %", 100.0 * part / all) } else { "-".to_owned() }
}

fn print(out: &mut dyn Write, head: [&str; 3], rows: impl Iterator<Item = [String; 3]>) -> Result<(), Failure> {
    let mut table = markdown(head, &head[..1]);
    table.add_rows(rows);
    Ok(writeln!(out, "\n{}", fitted(table))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::counters::tests::RAW;
    use super::*;

    use super::super::lines::Lines;

    #[test]
    fn a_launch_is_told_in_numbers_and_by_section() {
        let planned = crate::cli::spec::plan("bm = 512, bn = 128, bk = 112").unwrap();
        let is_wait = |line: &str| line.contains("mbarrier.try_wait");
        let wait = planned.ptx.text().lines().position(is_wait).unwrap() + 1;
        let listing = format!(
            "\t.section\t.text.{},\"ax\",@progbits\n\t//## File \".nv_debug_ptx_txt\", line {wait}\n\
             \x20       /*0000*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3 ;\n",
            planned.ptx.entry()
        );
        let sass = [
            Row {
                source: "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3".to_owned(),
                address: Some(0x7f00),
                samples: 30.0,
                executed: 5.0,
                stalls: vec![("long_sb".to_owned(), 20.0), ("wait".to_owned(), 10.0)],
            },
            Row { source: "NOP".to_owned(), address: Some(0x7f10), samples: 10.0, ..Row::default() },
        ];
        let counters = Counters::read(RAW).unwrap();
        let lines = Lines::read(&listing, planned.ptx.entry(), planned.ptx.text());
        let lined = Ok(Lined { cubin: vec![], lines, ptxas: "ptxas 13.0".to_owned() });
        let mut out = vec![];
        let seen = Seen { counters: &counters, sass: &sass, lined: &lined };
        show(&planned, &seen, &None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for words in [
            "380.1 us at 1485 MHz",
            "by ptxas 13.0",
            "91.5 %",
            "1610.6 MB through L2",
            "SYNCS",
            "gmma",
            "long_sb 66.7 %, wait 33.3 %",
            "75.0 % of the samples are in a section",
            &format!("{wait}: mbarrier.try_wait"),
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        let mut out = vec![];
        let lined = Err("no ptxas".to_owned());
        show(&planned, &Seen { lined: &lined, ..seen }, &None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("by the driver's compiler") && text.contains("lines of the PTX: no ptxas."), "{text}");
    }
}
