//! The operations, as values for any machine: which operands each has, where its kernel finds them, and the sizes that the
//! kernel is given. [`launch`] runs one of them.

mod attention;
pub(crate) mod check;
mod gradient;
mod inputs;
mod on_matrices;
pub(crate) mod product;
pub(crate) mod sddmm;
pub(crate) mod spgemm;

use std::fmt::Debug;

use arrayvec::ArrayVec;
use bsr_codegen::epilogue::Program;
use bsr_codegen::{LaunchShape, Operand, Plan, Problem, ProblemRecord, TensorMap};

use crate::Structure;
use crate::bind::{Slots, bind};
use crate::error::KernelError;
use crate::gpu::{DeviceInput, DeviceInputs, Stored, UntypedDense, UntypedVector};
use crate::machine::{Lists, Session, Work};
pub(crate) use attention::Attention;
pub(crate) use gradient::Gradient;
pub(crate) use inputs::program_of;
pub(crate) use on_matrices::{Listed, Matrix, OnMatrices, check_batch, check_sizes, result_shape};
pub(crate) use product::Product;
pub(crate) use sddmm::Sddmm;
pub(crate) use spgemm::Spgemm;

/// The operands of one launch.
pub(crate) trait Operands: Debug {
    /// Where something is in the machine's memory.
    type Address: Copy;

    /// Whether the result has no elements, so that nothing is launched.
    fn is_empty(&self) -> bool;

    /// The result that must be zero before the launch, because CTAs add to it, and whether anything is added.
    fn sum(&self, _: &Plan) -> Option<(&UntypedDense<Self::Address>, bool)> {
        None
    }

    /// Where the epilogue's second result goes.
    fn second(&self) -> Option<UntypedVector<Self::Address>> {
        None
    }

    /// The launch with a grid, and the sizes that the kernel is given.
    fn launch(&self, plan: &Plan, grid: [u32; 2]) -> LaunchShape;

    /// Where the kernel finds the operands.
    fn slots(&self, plan: &Plan) -> Slots<Self::Address>;
}

/// The operands of a launch on two matrices, of which one is in blocks, or their product is.
pub(crate) trait MatrixOperands: Operands {
    /// Whether the operands fit the kernel of a plan and each other. Allocates nothing where they do.
    ///
    /// # Errors
    /// What does not fit.
    fn check(&self, plan: &Plan) -> Result<(), KernelError>;

    /// Where the stored blocks are, and the extent of the product that this does not say.
    fn pattern(&self, plan: &Plan) -> (&Structure, usize);

    /// The sizes that the kernel is given.
    fn problem(&self, plan: &Plan) -> Problem;

