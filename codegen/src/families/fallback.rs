//! Kernels that compute the product of a Hopper kernel on other GPUs.

use crate::plan::{PlanError, PlanErrors};
use crate::spec::{Key, Target};
use crate::{KernelSpec, Mma, Plan};

/// What GPUs without `wgmma` multiply with, the fastest first.
const INSTRUCTIONS: [Mma; 3] = [Mma::MmaSync, Mma::Wmma, Mma::Scalar];

impl Plan {
    /// The kernels for GPUs that are no Hopper which compute the product of `spec`, those for the newest GPUs first: each is of
    /// the fastest instruction of its architecture that has the product. Of the choices of `spec` only `bn` is theirs, too, or
    /// what fits of it. A GPU takes the first whose code it [runs](crate::target_runs_on) and whose shared memory it has.
    ///
    /// # Errors
    /// Why no such GPU has a kernel: a key that only WGMMA kernels have, an operation, a size. Why there is none to look for,
    /// if `spec` is itself no Hopper kernel.
    #[doc(hidden)]
    pub fn fallbacks(spec: &KernelSpec) -> Result<Vec<Self>, PlanErrors> {
        if spec.mma != Mma::Wgmma {
            return Err(PlanError::new(
                Key::Mma.as_str(),
                format!("mma = {} needs no fallback", spec.mma),
                "a fallback is for GPUs that do not run a kernel of mma = wgmma",
                "mma = wgmma, or no fallback",
            )
            .into());
        }
        let (mut plans, mut refused) = (Vec::<Self>::new(), None);
        for target in Target::ALL.into_iter().filter(|target| *target != Target::Sm90a) {
            match best(spec, target) {
                Ok(plan) if plans.last().is_some_and(|older| older.serves(&plan)) => {}
                Ok(plan) => plans.push(plan),
                Err(errors) => refused = Some(errors),
            }
        }
        plans.reverse();
        match refused {
            Some(errors) if plans.is_empty() => Err(errors),
            _ => Ok(plans),
        }
    }

    /// Whether GPUs of the architecture of `newer` run this kernel as well as that one.
    fn serves(&self, newer: &Self) -> bool {
        let kind = |plan: &Self| plan.profile().kind;
        kind(self) == kind(newer) && self.shared_bytes() <= newer.arch().shared_bytes
    }
}

/// The kernel of the fastest instruction of an architecture that has the product, as wide as fits; else why the fastest has not.
fn best(spec: &KernelSpec, target: Target) -> Result<Plan, PlanErrors> {
    let product = spec.without_choices().arch(target);
    let mut refused = None;
    for mma in INSTRUCTIONS {
        for bn in std::iter::successors(Some(spec.bn), |bn| bn.is_multiple_of(2).then_some(bn / 2)) {
            match Plan::new(&product.mma(mma).bn(bn)) {
                Ok(plan) => return Ok(plan),
                Err(errors) => refused = refused.or(Some(errors)),
            }
        }
    }
    Err(refused.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Arch;

    fn fallbacks(text: &str) -> Result<Vec<Plan>, String> {
        Plan::fallbacks(&text.parse().unwrap()).map_err(|errors| errors.to_string())
    }

    /// `mma_sync for sm_80`, the newest first.
    fn words(text: &str) -> Vec<String> {
        let plans = fallbacks(text).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        plans.iter().map(|plan| format!("{} for {}", plan.spec().mma, plan.arch().target)).collect()
    }

    #[test]
    fn every_gpu_has_the_fastest_kernel_of_its_architecture() {
        for (types, kernels) in [
            ("dtype = f16", &["mma_sync for sm_80", "wmma for sm_70"][..]),
            ("dtype = bf16", &["mma_sync for sm_80", "scalar for sm_70"]),
            ("dtype = i8", &["mma_sync for sm_80"]),
            ("dtype = e4m3", &["mma_sync for sm_89"]),
            ("op = dds", &["mma_sync for sm_80", "wmma for sm_70"]),
            ("transpose = on", &["mma_sync for sm_80", "wmma for sm_70"]),
            ("batch = on", &["mma_sync for sm_80", "wmma for sm_70"]),
            ("op = sdd", &["mma_sync for sm_80"]),
        ] {
            assert_eq!(words(&format!("bm = 64, bn = 64, bk = 64, {types}")), kernels, "{types}");
        }
    }

    /// A GPU of every compute capability from 7.0 on runs one of them, within its shared memory.
    #[test]
    fn every_gpu_runs_one() {
        for spec in
            ["bm = 512, bn = 128, bk = 112", "bm = 128, bn = 256, bk = 128", "bm = 256, bn = 512, bk = 64, out = f32"]
        {
            let plans = fallbacks(spec).unwrap();
            for capability in [(7, 0), (7, 2), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (10, 0), (12, 0), (12, 1)] {
                let gpu = Arch::of_gpu(capability).unwrap();
                let runs = |plan: &&Plan| crate::target_runs_on(plan.arch().target, capability) == Some(true);
                let chosen = plans.iter().filter(runs).find(|plan| plan.shared_bytes() <= gpu.shared_bytes);
                let chosen = chosen.unwrap_or_else(|| panic!("{spec}: nothing for {capability:?}"));
                let fastest = if capability >= (8, 0) { Mma::MmaSync } else { Mma::Wmma };
                assert_eq!(chosen.spec().mma, fastest, "{spec} on {capability:?}");
            }
        }
    }

    /// Choices are of the Hopper kernel alone: its fallback is that of the spec without them.
    #[test]
    fn choices_are_those_of_the_hopper_kernel() {
        let plain = "bm = 128, bn = 128, bk = 64, dtype = bf16, c_layout = col";
        let chosen =
            format!("{plain}, cluster = 2, consumers = 2, stages = 3, swizzle = 64, schedule = strided, arch = sm_90a");
        let specs = |text: &str| fallbacks(text).unwrap().iter().map(|plan| *plan.spec()).collect::<Vec<_>>();
        assert_eq!(specs(&chosen), specs(plain));
    }

    #[test]
    fn what_only_hopper_kernels_have_is_refused_by_name() {
        for (keys, words) in [
            ("op = dss", "a product of two block-sparse matrices needs mma = wgmma"),
            ("permute = on", "have no `permute`"),
            ("dtype = e4m3, transpose = on", "cannot be read transposed"),
            ("dtype = e4m3, scale = block", "scale"),
            ("dtype = e4m3, accumulate = promoted", "have no `accumulate`"),
            ("mma = mma_sync", "mma = mma_sync needs no fallback"),
        ] {
            let refusal = fallbacks(&format!("bm = 128, bn = 128, bk = 64, {keys}")).unwrap_err();
            assert!(refusal.contains(words), "{keys}: {refusal}");
        }
    }
}
