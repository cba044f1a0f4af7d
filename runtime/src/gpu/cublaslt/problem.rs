//! A dense multiplication, and how it looks to a library that knows column-major matrices only.

use std::fmt;

use bsr_codegen::{Dtype, Layout};

use crate::gpu::GpuError;

/// The dense product C\[m, n\] = A\[m, k\] * B\[k, n\] with f32 accumulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DenseProblem {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Element type of A and B: f16 or bf16.
    pub input: Dtype,
    /// Element type of C: that of A and B, or f32.
    pub output: Dtype,
    /// Order of A.
    pub a: Layout,
    /// Order of B.
    pub b: Layout,
    /// Order of C.
    pub c: Layout,
    /// Leading dimension of A in elements.
    pub lda: usize,
    /// Leading dimension of B in elements.
    pub ldb: usize,
    /// Leading dimension of C in elements.
    pub ldc: usize,
}

impl DenseProblem {
    /// The problem with the leading dimensions that [`crate::Dense`] and [`crate::gpu::DeviceDense`] allocate:
    /// lines padded to 16 bytes. `layouts` are those of A, B and C.
    pub fn new((m, n, k): (usize, usize, usize), (input, output): (Dtype, Dtype), [a, b, c]: [Layout; 3]) -> Self {
        let ld = |rows: usize, cols: usize, layout: Layout, dtype: Dtype| {
            let line = if layout == Layout::RowMajor { cols } else { rows };
            line.max(1).next_multiple_of(16 / dtype.bytes() as usize)
        };
        Self {
            m,
            n,
            k,
            input,
            output,
            a,
            b,
            c,
            lda: ld(m, k, a, input),
            ldb: ld(k, n, b, input),
            ldc: ld(m, n, c, output),
        }
    }

    /// Floating-point operations: `2 * m * n * k`.
    pub fn flops(&self) -> u64 {
        2 * self.m as u64 * self.n as u64 * self.k as u64
    }

    /// Refuses what cuBLASLt has no kernel for, or what would read outside of the matrices.
    pub(super) fn validate(&self) -> Result<(), GpuError> {
        let fault = |why: String| Err(GpuError::DenseProblem { problem: self.to_string(), why });
        if self.m == 0 || self.n == 0 || self.k == 0 {
            return fault("a dimension is 0\n  help: there is nothing to multiply".into());
        }
        if self.input == Dtype::F32 {
            return fault("A and B are f32, which this baseline does not time\n  help: use f16 or bf16".into());
        }
        if self.output != self.input && self.output != Dtype::F32 {
            return fault(format!("it writes {0} or f32 from {0}\n  help: use one of them", self.input));
        }
        let lines = [
            ("A", self.lda, self.a, self.m, self.k),
            ("B", self.ldb, self.b, self.k, self.n),
            ("C", self.ldc, self.c, self.m, self.n),
        ];
        for (name, ld, layout, rows, cols) in lines {
            let line = if layout == Layout::RowMajor { cols } else { rows };
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
        let a = Stored::new(self.m, self.k, self.lda, self.a);
        let b = Stored::new(self.k, self.n, self.ldb, self.b);
        let c = Stored::new(self.m, self.n, self.ldc, self.c);
        match self.c {
            Layout::ColMajor => Mapped { swapped: false, first: a, second: b, out: c },
            Layout::RowMajor => {
                Mapped { swapped: true, first: b.transposed(), second: a.transposed(), out: c.transposed() }
            }
        }
    }
}

impl fmt::Display for DenseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, input, output, a, b, c, .. } = self;
        write!(f, "{m} x {n} x {k} ({input} to {output}; A {a}-major, B {b}-major, C {c}-major)")
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
                    let problem = DenseProblem::new((m, n, k), (Dtype::F16, Dtype::F32), [a, b, c]);
                    let a_data = matrix(m, k, a, problem.lda, a_at);
                    let b_data = matrix(k, n, b, problem.ldb, b_at);
                    let mut c_data = matrix(m, n, c, problem.ldc, |_, _| 0.0);
                    let mapped = problem.mapped();
                    assert!(!mapped.out.transpose);
                    let (first, second) = if mapped.swapped { (&b_data, &a_data) } else { (&a_data, &b_data) };
                    column_major_gemm(first, second, &mapped, k, &mut c_data);
                    for row in 0..m {
                        for col in 0..n {
                            let want: f64 = (0..k).map(|i| a_at(row, i) * b_at(i, col)).sum();
                            assert_eq!(c_data[place(c, problem.ldc, row, col)], want, "{problem}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn leading_dimensions_are_those_of_a_dense_matrix() {
        let layouts = [Layout::RowMajor, Layout::ColMajor, Layout::RowMajor];
        let problem = DenseProblem::new((100, 1, 30), (Dtype::BF16, Dtype::F32), layouts);
        assert_eq!((problem.lda, problem.ldb, problem.ldc), (32, 32, 4));
        assert_eq!(problem.lda, crate::Dense::<half::bf16>::padded_ld(30));
        assert_eq!(problem.flops(), 6000);
    }

    #[test]
    fn what_the_library_lacks_is_refused_in_words() {
        let layouts = [Layout::RowMajor; 3];
        let refused = |shape, dtypes| {
            let problem = DenseProblem::new(shape, dtypes, layouts);
            problem.validate().unwrap_err().to_string()
        };
        assert!(refused((0, 1, 1), (Dtype::F16, Dtype::F16)).contains("nothing to multiply"));
        assert!(refused((8, 8, 8), (Dtype::F16, Dtype::BF16)).contains("f16 or f32 from f16"));
        assert!(refused((8, 8, 8), (Dtype::F32, Dtype::F32)).contains("use f16 or bf16"));
        let mut short = DenseProblem::new((8, 8, 16), (Dtype::F16, Dtype::F16), layouts);
        short.lda = 8;
        assert!(short.validate().unwrap_err().to_string().contains("8 of A is shorter than a line of 16"));
    }
}
