//! Attentions: what is attended to, on a GPU and on the simulator, and whether O and LSE are right.

mod gpu;
mod gradient;
mod gradient_gpu;
mod gradient_simulate;
mod kinds;
mod problem;
mod simulate;
mod verify;

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Pattern;
use bsr_runtime::attention::{AttentionError, Shape};
use bsr_runtime::gpu::Device;

use super::{About, Operation, Subject};
use crate::gpu::{OnDevice, Steps};
use crate::kinds::Trial;
use crate::request::{Defaults, Request};
use crate::verify::RowChoice;
use crate::workload::{Facts, Heads, Source, Workload};
use crate::{Failure, Planned, memory};
use gpu::AttentionOperands;
pub use gradient::Backward;
use gradient_gpu::GradientOperands;
use kinds::{AttentionTrial, GradientTrial};
pub use problem::{Problem, expected};
pub use verify::{tolerance, verdict};

pub(super) struct Attentions;

impl Operation for Attentions {
    fn subject_of_request(
        &self,
        request: &Request,
        defaults: Defaults,
        spec: &KernelSpec,
    ) -> Result<Rc<dyn Subject>, Failure> {
        Ok(Rc::new(AttentionSubject::new(request, defaults, spec)?))
    }

    fn subject_of_workload(&self, workload: &Workload) -> Result<Rc<dyn Subject>, Failure> {
        Ok(Rc::new(AttentionSubject(workload.clone())))
    }

    fn kinds(&self, plan: &Plan, seed: u64, count: Option<usize>) -> Result<Vec<Box<dyn Trial>>, Failure> {
        let of_round = |round| kinds_of_round(plan, seed, round);
        let mut all = of_round(0)?;
        let count = count.unwrap_or(all.len());
        for round in 1.. {
            if all.len() >= count {
                break;
            }
            all.extend(of_round(round)?);
        }
        all.truncate(count);
        Ok(all)
    }
}

/// The problems of one round of an attention, or of a part of the gradient of one.
fn kinds_of_round(plan: &Plan, seed: u64, round: usize) -> Result<Vec<Box<dyn Trial>>, AttentionError> {
    fn boxed<T: Trial + 'static>(trials: Vec<T>) -> Vec<Box<dyn Trial>> {
        trials.into_iter().map(|trial| Box::new(trial) as Box<dyn Trial>).collect()
    }
    match plan.spec().op.is_gradient() {
        true => kinds::trials_of_gradient(plan, seed, round).map(boxed),
        false => kinds::trials(plan, seed, round).map(boxed),
    }
}

/// The attention of a workload; blocks and types are those of each kernel.
#[derive(Clone, Debug)]
struct AttentionSubject(Workload);

impl AttentionSubject {
    /// The attention that is requested of a kernel.
    ///
    /// # Errors
    /// Bad input: flags of a product.
    fn new(request: &Request, defaults: Defaults, spec: &KernelSpec) -> Result<Self, Failure> {
        if let Some((flag, why)) = request.flag_of_products() {
            let message = format!("{flag} beside op = {}: {why}\n  help: --m queries, --n keys, --pattern", spec.op);
            return Err(Failure::bad_input(message));
        }
        let (queries, heads) = match defaults {
            Defaults::Gpu => (8192, 16),
            Defaults::Simulator => (500, 2),
        };
        let (queries, heads) = (request.m.unwrap_or(queries), request.heads.unwrap_or(heads));
        let (batch, key_heads) = (request.batch.unwrap_or(1), request.key_heads.unwrap_or(heads));
        let pattern = request.pattern.unwrap_or(Pattern::Random(0.25)).to_string();
        Ok(Self(Workload {
            facts: Facts::of(spec),
            m: queries,
            n: request.n.unwrap_or(queries),
            k: spec.score_depth() as usize,
            source: Source::Mask { pattern, heads: Heads { batch, heads, key_heads } },
            seed: request.seed,
        }))
    }

    /// The attention of a kernel.
    ///
    /// # Errors
    /// Bad input: an attention that does not exist, or does not fit this machine's memory.
    fn problem(&self, spec: &KernelSpec) -> Result<Problem, Failure> {
        let workload = self.workload(spec);
        possible(&workload)?.check(spec.pack_heads)?;
        let (shape, mask) = (workload.shape()?, workload.mask()?);
        let pattern = match &workload.source {
            Source::Mask { pattern, .. } => pattern.clone(),
            source => source.to_string(),
        };
        let mut problem = Problem { seed: workload.seed, ..Problem::new(spec, shape, mask, pattern)? };
        if let Some(packed) = workload.sequences()? {
            problem.set_ranges(spec, &packed);
        }
        Ok(problem)
    }
}

impl Subject for AttentionSubject {
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure> {
        let problem = self.problem(spec)?;
        Ok(About {
            problem: problem.words(),
            name: "mask",
            sparse: problem.mask_words(),
            structure: self.workload(spec).structure()?,
            fill_in: None,
            products: 1,
            flops: if spec.op.is_gradient() { problem.gradient_flops(spec.op) } else { problem.flops() },
            has_dense: false,
        })
    }

    fn source(&self, _spec: &KernelSpec) -> String {
        self.0.source.to_string()
    }

    fn workload(&self, spec: &KernelSpec) -> Workload {
        Workload { facts: Facts::of(spec), k: spec.score_depth() as usize, ..self.0.clone() }
    }

    fn trial(&self, plan: &Plan, _shrinks: bool) -> Result<Box<dyn Trial>, Failure> {
        let problem = self.problem(plan.spec())?;
        Ok(match plan.spec().op.is_gradient() {
            true => Box::new(GradientTrial::new(plan, problem)),
            false => Box::new(AttentionTrial::new(plan, problem)),
        })
    }

    fn on(self: Rc<Self>, device: &Device, rows: RowChoice, steps: &Steps) -> Box<dyn OnDevice> {
        let is_gradient = self.0.facts.op().is_gradient();
        let problem = Box::new(move |planned: &Planned| self.problem(planned.spec()));
        match is_gradient {
            true => Box::new(GradientOperands::new(problem, device, rows, steps)),
            false => Box::new(AttentionOperands::new(problem, device, rows, steps)),
        }
    }
}

/// Makes sure that there is such an attention, and that it fits this machine's memory, before anything is drawn.
fn possible(workload: &Workload) -> Result<Shape, Failure> {
    let shape = workload.shape()?;
    let Shape { batch, heads, key_heads, queries, keys, columns } = shape;
    let dtype = workload.spec().a;
    let elements = |[heads, rows, columns]: [usize; 3]| [batch, heads, rows, columns].map(|size| size as f64);
    let operands = [
        ("Q", [heads, queries, workload.k]),
        ("K", [key_heads, keys, workload.k]),
        ("V", [key_heads, keys, columns]),
        ("O", [heads, queries, columns]),
    ];
    let operands = operands.map(|(name, sizes)| (name, elements(sizes).into_iter().product(), dtype));
    memory::check(&operands, "smaller --m, --n, --heads, --key-heads or --batch")?;
    Ok(shape)
}
