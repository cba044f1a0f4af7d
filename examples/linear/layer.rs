//! The layer twice: with sparse kernels in 16 bits, and dense, masked, in f32 on the CPU.

use std::error::Error;
use std::fmt;

use bsr::{Bsr, Dense, Layout, Pattern, Structure, f16};
use rayon::prelude::*;

use crate::engine::{BLOCK, Engine};

/// How far a step goes along a gradient. That of the weights is an average over rows.
const RATE: f32 = 0.1;

/// The layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Rows of the inputs.
    pub(crate) m: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Stored blocks of all.
    pub(crate) density: f64,
}

/// What is to be learned, and where it begins. Matrices are row-major without gaps.
pub(crate) struct Problem {
    sizes: Sizes,
    structure: Structure,
    x: Vec<f32>,
    /// The stored values of W.
    w: Vec<f32>,
    target: Vec<f32>,
}

impl Problem {
    /// A target that other inputs and weights of the same pattern reach.
    pub(crate) fn draw(sizes: Sizes) -> Result<Self, Box<dyn Error>> {
        let Sizes { m, inputs, outputs, density } = sizes;
        let structure = Pattern::Random(density).structure(outputs, inputs, BLOCK, 1)?;
        // Sums of as many products as a row stores are about 1.
        let scale = ((structure.nnzb() * BLOCK.0 * BLOCK.1) as f32 / outputs as f32).max(1.0).sqrt().recip();
        let weights = |seed| Bsr::<f32>::normal(structure.clone(), seed);
        let values = |seed| -> Vec<f32> { weights(seed).values().iter().map(|w| w * scale).collect() };
        let drawn = |seed| Dense::<f32>::normal(m, inputs, Layout::RowMajor, seed).into_vec();
        let teacher = dense(&structure, &values(2));
        let target = multiply(&drawn(3), &transposed(&teacher, outputs), (m, outputs, inputs));
        let (x, w) = (drawn(4), values(5));
        Ok(Self { sizes, structure, x, w, target })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Sizes { m, inputs, outputs, .. }, structure) = (self.sizes, &self.structure);
        write!(
            f,
            "Y[{m}, {outputs}] = X[{m}, {inputs}] * W^T, {} of {} blocks of {} x {} stored",
            structure.nnzb(),
            structure.block_rows() * structure.block_cols(),
            BLOCK.0,
            BLOCK.1
        )
    }
}

/// Half the squared error of a row of Y, on average.
fn loss(error: &[f32], m: usize) -> f64 {
    error.iter().map(|e| f64::from(*e) * f64::from(*e)).sum::<f64>() / (2 * m) as f64
}

fn descend(values: &mut [f32], gradient: &[f32], rate: f32) {
    values.par_iter_mut().zip(gradient).for_each(|(value, slope)| *value -= rate * slope);
}

/// The layer with sparse kernels. Inputs and weights are kept in f32 and rounded before every product.
pub(crate) struct Sparse {
    x: Vec<f32>,
    w: Vec<f32>,
}

impl Sparse {
    pub(crate) fn new(problem: &Problem) -> Self {
        Self { x: problem.x.clone(), w: problem.w.clone() }
    }

    /// A step of gradient descent; the loss before it.
    pub(crate) fn step(&mut self, engine: &Engine, problem: &Problem) -> Result<f64, Box<dyn Error>> {
        let Sizes { m, inputs, outputs, .. } = problem.sizes;
        let rounded = |values: &[f32]| values.iter().map(|value| f16::from_f32(*value)).collect::<Vec<_>>();
        let x = Dense::from_vec(m, inputs, Layout::RowMajor, inputs, rounded(&self.x))?;
        let w = Bsr::from_structure(problem.structure.clone(), rounded(&self.w))?;
        let y = engine.forward(&x, &w)?;
        let error: Vec<f32> = y.data().iter().zip(&problem.target).map(|(y, target)| y - target).collect();
        let e = Dense::from_vec(m, outputs, Layout::RowMajor, outputs, rounded(&error))?;
        let e_transposed = e.view().transposed().to_dense(Layout::ColMajor);
        let dx = engine.inputs(&e, &w)?;
        let dw = engine.weights(&e_transposed, &x, &problem.structure)?;
        descend(&mut self.x, dx.data(), RATE);
        descend(&mut self.w, &dw, RATE / m as f32);
        Ok(loss(&error, m))
    }
}

/// The layer with a dense W, of which what is not stored is set to zero.
pub(crate) struct Masked {
    x: Vec<f32>,
    w: Vec<f32>,
    mask: Vec<f32>,
}

impl Masked {
    pub(crate) fn new(problem: &Problem) -> Self {
        let ones = vec![1.0; problem.w.len()];
        Self { x: problem.x.clone(), w: dense(&problem.structure, &problem.w), mask: dense(&problem.structure, &ones) }
    }

    /// A step of gradient descent; the loss before it.
    pub(crate) fn step(&mut self, problem: &Problem) -> f64 {
        let Sizes { m, inputs, outputs, .. } = problem.sizes;
        let y = multiply(&self.x, &transposed(&self.w, outputs), (m, outputs, inputs));
        let error: Vec<f32> = y.iter().zip(&problem.target).map(|(y, target)| y - target).collect();
        let dx = multiply(&error, &self.w, (m, inputs, outputs));
        let dw = multiply(&transposed(&error, m), &self.x, (outputs, inputs, m));
        descend(&mut self.x, &dx, RATE);
        descend(&mut self.w, &dw, RATE / m as f32);
        self.w.par_iter_mut().zip(&self.mask).for_each(|(w, mask)| *w *= mask);
        loss(&error, m)
    }
}

/// Every element of W, row by row.
fn dense(structure: &Structure, values: &[f32]) -> Vec<f32> {
    let (cols, (bm, bk)) = (structure.cols(), structure.block());
    let mut all = vec![0.0; structure.rows() * cols];
    for block_row in 0..structure.block_rows() {
        for block in structure.blocks_of(block_row) {
            let first = structure.col_idx()[block] as usize * bk;
            for (row, line) in values[block * bm * bk..][..bm * bk].chunks(bk).enumerate() {
                all[(block_row * bm + row) * cols + first..][..bk].copy_from_slice(line);
            }
        }
    }
    all
}

/// The columns of a matrix of `rows` rows as rows.
fn transposed(matrix: &[f32], rows: usize) -> Vec<f32> {
    let cols = matrix.len() / rows.max(1);
    let mut turned = vec![0.0; matrix.len()];
    turned.par_chunks_mut(rows.max(1)).enumerate().for_each(|(col, line)| {
        line.iter_mut().enumerate().for_each(|(row, value)| *value = matrix[row * cols + col]);
    });
    turned
}

/// A * B in f32, `m` x `n` over `k`.
fn multiply(a: &[f32], b: &[f32], (m, n, k): (usize, usize, usize)) -> Vec<f32> {
    let mut c = vec![0.0; m * n];
    c.par_chunks_mut(n).zip(a.par_chunks(k)).for_each(|(out, row)| {
        for (factor, line) in row.iter().zip(b.chunks_exact(n)) {
            out.iter_mut().zip(line).for_each(|(sum, value)| *sum += factor * value);
        }
    });
    c
}
