//! Holding a result against the f64 reference: which rows, and how far off is too far.

mod rows;
mod wrong;

use std::fmt;

use bsr::reference::{self, Comparison, Fused};
use bsr::{Dense, Element, KernelSpec, Structure};

use super::exit::Failure;
pub(super) use rows::{Rows, RowsAsked, longest_sum};
use wrong::{Place, Wrong};

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
    /// a kernel with an epilogue. One that was asked for is all that is asked of a result.
    pub(super) fn tolerance(&self, spec: &KernelSpec, products: usize, fused: Option<f64>) -> Tolerance {
        match self.tolerance {
            Some(relative) => Tolerance { relative, each: false },
            None => Tolerance::strict(fused.unwrap_or_else(|| reference::tolerance_of(spec, products))),
        }
    }
}

/// What is asked of a right result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// The greatest relative Frobenius error.
    relative: f64,
    /// Whether every element must keep its own bound, too.
    each: bool,
}

impl Tolerance {
    /// A relative error, and no element beyond its bound.
    pub(super) fn strict(relative: f64) -> Self {
        Self { relative, each: true }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.relative == 0.0 {
            f.write_str("only 0 is right")
        } else {
            write!(f, "at most {:.2e} is right", self.relative)
        }
    }
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
    let mut comparison = want.compare_rows(compared.as_deref())?;
    comparison.worst = comparison.worst.map(|(at, column)| (rows.list[at], column));
    let tolerance = want.rows_tolerance();
    let beyond = compared.as_deref().and_then(|compared| want.row_beyond(compared));
    if beyond.is_none() && comparison.passes(tolerance) {
        return Ok(());
    }
    let row = beyond
        .map_or_else(String::new, |at| format!("\n  row {} is further off than rounding explains", rows.list[at]));
    let words = words(&comparison, Tolerance::strict(tolerance));
    Err(Failure::wrong(format!("wrong second result\n  {words}{row}")))
}

/// A comparison in words: the error beside what is right, then where the largest difference is.
fn words(comparison: &Comparison, tolerance: Tolerance) -> String {
    format!("relative error {:.3e} ({tolerance}){}", comparison.relative, comparison.largest())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("write a number above 0, for instance 2e-3".to_owned()),
    }
}

/// The row and column of a matrix of blocks where element `at` of stored block `block` is.
fn place_in(stored: &Structure, block: usize, at: usize) -> (usize, usize) {
    let (rows, cols) = stored.block();
    let row = stored.row_ptr().partition_point(|first| *first as usize <= block).saturating_sub(1);
    let column = stored.col_idx()[block] as usize;
    (row * rows + at / cols, column * cols + at % cols)
}

/// A result held against the reference.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    /// The compared rows; `worst` names a row and a column of C.
    pub(super) comparison: Comparison,
    /// Elements anywhere that are NaN, infinite, or what C is filled with before a launch: these were not written.
    unwritten: usize,
    /// What C is filled with, in words.
    poison: String,
    /// The compared elements that are beyond their bounds.
    wrong: Option<Wrong>,
    /// Rows and columns of C, where the largest difference is beyond them.
    padding: Option<(usize, usize)>,
}

impl Verdict {
    /// Compares the rows that `want` is the reference of.
    ///
    /// # Errors
    /// When rows and reference do not belong to the result.
    pub(super) fn new<C: Element>(got: &Dense<C>, rows: &Rows, want: &Fused) -> Result<Self, Failure> {
        Self::placed(got, rows, want, &|row, column| (row, column))
    }

    /// Compares stored blocks of a sparse C, of which every row of `got` has the elements of one; what is far off is named
    /// by its row and column of C.
    ///
    /// # Errors
    /// When blocks and reference do not belong to the result.
    pub(super) fn of_blocks<C: Element>(
        got: &Dense<C>,
        stored: &Structure,
        blocks: &Rows,
        want: &Fused,
    ) -> Result<Self, Failure> {
        let mut verdict = Self::placed(got, blocks, want, &|block, at| place_in(stored, block, at))?;
        let of = (stored.rows(), stored.cols());
        verdict.padding = verdict.comparison.worst.filter(|(row, col)| *row >= of.0 || *col >= of.1).map(|_| of);
        Ok(verdict)
    }

