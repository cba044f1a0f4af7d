//! Launches of SDDMMs: A and B dense, the result in the blocks of a pattern.

use bsr_codegen::epilogue::Program;
use bsr_codegen::{Argument, LaunchShape, Op, Operand, Problem, Scale};

use super::{Launcher, Places, check_overlap_of, listed};
use crate::gpu::{
    self, DeviceInput, DeviceInputs, DevicePtr, StreamRef, UntypedBsr, UntypedDense, UntypedVector, Value, Values,
};
use crate::kernel::arguments::{UntypedCall, UntypedResults};
use crate::kernel::inputs::{self, program_of};
use crate::kernel::matrix::UntypedMatrix;
use crate::kernel::{KernelError, fit, place, sddmm};

/// The operands of one launch.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct SddmmOperands<'a> {
    pub(in crate::kernel) a: UntypedDense,
    pub(in crate::kernel) b: UntypedDense,
    pub(in crate::kernel) c: UntypedBsr<'a>,
    /// What else the kernel reads.
    pub(in crate::kernel) inputs: &'a DeviceInputs<'a>,
    /// Where the epilogue's second result goes.
    pub(in crate::kernel) second: Option<UntypedVector>,
}

impl<'a> SddmmOperands<'a> {
    /// What a launch is given.
    ///
    /// # Errors
    /// [`KernelError::Factors`] where not both factors are dense and the result is sparse.
    pub(in crate::kernel) fn new(call: &'a UntypedCall<'a>, results: UntypedResults<'a>) -> Result<Self, KernelError> {
        match (call.a, call.b, results.c) {
            (UntypedMatrix::Dense(a), UntypedMatrix::Dense(b), UntypedMatrix::Sparse(c)) => {
                Ok(Self { a, b, c, inputs: &call.inputs, second: results.second })
            }
            _ => Err(KernelError::Factors { expected: Op::Sdd }),
        }
    }

    /// The sizes of their product.
    pub(in crate::kernel) fn problem(&self) -> Problem {
        let problem = sddmm::problem(
            (&fit::Operand::from(&self.a), self.a.ld),
            (&fit::Operand::from(&self.b), self.b.ld),
            self.c.structure,
        );
        Problem { nnzb: self.c.places() as u64, ..problem }
    }

    /// Where a factor or the result lies. Factors without K are not read: any valid address serves.
    pub(in crate::kernel) fn address(&self, operand: Operand) -> DevicePtr {
        match operand {
            Operand::A if self.a.cols > 0 => self.a.ptr,
            Operand::B if self.a.cols > 0 => self.b.ptr,
            _ => self.c.values.0,
        }
    }
}

impl Launcher {
    pub(super) fn enqueue_sddmm(&self, stream: StreamRef<'_>, operands: &SddmmOperands<'_>) -> Result<(), KernelError> {
        self.check_sddmm(operands)?;
        self.start_second(stream, operands.second)?;
        if operands.c.places() == 0 {
            return Ok(());
        }
        let (grid, places) = match operands.c.pattern {
            Some(pattern) => self.list_sddmm(stream, pattern, operands.a.cols)?,
            None => {
                let work = self.work(&operands.c, operands.a.cols)?;
                let workspace = work.workspaces.of(&self.device, stream)?;
                let (heads, tiles, columns) = (work.heads.ptr(), work.tiles.ptr(), operands.c.col_idx);
                (work.grid, Places { heads, tiles, columns, workspace, ..Places::default() })
            }
        };
        let shape = self.plan.launch(&operands.problem(), grid);
        let values = self.sddmm_values(&shape, operands, &places)?;
        // SAFETY: the kernel is the plan's, whose parameters these are; the maps are of the matrices, which the checks
        // above have found to be of the problem's shape; the work plan was made for this pattern (by fingerprint, or on this
        // stream ahead of the launch) and this K. C is borrowed mutably, and the workspace is this stream's.
        unsafe { gpu::launch(&self.function, &shape, &values, stream)? };
        Ok(())
    }

    /// Whether the operands fit the kernel and each other.
    pub(in crate::kernel) fn check_sddmm(&self, operands: &SddmmOperands<'_>) -> Result<(), KernelError> {
        let SddmmOperands { a, b, c, inputs, second } = *operands;
        place::check(self.device.info().ordinal, [("A", a.on), ("B", b.on), ("C", Some(c.on))])?;
        if let Some(pattern) = c.pattern {
            listed::check(&self.plan, pattern)?;
        }
        sddmm::operands(&self.plan, &fit::Operand::from(&a), &fit::Operand::from(&b), (c.dtype, c.structure))?;
        sddmm::scales(&self.plan, inputs.scales.map_or(Scale::Unscaled, |scales| scales.kind))?;
        let given = |name: &str| inputs.given(name, Some(c.fingerprint));
        let shape = (c.structure.rows(), c.structure.cols());
        inputs::check(&self.plan, shape, given, inputs.names(), second.map(|second| second.len))?;
        inputs::check_order(&self.plan, shape.0, inputs.order.map(|order| order.len))?;
        let results = [Some(("C", c.values)), second.map(|second| ("the second result", second.range()))];
        for (result, range) in results.into_iter().flatten() {
            check_overlap_of(result, "A", range, a.range())?;
            check_overlap_of(result, "B", range, b.range())?;
            for input in program_of(&self.plan).map_or(&[][..], Program::inputs) {
                let other = match inputs.get(&input.name) {
                    Some(DeviceInput::Vector(vector)) => vector.range(),
                    // Blocks of C itself are read before they are written.
                    Some(DeviceInput::Blocks { values, .. }) if result != "C" || values.0 != c.values.0 => values,
                    _ => continue,
                };
                check_overlap_of(result, &input.name, range, other)?;
            }
        }
        match second {
            Some(second) => check_overlap_of("the second result", "C", second.range(), c.values),
            None => Ok(()),
        }
    }

    fn sddmm_values(
        &self,
        shape: &LaunchShape,
        operands: &SddmmOperands<'_>,
        places: &Places,
    ) -> Result<Values, KernelError> {
        let given = |at: usize| {
            let input = program_of(&self.plan)?.inputs().get(at)?;
            operands.inputs.get(&input.name)
        };
        let address = |operand| match operand {
            Operand::Epilogue(at) => match given(at) {
                Some(DeviceInput::Vector(vector)) => vector.ptr,
                Some(DeviceInput::Blocks { values, .. }) => values.0,
                _ => operands.c.values.0,
            },
            Operand::Second => operands.second.map_or(0, |second| second.ptr),
            operand => operands.address(operand),
        };
        let mut values = Values::new();
        for parameter in &shape.parameters {
            values.push(match &parameter.argument {
                Argument::Map(map) => Value::Map(self.maps.get(address(map.operand), map)?),
                Argument::Pointer(operand) => Value::Pointer(address(*operand)),
                Argument::WorkHead => Value::Pointer(places.heads),
                Argument::Work => Value::Pointer(places.tiles),
                Argument::Workspace => Value::Pointer(places.workspace),
                Argument::Probes => Value::Pointer(self.rings_at()),
                Argument::Number(number) => Value::Number(*number),
                Argument::Scalar(at) => match given(*at) {
                    Some(DeviceInput::Scalar(value)) => Value::Float(value),
                    _ => Value::Float(f32::NAN),
                },
                // Of the other operations alone.
                _ => Value::Pointer(places.columns),
            });
        }
        Ok(values)
    }
}
