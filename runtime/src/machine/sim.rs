//! The simulator: buffers in its memory, and launches whose findings are a report.

use std::sync::Arc;

use bsr_codegen::{
    Conversion, Dtype, LaunchShape, Layout, Plan, StridedMap, TensorMap, TensorMapError, TensorMapFault, Tiled,
};
use bsr_simulator::{
    BufferId, GlobalMemory, Launch, Module, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, simulate,
};

use super::{Bound, Lists, Session};
use crate::error::SimulatedError;
use crate::gpu::{UntypedDense, UntypedVector};
use crate::timeline;

/// Alignment of every buffer in bytes, as `cudaMalloc` gives it.
pub(crate) const ALIGN: u64 = 256;

/// Bytes of a tensor map.
const MAP_BYTES: usize = 128;

/// A kernel on the simulator, and the memory of a launch.
pub(crate) struct Sim<'k> {
    module: &'k Module,
    entry: &'k str,
    options: Options,
    pub(crate) memory: GlobalMemory,
    /// What the kernel writes.
    results: Vec<BufferId>,
    /// Where CTAs pass on partial sums, if they do.
    workspace: Option<BufferId>,
    /// The rings of a probed kernel.
    pub(crate) rings: Option<BufferId>,
    pub(crate) report: Report,
    /// Whether a second launch, if there was one, has left the same results as the first.
    pub(crate) repeats: bool,
}

impl<'k> Sim<'k> {
    pub(crate) fn new((module, entry): (&'k Module, &'k str), plan: &Plan, options: Options) -> Self {
        let mut memory = GlobalMemory::new();
        let rings = timeline::rings(plan, &mut memory);
        let (results, report) = (vec![], Report::default());
        Self { module, entry, options, memory, results, workspace: None, rings, report, repeats: true }
    }

    /// A buffer of some bytes even without content, so that it has an address.
    pub(crate) fn bytes(&mut self, bytes: Vec<u8>) -> BufferId {
        upload(&mut self.memory, bytes)
    }

