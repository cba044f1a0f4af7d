//! Kernels on the simulator: the launch that a GPU would be given, run on the CPU by `bsr_simulator`.
//!
//! ```
//! use bsr_codegen::{KernelSpec, Plan};
//! use bsr_runtime::simulated::{Options, Simulated};
//! use bsr_runtime::{Bsr, Dense, Layout, Pattern, reference};
//! use half::f16;
//!
//! let plan = Plan::new(&"bm = 64, bn = 32, bk = 32".parse::<KernelSpec>()?)?;
//! let ptx = plan.ptx();
//! let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?;
//!
//! let a = Bsr::<f16>::generate(Pattern::TopK(2), 128, 96, (64, 32), 0)?;
//! let b = Dense::<f16>::normal(96, 40, Layout::RowMajor, 0);
//! let (c, report) = kernel.multiply::<f16, f16, f16>(&a, &b, &Options::default())?;
//! assert!(report.is_clean());
//! let error = reference::relative_error(&c.to_f64(), &reference::multiply(&a, &b)?);
//! assert!(error < 2e-3, "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod lines;
mod sddmm;
mod sddmm_batch;

use std::borrow::Cow;

use bsr_codegen::{Argument, LaunchShape, Op, Operand, Plan, Problem, TensorMap, TileScheduler};
use bsr_simulator::{
    BufferId, GlobalMemory, Launch, LaunchError, Module, Param, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};
pub use sddmm::SddmmValues;

pub use bsr_simulator::{
    Cost, Coverage, Finding, FindingKind, Fp8Accumulate, Options, ParseError, Report, Schedule, Side, Statement, Writer,
};

use crate::epilogue::{Input, Inputs, Matrix, Results};
use crate::gpu::initial;
use crate::kernel::{KernelError, fit};
use crate::schedule::WorkLists;
use crate::{Bsr, Dense, Dtype, Element, Layout, Scales};

/// Clusters that share the work unless [`Simulated::with_clusters`] says otherwise.
pub const DEFAULT_CLUSTERS: u32 = 4;
/// Alignment of every buffer in bytes, as `cudaMalloc` gives it.
const ALIGN: u64 = 256;

/// Why a multiplication could not be simulated. What the kernel does wrong is no error: see [`Report::findings`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatedError {
    /// The operands do not fit the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The PTX does not take the plan's launch: it has another entry, or other parameters or directives.
    #[error(
        "the PTX does not take its plan's launch: {0}\n  help: PTX that `bsr emit` wrote for the same spec takes it"
    )]
    Launch(#[from] LaunchError),
}

/// A kernel on the simulator: PTX text, and the plan that it is launched by.
#[derive(Clone, Debug)]
pub struct Simulated {
    plan: Plan,
    module: Module,
    entry: String,
    clusters: u32,
    /// Lines of operands lie gigabytes apart.
    far: bool,
}

impl Simulated {
    /// Reads PTX: the text of `plan`, or an edited version of it.
    ///
    /// # Errors
    /// Text that is malformed or uses what the simulator does not model, with line and column.
    pub fn new(plan: &Plan, ptx: &str, entry: &str) -> Result<Self, ParseError> {
        Ok(Self {
            plan: plan.clone(),
            module: parse(ptx)?,
            entry: entry.to_owned(),
            clusters: DEFAULT_CLUSTERS,
            far: false,
        })
    }

    /// The same kernel with the work shared by at most `clusters` clusters, at least one. Fewer clusters get longer
    /// lists of tiles each; a GPU runs as many as fit it.
    #[must_use]
    pub fn with_clusters(self, clusters: u32) -> Self {
        Self { clusters: clusters.max(1), ..self }
    }

    /// The plan by which the kernel is launched.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The instructions of the kernel, each with whether the runs that `coverage` was merged of have executed it.
    pub fn statements(&self, coverage: &Coverage) -> Vec<(Statement, bool)> {
        self.module.statements(&self.entry, coverage)
    }

    /// One launch. A kernel with `griddepcontrol` begins while an earlier kernel may still be writing every buffer.
    fn launch(&self, launch: &Launch, memory: &mut GlobalMemory, options: &Options) -> Result<Report, SimulatedError> {
        let dependent = options.dependent || self.module.uses_griddepcontrol(&self.entry);
        Ok(simulate(&self.module, &self.entry, launch, memory, &Options { dependent, ..options.clone() })?)
    }

