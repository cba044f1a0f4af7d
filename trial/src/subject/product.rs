//! Products of a sparse and a dense matrix.

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Op, Plan};
use bsr_runtime::Extents;
use bsr_runtime::gpu::{Device, DeviceDense, DeviceVector};
use bsr_runtime::typed::{Number, Typed, with_types};

use super::{About, Operation, Subject};
use crate::gpu::{Case, Multiplied, OnDevice, OnProducts, Operands, Product, Steps};
use crate::kinds::{Draw, Member, Of, ProductTrial, Trial};
use crate::problem::{DrawnProblem, inputs, scales};
use crate::request::{Defaults, Request};
use crate::simulate::{Drawn, product};
use crate::verify::{RowChoice, Rows};
use crate::workload::{Facts, Workload};
use crate::{Failure, Planned};

pub(super) struct Products;

const PRODUCT: Of = Of { words, draw };

/// The product in words.
fn words(spec: &KernelSpec, Extents { m, n, k }: Extents) -> String {
    match (spec.op == Op::Dds, spec.transpose.is_on()) {
        (false, true) => format!("C[{m}, {n}] = A[{k}, {m}]^T * B[{k}, {n}]"),
        (false, false) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}]"),
        (true, true) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{n}, {k}]^T, B sparse"),
        (true, false) => format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], B sparse"),
    }
}

impl Operation for Products {
    fn subject_of_request(
        &self,
        request: &Request,
        defaults: Defaults,
        spec: &KernelSpec,
    ) -> Result<Rc<dyn Subject>, Failure> {
        Ok(Rc::new(DrawnProblem::new(request, defaults, (spec.bm as usize, spec.bk as usize))?))
    }

    fn subject_of_workload(&self, workload: &Workload) -> Result<Rc<dyn Subject>, Failure> {
        Ok(Rc::new(DrawnProblem::of_workload(workload)?))
    }

    fn kinds(&self, plan: &Plan, _seed: u64, count: Option<usize>) -> Result<Vec<Box<dyn Trial>>, Failure> {
        ProductTrial::all(plan, count, PRODUCT)
    }
}

impl Subject for DrawnProblem {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        let (facts, products) = (self.facts(spec)?, self.products(spec));
        Ok(About {
            problem: words(spec, self.sizes(spec).extents()),
            name: facts.name,
            sparse: self.sparse_words(&facts),
            products,
            flops: products as u64 * facts.structure.executed_flops(self.sizes(spec).along),
            fill_in: facts.fill_in,
            structure: facts.structure,
            has_dense: true,
        })
    }

    fn source(&self, spec: &KernelSpec) -> String {
        self.source_words(spec)
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        self.workload_of(&Facts::of(spec))
    }

    fn trial(&self, plan: &Plan, shrinks: bool) -> Result<Box<dyn Trial>, Failure> {
        Ok(Box::new(ProductTrial::of(self, plan, shrinks, PRODUCT)?))
    }

    fn on(self: Rc<Self>, device: &Device, rows: RowChoice, steps: &Steps) -> Box<dyn OnDevice> {
        Box::new(OnProducts { operands: Operands::new(&self, device, rows, steps), build })
    }
}

fn build(operands: &mut Operands, planned: Planned) -> Result<Case, Failure> {
    let spec = *planned.spec();
    with_types(&spec, Build(operands, planned))
}

struct Build<'b>(&'b mut Operands, Planned);

impl Typed for Build<'_> {
    type Output = Case;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Case, Failure> {
        let Self(operands, planned) = self;
        let spec = *planned.spec();
        let launcher = operands.launcher(&planned)?;
        let (left, right) = (operands.left::<A, B>(&spec)?, operands.right::<B>(&spec)?);
        let (m, n) = operands.rows_and_columns(&spec);
        let c = DeviceDense::<C>::zeros(operands.device(), m, n, spec.c_layout)?;
        let reduction = spec.epilogue.and_then(|epilogue| epilogue.program().reduction());
        let second = reduction.map(|_| DeviceVector::zeros(operands.device(), c.rows())).transpose()?;
        let (nnzb, expected) = (left.a.nnzb(), left.expected.clone());
        let launch = Box::new(Product { launcher, left, right, c, second });
        Ok(operands.case_of(planned, Multiplied { nnzb, products: None, expected, launch }))
    }
}

fn draw(trial: &ProductTrial, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure> {
    with_types(&trial.spec, Values(Draw { trial, rows }))
}

struct Values<'t>(Draw<'t>);

impl Typed for Values<'_> {
    type Output = Box<dyn Drawn>;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Box<dyn Drawn>, Failure> {
        let (draw, trial) = (&self.0, self.0.trial);
        let spec = trial.spec;
        let drawn = |member: &Member| {
            let extents = member.extents(&spec);
            let b = draw.second::<B>(extents.dense(spec.op), member);
            let scales = scales::<A, B>(spec.scale, &member.structure, member.n, member.seed)?;
            let order = trial.requested.as_ref().and_then(|problem| problem.row_order());
            let inputs = inputs(&spec, (extents.m, extents.n), order, member.seed).scales(scales);
            let rows = Rows::choose(&spec, &member.structure, (extents.m, member.n), draw.rows);
            product::Operands::new(&spec, draw.blocks::<A>(member)?, b, inputs, rows)
        };
        let problems = trial.members.iter().map(drawn).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(product::Problems::<A, B, C>::new(problems)))
    }
}
