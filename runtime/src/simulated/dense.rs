//! Products with a dense result on the simulator.

use bsr_codegen::{Op, Operand, Pdl, Problem, TileScheduler};
use bsr_simulator::{GlobalMemory, Options, Report};

use super::lines::{Factor, writers_of};
use super::lists::Listed;
use super::memory::{Uploads, apart, copy_lines, launch, pad, set_to_zero};
use super::workspace::workspace;
use super::{Simulated, SimulatedError};
use crate::epilogue::{Input, Inputs, Matrix, Results};
use crate::gpu::initial;
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::{HostDense, HostSparse, HostView};
use crate::kernel::{KernelError, fit};
use crate::schedule::WorkLists;
use crate::{Dense, Element, timeline};

/// The sparse factor and the dense one.
///
/// # Errors
/// [`KernelError::Factors`] where the operation multiplies others.
pub(super) fn factors<'h>(op: Op, call: &UntypedHostCall<'h>) -> Result<(HostSparse<'h>, HostDense<'h>), KernelError> {
    match (op, call.a, call.b) {
        (Op::Dsd, HostView::Sparse(sparse), HostView::Dense(dense))
        | (Op::Dds, HostView::Dense(dense), HostView::Sparse(sparse)) => Ok((sparse, dense)),
        (expected, ..) => Err(KernelError::Factors { expected }),
    }
}

/// What is asked of the result, and the extents of the product.
///
/// # Errors
/// Operands that do not fit the kernel.
pub(super) fn fitting<C: Element>(
    kernel: &Simulated,
    sparse: &HostSparse<'_>,
    dense: &HostDense<'_>,
    inputs: &Inputs,
) -> Result<fit::Shapes, KernelError> {
    let spec = kernel.plan.spec();
    let (rows, cols) = fit::Shapes::of(spec, sparse.structure, &dense.operand).result;
    let product = fit::Operand { dtype: C::DTYPE, layout: spec.c_layout, rows, cols };
    let shapes = fit::operands(&kernel.plan, (sparse.dtype, sparse.structure), &dense.operand, &product)?;
    let scales = inputs.scales_given();
    let counts = [scales.a().len(), scales.b().len()];
    fit::scales(&kernel.plan, sparse.structure, shapes.along, scales.kind(), counts)?;
    Ok(shapes)
}