    /// Multiplies C = A * B as [`Launcher::launch`](crate::Launcher::launch) does on a GPU, into a C full of
    /// [`Element::POISON`]: what the kernel does not write stays so, padding between the lines included. A kernel that
    /// adds to C finds zeros in it, as there. An empty C is nothing to launch, and the report is empty.
    ///
    /// Of a kernel with `op = dds`, which multiplies a dense A, the other factor is `a`: see
    /// [`Simulated::multiply_factors`].
    ///
    /// # Errors
    /// [`SimulatedError::Kernel`] for blocks, shapes, element types or layouts that do not fit the kernel, or a kernel
    /// that scales; [`SimulatedError::Launch`] for PTX that is not the plan's kernel.
    pub fn multiply<A: Element, B: Element, C: Element>(
        &self,
        a: &Bsr<A>,
        b: &Dense<B>,
        options: &Options,
    ) -> Result<(Dense<C>, Report), SimulatedError> {
        self.multiply_scaled(a, b, &Scales::NONE, options)
    }

    /// As [`Simulated::multiply`], with the scales of a kernel that was compiled with a `scale`.
    ///
    /// # Errors
    /// As [`Simulated::multiply`]; [`KernelError::Scales`] for scales of another kind than the kernel's, and
    /// [`KernelError::ScaleCount`] for another number of them than the operands have places for.
    pub fn multiply_scaled<A: Element, B: Element, C: Element>(
        &self,
        a: &Bsr<A>,
        b: &Dense<B>,
        scales: &Scales,
        options: &Options,
    ) -> Result<(Dense<C>, Report), SimulatedError> {
        if self.plan.spec().op != Op::Dsd {
            return Err(KernelError::Factors { expected: self.plan.spec().op }.into());
        }
        self.multiply_factors(a, b, scales, options)
    }

    /// Multiplies the sparse factor of the kernel's operation with the dense one: A and B of `dsd`, B and A of `dds`.
    ///
    /// # Errors
    /// As [`Simulated::multiply_scaled`].
    pub fn multiply_factors<S: Element, D: Element, C: Element>(
        &self,
        sparse: &Bsr<S>,
        dense: &Dense<D>,
        scales: &Scales,
        options: &Options,
    ) -> Result<(Dense<C>, Report), SimulatedError> {
        let (results, report) = self.multiply_fused(sparse, dense, scales, &Inputs::new(), options)?;
        Ok((results.c, report))
    }

