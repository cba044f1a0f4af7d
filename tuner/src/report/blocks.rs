//! Products that were measured in blocks of several sizes: what each size takes, and which is the fastest.

use std::collections::HashMap;

use serde::Serialize;

use super::picture::{bars, file_of};
use super::summary::Summary;
use super::words;
use crate::groups::{Group, groups};
use crate::{Record, Source, Workload};

/// What cuSPARSE's kernels are called among the baselines.
const CUSPARSE: &str = "cusparse";

/// One product on one device, in blocks of several sizes.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockSizes {
    /// The product in words, without its blocks: `4096 x 4096 x 4096, random:0.125`.
    pub product: String,
    /// What it ran on, in words.
    pub device: String,
    /// What a reader must be told where the times are none of a GPU's.
    pub warning: Option<&'static str>,
    /// The heads of the columns.
    pub head: [&'static str; 7],
    /// One for each size, as they were first measured.
    pub rows: Vec<BlockRow>,
    /// Which size to take and what stands against it, in words.
    pub verdict: String,
}

/// The best kernel of one size.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockRow {
    /// Rows and columns of a block.
    pub block: [usize; 2],
    /// Microseconds of the best kernel.
    pub us: f64,
    /// Times as fast as the faster of cuSPARSE's formats; none where it has no such product or was not timed.
    pub times_cusparse: Option<f64>,
    /// As many cells as heads: `-` where there is nothing to say.
    pub cells: [String; 7],
}

/// The products of which more than one block size was measured, or predicted; each device by itself.
#[doc(hidden)]
pub fn by_block_size(records: &[Record]) -> Vec<BlockSizes> {
    blocks_of(&groups(records, &[]))
}

/// The same as a picture for a document: an SVG that stands on a light and on a dark background. None where no product has
/// several sizes.
#[doc(hidden)]
pub fn block_size_picture(records: &[Record]) -> Option<String> {
    let products = by_block_size(records);
    let first = products.first()?;
    let is_one_device = products.iter().all(|product| product.device == first.device);
    let title = if is_one_device { first.device.clone() } else { "several devices".to_owned() };
    Some(file_of(bars::draw(&products), &["The best kernel of each block size: shorter is faster".to_owned(), title]))
}

