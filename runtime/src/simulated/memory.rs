//! What a launch reads and writes, in the simulator's memory.

use bsr_codegen::{Argument, LaunchShape, Operand, TensorMapError, TensorMapFault, Tiled};
use bsr_simulator::{BufferId, GlobalMemory, Launch, Param, Swizzle, TensorElement, TensorMapDesc};

use super::lists::Listed;
use crate::schedule::WorkLists;
use crate::{Dense, Dtype, Element, Layout};

/// Alignment of every buffer in bytes, as `cudaMalloc` gives it.
pub(super) const ALIGN: u64 = 256;

/// Bytes of a tensor map.
pub(super) const MAP_BYTES: usize = 128;

/// A buffer of some bytes even without content, so that it has an address.
pub(super) fn bytes(memory: &mut GlobalMemory, bytes: Vec<u8>) -> BufferId {
    match bytes.is_empty() {
        true => memory.alloc(16, ALIGN),
        false => memory.upload(bytes, ALIGN),
    }
}

/// What a launch reads and writes, in the simulator's memory.
pub(super) struct Uploads<'m> {
    pub(super) memory: &'m mut GlobalMemory,
    pub(super) columns: &'m [i32],
    pub(super) blocks: &'m [i32],
    pub(super) work: &'m WorkLists,
    /// What kernels have listed in place of that.
    pub(super) listed: Option<&'m Listed>,
    /// Where CTAs pass on partial sums.
    pub(super) workspace: BufferId,
    /// The rings of a probed kernel.
    pub(super) rings: Option<BufferId>,
    /// The operands there are; C is the first.
    pub(super) operands: Vec<(Operand, BufferId)>,
}

impl Uploads<'_> {
    pub(super) fn operand(&mut self, operand: Operand, bytes: Vec<u8>) {
        let id = self::bytes(self.memory, bytes);
        self.operands.push((operand, id));
    }

    /// The buffer of an operand; that of C where there is none.
    pub(super) fn buffer(&self, operand: Operand) -> BufferId {
        let found = self.operands.iter().find(|(there, _)| *there == operand);
        found.unwrap_or(&self.operands[0]).1
    }

    pub(super) fn params(
        &mut self,
        shape: &LaunchShape,
        scalars: &[(usize, f32)],
    ) -> Result<Vec<Param>, TensorMapError> {
        let listed = self.listed;
        let of_lists = |argument: &Argument| {
            let listed = listed?;
            match argument {
                // Where block rows share tiles, `columns` are their unions.
                Argument::ColIdx | Argument::StageMetadata => Some(listed.columns),
                Argument::BlockIdx => Some(listed.blocks),
                Argument::WorkHead => Some(listed.heads),
                Argument::Work => Some(listed.work),
                _ => None,
            }
        };
        let param = |argument: &Argument| {
            Ok(match argument {
                argument if of_lists(argument).is_some() => of_lists(argument).map_or(Param::U64(0), Param::Buffer),
                Argument::Map(map) => {
                    Param::TensorMap(describe(map.tiled()?, map.offset_bytes, self.buffer(map.operand))?)
                }
                // A kernel for a list of problems is launched by `multiply_batch`.
                Argument::Maps => Param::U64(0),
                Argument::Pointer(operand) => Param::Buffer(self.buffer(*operand)),
                Argument::ColIdx => Param::Buffer(self.words(self.columns.iter().map(|column| column.cast_unsigned()))),
                Argument::BlockIdx => Param::Buffer(self.words(self.blocks.iter().map(|block| block.cast_unsigned()))),
                Argument::WorkHead => Param::Buffer(self.words(self.work.heads.iter().copied())),
                Argument::Work => Param::Buffer(self.words(self.work.tiles.iter().copied())),
                Argument::Workspace => Param::Buffer(self.workspace),
                Argument::Probes => self.rings.map_or(Param::U64(0), Param::Buffer),
                // Of an attention alone.
                Argument::Strided(_) => Param::U64(0),
                Argument::Scale => Param::F32(f32::NAN),
                Argument::VectorStrides(_) => Param::U64(0),
                Argument::StageMetadata => Param::Buffer(self.words(self.work.stage_metadata.iter().copied())),
                Argument::Number(number) => Param::U32(*number),
                Argument::Scalar(at) => {
                    Param::F32(scalars.iter().find(|(given, _)| given == at).map_or(f32::NAN, |(_, value)| *value))
                }
            })
        };
        shape.parameters.iter().map(|parameter| &parameter.argument).map(param).collect()
    }

    /// Tells the simulator which buffers no earlier kernel writes: the sparse operand and the lists that are made of it.
    pub(super) fn settle_sparse(&mut self, shape: &LaunchShape, params: &[Param], sparse: Operand) {
        let ids: Vec<BufferId> = shape
            .parameters
            .iter()
            .zip(params)
            .filter_map(|(parameter, param)| match (&parameter.argument, param) {
                (Argument::ColIdx | Argument::BlockIdx | Argument::WorkHead | Argument::Work, Param::Buffer(id)) => {
                    Some(*id)
                }
                (Argument::Map(map), Param::TensorMap(described)) if map.operand == sparse => Some(described.buffer),
                _ => None,
            })
            .collect();
        ids.into_iter().for_each(|id| self.memory.settle(id));
    }

    fn words(&mut self, words: impl Iterator<Item = u32>) -> BufferId {
        bytes(self.memory, words.flat_map(u32::to_le_bytes).collect())
    }
}

