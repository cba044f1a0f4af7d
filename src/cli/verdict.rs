//! Holding a result against the f64 reference: which rows, and how far off is too far.

mod wrong;

use std::fmt;
use std::str::FromStr;

use bsr::reference::{self, Comparison, Fused};
use bsr::{Dense, Element, KernelSpec, Op, Structure};

use super::exit::{Exit, Failure};
use super::problem::Sizes;
use wrong::Wrong;

/// The options of a check.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Check")]
pub(super) struct CheckArgs {
    /// Greatest relative Frobenius error against the reference. [default: as the types and the length of the sums let
    /// expect: about 5e-4 for an f16 result, 4e-3 for bf16, 1e-5 for f32, 6e-2 for e4m3, some 1e-3 more for FP8
    /// operands, and 0 for i32]
    #[arg(long, value_parser = positive, value_name = "ERROR")]
    tolerance: Option<f64>,
    /// Rows to compare with the reference: all, a number, or auto: all of a small product, else at least 64, first
    /// and last rows of block rows among them. What is not compared must still be finite.
    #[arg(long = "check", default_value = "auto", value_name = "ROWS")]
    pub(super) rows: RowsAsked,
}

impl Default for CheckArgs {
    /// As the command line has it where nothing is said.
    fn default() -> Self {
        Self { tolerance: None, rows: RowsAsked::Auto }
    }
}

impl CheckArgs {
    /// The tolerance for the result of a kernel that adds at most so many products to an element of C; `fused` is that of
    /// a kernel with an epilogue.
    pub(super) fn tolerance(&self, spec: &KernelSpec, products: usize, fused: Option<f64>) -> f64 {
        self.tolerance.or(fused).unwrap_or_else(|| reference::tolerance_of(spec, products))
    }
}

/// A tolerance in words: `at most 4.92e-4 is right`.
pub(super) fn right_words(tolerance: f64) -> String {
    if tolerance == 0.0 { "only 0 is right".to_owned() } else { format!("at most {tolerance:.2e} is right") }
}

/// The tolerance of a kernel with an epilogue.
pub(super) fn fused_tolerance(spec: &KernelSpec, want: &Fused) -> Option<f64> {
    spec.epilogue.map(|_| want.tolerance)
}

/// Holds an epilogue's second result against the reference.
///
/// # Errors
/// Wrong: it is not right, and this is how.
pub(super) fn judge_second(got: Option<&[f32]>, rows: &Rows, want: &Fused) -> Result<(), Failure> {
    let compared: Option<Vec<f32>> = got.map(|got| rows.list.iter().map(|row| got[*row]).collect());
    let comparison = want.compare_rows(compared.as_deref())?;
    let tolerance = want.rows_tolerance();
    match comparison.passes(tolerance) {
        true => Ok(()),
        false => {
            Err(Failure::new(Exit::Wrong, format!("wrong second result\n  {comparison}; {}", right_words(tolerance))))
        }
    }
}

/// The most products that an element of C sums.
pub(super) fn longest_sum(spec: &KernelSpec, sparse: &Structure) -> usize {
    match walks_columns(spec) {
        true => {
            let ends = sparse.transposed().row_ptr().windows(2);
            let blocks = ends.map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0);
            (blocks * sparse.block().0).min(sparse.rows())
        }
        false => (sparse.row_lengths().max().unwrap_or(0) * sparse.block().1).min(sparse.cols()),
    }
}

/// Whether the rows of C (its columns where B is sparse) are block columns of the sparse factor as it is stored.
fn walks_columns(spec: &KernelSpec) -> bool {
    spec.transpose.is_on() != (spec.op == Op::Dds)
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
    /// What they are: rows, or blocks of a sampled product.
    pub(super) unit: &'static str,
}

impl Rows {
    /// Multiplications that the reference does in a second or so.
    const EFFORT: u64 = 1 << 33;
    /// Rows that are compared in any case.
    const LEAST: usize = 64;

    /// Chooses rows of the product.
    pub(super) fn choose(spec: &KernelSpec, sparse: &Structure, sizes: &Sizes, asked: RowsAsked) -> Self {
        // Rows of C that belong together: of a block, or of a tile of the dense factor.
        let group = match (spec.op, walks_columns(spec)) {
            (Op::Dds, _) => spec.bn as usize,
            (_, true) => sparse.block().1,
            (_, false) => sparse.block().0,
        };
        Self::of(sizes.m, group, (sparse.stored() as u64).saturating_mul(sizes.along as u64), asked)
    }

