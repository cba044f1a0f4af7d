//! SDDMMs: one problem each, on the GPU and on the simulator.

use std::fmt;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::epilogue::Input;
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceVector, Stream, UploadedInputs};
use bsr_runtime::reference::{self, Fused};
use bsr_runtime::simulated::{Fp8Accumulate, Options, Schedule, Simulated};
use bsr_runtime::typed::{Number, Typed};
use bsr_runtime::{Dense, Element, Inputs, Launcher, Pattern, Structure};

use crate::case::{Blocks, Failure, parse, plan};
use crate::run::Judged;
use crate::walled::Walled;
use crate::watchdog::watch;

/// A row of a table: C\[m, n\] = A\[m, k\] * B\[k, n\], of which `blocks` are stored (of C^T under `transpose = on`).
#[derive(Clone, Debug)]
pub(crate) struct SddmmCase {
    pub(crate) spec: KernelSpec,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) blocks: Blocks,
}

/// The operands on the host and the values that are wanted.
struct Drawn<A, B> {
    structure: Structure,
    a: Dense<A>,
    b: Dense<B>,
    inputs: Inputs,
    want: Fused,
}

impl SddmmCase {
    /// # Panics
    /// When `spec` is no spec: tables are written by hand.
    pub(crate) fn new(spec: &str, (m, n, k): (usize, usize, usize), blocks: Blocks) -> Self {
        Self { spec: parse(&format!("op = sdd, {spec}")), m, n, k, blocks }
    }

    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        plan(&self.spec)
    }

    /// The blocks that are stored.
    pub(crate) fn structure(&self) -> Result<Structure, Failure> {
        let block = (self.spec.bm as usize, self.spec.bk as usize);
        let (rows, cols) = if self.spec.transpose.is_on() { (self.n, self.m) } else { (self.m, self.n) };
        if let Blocks::Pattern(text) = self.blocks {
            let pattern: Pattern = text.parse()?;
            return Ok(pattern.structure(rows, cols, block, self.seed())?);
        }
        let columns = cols.div_ceil(block.1);
        let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
        for row in 0..rows.div_ceil(block.0) {
            let length = match self.blocks {
                Blocks::Lengths(lengths) => lengths[row % lengths.len()].min(columns),
                Blocks::FullRows(full) if full.contains(&row) => columns,
                _ => 0,
            };
            let spread = (0..length).rev().map(|i| (columns - 1 - i * columns / length) as i32);
            col_idx.extend(spread);
            row_ptr.push(col_idx.len() as i32);
        }
        Ok(Structure::new(rows, cols, block, row_ptr, col_idx)?)
    }

    fn drawn<A: Element, B: Element>(&self) -> Result<Drawn<A, B>, Failure> {
        let structure = self.structure()?;
        let a = Dense::<A>::normal(self.m, self.k, self.spec.a_layout, self.seed() + 1);
        let b = Dense::<B>::normal(self.k, self.n, self.spec.b_layout, self.seed() + 2);
        let inputs = self.inputs(&structure);
        let blocks: Vec<usize> = (0..structure.nnzb()).collect();
        let want = reference::expected_blocks(&self.spec, &a, &b, &structure, &blocks, &inputs)?;
        Ok(Drawn { structure, a, b, inputs, want })
    }

    /// Random inputs of the epilogue. Blocks of the name `c` are those of C itself.
    fn inputs(&self, structure: &Structure) -> Inputs {
        let Some(epilogue) = self.spec.epilogue else { return Inputs::new() };
        let drawn = Inputs::random_blocks(epilogue.program(), structure, self.seed() + 4);
        match drawn.get("c").cloned() {
            Some(Input::Blocks(blocks)) => drawn.held("c", blocks),
            _ => drawn,
        }
    }

    /// Draws that differ from row to row and are the same in every run.
    fn seed(&self) -> u64 {
        (self.m * 31 + self.n * 17 + self.k * 13) as u64
    }
}

impl fmt::Display for SddmmCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, m, n, k, blocks } = self;
        write!(f, "{spec}; m = {m}, n = {n}, k = {k}, {blocks:?}")
    }
}

/// One row on the simulator, its work shared by so many CTAs.
pub(crate) struct Simulate<'r> {
    pub(crate) case: &'r SddmmCase,
    pub(crate) ctas: u32,
    pub(crate) schedule: Schedule,
}

impl Typed for Simulate<'_> {
    type Output = Judged;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Judged, Failure> {
        let Self { case, ctas, schedule } = self;
        let plan = case.plan()?;
        let ptx = plan.ptx();
        let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?.with_clusters(ctas);
        let Drawn { structure, a, b, inputs, want } = case.drawn::<A, B>()?;
        let fp8 = if case.spec.a.is_fp8() { Fp8Accumulate::Reduced } else { Fp8Accumulate::Single };
        let options = Options { fp8, schedule, seed: case.seed(), ..Options::default() };
        let (results, report) = kernel.multiply::<C, _>((&a, &b, &structure, &inputs), &options)?;
        if let Some(first) = report.findings.first() {
            return Err(format!("{} findings, the first: {first}", report.findings.len()).into());
        }
        Judged::of_blocks(&results.c, results.rows.as_deref(), &want)
    }
}

/// One row on the GPU.
pub(crate) struct Check<'r> {
    pub(crate) device: &'r Device,
    pub(crate) launcher: &'r Launcher,
    pub(crate) case: &'r SddmmCase,
}

impl Typed for Check<'_> {
    type Output = Judged;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Judged, Failure> {
        let Self { device, launcher, case } = self;
        let Drawn { structure, a, b, inputs, want } = case.drawn::<A, B>()?;
        let (a, b) = (Walled::upload(device, &a)?, Walled::upload(device, &b)?);
        let mut c = DeviceBsr::<C>::zeros(device, &structure)?;
        let held: Option<Vec<C>> = match inputs.get("c") {
            Some(Input::Held(blocks)) => Some((0..structure.stored()).map(|at| C::from_f64(blocks.get(at))).collect()),
            _ => None,
        };
        let uploaded = UploadedInputs::upload(device, &inputs)?;
        let mut second =
            want.rows.as_ref().map(|_| DeviceVector::<f32>::zeros(device, structure.rows())).transpose()?;
        let stream = Stream::new(device)?;
        let _watch = watch(case.to_string());
        // Twice: what a launch leaves behind in the work's memory must not disturb the next one.
        let mut judged = Err("not launched".into());
        for _ in 0..2 {
            match &held {
                Some(held) => c.values_mut().upload_on(held, stream.handle())?,
                None => c.values_mut().fill_bytes(C::POISON_BYTE)?,
            }
            let inputs = (a.matrix(), b.matrix(), uploaded.inputs());
            launcher.launch(stream.handle(), inputs, (&mut c, second.as_mut()))?;
            stream.synchronize()?;
            let rows = second.as_ref().map(DeviceVector::download).transpose()?;
            judged = Judged::of_blocks(&c.values().to_vec()?, rows.as_deref(), &want);
            if judged.is_err() {
                break;
            }
        }
        judged
    }
}
