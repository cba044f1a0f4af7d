//! Products of two block-sparse matrices, with a dense result or one in blocks.

mod factors;
mod gpu;
mod patterns;
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
use crate::workload::{Facts, Workload};
use patterns::Patterns;

pub(super) struct Spgemms;

const SPGEMM: Of = Of { words, draw: simulate::draw };

/// The product in words.
fn words(spec: &KernelSpec, Extents { m, n, k }: Extents) -> String {
    let sparse = if spec.op.stores_blocks() { "A, B and C sparse" } else { "A and B sparse" };
    format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], {sparse}")
}

impl Operation for Spgemms {
    fn subject_of_request(
        &self,
        request: &Request,
        defaults: Defaults,
        spec: &KernelSpec,
    ) -> Result<Rc<dyn Subject>, Failure> {
        let problem = DrawnProblem::new(request, defaults, (spec.bm as usize, spec.bk as usize))?;
        Ok(Rc::new(SpgemmSubject(Rc::new(problem))))
    }

    fn subject_of_workload(&self, workload: &Workload) -> Result<Rc<dyn Subject>, Failure> {
        Ok(Rc::new(SpgemmSubject(Rc::new(DrawnProblem::of_workload(workload)?))))
    }

    fn kinds(&self, plan: &Plan, _seed: u64, count: Option<usize>) -> Result<Vec<Box<dyn Trial>>, Failure> {
        ProductTrial::all(plan, count, SPGEMM)
    }
}

/// A product of two block-sparse matrices: A is that of a product with a dense B, and B has as large a part of its blocks.
struct SpgemmSubject(Rc<DrawnProblem>);

impl Subject for SpgemmSubject {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        let (sizes, about) = (self.0.sizes(spec), self.0.about(spec)?);
        let patterns = Patterns::of_density(spec, &about.structure, sizes.n, self.0.seed)?;
        let [blocks, all] = [patterns.b.nnzb(), patterns.b.block_rows() * patterns.b.block_cols()];
        let (bk, bn) = patterns.b.block();
        let pairs = patterns.pairs(&about.structure)?;
        Ok(About {
            problem: words(spec, sizes.extents()),
            sparse: format!("{}; of B {blocks} of {all} blocks of {bk} x {bn}, {pairs} pairs", about.sparse),
            flops: 2 * patterns::multiplications(spec, pairs),
            ..about
        })
    }

    fn source(&self, spec: &KernelSpec) -> String {
        self.0.source(spec)
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        self.0.workload_of(&Facts::of(spec))
    }

    fn trial(&self, plan: &Plan, shrinks: bool) -> Result<Box<dyn Trial>, Failure> {
        Ok(Box::new(ProductTrial::of(&self.0, plan, shrinks, SPGEMM)?))
    }

    fn on(self: Rc<Self>, device: &Device, rows: RowChoice, steps: &Steps) -> Box<dyn OnDevice> {
        Box::new(OnProducts { operands: Operands::new(&self.0, device, rows, steps), build: gpu::build })
    }
}
