//! Products and SDDMMs.

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::gpu::Device;

use super::{About, Subject};
use crate::Failure;
use crate::gpu::{OnDevice, Operands, Steps};
use crate::kinds::{ProductTrial, Trial};
use crate::problem::DrawnProblem;
use crate::verify::RowChoice;
use crate::workload::{Facts, Workload};

impl Subject for DrawnProblem {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        let (facts, products) = (self.facts(spec)?, self.products(spec));
        Ok(About {
            problem: self.words(spec),
            name: facts.name,
            sparse: self.sparse_words(&facts),
            products,
            flops: products as u64 * facts.structure.executed_flops(self.sizes(spec).along),
            fill_in: facts.fill_in,
            structure: facts.structure,
        })
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        self.workload_of(&Facts::of(spec))
    }

    fn trial(&self, plan: &Plan, shrinks: bool) -> Result<Box<dyn Trial>, Failure> {
        Ok(Box::new(ProductTrial::of(self, plan, shrinks)?))
    }

    fn on(self: Rc<Self>, device: &Device, rows: RowChoice, steps: &Steps) -> Box<dyn OnDevice> {
        Box::new(Operands::new(&self, device, rows, steps))
    }
}