    /// As [`Simulated::multiply_factors`], with the further operands of a kernel with an epilogue, and with its second
    /// result, where it has one: a value for every row of C. C holds what a parameter says that is given C itself.
    ///
    /// # Errors
    /// As [`Simulated::multiply_scaled`]; [`KernelError::Epilogue`] for inputs that the epilogue does not take.
    pub fn multiply_fused<S: Element, D: Element, C: Element>(
        &self,
        sparse: &Bsr<S>,
        dense: &Dense<D>,
        scales: &Scales,
        inputs: &Inputs,
        options: &Options,
    ) -> Result<(Results<C>, Report), SimulatedError> {
        let spec = self.plan.spec();
        let (layout, right) = (spec.c_layout, fit::Operand::from(dense));
        let (rows, cols) = fit::Shapes::of(spec, sparse.structure(), &right).result;
        let product = fit::Operand { dtype: C::DTYPE, layout, rows, cols };
        if spec.batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let shapes = fit::operands(&self.plan, (S::DTYPE, sparse.structure()), &right, &product)?;
        let counts = [scales.a().len(), scales.b().len()];
        fit::scales(&self.plan, sparse.structure(), shapes.along, scales.kind(), counts)?;
        let reduction = fit::epilogue(&self.plan, (rows, cols), inputs)?;
        let initial = initial(inputs).map(|c: Dense<C>| c.to_layout(layout));
        let mut c = initial.unwrap_or_else(|| Dense::filled(rows, cols, layout, C::POISON));
        let start = reduction.map(|reduction| vec![reduction.start(); rows]);
        if c.rows() == 0 || c.cols() == 0 {
            return Ok((Results { c, rows: start }, Report::default()));
        }
        let tile = fit::tile(&self.plan, inputs).map(Matrix::padded);
        let dense = padded(dense);
        let work = WorkLists::new(&self.plan, sparse.structure(), shapes.along, self.clusters);
        if self.plan.tile_scheduler() == TileScheduler::CtaPerBlock {
            set_to_zero(&mut c);
            if work.is_empty() {
                return Ok((Results { c, rows: None }, Report::default()));
            }
        }
        let wide = apart(&c);
        let problem = Problem {
            m: rows as u64,
            n: cols as u64,
            k: shapes.inner as u64,
            nnzb: sparse.nnzb() as u64,
            lda: self.leading(dense.ld(), size_of::<D>()),
            ldb: self.leading(dense.ld(), size_of::<D>()),
            ldc: self.leading(wide.ld(), size_of::<C>()),
            ldt: tile.as_ref().map_or(wide.ld(), Matrix::ld) as u64,
        };
        let shape = self.plan.launch(&problem, work.grid);

        let mut memory = GlobalMemory::new();
        let (columns, blocks) = match self.plan.reads_block_columns() {
            true => (sparse.structure().transposed().col_idx(), sparse.structure().transposed().block_idx()),
            false => (sparse.col_idx(), &[][..]),
        };
        let mut uploads = Uploads { memory: &mut memory, columns, blocks, work: &work, operands: vec![] };
        let pitch = wide.ld() * size_of::<C>();
        let id_c = self.lines(uploads.memory, C::to_bytes(wide.data()), pitch);
        uploads.operands.push((Operand::C, id_c));
        // Without stored blocks nothing is read: any valid address serves as A and B.
        let (left, right) = if spec.op == Op::Dds { (Operand::B, Operand::A) } else { (Operand::A, Operand::B) };
        if sparse.nnzb() > 0 {
            uploads.operand(left, S::to_bytes(sparse.values()));
            let id = self.lines(uploads.memory, D::to_bytes(dense.data()), dense.ld() * size_of::<D>());
            uploads.operands.push((right, id));
        }
        uploads.operand(Operand::ScaleA, f32::to_bytes(scales.a()));
        uploads.operand(Operand::ScaleB, f32::to_bytes(scales.b()));
        let program = self.plan.spec().epilogue.map(|epilogue| epilogue.program());
        let names = program.iter().flat_map(|program| program.inputs());
        let mut scalars = vec![];
        for (at, input) in names.enumerate() {
            match inputs.get(&input.name) {
                Some(Input::Vector(vector)) => uploads.operand(Operand::Epilogue(at), vector.to_bytes()),
                Some(Input::Matrix(_)) => {
                    uploads.operand(Operand::Epilogue(at), tile.as_ref().map(Matrix::to_bytes).unwrap_or_default());
                }
                // C itself is where an operand without a buffer is looked for.
                Some(Input::Result(_) | Input::Blocks(_) | Input::Held(_)) | None => {}
                Some(Input::Scalar(value)) => scalars.push((at, *value)),
            }
        }
        if let Some(start) = &start {
            uploads.operand(Operand::Second, f32::to_bytes(start));
        }
        if let Some(order) = inputs.rows_to() {
            uploads.operand(Operand::Order, order.as_slice().iter().flat_map(|row| row.to_le_bytes()).collect());
        }
        let params = uploads.params(&shape, &scalars);
        let id_second = uploads.buffer(Operand::Second);
        pad(&mut memory, id_c, &wide);

        let mut report = self.launch(&launch(&shape, params), &mut memory, options)?;
        lines::writers_of(&mut report, id_c, (pitch, c.ld() * size_of::<C>()));
        copy_lines(&mut c, wide.ld(), &C::from_bytes(memory.bytes(id_c)));
        let rows = start.map(|_| f32::from_bytes(memory.bytes(id_second)));
        Ok((Results { c, rows }, report))
    }
}

/// A buffer of some bytes even without content, so that it has an address.
fn bytes(memory: &mut GlobalMemory, bytes: Vec<u8>) -> BufferId {
    match bytes.is_empty() {
        true => memory.alloc(16, ALIGN),
        false => memory.upload(bytes, ALIGN),
    }
}

/// What a launch reads and writes, in the simulator's memory.
struct Uploads<'m> {
    memory: &'m mut GlobalMemory,
    columns: &'m [i32],
    blocks: &'m [i32],
    work: &'m WorkLists,
    /// The operands there are; C is the first.
    operands: Vec<(Operand, BufferId)>,
}

