//! The scales of 8-bit operands: f32 factors that give the products of small numbers their range back.

use bsr_codegen::{Refusal, Scale};
use rand::Rng;

use crate::Structure;
use crate::random::Streams;

/// What the sums of a product A * B are multiplied by, on the host.
///
/// | kind | values for A | values for B | C\[i, j\] |
/// |---|---|---|---|
/// | `none` | none | none | the sum over all stored blocks p of their part |
/// | `tensor` | 1 | 1 | `a[0] * b[0] *` that sum |
/// | `row_col` | M | N | `a[i] * b[j] *` that sum |
/// | `block` | one for each stored block, in storage order | `ceil(K / bk) * ceil(N / 128)`, row by row | the sum of `a[p] * b[col_idx[p], j / 128] *` part p |
///
/// The values are finite by construction; how many there must be depends on the operands and is checked against them.
///
/// ```
/// use bsr_runtime::{Bsr, Dense, Layout, Scales, reference};
///
/// let a = Bsr::new(1, 2, (1, 2), vec![0, 1], vec![0], vec![3_i8, 4])?;
/// let b = Dense::from_fn(2, 1, Layout::ColMajor, |_, _| 10_i8);
/// let scales = Scales::row_col(vec![0.5], vec![0.1])?;
/// assert!((reference::multiply_scaled(&a, &b, &scales)?[0] - 3.5).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    kind: Scale,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Scales {
    /// No scales.
    pub const NONE: Self = Self { kind: Scale::Unscaled, a: Vec::new(), b: Vec::new() };

    /// Columns of B that share a scale of kind `block`.
    pub const GROUP: usize = 128;

    /// One factor for A and one for B.
    ///
    /// # Errors
    /// When a factor is not finite.
    pub fn tensor(a: f32, b: f32) -> Result<Self, Refusal> {
        Self::new(Scale::Tensor, vec![a], vec![b])
    }

    /// One factor for every row of A and one for every column of B.
    ///
    /// # Errors
    /// When a factor is not finite.
    pub fn row_col(a: Vec<f32>, b: Vec<f32>) -> Result<Self, Refusal> {
        Self::new(Scale::RowCol, a, b)
    }

    /// One factor for every stored block of A, in storage order, and one for every `bk` rows x 128 columns of B, row
    /// by row.
    ///
    /// # Errors
    /// When a factor is not finite.
    pub fn block(a: Vec<f32>, b: Vec<f32>) -> Result<Self, Refusal> {
        Self::new(Scale::Block, a, b)
    }

    /// Factors between 1/2 and 2, as likely below 1 as above, for A of this structure and `n` columns of B. The same
    /// seed gives the same factors on every platform.
    pub fn random(kind: Scale, a: &Structure, n: usize, seed: u64) -> Self {
        let streams = Streams::new(seed, b"scales..");
        let draw = |place: usize, count: usize| -> Vec<f32> {
            let mut stream = streams.get(place);
            let uniform = |stream: &mut rand::rngs::ChaCha8Rng| (stream.next_u64() >> 11) as f64 * f64::EPSILON - 1.0;
            (0..count).map(|_| libm::exp2(uniform(&mut stream)) as f32).collect()
        };
        let [a, b] = Self::lengths(kind, a, n);
        Self { kind, a: draw(0, a), b: draw(1, b) }
    }

    /// The same with every factor of A multiplied by `a` and every factor of B by `b`, rounded once.
    ///
    /// # Errors
    /// When a factor is no longer finite.
    pub fn times(&self, a: f64, b: f64) -> Result<Self, Refusal> {
        let each = |values: &[f32], by: f64| values.iter().map(|value| (f64::from(*value) * by) as f32).collect();
        Self::new(self.kind, each(&self.a, a), each(&self.b, b))
    }

    fn new(kind: Scale, a: Vec<f32>, b: Vec<f32>) -> Result<Self, Refusal> {
        for (operand, values) in [("A", &a), ("B", &b)] {
            if let Some(at) = values.iter().position(|value| !f32::is_finite(*value)) {
                return Err(Refusal::new(format!("scale {at} of {operand} is {}", values[at]))
                    .why("a scale multiplies finite sums")
                    .help("give a finite number"));
            }
        }
        Ok(Self { kind, a, b })
    }

    /// Factors known to be finite.
    pub(crate) fn from_parts(kind: Scale, a: Vec<f32>, b: Vec<f32>) -> Self {
        Self { kind, a, b }
    }

    /// The kind, as a spec names it.
    pub fn kind(&self) -> Scale {
        self.kind
    }

    /// The factors of A.
    pub fn a(&self) -> &[f32] {
        &self.a
    }

    /// The factors of B.
    pub fn b(&self) -> &[f32] {
        &self.b
    }

    /// How many factors of this kind A of this structure and `n` columns of B take.
    pub fn lengths(kind: Scale, a: &Structure, n: usize) -> [usize; 2] {
        match kind {
            Scale::Unscaled => [0; 2],
            Scale::Tensor => [1; 2],
            Scale::RowCol => [a.rows(), n],
            Scale::Block => [a.nnzb(), a.block_cols() * n.div_ceil(Self::GROUP)],
        }
    }

    /// Whether there are as many factors as A of this structure and `n` columns of B take.
    ///
    /// # Errors
    /// When there are not.
    pub fn check(&self, a: &Structure, n: usize) -> Result<(), Refusal> {
        Self::check_lengths(self.kind, [self.a.len(), self.b.len()], a, n)
    }

    /// Whether so many factors for A and B are as many as A of this structure and `n` columns of B take.
    ///
    /// # Errors
    /// When they are not.
    pub fn check_lengths(kind: Scale, got: [usize; 2], a: &Structure, n: usize) -> Result<(), Refusal> {
        let wanted = Self::lengths(kind, a, n);
        match (0..2).find(|&at| got[at] != wanted[at]) {
            None => Ok(()),
            Some(at) => {
                let (operand, got, want) = (["A", "B"][at], got[at], wanted[at]);
                Err(Refusal::new(format!("scale = {kind}: {got} values for {operand}, which takes {want}"))
                    .why(format!("{} = {want}", Self::reason(kind, operand, a, n)))
                    .help(format!("give {want}")))
            }
        }
    }

    /// Where the number of an operand's factors comes from.
    fn reason(kind: Scale, operand: &str, a: &Structure, n: usize) -> String {
        match (kind, operand) {
            (Scale::Unscaled, _) => format!("scales of an unscaled {operand}"),
            (Scale::Tensor, _) => format!("one for the whole of {operand}"),
            (Scale::RowCol, "A") => "one for every row of A: M".to_owned(),
            (Scale::RowCol, _) => "one for every column of B: N".to_owned(),
            (Scale::Block, "A") => "one for every stored block of A".to_owned(),
            (Scale::Block, _) => {
                let (k, bk, group) = (a.cols(), a.block().1, Self::GROUP);
                let (rows, columns) = (a.block_cols(), n.div_ceil(group));
                format!(
                    "one for every {bk} rows x {group} columns of B: ceil({k} / {bk}) * ceil({n} / {group}) = {rows} * \
                     {columns}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// 40 x 70 in blocks of 16 x 32, two of them stored.
    fn structure() -> Structure {
        Structure::new(40, 70, (16, 32), vec![0, 1, 1, 2], vec![2, 0]).unwrap()
    }

    #[test]
    fn each_kind_has_its_number_of_factors() {
        let a = structure();
        assert_eq!(Scales::lengths(Scale::Unscaled, &a, 300), [0, 0]);
        assert_eq!(Scales::lengths(Scale::Tensor, &a, 300), [1, 1]);
        assert_eq!(Scales::lengths(Scale::RowCol, &a, 300), [40, 300]);
        assert_eq!(Scales::lengths(Scale::Block, &a, 300), [2, 9]);
        assert_eq!(Scales::lengths(Scale::Block, &a, 256), [2, 6]);
        for kind in [Scale::Unscaled, Scale::Tensor, Scale::RowCol, Scale::Block] {
            let drawn = Scales::random(kind, &a, 300, 1);
            assert_eq!((drawn.kind(), drawn.check(&a, 300)), (kind, Ok(())));
        }
        assert_eq!(Scales::NONE.check(&a, 300), Ok(()));
    }

    #[test]
    fn a_wrong_number_is_refused_with_the_arithmetic() {
        let a = structure();
        let refused = Scales::block(vec![1.0; 2], vec![1.0; 6]).unwrap().check(&a, 300).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "scale = block: 6 values for B, which takes 9\n  one for every 32 rows x 128 columns of B: ceil(70 / 32) * \
             ceil(300 / 128) = 3 * 3 = 9\n  help: give 9"
        );
        let refused = Scales::row_col(vec![1.0; 39], vec![1.0; 300]).unwrap().check(&a, 300).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "scale = row_col: 39 values for A, which takes 40\n  one for every row of A: M = 40\n  help: give 40"
        );
        assert!(Scales::check_lengths(Scale::Tensor, [1, 2], &a, 300).is_err());
    }

    #[test]
    fn factors_that_are_not_finite_are_refused() {
        let refused = Scales::row_col(vec![1.0], vec![1.0, f32::INFINITY]).unwrap_err();
        assert!(refused.to_string().starts_with("scale 1 of B is inf\n"), "{refused}");
        let refused = Scales::tensor(f32::NAN, 1.0).unwrap_err();
        assert!(refused.to_string().starts_with("scale 0 of A is NaN\n"), "{refused}");
        assert!(Scales::tensor(0.0, -1.0).is_ok());
        assert_eq!(Scales::tensor(3.0, 5.0).unwrap().times(0.5, 2.0), Scales::tensor(1.5, 10.0));
        assert!(Scales::tensor(3.0, 5.0).unwrap().times(0.5, 1e39).is_err());
    }

    #[test]
    fn random_factors_lie_around_one_and_depend_on_the_seed_alone() {
        let a = Structure::empty(1 << 12, 64, (16, 16)).unwrap();
        let drawn = Scales::random(Scale::RowCol, &a, 1 << 12, 7);
        assert_eq!(drawn, Scales::random(Scale::RowCol, &a, 1 << 12, 7));
        assert_ne!(drawn, Scales::random(Scale::RowCol, &a, 1 << 12, 8));
        assert_ne!(drawn.a(), drawn.b());
        assert!(drawn.a().iter().all(|value| (0.5..=2.0).contains(value)));
        let below = drawn.b().iter().filter(|value| **value < 1.0).count();
        // Four standard deviations of 4096 throws of a coin.
        assert!(below.abs_diff(2048) < 128, "{below} of 4096 below 1");
    }
}
