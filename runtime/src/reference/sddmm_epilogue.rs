//! What an epilogue makes of the stored blocks of an SDDMM, in f64, and how far off a kernel may be.

use bsr_codegen::epilogue::{Element, InputKind, Program};
use bsr_codegen::{KernelSpec, Refusal, Scale};
use rayon::prelude::*;

use super::bounds::dense_magnitudes;
use super::epilogue::{Evaluated, Fused, Magnitudes, Off, judged, not_given, unfused};
use super::sddmm_blocks;
use crate::epilogue::{Input, Inputs};
use crate::{DenseView, Element as Value, Structure};

/// Chosen stored blocks of an SDDMM of `a` and `b`, as a kernel of `spec` makes them with `inputs`, with bounds for each
/// element; see [`fuse_blocks`]. Factors of whole matrices multiply the product.
///
/// # Errors
/// As [`sddmm_blocks`] and [`fuse_blocks`].
pub fn expected_blocks<'v, A: Value, B: Value>(
    spec: &KernelSpec,
    a: impl Into<DenseView<'v, A>>,
    b: impl Into<DenseView<'v, B>>,
    structure: &Structure,
    blocks: &[usize],
    inputs: &Inputs,
) -> Result<Fused, Refusal> {
    let (a, b) = (a.into(), b.into());
    let all: Vec<usize> = (0..structure.rows()).collect();
    let (mut product, mut of_rows) = match spec.transpose.is_on() {
        true => (
            sddmm_blocks(b.transposed(), a.transposed(), structure, blocks)?,
            dense_magnitudes(b.transposed(), a.transposed(), &all),
        ),
        false => (sddmm_blocks(a, b, structure, blocks)?, dense_magnitudes(a, b, &all)),
    };
    let scales = inputs.scales_given();
    if let (Scale::Tensor, [of_a], [of_b]) = (scales.kind(), scales.a(), scales.b()) {
        let by = f64::from(*of_a) * f64::from(*of_b);
        product.iter_mut().for_each(|sum| *sum *= by);
        of_rows.iter_mut().for_each(|magnitude| *magnitude *= by.abs());
    }
    let (bm, bk) = structure.block();
    let row = |block: usize| structure.row_ptr().partition_point(|first| *first as usize <= block) - 1;
    // Beyond the edge there is no row, and nothing but zero is right.
    let of_row = |row: usize| of_rows.get(row).copied().unwrap_or(0.0);
    let magnitudes: Vec<f64> =
        blocks.iter().flat_map(|block| (0..bm).map(move |at| row(*block) * bm + at)).map(of_row).collect();
    fuse_blocks_within(spec, product, structure, blocks, a.cols(), inputs, Some((&magnitudes, bk)))
}

/// Applies the epilogue of `spec` to chosen stored blocks of an SDDMM, as
/// [`sddmm_blocks`](super::sddmm_blocks) gives them; without one they stay as they are. Rows and columns are those of
/// the stored matrix. What a block has beyond its edge is zero, and nothing is collected there.
///
/// The second result is that of the rows of [`complete_rows`]. `k` is the number of products that an element sums. The
/// tolerance is as in [`fuse`](super::fuse).
///
/// # Errors
/// A parameter that is given nothing, or something of another shape or pattern.
pub fn fuse_blocks(
    spec: &KernelSpec,
    product: Vec<f64>,
    structure: &Structure,
    blocks: &[usize],
    k: usize,
    inputs: &Inputs,
) -> Result<Fused, Refusal> {
    fuse_blocks_within(spec, product, structure, blocks, k, inputs, None)
}

/// The same, with bounds for each element where the magnitudes of the sums are known.
fn fuse_blocks_within(
    spec: &KernelSpec,
    product: Vec<f64>,
    structure: &Structure,
    blocks: &[usize],
    k: usize,
    inputs: &Inputs,
    magnitudes: Magnitudes<'_>,
) -> Result<Fused, Refusal> {
    let Some(epilogue) = spec.epilogue else { return Ok(unfused(spec, product, k, magnitudes)) };
    let program = epilogue.program();
    check(program, inputs, structure)?;
    let all = Elements { program, inputs, structure, blocks, product: &product };
    let longest = structure.row_lengths().max().unwrap_or(0) * structure.block().1;
    Ok(judged(spec, &product, (longest.min(structure.cols()), k), magnitudes, |off| all.evaluate(off)))
}

/// The rows of a matrix all of whose blocks are among `blocks`, ascending: those without blocks too.
pub fn complete_rows(structure: &Structure, blocks: &[usize]) -> Vec<usize> {
    let chosen: std::collections::HashSet<usize> = blocks.iter().copied().collect();
    let bm = structure.block().0;
    let complete = |row: &usize| structure.blocks_of(*row).all(|block| chosen.contains(&block));
    let rows = (0..structure.block_rows()).filter(complete);
    rows.flat_map(|row| row * bm..((row + 1) * bm).min(structure.rows())).collect()
}

