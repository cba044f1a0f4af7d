//! Steps of neighbouring blocks: narrow windows, masks with holes, every place of a step where keys end, heads that share a tile.

use bsr_runtime::attention::{BlockList, Coverage, HeadOrder, HostVector, Mask, Sharing};

use crate::device::device;
use crate::table::{CAUSAL, Case, case, shape};

/// A window of so many keys before a query.
fn window(keys: usize) -> String {
    format!("score = \"|| if i < j {{ -inf }} else if i - j > {keys} {{ -inf }} else {{ s * scale }}\"")
}

pub(crate) fn cases() -> Vec<Case> {
    let packed = "bm = 16, bn = 64, bk = 16, pack_heads = 8, dtype = bf16";
    let mut cases = vec![];
    // One step of 144 keys a tile; ends within a block, before the first one, at the first key.
    for (step, queries) in [(144, 330), (144, 129), (80, 200), (48, 97), (144, 1), (192, 300)] {
        for sinks in ["", ", sinks = on"] {
            let spec = format!("{packed}, k_step = {step}{sinks}, {}", window(127));
            let mask = Mask::window((queries, queries), (16, 16), 127, 0).unwrap();
            cases.push(case(&spec, shape(1, [16, 2], [queries, queries], 64), mask));
        }
    }
    let one = "bm = 16, bn = 64, bk = 16, pack_heads = 4, consumers = 1, k_step = 48, dtype = bf16";
    let spec = format!("{one}, {}", window(40));
    cases.push(case(&spec, shape(2, [8, 2], [150, 170], 64), Mask::window((150, 170), (16, 16), 40, 0).unwrap()));
    // Holes, whole and partial blocks beside each other, rows without blocks; no score, vectors of a score, other types and sizes.
    let by_hash = |i: usize, j: usize| match (7 * i + 13 * j + i * j) % 5 {
        0 | 1 => Coverage::None,
        2 => Coverage::Partial,
        _ => Coverage::Full,
    };
    for keys in [300, 305, 312, 320, 17] {
        let spec = format!("bm = 128, bn = 64, bk = 32, k_step = 128, {CAUSAL}");
        let mask = Mask::by_rule((260, keys), (128, 32), |i, j| by_hash(i.start / 128, j.start / 32)).unwrap();
        cases.push(case(&spec, shape(1, [2, 1], [260, keys], 64), mask));
    }
    for (spec, columns) in [
        ("bm = 128, bn = 128, bk = 16, k_step = 64, dtype = bf16", 128),
        ("bm = 192, bn = 64, bk = 16, k_step = 64, consumers = 3", 64),
        ("bm = 64, bn = 80, bk = 48, k_step = 144, consumers = 1, d = 32", 80),
        ("bm = 64, bn = 64, bk = 32, k_step = 96, consumers = 1, dtype = e4m3, scale = tensor", 64),
        ("bm = 128, bn = 64, bk = 32, k_step = 128, split = 2", 64),
    ] {
        let kernel: bsr_codegen::KernelSpec = format!("op = attention, {spec}").parse().unwrap();
        let block = (kernel.bm as usize, kernel.bk as usize);
        let mask = Mask::random((290, 410), block, 0.5, 3).unwrap();
        cases.push(Case { order: HeadOrder::RowsFirst, ..case(spec, shape(2, [4, 2], [290, 410], columns), mask) });
    }
    let list = BlockList {
        indptr: vec![0, 0, 3, 5],
        indices: vec![0, 2, 12, 3, 4],
        partial: vec![true, false, true, false, true],
    };
    let mask = Mask::new((300, 205), (128, 16), Sharing::All, vec![list]).unwrap();
    let spec = "bm = 128, bn = 64, bk = 16, k_step = 48, score = \"|of_query: Rows<f32>, of_key: Cols<f32>| if of_query == of_key { s * scale } else { -inf }\"";
    let vector = |len: usize| HostVector::from((0..len).map(|at| (at / 50 % 3) as f32).collect::<Vec<f32>>());
    cases.push(Case { vectors: vec![vector(300), vector(205)], ..case(spec, shape(1, [2, 1], [300, 205], 64), mask) });
    cases
}

#[test]
fn simulated() {
    crate::simulated::run(cases());
}

#[test]
fn on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    crate::gpu::run(&device, cases().into_iter());
}
