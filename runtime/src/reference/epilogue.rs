//! What an epilogue makes of a product, in f64, and how far off a kernel may be.

use bsr_codegen::epilogue::{Element, Program};
use bsr_codegen::{Dtype, KernelSpec, Refusal};
use rayon::prelude::*;

use super::bounds::{Bounds, magnitudes, off};
use super::tolerance::{half_ulp, spec_short_sums, spec_sums};
use super::{Comparison, product_rows};
use crate::epilogue::{Input, Inputs};
use crate::{Bsr, DenseView, Element as Value};

/// Relative error of what an epilogue computes: of the functions of f32, see [`Program::FUNCTIONS`], or of 32 roundings of f64.
fn functions(spec: &KernelSpec) -> f64 {
    f64::powi(2.0, if spec.acc == Dtype::F64 { -48 } else { -17 })
}
/// How much larger than all sums and results an intermediate value of an epilogue may be.
const INTERMEDIATE: f64 = 4.0;

/// The results of a product with an epilogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// C, row by row.
    pub c: Vec<f64>,
    /// The greatest relative Frobenius error of a right C.
    pub tolerance: f64,
    /// How far each element of a right C may be off, where the factors are known.
    pub bounds: Option<Bounds>,
    /// The second result, one value for each row, where there is one, and what is right of it.
    pub rows: Option<(Vec<f64>, f64)>,
    /// How far each value of a right second result may be off, where the factors are known.
    pub row_bounds: Option<Bounds>,
}

impl Fused {
    /// What a kernel's second result is worth; without one, a comparison of nothing.
    ///
    /// # Errors
    /// When there are not as many values as rows, or a second result on one side only.
    pub fn compare_rows(&self, got: Option<&[f32]>) -> Result<Comparison, Refusal> {
        let want = self.rows.as_ref().map_or(&[][..], |(want, _)| want);
        let got: Vec<f64> = got.unwrap_or_default().iter().map(|value| f64::from(*value)).collect();
        if got.len() != want.len() {
            return Comparison::new(&got, want, 1);
        }
        // The greatest of no values is minus infinity, and exactly that.
        let right =
            |(got, want): (&f64, &f64)| if want.is_infinite() && got == want { (0.0, 0.0) } else { (*got, *want) };
        let (got, want): (Vec<f64>, Vec<f64>) = got.iter().zip(want).map(right).unzip();
        Comparison::new(&got, &want, 1)
    }

    /// How many elements of rows `rows` of a result are further from this reference, which is that of these rows, than they
    /// may be.
    pub fn beyond<'a, C: Value>(&self, got: impl Into<DenseView<'a, C>>, rows: &[usize]) -> usize {
        self.bounds.as_ref().map_or(0, |bounds| bounds.beyond(got, rows, &self.c))
    }

    /// The first row of a second result that is further off than it may be.
    pub fn row_beyond(&self, got: &[f32]) -> Option<usize> {
        let ((want, _), bounds) = (self.rows.as_ref()?, self.row_bounds.as_ref()?);
        got.iter().zip(want).enumerate().find(|(at, (got, want))| !bounds.allow(*at, **got, **want)).map(|(at, _)| at)
    }

    /// The greatest relative error of a right second result.
    pub fn rows_tolerance(&self) -> f64 {
        self.rows.as_ref().map_or(0.0, |(_, tolerance)| *tolerance)
    }
}

/// Rows `rows` of C, as a kernel of `spec` makes them of its sparse factor and its dense one (A and B of `dsd`, B and A of
/// `dds`) and of `inputs`, with bounds for each element. `k` is the greatest number of products that an element sums.
///
/// # Errors
/// As [`product_rows`] and [`fuse`].
pub fn expected<'d, S: Value, D: Value>(
    spec: &KernelSpec,
    sparse: &Bsr<S>,
    dense: impl Into<DenseView<'d, D>>,
    inputs: &Inputs,
    rows: &[usize],
    k: usize,
) -> Result<Fused, Refusal> {
    let (dense, scales, sources) = (dense.into(), inputs.scales_given(), inputs.sources(rows));
    let product = product_rows(spec, sparse, dense, scales, &sources)?;
    let magnitudes = magnitudes(spec, sparse, dense, scales, &sources);
    let n = product.len().checked_div(rows.len()).unwrap_or(0);
    fuse_within(spec, product, rows, (n, k), inputs, Some(&magnitudes))
}

/// Applies the epilogue of `spec` to rows `rows` of a product, as [`multiply_rows_scaled`](super::multiply_rows_scaled)
/// gives them; without one the product stays as it is. `n` is the number of columns, `k` the greatest number of products
/// that an element sums.
///
/// The tolerance is that of the product, carried through the epilogue: the same expression is evaluated with every sum
/// off by what a right sum may be off, and by how much the results differ then is right. Rounding of C and the error of
/// functions are added.
///
/// # Errors
/// A parameter that is given nothing, or something of another shape.
pub fn fuse(
    spec: &KernelSpec,
    product: Vec<f64>,
    rows: &[usize],
    n: usize,
    k: usize,
    inputs: &Inputs,
) -> Result<Fused, Refusal> {
    fuse_within(spec, product, rows, (n, k), inputs, None)
}