    /// Chooses stored blocks of a sampled product over `k` elements of K: as many as make about as many rows as would be
    /// compared of a product. Where the epilogue of `spec` collects along rows they are the blocks of whole block rows.
    pub(super) fn of_blocks(spec: &KernelSpec, stored: &Structure, k: usize, asked: RowsAsked) -> Self {
        let asked = match asked {
            RowsAsked::Number(rows) => RowsAsked::Number(rows.div_ceil(stored.block().0)),
            other => other,
        };
        let effort = (stored.stored() as u64).saturating_mul(k as u64);
        let collects = spec.epilogue.is_some_and(|epilogue| epilogue.program().reduction().is_some());
        let list = match collects {
            true => {
                let rows = stored.block_rows();
                let asked = match asked {
                    RowsAsked::Number(blocks) => {
                        RowsAsked::Number((blocks * rows).div_ceil(stored.nnzb().max(1)).max(1))
                    }
                    RowsAsked::Auto if rows <= Self::LEAST => RowsAsked::All,
                    other => other,
                };
                let chosen = Self::of(rows, 1, effort, asked).list;
                chosen.into_iter().flat_map(|row| stored.blocks_of(row)).collect()
            }
            false => Self::of(stored.nnzb(), 1, effort, asked).list,
        };
        Self { list, of: stored.nnzb(), unit: "stored blocks" }
    }

    /// Chooses of `of` rows in groups, whose product takes `effort` multiplications.
    fn of(of: usize, group: usize, effort: u64, asked: RowsAsked) -> Self {
        let count = match asked {
            RowsAsked::All => of,
            RowsAsked::Number(rows) => rows.min(of),
            RowsAsked::Auto => {
                let affordable = u128::from(Self::EFFORT) * of as u128 / u128::from(effort.max(1));
                usize::try_from(affordable).unwrap_or(of).max(Self::LEAST).min(of)
            }
        };
        if count == of { Self::all(of) } else { Self { list: spread(of, group, count), of, unit: "rows" } }
    }

    /// All rows of a product of so many.
    pub(super) fn all(of: usize) -> Self {
        Self { list: (0..of).collect(), of, unit: "rows" }
    }

    fn are_all(&self) -> bool {
        self.list.len() == self.of
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_all() {
            write!(f, "all {} {}", self.of, self.unit)
        } else {
            write!(f, "{} of {} {}", self.list.len(), self.of, self.unit)
        }
    }
}

/// `count` of `of` rows, fewer than there are: the first and last of groups, as many as fit, and others evenly between.
fn spread(of: usize, group: usize, count: usize) -> Vec<usize> {
    let edges: Vec<usize> =
        (0..of.div_ceil(group)).flat_map(|row| [row * group, ((row + 1) * group).min(of) - 1]).collect();
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
    /// Elements anywhere that are NaN, infinite, or what C is filled with before a launch: these were not written.
    unwritten: usize,
    /// What C is filled with, in words.
    poison: String,
    /// The compared elements that are far from right.
    wrong: Option<Wrong>,
}

impl Verdict {
    /// Compares the rows that `want` is the reference of.
    ///
    /// # Errors
    /// When rows and reference do not belong to the result.
    pub(super) fn new<C: Element>(got: &Dense<C>, rows: &Rows, want: &[f64]) -> Result<Self, Failure> {
        let mut comparison = Comparison::of_rows(got, &rows.list, want)?;
        comparison.worst = comparison.worst.map(|(at, column)| (rows.list[at], column));
        let wrong = Wrong::new(got, &rows.list, want);
        Ok(Self { comparison, unwritten: reference::unwritten(got), poison: C::POISON.to_string(), wrong })
    }

    /// How many elements are far off and where, and which tiles of so many rows and columns that is; empty if none is.
    pub(super) fn shape_words(&self, tile: Option<(usize, usize)>) -> String {
        let Some(wrong) = &self.wrong else { return String::new() };
        let tiles = tile.map_or_else(String::new, |(rows, cols)| {
            let range = |(first, last): (usize, usize), size: usize| match (first / size, last / size) {
                (first, last) if first == last => format!("{first}"),
                (first, last) => format!("{first} to {last}"),
            };
            format!(
                "; of the cluster tiles of {rows} x {cols} these are tile rows {}, tile columns {}",
                range(wrong.rows, rows.max(1)),
                range(wrong.cols, cols.max(1))
            )
        });
        format!("\n  {wrong}{tiles}")
    }

    /// Bytes of C at which elements lie that are far off; of very many the first.
    pub(super) fn far_off(&self) -> &[usize] {
        self.wrong.as_ref().map_or(&[], |wrong| &wrong.bytes)
    }

    /// Whether C has elements that were not written, so that it says nothing of the numbers.
    pub(super) fn is_incomplete(&self) -> bool {
        self.unwritten > 0
    }

