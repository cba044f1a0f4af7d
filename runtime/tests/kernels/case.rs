//! One multiplication to try: a spec, the sizes, the blocks of A.

use std::error::Error;
use std::fmt;

use bsr_codegen::{Arch, Dtype, KernelSpec, Plan};
use bsr_runtime::{Bsr, Element, Pattern, Structure};

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

/// Which blocks of A are stored.
#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    /// A pattern of the command line, for instance `random:0.5`.
    Pattern(&'static str),
    /// Block row `i` has `lengths[i % len]` blocks (at most all), spread from the last column to the left.
    Lengths(&'static [usize]),
    /// These block rows are full, the others empty.
    FullRows(&'static [usize]),
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
        let block = (self.spec.bm as usize, self.spec.bk as usize);
        if let Blocks::Pattern(text) = self.blocks {
            let pattern: Pattern = text.parse()?;
            return Ok(pattern.structure(self.m, self.k, block, self.seed())?);
        }
        let columns = self.k.div_ceil(block.1);
        let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
        for row in 0..self.m.div_ceil(block.0) {
            let length = match self.blocks {
                Blocks::Lengths(lengths) => lengths[row % lengths.len()].min(columns),
                Blocks::FullRows(rows) if rows.contains(&row) => columns,
                _ => 0,
            };
            let spread = (0..length).rev().map(|i| columns - 1 - i * columns / length);
            col_idx.extend(spread.map(|column| column as i32));
            row_ptr.push(col_idx.len() as i32);
        }
        Ok(Structure::new(self.m, self.k, block, row_ptr, col_idx)?)
    }

    pub(crate) fn matrix<T: Element>(&self) -> Result<Bsr<T>, Failure> {
        Ok(Bsr::normal(self.structure()?, self.seed() + 1))
    }

    /// Draws that differ from case to case and are the same in every run.
    pub(crate) fn seed(&self) -> u64 {
        (self.m * 31 + self.n * 17 + self.k * 13) as u64
    }

    /// The largest relative Frobenius error that rounding explains.
    pub(crate) fn tolerance(&self) -> f64 {
        match self.spec.out {
            Dtype::F16 => 2e-3,
            Dtype::BF16 => 1e-2,
            Dtype::F32 => 1e-5,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, m, n, k, .. } = self;
        write!(f, "{spec}; m = {m}, n = {n}, k = {k}, ")?;
        match &self.blocks {
            Blocks::Pattern(text) => f.write_str(text),
            Blocks::Lengths(lengths) => write!(f, "rows of {lengths:?} blocks"),
            Blocks::FullRows(rows) => write!(f, "full rows {rows:?}"),
        }
    }
}

pub(crate) fn parse(text: &str) -> KernelSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn plan(spec: &KernelSpec) -> Result<Plan, Failure> {
    Plan::new(spec, &Arch::SM_90A).map_err(|errors| errors.to_string().into())
}
