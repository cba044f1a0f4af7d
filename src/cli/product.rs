//! Products of a sparse and a dense factor on the simulator, held against the reference.

use bsr::arguments::ByKind;
use bsr::reference::{self, Fused};
use bsr::simulated::{Options, Report, Simulated};
use bsr::{Bsr, Dense, Inputs, KernelSpec, Results};
use bsr_runtime::typed::Number;

use super::exit::Failure;
use super::operands::dense_layout;
use super::verdict::{Rows, Verdict, judge_second, longest_sum};

/// What came of a run on the simulator.
pub(super) struct Ran {
    pub(super) verdict: Verdict,
    pub(super) report: Report,
    /// What is wrong with an epilogue's second result.
    pub(super) second: Option<Failure>,
}

/// The factors of a product, what else its kernel reads, and what rows of the result must be.
pub(super) struct Drawn<A: Number, B: Number> {
    a: Bsr<A>,
    /// In the kernel's layout.
    b: Dense<B>,
    inputs: Inputs,
    pub(super) rows: Rows,
    pub(super) want: Fused,
    /// The most products that an element sums.
    pub(super) longest: usize,
}

impl<A: Number, B: Number> Drawn<A, B> {
    /// The reference of `rows` of the product of `a` with `b`, which is row-major.
    ///
    /// # Errors
    /// When the operands do not belong together.
    pub(super) fn new(spec: &KernelSpec, a: Bsr<A>, b: Dense<B>, inputs: Inputs, rows: Rows) -> Result<Self, Failure> {
        let longest = longest_sum(spec, a.structure());
        let want = reference::expected(spec, &a, &b, &inputs, &rows.list, longest)?;
        let layout = dense_layout(spec);
        let b = if b.layout() == layout { b } else { b.to_layout(layout) };
        Ok(Self { a, b, inputs, rows, want, longest })
    }
}

/// Multiplies and compares the rows: one product, or of a kernel for lists all of them in one launch, of which the worst
/// result is judged.
///
/// # Errors
/// Those of the simulator.
pub(super) fn simulate<A: Number, B: Number, C: Number>(
    kernel: &Simulated,
    problems: &[Drawn<A, B>],
    options: &Options,
) -> Result<Ran, Failure> {
    let arguments = problems.iter().map(|Drawn { a, b, inputs, .. }| ByKind(a, b, inputs));
    if kernel.plan().spec().batch.is_on() {
        let (results, report) = kernel.multiply_batch::<C, _>(arguments, options)?;
        let verdicts = results.iter().zip(problems).map(|(c, drawn)| Verdict::new(c, &drawn.rows, &drawn.want));
        return Ok(Ran { verdict: worst(verdicts)?, report, second: None });
    }
    let Drawn { a, b, inputs, rows, want, .. } = &problems[0];
    let (Results { c, rows: second }, report) = kernel.multiply::<C, _>(ByKind(a, b, inputs), options)?;
    let second = match report.is_clean() {
        true => judge_second(second.as_deref(), rows, want).err(),
        false => None,
    };
    Ok(Ran { verdict: Verdict::new(&c, rows, want)?, report, second })
}

/// The worst of the verdicts on a list, of which there is at least one.
///
/// # Errors
/// The first one of theirs.
pub(super) fn worst(verdicts: impl Iterator<Item = Result<Verdict, Failure>>) -> Result<Verdict, Failure> {
    let worst = verdicts.reduce(|one, other| Ok(one?.worse(other?)));
    worst.unwrap_or_else(|| Err(Failure::wrong("a list without products has no result")))
}
