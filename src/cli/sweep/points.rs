//! What is swept: the products, and the points of a space for each.

use std::path::Path;

use bsr::KernelSpec;
use bsr_codegen::emit::fingerprint;
use bsr_trial::subject;
use bsr_tuner::model::{self, predict};
use bsr_tuner::pick::{Gpu, space_for};
use bsr_tuner::search::Strategy;
use bsr_tuner::space::read_facts;
use bsr_tuner::store::Rejection;
use bsr_tuner::sweep::{Job, Searched, SweepPoint};
use bsr_tuner::{Facts, Space, TuningProblem, Workload};

use super::super::exit::Failure;

/// The points of several products, ready to be swept.
pub(super) struct Points {
    pub(super) jobs: Vec<Job>,
    /// Points that are no kernels.
    pub(super) rejected: Vec<Rejection>,
    /// Digest of all points.
    pub(super) digest: String,
}

/// Stands for the space that suits a product.
const AUTO: &str = "auto";

/// The space that `argument` names, or the one that suits the product.
///
/// # Errors
/// Bad input.
fn space(argument: &str, facts: &Facts, gpu: &Gpu) -> Result<Space, Failure> {
    Ok(match argument {
        AUTO => space_for(gpu.capability, facts)?,
        argument => Space::find(argument)?,
    })
}

/// What is multiplied: `--kernel`, or what the space itself says.
///
/// # Errors
/// Bad input.
pub(super) fn facts(space: &str, kernel: Option<&str>) -> Result<Facts, Failure> {
    match kernel {
        Some(text) => Ok(read_facts(text)?),
        None if space != AUTO => Ok(Space::find(space)?.facts()?),
        None => Err(Failure::bad_input(
            "nothing says what is multiplied\n  help: --kernel \"bm = 512, bk = 112\", or a --space with bm and bk in it",
        )),
    }
}

/// The points of every workload, predicted for a GPU in a space that suits it.
///
/// # Errors
/// Bad input: a pattern that cannot be had, a space that contradicts the product.
pub(super) fn read(workloads: &[Workload], argument: &str, strategy: Strategy, gpu: &Gpu) -> Result<Points, Failure> {
    let mut all = Points { jobs: Vec::new(), rejected: Vec::new(), digest: String::new() };
    let mut texts = String::new();
    let (rates, _) = model::for_gpu(&gpu.name, None);
    for workload in workloads {
        let facts = workload.facts;
        let structure = subject::of_workload(workload)?.about(&facts.spec(64))?.structure;
        let problem = TuningProblem::new(workload.clone(), &structure);
        let points = space(argument, &facts, gpu)?.points(&facts)?;
        let key = problem.key();
        let rejection = |(reason, points)| Rejection { problem: key.clone(), reason, points };
        all.rejected.extend(points.reasons().into_iter().map(rejection));
        let predicted = points.legal.iter().map(|point| (point.spec, predict(&point.plan, &problem, &rates).us));
        // A kernel whose tiles take more heads than the problem's groups have cannot run.
        let candidates: Vec<(KernelSpec, f64)> = predicted.filter(|(_, us)| us.is_finite()).collect();
        candidates.iter().for_each(|(spec, _)| texts.push_str(&format!("{spec}\n")));
        let order = Box::new(Searched::new(strategy.search(&candidates)));
        let point = |&(spec, us): &(KernelSpec, f64)| SweepPoint { spec, predicted_us: Some(us) };
        let points = candidates.iter().map(point).collect();
        all.jobs.push(Job { workload: workload.clone(), points, order });
    }
    all.digest = fingerprint(&texts);
    Ok(all)
}

/// The workloads of a list.
///
/// # Errors
/// Bad input: no such list.
pub(super) fn list(name: &Path) -> Result<Vec<Workload>, Failure> {
    bsr_tuner::workloads::find(&name.to_string_lossy()).map_err(Failure::bad_input)
}
