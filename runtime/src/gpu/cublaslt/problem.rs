//! A dense multiplication, and how it looks to a library that knows column-major matrices only.

use std::fmt;

use bsr_codegen::{Dtype, Layout};

use crate::gpu::GpuError;

/// The dense product C\[m, n\] = A\[m, k\] * B\[k, n\], accumulated in f32, or in i32 for integers.
///
/// Arrays are of A, B and C, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DenseProblem {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element types.
    pub types: [Dtype; 3],
    /// Orders.
    pub layouts: [Layout; 3],
    /// Leading dimensions in elements.
    pub ld: [usize; 3],
    /// FP8 alone: leave the sums to the tensor core, with the precision that it has.
    pub fast: bool,
    /// f32 alone: the library may round factors to TF32 (`CUBLAS_COMPUTE_32F_FAST_TF32`).
    pub tf32: bool,
}

impl DenseProblem {
    /// The problem with the leading dimensions that [`crate::Dense`] and [`crate::gpu::DeviceDense`] allocate, lines
    /// padded to 16 bytes, and with fast FP8 sums.
    pub fn new((m, n, k): (usize, usize, usize), types: [Dtype; 3], layouts: [Layout; 3]) -> Self {
        let mut problem = Self { m, n, k, types, layouts, ld: [0; 3], fast: true, tf32: false };
        for (at, dtype) in types.into_iter().enumerate() {
            let (_, line) = problem.lines(at);
            problem.ld[at] = line.max(1).next_multiple_of(16 / dtype.bytes() as usize);
        }
        problem
    }

    /// The same problem with FP8 sums of full precision: the library adds them up in f32 registers.
    #[must_use]
    pub fn precise(self) -> Self {
        Self { fast: false, ..self }
    }

    /// The same problem, whose f32 factors may be rounded to TF32.
    #[must_use]
    pub fn in_tf32(self) -> Self {
        Self { tf32: true, ..self }
    }

    /// The types nearest to these that the library multiplies: these themselves, where it does.
    ///
    /// It has no product of two e5m2 operands: e4m3 operands are as large and as quick. Of values that are narrower than B
    /// it has none, and takes them in B's type. It writes f16, bf16 or f32
    /// from FP8, i32 from i8, and otherwise f32 or the type of the operands.
    pub fn nearest([a, b, c]: [Dtype; 3]) -> [Dtype; 3] {
        let [a, b] = match [a, b] {
            [Dtype::E5M2, Dtype::E5M2] => [Dtype::E4M3; 2],
            [a, b] if a != b && !a.is_fp8() => [b; 2],
            same => same,
        };
        let c = match (a, c) {
            (a, c) if outputs(a).contains(&c) => c,
            (Dtype::I8, _) => Dtype::I32,
            (Dtype::E4M3 | Dtype::E5M2, _) => Dtype::BF16,
            (a, _) => a,
        };
        [a, b, c]
    }

    /// Operations: `2 * m * n * k`.
    pub fn flops(&self) -> u64 {
        2 * self.m as u64 * self.n as u64 * self.k as u64
    }

    /// Number of lines of matrix `at`, and elements of a line.
    fn lines(&self, at: usize) -> (usize, usize) {
        let (rows, cols) = [(self.m, self.k), (self.k, self.n), (self.m, self.n)][at];
        if self.layouts[at] == Layout::RowMajor { (rows, cols) } else { (cols, rows) }
    }

    /// Elements of the memory of A, B and C.
    pub fn elements(&self) -> [usize; 3] {
        [0, 1, 2].map(|at| self.lines(at).0 * self.ld[at])
    }

    /// Refuses what cuBLASLt has no kernel for, or what would read outside of the matrices.
    pub(super) fn validate(&self) -> Result<(), GpuError> {
        let fault = |why: String| Err(GpuError::DenseProblem { problem: self.to_string(), why });
        let [a, b, c] = self.types;
        if self.m == 0 || self.n == 0 || self.k == 0 {
            return fault("a dimension is 0\n  help: there is nothing to multiply".into());
        }
        if a != b && !(a.is_fp8() && b.is_fp8()) {
            return fault(format!("it multiplies operands of one type, or both FP8\n  help: {a} x {a} or {b} x {b}"));
        }
        if [a, b] == [Dtype::E5M2; 2] {
            return fault("it has no product of two e5m2 operands\n  help: make one of them e4m3".into());
        }
        if !outputs(a).contains(&c) {
            let words: Vec<String> = outputs(a).iter().map(Dtype::to_string).collect();
            let help = if words.is_empty() { "f16 operands".to_owned() } else { words.join(" or ") };
            return fault(format!("it does not write {c} from {a} x {b}\n  help: {help}"));
        }
        if a.bytes() == 1 && self.layouts[..2] != [Layout::RowMajor, Layout::ColMajor] {
            return fault("it reads 8-bit operands along K alone\n  help: A row-major, B column-major".into());
        }
        for (at, name) in ["A", "B", "C"].into_iter().enumerate() {
            let (ld, (_, line)) = (self.ld[at], self.lines(at));
            if ld < line {
                return fault(format!(
                    "the leading dimension {ld} of {name} is shorter than a line of {line} elements\n  help: use at least {line}"
                ));
            }
        }
        Ok(())
    }