    /// The one of two that is further from right: first of all the one with more elements that were not written, then
    /// the one with elements beyond their bounds.
    pub(super) fn worse(self, other: Self) -> Self {
        let wrong = || self.wrong.is_some().cmp(&other.wrong.is_some());
        let relative = || self.comparison.relative.total_cmp(&other.comparison.relative);
        match self.unwritten.cmp(&other.unwritten).then_with(wrong).then_with(relative) {
            std::cmp::Ordering::Less => other,
            _ => self,
        }
    }

    /// The comparison in words, beside what is right.
    pub(super) fn words(&self, tolerance: Tolerance) -> String {
        let padding = self.padding.map_or_else(String::new, |(rows, cols)| {
            format!(" (in the padding of an edge block: C is {rows} x {cols}, and padding must be 0)")
        });
        format!("{}{padding}", words(&self.comparison, tolerance))
    }

    fn placed<C: Element>(got: &Dense<C>, rows: &Rows, want: &Fused, place: Place<'_>) -> Result<Self, Failure> {
        let mut comparison = Comparison::of_rows(got, &rows.list, &want.c)?;
        comparison.worst = comparison.worst.map(|(at, column)| place(rows.list[at], column));
        let wrong = Wrong::new(got, &rows.list, want, place);
        Ok(Self {
            comparison,
            unwritten: reference::unwritten(got),
            poison: C::POISON.to_string(),
            wrong,
            padding: None,
        })
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

    /// Whether what was compared is right; what was not compared may be unwritten.
    pub(super) fn keeps(&self, tolerance: Tolerance) -> bool {
        self.comparison.passes(tolerance.relative) && (self.wrong.is_none() || !tolerance.each)
    }

    /// Whether the result is right.
    ///
    /// # Errors
    /// Wrong: it is not, and this is how.
    pub(super) fn judge(&self, kernel: &str, tolerance: Tolerance) -> Result<(), Failure> {
        if self.unwritten == 0 && self.keeps(tolerance) {
            return Ok(());
        }
        let mut report = format!("wrong result of {kernel}\n  {}", self.words(tolerance));
        report.push_str(&self.shape_words(None));
        if self.unwritten > 0 {
            let what = if self.poison == "NaN" { "NaN or infinite" } else { &self.poison };
            report.push_str(&format!(
                "\n  {} elements of C are {what}: C is filled with {} before the launch, so they were probably never \
                 written",
                self.unwritten, self.poison
            ));
        }
        Err(Failure::wrong(report))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::reference::Bounds;
    use bsr::{Layout, f16};

    use super::super::exit::Exit;
    use super::*;

    /// What elements must be, each to `relative` of it.
    fn fused(c: &[f64], relative: f64) -> Fused {
        let bounds = Some(Bounds::new(relative, vec![], 1));
        Fused { c: c.to_vec(), tolerance: relative, bounds, rows: None, row_bounds: None }
    }

    #[test]
    fn one_element_beyond_its_bound_is_wrong_however_small_the_error_of_all_is() {
        let want: Vec<f64> = (0..4000).map(|at| f64::from(at % 50)).collect();
        let mut got = Dense::<f32>::from_fn(80, 50, Layout::RowMajor, |_, col| col as f32);
        let ld = got.ld();
        got.data_mut()[3 * ld + 2] = 2.1;
        let verdict = Verdict::new(&got, &Rows::all(80), &fused(&want, 1e-2)).unwrap();
        assert!(verdict.comparison.passes(1e-2));
        let report = verdict.judge("k", Tolerance::strict(1e-2)).unwrap_err().into_report();
        assert!(report.contains("1 of 4000 elements are far off: all of rows 3 to 3, columns 2 to 2"), "{report}");
        assert!(report.contains("(at most 1.00e-2 is right), largest difference 1.000e-1 at row 3"), "{report}");
        // What was asked for is all that is asked.
        assert!(verdict.judge("k", Tolerance { relative: 1e-2, each: false }).is_ok());
    }

    #[test]
    fn elements_of_stored_blocks_are_named_by_their_place_in_c() {
        // Blocks of 4 x 2 at (0, 1), (1, 0) and (1, 3) of a C of 8 x 8.
        let stored = Structure::new(8, 8, (4, 2), vec![0, 1, 3], vec![1, 0, 3]).unwrap();
        let mut got = Dense::<f32>::from_fn(3, 8, Layout::RowMajor, |_, _| 1.0);
        let ld = got.ld();
        // Block 2, its third row and second column.
        got.data_mut()[2 * ld + 5] = 9.0;
        let rows = Rows { list: vec![0, 2], of: 3, unit: "stored blocks" };
        let verdict = Verdict::of_blocks(&got, &stored, &rows, &fused(&[1.0; 16], 1e-3)).unwrap();
        assert_eq!(verdict.comparison.worst, Some((6, 7)));
        assert!(verdict.shape_words(None).contains("1 of 16 elements are far off: all of rows 6 to 6, columns 7 to 7"));
    }

    #[test]
    fn what_is_wrong_in_the_padding_of_a_block_is_called_so() {
        let stored = Structure::new(7, 8, (4, 8), vec![0, 0, 1], vec![0]).unwrap();
        let mut got = Dense::<f32>::from_fn(1, 32, Layout::RowMajor, |_, _| 0.0);
        let rows = Rows { list: vec![0], of: 1, unit: "stored blocks" };
        let words = |got: &Dense<f32>| {
            Verdict::of_blocks(got, &stored, &rows, &fused(&[0.0; 32], 0.0)).unwrap().words(Tolerance::strict(0.0))
        };
        assert!(!words(&got).contains("padding"));
        got.data_mut()[3 * 8 + 2] = 5.0;
        let said = words(&got);
        assert!(said.contains("at row 7, column 2") && said.contains("padding of an edge block: C is 7 x 8"), "{said}");
    }

    #[test]
    fn an_element_that_was_not_written_fails_wherever_it_is() {
        let rows = Rows { list: vec![0, 2], of: 4, unit: "rows" };
        let mut got = Dense::<f16>::from_fn(4, 3, Layout::ColMajor, |r, c| f16::from_f32((r * 3 + c) as f32));
        let want = fused(&[0.0, 1.0, 2.0, 6.0, 7.0, 8.0], 1e-3);
        let right = Verdict::new(&got, &rows, &want).unwrap();
        assert!(right.judge("k", Tolerance::strict(1e-9)).is_ok());

        let ld = got.ld();
        got.data_mut()[ld + 3] = f16::NAN; // row 3, column 1: not among the compared rows
        let unwritten = Verdict::new(&got, &rows, &want).unwrap();
        let report = unwritten.judge("k", Tolerance::strict(1.0)).unwrap_err();
        assert_eq!(report.exit(), Exit::Wrong);

        let wrong = Verdict::new(&got, &rows, &fused(&[0.0, 1.0, 2.0, 6.0, 7.0, 80.0], 1e-3)).unwrap();
        assert_eq!(wrong.comparison.worst, Some((2, 2)));
    }

    #[test]
    fn an_integer_that_was_not_written_fails_though_it_is_finite() {
        let rows = Rows { list: vec![0], of: 2, unit: "rows" };
        let mut got = Dense::<i32>::from_fn(2, 3, Layout::RowMajor, |r, c| (r * 3 + c) as i32);
        let want = fused(&[0.0, 1.0, 2.0], 0.0);
        assert!(Verdict::new(&got, &rows, &want).unwrap().judge("k", Tolerance::strict(0.0)).is_ok());
        let ld = got.ld();
        got.data_mut()[ld + 1] = i32::POISON;
        let unwritten = Verdict::new(&got, &rows, &want).unwrap();
        assert!(unwritten.is_incomplete());
        let report = unwritten.judge("k", Tolerance::strict(1.0)).unwrap_err().into_report();
        assert!(report.contains("1 elements of C are -2139062144: C is filled with -2139062144"), "{report}");
        // Integers are right or wrong.
        let off =
            Verdict::new(&Dense::<i32>::zeros(2, 3, Layout::RowMajor), &rows, &fused(&[0.0, 0.0, 1.0], 0.0)).unwrap();
        assert!(off.judge("k", Tolerance::strict(0.0)).is_err());
    }

    #[test]
    fn tolerances_are_read_strictly() {
        assert!(positive("2e-3").is_ok() && positive("0").is_err() && positive("nan").is_err());
        assert_eq!(
            (Tolerance::strict(2e-3).to_string(), Tolerance::strict(0.0).to_string()),
            ("at most 2.00e-3 is right".into(), "only 0 is right".into())
        );
    }
}
