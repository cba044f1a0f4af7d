//! Which kernel to take for a problem: what was measured for it, for one like it, or what the cost model says.
//!
//! In this order, and the [`Choice`] says which it was:
//!
//! 1. what the program [overrides](Tuner::overridden);
//! 2. an **exact hit**: the same facts, shape and class of pattern were tuned on this GPU and driver, or the same with f16 for
//!    bf16 or bf16 for f16, whose elements are as large and as fast;
//! 3. a **near hit**: the same facts and class of pattern, and a shape of the same [bucket](near::Bucket), the nearest: of its
//!    kernels the one that should be the fastest here, by its time there and by how the cost model tells the two apart;
//! 4. the **prediction**.
//!
//! With [`FirstUse::Measure`] and something that measures, the likeliest few by 3 or 4 are timed, and the fastest is taken.
//!
//! Of [variants](Tuner::variant) with different priorities only the highest that can be planned are looked at.
//! What was chosen once is remembered: the second answer for a pattern takes less than a microsecond.

mod choice;
mod gpu;
mod loss;
mod near;
mod remembered;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bsr_codegen::{Arch, KernelSpec, Mma, Plan, Refusal, Target, target_runs_on};
use bsr_runtime::gpu::Device;
use rayon::prelude::*;

use crate::model::{self, Card, Known, predict};
use crate::problem::twin;
use crate::space::Space;
use crate::{Facts, SpaceError, TuningProblem, operation};
pub use choice::{Choice, Ranked, Why};
pub use gpu::Gpu;
#[doc(hidden)]
pub use loss::{Chosen, EfficiencyLoss, Sorted, efficiency_losses};
#[doc(hidden)]
pub use near::Bucket;
use remembered::Remembered;
#[doc(hidden)]
pub use table::{LeftOut, left_out};
pub use table::{Other, Table, Tuned};

/// What to do for a problem that nothing is known of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FirstUse {
    /// Take what is predicted to be the fastest: no delay beyond planning.
    #[default]
    Predict,
    /// Time a few on the operands at hand, and remember the fastest.
    Measure,
}

impl std::str::FromStr for FirstUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "predict" => Ok(Self::Predict),
            "measure" => Ok(Self::Measure),
            other => Err(format!("first_use is `predict` or `measure`, not `{other}`")),
        }
    }
}

/// How many of the fastest by prediction are measured.
pub const MEASURED: usize = 8;

/// Kernels that took longer by this factor for one problem are not looked at for another.
const CARRIED_OVER: f64 = 1.25;

/// A kernel that a program offers, and how much it wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    spec: KernelSpec,
    priority: i32,
}

/// Times kernels on the operands of a problem, and checks them: microseconds for each, or why it has none.
pub type Measure<'m> = dyn FnMut(&[KernelSpec]) -> Vec<Result<f64, String>> + 'm;

/// Chooses kernels for one GPU. Threads may share it.
#[derive(Debug)]
pub struct Tuner {
    gpu: Gpu,
    card: Card,
    known: Known,
    table: Table,
    first_use: FirstUse,
    variants: Vec<Variant>,
    overrides: Vec<KernelSpec>,
    remembered: Remembered,
    cache: RwLock<HashMap<Key, Arc<CacheEntry>>>,
}

/// A choice that is made once.
#[derive(Debug, Default)]
struct CacheEntry {
    chosen: OnceLock<Arc<Choice>>,
    making: Mutex<()>,
}

/// What a remembered choice is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    facts: Facts,
    shape: (usize, usize, usize),
    pattern: [u8; 16],
}

impl Tuner {
    /// A tuner for a device. A card that nothing is known of but its data sheet is measured in about a second, once for all
    /// programs of this user, unless the variable `BSR_CALIBRATE` is `off`.
    pub fn on(device: &Device) -> Self {
        model::at_first_use(device);
        Self::new(Gpu::from(device.info()))
    }

    /// A tuner with the table that comes with this crate.
    pub fn new(gpu: Gpu) -> Self {
        let ((card, known), table) = (model::for_gpu(&gpu.name, None), Table::shipped().clone());
        Self {
            gpu,
            card,
            known,
            table,
            first_use: FirstUse::default(),
            variants: Vec::new(),
            overrides: Vec::new(),
            remembered: Remembered::default(),
            cache: RwLock::default(),
        }
    }

