//! The nearest points that cannot be planned: one key a step beyond a kernel's, with the planner's arithmetic.

use bsr_codegen::spec::Key;
use bsr_codegen::{KernelSpec, Mma, Plan};
use serde::Serialize;

use crate::Facts;

/// A point next to a kernel, and why it is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in super::super) struct Refused {
    /// `stages = 5`.
    pub(in super::super) change: String,
    /// The fact, the arithmetic and the remedy.
    pub(in super::super) why: String,
}

/// What is refused of the points one step from a kernel: one more stage, a wider tile, another consumer, a larger cluster, a
/// deeper stage.
pub(super) fn next_to(spec: &KernelSpec, plan: &Plan) -> Vec<Refused> {
    let profile = plan.profile();
    let (bn, k) = (spec.bn, profile.stage_k);
    let with = |key: Key, value: u32| {
        let mut next = *spec;
        match key {
            Key::Bn => next.bn = value,
            Key::Stages => next.stages = Some(value),
            Key::Consumers => next.consumers = Some(value),
            Key::Cluster => next.cluster = Some(value),
            _ => next.k_step = Some(value),
        }
        (key, value, next)
    };
    let mut steps = vec![];
    if spec.mma != Mma::Scalar {
        steps.extend([with(Key::Stages, profile.stages + 1), with(Key::KStep, 2 * k)]);
    }
    if spec.mma == Mma::Wgmma {
        steps.extend([with(Key::Consumers, profile.consumers + 1), with(Key::Cluster, 2 * profile.cluster)]);
    }
    if !Facts::has_width(spec.op) {
        steps.push(with(Key::Bn, next_width(bn)));
    }
    let refused = |(key, value, spec): (Key, u32, KernelSpec)| {
        let errors = Plan::new(&spec).err()?;
        // The reason that blames the key, or the first: the others may follow from it.
        let name = key.as_str();
        let error = errors.iter().find(|error| error.key() == name).or_else(|| errors.iter().next())?;
        let help = error.help().map_or(String::new(), |help| format!("\n  help: {help}"));
        Some(Refused { change: format!("{name} = {value}"), why: format!("{error}{help}") })
    };
    steps.into_iter().filter_map(refused).collect()
}

/// The next width of a tile that sweeps look at.
fn next_width(bn: u32) -> u32 {
    if bn < 256 { bn + 64 } else { bn + 128 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_stage_too_many_is_told_with_its_arithmetic() {
        let spec: KernelSpec = "bm = 512, bn = 128, bk = 112".parse().unwrap();
        let refused = next_to(&spec, &Plan::new(&spec).unwrap());
        let stages = refused.iter().find(|refused| refused.change == "stages = 5").unwrap();
        assert!(stages.why.contains("49152") && stages.why.contains("232448"), "{}", stages.why);
        for refused in &refused {
            assert!(refused.why.contains("help:"), "{refused:?}");
        }
    }

    #[test]
    fn what_can_be_planned_is_not_told() {
        let spec: KernelSpec = "bm = 128, bn = 128, bk = 64, stages = 2".parse().unwrap();
        let refused = next_to(&spec, &Plan::new(&spec).unwrap());
        assert!(refused.iter().all(|refused| !refused.change.starts_with("stages")), "{refused:?}");
    }
}
