//! The problems that kernels are checked on: small, each of a kind that kernels get wrong, sized by the kernel's plan.
//!
//! Every ring goes round three times, keys end at every place where a kernel asks for the last one, partial blocks begin a tile
//! and end it, and vectors of a score differ in neighbouring elements, heads and problems.

mod edges;
mod kinds;

use bsr_codegen::{Plan, SplitK};
use bsr_simulator::Options;

use super::{AttentionError, HostVector, Problem};
use kinds::Sizes;

/// CTAs that share the work, of one problem after the other.
const CTAS: [u32; 3] = [3, 1, 7];
/// CTAs for each tile where the host decides whether they share its keys.
const SHARING: u32 = 3;
/// Multiplications and additions of one problem that may be done in all of its schedules together.
const EFFORT: u64 = 2 << 30;
/// Multiplications and additions that take as long as the exponential of one product.
const EXPONENTIAL: u64 = 256;
/// Multiplications and additions of a warp instruction, far fewer than there are.
const INSTRUCTION: u64 = 100;

/// A problem that a kernel is checked on.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Its kind.
    pub name: &'static str,
    /// What is attended to.
    pub problem: Problem,
    /// At most so many CTAs share the work.
    pub ctas: u32,
    /// Whether the logarithms of the rows' sums are asked for.
    pub sums: bool,
    /// Whether kernels list the work, as of a mask on a GPU.
    pub listed: bool,
    /// Most schedules that it is worth, and the first of them.
    schedules: (usize, usize),
}

/// Problems of every kind. Those of another `round` have other sizes and values.
///
/// # Errors
/// [`AttentionError::Operation`] for a plan of another operation.
pub fn trials(plan: &Plan, seed: u64, round: usize) -> Result<Vec<Trial>, AttentionError> {
    let spec = plan.spec();
    let tiles = plan.attention_tiles().ok_or(AttentionError::Operation(spec.op))?;
    let sizes = Sizes::new(plan, &tiles, seed, round);
    // Parts that a tile's keys are divided into, which have as many steps as a tile of another kernel.
    let parts = if let SplitK::Parts(parts) = spec.split { parts as usize } else { 1 };
    let mut kinds = sizes.of_blocks(parts)?;
    kinds.extend([
        ("apart", sizes.apart(parts)?),
        ("long", sizes.long(parts, false)?),
        ("short", sizes.short(parts)?),
        ("begins", sizes.begins(parts)?),
        // So short that a producer is two tiles ahead.
        ("single", sizes.of((1, 1), [kinds::TILES, 1, 1], "one query, one key", &|_, _| true)?),
    ]);
    let in_turn = CTAS.into_iter().cycle();
    let mut all: Vec<Trial> = kinds
        .into_iter()
        .zip(in_turn)
        .map(|((name, problem), ctas)| {
            let alone = ["short", "begins", "single"].contains(&name);
            Trial { name, ctas: if alone { 1 } else { ctas }, ..Trial::new(problem) }
        })
        .collect();
    if matches!(spec.split, SplitK::Auto | SplitK::Long) {
        let of = |name, problem: Problem| {
            let ctas = SHARING * problem.shape.queries.div_ceil(tiles.rows as usize) as u32;
            Trial { name, ctas, ..Trial::new(problem) }
        };
        let wide = sizes.worth_sharing(SHARING as usize);
        all.extend([of("passed on", sizes.apart(wide)?), of("divided", sizes.long(SHARING as usize, true)?)]);
    }
    let problem = sizes.of(sizes.ragged(), [1, 1, 1], "all", &|_, _| true)?;
    all.push(Trial { name: "no sums", sums: false, ..Trial::new(problem) });
    if spec.score.is_some() {
        all.push(Trial { name: "diagonal", schedules: (2, 0), ..Trial::new(sizes.diagonal(parts)?) });
    }
    let ends = sizes.remainders(parts)?.into_iter().enumerate();
    all.extend(ends.map(|(at, problem)| Trial {
        name: "remainders",
        ctas: 2,
        schedules: (1, at),
        ..Trial::new(problem)
    }));
    all.push(Trial { name: "GPU lists", listed: true, schedules: (1, 0), ..Trial::new(sizes.listed()?) });
    for (number, Trial { problem, .. }) in all.iter_mut().enumerate() {
        problem.vectors = HostVector::varied(spec, &problem.shape, number + round);
    }
    Ok(all)
}

impl Trial {
    /// The name of a problem that was asked for.
    pub const ASKED: &'static str = "problem";

    /// A problem that was asked for.
    pub fn new(problem: Problem) -> Self {
        Self { name: Self::ASKED, problem, ctas: CTAS[0], sums: true, listed: false, schedules: (usize::MAX, 0) }
    }

    /// Roughly how long a run takes, in multiplications and additions. Divided keys are computed twice.
    fn effort(&self, plan: &Plan) -> u64 {
        let Problem { shape, mask, depth, .. } = &self.problem;
        let launches = if plan.spec().split.is_on() { 2 } else { 1 };
        let products = 2 * (depth + shape.columns) as u64 + EXPONENTIAL;
        (launches * products * mask.pairs(shape.batch, shape.heads)).max(1)
    }

    /// Those of the schedules that its effort allows, one at least, with room for a long problem's instructions.
    pub fn schedules(&self, plan: &Plan, all: &[Options]) -> Vec<Options> {
        let (effort, (most, first)) = (self.effort(plan), self.schedules);
        let few = usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).clamp(1, most);
        let of =
            |options: &Options| Options { max_steps: options.max_steps.max(effort / INSTRUCTION), ..options.clone() };
        let first = first % all.len().max(1);
        all.iter().cycle().skip(first).take(few.min(all.len())).map(of).collect()
    }

    /// Roughly how long its schedules take.
    pub fn all_effort(&self, plan: &Plan, schedules: &[Options]) -> u64 {
        self.effort(plan).saturating_mul(self.schedules(plan, schedules).len() as u64)
    }
}

#[cfg(test)]
mod tests;
