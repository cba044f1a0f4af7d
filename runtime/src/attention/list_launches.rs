//! The launches that list an attention whose mask lives on a GPU: what they are asked for, and what memory they have, on a GPU as
//! on the simulator.

use bsr_codegen::AttentionTiles;
use bsr_codegen::lists::{AttentionLists, AttentionRequest, ListKernel, PartialFlags};

use super::work::{check_sharing, heads_together};
use super::{AttentionError, Shape, Sharing};
use crate::kernel::KernelError;

/// A kernel, its CTAs and bytes of shared memory, its pointers and its numbers.
pub(super) type ListLaunch<P> = (ListKernel, (u32, u32), Vec<P>, Vec<u32>);

/// The lists for at most so many CTAs, of patterns that together have at most `capacity` blocks.
///
/// # Errors
/// A mask that is not of this shape and kernel; more than the kernels count.
pub(super) fn lists(
    tiles: &AttentionTiles,
    shape: &Shape,
    (sharing, capacity): (Sharing, usize),
    ctas: u32,
) -> Result<AttentionLists, AttentionError> {
    shape.check_tiles(tiles)?;
    check_sharing(tiles, sharing)?;
    let [batch, heads, key_heads, queries, keys] =
        [shape.batch, shape.heads, shape.key_heads, shape.queries, shape.keys].map(|size| size as u32);
    let by_head = matches!(sharing, Sharing::ByHead | Sharing::ByBoth);
    let by_problem = matches!(sharing, Sharing::ByProblem | Sharing::ByBoth);
    let request = AttentionRequest {
        tiles: *tiles,
        batch,
        heads,
        key_heads,
        queries,
        keys,
        by: (by_head, by_problem),
        capacity: capacity as u32,
        ctas,
        together: (heads_together(shape) * shape.heads / (shape.key_heads * tiles.heads() as usize)) as u32,
    };
    Ok(AttentionLists::new(&request).map_err(KernelError::from)?)
}

/// Bytes of each piece of memory that [`launches`] have, all of which are zero before the first of them. The last three are what
/// the kernel reads: steps, the first tile of every CTA, and the tiles.
pub(super) fn memory(lists: &AttentionLists) -> [usize; 9] {
    let (rows, assign) = (lists.rows() as usize, &lists.assign);
    [
        // Steps that have a place so far; 0 between two listings.
        8,
        // {first step, steps, steps of each consumer} of every row of tiles, and the first two alone.
        4 * AttentionLists::RECORD_WORDS * rows,
        8 * rows,
        // Tiles by their rows and columns, as they are assigned: how many to each CTA, which, and what the kernel notes.
        4 * assign.head_words(),
        assign.work_bytes(),
        4 * assign.tiles() as usize,
        4 * lists.slots(),
        4 * (lists.ctas() as usize + 1),
        lists.work_bytes(),
    ]
}

/// The launches, one after the other. `rows`, `columns` and `partial` are those of the checked patterns.
pub(super) fn launches<P: Copy>(
    lists: &AttentionLists,
    flags: PartialFlags,
    [rows, columns, partial]: [P; 3],
    [room, records, step_rows, lengths, assigned, notes, steps, heads, tiles]: [P; 9],
) -> [ListLaunch<P>; 3] {
    let grid = |kernel: ListKernel, shared| (kernel.grid(lists.rows(), lists.ctas()), shared);
    let (by_steps, by_tiles) = (ListKernel::AttentionSteps, ListKernel::AttentionTiles);
    [
        (
            by_steps,
            grid(by_steps, lists.steps_shared_bytes()),
            vec![rows, columns, partial, room, steps, records, step_rows],
            lists.steps_numbers(flags).to_vec(),
        ),
        (
            ListKernel::Assign,
            (lists.assign.ctas(), lists.assign.shared_bytes()),
            vec![step_rows, steps, lengths, assigned, notes],
            lists.assign.numbers().to_vec(),
        ),
        (
            by_tiles,
            grid(by_tiles, 64),
            vec![lengths, assigned, records, room, heads, tiles],
            lists.tiles_numbers().to_vec(),
        ),
    ]
}
