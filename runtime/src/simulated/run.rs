//! Products on the simulator, one or a list of them in one launch.

use std::collections::HashMap;

use bsr_codegen::{Layout, Op, Plan};
use bsr_simulator::{BufferId, Options, Report};

use super::blocks::Blocks;
use super::lines::writers_of;
use super::lists::SPARE;
use super::machine::Simulator;
use super::memory::{apart, copy_lines, rows_of};
use crate::call::arguments::UntypedHostCall;
use crate::call::matrix::{HostDense, HostSparse, HostView};
use crate::call::outcome::Outcome;
use crate::epilogue::Results;
use crate::error::{KernelError, SimulatedError};
use crate::gpu::{DeviceInputs, UntypedDense, UntypedVector, held, initial};
use crate::launcher::Launcher;
use crate::machine::{Lists, Session, Sim};
use crate::operation::check::{Operand, layout_of_blocks};
use crate::operation::product::{self, Shapes};
use crate::operation::spgemm::{self, Target};
use crate::operation::{self, Listed, Matrices, Matrix, Product, Sddmm, Spgemm, program_of, sddmm};
use crate::{Dense, Element, Inputs, Structure};

/// The operands of one product on the host, which fit the kernel.
enum Problem<'h> {
    Product { sparse: HostSparse<'h>, dense: HostDense<'h>, shapes: Shapes },
    Sddmm { factors: [HostDense<'h>; 2], structure: &'h Structure },
    Spgemm { factors: [HostSparse<'h>; 2], structure: Option<&'h Structure> },
}

/// Matrices by where they are on the host: problems may share them.
#[derive(Default)]
struct Shared {
    dense: HashMap<*const (), UntypedDense<BufferId>>,
    values: HashMap<(*const (), Layout), BufferId>,
}

/// One product in the simulator's memory.
struct Placed<'h, C> {
    matrices: PlacedMatrices<'h>,
    inputs: DeviceInputs<'h, BufferId>,
    second: Option<UntypedVector<BufferId>>,
    /// C on the host as it is before the launch, where it is in memory, and the leading dimension of a dense one there.
    c: Outcome<C>,
    at: BufferId,
    ld: usize,
}

