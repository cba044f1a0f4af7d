//! Which kernel is taken for a product, and why.

use std::sync::Arc;

use bsr::gpu::Fingerprint;
use bsr::roofs::Sheet;
use bsr::tuner::pick::{Choice, Gpu, Table, Tuner, Why};
use bsr::tuner::{Facts, TuningProblem, Workload};
use bsr::{Epilogue, KernelSpec, Plan, Switch};
use bsr_runtime::Extents;
use pyo3::prelude::*;

use crate::errors::refused;
use crate::pattern::Pattern;
use crate::threads::detached;

/// Widths of the dense tile that are tried where the chosen kernel has no room for an epilogue.
const NARROWER: [u32; 5] = [256, 128, 64, 32, 16];

/// The kernel for a product of a pattern along `n` (of an SDDMM: along its K), and how it was chosen.
pub(crate) fn choose(tuner: &Tuner, pattern: &Pattern, facts: &KernelSpec, n: usize) -> PyResult<Arc<Choice>> {
    let structure = &pattern.structure;
    let facts = Facts::of(&facts.counting(structure.nnzb() as u64));
    let spec = facts.spec(64);
    let Extents { m, n, k } = Extents::of_stored(&spec, (structure.rows(), structure.cols()), rounded(n));
    let shape = (m, n, k);
    let problem = || TuningProblem::new(Workload::given(facts, shape), structure);
    tuner.choose((facts, shape, *pattern.fingerprint.bytes()), problem, None).map_err(refused)
}

/// The kernel for the product of two patterns at the blocks of a third, and how it was chosen.
pub(crate) fn choose_pairs(tuner: &Tuner, [a, b, c]: [&Pattern; 3], facts: &KernelSpec) -> PyResult<Arc<Choice>> {
    let structures = (&a.structure, &b.structure, Some(&c.structure));
    let problem =
        TuningProblem::of_pairs(&Facts::of(facts), structures.0, structures.1, structures.2).map_err(refused)?;
    let Workload { facts, m, n, k, .. } = problem.workload;
    let patterns = Fingerprint::of_all([a, b, c].map(|pattern| pattern.fingerprint));
    tuner.choose((facts, (m, n, k), *patterns.bytes()), || problem, None).map_err(refused)
}

/// The length that a kernel is chosen for: kernels of neighbouring lengths are the same, and a new length needs no new choice.
pub(crate) fn rounded(n: usize) -> usize {
    n.next_power_of_two()
}

/// The plan of a chosen kernel with an epilogue.
pub(crate) fn with_epilogue(choice: &Choice, epilogue: Option<Epilogue>) -> PyResult<Plan> {
    match epilogue {
        None => Plan::new(&choice.spec).map_err(refused),
        Some(epilogue) => or_next(choice, |spec| spec.epilogue(epilogue)),
    }
}

/// The plan of a chosen kernel for a list of products.
pub(crate) fn with_batch(choice: &Choice) -> PyResult<Plan> {
    or_next(choice, |spec| spec.batch(Switch::On))
}

/// The plan of a chosen kernel that is changed. Where both do not fit, that of the fastest of the others which were looked at;
/// or one with a narrower tile, and every other choice left open.
fn or_next(choice: &Choice, change: impl Fn(KernelSpec) -> KernelSpec) -> PyResult<Plan> {
    let changed = |spec: KernelSpec| Plan::new(&change(spec));
    let first = match changed(choice.spec) {
        Ok(plan) => return Ok(plan),
        Err(error) => error,
    };
    candidates(choice).skip(1).find_map(|spec| changed(spec).ok()).ok_or_else(|| refused(first))
}

/// The kernel that was chosen, then the others that were looked at, the fastest first, then those with narrower tiles whose
/// every other choice is left open.
pub(crate) fn candidates(choice: &Choice) -> impl Iterator<Item = KernelSpec> {
    let (facts, widest) = (Facts::of(&choice.spec), choice.spec.bn);
    let narrower = NARROWER.into_iter().filter(move |bn| *bn <= widest).map(move |bn| facts.spec(bn));
    std::iter::once(choice.spec).chain(others(choice)).chain(narrower)
}

/// What else was looked at, the fastest first.
fn others(choice: &Choice) -> Vec<KernelSpec> {
    match &choice.why {
        Why::Predicted { ranked } => ranked.iter().map(|ranked| ranked.spec).collect(),
        Why::Exact(tuned) | Why::Near { tuned, .. } => {
            let mut kernels: Vec<(KernelSpec, f64)> = tuned.kernels().collect();
            kernels.sort_by(|x, y| x.1.total_cmp(&y.1));
            kernels.into_iter().map(|(spec, _)| spec).collect()
        }
        Why::Overridden | Why::Measured { .. } => Vec::new(),
    }
}

/// A card: the driver's name for it, and its compute capability.
type Card = (String, (u32, u32));

/// The card that is meant by a name or by a part of it, as `bsr explain --gpu` takes it.
#[pyfunction]
pub(crate) fn card(name: &str) -> PyResult<Card> {
    let sheet = Sheet::find(name).map_err(|error| refused(format!("gpu = `{name}`: {error}")))?;
    Ok((sheet.name.to_owned(), sheet.capability))
}

/// The kernel for a product on a card: with `epilogue` its spec with that, and otherwise what it is and why, in words. `tuned` are
/// results besides those that come with the crate, a line each.
#[pyfunction]
#[pyo3(signature = (pattern, facts, n, card, tuned="", epilogue=None))]
pub(crate) fn explain(
    py: Python<'_>,
    pattern: &Pattern,
    facts: &str,
    n: usize,
    card: Card,
    tuned: &str,
    epilogue: Option<&str>,
) -> PyResult<String> {
    let (spec, epilogue) = read(facts, epilogue)?;
    let (name, capability) = card;
    let table = Table::from_lines(tuned).map_err(refused)?;
    let tuner = Tuner::new(Gpu { name, driver: String::new(), capability }).with(table);
    detached(py, || {
        let choice = choose(&tuner, pattern, &spec, n)?;
        Ok(match epilogue {
            None => choice.to_string(),
            epilogue => with_epilogue(&choice, epilogue)?.spec().to_string(),
        })
    })?
}

/// The same for the product of two patterns at the blocks of a third, as a spec.
#[pyfunction]
pub(crate) fn explain_pairs(
    py: Python<'_>,
    a: &Pattern,
    b: &Pattern,
    c: &Pattern,
    facts: &str,
    card: Card,
) -> PyResult<String> {
    let (spec, _) = read(facts, None)?;
    let (name, capability) = card;
    let tuner = Tuner::new(Gpu { name, driver: String::new(), capability });
    detached(py, || Ok(choose_pairs(&tuner, [a, b, c], &spec)?.spec.to_string()))?
}

/// What a product is, and what follows it.
///
/// # Errors
/// A text that is no spec, or no epilogue.
pub(crate) fn read(facts: &str, epilogue: Option<&str>) -> PyResult<(KernelSpec, Option<Epilogue>)> {
    let epilogue = epilogue.map(str::parse).transpose().map_err(refused)?;
    Ok((facts.parse().map_err(refused)?, epilogue))
}

/// How many results the lines of a table are; Error for one that is none.
#[pyfunction]
pub(crate) fn check_table(lines: &str) -> PyResult<usize> {
    Ok(Table::from_lines(lines).map_err(refused)?.tuned().len())
}
