//! How the kernels of a gradient take their work: for masks on a GPU, whose work is listed there.

use bsr_codegen::{AttentionTiles, GradientSide};
use bsr_runtime::attention::{self, GradientWork};
use pyo3::prelude::*;

use super::AttentionMask;
use crate::errors::refused;
use crate::plan::Kernel;

/// How a kernel of a gradient takes its work.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct GradientForm {
    form: attention::GradientForm,
}

#[pymethods]
impl GradientForm {
    /// Whether its tiles are of keys, and its steps of queries.
    #[getter]
    fn of_keys(&self) -> bool {
        self.form.tiles.side == GradientSide::Keys
    }

    /// Rows of a tile, of a block of them, and of a run of the other side and its block.
    #[getter]
    fn rows(&self) -> (u32, u32, u32, u32) {
        let tiles = self.form.tiles.tiles;
        (tiles.rows, tiles.block.0, tiles.run(), tiles.block.1)
    }

    /// Consumers of a tile, and whether all of them compute the same blocks.
    #[getter]
    fn consumers(&self) -> (u32, bool) {
        (self.form.tiles.tiles.consumers, self.form.tiles.tiles.uniform)
    }

    /// Words of a tile, and the bits of a step's first word from which consumers store its blocks, and compute scores in them.
    #[getter]
    fn words(&self) -> (u32, u32, u32) {
        (self.form.tiles.tiles.tile_words, AttentionTiles::STORED, AttentionTiles::PARTIAL)
    }

    /// CTAs that run at the same time, heads of K and V whose tiles follow each other, and what a tile costs in rows of a step.
    #[getter]
    fn schedule(&self) -> (u32, usize, u64) {
        (self.form.ctas, self.form.together, self.form.tile_rows)
    }
}

impl From<attention::GradientForm> for GradientForm {
    fn from(form: attention::GradientForm) -> Self {
        Self { form }
    }
}

/// Heads, tiles and steps.
type Work = (Vec<u32>, Vec<u32>, Vec<u32>);

/// How a kernel of a gradient takes its work where so many CTAs run, and that of a mask as the host lists it, for Q and V of these
/// sizes.
#[pyfunction]
pub(crate) fn gradient_work(
    kernel: &Kernel,
    mask: &AttentionMask,
    q: [usize; 4],
    v: [usize; 4],
    ctas: u32,
) -> PyResult<(GradientForm, Work)> {
    let tiles = kernel.plan.gradient_tiles().ok_or_else(|| refused("the kernel is not one of a gradient"))?;
    let ([batch, heads, queries, _], [_, key_heads, keys, columns]) = (q, v);
    let shape = attention::Shape { batch, heads, key_heads, queries, keys, columns };
    let form = attention::GradientForm::new(tiles, &shape, ctas).map_err(refused)?;
    let work = GradientWork::new(&tiles, &shape, &mask.mask, ctas).map_err(refused)?;
    Ok((form.into(), (work.heads, work.tiles, work.steps)))
}
