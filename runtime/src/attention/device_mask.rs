//! Masks that live on the GPU: patterns as device arrays that may change between launches.

use bsr_codegen::lists::PartialFlags;

use super::{AttentionError, Mask, Shape, Sharing};
use crate::Structure;
use crate::gpu::{Device, DeviceBuffer, DevicePattern, DevicePtr, IndexWidth, PatternShape, StreamRef};

/// The sizes of a mask on the GPU: what does not change with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceMaskShape {
    /// Queries of a problem.
    pub queries: usize,
    /// Keys of a problem.
    pub keys: usize,
    /// Queries and keys of a block.
    pub block: (usize, usize),
    /// Which heads have which pattern.
    pub sharing: Sharing,
    /// Patterns: one, or as many as the sharing wants.
    pub patterns: usize,
    /// The most blocks that all patterns together ever store.
    pub capacity: usize,
}

impl DeviceMaskShape {
    /// The patterns one below the other, each of whole rows of blocks.
    fn stacked(&self) -> PatternShape {
        let Self { queries, keys, block, patterns, capacity, .. } = *self;
        let whole = |size: usize, block: usize| size.div_ceil(block.max(1)) * block;
        PatternShape { rows: patterns * whole(queries, block.0), cols: whole(keys, block.1), block, capacity }
    }
}

/// Which of the stored blocks are partial, as device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialBlocks {
    /// None.
    None,
    /// All.
    All,
    /// Those whose byte is not 0: one for each stored block, in their order, `capacity` in all.
    Flags(DevicePtr),
}

/// A mask in device memory, which may change: its number of blocks too, up to a capacity.
///
/// The patterns lie one below the other: row pointers of all rows of blocks of the first pattern, then of the second, in one
/// array of one more than there are rows, and the columns of all of them in another. After a program has changed them it
/// calls [`changed`](DeviceMask::changed), and the next launch checks them and lists the work, on its stream and ahead of
/// itself. A CUDA graph that captured a launch does so whenever it runs.
///
/// A row of blocks that is wrong has no blocks: O is 0 for its queries, and the logarithm of their sums minus infinity.
/// [`check`](DeviceMask::check) tells it. Nothing that lies in the arrays is used as an address before it was checked.
#[derive(Debug)]
pub struct DeviceMask {
    shape: DeviceMaskShape,
    pattern: DevicePattern,
    flags: PartialFlags,
    partial: Option<DeviceBuffer<u8>>,
}

impl DeviceMask {
    /// Copies a mask to the device, with room for `capacity` blocks, at least those that there are.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`]: memory, and sizes that a pattern on the GPU cannot have.
    pub fn upload(device: &Device, mask: &Mask, capacity: usize) -> Result<Self, AttentionError> {
        let capacity = capacity.max(mask.stored());
        let (queries, keys) = mask.sizes();
        let patterns = mask.lists().len();
        let shape = DeviceMaskShape { queries, keys, block: mask.block(), sharing: mask.sharing(), patterns, capacity };
        let (structure, mut flags) = stacked(mask, &shape)?;
        flags.resize(capacity, 0);
        Ok(Self {
            shape,
            pattern: DevicePattern::upload(device, &structure, capacity)?,
            flags: PartialFlags::ByBlock,
            partial: Some(DeviceBuffer::from_slice(device, &flags)?),
        })
    }

    /// Views row pointers and block columns in foreign device memory, as PyTorch has them. They are neither copied nor freed.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`]: addresses that are null or not aligned, and sizes that a pattern on the GPU cannot have.
    ///
    /// # Safety
    /// For as long as the mask is used in launches (those of captured graphs too), the row pointers must be memory of this
    /// device of one integer more than all patterns have rows of blocks, the columns of `shape.capacity`, and the flags, if
    /// there are, of as many bytes. What lies there may be anything.
    pub unsafe fn from_raw(
        device: &Device,
        shape: DeviceMaskShape,
        width: IndexWidth,
        (indptr, indices): (DevicePtr, DevicePtr),
        partial: PartialBlocks,
    ) -> Result<Self, AttentionError> {
        // SAFETY: the caller vouches for the memory.
        let pattern = unsafe { DevicePattern::from_raw(device, shape.stacked(), width, (indptr, indices))? };
        let (flags, partial) = match partial {
            PartialBlocks::None => (PartialFlags::None, None),
            PartialBlocks::All => (PartialFlags::All, None),
            PartialBlocks::Flags(at) => {
                // SAFETY: the caller vouches for the memory.
                let flags = unsafe { DeviceBuffer::foreign(device, at, shape.capacity) };
                (PartialFlags::ByBlock, Some(flags))
            }
        };
        Ok(Self { shape, pattern, flags, partial })
    }