impl Simulated {
    pub(super) fn dense_result<C: Element>(
        &self,
        sparse: &HostSparse<'_>,
        dense: &HostDense<'_>,
        inputs: &Inputs,
        options: &Options,
    ) -> Result<(Results<Dense<C>>, Report), SimulatedError> {
        let spec = self.plan.spec();
        if spec.batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let shapes = fitting::<C>(self, sparse, dense, inputs)?;
        let (layout, (rows, cols)) = (spec.c_layout, shapes.result);
        let reduction = fit::epilogue(&self.plan, (rows, cols), inputs)?;
        let before = initial(inputs).map(|c: Dense<C>| c.to_layout(layout));
        let mut c = before.unwrap_or_else(|| Dense::filled(rows, cols, layout, C::POISON));
        let start = reduction.map(|reduction| vec![reduction.start(); rows]);
        if c.rows() == 0 || c.cols() == 0 {
            return Ok((Results { c, rows: start }, Report::default()));
        }
        let tile = fit::tile(&self.plan, inputs).map(Matrix::padded);
        let work = WorkLists::new(&self.plan, sparse.structure, shapes.along, self.clusters);
        if self.plan.tile_scheduler() == TileScheduler::CtaPerBlock {
            set_to_zero(&mut c);
            if work.is_empty() {
                return Ok((Results { c, rows: None }, Report::default()));
            }
        }
        let mut memory = GlobalMemory::new();
        let listed = self.listed(sparse.structure, shapes.along, &mut memory)?;
        if let Some(Listed { findings, .. }) = &listed
            && !findings.is_empty()
        {
            let report = Report { findings: findings.clone(), ..Report::default() };
            return Ok((Results { c, rows: start }, report));
        }
        let spare = if listed.is_some() { Listed::SPARE } else { 0 };
        let wide = apart(&c);
        let (factor, pitch) = (Factor::new(self, dense), wide.ld() * size_of::<C>());
        let problem = Problem {
            m: rows as u64,
            n: cols as u64,
            k: shapes.inner as u64,
            nnzb: (sparse.structure.nnzb() + spare) as u64,
            lda: factor.ld,
            ldb: factor.ld,
            ldc: self.leading(wide.ld(), size_of::<C>()),
            ldt: tile.as_ref().map_or(wide.ld(), Matrix::ld) as u64,
        };
        let shape = self.plan.launch(&problem, listed.as_ref().map_or(work.grid, |listed| listed.grid));

        let (columns, blocks) = match self.plan.reads_block_columns() {
            true => (sparse.structure.transposed().col_idx(), sparse.structure.transposed().block_idx()),
            false => (sparse.structure.col_idx(), &[][..]),
        };
        let workspace_bytes = listed.as_ref().map_or(work.workspace, |listed| listed.workspace);
        let workspace = workspace(&mut memory, workspace_bytes);
        let rings = timeline::rings(&self.plan, &mut memory);
        let mut uploads = Uploads {
            memory: &mut memory,
            columns,
            blocks,
            work: &work,
            listed: listed.as_ref(),
            workspace,
            rings,
            operands: vec![],
        };
        let id_c = self.lines(uploads.memory, C::to_bytes(wide.data()), pitch);
        uploads.operands.push((Operand::C, id_c));
        // Without stored blocks nothing is read: any valid address serves as A and B.
        let (left, right) = if spec.op == Op::Dds { (Operand::B, Operand::A) } else { (Operand::A, Operand::B) };
        if sparse.structure.nnzb() > 0 {
            let mut values = sparse.memory.placed().1;
            // Places that no block has hold what no block holds.
            values.extend(vec![0xFF; values.len() / sparse.structure.nnzb() * spare]);
            uploads.operand(left, values);
            let id = factor.upload(self, uploads.memory);
            uploads.operands.push((right, id));
        }
        let scalars = uploads.inputs(&self.plan, inputs, tile.as_ref());
        if let Some(start) = &start {
            uploads.operand(Operand::Second, f32::to_bytes(start));
        }
        let params = uploads.params(&shape, &scalars)?;
        if spec.pdl == Pdl::Early {
            uploads.settle_sparse(&shape, &params, left);
        }
        let id_second = uploads.buffer(Operand::Second);
        pad(&mut memory, id_c, &wide);

        let (used, results) = ((workspace_bytes > 0).then_some(workspace), [id_c, id_second]);
        let mut report = self.launch_with(&launch(&shape, params), &mut memory, used, &results, options)?;
        self.records.keep(rings.map(|id| memory.bytes(id)));
        writers_of(&mut report, id_c, (pitch, c.ld() * size_of::<C>()));
        copy_lines(&mut c, wide.ld(), &C::from_bytes(memory.bytes(id_c)));
        let rows = start.map(|_| f32::from_bytes(memory.bytes(id_second)));
        Ok((Results { c, rows }, report))
    }
}

impl Uploads<'_> {
    /// Scales, the order of rows, and what the epilogue's parameters are given; the numbers among them come back.
    fn inputs(&mut self, plan: &bsr_codegen::Plan, inputs: &Inputs, tile: Option<&Matrix>) -> Vec<(usize, f32)> {
        let scales = inputs.scales_given();
        self.operand(Operand::ScaleA, f32::to_bytes(scales.a()));
        self.operand(Operand::ScaleB, f32::to_bytes(scales.b()));
        let program = plan.spec().epilogue.map(|epilogue| epilogue.program());
        let mut scalars = vec![];
        for (at, input) in program.iter().flat_map(|program| program.inputs()).enumerate() {
            match inputs.get(&input.name) {
                Some(Input::Vector(vector)) => self.operand(Operand::Epilogue(at), vector.to_bytes()),
                Some(Input::Matrix(_)) => {
                    self.operand(Operand::Epilogue(at), tile.map(Matrix::to_bytes).unwrap_or_default());
                }
                // C itself is where an operand without a buffer is looked for.
                Some(Input::Result(_) | Input::Blocks(_) | Input::Held(_)) | None => {}
                Some(Input::Scalar(value)) => scalars.push((at, *value)),
            }
        }
        if let Some(order) = inputs.rows_to() {
            self.operand(Operand::Order, order.as_slice().iter().flat_map(|row| row.to_le_bytes()).collect());
        }
        scalars
    }
}