    /// Adds what was tuned elsewhere. Of two entries for one problem the faster counts.
    #[must_use]
    pub fn with(mut self, table: Table) -> Self {
        self.table.extend(table);
        self
    }

    /// What to do for a problem that nothing is known of.
    #[must_use]
    pub fn first_use(mut self, first_use: FirstUse) -> Self {
        self.first_use = first_use;
        self
    }

    /// Offers a kernel. As soon as there is a variant with the facts of a problem, only variants are chosen for it: of those
    /// that can be planned, the ones with the highest priority.
    #[must_use]
    pub fn variant(mut self, spec: KernelSpec, priority: i32) -> Self {
        self.variants.push(Variant { spec, priority });
        self
    }

    /// Always this kernel for problems with its facts.
    #[must_use]
    pub fn overridden(mut self, spec: KernelSpec) -> Self {
        self.overrides.push(spec);
        self
    }

    /// The GPU that is chosen for.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// What was tuned.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The kernel for a problem whose pattern has this digest. Made once for each problem and pattern, whichever thread is
    /// first; `problem` is called only then.
    ///
    /// # Errors
    /// [`PickError`] where no kernel can be planned.
    pub fn choose(
        &self,
        (facts, shape, pattern): (Facts, (usize, usize, usize), [u8; 16]),
        problem: impl FnOnce() -> TuningProblem,
        measure: Option<&mut Measure<'_>>,
    ) -> Result<Arc<Choice>, PickError> {
        let key = Key { facts, shape, pattern };
        let known = self.cache.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(choice) = known.as_ref().and_then(|entry| entry.chosen.get()) {
            return Ok(Arc::clone(choice));
        }
        let entry = known.unwrap_or_else(|| {
            let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cache.entry(key).or_default())
        });
        // One thread makes the choice, and may take its time: others wait for it here.
        let _making = entry.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(choice) = entry.chosen.get() {
            return Ok(Arc::clone(choice));
        }
        let choice = Arc::new(self.pick(&problem(), measure)?);
        Ok(Arc::clone(entry.chosen.get_or_init(|| choice)))
    }

    /// The kernel for a problem, not remembered.
    ///
    /// # Errors
    /// As [`Tuner::choose`].
    pub fn pick(&self, problem: &TuningProblem, measure: Option<&mut Measure<'_>>) -> Result<Choice, PickError> {
        self.check_environment()?;
        let facts = problem.workload.facts;
        if let Some(spec) = self.overrides.iter().rev().find(|spec| Facts::of(spec) == facts) {
            return Ok(self.choice(problem, *spec, Why::Overridden));
        }
        let offered = self.offered(&facts)?;
        self.among(problem, offered, measure)
    }

    /// The kernel for a problem, of these alone: a choice among the members of a family, say.
    ///
    /// # Errors
    /// [`PickError::NoKernel`] where none of them has the problem's facts and can be planned.
    pub fn pick_of(&self, problem: &TuningProblem, offered: &[KernelSpec]) -> Result<Choice, PickError> {
        let facts = problem.workload.facts;
        let of_facts = offered.iter().filter(|spec| Facts::of(spec) == facts);
        let plans: Vec<Plan> = of_facts.filter_map(|spec| self.plan(spec)).collect();
        if plans.is_empty() {
            return Err(no_variant(&facts).into());
        }
        self.among(problem, Some(plans), None)
    }

    fn among(
        &self,
        problem: &TuningProblem,
        offered: Option<Vec<Plan>>,
        measure: Option<&mut Measure<'_>>,
    ) -> Result<Choice, PickError> {
        let is_offered =
            |spec: &KernelSpec| offered.as_ref().is_none_or(|plans| plans.iter().any(|p| p.spec() == spec));
        // What was tuned with the other 16-bit type counts as well.
        let other = problem.twin();
        let is_of_twin = |spec: &KernelSpec| self.plan(&twin(*spec)).is_some_and(|plan| is_offered(plan.spec()));
        let exact = self.table.exact(problem, &self.gpu, is_offered).cloned();
        let of_twin = || Some(self.table.exact(other.as_ref()?, &self.gpu, is_of_twin)?.twin());
        if let Some(tuned) = exact.or_else(of_twin) {
            return Ok(self.choice(problem, tuned.spec, Why::Exact(Box::new(tuned))));
        }
        let measure = measure.filter(|_| self.first_use == FirstUse::Measure);
        let near = self.table.near(problem, &self.gpu, is_offered).map(|(tuned, distance)| (tuned.clone(), distance));
        let of_twin = || {
            let (tuned, distance) = self.table.near(other.as_ref()?, &self.gpu, is_of_twin)?;
            Some((tuned.twin(), distance))
        };
        if let Some((tuned, distance)) = near.or_else(of_twin)
            && let ranked = self.carried_over(problem, &tuned, is_offered)
            && let Some(Ranked { spec, predicted_us: us }) = ranked.first().copied()
        {
            return match measure {
                Some(measure) => self.measured(problem, ranked, measure),
                None => Ok(self.choice(problem, spec, Why::Near { tuned: Box::new(tuned), distance, us })),
            };
        }
        let ranked = self.ranked(problem, offered)?;
        match measure {
            Some(measure) => self.measured(problem, ranked, measure),
            None => Ok(self.choice(problem, ranked[0].spec, Why::Predicted { ranked })),
        }
    }

    fn choice(&self, problem: &TuningProblem, spec: KernelSpec, why: Why) -> Choice {
        let dense_us = self.card.dense_us_of(problem);
        Choice { spec, why, problem: problem.clone(), dense_us, known: self.known }
    }

    /// The kernels that were timed for another problem, with the times that they should have for this one; the fastest first.
    fn carried_over(
        &self,
        problem: &TuningProblem,
        tuned: &Tuned,
        offered: impl Fn(&KernelSpec) -> bool,
    ) -> Vec<Ranked> {
        let here = |(spec, us): (KernelSpec, f64)| {
            let plan = self.plan(&spec)?;
            let [there, here] = [&tuned.problem, problem].map(|problem| predict(&plan, problem, &self.card).us);
            Some(Ranked { spec, predicted_us: us * here / there })
        };
        let is_good = |us: f64| us <= CARRIED_OVER * tuned.us;
        let kernels = tuned.kernels().filter(|(spec, us)| is_good(*us) && offered(spec)).filter_map(here);
        sorted(kernels.collect())
    }

    /// The variants that may be chosen, if there are any for these facts.
    fn offered(&self, facts: &Facts) -> Result<Option<Vec<Plan>>, PickError> {
        let mut of_facts: Vec<&Variant> = self.variants.iter().filter(|v| Facts::of(&v.spec) == *facts).collect();
        if of_facts.is_empty() {
            return Ok(None);
        }
        of_facts.sort_by_key(|variant| std::cmp::Reverse(variant.priority));
        let mut plans = Vec::new();
        let mut lowest = i32::MIN;
        for variant in of_facts {
            if !plans.is_empty() && variant.priority < lowest {
                break;
            }
            if let Some(plan) = self.plan(&variant.spec) {
                lowest = variant.priority;
                plans.push(plan);
            }
        }
        if plans.is_empty() { Err(no_variant(facts).into()) } else { Ok(Some(plans)) }
    }

    /// A plan that runs on the GPU.
    fn plan(&self, spec: &KernelSpec) -> Option<Plan> {
        Plan::new(spec).ok().filter(|plan| self.runs(plan))
    }

    /// The GPU runs the code, and has the shared memory.
    fn runs(&self, plan: &Plan) -> bool {
        let has_room = |arch: &Arch| plan.shared_bytes() <= arch.shared_bytes;
        target_runs_on(plan.arch().target, self.gpu.capability).unwrap_or(true)
            && Arch::of_gpu(self.gpu.capability).is_none_or(has_room)
    }

    /// All that may be chosen, the fastest by prediction first. Never empty.
    fn ranked(&self, problem: &TuningProblem, offered: Option<Vec<Plan>>) -> Result<Vec<Ranked>, PickError> {
        let facts = problem.workload.facts;
        let plans = match offered {
            Some(plans) => plans,
            None => {
                let points = space_for(self.gpu.capability, &facts)?.points(&facts);
                let points = points.map_err(|error| self.no_kernel(&facts).map_or(error.into(), PickError::from))?;
                let mut plans: Vec<Plan> =
                    points.legal.into_iter().map(|point| point.plan).filter(|plan| self.runs(plan)).collect();
                let mut known: HashSet<String> = plans.iter().map(Plan::digest).collect();
                let others = self.table.of_other_cards(&facts, &self.gpu).filter_map(|spec| self.plan(&spec));
                plans.extend(others.filter(|plan| known.insert(plan.digest())));
                plans
            }
        };
        let of = |plan: &Plan| Ranked { spec: *plan.spec(), predicted_us: predict(plan, problem, &self.card).us };
        let can_run = |ranked: &Ranked| ranked.predicted_us.is_finite();
        let ranked = sorted(plans.par_iter().map(of).filter(can_run).collect());
        if ranked.is_empty() {
            let space = space_for(self.gpu.capability, &facts)?;
            let help = format!("`bsr space {} --kernel \"{facts}\"` says why", space.name());
            let refusal = || unplanned("kernel", &facts).help(help);
            return Err(self.no_kernel(&facts).unwrap_or_else(refusal).into());
        }
        Ok(ranked)
    }

    /// The refusal of facts that `mma_sync` does not have on a GPU that is no Hopper, with the reason.
    fn no_kernel(&self, facts: &Facts) -> Option<Refusal> {
        let own = Target::of_gpu(self.gpu.capability).filter(|own| *own != Target::Sm90a)?;
        let errors = Plan::new(&facts.spec(64).mma(Mma::MmaSync).arch(own)).err()?;
        let why = errors.iter().next()?.to_string().replace("\n  ", ": ");
        let help = "docs/src/which-gpu.md lists what each GPU has";
        Some(unplanned("kernel", facts).why(why).help(help))
    }

    /// The fastest of the likeliest, as measured.
    fn measured(
        &self,
        problem: &TuningProblem,
        ranked: Vec<Ranked>,
        measure: &mut Measure<'_>,
    ) -> Result<Choice, PickError> {
        let specs: Vec<KernelSpec> = ranked.iter().take(MEASURED).map(|ranked| ranked.spec).collect();
        let times = measure(&specs);
        self.remember(problem, &specs, &times)?;
        let fastest = specs.iter().zip(&times).filter_map(|(spec, us)| Some((*spec, *us.as_ref().ok()?)));
        match fastest.min_by(|x, y| x.1.total_cmp(&y.1)) {
            Some((spec, us)) => Ok(self.choice(problem, spec, Why::Measured { us, of: specs.len() })),
            None => {
                let why = times.into_iter().find_map(Result::err).unwrap_or_else(|| "nothing was timed".to_owned());
                Err(PickError::Measured { of: specs.len(), why })
            }
        }
    }
}