    /// Views a byte for every block of every pattern, row by row, in foreign device memory: 0 for one that is not stored, 1
    /// for a whole one, more for a partial one.
    ///
    /// # Errors
    /// As [`DeviceMask::from_raw`].
    ///
    /// # Safety
    /// For as long as the mask is used in launches, `bytes` must be memory of this device of a byte for every block.
    pub unsafe fn from_raw_bytes(
        device: &Device,
        shape: DeviceMaskShape,
        bytes: DevicePtr,
    ) -> Result<Self, AttentionError> {
        let stacked = shape.stacked();
        // SAFETY: the caller vouches for the memory.
        let pattern = unsafe { DevicePattern::from_raw_mask(device, stacked, bytes)? };
        // SAFETY: as above.
        let partial = unsafe { DeviceBuffer::foreign(device, bytes, stacked.block_rows() * stacked.block_cols()) };
        Ok(Self { shape, pattern, flags: PartialFlags::ByPlace, partial: Some(partial) })
    }

    /// The same, with every stored block partial.
    #[must_use]
    pub fn scored(self) -> Self {
        Self { flags: PartialFlags::All, partial: None, ..self }
    }

    /// Says that the arrays have changed, or will have when the next launch with this mask runs.
    pub fn changed(&self) {
        self.pattern.changed();
    }

    /// Copies another mask of the same shape over one that was [uploaded](DeviceMask::upload), after what is enqueued on
    /// `stream`, and waits for it. It counts as a [change](DeviceMask::changed).
    ///
    /// # Errors
    /// [`AttentionError::Mask`] for another shape; [`AttentionError::Gpu`] for more blocks than the capacity, and memory that
    /// is not this value's.
    pub fn replace_on(&self, mask: &Mask, stream: StreamRef<'_>) -> Result<(), AttentionError> {
        let shape = &self.shape;
        let same = (mask.sizes(), mask.block(), mask.sharing(), mask.lists().len())
            == ((shape.queries, shape.keys), shape.block, shape.sharing, shape.patterns);
        if !same {
            let fact = format!("{:?} in blocks of {:?}, not {shape:?}", mask.sizes(), mask.block());
            return Err(AttentionError::mask(fact, "a mask of the same sizes, blocks and sharing"));
        }
        let (structure, flags) = stacked(mask, shape)?;
        self.pattern.replace_on(&structure, stream)?;
        if let Some(partial) = self.partial.as_ref().filter(|_| !flags.is_empty()) {
            // SAFETY: the view is no longer than the buffer, as the pattern's capacity is not exceeded, and is gone before it.
            let mut view = unsafe { DeviceBuffer::foreign(partial.device(), partial.ptr(), flags.len()) };
            view.upload_on(&flags, stream)?;
        }
        Ok(())
    }

    /// Waits for the device, and tells the first wrong row of blocks that any check so far has found, once. Rows are counted
    /// through all patterns.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`] with what is wrong, or with the error of an earlier launch.
    pub fn check(&self) -> Result<(), AttentionError> {
        Ok(self.pattern.check()?)
    }

    /// The sizes.
    pub fn shape(&self) -> &DeviceMaskShape {
        &self.shape
    }

    pub(super) fn pattern(&self) -> &DevicePattern {
        &self.pattern
    }

    /// Which blocks are partial, and where that is told: any address where it is not told.
    pub(super) fn flags(&self) -> (PartialFlags, Option<DevicePtr>) {
        (self.flags, self.partial.as_ref().map(DeviceBuffer::ptr))
    }

    /// Whether the mask is of these sizes and has a pattern for each of these heads.
    pub(super) fn check_shape(&self, shape: &Shape, block: (u32, u32)) -> Result<(), AttentionError> {
        let own = &self.shape;
        let wanted = own.sharing.patterns(shape.batch, shape.heads);
        let block = (block.0 as usize, block.1 as usize);
        let found = ((own.queries, own.keys), own.block, own.patterns);
        let expected = ((shape.queries, shape.keys), block, wanted);
        match found == expected && shape.queries > 0 && shape.keys > 0 {
            true => Ok(()),
            false => Err(AttentionError::size(
                "the mask on the GPU is not of these tensors and this kernel",
                format!(
                    "{:?} queries x keys in blocks of {:?} and {} patterns, not {:?} in {:?} and {}",
                    found.0, found.1, found.2, expected.0, expected.1, expected.2
                ),
                "a mask of the tensors' sizes, which are not 0, in the kernel's blocks, with a pattern for each",
            )),
        }
    }
}

/// The patterns of a mask one below the other, and which of their blocks are partial.
fn stacked(mask: &Mask, shape: &DeviceMaskShape) -> Result<(Structure, Vec<u8>), AttentionError> {
    let PatternShape { rows, cols, block, .. } = shape.stacked();
    let (row_ptr, columns, flags) = mask.stacked();
    let [row_ptr, columns] = [row_ptr, columns].map(|words| words.into_iter().map(u32::cast_signed).collect());
    let structure = Structure::new(rows, cols, block, row_ptr, columns)
        .map_err(|error| AttentionError::mask(error.to_string(), "a mask that a matrix of blocks can have"))?;
    Ok((structure, flags))
}
