//! One multiplication to try: a spec, the sizes, the blocks of the sparse factor.

use std::error::Error;
use std::fmt;

use bsr_codegen::{Dtype, KernelSpec, Op, Plan, Scale};
use bsr_runtime::epilogue::Input;
use bsr_runtime::reference::Fused;
use bsr_runtime::schedule::BlockIndex;
use bsr_runtime::{Bsr, Dense, Element, Inputs, Pattern, Permutation, Scales, Structure, reference};

/// What goes wrong, in words.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) spec: KernelSpec,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) blocks: Blocks,
}

/// Which blocks are stored, in the rows and columns of the sparse factor as the kernel reads it: of A, of A^T if A is
/// transposed, of B^T in a product with a sparse B.
#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    /// A pattern of the command line, for instance `random:0.5`.
    Pattern(&'static str),
    /// Block row `i` has `lengths[i % len]` blocks (at most all), spread from the last column to the left.
    Lengths(&'static [usize]),
    /// The first block row has no blocks, the second so many, the third half as many, and so on.
    Uneven { longest: usize },
    /// These block rows are full, the others empty.
    FullRows(&'static [usize]),
}

/// The operands of a case on the host, the sparse factor and the dense one, and what their product is.
pub(crate) struct Factors<A, B> {
    pub(crate) a: Bsr<A>,
    pub(crate) b: Dense<B>,
    pub(crate) scales: Scales,
    /// What the epilogue's parameters are given.
    pub(crate) inputs: Inputs,
    /// The results, and the largest errors that rounding explains.
    pub(crate) want: Fused,
}

impl Case {
    /// # Panics
    /// When `spec` is no spec: tables are written by hand.
    pub(crate) fn new(spec: &str, (m, n, k): (usize, usize, usize), blocks: Blocks) -> Self {
        Self { spec: parse(spec), m, n, k, blocks }
    }

    pub(crate) fn plan(&self) -> Result<Plan, Failure> {
        plan(&self.spec)
    }

    pub(crate) fn structure(&self) -> Result<Structure, Failure> {
        let read = self.structure_as_read()?;
        Ok(if walks_columns(&self.spec) { read.transpose()? } else { read })
    }

    fn structure_as_read(&self) -> Result<Structure, Failure> {
        let block = block_as_read(&self.spec);
        let rows = if self.spec.op == Op::Dds { self.n } else { self.m };
        if let Blocks::Pattern(text) = self.blocks {
            let pattern: Pattern = text.parse()?;
            return Ok(pattern.structure(rows, self.k, block, self.seed())?);
        }
        let columns = self.k.div_ceil(block.1);
        let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
        for row in 0..rows.div_ceil(block.0) {
            let length = match self.blocks {
                Blocks::Lengths(lengths) => lengths[row % lengths.len()].min(columns),
                Blocks::Uneven { longest } => [0, longest, longest / 2][row % 3],
                Blocks::FullRows(rows) if rows.contains(&row) => columns,
                _ => 0,
            };
            let spread = (0..length).rev().map(|i| columns - 1 - i * columns / length);
            col_idx.extend(spread.map(|column| column as i32));
            row_ptr.push(col_idx.len() as i32);
        }
        Ok(Structure::new(rows, self.k, block, row_ptr, col_idx)?)
    }

    /// The same kernel on a small problem: ragged in M, N and K, with an empty block row, two tiles along N, and rows so
    /// long that every ring of stages is used more than once.
    pub(crate) fn small(&self) -> Self {
        let ((bm, bk), bn) = (block_as_read(&self.spec), self.spec.bn as usize);
        let longest = 576_usize.div_ceil(bk).max(2);
        let rows = if bm < 256 { 3 } else { 2 };
        let n = if bn >= 128 { bn + 9 } else { bn + bn / 2 + 3 };
        let (m, k) = (rows * bm - bm / 3 - 1, (longest + 2) * bk - (bk / 2 + 3).min(2 * bk));
        let (m, n, k) = shape_of(&self.spec, (m, n, k));
        Self { spec: self.spec, m, n, k, blocks: Blocks::Uneven { longest } }
    }

    pub(crate) fn factors<A: Element, B: Element>(&self) -> Result<Factors<A, B>, Failure> {
        let structure = self.structure()?;
        let longest = BlockIndex::new(&self.plan()?, &structure).longest_sum();
        let scales = self.scales(&structure)?;
        let a = Bsr::normal(structure, self.seed() + 1);
        let b = self.dense(self.seed() + 2);
        let inputs = self.inputs();
        let want = self.want(&a, &b, &scales, &inputs, longest)?;
        Ok(Factors { a, b, scales, inputs, want })
    }

    /// What the kernel is to make of its operands, where no element sums more than `longest` products.
    pub(crate) fn want<A: Element, B: Element>(
        &self,
        a: &Bsr<A>,
        b: &Dense<B>,
        scales: &Scales,
        inputs: &Inputs,
        longest: usize,
    ) -> Result<Fused, Failure> {
        let rows: Vec<usize> = (0..self.m).collect();
        Ok(reference::expected(&self.spec, a, b, &inputs.clone().scales(scales.clone()), &rows, longest)?)
    }

    /// Random inputs of the epilogue. A full operand of the name `c` is C itself.
    pub(crate) fn inputs(&self) -> Inputs {
        let none = match self.spec.permute.is_on() {
            true => Inputs::new().order(Permutation::random(self.m, self.seed() + 5)),
            false => Inputs::new(),
        };
        let Some(epilogue) = self.spec.epilogue else { return none };
        let drawn = Inputs::random(epilogue.program(), (self.m, self.n), self.spec.c_layout, self.seed() + 4);
        let drawn = match none.rows_to() {
            Some(order) => drawn.order(order.clone()),
            None => drawn,
        };
        match drawn.get("c").cloned() {
            Some(Input::Matrix(matrix)) => drawn.result("c", matrix),
            _ => drawn,
        }
    }

    /// A dense factor.
    pub(crate) fn dense<T: Element>(&self, seed: u64) -> Dense<T> {
        match self.spec.op {
            Op::Dds => Dense::normal(self.m, self.k, self.spec.a_layout, seed),
            _ => Dense::normal(self.k, self.n, self.spec.b_layout, seed),
        }
    }

    /// Factors around 1, and around what makes integers so large: sums stay within the range of an f16.
    fn scales(&self, structure: &Structure) -> Result<Scales, Failure> {
        let drawn = Scales::random(self.spec.scale, structure, self.n, self.seed() + 3);
        if self.spec.a != Dtype::I8 {
            return Ok(drawn);
        }
        let small = |factors: &[f32]| -> Vec<f32> { factors.iter().map(|x| x / i8::SPREAD as f32).collect() };
        let (a, b) = (small(drawn.a()), small(drawn.b()));
        Ok(match self.spec.scale {
            Scale::Unscaled => drawn,
            Scale::Tensor => Scales::tensor(a[0], b[0])?,
            Scale::RowCol => Scales::row_col(a, b)?,
            Scale::Block => Scales::block(a, b)?,
        })
    }

    /// Draws that differ from case to case and are the same in every run.
    pub(crate) fn seed(&self) -> u64 {
        (self.m * 31 + self.n * 17 + self.k * 13) as u64
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, m, n, k, .. } = self;
        write!(f, "{spec}; m = {m}, n = {n}, k = {k}, ")?;
        match &self.blocks {
            Blocks::Pattern(text) => f.write_str(text),
            Blocks::Lengths(lengths) => write!(f, "rows of {lengths:?} blocks"),
            Blocks::Uneven { longest } => write!(f, "rows of 0, {longest}, {} blocks", longest / 2),
            Blocks::FullRows(rows) => write!(f, "full rows {rows:?}"),
        }
    }
}

/// Rows and columns of a block of the sparse factor as the kernel reads it.
pub(crate) fn block_as_read(spec: &KernelSpec) -> (usize, usize) {
    let (bm, bk) = (spec.bm as usize, spec.bk as usize);
    if walks_columns(spec) { (bk, bm) } else { (bm, bk) }
}

/// M, N and K of a product whose sparse factor is read as `rows` x `k`, and whose dense one has `columns`.
pub(crate) fn shape_of(spec: &KernelSpec, (rows, columns, k): (usize, usize, usize)) -> (usize, usize, usize) {
    if spec.op == Op::Dds { (columns, rows, k) } else { (rows, columns, k) }
}

fn walks_columns(spec: &KernelSpec) -> bool {
    spec.transpose.is_on() != (spec.op == Op::Dds)
}

pub(crate) fn parse(text: &str) -> KernelSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn plan(spec: &KernelSpec) -> Result<Plan, Failure> {
    Plan::new(spec).map_err(|errors| errors.to_string().into())
}
