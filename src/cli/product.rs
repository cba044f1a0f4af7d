//! One product of a sparse and a dense factor on the simulator, held against the reference.

use bsr::arguments::ByKind;
use bsr::reference::Fused;
use bsr::simulated::{Options, Report, Simulated};
use bsr::{Bsr, Dense, Inputs, Results};

use super::dtypes::Number;
use super::exit::Failure;
use super::verdict::{Rows, Verdict, judge_second};

/// What came of a run on the simulator.
pub(super) struct Ran {
    pub(super) verdict: Verdict,
    pub(super) report: Report,
    /// What is wrong with an epilogue's second result.
    pub(super) second: Option<Failure>,
}

/// Multiplies and compares the rows. A kernel for lists of products is given a list of the product and the same once
/// more, and the worse of the two results is judged.
///
/// # Errors
/// Those of the simulator.
pub(super) fn simulate<A: Number, B: Number, C: Number>(
    kernel: &Simulated,
    (a, b): (&Bsr<A>, &Dense<B>),
    inputs: &Inputs,
    (rows, want): (&Rows, &Fused),
    options: &Options,
) -> Result<Ran, Failure> {
    if kernel.plan().spec().batch.is_on() {
        let (results, report) = kernel.multiply_batch::<C, _>([ByKind(a, b, inputs), ByKind(a, b, inputs)], options)?;
        let (first, again) = (Verdict::new(&results[0], rows, &want.c)?, Verdict::new(&results[1], rows, &want.c)?);
        return Ok(Ran { verdict: first.worse(again), report, second: None });
    }
    let (Results { c, rows: second }, report) = kernel.multiply::<C, _>(ByKind(a, b, inputs), options)?;
    let second = match report.is_clean() {
        true => judge_second(second.as_deref(), rows, want).err(),
        false => None,
    };
    Ok(Ran { verdict: Verdict::new(&c, rows, &want.c)?, report, second })
}
