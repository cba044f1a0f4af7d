//! The table on the simulator, in more than one order of what is asynchronous.

use bsr_codegen::Dtype;
use bsr_runtime::attention::SimulatedAttention;
use bsr_runtime::simulated::{Options, Schedule};
use bsr_runtime::{Element, e4m3};
use half::{bf16, f16};

use crate::table::{self, Case};
use crate::{Operands, plan, wrong};
use crate::{clusters, lists, warps};

pub(crate) fn run(cases: Vec<Case>) {
    let faults: Vec<String> = cases.iter().enumerate().filter_map(|(number, case)| fault(number, case)).collect();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

fn fault(number: usize, case: &Case) -> Option<String> {
    let spec = *plan(case).spec();
    let checked = match (spec.a, spec.out) {
        (Dtype::E4M3, Dtype::BF16) => simulate::<e4m3, bf16>(number, case),
        (Dtype::E4M3, _) => simulate::<e4m3, f16>(number, case),
        (Dtype::BF16, _) => simulate::<bf16, bf16>(number, case),
        _ => simulate::<f16, f16>(number, case),
    };
    checked.err().map(|error| format!("{}, {:?}, {:?}: {error}", case.spec, case.shape, case.mask.sizes()))
}

fn simulate<T: Element, O: Element>(number: usize, case: &Case) -> Result<(), String> {
    let plan = plan(case);
    let ptx = plan.ptx();
    let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap();
    let kernel = kernel.with_ctas([3, 1, 8][number % 3]);
    let operands = Operands::<T>::new(case);
    let schedule = [Schedule::Scrambled, Schedule::Early, Schedule::Late][number / 3 % 3];
    let options = Options { schedule, seed: number as u64, ..Options::default() };
    let run = kernel.run_into::<T, O>(operands.each(), &case.mask, operands.inputs(case), &options);
    let (output, sums, report) = run.map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("{:#?}", report.findings));
    }
    wrong(case, &operands, (&output, &sums)).map(|_| ())
}

#[test]
fn every_block_and_head() {
    run(table::blocks());
}

#[test]
fn operands_of_eight_bits() {
    run(table::eight_bits());
}

#[test]
fn references_that_move() {
    run(table::steep());
}

#[test]
fn every_mask() {
    run(table::patterns());
}

#[test]
fn every_division_of_keys() {
    run(table::divided());
}

#[test]
fn clusters_that_share_a_tile() {
    run(clusters::cases());
}

#[test]
fn lists_in_parameters() {
    run(lists::cases());
}

#[test]
fn heads_that_share_a_tile() {
    run(table::packed());
}

#[test]
fn every_vector_of_a_score() {
    run(table::vectors());
}

#[test]
fn sinks_of_heads() {
    run(table::sinks());
}

#[test]
fn keys_in_pages() {
    run(table::paged());
}

#[test]
fn other_columns_of_q_and_k_than_of_v() {
    run(table::depths());
}

#[test]
fn every_layout_length_and_score() {
    run(table::tensors());
}

#[test]
fn warps_on_every_block_and_head() {
    run(warps::blocks());
}

#[test]
fn warps_on_every_mask() {
    run(warps::patterns());
}

#[test]
fn warps_on_every_layout_and_length() {
    run(warps::tensors());
}

#[test]
fn warps_on_every_score_and_depth() {
    run(warps::scores());
}

#[test]
fn warps_of_every_choice() {
    run(warps::choices());
}