/// The same, with bounds for each element where the magnitudes of the sums of each row are known.
fn fuse_within(
    spec: &KernelSpec,
    product: Vec<f64>,
    rows: &[usize],
    (n, k): (usize, usize),
    inputs: &Inputs,
    magnitudes: Option<&[f64]>,
) -> Result<Fused, Refusal> {
    let magnitudes = magnitudes.map(|magnitudes| (magnitudes, n.max(1)));
    let Some(epilogue) = spec.epilogue else { return Ok(unfused(spec, product, k, magnitudes)) };
    let program = epilogue.program();
    let last = rows.iter().max().map_or(0, |last| last + 1);
    check(program, inputs, last, n)?;
    let evaluate = |off: Off<'_>| evaluate(program, &product, rows, n, inputs, off);
    Ok(judged(spec, &product, (n, k), magnitudes, evaluate))
}

/// What the sum at a position is to be off by.
pub(super) type Off<'o> = &'o (dyn Fn(usize) -> f64 + Sync);

/// Magnitudes of the sums of a product, each of so many neighbours.
pub(super) type Magnitudes<'m> = Option<(&'m [f64], usize)>;

/// A product without an epilogue.
pub(super) fn unfused(spec: &KernelSpec, product: Vec<f64>, k: usize, magnitudes: Magnitudes<'_>) -> Fused {
    let bounds = magnitudes.map(|(magnitudes, group)| match spec.out.is_integer() {
        true => Bounds::new(0.0, vec![], 1),
        false => {
            Bounds::rounded(spec.out, magnitudes.iter().map(|magnitude| off(spec, k, *magnitude)).collect(), group)
        }
    });
    Fused { c: product, tolerance: super::tolerance_of(spec, k), bounds, rows: None, row_bounds: None }
}