    /// The same product in column-major terms.
    ///
    /// A row-major matrix is the transpose of a column-major one in the same memory. So for a column-major C
    /// the library multiplies A * B, and for a row-major one B' * A' = C', whose memory is that of C.
    pub(super) fn mapped(&self) -> Mapped {
        let [a, b, c] = [(self.m, self.k), (self.k, self.n), (self.m, self.n)];
        let stored = |(rows, cols): (usize, usize), at: usize| Stored::new(rows, cols, self.ld[at], self.layouts[at]);
        let (a, b, c) = (stored(a, 0), stored(b, 1), stored(c, 2));
        match self.layouts[2] {
            Layout::ColMajor => Mapped { swapped: false, first: a, second: b, out: c },
            Layout::RowMajor => {
                Mapped { swapped: true, first: b.transposed(), second: a.transposed(), out: c.transposed() }
            }
        }
    }
}

/// The types of results that the library has for operands of type `a`.
fn outputs(a: Dtype) -> &'static [Dtype] {
    match a {
        Dtype::F16 => &[Dtype::F16, Dtype::F32],
        Dtype::BF16 => &[Dtype::BF16, Dtype::F32],
        Dtype::F32 => &[Dtype::F32],
        Dtype::F64 => &[Dtype::F64],
        Dtype::E4M3 | Dtype::E5M2 => &[Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::E4M3],
        Dtype::I8 => &[Dtype::I32],
        Dtype::I32 => &[],
    }
}

impl fmt::Display for DenseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, types, layouts: [a, b, c], .. } = self;
        let tf32 = if self.tf32 { " in TF32" } else { "" };
        write!(f, "{m} x {n} x {k} ({}{tf32}; A {a}-major, B {b}-major, C {c}-major)", types_in_words(types))
    }
}

/// `f16`, `bf16 to f32`, `e4m3 x e5m2 to bf16`.
pub fn types_in_words([a, b, c]: &[Dtype; 3]) -> String {
    match (a == b, b == c) {
        (true, true) => a.to_string(),
        (true, false) => format!("{a} to {c}"),
        (false, _) => format!("{a} x {b} to {c}"),
    }
}

/// `out = op(first) * op(second)`, all of it column-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// Whether `first` is B and `second` is A.
    pub(super) swapped: bool,
    pub(super) first: Stored,
    pub(super) second: Stored,
    /// Never transposed.
    pub(super) out: Stored,
}

/// A matrix as it lies in memory, read column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) ld: usize,
    /// Whether the matrix meant is the transpose of the one that lies there.
    pub(super) transpose: bool,
}

impl Stored {
    fn new(rows: usize, cols: usize, ld: usize, layout: Layout) -> Self {
        match layout {
            Layout::ColMajor => Self { rows, cols, ld, transpose: false },
            Layout::RowMajor => Self { rows: cols, cols: rows, ld, transpose: true },
        }
    }

