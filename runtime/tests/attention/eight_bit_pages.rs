//! Pages of K and V of 8 bits: pages of every size beside steps of every size, lengths that end within a group of 16 keys, factors, scores,
//! sinks, heads that share a tile, divided keys.

use bsr_runtime::attention::{Coverage, HeadOrder, Mask};

use crate::device::device;
use crate::table::{CAUSAL, Case, case, shape};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let specs = [
        ("bm = 64, bn = 64, bk = 128, page = 32", HeadOrder::HeadsFirst),
        ("bm = 128, bn = 128, bk = 128, page = 64, scale = tensor", HeadOrder::RowsFirst),
        ("bm = 64, bn = 64, bk = 128, page = 128, pack_heads = 4, split = auto, scale = tensor", HeadOrder::HeadsFirst),
        ("bm = 64, bn = 96, bk = 128, page = 256, k_step = 64, scale = tensor, sinks = on", HeadOrder::RowsFirst),
        ("bm = 64, bn = 64, bk = 64, page = 256, k_step = 32, consumers = 1", HeadOrder::HeadsFirst),
    ];
    for (spec, order) in specs {
        for (lengths, score) in [([300_usize, 1, 77], false), ([0, 129, 512], true)] {
            let page: usize =
                spec.split("page = ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap();
            let columns = if spec.contains("bn = 128") {
                128
            } else if spec.contains("bn = 96") {
                96
            } else {
                64
            };
            let spec = if score { format!("{spec}, {CAUSAL}") } else { spec.to_owned() };
            let keys = lengths.into_iter().max().unwrap().next_multiple_of(page);
            let kernel: bsr_codegen::KernelSpec = format!("op = attention, {spec}").parse().unwrap();
            let coverage = if score { Coverage::Partial } else { Coverage::Full };
            let block = (kernel.bm as usize, kernel.bk as usize);
            let mask = Mask::by_rule((70, keys), block, |_, _| coverage).unwrap();
            let of = case(&format!("{spec}, dtype = e4m3"), shape(3, [8, 2], [70, keys], columns), mask);
            cases.push(Case { order, lengths: Some(lengths.to_vec()), ..of });
        }
    }
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
