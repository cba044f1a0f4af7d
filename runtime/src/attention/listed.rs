//! How kernels list the work of an attention whose mask lives on a GPU.

use bsr_codegen::AttentionTiles;
use bsr_codegen::lists::{AttentionLists, AttentionRequest, PartialFlags};

use super::operands::check_without_pages;
use super::work::{check_sharing, heads_together};
use super::{AttentionError, Shape, Sharing};
use crate::error::KernelError;
use crate::lists::Table;

/// The lists for at most so many CTAs, of patterns that together have at most `capacity` blocks.
///
/// # Errors
/// A mask that is not of this shape and kernel; more than the kernels count.
pub(super) fn table(
    tiles: &AttentionTiles,
    shape: &Shape,
    (sharing, capacity): (Sharing, usize),
    flags: PartialFlags,
    ctas: u32,
) -> Result<Table, AttentionError> {
    check_without_pages(tiles.page)?;
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
    let lists = AttentionLists::new(&request).map_err(KernelError::from)?;
    Ok(Table::attention(&lists, flags))
}