/// Chosen blocks and all that an epilogue is given.
struct Elements<'e> {
    program: &'e Program,
    inputs: &'e Inputs,
    structure: &'e Structure,
    blocks: &'e [usize],
    product: &'e [f64],
}

/// What a row of a block collects: the value and the sum of what was added, without signs.
type Collected = Vec<(f64, f64)>;

impl Elements<'_> {
    fn evaluate(&self, off: Off<'_>) -> Evaluated {
        let (bm, bk) = self.structure.block();
        let mut c = vec![0.0; self.product.len()];
        let parts = c.par_chunks_mut(bm * bk).zip(self.product.par_chunks(bm * bk)).zip(self.blocks).enumerate();
        let of_blocks =
            parts.map(|(at, ((out, sums), block))| self.block(*block, sums, out, &|within| off(at * bm * bk + within)));
        let collected: Vec<Collected> = of_blocks.collect();
        let Some(reduction) = self.program.reduction() else {
            return Evaluated { c, rows: None, magnitudes: vec![] };
        };
        let places: std::collections::HashMap<usize, usize> =
            self.blocks.iter().enumerate().map(|(at, block)| (*block, at)).collect();
        let row = |row: usize| {
            let parts = self.structure.blocks_of(row / bm).filter_map(|block| places.get(&block));
            parts.fold((f64::from(reduction.start()), 0.0), |(value, magnitude), at| {
                let (one, more) = collected[*at][row % bm];
                (reduction.collect(value, one), magnitude + more)
            })
        };
        let rows = complete_rows(self.structure, self.blocks);
        let (rows, magnitudes) = rows.into_iter().map(row).unzip();
        Evaluated { c, rows: Some(rows), magnitudes }
    }

    fn block(&self, block: usize, sums: &[f64], out: &mut [f64], off: Off<'_>) -> Collected {
        let (structure, (bm, bk)) = (self.structure, self.structure.block());
        let first = structure.row_ptr().partition_point(|first| *first as usize <= block) - 1;
        let (first_row, first_col) = (first * bm, structure.col_idx()[block] as usize * bk);
        let (height, width) = (bm.min(structure.rows() - first_row), bk.min(structure.cols() - first_col));
        let given: Vec<(InputKind, Option<&Input>)> =
            self.program.inputs().iter().map(|input| (input.kind, self.inputs.get(&input.name))).collect();
        let evaluate = self.program.evaluator();
        let reduction = self.program.reduction();
        let start = reduction.map_or(0.0, |reduction| f64::from(reduction.start()));
        let mut collected = vec![(start, 0.0); bm];
        let mut values = vec![0.0; given.len()];
        for (row, collected) in collected.iter_mut().enumerate().take(height) {
            for col in 0..width {
                for (value, (kind, given)) in values.iter_mut().zip(&given) {
                    *value = match (kind, given) {
                        (InputKind::Cols(_), Some(Input::Vector(vector))) => vector.get(first_col + col),
                        (_, Some(Input::Vector(vector))) => vector.get(first_row + row),
                        (_, Some(Input::Blocks(blocks) | Input::Held(blocks))) => {
                            blocks.get(block * bm * bk + row * bk + col)
                        }
                        (_, Some(Input::Scalar(scalar))) => scalar.to_f64(),
                        (_, Some(Input::Matrix(_) | Input::Result(_)) | None) => f64::NAN,
                    };
                }
                let at = row * bk + col;
                let (result, second) = evaluate(Element { acc: sums[at] + off(at), inputs: &values });
                out[at] = result;
                if let (Some(reduction), Some(second)) = (reduction, second) {
                    *collected = (reduction.collect(collected.0, second), collected.1 + second.abs());
                }
            }
        }
        collected
    }
}

fn check(program: &Program, inputs: &Inputs, structure: &Structure) -> Result<(), Refusal> {
    let (rows, n) = (structure.rows(), structure.cols());
    for input in program.inputs() {
        let fits = match (input.kind, inputs.get(&input.name)) {
            (InputKind::Rows(_), Some(Input::Vector(vector))) => vector.len() == rows,
            (InputKind::Cols(_), Some(Input::Vector(vector))) => vector.len() == n,
            (InputKind::Blocks(_), Some(Input::Blocks(blocks) | Input::Held(blocks))) => {
                blocks.structure() == structure
            }
            (InputKind::Scalar, Some(Input::Scalar(_))) => true,
            _ => false,
        };
        if !fits {
            return Err(not_given(&input.name, &input.kind.words(), rows, n));
        }
    }
    Ok(())
}
