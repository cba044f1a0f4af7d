//! The cases of kernels of `mma = mma_sync`: those of `mma = wgmma` that they have, too, and what they alone have to choose.

use bsr_codegen::spec::Key;
use bsr_codegen::{KernelSpec, Mma};
use bsr_runtime::attention::{HeadOrder, Mask};

use crate::drawn::{ATTENTIONS_OF_WARPS, missing};
use crate::table::{self, CAUSAL, Case, case, shape};

/// Widest head of these kernels.
const WIDEST: u32 = 128;

/// The cases of a table whose keys these kernels have.
fn of_table(cases: Vec<Case>) -> Vec<Case> {
    let own = |case: &Case| {
        let spec: KernelSpec = format!("op = attention, {}", case.spec).parse().unwrap();
        // Products of theirs have `split`.
        let is_foreign = |key: Key| key == Key::Split || !key.instructions().contains(&Mma::MmaSync);
        let foreign = Key::ALL.into_iter().any(|key| spec.says(key) && is_foreign(key));
        !foreign && spec.bn.max(spec.score_depth()) <= WIDEST
    };
    let with = |case: Case| Case { spec: format!("{}, mma = mma_sync", case.spec), ..case };
    cases.into_iter().filter(own).map(with).collect()
}

pub(crate) fn blocks() -> Vec<Case> {
    of_table(table::blocks())
}

pub(crate) fn patterns() -> Vec<Case> {
    of_table(table::patterns())
}

pub(crate) fn tensors() -> Vec<Case> {
    of_table(table::tensors())
}

pub(crate) fn scores() -> Vec<Case> {
    of_table([table::vectors(), table::sinks(), table::depths(), table::steep()].into_iter().flatten().collect())
}

/// Every multiple of 16 columns, for a GPU.
pub(crate) fn all_columns() -> Vec<Case> {
    of_table(table::all_columns())
}

/// What the plan else chooses: rows of a CTA, keys of a step, stages, the architecture whose shared memory it is for.
pub(crate) fn choices() -> Vec<Case> {
    let mut cases = vec![];
    let keys = [
        "cta_m = 64, stages = 8, arch = sm_80",
        "cta_m = 128, k_step = 16, arch = sm_86",
        "k_step = 32, stages = 2, arch = sm_89, dtype = bf16",
        "k_step = 128, arch = sm_90a",
        "cta_m = 64, k_step = 64, stages = 3, arch = sm_120, dtype = bf16",
        "maxnreg = 255, opt_level = 3, out = bf16, dtype = bf16",
    ];
    for (number, keys) in keys.into_iter().enumerate() {
        let columns = [64, 128, 48, 32, 96, 80][number];
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
        let spec = |more: &str| format!("bm = 128, bn = {columns}, bk = 128, mma = mma_sync, {keys}{more}");
        let mask = Mask::random((333, 645), (128, 128), 0.6, 5).unwrap();
        cases.push(Case { order, ..case(&spec(""), shape(2, [2, 1], [333, 645], columns), mask) });
        let mask = Mask::causal(200, 200, (128, 128)).unwrap();
        let spec = spec(&format!(", {CAUSAL}"));
        cases.push(Case { order, ..case(&spec, shape(1, [3, 1], [200, 200], columns), mask) });
    }
    cases
}

#[test]
fn every_value_of_every_key_is_drawn() {
    let tables = [blocks(), patterns(), tensors(), scores(), choices()];
    let parse = |case: &Case| format!("op = attention, {}", case.spec).parse().unwrap();
    let missing = missing(&ATTENTIONS_OF_WARPS, tables.iter().flatten().map(parse));
    assert!(missing.is_empty(), "{} values are in no row:\n{}", missing.len(), missing.join("\n"));
}
