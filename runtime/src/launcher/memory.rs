//! Where operands are in device memory: on the kernel's GPU, and no result where something else is read or written.

use arrayvec::ArrayVec;
use bsr_codegen::Plan;
use bsr_codegen::epilogue::Program;

use crate::error::KernelError;
use crate::gpu::{DeviceInput, DeviceInputs, DevicePtr, UntypedDense};
use crate::operation::{Matrices, program_of};

/// The operand that a launch writes.
pub(super) const C: &str = "C";

/// Memory that a launch reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) operand: &'static str,
    /// First and last byte address (exclusive).
    pub(super) range: (DevicePtr, DevicePtr),
    /// The matrix, if its lines may be beside those of another.
    pub(super) dense: Option<UntypedDense>,
    /// The GPU that it is on, where that is known.
    pub(super) on: Option<usize>,
}

impl Span {
    pub(super) fn dense(operand: &'static str, dense: &UntypedDense) -> Self {
        Self { operand, range: dense.range(), dense: Some(*dense), on: dense.on }
    }

    pub(super) fn memory(operand: &'static str, range: (DevicePtr, DevicePtr)) -> Self {
        Self { operand, range, dense: None, on: None }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (&self.dense, &other.dense) {
            (Some(one), Some(other)) => one.overlaps(other),
            _ => self.range.0 < other.range.1 && other.range.0 < self.range.1,
        }
    }
}

/// What the launch reads, but for further inputs, and where C is.
pub(super) fn spans(plan: &Plan, operands: &Matrices<'_, DevicePtr>) -> (ArrayVec<Span, 4>, Option<Span>) {
    let blocks = operands.blocks(plan);
    let dense = operands.dense(plan).into_iter().map(|(name, dense)| Span::dense(name, dense));
    let stored = blocks.iter().map(|(name, of)| Span { on: of.on(), ..Span::memory(name, of.range()) });
    let index = blocks.iter().filter(|(name, _)| *name != C).filter_map(|(_, of)| of.index());
    let index = index.map(|range| Span::memory("the block columns", range));
    let (mut read, mut written) = (ArrayVec::new(), None);
    for span in dense.chain(stored).chain(index) {
        if span.operand == C {
            written = Some(span);
        } else {
            read.push(span);
        }
    }
    (read, written)
}

/// Whether operands are on the GPU of a kernel, TMA may write C, and no result overlaps what is read or another result. Of
/// memory that was allocated elsewhere the GPU is not known: whoever gave it says where it is.
///
/// # Errors
/// [`KernelError::OtherDevice`], [`KernelError::Window`], [`KernelError::Overlap`].
pub(super) fn check(plan: &Plan, kernel: usize, operands: &Matrices<'_, DevicePtr>) -> Result<(), KernelError> {
    let (read, c) = spans(plan, operands);
    device(kernel, read.iter().chain(&c))?;
    let written = c.as_ref().and_then(|c| c.dense);
    if let (true, Some(c)) = (plan.stores_by_tma(), &written) {
        window(c)?;
    }
    let second = operands.second().map(|second| Span::memory("the second result", second.range()));
    let results = [c, second];
    for span in &read {
        results.iter().flatten().try_for_each(|result| apart(result, span))?;
    }
    further(plan, operands.inputs(), |span, input| {
        // What is C itself is read where it is written, before it is.
        let is_c = match (input, &written) {
            (Some(DeviceInput::Matrix(matrix)), Some(c)) => (matrix.ptr, matrix.ld) == (c.ptr, c.ld),
            (Some(DeviceInput::Blocks { values, .. }), None) => c.is_some_and(|c| values.0 == c.range.0),
            _ => false,
        };
        let results = &results[usize::from(is_c)..];
        results.iter().flatten().try_for_each(|result| apart(result, &span))
    })?;
    match (second, c) {
        (Some(second), Some(c)) => apart(&second, &c),
        _ => Ok(()),
    }
}