impl Uploads<'_> {
    fn operand(&mut self, operand: Operand, bytes: Vec<u8>) {
        let id = self::bytes(self.memory, bytes);
        self.operands.push((operand, id));
    }

    /// The buffer of an operand; that of C where there is none.
    fn buffer(&self, operand: Operand) -> BufferId {
        let found = self.operands.iter().find(|(there, _)| *there == operand);
        found.unwrap_or(&self.operands[0]).1
    }

    fn params(&mut self, shape: &LaunchShape, scalars: &[(usize, f32)]) -> Vec<Param> {
        let param = |argument: &Argument| match argument {
            Argument::Map(map) => Param::TensorMap(describe(map, self.buffer(map.operand))),
            // A kernel for a list of problems is launched by `multiply_batch`.
            Argument::Maps => Param::U64(0),
            Argument::Pointer(operand) => Param::Buffer(self.buffer(*operand)),
            Argument::ColIdx => Param::Buffer(self.words(self.columns.iter().map(|column| column.cast_unsigned()))),
            Argument::BlockIdx => Param::Buffer(self.words(self.blocks.iter().map(|block| block.cast_unsigned()))),
            Argument::WorkHead => Param::Buffer(self.words(self.work.heads.iter().copied())),
            Argument::Work => Param::Buffer(self.words(self.work.tiles.iter().copied())),
            // Only an SDDMM has it.
            Argument::Workspace => Param::U64(0),
            Argument::StageMetadata => Param::Buffer(self.words(self.work.stage_metadata.iter().copied())),
            Argument::Number(number) => Param::U32(*number),
            Argument::Scalar(at) => {
                Param::F32(scalars.iter().find(|(given, _)| given == at).map_or(f32::NAN, |(_, value)| *value))
            }
        };
        shape.parameters.iter().map(|parameter| &parameter.argument).map(param).collect()
    }

    fn words(&mut self, words: impl Iterator<Item = u32>) -> BufferId {
        bytes(self.memory, words.flat_map(u32::to_le_bytes).collect())
    }
}

/// Sets the elements to zero, and nothing between the lines.
fn set_to_zero<T: Element>(c: &mut Dense<T>) {
    let (ld, line) = (c.ld(), if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() });
    c.data_mut().chunks_mut(ld).for_each(|whole| whole[..line].fill(T::ZERO));
}

/// A result whose lines lie 16 bytes further apart than they must: a kernel may not rely on the least distance, and what
/// it writes between them is seen.
fn apart<T: Element>(c: &Dense<T>) -> Dense<T> {
    let (ld, wide) = (c.ld(), c.ld() + 16 / size_of::<T>());
    let mut data = vec![T::POISON; c.data().len() / ld.max(1) * wide];
    data.chunks_mut(wide).zip(c.data().chunks(ld)).for_each(|(to, from)| to[..ld].copy_from_slice(from));
    Dense::from_vec(c.rows(), c.cols(), c.layout(), wide, data).unwrap_or_else(|_| c.clone())
}

/// Tells the simulator what lies between the lines of a result.
fn pad<T: Element>(memory: &mut GlobalMemory, id: BufferId, c: &Dense<T>) {
    let line = if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() };
    memory.pad(id, (line * size_of::<T>()) as u64, (c.ld() * size_of::<T>()) as u64);
}

/// Takes over the lines of a result that lie `ld` elements apart in `data`.
fn copy_lines<T: Element>(c: &mut Dense<T>, ld: usize, data: &[T]) {
    let own = c.ld();
    c.data_mut().chunks_mut(own).zip(data.chunks(ld)).for_each(|(to, from)| to.copy_from_slice(&from[..own]));
}

/// A matrix whose lines start on 16-byte boundaries, as tensor copies want them.
fn padded<T: Element>(b: &Dense<T>) -> Cow<'_, Dense<T>> {
    match (b.ld() * size_of::<T>()).is_multiple_of(16) {
        true => Cow::Borrowed(b),
        false => Cow::Owned(b.to_layout(b.layout())),
    }
}

fn launch(shape: &LaunchShape, params: Vec<Param>) -> Launch {
    let [x, y] = shape.grid;
    Launch {
        grid: [x, y, 1],
        cluster: [shape.cluster, 1, 1],
        block: [shape.block, 1, 1],
        shared_bytes: shape.shared_bytes,
        params,
    }
}

fn describe(map: &TensorMap, buffer: BufferId) -> TensorMapDesc {
    let rank = map.rank as usize;
    TensorMapDesc {
        buffer,
        offset: map.offset_bytes,
        element: match map.dtype {
            Dtype::F16 => TensorElement::F16,
            Dtype::BF16 => TensorElement::Bf16,
            Dtype::F32 => TensorElement::F32,
            Dtype::I32 => TensorElement::B32,
            Dtype::E4M3 | Dtype::E5M2 | Dtype::I8 => TensorElement::B8,
        },
        dims: map.dims[..rank].to_vec(),
        strides: map.strides_bytes[..rank - 1].to_vec(),
        box_dims: map.box_dims[..rank].to_vec(),
        element_strides: vec![1; rank],
        swizzle: Swizzle::from_span(map.swizzle_bytes).unwrap_or(Swizzle::None),
        fill_nan: false,
    }
}
