//! A tuner as the one that chooses a member of a family.

use bsr_codegen::KernelSpec;
use bsr_tuner::pick::Tuner;
use bsr_tuner::{Facts, TuningProblem, Workload};

use super::{Chooser, Member, ProblemFacts};

/// Chooses by what was tuned, or by the cost model; the first member where neither says anything.
impl Chooser for Tuner {
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize {
        let Some(first) = members.first() else { return 0 };
        let ProblemFacts { m, n, k, features, .. } = *problem;
        let workload = Workload::given(Facts::of(first.spec()), (m, n, k));
        let specs: Vec<KernelSpec> = members.iter().map(|member| *member.spec()).collect();
        let choice = self.pick_of(&TuningProblem { workload, features, second: None }, &specs);
        choice.ok().and_then(|choice| specs.iter().position(|spec| *spec == choice.spec)).unwrap_or(0)
    }
}