/// Visits the scales, the order of rows and the operands of the epilogue, the latter with what they are given.
fn further(
    plan: &Plan,
    inputs: &DeviceInputs<'_>,
    mut visit: impl FnMut(Span, Option<DeviceInput>) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    if let Some(scales) = inputs.scales {
        visit(Span::memory("the scales of A", scales.a.range()), None)?;
        visit(Span::memory("the scales of B", scales.b.range()), None)?;
    }
    if let Some(order) = inputs.order {
        visit(Span::memory("the order of rows", order.range()), None)?;
    }
    for parameter in program_of(plan).map_or(&[][..], Program::inputs) {
        let input = inputs.get(&parameter.name);
        let range = match input {
            Some(DeviceInput::Vector(vector)) => vector.range(),
            Some(DeviceInput::Matrix(matrix)) => matrix.range(),
            Some(DeviceInput::Blocks { values, .. }) => values,
            Some(DeviceInput::Result | DeviceInput::Scalar(_)) | None => continue,
        };
        visit(Span::memory(&parameter.name, range), input)?;
    }
    Ok(())
}

fn device<'s>(kernel: usize, mut spans: impl Iterator<Item = &'s Span>) -> Result<(), KernelError> {
    match spans.find(|span| span.on.is_some_and(|on| on != kernel)) {
        Some(Span { operand, on: Some(on), .. }) => {
            Err(KernelError::OtherDevice { operand: (*operand).to_owned(), on: *on, kernel })
        }
        _ => Ok(()),
    }
}

/// TMA writes whole 16-byte vectors: the end of a line that is no multiple of them must be C's own padding.
fn window(c: &UntypedDense) -> Result<(), KernelError> {
    let (line, bytes) = (c.line(), c.dtype.bytes() as usize);
    let padded = line.max(1).next_multiple_of(16 / bytes);
    if c.foreign && line != padded && c.ld != padded {
        return Err(KernelError::Window { line, bytes, ld: c.ld, padded });
    }
    Ok(())
}

/// No result may be where something is read while it is written.
fn apart(result: &Span, other: &Span) -> Result<(), KernelError> {
    if !result.overlaps(other) {
        return Ok(());
    }
    let ((c, c_end), (at, end)) = (result.range, other.range);
    let (result, operand) = (result.operand, other.operand);
    Err(KernelError::Overlap { result, operand, c, c_end, other: at, other_end: end })
}

/// Problems of a batch run at the same time: none may write what another reads or writes. `spans` are those of each
/// problem, with its number; C is what is written.
///
/// # Errors
/// [`KernelError::BatchOverlap`].
pub(super) fn problems(mut spans: Vec<(usize, Span)>) -> Result<(), KernelError> {
    spans.retain(|(_, span)| span.range.0 < span.range.1);
    spans.sort_by_key(|(index, span)| (span.range.0, *index));
    for (at, first) in spans.iter().enumerate() {
        for second in spans[at + 1..].iter().take_while(|(_, second)| second.range.0 < first.1.range.1) {
            let ((index, written), (other, span)) = match (first.1.operand, second.1.operand) {
                (C, _) => (first, second),
                (_, C) => (second, first),
                _ => continue,
            };
            if written.overlaps(span) {
                let (c, address) = (written.range.0, span.range.0);
                return Err(KernelError::BatchOverlap {
                    index: *index,
                    operand: span.operand,
                    other: *other,
                    c,
                    address,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_of_another_gpu_is_refused_by_name() {
        let span = |operand, on| Span { on, ..Span::memory(operand, (0, 0)) };
        let spans = [span("A", Some(0)), span("B", None), span("C", Some(0))];
        assert!(device(0, spans.iter()).is_ok());
        let refused = device(1, [span("A", Some(1)), span("B", None), span("C", Some(0))].iter());
        let words = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(words.contains("C is on GPU 0, and the kernel on GPU 1"), "{words}");
        assert!(words.contains("help: upload C to GPU 1, or load the kernel on GPU 0"), "{words}");
    }

    #[test]
    fn a_result_that_another_problem_reads_or_writes_is_found() {
        let problem = |index, starts: [u64; 3]| {
            let spans = ["A", "B", "C"].into_iter().zip(starts);
            spans.map(move |(operand, start)| (index, Span::memory(operand, (start, start + 128))))
        };
        let check = |second| problems(problem(0, [0, 128, 256]).chain(problem(1, second)).collect());
        assert!(check([0, 128, 384]).is_ok());
        for (second, operand) in [([0, 128, 300], "C"), ([300, 128, 512], "A"), ([0, 256, 512], "B")] {
            let error = check(second).expect_err("they overlap");
            assert!(matches!(error, KernelError::BatchOverlap { operand: found, .. } if found == operand), "{error}");
        }
    }
}
