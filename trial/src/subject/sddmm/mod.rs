//! SDDMMs: the stored blocks of a product of two dense matrices.

mod gpu;
mod inputs;
mod simulate;

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Extents;
use bsr_runtime::gpu::Device;

use super::{About, Operation, Subject};
use crate::Failure;
use crate::gpu::{OnDevice, OnProducts, Operands, Steps};
use crate::kinds::{Of, ProductTrial, Trial};
use crate::problem::DrawnProblem;
use crate::request::{Defaults, Request};
use crate::verify::RowChoice;
use crate::workload::Workload;

pub(super) struct Sddmms;

const SDDMM: Of = Of { words, draw: simulate::draw };

/// The product in words.
fn words(spec: &KernelSpec, Extents { m, n, k }: Extents) -> String {
    match spec.transpose.is_on() {
        true => format!("C[{n}, {m}]^T = A[{m}, {k}] * B[{k}, {n}], C^T sparse"),
        false => format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], C sparse"),
    }
}

impl Operation for Sddmms {
    fn subject_of_request(
        &self,
        request: &Request,
        defaults: Defaults,
        spec: &KernelSpec,
    ) -> Result<Rc<dyn Subject>, Failure> {
        let problem = DrawnProblem::new(request, defaults, (spec.bm as usize, spec.bk as usize))?;
        Ok(Rc::new(SddmmSubject(Rc::new(problem))))
    }

    fn subject_of_workload(&self, workload: &Workload) -> Result<Rc<dyn Subject>, Failure> {
        Ok(Rc::new(SddmmSubject(Rc::new(DrawnProblem::of_workload(workload)?))))
    }

    fn kinds(&self, plan: &Plan, _seed: u64, count: Option<usize>) -> Result<Vec<Box<dyn Trial>>, Failure> {
        ProductTrial::all(plan, count, SDDMM)
    }
}

/// An SDDMM; its sizes, pattern and words are those of a product whose C is sparse.
struct SddmmSubject(Rc<DrawnProblem>);

impl Subject for SddmmSubject {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        Ok(About { problem: words(spec, self.0.sizes(spec).extents()), ..self.0.about(spec)? })
    }

    fn source(&self, spec: &KernelSpec) -> String {
        self.0.source(spec)
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        self.0.workload(spec)
    }

    fn trial(&self, plan: &Plan, shrinks: bool) -> Result<Box<dyn Trial>, Failure> {
        Ok(Box::new(ProductTrial::of(&self.0, plan, shrinks, SDDMM)?))
    }

    fn on(self: Rc<Self>, device: &Device, rows: RowChoice, steps: &Steps) -> Box<dyn OnDevice> {
        Box::new(OnProducts { operands: Operands::new(&self.0, device, rows, steps), build: gpu::build })
    }
}
