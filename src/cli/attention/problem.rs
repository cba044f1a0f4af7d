//! What the flags, or a workload, ask to be attended to.

use bsr::attention::{Problem, Shape};
use bsr::{KernelSpec, Pattern, Structure};
use bsr_tuner::backend::{self, Trouble, attention_of, shape_of};
use bsr_tuner::{Facts, Heads, Source, Workload};

use super::super::exit::Failure;
use super::super::problem::{ProblemArgs, check_memory};

/// Sizes where the flags leave them open.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Defaults {
    pub(super) queries: usize,
    pub(super) heads: usize,
}

impl Defaults {
    /// Enough work to fill a GPU.
    pub(in super::super) const GPU: Self = Self { queries: 8192, heads: 16 };
    /// A second's work for the simulator.
    pub(in super::super) const SIMULATOR: Self = Self { queries: 500, heads: 2 };
}

/// What the flags ask for, so that another process can make it again.
///
/// # Errors
/// Bad input: flags of a product.
pub(in super::super) fn workload(args: &ProblemArgs, facts: &Facts, defaults: Defaults) -> Result<Workload, Failure> {
    let given = args.attention_heads();
    if let Some((flag, why)) = args.of_products() {
        let message = format!("{flag} beside op = attention: {why}\n  help: --m queries, --n keys, --pattern");
        return Err(Failure::bad_input(message));
    }
    let (queries, keys) = args.extents();
    let queries = queries.unwrap_or(defaults.queries);
    let of_query = given.heads.unwrap_or(defaults.heads);
    let heads =
        Heads { batch: given.problems.unwrap_or(1), heads: of_query, key_heads: given.key_heads.unwrap_or(of_query) };
    Ok(Workload {
        facts: *facts,
        m: queries,
        n: keys.unwrap_or(queries),
        k: facts.spec(64).score_depth() as usize,
        source: Source::Mask { pattern: args.pattern_or(Pattern::Random(0.25)).to_string(), heads },
        seed: args.seed(),
    })
}

/// # Errors
/// Bad input: flags of a product, or an attention that cannot be had.
pub(super) fn asked(args: &ProblemArgs, spec: &KernelSpec, defaults: Defaults) -> Result<Problem, Failure> {
    of_workload(&workload(args, &Facts::of(spec), defaults)?, spec)
}

/// The attention that a workload describes, for a kernel with its facts.
///
/// # Errors
/// Bad input: an attention that cannot be had.
pub(super) fn of_workload(workload: &Workload, spec: &KernelSpec) -> Result<Problem, Failure> {
    possible(workload)?.check(spec.pack)?;
    let (shape, mask) = attention_of(workload).map_err(refused)?;
    let pattern = match &workload.source {
        Source::Mask { pattern, .. } => pattern.clone(),
        source => source.to_string(),
    };
    Ok(Problem { seed: workload.seed, ..Problem::new(spec, shape, mask, pattern) })
}

/// The stored blocks of a workload's Q K^T.
///
/// # Errors
/// As [`of_workload`].
pub(in super::super) fn structure(workload: &Workload) -> Result<Structure, Failure> {
    possible(workload)?;
    backend::structure(workload).map_err(refused)
}

/// Makes sure that there is such an attention, and that it fits this machine's memory, before anything is drawn.
fn possible(workload: &Workload) -> Result<Shape, Failure> {
    let shape = shape_of(workload).map_err(refused)?;
    let Shape { batch, heads, key_heads, queries, keys, columns } = shape;
    let dtype = workload.facts.spec(64).a;
    let elements = |[heads, rows, columns]: [usize; 3]| [batch, heads, rows, columns].map(|size| size as f64);
    let operands = [
        ("Q", [heads, queries, workload.k]),
        ("K", [key_heads, keys, workload.k]),
        ("V", [key_heads, keys, columns]),
        ("O", [heads, queries, columns]),
    ];
    let operands = operands.map(|(name, sizes)| (name, elements(sizes).into_iter().product(), dtype));
    check_memory(&operands, "smaller --m, --n, --heads, --key-heads or --batch")?;
    Ok(shape)
}

fn refused(trouble: Trouble) -> Failure {
    Failure::bad_input(trouble.message)
}