    /// A list of the work.
    pub(crate) fn words(&mut self, words: &[u32]) -> BufferId {
        self.bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Makes a buffer one of those that the kernel writes.
    pub(crate) fn result(&mut self, id: BufferId) -> BufferId {
        self.results.push(id);
        id
    }

    /// A workspace of so many bytes as it is before the first launch.
    pub(crate) fn workspace(&mut self, bytes: usize) -> BufferId {
        let id = self.bytes(vec![0; bytes.next_multiple_of(4).max(16)]);
        self.workspace = (bytes > 0).then_some(id);
        id
    }

    /// Lists that the host made: heads, tiles, stage metadata, block columns and the numbers of their blocks.
    pub(crate) fn lists(&mut self, lists: [&[u32]; 5], workspace: usize) -> Lists<BufferId> {
        let [heads, tiles, stage_metadata, columns, blocks] = lists.map(|list| Some(self.words(list)));
        let (workspace, probes) = (Some(self.workspace(workspace)), self.rings);
        Lists { heads, tiles, stage_metadata, columns, blocks, workspace, probes, maps: None, problems: None }
    }

    /// The tensor maps of a batch, with nothing in the place of those that no work tile names.
    pub(crate) fn maps(&mut self, maps: Vec<Option<Param>>) -> BufferId {
        let id = self.memory.alloc((maps.len() * MAP_BYTES).max(16), ALIGN);
        for (at, map) in maps.into_iter().enumerate() {
            if let Some(Param::TensorMap(map)) = map {
                self.memory.place_map(id, (at * MAP_BYTES) as u64, map);
            }
        }
        id
    }

    /// The records of a batch's problems.
    pub(crate) fn records_of(&mut self, words: &[u64]) -> BufferId {
        self.bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// What the rings of a probed kernel hold.
    pub(crate) fn records(&self) -> Option<&[u8]> {
        self.rings.map(|id| self.memory.bytes(id))
    }

    fn results(&self) -> Vec<Vec<u8>> {
        self.results.iter().map(|id| self.memory.bytes(*id).to_vec()).collect()
    }

    fn run(&mut self, launch: &Launch) -> Result<Report, SimulatedError> {
        Ok(simulate(self.module, self.entry, launch, &mut self.memory, &self.options)?)
    }
}

impl Session for Sim<'_> {
    type Address = BufferId;
    type Value = Param;
    type Error = SimulatedError;

    fn pointer(at: BufferId) -> Param {
        Param::Buffer(at)
    }

    fn bits(bits: u64) -> Param {
        Param::U64(bits)
    }

    fn number(number: u32) -> Param {
        Param::U32(number)
    }

    fn float(number: f32) -> Param {
        Param::F32(number)
    }

    fn words(words: Arc<[u32]>) -> Param {
        Param::Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn map(&self, at: BufferId, map: &TensorMap) -> Result<Param, SimulatedError> {
        Ok(Param::TensorMap(describe(map.tiled()?, map.offset_bytes, at)?))
    }

    fn strided(&self, at: BufferId, map: &StridedMap) -> Result<Param, SimulatedError> {
        Ok(Param::TensorMap(describe(map.tiled()?, 0, at)?))
    }

    fn rows(&self, at: BufferId, map: &StridedMap) -> Result<Param, SimulatedError> {
        map.tiled()?;
        Ok(Self::pointer(at))
    }

    unsafe fn zero(&mut self, matrix: &UntypedDense<BufferId>) -> Result<(), SimulatedError> {
        let lines = if matrix.layout == Layout::RowMajor { matrix.rows } else { matrix.cols };
        let line = matrix.line() * matrix.dtype.bytes() as usize;
        let bytes = self.memory.bytes_mut(matrix.ptr);
        // The kernel may be told that they are further apart.
        let pitch = bytes.len() / lines.max(1);
        bytes.chunks_mut(pitch.max(1)).take(lines).for_each(|whole| whole[..line].fill(0));
        Ok(())
    }

    unsafe fn fill(&mut self, vector: UntypedVector<BufferId>, value: f32) -> Result<(), SimulatedError> {
        let (elements, _) = self.memory.bytes_mut(vector.ptr).as_chunks_mut::<4>();
        elements.iter_mut().take(vector.len).for_each(|element| *element = value.to_le_bytes());
        Ok(())
    }

    /// Launches nothing after a finding, and twice where there is a workspace: the second launch finds it as the first one
    /// left it, flags at zero and sums that mean nothing, and the results as they were.
    unsafe fn launch(&mut self, shape: &LaunchShape, values: &Bound<Self>) -> Result<(), SimulatedError> {
        if !self.report.is_clean() {
            return Ok(());
        }
        let [x, y] = shape.grid;
        let launch = Launch {
            grid: [x, y, 1],
            cluster: [shape.cluster, 1, 1],
            block: [shape.block, 1, 1],
            shared_bytes: shape.shared_bytes,
            params: values.to_vec(),
        };
        let Some(workspace) = self.workspace else {
            self.report = self.run(&launch)?;
            return Ok(());
        };
        let before = self.results();
        self.report = self.run(&launch)?;
        if !self.report.is_clean() {
            return Ok(());
        }
        self.memory.bytes_mut(workspace).iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = 0xFF);
        let first = self.results();
        for (id, bytes) in self.results.iter().zip(&before) {
            self.memory.bytes_mut(*id).copy_from_slice(bytes);
        }
        let mut second = self.run(&launch)?;
        second.coverage.merge(&self.report.coverage);
        self.report = second;
        self.repeats = self.results() == first;
        Ok(())
    }
}

/// A buffer of some bytes even without content, so that it has an address.
pub(crate) fn upload(memory: &mut GlobalMemory, bytes: Vec<u8>) -> BufferId {
    match bytes.is_empty() {
        true => memory.alloc(16, ALIGN),
        false => memory.upload(bytes, ALIGN),
    }
}

/// A tensor map whose first element is so far from a buffer's first byte.
pub(crate) fn describe(map: Tiled<'_>, offset: u64, buffer: BufferId) -> Result<TensorMapDesc, TensorMapError> {
    let Tiled { operand, dtype, conversion, dims, strides_bytes, box_dims, swizzle_bytes } = map;
    let swizzle = Swizzle::from_span(swizzle_bytes);
    Ok(TensorMapDesc {
        buffer,
        offset,
        element: match dtype {
            Dtype::F16 => TensorElement::F16,
            Dtype::BF16 => TensorElement::Bf16,
            Dtype::F32 if conversion == Conversion::Tf32 => TensorElement::Tf32,
            Dtype::F32 => TensorElement::F32,
            Dtype::F64 => TensorElement::F64,
            Dtype::I32 => TensorElement::S32,
            Dtype::E4M3 | Dtype::E5M2 | Dtype::I8 => TensorElement::B8,
        },
        dims: dims.to_vec(),
        strides: strides_bytes.to_vec(),
        box_dims: box_dims.to_vec(),
        element_strides: vec![1; dims.len()],
        swizzle: swizzle.ok_or(TensorMapError { operand, fault: TensorMapFault::Swizzle(swizzle_bytes) })?,
        im2col: None,
        fill_nan: false,
    })
}
