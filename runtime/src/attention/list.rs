//! The work of an attention as the parameter of a launch (`work_list`).

use std::sync::Arc;

use bsr_codegen::Plan;

use super::{AttentionError, AttentionWork};

/// What the steps begin at a multiple of, in words.
const UNIT: usize = 4;

impl AttentionWork {
    /// The words of the parameter: {bytes to the tiles, bytes to the steps}, the first tile of each CTA and the end of the last one, the tiles,
    /// the steps, zeros. None for a kernel whose list is in memory.
    ///
    /// # Errors
    /// [`AttentionError::Size`] for more than the parameter has.
    pub(super) fn in_parameters(&self, plan: &Plan) -> Result<Option<Arc<[u32]>>, AttentionError> {
        let Some(bytes) = plan.spec().work_list else { return Ok(None) };
        let ([tiles, steps], needed) = self.places();
        if needed > bytes as usize {
            return Err(AttentionError::size(
                format!("the work list has {needed} B, and the parameter of the kernel {bytes}"),
                format!(
                    "4 x (2 + {} of CTAs + {} of tiles + {} of steps), each rounded up to 16 B",
                    self.heads.len(),
                    self.tiles.len(),
                    self.steps.len()
                ),
                "a kernel without `work_list`, or with a larger one",
            ));
        }
        let mut words = vec![0; bytes as usize / size_of::<u32>()];
        words[..2].copy_from_slice(&[tiles, steps].map(|at| (at * size_of::<u32>()) as u32));
        for (at, list) in [(2, &self.heads), (tiles, &self.tiles), (steps, &self.steps)] {
            words[at..at + list.len()].copy_from_slice(list);
        }
        Ok(Some(words.into()))
    }

    /// Where tiles and steps begin, in words, and the bytes of all.
    fn places(&self) -> ([usize; 2], usize) {
        let tiles = (2 + self.heads.len()).next_multiple_of(UNIT);
        let steps = (tiles + self.tiles.len()).next_multiple_of(UNIT);
        ([tiles, steps], size_of::<u32>() * (steps + self.steps.len()).next_multiple_of(UNIT))
    }

    /// Bytes of the list in the parameters of a launch, a multiple of 16: the least `work_list` of a kernel.
    #[doc(hidden)]
    pub fn parameter_bytes(&self) -> usize {
        self.places().1
    }
}

/// Refuses work that kernels list for a kernel whose launch passes it by value.
///
/// # Errors
/// [`AttentionError::Size`].
pub(super) fn check_in_memory(plan: &Plan) -> Result<(), AttentionError> {
    match plan.spec().work_list {
        None => Ok(()),
        Some(bytes) => Err(AttentionError::size(
            "kernels on the GPU list the work of such a mask",
            format!("the kernel reads its list from {bytes} B of the launch's parameters, which the host fills"),
            "a kernel without `work_list`, or a mask of the host",
        )),
    }
}
