//! Tiles whose steps the CTAs of a cluster share, and launches that begin early.

use bsr_runtime::attention::{Coverage, HeadOrder, Mask};

use crate::table::{CAUSAL, Case, case, shape, with_empty_rows};

/// Every size and part of the columns, fewer steps than CTAs and none, sums over Q and beside it, one consumer, two and three, sinks,
/// packed heads, scores, several tiles for each cluster.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for (number, (size, columns, (bm, bk))) in [
        (1, 64, (64, 64)),
        (2, 64, (64, 64)),
        (4, 64, (128, 128)),
        (8, 128, (64, 128)),
        (2, 96, (192, 96)),
        (4, 192, (64, 64)),
        (2, 256, (128, 64)),
        (8, 128, (128, 128)),
        (2, 32, (64, 32)),
    ]
    .into_iter()
    .enumerate()
    {
        let dtype = ["f16", "bf16"][number % 2];
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, cluster = {size}, dtype = {dtype}");
        let mask = Mask::random((150, 460), (bm, bk), 0.5, number as u64).unwrap();
        cases.push(case(&spec, shape(1, [1, 1], [150, 460], columns), mask));
        let mask = Mask::causal(200, 200, (bm, bk)).unwrap();
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
        let spec = format!("{spec}, {CAUSAL}");
        cases.push(Case { order, ..case(&spec, shape(1, [2, 2], [200, 200], columns), mask) });
    }
    for (number, keys) in [
        "cluster = 2",
        "cluster = 4, sinks = on",
        "cluster = 2, pack_heads = 2, sinks = on",
        "cluster = 4, pdl = on",
        "cluster = 2, stages = 2, k_step = 32",
        "cluster = 2, d = 128",
        "cluster = 4, d = 16, dtype = bf16",
    ]
    .into_iter()
    .enumerate()
    {
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
        let spec = format!("bm = 64, bn = 64, bk = 64, {keys}");
        cases.push(Case { order, ..case(&spec, shape(1, [2, 1], [490, 490], 64), with_empty_rows()) });
        let mask = Mask::full((3, 301), (64, 64)).unwrap();
        cases.push(Case { order, steepness: 12.0, ..case(&spec, shape(2, [4, 2], [3, 301], 64), mask) });
    }
    // Queries without a key although they have blocks, in some slices or in all.
    let mask = Mask::by_rule((200, 700), (128, 64), |_, _| Coverage::Partial).unwrap();
    let score = "score = \"|| if i > j + 40 { s * scale } else { -inf }\"";
    for size in [2, 4] {
        let spec = format!("bm = 128, bn = 64, bk = 64, cluster = {size}, dtype = bf16, {score}");
        cases.push(case(&spec, shape(1, [1, 1], [200, 700], 64), mask.clone()));
    }
    // Launches that may begin before the one ahead of them has ended.
    for keys in ["", ", split = 2", ", consumers = 1", ", page = 16"] {
        let lengths = keys.contains("page").then(|| vec![120, 205]);
        let spec = format!("bm = 64, bn = 64, bk = 64, pdl = on{keys}");
        let mask = Mask::full((70, 208), (64, 64)).unwrap();
        cases.push(Case { lengths, ..case(&spec, shape(2, [2, 1], [70, 208], 64), mask) });
    }
    cases
}
