//! A plan's launch is one that the driver takes, which is found out when the plan is made and not when it is launched.

use super::{
    Argument, AttentionProblem, GradientProblem, LaunchShape, Plan, PlanError, PlanErrors, Problem, TensorMapError,
    TensorStrides,
};

/// Most bytes of a kernel's parameters before PTX 8.1 (CUDA C++ Programming Guide, "`__global__` Function Parameters").
const MOST_PARAMETER_BYTES: u32 = 4096;
/// The same of a kernel with a work list among them, whose PTX is newer (CUDA 12.1).
const MOST_WITH_LIST: u32 = 32_764;

/// Sizes that are multiples of nothing, between lines that begin on 16 bytes, as those of any operand must.
const PROBLEM: Problem = Problem { m: 1000, n: 999, k: 1001, nnzb: 17, lda: 1008, ldb: 1008, ldc: 1008, ldt: 1008 };
const GRADIENT: GradientProblem =
    GradientProblem { attention: ATTENTION, strides: [TensorStrides::heads_first(64, 1000, 512); 4] };
const ATTENTION: AttentionProblem = AttentionProblem {
    batch: 3,
    heads: 64,
    key_heads: 1,
    queries: 1000,
    keys: 777,
    pages: 50,
    strides: [TensorStrides::heads_first(64, 1000, 1024); 4],
    factors: [1, 64],
};

impl Plan {
    /// Refuses a plan that could not be launched on any problem. The steps of a recipe say so first, in terms of the spec: what
    /// is found here is a limit that they do not know.
    pub(crate) fn check_launch(&self) -> Result<(), PlanErrors> {
        let refused = |fact: &str, arithmetic: String| {
            Err(PlanErrors::from(PlanError::new(
                "bn",
                format!("the kernel cannot be launched: {fact}"),
                arithmetic,
                "bn = ?",
            )))
        };
        let shape = self
            .attention_launch(&ATTENTION, 132)
            .or_else(|| self.gradient_launch(&GRADIENT, 132))
            .unwrap_or_else(|| self.launch(&PROBLEM, [132 / self.cluster(), 1]));
        let (LaunchShape { block, cluster, shared_bytes, .. }, arch) = (&shape, self.arch());
        if *block == 0 || *block > arch.threads_per_cta {
            return refused("too many threads", format!("{block} threads; a CTA has up to {}", arch.threads_per_cta));
        }
        if let Some(registers) = self.spec().maxnreg.filter(|registers| registers * block > arch.registers) {
            return Err(PlanErrors::from(PlanError::new(
                "maxnreg",
                format!("{block} threads of {registers} registers do not fit an SM"),
                format!("{block} x {registers} = {} > {} registers", block * registers, arch.registers),
                format!("maxnreg = {}, or drop `maxnreg`", (arch.registers / block / 8 * 8).min(255)),
            )));
        }
        if !cluster.is_power_of_two() || *cluster > arch.cluster {
            return refused("its cluster", format!("{cluster} CTAs; a portable cluster has up to {}", arch.cluster));
        }
        if *shared_bytes > arch.shared_bytes {
            return refused("shared memory", format!("{shared_bytes} B; a CTA has {} B", arch.shared_bytes));
        }
        let bytes: u32 = shape.parameters.iter().map(|parameter| parameter.argument.bytes()).sum();
        let most = if self.spec().work_list.is_some() { MOST_WITH_LIST } else { MOST_PARAMETER_BYTES };
        if bytes > most {
            return refused("its parameters", format!("{bytes} B; a kernel has up to {most} B"));
        }
        match shape.check_maps(&self.problem_maps(&PROBLEM)) {
            Ok(()) => Ok(()),
            Err(error) => refused("a tensor map", error.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
}

impl LaunchShape {
    /// Whether the driver takes every tensor map of the launch, and of the problems of a batch.
    fn check_maps(&self, of_problems: &[super::TensorMap]) -> Result<(), TensorMapError> {
        of_problems.iter().try_for_each(|map| map.tiled().map(drop))?;
        self.parameters.iter().try_for_each(|parameter| match &parameter.argument {
            Argument::Map(map) => map.tiled().map(drop),
            Argument::Strided(map) | Argument::Rows(map) => map.tiled().map(drop),
            _ => Ok(()),
        })
    }
}
