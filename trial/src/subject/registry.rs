//! The subject of each operation.

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Op, Plan};

use super::attention::Attentions;
use super::product::Products;
use super::sddmm::Sddmms;
use super::spgemm::Spgemms;
use super::{Operation, Subject};
use crate::Failure;
use crate::kinds::Trial;
use crate::request::{Defaults, Request};
use crate::workload::Workload;

fn operation(op: Op) -> &'static dyn Operation {
    match op {
        Op::Dsd | Op::Dds => &Products,
        Op::Sdd => &Sddmms,
        Op::Dss | Op::Sss => &Spgemms,
        Op::Attention | Op::AttentionDq | Op::AttentionDkv => &Attentions,
    }
}

/// The problem that is requested of a kernel's operation.
///
/// # Errors
/// Bad input: flags of another operation, a file that cannot be read.
pub fn requested(request: &Request, defaults: Defaults, spec: &KernelSpec) -> Result<Rc<dyn Subject>, Failure> {
    operation(spec.op).subject_of_request(request, defaults, spec)
}

/// The problem that a workload describes.
///
/// # Errors
/// Bad input: words that name no pattern, a file that cannot be read, a matrix of another program.
pub fn of_workload(workload: &Workload) -> Result<Rc<dyn Subject>, Failure> {
    operation(workload.facts.op()).subject_of_workload(workload)
}

/// One problem of each kind that a kernel has, or `count` problems: beyond one of each kind the kinds come again in other sizes.
///
/// # Errors
/// Sizes beyond 32 bits, which no kernel's blocks lead to.
pub fn trials(plan: &Plan, seed: u64, count: Option<usize>) -> Result<Vec<Box<dyn Trial>>, Failure> {
    operation(plan.spec().op).kinds(plan, seed, count)
}
