//! Holding a result against the f64 reference: which rows, and how far off is too far.

use std::fmt;
use std::str::FromStr;

use bsr::reference::Comparison;
use bsr::{Dense, DenseView, Dtype, Element, Structure};

use super::exit::{Exit, Failure};

/// The greatest relative Frobenius error of a right result: half an ulp of the output type and the rounding of f32
/// sums, several times over.
///
/// f16: 2e-3, bf16: 1e-2, f32 (from f16 or bf16 operands): 1e-5.
pub(super) fn tolerance(out: Dtype) -> f64 {
    match out {
        Dtype::F16 => 2e-3,
        Dtype::BF16 => 1e-2,
        Dtype::F32 => 1e-5,
    }
}

/// The options of a check.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Check")]
pub(super) struct CheckArgs {
    /// Greatest relative Frobenius error against the reference. [default: 2e-3 for an f16 result, 1e-2 for bf16,
    /// 1e-5 for f32]
    #[arg(long, value_parser = positive, value_name = "ERROR")]
    tolerance: Option<f64>,
    /// Rows to compare with the reference: all, a number, or auto: all of a small product, else at least 64, first
    /// and last rows of block rows among them. What is not compared must still be finite.
    #[arg(long = "check", default_value = "auto", value_name = "ROWS")]
    pub(super) rows: RowsAsked,
}

impl CheckArgs {
    /// The tolerance for a result of this type.
    pub(super) fn tolerance(&self, out: Dtype) -> f64 {
        self.tolerance.unwrap_or_else(|| tolerance(out))
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("write a number above 0, for instance 2e-3".to_owned()),
    }
}

/// The `--check` option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsAsked {
    All,
    Auto,
    Number(usize),
}

impl FromStr for RowsAsked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "auto" => Ok(Self::Auto),
            _ => match text.parse() {
                Ok(rows) if rows > 0 => Ok(Self::Number(rows)),
                _ => Err("write all, auto or a number of rows above 0".to_owned()),
            },
        }
    }
}

/// Rows of a product to compare, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) list: Vec<usize>,
    /// Rows of the product.
    pub(super) of: usize,
}

impl Rows {
    /// Multiplications that the reference does in a second or so.
    const EFFORT: u64 = 1 << 33;
    /// Rows that are compared in any case.
    const LEAST: usize = 64;

    /// Chooses rows of A * B, where B has `n` columns.
    pub(super) fn choose(a: &Structure, n: usize, asked: RowsAsked) -> Self {
        let of = a.rows();
        let count = match asked {
            RowsAsked::All => of,
            RowsAsked::Number(rows) => rows.min(of),
            RowsAsked::Auto => {
                let effort = (a.stored() as u64).saturating_mul(n as u64).max(1);
                let affordable = u128::from(Self::EFFORT) * of as u128 / u128::from(effort);
                usize::try_from(affordable).unwrap_or(of).max(Self::LEAST).min(of)
            }
        };
        if count == of { Self::all(of) } else { Self { list: spread(a, count), of } }
    }

    /// All rows of a product of so many.
    pub(super) fn all(of: usize) -> Self {
        Self { list: (0..of).collect(), of }
    }

    fn are_all(&self) -> bool {
        self.list.len() == self.of
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_all() {
            write!(f, "all {} rows", self.of)
        } else {
            write!(f, "{} of {} rows", self.list.len(), self.of)
        }
    }
}

/// `count` rows, fewer than there are: the first and last of block rows, as many as fit, and others evenly between.
fn spread(a: &Structure, count: usize) -> Vec<usize> {
    let (bm, of) = (a.block().0, a.rows());
    let edges: Vec<usize> = (0..a.block_rows()).flat_map(|row| [row * bm, ((row + 1) * bm).min(of) - 1]).collect();
    let mut rows: std::collections::BTreeSet<usize> = if edges.len() <= count {
        edges.into_iter().collect()
    } else {
        (0..count).map(|at| edges[at * (edges.len() - 1) / count.saturating_sub(1).max(1)]).collect()
    };
    // Multiples of the golden ratio fill an interval evenly, however many there are of them.
    let mut fraction = 0_u64;
    while rows.len() < count {
        fraction = fraction.wrapping_add(0x9E37_79B9_7F4A_7C15);
        rows.insert(((u128::from(fraction) * of as u128) >> 64) as usize);
    }
    rows.into_iter().collect()
}

/// A result held against the reference.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The compared rows; `worst` names a row of the product.
    pub(super) comparison: Comparison,
    /// Elements anywhere that are NaN or infinite. C is filled with NaN before a launch, so these were not written.
    unwritten: usize,
}