    /// Whether the result is right.
    ///
    /// # Errors
    /// Wrong: it is not, and this is how.
    pub(super) fn judge(&self, kernel: &str, tolerance: f64) -> Result<(), Failure> {
        if self.unwritten == 0 && self.comparison.passes(tolerance) {
            return Ok(());
        }
        let mut report = format!("wrong result of {kernel}\n  {}; {}", self.comparison, right_words(tolerance));
        report.push_str(&self.shape_words(None));
        if self.unwritten > 0 {
            let what = if self.poison == "NaN" { "NaN or infinite" } else { &self.poison };
            report.push_str(&format!(
                "\n  {} elements of C are {what}: C is filled with {} before the launch, so they were probably never \
                 written",
                self.unwritten, self.poison
            ));
        }
        Err(Failure::new(Exit::Wrong, report))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::{Layout, Pattern, f16};

    use super::*;

    fn choose(a: &Structure, n: usize, asked: RowsAsked) -> Rows {
        Rows::of(a.rows(), a.block().0, (a.stored() * n) as u64, asked)
    }

    fn structure(rows: usize, block: usize, pattern: Pattern) -> Structure {
        pattern.structure(rows, 8192, (block, 64), 0).unwrap()
    }

    #[test]
    fn a_small_product_is_compared_whole_and_a_large_one_in_part() {
        let small = choose(&structure(1000, 128, Pattern::TopK(2)), 512, RowsAsked::Auto);
        assert_eq!((small.list.len(), small.to_string().as_str()), (1000, "all 1000 rows"));
        let large = choose(&structure(8000, 128, Pattern::Random(0.5)), 8192, RowsAsked::Auto);
        assert!(large.list.len() >= 64 && large.list.len() < 8000, "{large}");
        assert!(large.list.is_sorted_by(|a, b| a < b));
        for edge in [0, 127, 128, 7935, 7936, 7999] {
            assert!(large.list.contains(&edge), "{edge}");
        }
        assert_eq!(choose(&structure(8000, 128, Pattern::Random(0.5)), 8192, RowsAsked::All).list.len(), 8000);
        let empty = choose(&structure(200, 64, Pattern::Random(0.0)), 8192, RowsAsked::Auto);
        assert_eq!(empty.list.len(), 200);
    }

    #[test]
    fn fewer_rows_than_edges_still_hold_the_first_and_the_last() {
        let a = structure(8000, 16, Pattern::TopK(1));
        for count in [2, 3, 64, 999] {
            let rows = choose(&a, 64, RowsAsked::Number(count)).list;
            assert_eq!((rows.len(), rows[0], rows[count - 1]), (count, 0, 7999));
        }
        assert_eq!(choose(&a, 64, RowsAsked::Number(1)).list, [0]);
        // One row short of all: the filling ends.
        assert_eq!(choose(&a, 64, RowsAsked::Number(7999)).list.len(), 7999);
    }

    #[test]
    fn an_element_that_was_not_written_fails_wherever_it_is() {
        let rows = Rows { list: vec![0, 2], of: 4, unit: "rows" };
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
    fn an_integer_that_was_not_written_fails_though_it_is_finite() {
        let rows = Rows { list: vec![0], of: 2, unit: "rows" };
        let mut got = Dense::<i32>::from_fn(2, 3, Layout::RowMajor, |r, c| (r * 3 + c) as i32);
        let want = [0.0, 1.0, 2.0];
        assert!(Verdict::new(&got, &rows, &want).unwrap().judge("k", 0.0).is_ok());
        let ld = got.ld();
        got.data_mut()[ld + 1] = i32::POISON;
        let unwritten = Verdict::new(&got, &rows, &want).unwrap();
        assert!(unwritten.is_incomplete());
        let report = unwritten.judge("k", 1.0).unwrap_err().into_report();
        assert!(report.contains("1 elements of C are -2139062144: C is filled with -2139062144"), "{report}");
        // Integers are right or wrong.
        let off = Verdict::new(&Dense::<i32>::zeros(2, 3, Layout::RowMajor), &rows, &[0.0, 0.0, 1.0]).unwrap();
        assert!(off.judge("k", 0.0).is_err());
    }

    #[test]
    fn the_longest_sum_is_that_of_the_fullest_row() {
        let a = Structure::new(30, 100, (16, 32), vec![0, 1, 3], vec![0, 1, 3]).unwrap();
        assert_eq!(longest_sum(&KernelSpec::new(16, 16, 32), &a), 64);
        let turned = KernelSpec::new(16, 16, 32).op(Op::Dds);
        assert_eq!(longest_sum(&turned, &a), 16);
        let full = Pattern::Random(1.0).structure(30, 100, (16, 32), 0).unwrap();
        assert_eq!(
            (
                longest_sum(&KernelSpec::new(16, 16, 32), &full),
                longest_sum(&KernelSpec::new(64, 16, 64), &structure(200, 64, Pattern::Random(0.0)))
            ),
            (100, 0)
        );
    }

    #[test]
    fn tolerances_and_rows_are_read_strictly() {
        assert!(positive("2e-3").is_ok() && positive("0").is_err() && positive("nan").is_err());
        assert_eq!(
            (right_words(2e-3), right_words(0.0)),
            ("at most 2.00e-3 is right".into(), "only 0 is right".into())
        );
        assert_eq!("12".parse(), Ok(RowsAsked::Number(12)));
        assert!("0".parse::<RowsAsked>().is_err() && "some".parse::<RowsAsked>().is_err());
    }
}