/// Where the matrices of a product are.
enum PlacedMatrices<'h> {
    Product { sparse: Blocks<'h>, dense: UntypedDense<BufferId>, c: UntypedDense<BufferId> },
    Sddmm { factors: [UntypedDense<BufferId>; 2], c: Blocks<'h> },
    Spgemm { factors: [Blocks<'h>; 2], c: Matrix<Blocks<'h>, BufferId> },
}

impl<'h> Problem<'h> {
    /// Whether a call fits the kernel of a plan, with a C of elements `C`.
    ///
    /// # Errors
    /// Operands that do not fit.
    fn new<C: Element>(plan: &Plan, call: &UntypedHostCall<'h>) -> Result<Self, KernelError> {
        let (spec, inputs) = (plan.spec(), &call.inputs);
        let second = |rows| program_of(plan).and_then(|program| program.reduction()).map(|_| rows);
        match (spec.op, call.a, call.b, call.pattern) {
            (Op::Dsd, HostView::Sparse(sparse), HostView::Dense(dense), None)
            | (Op::Dds, HostView::Dense(dense), HostView::Sparse(sparse), None) => {
                let (rows, cols) = Shapes::of(spec, sparse.structure, &dense.operand).result;
                let c = Operand { dtype: C::DTYPE, layout: spec.c_layout, rows, cols };
                let stored = (sparse.dtype, sparse.structure);
                let shapes = product::check(plan, stored, [&dense.operand, &c], &(inputs, None), second(rows))?;
                Ok(Self::Product { sparse, dense, shapes })
            }
            (_, HostView::Dense(a), HostView::Dense(b), Some(structure)) => {
                let (c, second) = ((C::DTYPE, structure), second(structure.rows()));
                sddmm::check(plan, [&a.operand, &b.operand], c, &(inputs, Some(structure)), second)?;
                Ok(Self::Sddmm { factors: [a, b], structure })
            }
            (_, HostView::Sparse(a), HostView::Sparse(b), structure) => {
                let (rows, cols) = (a.structure.rows(), b.structure.cols());
                let dense = Operand { dtype: C::DTYPE, layout: spec.c_layout, rows, cols };
                let c = structure.map_or(Target::Dense(dense), |structure| Target::Blocks(C::DTYPE, structure));
                let factors = [a, b].map(|of| (of.dtype, of.structure));
                spgemm::check(plan, factors, c, &(inputs, structure), second(rows))?;
                Ok(Self::Spgemm { factors: [a, b], structure })
            }
            (Op::Dsd | Op::Dds, .., Some(_)) => Err(KernelError::Result { op: spec.op }),
            (expected, ..) => Err(KernelError::Factors { expected }),
        }
    }
}

impl<C> Placed<'_, C> {
    fn operands(&self) -> Box<Matrices<'_, BufferId>> {
        let Self { inputs, second, .. } = self;
        match self.matrices {
            PlacedMatrices::Product { sparse, dense, c } => {
                Box::new(Product { sparse, dense, c, inputs, second: *second })
            }
            PlacedMatrices::Sddmm { factors: [a, b], c } => Box::new(Sddmm { a, b, c, inputs, second: *second }),
            PlacedMatrices::Spgemm { factors: [a, b], c } => Box::new(Spgemm { a, b, c, inputs, second: *second }),
        }
    }

    /// What the work is listed of, for the extent `along` that one matrix does not say.
    fn listed(&self, along: usize) -> Listed<'_, Blocks<'_>> {
        match &self.matrices {
            PlacedMatrices::Product { sparse, .. } => Listed::Blocks(sparse, along),
            PlacedMatrices::Sddmm { c, .. } => Listed::Blocks(c, along),
            PlacedMatrices::Spgemm { factors: [a, b], c } => Listed::Pairs(a, b, c.sparse()),
        }
    }

    /// C on the host, and the report with its writers if it is wanted.
    fn result(self, sim: &mut Sim<'_>, report: bool) -> Outcome<C>
    where
        C: Element,
    {
        let (mut outcome, at) = (self.c, self.at);
        let lines = match &mut outcome {
            Outcome::Dense(c) => {
                copy_lines(c, self.ld, &C::from_bytes(sim.memory.bytes(at)));
                [self.ld, c.ld()].map(|ld| ld.max(1) * size_of::<C>())
            }
            Outcome::Blocks(c) => {
                let bytes = size_of_val(&c[..]);
                c.copy_from_slice(&C::from_bytes(&sim.memory.bytes(at)[..bytes]));
                [bytes.max(1); 2]
            }
        };
        if report {
            writers_of(&mut sim.report, at, lines);
        }
        outcome
    }
}

impl Launcher<Simulator> {
    /// One product.
    pub(crate) fn product<C: Element>(
        &self,
        call: &UntypedHostCall<'_>,
        options: &Options,
    ) -> Result<(Results<Outcome<C>>, Report), SimulatedError> {
        if self.plan().spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let problem = Problem::new::<C>(self.plan(), call)?;
        let mut sim = self.session(options);
        let placed = self.place::<C>(&mut sim, &mut Shared::default(), &problem, call);
        let operands = placed.operands();
        let listed = placed.listed(operands.pattern(self.plan()).1);
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { self.enqueue(&mut sim, &*operands, listed)? };
        let is_empty = operands.is_empty();
        drop(operands);
        let rows = rows_of(&sim, placed.second);
        if is_empty {
            return Ok((Results { c: placed.c, rows }, sim.report));
        }
        self.machine().records.keep(sim.records());
        let c = placed.result(&mut sim, true);
        Ok((Results { c, rows }, sim.report))
    }

    /// A list of products in one launch.
    pub(crate) fn products<C: Element>(
        &self,
        calls: &[UntypedHostCall<'_>],
        options: &Options,
    ) -> Result<(Vec<Outcome<C>>, Report), SimulatedError> {
        let (mut sim, mut shared, mut placed) = (self.session(options), Shared::default(), vec![]);
        for (index, call) in calls.iter().enumerate() {
            let problem = Problem::new::<C>(self.plan(), call)
                .map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            placed.push(self.place::<C>(&mut sim, &mut shared, &problem, call));
        }
        let operands: Vec<_> = placed.iter().map(Placed::operands).collect();
        let each: Vec<_> = operands.iter().map(|operands| &**operands).collect();
        let work = self.batch_lists(&each)?;
        let lists = [&work.heads, &work.tiles, &work.stage_metadata, &work.col_idx, &work.block_idx];
        let lists = sim.lists(lists.map(Vec::as_slice), work.workspace);
        let maps = operation::maps(self.plan(), &each, |at, map| sim.map(at, map))?;
        let records = operation::problem_records(self.plan(), &each, |at| sim.memory.address(at))?;
        let (maps, problems) = (Some(sim.maps(maps)), Some(sim.records_of(&records)));
        let lists = Lists { maps, problems, ..lists };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { operation::launch_batch(&mut sim, self.plan(), work.grid, &lists)? };
        self.machine().records.keep(sim.records());
        let is_empty: Vec<bool> = operands.iter().map(|operands| operands.is_empty()).collect();
        drop(operands);
        let results = placed.into_iter().zip(is_empty).enumerate();
        let results = results.map(|(number, (placed, is_empty))| match is_empty {
            true => placed.c,
            false => placed.result(&mut sim, number == 0),
        });
        Ok((results.collect(), sim.report))
    }

    /// Copies the operands of a problem to the simulator's memory.
    fn place<'h, C: Element>(
        &self,
        sim: &mut Sim<'_>,
        shared: &mut Shared,
        problem: &Problem<'h>,
        call: &'h UntypedHostCall<'_>,
    ) -> Placed<'h, C> {
        let (spec, inputs) = (self.plan().spec(), &call.inputs);
        let (matrices, rows, (c, at, ld)) = match problem {
            Problem::Product { sparse, dense, shapes } => {
                let (c, left) = self.dense_result(sim, spec.c_layout, shapes.result, inputs);
                let spare = if self.machine().lists.is_some() { SPARE } else { 0 };
                // Without stored blocks nothing is read.
                let unread = (sparse.structure.nnzb() == 0).then_some(c.ptr);
                let blocks = stored(sim, shared, sparse, unread, (spare, Layout::RowMajor));
                let dense = self.factor(sim, shared, dense, unread);
                (PlacedMatrices::Product { sparse: blocks, dense, c }, shapes.result.0, left)
            }
            Problem::Sddmm { factors, structure } => {
                let (c, id, left) = result_blocks(sim, structure, inputs);
                // Factors without K are not read.
                let unread = (factors[0].operand.cols == 0).then_some(id);
                let factors = factors.map(|factor| self.factor(sim, shared, &factor, unread));
                (PlacedMatrices::Sddmm { factors, c }, structure.rows(), left)
            }
            Problem::Spgemm { factors, structure } => {
                let [rows, cols] = [factors[0].structure.rows(), factors[1].structure.cols()];
                let (c, id, left) = match structure {
                    Some(structure) => {
                        let (c, id, left) = result_blocks(sim, structure, inputs);
                        (Matrix::Sparse(c), id, left)
                    }
                    None => {
                        let (c, left) = self.dense_result(sim, spec.c_layout, (rows, cols), inputs);
                        (Matrix::Dense(c), c.ptr, left)
                    }
                };
                let spare = if self.machine().lists.is_some() { SPARE } else { 0 };
                let [a, b] = [("A", factors[0]), ("B", factors[1])].map(|(name, factor)| {
                    let unread = (factor.structure.nnzb() == 0).then_some(id);
                    stored(sim, shared, &factor, unread, (spare, layout_of_blocks(spec, name)))
                });
                let factors = [a, b];
                (PlacedMatrices::Spgemm { factors, c }, rows, left)
            }
        };
        let (inputs, second) = (self.further(sim, inputs), self.second(sim, rows));
        Placed { matrices, inputs, second, c, at, ld }
    }

    /// A dense result of so many rows and columns.
    fn dense_result<C: Element>(
        &self,
        sim: &mut Sim<'_>,
        layout: Layout,
        (rows, cols): (usize, usize),
        inputs: &Inputs,
    ) -> (UntypedDense<BufferId>, Before<C>) {
        let before = initial(inputs).map(|c: Dense<C>| c.to_layout(layout));
        let host = before.unwrap_or_else(|| Dense::filled(rows, cols, layout, C::POISON));
        let wide = apart(&host);
        let c = self.dense_c(sim, &wide);
        (c, (Outcome::Dense(host), c.ptr, wide.ld()))
    }

    /// A dense factor; at another buffer's address, without content, where the kernel reads nothing of it.
    fn factor(
        &self,
        sim: &mut Sim<'_>,
        shared: &mut Shared,
        dense: &HostDense<'_>,
        unread: Option<BufferId>,
    ) -> UntypedDense<BufferId> {
        match unread {
            Some(_) => self.dense(sim, dense, unread),
            None => {
                let key = std::ptr::from_ref(dense.memory).cast();
                *shared.dense.entry(key).or_insert_with(|| self.dense(sim, dense, None))
            }
        }
    }
}