    fn transposed(self) -> Self {
        Self { transpose: !self.transpose, ..self }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const LAYOUTS: [Layout; 2] = [Layout::RowMajor, Layout::ColMajor];

    /// What the library is documented to compute.
    fn column_major_gemm(first: &[f64], second: &[f64], mapped: &Mapped, k: usize, out: &mut [f64]) {
        let at = |data: &[f64], side: &Stored, row: usize, col: usize| {
            let (row, col) = if side.transpose { (col, row) } else { (row, col) };
            assert!(row < side.rows && col < side.cols && side.rows <= side.ld);
            data[col * side.ld + row]
        };
        for col in 0..mapped.out.cols {
            for row in 0..mapped.out.rows {
                out[col * mapped.out.ld + row] =
                    (0..k).map(|i| at(first, &mapped.first, row, i) * at(second, &mapped.second, i, col)).sum();
            }
        }
    }

    fn place(layout: Layout, ld: usize, row: usize, col: usize) -> usize {
        if layout == Layout::RowMajor { row * ld + col } else { col * ld + row }
    }

    fn matrix(rows: usize, cols: usize, layout: Layout, ld: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let lines = if layout == Layout::RowMajor { rows } else { cols };
        let mut data = vec![f64::NAN; lines * ld];
        for row in 0..rows {
            for col in 0..cols {
                data[place(layout, ld, row, col)] = value(row, col);
            }
        }
        data
    }

    #[test]
    fn every_combination_of_layouts_is_the_same_product() {
        let (m, n, k) = (5, 3, 7);
        let a_at = |r: usize, c: usize| (r * 10 + c) as f64;
        let b_at = |r: usize, c: usize| (r as f64) - 2.0 * c as f64;
        for a in LAYOUTS {
            for b in LAYOUTS {
                for c in LAYOUTS {
                    let types = [Dtype::F16, Dtype::F16, Dtype::F32];
                    let problem = DenseProblem::new((m, n, k), types, [a, b, c]);
                    let [lda, ldb, ldc] = problem.ld;
                    let a_data = matrix(m, k, a, lda, a_at);
                    let b_data = matrix(k, n, b, ldb, b_at);
                    let mut c_data = matrix(m, n, c, ldc, |_, _| 0.0);
                    assert_eq!(problem.elements(), [a_data.len(), b_data.len(), c_data.len()]);
                    let mapped = problem.mapped();
                    assert!(!mapped.out.transpose);
                    let (first, second) = if mapped.swapped { (&b_data, &a_data) } else { (&a_data, &b_data) };
                    column_major_gemm(first, second, &mapped, k, &mut c_data);
                    for row in 0..m {
                        for col in 0..n {
                            let want: f64 = (0..k).map(|i| a_at(row, i) * b_at(i, col)).sum();
                            assert_eq!(c_data[place(c, ldc, row, col)], want, "{problem}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn eight_bit_operands_are_transposed_and_not_as_the_library_wants_them() {
        for c in LAYOUTS {
            let types = [Dtype::E4M3, Dtype::E5M2, Dtype::BF16];
            let problem = DenseProblem::new((64, 32, 48), types, [Layout::RowMajor, Layout::ColMajor, c]);
            problem.validate().unwrap();
            let mapped = problem.mapped();
            assert_eq!((mapped.first.transpose, mapped.second.transpose), (true, false), "{problem}");
        }
    }

    #[test]
    fn leading_dimensions_are_those_of_a_dense_matrix() {
        let layouts = [Layout::RowMajor, Layout::ColMajor, Layout::RowMajor];
        let problem = DenseProblem::new((100, 1, 30), [Dtype::BF16, Dtype::BF16, Dtype::F32], layouts);
        assert_eq!(problem.ld, [32, 32, 4]);
        assert_eq!(problem.ld[0], crate::Dense::<half::bf16>::padded_ld(30));
        assert_eq!(problem.flops(), 6000);
        assert_eq!(problem.elements(), [3200, 32, 400]);
        assert_eq!(DenseProblem::new((100, 1, 30), [Dtype::I8, Dtype::I8, Dtype::I32], layouts).ld, [32, 32, 4]);
    }

    #[test]
    fn what_the_library_lacks_is_refused_in_words() {
        use Dtype::{BF16, E4M3, E5M2, F16, F32, I8, I32};
        let row = [Layout::RowMajor; 3];
        let refused = |shape, types, layouts| {
            let problem = DenseProblem::new(shape, types, layouts);
            problem.validate().unwrap_err().to_string()
        };
        assert!(refused((0, 1, 1), [F16; 3], row).contains("nothing to multiply"));
        assert!(refused((8, 8, 8), [F16, F16, BF16], row).contains("does not write bf16 from f16 x f16"));
        assert!(refused((8, 8, 8), [F16, BF16, F32], row).contains("of one type"));
        assert!(refused((8, 8, 8), [I8, I8, F32], row).contains("help: i32"));
        assert!(refused((8, 8, 8), [I32; 3], row).contains("help: f16 operands"));
        assert!(refused((8, 8, 8), [E5M2, E5M2, BF16], row).contains("two e5m2"));
        assert!(refused((8, 8, 8), [E4M3, E5M2, BF16], row).contains("B column-major"));
        let mut short = DenseProblem::new((8, 8, 16), [F16; 3], row);
        short.ld[0] = 8;
        assert!(short.validate().unwrap_err().to_string().contains("8 of A is shorter than a line of 16"));
    }

    #[test]
    fn the_nearest_types_are_multiplied_and_as_large() {
        use Dtype::{BF16, E4M3, E5M2, F16, F32, I8, I32};
        let all = [F16, BF16, F32, E4M3, E5M2, I8];
        let layouts = [Layout::RowMajor, Layout::ColMajor, Layout::RowMajor];
        for a in all {
            for b in all.into_iter().filter(|b| *b == a || (a.is_fp8() && b.is_fp8())) {
                for c in [F16, BF16, F32, E4M3, I32] {
                    let nearest = DenseProblem::nearest([a, b, c]);
                    let problem = DenseProblem::new((64, 64, 64), nearest, layouts);
                    problem.validate().unwrap();
                    assert_eq!([nearest[0].bytes(), nearest[1].bytes()], [a.bytes(), b.bytes()]);
                    assert_eq!(DenseProblem::nearest(nearest), nearest);
                }
            }
        }
        assert_eq!(DenseProblem::nearest([E5M2, E5M2, E4M3]), [E4M3, E4M3, E4M3]);
        assert_eq!(DenseProblem::nearest([I8, I8, F16]), [I8, I8, I32]);
        assert_eq!(DenseProblem::nearest([F16, F16, BF16]), [F16; 3]);
        assert_eq!(types_in_words(&[E4M3, E5M2, BF16]), "e4m3 x e5m2 to bf16");
        assert_eq!((types_in_words(&[I8, I8, I32]), types_in_words(&[F16; 3])), ("i8 to i32".into(), "f16".into()));
    }
}