impl Verdict {
    /// Compares the rows that `want` is the reference of.
    ///
    /// # Errors
    /// When rows and reference do not belong to the result.
    pub(super) fn new<C: Element>(got: &Dense<C>, rows: &Rows, want: &[f64]) -> Result<Self, Failure> {
        let mut comparison = Comparison::of_rows(got, &rows.list, want)?;
        comparison.worst = comparison.worst.map(|(at, column)| (rows.list[at], column));
        let unwritten = if rows.are_all() { comparison.not_finite } else { not_finite(got.view()) };
        Ok(Self { comparison, unwritten })
    }

    /// Whether the result is right.
    ///
    /// # Errors
    /// Wrong: it is not, and this is how.
    pub(super) fn judge(&self, kernel: &str, tolerance: f64) -> Result<(), Failure> {
        if self.unwritten == 0 && self.comparison.passes(tolerance) {
            return Ok(());
        }
        let mut report = format!("wrong result of {kernel}\n  {}; at most {tolerance:e} is right", self.comparison);
        if self.unwritten > 0 {
            report.push_str(&format!(
                "\n  {} elements of C are NaN or infinite: C is filled with NaN before the launch, so they were \
                 probably never written",
                self.unwritten
            ));
        }
        Err(Failure::new(Exit::Wrong, report))
    }
}

fn not_finite<C: Element>(c: DenseView<'_, C>) -> usize {
    (0..c.lines()).map(|line| c.line(line).iter().filter(|value| !value.is_finite()).count()).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::{Layout, Pattern, f16};

    use super::*;

    fn structure(rows: usize, block: usize, pattern: Pattern) -> Structure {
        pattern.structure(rows, 8192, (block, 64), 0).unwrap()
    }

    #[test]
    fn a_small_product_is_compared_whole_and_a_large_one_in_part() {
        let small = Rows::choose(&structure(1000, 128, Pattern::TopK(2)), 512, RowsAsked::Auto);
        assert_eq!((small.list.len(), small.to_string().as_str()), (1000, "all 1000 rows"));
        let large = Rows::choose(&structure(8000, 128, Pattern::Random(0.5)), 8192, RowsAsked::Auto);
        assert!(large.list.len() >= 64 && large.list.len() < 8000, "{large}");
        assert!(large.list.is_sorted_by(|a, b| a < b));
        for edge in [0, 127, 128, 7935, 7936, 7999] {
            assert!(large.list.contains(&edge), "{edge}");
        }
        assert_eq!(Rows::choose(&structure(8000, 128, Pattern::Random(0.5)), 8192, RowsAsked::All).list.len(), 8000);
        let empty = Rows::choose(&structure(200, 64, Pattern::Random(0.0)), 8192, RowsAsked::Auto);
        assert_eq!(empty.list.len(), 200);
    }

    #[test]
    fn fewer_rows_than_edges_still_hold_the_first_and_the_last() {
        let a = structure(8000, 16, Pattern::TopK(1));
        for count in [2, 3, 64, 999] {
            let rows = Rows::choose(&a, 64, RowsAsked::Number(count)).list;
            assert_eq!((rows.len(), rows[0], rows[count - 1]), (count, 0, 7999));
        }
        assert_eq!(Rows::choose(&a, 64, RowsAsked::Number(1)).list, [0]);
        // One row short of all: the filling ends.
        assert_eq!(Rows::choose(&a, 64, RowsAsked::Number(7999)).list.len(), 7999);
    }

    #[test]
    fn an_element_that_was_not_written_fails_wherever_it_is() {
        let rows = Rows { list: vec![0, 2], of: 4 };
        let mut got = Dense::<f16>::from_fn(4, 3, Layout::ColMajor, |r, c| f16::from_f32((r * 3 + c) as f32));
        let want = [0.0, 1.0, 2.0, 6.0, 7.0, 8.0];
        let right = Verdict::new(&got, &rows, &want).unwrap();
        assert!(right.judge("k", 1e-9).is_ok());

        let ld = got.ld();
        got.data_mut()[ld + 3] = f16::NAN; // row 3, column 1: not among the compared rows
        let unwritten = Verdict::new(&got, &rows, &want).unwrap();
        let report = unwritten.judge("k", 1.0).unwrap_err();
        assert_eq!(report.exit(), Exit::Wrong);

        let wrong = Verdict::new(&got, &rows, &[0.0, 1.0, 2.0, 6.0, 7.0, 80.0]).unwrap();
        assert_eq!(wrong.comparison.worst, Some((2, 2)));
    }

    #[test]
    fn tolerances_and_rows_are_read_strictly() {
        assert!(positive("2e-3").is_ok() && positive("0").is_err() && positive("nan").is_err());
        assert_eq!("12".parse(), Ok(RowsAsked::Number(12)));
        assert!("0".parse::<RowsAsked>().is_err() && "some".parse::<RowsAsked>().is_err());
    }
}