/// A result on the host as it is before the launch, where it is in memory, and the leading dimension of a dense one there.
type Before<C> = (Outcome<C>, BufferId, usize);

/// A result in the blocks of a structure. Without blocks it has an address of its own nevertheless.
fn result_blocks<'h, C: Element>(
    sim: &mut Sim<'_>,
    structure: &'h Structure,
    inputs: &Inputs,
) -> (Blocks<'h>, BufferId, Before<C>) {
    let host = held(inputs).unwrap_or_else(|| vec![C::POISON; structure.stored()]);
    let id = sim.bytes(C::to_bytes(&host));
    let values = sim.result(id);
    let c = Blocks { structure, dtype: C::DTYPE, values, spare: 0, is_written: true };
    (c, id, (Outcome::Blocks(host), values, 0))
}

/// A sparse factor with so many slots that no block has, its blocks in a layout; at another buffer's address where the kernel reads nothing of it.
fn stored<'h>(
    sim: &mut Sim<'_>,
    shared: &mut Shared,
    sparse: &HostSparse<'h>,
    unread: Option<BufferId>,
    (spare, layout): (usize, Layout),
) -> Blocks<'h> {
    let HostSparse { structure, dtype, memory } = *sparse;
    let upload = || {
        let mut values = memory.placed(layout).1;
        // Slots that no block has hold what no block holds.
        values.extend(vec![0xFF; values.len() / structure.nnzb() * spare]);
        sim.bytes(values)
    };
    let key = (std::ptr::from_ref(memory).cast(), layout);
    let values = unread.unwrap_or_else(|| *shared.values.entry(key).or_insert_with(upload));
    Blocks { structure, dtype, values, spare, is_written: false }
}
