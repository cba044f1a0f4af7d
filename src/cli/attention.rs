//! The kernel of an attention whose spec leaves its choices open: how many heads share a tile, how far its keys are divided.

use bsr::{KernelSpec, Op, Plan};
use bsr_trial::subject::Subject;
use bsr_tuner::pick::{Choice, Gpu, Tuner, Why};
use bsr_tuner::{Facts, TuningProblem};

use super::exit::Failure;
use super::spec::Planned;

/// A kernel is taken in place of the spec's own where it should take less than this part of its time: the model is not more
/// accurate.
const WORTH: f64 = 0.97;

/// The kernel that the cost model takes for a problem, and why, where the spec is of an attention, says nothing but what is
/// computed, and its own kernel should take longer.
///
/// # Errors
/// What planning the kernel answers.
pub(super) fn chosen(spec: &KernelSpec, subject: &dyn Subject, gpu: Gpu) -> Result<Option<(Planned, String)>, Failure> {
    if spec.op != Op::Attention || spec.page.is_some() || Facts::of(spec).spec(spec.bn) != *spec {
        return Ok(None);
    }
    let problem = TuningProblem::new(subject.workload(spec), &subject.about(spec)?.structure);
    // What cannot be chosen is computed by the spec's own kernel.
    let Ok(choice) = Tuner::new(gpu).pick(&problem, None) else { return Ok(None) };
    let Some(words) = words(spec, &choice) else { return Ok(None) };
    let plan = Plan::new(&choice.spec).map_err(Failure::bad_input)?;
    Ok(Some((plan.into(), words)))
}

/// Why another kernel is taken; none where it is not worth it.
fn words(spec: &KernelSpec, choice: &Choice) -> Option<String> {
    let Why::Predicted { ranked } = &choice.why else {
        return (choice.spec != *spec).then(|| format!("{}: tuned for this problem, or one like it", choice.spec));
    };
    let us = |of: &KernelSpec| ranked.iter().find(|ranked| ranked.spec == *of).map(|ranked| ranked.predicted_us);
    let (chosen, own) = (us(&choice.spec)?, us(spec)?);
    (chosen < WORTH * own)
        .then(|| format!("{}: {chosen:.1} us predicted, and {own:.1} us for the spec as it is", choice.spec))
}