/// Sets the elements to zero, and nothing between the lines.
pub(super) fn set_to_zero<T: Element>(c: &mut Dense<T>) {
    let (ld, line) = (c.ld(), if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() });
    c.data_mut().chunks_mut(ld).for_each(|whole| whole[..line].fill(T::ZERO));
}

/// A result whose lines lie 16 bytes further apart than they must: a kernel may not rely on the least distance, and what
/// it writes between them is seen.
pub(super) fn apart<T: Element>(c: &Dense<T>) -> Dense<T> {
    let (ld, wide) = (c.ld(), c.ld() + 16 / size_of::<T>());
    let mut data = vec![T::POISON; c.data().len() / ld.max(1) * wide];
    data.chunks_mut(wide).zip(c.data().chunks(ld)).for_each(|(to, from)| to[..ld].copy_from_slice(from));
    Dense::from_vec(c.rows(), c.cols(), c.layout(), wide, data).unwrap_or_else(|_| c.clone())
}

/// Tells the simulator what lies between the lines of a result.
pub(super) fn pad<T: Element>(memory: &mut GlobalMemory, id: BufferId, c: &Dense<T>) {
    let line = if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() };
    memory.pad(id, (line * size_of::<T>()) as u64, (c.ld() * size_of::<T>()) as u64);
}

/// Takes over the lines of a result that lie `ld` elements apart in `data`.
pub(super) fn copy_lines<T: Element>(c: &mut Dense<T>, ld: usize, data: &[T]) {
    let own = c.ld();
    c.data_mut().chunks_mut(own).zip(data.chunks(ld)).for_each(|(to, from)| to.copy_from_slice(&from[..own]));
}

pub(super) fn launch(shape: &LaunchShape, params: Vec<Param>) -> Launch {
    let [x, y] = shape.grid;
    Launch {
        grid: [x, y, 1],
        cluster: [shape.cluster, 1, 1],
        block: [shape.block, 1, 1],
        shared_bytes: shape.shared_bytes,
        params,
    }
}

/// A tensor map whose first element is so far from a buffer's first byte.
pub(crate) fn describe(map: Tiled<'_>, offset: u64, buffer: BufferId) -> Result<TensorMapDesc, TensorMapError> {
    let Tiled { operand, dtype, dims, strides_bytes, box_dims, swizzle_bytes } = map;
    let swizzle = Swizzle::from_span(swizzle_bytes);
    Ok(TensorMapDesc {
        buffer,
        offset,
        element: match dtype {
            Dtype::F16 => TensorElement::F16,
            Dtype::BF16 => TensorElement::Bf16,
            Dtype::F32 => TensorElement::F32,
            Dtype::I32 => TensorElement::B32,
            Dtype::E4M3 | Dtype::E5M2 | Dtype::I8 => TensorElement::B8,
        },
        dims: dims.to_vec(),
        strides: strides_bytes.to_vec(),
        box_dims: box_dims.to_vec(),
        element_strides: vec![1; dims.len()],
        swizzle: swizzle.ok_or(TensorMapError { operand, fault: TensorMapFault::Swizzle(swizzle_bytes) })?,
        fill_nan: false,
    })
}

pub(super) fn words(memory: &mut GlobalMemory, words: &[u32]) -> BufferId {
    bytes(memory, words.iter().flat_map(|word| word.to_le_bytes()).collect())
}