pub(super) fn blocks_of(groups: &[Group<'_>]) -> Vec<BlockSizes> {
    let (mut products, mut places) = (Vec::<Vec<&Group<'_>>>::new(), HashMap::new());
    for group in groups.iter().filter(|group| group.winner().is_some()) {
        let place = *places.entry((group.device, in_any_blocks(&group.problem.workload))).or_insert(products.len());
        match products.get_mut(place) {
            Some(members) => members.push(group),
            None => products.push(vec![group]),
        }
    }
    products.iter().filter(|members| members.len() > 1).filter_map(|members| compared(members)).collect()
}

/// The product without its blocks. A pattern of so many blocks a row is another one with blocks of another size.
fn in_any_blocks(workload: &Workload) -> Workload {
    let facts = match &workload.source {
        Source::Pattern(words) if words.starts_with("topk") => workload.facts,
        _ => workload.facts.in_blocks(1, 1),
    };
    Workload { facts, ..workload.clone() }
}

fn compared(members: &[&Group<'_>]) -> Option<BlockSizes> {
    let found: Vec<(BlockRow, Summary<'_, '_>)> = members
        .iter()
        .filter_map(|group| {
            let summary = Summary::of(group);
            Some((row(group, &summary)?, summary))
        })
        .collect();
    let (best, summary) = found.iter().min_by(|a, b| a.0.us.total_cmp(&b.0.us))?;
    let first = members.first()?;
    let [bm, bk] = best.block;
    Some(BlockSizes {
        product: product(first),
        device: words::device(first.device),
        warning: words::warning(first.device.kind),
        head: [
            "block",
            "stored",
            words::microseconds(first.device.kind),
            "TFLOP/s",
            "ratio",
            "times cuSPARSE",
            "best kernel",
        ],
        verdict: format!("{bm} x {bk}; {}", summary.advice.text()),
        rows: found.iter().map(|(row, _)| row.clone()).collect(),
    })
}

fn product(group: &Group<'_>) -> String {
    let Workload { m, n, k, source, .. } = &group.problem.workload;
    let particulars = words::particulars(group.problem);
    let more = if particulars.is_empty() { String::new() } else { format!("; {particulars}") };
    format!("{m} x {n} x {k}, {source}{more}")
}

fn row(group: &Group<'_>, summary: &Summary<'_, '_>) -> Option<BlockRow> {
    let record = summary.winner?.record;
    let us = record.timing.as_ref()?.median_us;
    let (bm, bk) = group.problem.workload.facts.block();
    let (rows, cols) = group.problem.workload.stored_shape();
    let stored = (group.problem.features.nnzb * bm * bk) as f64 / (rows * cols).max(1) as f64;
    let cusparse = summary.alternatives.iter().find(|other| other.name.starts_with(CUSPARSE));
    let times_cusparse = cusparse.map(|other| other.us / us);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let cells = [
        format!("{bm} x {bk}"),
        format!("{:.1} %", 100.0 * stored),
        words::number(us),
        or_dash(summary.tflops.map(words::number)),
        or_dash(summary.ratio.map(words::ratio)),
        or_dash(times_cusparse.map(words::times)),
        record.subject.clone(),
    ];
    Some(BlockRow { block: [bm, bk], us, times_cusparse, cells })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::Pattern;

    use super::*;
    use crate::{DeviceId, DeviceKind, Facts, Timing, TuningProblem, Verdict};

    fn record(block: usize, pattern: &str, subject: &str, us: f64) -> Record {
        let facts: Facts = format!("bm = {block}, bk = {block}").parse().unwrap();
        let workload = Workload { facts, m: 512, n: 512, k: 512, source: Source::Pattern(pattern.to_owned()), seed: 0 };
        let structure = pattern.parse::<Pattern>().unwrap().structure(512, 512, (block, block), 0).unwrap();
        Record {
            problem: TuningProblem::new(workload, &structure),
            subject: subject.replace("BLOCK", &format!("bm = {block}, bn = 64, bk = {block}")),
            baseline: !subject.starts_with("BLOCK"),
            plan: String::new(),
            ptx: String::new(),
            device: DeviceId { kind: DeviceKind::Gpu, name: "a card".to_owned(), driver: "1".to_owned() },
            version: "0".to_owned(),
            verdict: Verdict::Timed,
            error: None,
            predicted_us: None,
            timing: Some(Timing::new(vec![us; 9])),
            dense: None,
            power: None,
            relative_error: None,
            compile_ms: None,
            watchdog_s: None,
            at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn sizes_of_one_product_are_compared_and_the_fastest_is_named() {
        let half = "random:0.5";
        let records = [
            record(64, half, "BLOCK", 20.0),
            record(64, half, "BLOCK, cluster = 2", 10.0),
            record(64, half, "cusparse BSR", 50.0),
            record(64, half, "cusparse Blocked-ELL", 30.0),
            record(64, half, "cublaslt (dense)", 40.0),
            record(32, half, "BLOCK", 15.0),
            record(32, "random:0.1", "BLOCK", 1.0),
            record(64, "topk:2", "BLOCK", 1.0),
            record(32, "topk:2", "BLOCK", 1.0),
        ];
        let found = by_block_size(&records);
        assert_eq!(found.len(), 1, "one density was measured in one size, and so many blocks a row are another matrix");
        let BlockSizes { product, rows, verdict, .. } = &found[0];
        assert_eq!(product, "512 x 512 x 512, random:0.5");
        let times: Vec<_> = rows.iter().map(|row| (row.block, row.us, row.times_cusparse)).collect();
        assert_eq!(times, [([64, 64], 10.0, Some(3.0)), ([32, 32], 15.0, None)]);
        assert!(rows[0].cells[6].ends_with("cluster = 2") && rows[1].cells[5] == "-", "{rows:?}");
        assert_eq!(verdict, "64 x 64; use bsr: 3.0x as fast as cusparse Blocked-ELL, the best other");
    }

    #[test]
    fn a_bar_is_as_long_as_its_time() {
        assert_eq!(block_size_picture(&[record(64, "random:0.5", "BLOCK", 1.0)]), None);
        let records = [record(64, "random:0.5", "BLOCK", 10.0), record(32, "random:0.5", "BLOCK", 20.0)];
        let picture = block_size_picture(&records).unwrap();
        let widths: Vec<f64> = picture
            .split("<rect ")
            .skip(1)
            .map(|rect| rect.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!(widths.len() == 2 && (widths[1] / widths[0] - 2.0).abs() < 1e-3, "{widths:?}");
        assert!(picture.contains("a card, driver 1") && picture.contains("64 x 64"), "{picture}");
    }
}