fn sorted(mut ranked: Vec<Ranked>) -> Vec<Ranked> {
    ranked.sort_by(|x, y| x.predicted_us.total_cmp(&y.predicted_us));
    ranked
}

/// The space that comes with this crate for a GPU of this compute capability and a product with these facts: for another GPU
/// than a Hopper, of kernels planned for its own architecture.
///
/// # Errors
/// None that is known: the spaces are there.
pub fn space_for(capability: (u32, u32), facts: &Facts) -> Result<Space, SpaceError> {
    let is_hopper = capability.0 == 9;
    let space = Space::named(operation::of(facts.op()).space(is_hopper, &facts.spec(64)))?;
    Ok(match Target::of_gpu(capability).filter(|_| !is_hopper) {
        Some(own) => space.on(own),
        None => space,
    })
}

fn unplanned(what: &str, facts: &Facts) -> Refusal {
    Refusal::new(format!("no {what} for `{facts}` can be planned for this GPU"))
}

fn no_variant(facts: &Facts) -> Refusal {
    unplanned("variant", facts).help("offer another, or none, to search the whole space")
}

/// Why there is no kernel for a problem.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// Nothing in the space can be planned, or none of the variants there are; or a file that remembers cannot be used.
    #[error(transparent)]
    NoKernel(#[from] Refusal),
    /// The space says something else than the facts.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// None of the kernels that were tried ran and was right.
    #[error("none of {of} kernels could be measured\n  the first: {why}")]
    Measured {
        /// How many were tried.
        of: usize,
        /// What became of the first.
        why: String,
    },
}

bsr_codegen::message_as_debug!(PickError);
