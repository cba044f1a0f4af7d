//! The page of sources: an instruction of SASS a line, with samples and executions.

use std::collections::BTreeMap;

use super::table::{self, number};

/// An instruction with what was counted there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) source: String,
    /// Where it was in memory.
    pub(super) address: Option<u64>,
    /// Samples of warps that were there.
    pub(super) samples: f64,
    /// Warp instructions that were executed.
    pub(super) executed: f64,
    /// Samples by what the warps waited for.
    pub(super) stalls: Vec<(String, f64)>,
}

/// Names of columns, by version.
const SAMPLES: [&str; 3] = ["Warp Stall Sampling (All Samples)", "# Samples", "Sampling Data (All)"];
const EXECUTED: [&str; 3] = ["Instructions Executed", "# Instructions Executed", "inst_executed"];

/// Reads `ncu --page source --print-source sass --csv`.
///
/// # Errors
/// In words: text that is no such page.
pub(super) fn read(text: &str) -> Result<Vec<Row>, String> {
    let csv = table::read(text, &["#", "Address"])?;
    let address = csv.column(&["Address"]);
    let source = csv.column(&["Source", "SASS"]).ok_or("it has no column \"Source\"")?;
    let samples = csv.column(&SAMPLES).ok_or_else(|| format!("it has no column \"{}\"", SAMPLES[0]))?;
    let executed = csv.column(&EXECUTED);
    let stalls: Vec<(usize, String)> =
        csv.head.iter().enumerate().filter_map(|(at, name)| Some((at, reason(name)?))).collect();
    let row = |fields: &Vec<String>| {
        let value = |at: usize| fields.get(at).and_then(|field| number(field)).unwrap_or(0.0);
        let waits = stalls.iter().map(|(at, reason)| (reason.clone(), value(*at))).filter(|(_, count)| *count > 0.0);
        Row {
            source: fields[source].trim().to_owned(),
            address: address.and_then(|at| u64::from_str_radix(fields[at].trim().strip_prefix("0x")?, 16).ok()),
            samples: value(samples),
            executed: executed.map_or(0.0, value),
            stalls: waits.collect(),
        }
    };
    Ok(csv.rows.iter().map(row).collect())
}

/// `stall_long_sb` of a column's name; nothing of those that count again what was not issued.
fn reason(name: &str) -> Option<String> {
    let reason = name.strip_prefix("stall_")?;
    (!reason.contains("not_issued") && !reason.contains("Not Issued")).then(|| reason.to_owned())
}

/// Executions by opcode, most first: `HGMMA`, `UTMALDG`, `SYNCS`.
pub(super) fn mix(sass: &[Row]) -> Vec<(String, f64)> {
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for row in sass {
        let words = row.source.split_whitespace().find(|word| !word.starts_with('@'));
        let opcode = words.and_then(|word| word.split(['.', ';']).next()).unwrap_or_default();
        if !opcode.is_empty() && row.executed > 0.0 {
            *counts.entry(opcode).or_default() += row.executed;
        }
    }
    let mut mix: Vec<(String, f64)> = counts.into_iter().map(|(opcode, count)| (opcode.to_owned(), count)).collect();
    mix.sort_by(|x, y| y.1.total_cmp(&x.1));
    mix
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// In ncu's form, with invented numbers.
    const SASS: &str = r##""Kernel Name","bsr_dsd_wgmma_f16_512x128x112"
"Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)","Instructions Executed","stall_gmma","stall_gmma (Not Issued)","stall_long_sb"
"0x7f00","      MOV R1, c[0x0][0x28]","3","1","1,056","0","0","2"
"0x7f10","@!P0  BRA 0x7f40","5","1","2,000","0","0","0"
"0x7f20","      HGMMA.64x128x16.F32 R24, gdesc[UR4], R24","4,000","3,900","8,192","3,950","3,900","0"
"0x7f30","      HGMMA.64x128x16.F32 R24, gdesc[UR8], R24","10","2","8,192","7","1","0"
"##;

    #[test]
    fn lines_have_samples_and_reasons() {
        let rows = read(SASS).unwrap();
        assert_eq!((rows.len(), rows[2].samples, rows[2].executed), (4, 4000.0, 8192.0));
        assert_eq!((rows[0].address, rows[3].address), (Some(0x7f00), Some(0x7f30)));
        assert_eq!(rows[2].stalls, [("gmma".to_owned(), 3950.0)]);
        assert_eq!(rows[0].stalls, [("long_sb".to_owned(), 2.0)]);
        assert!(read("\"#\",\"Line\"\n").unwrap_err().contains("Source"));
        assert!(read("nothing").is_err());
    }

    #[test]
    fn the_mix_counts_opcodes_whatever_their_predicate() {
        let mix = mix(&read(SASS).unwrap());
        let words: Vec<(&str, f64)> = mix.iter().map(|(opcode, count)| (opcode.as_str(), *count)).collect();
        assert_eq!(words, [("HGMMA", 16384.0), ("BRA", 2000.0), ("MOV", 1056.0)]);
    }
}
