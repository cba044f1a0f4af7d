//! M, N and K of an operation, and which of them its operand in blocks has.

use bsr_codegen::{KernelSpec, Op, Operand, Refusal};

/// The operand that is stored in blocks. The mask of an attention has the rows and columns of Q K^T, as C has those of A B.
pub fn sparse_operand(op: Op) -> Operand {
    of(op).0
}

/// How the operations and the bytes of an operation are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// As those of a product of a sparse factor and a dense one.
    Factor,
    /// As those of the blocks of a product of two dense factors. An attention counts its own beside.
    Result,
}

pub(crate) fn counted(op: Op) -> Counted {
    of(op).1
}

/// All that is to be said of an operation here.
fn of(op: Op) -> (Operand, Counted) {
    match op {
        Op::Dsd => (Operand::A, Counted::Factor),
        // Of two factors in blocks the first.
        Op::Dss | Op::Sss => (Operand::A, Counted::Factor),
        Op::Dds => (Operand::B, Counted::Factor),
        Op::Sdd | Op::Attention | Op::AttentionDq | Op::AttentionDkv => (Operand::C, Counted::Result),
    }
}

/// M, N and K: A is M x K, B is K x N, C is M x N. Of an attention: queries, keys, and columns of Q and K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extents {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

impl Extents {
    /// Those of a product whose sparse operand has these rows and columns as it is stored, and whose third extent is `along`.
    pub fn of_stored(spec: &KernelSpec, stored: (usize, usize), along: usize) -> Self {
        let (rows, cols) = turned(spec, stored);
        match sparse_operand(spec.op) {
            Operand::A => Self { m: rows, n: along, k: cols },
            Operand::B => Self { m: along, n: cols, k: rows },
            _ => Self { m: rows, n: cols, k: along },
        }
    }

    /// Rows and columns of the sparse operand as it is stored.
    pub fn stored(&self, spec: &KernelSpec) -> (usize, usize) {
        turned(spec, self.of(sparse_operand(spec.op)))
    }

    /// The extent that the sparse operand does not have: N where A is sparse, M where B is, K where C is.
    pub fn along(&self, op: Op) -> usize {
        match sparse_operand(op) {
            Operand::A => self.n,
            Operand::B => self.m,
            _ => self.k,
        }
    }

    /// Rows and columns of A, B or C.
    pub fn of(&self, operand: Operand) -> (usize, usize) {
        match operand {
            Operand::A => (self.m, self.k),
            Operand::B => (self.k, self.n),
            _ => (self.m, self.n),
        }
    }

    /// Rows and columns of the dense factor; of B where both are dense.
    pub fn dense(&self, op: Op) -> (usize, usize) {
        self.of(if sparse_operand(op) == Operand::B { Operand::A } else { Operand::B })
    }
}

/// With `transpose = on` the rows of a stored operand are the columns of the one that is multiplied.
fn turned(spec: &KernelSpec, (rows, cols): (usize, usize)) -> (usize, usize) {
    if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) }
}

/// Operands A and B whose inner sides differ, by their rows and columns.
pub(crate) fn inner((m, k): (usize, usize), (b_rows, n): (usize, usize)) -> Refusal {
    Refusal::new(format!("A is {m} x {k}, B is {b_rows} x {n}"))
        .why("the columns of A are the rows of B")
        .help(format!("give B {k} rows"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn extents_follow_from_the_stored_operand_and_the_third_extent() {
        for (op, transpose, stored, along) in [
            ("dsd", "off", (2, 5), 3),
            ("dsd", "on", (5, 2), 3),
            ("dds", "off", (5, 3), 2),
            ("dds", "on", (3, 5), 2),
            ("sdd", "off", (2, 3), 5),
            ("sdd", "on", (3, 2), 5),
        ] {
            let spec = format!("bm = 64, bn = 64, bk = 64, op = {op}, transpose = {transpose}").parse().unwrap();
            let extents = Extents::of_stored(&spec, stored, along);
            assert_eq!(extents, Extents { m: 2, n: 3, k: 5 }, "{spec}");
            assert_eq!((extents.stored(&spec), extents.along(spec.op)), (stored, along), "{spec}");
        }
    }
}