    /// The dense matrices by their names, of which C is written.
    fn dense(&self, plan: &Plan) -> ArrayVec<(&'static str, &UntypedDense<Self::Address>), 2>;

    /// The matrices in blocks by their names.
    fn blocks(&self, plan: &Plan) -> ArrayVec<(&'static str, &dyn Stored<Address = Self::Address>), 3>;

    /// What the kernel reads besides.
    fn inputs(&self) -> &DeviceInputs<'_, Self::Address>;
}

/// The operands of a launch on matrices in a machine's memory.
pub(crate) type Matrices<'o, A> = dyn MatrixOperands<Address = A> + 'o;

/// Launches the kernel of a plan on operands that fit it. `list` makes the lists of its work: clusters and where they are.
///
/// # Errors
/// Those of `list` and of the machine.
///
/// # Safety
/// The session's kernel must be the plan's; the operands must fit it, and be alive until it is done, with nothing else using
/// what it writes. The lists must be those of the operands' pattern and sizes.
pub(crate) unsafe fn launch<S: Session, E: From<S::Error>>(
    session: &mut S,
    plan: &Plan,
    operands: &(impl Operands<Address = S::Address> + ?Sized),
    list: impl FnOnce(&mut S) -> Result<Work<S::Address>, E>,
) -> Result<(), E> {
    let reduction = program_of(plan).and_then(Program::reduction);
    if let (Some(reduction), Some(second)) = (reduction, operands.second()) {
        // SAFETY: the second result is of f32, and the kernel's alone, as the caller vouches.
        unsafe { session.fill(second, reduction.start())? };
    }
    if operands.is_empty() {
        return Ok(());
    }
    let (grid, lists) = list(session)?;
    if let Some((c, is_added_to)) = operands.sum(plan) {
        // SAFETY: C is the kernel's alone, as the caller vouches.
        unsafe { session.zero(c)? };
        if !is_added_to {
            return Ok(());
        }
    }
    if grid[0] == 0 {
        return Ok(());
    }
    // SAFETY: as the caller vouches.
    unsafe { launch_bound(session, &operands.launch(plan, grid), &operands.slots(plan), &lists)? };
    Ok(())
}

/// Launches the kernel of a plan on a batch: on all problems whose tensor maps are among its lists.
///
/// # Errors
/// Those of the machine.
///
/// # Safety
/// As [`launch`], for every problem.
pub(crate) unsafe fn launch_batch<S: Session>(
    session: &mut S,
    plan: &Plan,
    grid: [u32; 2],
    lists: &Lists<S::Address>,
) -> Result<(), S::Error> {
    if grid[0] == 0 {
        return Ok(());
    }
    // SAFETY: as the caller vouches.
    unsafe { launch_bound(session, &plan.launch(&Problem::default(), grid), &Slots::new([]), lists) }
}

/// Binds the parameters of a launch and launches it.
///
/// # Errors
/// Those of [`bind`] and of the machine.
///
/// # Safety
/// As [`Session::launch`], for what slots and lists point to.
unsafe fn launch_bound<S: Session>(
    session: &mut S,
    shape: &LaunchShape,
    slots: &Slots<S::Address>,
    lists: &Lists<S::Address>,
) -> Result<(), S::Error> {
    let values = bind(session, shape, slots, lists)?;
    // SAFETY: the values are those of the shape's parameters; the rest is the caller's word.
    unsafe { session.launch(shape, &values) }
}

/// The tensor maps of the problems of a batch, those of [`Plan::problem_maps`] one after the other; none of a problem without
/// a result, which no work tile names.
///
/// # Errors
/// Those of `map`.
pub(crate) fn maps<'p, A: Copy, V, E: From<KernelError>>(
    plan: &Plan,
    problems: &[&Matrices<'p, A>],
    map: impl Fn(A, &TensorMap) -> Result<V, E>,
) -> Result<Vec<Option<V>>, E> {
    let each = plan.problem_maps(&Problem::default()).len();
    let mut maps = Vec::with_capacity(problems.len() * each);
    for problem in problems {
        if problem.is_empty() {
            maps.extend((0..each).map(|_| None));
            continue;
        }
        let slots = problem.slots(plan);
        for described in plan.problem_maps(&problem.problem(plan)) {
            maps.push(Some(map(slots.mapped(described.operand, "maps")?, &described)?));
        }
    }
    Ok(maps)
}

/// The records of the problems of a batch, those of [`Plan::problem_record`] one after the other; zeros of a problem without a
/// result, which no work tile names.
///
/// # Errors
/// [`KernelError::Argument`] of an operand without an address.
pub(crate) fn problem_records<A: Copy>(
    plan: &Plan,
    problems: &[&Matrices<'_, A>],
    address: impl Fn(A) -> u64,
) -> Result<Vec<u64>, KernelError> {
    let mut words = vec![];
    for problem in problems {
        let Some(record) = plan.problem_record(&problem.problem(plan)) else { continue };
        if problem.is_empty() {
            words.extend([0; ProblemRecord::WORDS]);
            continue;
        }
        let slots = problem.slots(plan);
        words.extend(record.words(|operand| slots.mapped(operand, "problems").map(&address))?);
    }
    Ok(words)
}

/// Where the kernel finds what it reads besides the factors, and its second result. C is at `c`.
fn further<A: Copy>(
    slots: &mut Slots<A>,
    plan: &Plan,
    c: A,
    inputs: &DeviceInputs<'_, A>,
    second: Option<UntypedVector<A>>,
) {
    for (at, input) in program_of(plan).map_or(&[][..], Program::inputs).iter().enumerate() {
        let operand = Operand::Epilogue(at);
        match inputs.get(&input.name) {
            Some(DeviceInput::Vector(vector)) => slots.operand(operand, Some(vector.ptr)),
            Some(DeviceInput::Matrix(matrix)) => slots.operand(operand, Some(matrix.ptr)),
            Some(DeviceInput::Blocks { values, .. }) => slots.operand(operand, Some(values.0)),
            Some(DeviceInput::Result) => slots.operand(operand, Some(c)),
            Some(DeviceInput::Scalar(value)) => slots.scalar(at, value),
            None => {}
        }
    }
    if let Some(second) = second {
        slots.operand(Operand::Second, Some(second.ptr));
    }
    if let Some(scales) = inputs.scales {
        slots.operand(Operand::ScaleA, Some(scales.a.ptr));
        slots.operand(Operand::ScaleB, Some(scales.b.ptr));
    }
    if let Some(order) = inputs.order {
        slots.operand(Operand::Order, Some(order.ptr));
    }
}