/// The results of `evaluate`, which is given what every sum is to be off by, and what is right of them: for a `product`
/// whose rows have at most `n` elements, of at most `k` products each.
pub(super) fn judged(
    spec: &KernelSpec,
    product: &[f64],
    (n, k): (usize, usize),
    magnitudes: Magnitudes<'_>,
    evaluate: impl Fn(Off<'_>) -> Evaluated,
) -> Fused {
    let sums = spec_sums(spec, k) + spec_short_sums(spec, k);
    let norm =
        |values: &mut dyn Iterator<Item = f64>| values.filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>().sqrt();
    let count = product.len().max(1) as f64;
    let typical = norm(&mut product.iter().copied()) / count.sqrt();
    let exact = evaluate(&|_| 0.0);
    if spec.out.is_integer() {
        let exactly = magnitudes.map(|_| Bounds::new(0.0, vec![], 1));
        let rows = exact.rows.map(|rows| (rows, 0.0));
        return Fused { c: exact.c, tolerance: 0.0, bounds: exactly.clone(), rows, row_bounds: exactly };
    }
    let (bounds, row_bounds) = match magnitudes {
        Some((magnitudes, group)) => {
            let off = |at: usize| off(spec, k, magnitudes[at / group]);
            let (c, rows) = bounds(spec, product, n, &exact, [evaluate(&off), evaluate(&|at| -off(at))]);
            (Some(c), rows)
        }
        None => (None, None),
    };
    // Several times the usual error of a sum, as the tolerance of the product is.
    let off = [1.0, -1.0].map(|sign| evaluate(&|_| sign * sums * typical));
    let distance = |one: &[f64], other: &[f64]| -> f64 {
        let distance = norm(&mut one.iter().zip(other).map(|(a, b)| if a == b { 0.0 } else { a - b }));
        distance / norm(&mut one.iter().copied()).max(f64::MIN_POSITIVE)
    };
    let carried = off.iter().map(|off| distance(&exact.c, &off.c)).fold(0.0, f64::max);
    let tolerance = half_ulp(spec.out) + 2.0 * carried + functions(spec);
    let rows = exact.rows.map(|exact_rows| {
        let carried = off.iter().map(|off| distance(&exact_rows, off.rows.as_deref().unwrap_or_default()));
        let carried = carried.fold(0.0, f64::max);
        // f32 sums in any order: of what is added, not of what is left of it.
        let cancelled = norm(&mut exact.magnitudes.iter().copied()) / norm(&mut exact_rows.iter().copied()).max(1e-300);
        let order = order(n) * cancelled.max(1.0);
        (exact_rows, 2.0 * carried + order + functions(spec) * cancelled.max(1.0))
    });
    Fused { c: exact.c, tolerance, bounds, rows, row_bounds }
}

/// The relative error of f32 sums of `n` values.
fn order(n: usize) -> f64 {
    (n as f64).sqrt() * 4.0 * half_ulp(Dtype::F32)
}

/// How far each element of C and each value of a second result may be from `exact`, where `carried` is what comes of the
/// largest sums that are right, and of the smallest ones.
fn bounds(
    spec: &KernelSpec,
    product: &[f64],
    n: usize,
    exact: &Evaluated,
    carried: [Evaluated; 2],
) -> (Bounds, Option<Bounds>) {
    let finite = product.iter().chain(&exact.c).map(|value| value.abs()).filter(|value| value.is_finite());
    let relative = INTERMEDIATE * functions(spec);
    let functions = relative * finite.fold(0.0, f64::max);
    let apart = |exact: f64, others: [f64; 2]| {
        let apart = others.map(|other| if other == exact { 0.0 } else { (other - exact).abs() });
        2.0 * apart[0].max(apart[1])
    };
    let c = (0..exact.c.len()).map(|at| apart(exact.c[at], [carried[0].c[at], carried[1].c[at]]) + functions);
    let [up, down] = carried.each_ref().map(|carried| carried.rows.as_deref().unwrap_or_default());
    let rows = exact.rows.as_ref().map(|rows| {
        let of_row = |at: usize| {
            let added = exact.magnitudes[at].max(rows[at].abs());
            let added = if added.is_finite() { (order(n) + relative) * added } else { 0.0 };
            apart(rows[at], [up[at], down[at]]) + added + functions
        };
        Bounds::new(0.0, (0..rows.len()).map(of_row).collect(), 1)
    });
    (Bounds::rounded(spec.out, c.collect(), 1), rows)
}

/// What one evaluation gives.
pub(super) struct Evaluated {
    pub(super) c: Vec<f64>,
    pub(super) rows: Option<Vec<f64>>,
    /// The sums of what a second result adds, without signs.
    pub(super) magnitudes: Vec<f64>,
}

fn evaluate(program: &Program, product: &[f64], rows: &[usize], n: usize, inputs: &Inputs, off: Off<'_>) -> Evaluated {
    let given: Vec<Option<&Input>> = program.inputs().iter().map(|input| inputs.get(&input.name)).collect();
    let of_columns: Vec<bool> = program.inputs().iter().map(|input| input.kind.words().starts_with("Cols")).collect();
    let function = |first: usize, row: usize, sums: &[f64], out: &mut [f64]| {
        let evaluate = program.evaluator();
        let (mut second, mut magnitude) = (program.reduction().map(|reduction| f64::from(reduction.start())), 0.0);
        let mut values = vec![0.0; given.len()];
        for (col, (sum, out)) in sums.iter().zip(out).enumerate() {
            for ((value, given), by_column) in values.iter_mut().zip(&given).zip(&of_columns) {
                *value = match given {
                    Some(Input::Vector(vector)) => vector.get(if *by_column { col } else { row }),
                    Some(Input::Matrix(matrix) | Input::Result(matrix)) => matrix.get(row, col),
                    Some(Input::Scalar(scalar)) => scalar.to_f64(),
                    // Only an SDDMM has it.
                    Some(Input::Blocks(_) | Input::Held(_)) | None => f64::NAN,
                };
            }
            let (one, collected) = evaluate(Element { acc: sum + off(first + col), inputs: &values });
            *out = one;
            if let (Some(reduction), Some(so_far), Some(collected)) = (program.reduction(), second, collected) {
                second = Some(reduction.collect(so_far, collected));
                magnitude += collected.abs();
            }
        }
        (second, magnitude)
    };
    let mut c = vec![0.0; product.len()];
    let collected: Vec<(Option<f64>, f64)> = c
        .par_chunks_mut(n.max(1))
        .zip(product.par_chunks(n.max(1)))
        .zip(rows)
        .enumerate()
        .map(|(at, ((out, sums), row))| function(at * n, *row, sums, out))
        .collect();
    let magnitudes = collected.iter().map(|(_, magnitude)| *magnitude).collect();
    let second: Option<Vec<f64>> = collected.into_iter().map(|(second, _)| second).collect();
    Evaluated { c, rows: second.filter(|_| program.reduction().is_some()), magnitudes }
}

/// An epilogue's parameter that is given nothing, or something of another shape than `rows` rows and `n` columns of C.
pub(super) fn not_given(name: &str, kind: &str, rows: usize, n: usize) -> Refusal {
    Refusal::new(format!("the epilogue's `{name}: {kind}` is not given for {rows} rows and {n} columns"))
        .help("give every parameter its values")
}

fn check(program: &Program, inputs: &Inputs, rows: usize, n: usize) -> Result<(), Refusal> {
    use bsr_codegen::epilogue::InputKind;
    for input in program.inputs() {
        let fits = match (input.kind, inputs.get(&input.name)) {
            (InputKind::Rows(_), Some(Input::Vector(vector))) => vector.len() >= rows,
            (InputKind::Cols(_), Some(Input::Vector(vector))) => vector.len() == n,
            (InputKind::Dense(_), Some(Input::Matrix(matrix) | Input::Result(matrix))) => {
                matrix.shape().0 >= rows && matrix.shape().1 == n
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
