//! A result beside the f64 reference: which rows are compared, and how far off is too far.

mod rows;
mod wrong;

use std::fmt;

use bsr_runtime::reference::{self, Comparison, Fused};
use bsr_runtime::{Dense, Element, Layout, Structure};

use crate::Failure;
pub use rows::{RowChoice, Rows, longest_sum};
use wrong::{Place, Wrong};

/// How a result is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verification {
    /// The greatest relative Frobenius error, in place of what types and lengths of sums lead to.
    pub tolerance: Option<f64>,
    /// Which rows are compared.
    pub rows: RowChoice,
}

/// The bounds of a right result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The greatest relative Frobenius error.
    relative: f64,
    /// Whether every element must keep its own bound, too.
    each: bool,
}

impl Tolerance {
    /// A relative error, and no element beyond its bound.
    pub fn strict(relative: f64) -> Self {
        Self { relative, each: true }
    }

    /// A relative error alone.
    pub fn norm(relative: f64) -> Self {
        Self { relative, each: false }
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

/// What some rows of a result must be.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The rows that are compared.
    pub rows: Rows,
    /// What they must be.
    pub want: Fused,
    /// The rows of the second result that are compared.
    second: Rows,
    /// What the second result is called.
    second_name: &'static str,
    /// Heads, rows of each, and what a row is, where the rows are those of tensors of heads.
    heads: Option<([usize; 2], &'static str)>,
}

impl Expected {
    /// Rows of a matrix; a second result has as many.
    pub fn of_rows(rows: Rows, want: Fused) -> Self {
        Self { second: rows.clone(), rows, want, second_name: "second result", heads: None }
    }

    /// Stored blocks of an SDDMM, a row of values each; a second result has the rows of which all blocks are compared.
    pub fn of_blocks(rows: Rows, want: Fused, structure: &Structure) -> Self {
        let list = reference::complete_rows(structure, &rows.list);
        let second = Rows { list, of: structure.rows(), unit: "rows" };
        Self { second, ..Self::of_rows(rows, want) }
    }

    /// Rows of O or of a gradient, those of each head one after the other: so many heads, of so many rows, each of a `query` or a
    /// `key`. The second result is LSE.
    pub fn of_heads(rows: Rows, want: Fused, sizes: [usize; 2], of: &'static str) -> Self {
        Self { second_name: "LSE", heads: Some((sizes, of)), ..Self::of_rows(rows, want) }
    }

    /// The bounds of a right result: those that are asked for alone, or else the relative error of such types and sums, and a
    /// bound for every element.
    pub fn tolerance(&self, asked: Option<f64>) -> Tolerance {
        asked.map_or(Tolerance::strict(self.want.tolerance), Tolerance::norm)
    }

    /// What is wrong with a second result, in words.
    fn fault_of_second(&self, got: Option<&[f32]>) -> Result<Option<String>, Failure> {
        let list = &self.second.list;
        let compared: Option<Vec<f32>> = got.map(|got| list.iter().map(|row| got[*row]).collect());
        let mut comparison = self.want.compare_rows(compared.as_deref())?;
        comparison.worst = comparison.worst.map(|(at, column)| (list[at], column));
        let tolerance = self.want.rows_tolerance();
        let beyond = compared.as_deref().and_then(|compared| self.want.row_beyond(compared));
        if beyond.is_none() && comparison.passes(tolerance) {
            return Ok(None);
        }
        let row = beyond.map_or_else(String::new, |at| {
            let row = list[at];
            format!("\n  row {row}{} is further off than rounding explains", self.head_words(row))
        });
        let words = words(&comparison, Tolerance::strict(tolerance));
        Ok(Some(format!("wrong {}\n  {words}{row}", self.second_name)))
    }

    /// Which row of which head a row is; nothing of a matrix.
    fn head_words(&self, row: usize) -> String {
        let Some(([heads, rows], of)) = self.heads else { return String::new() };
        let head = row / rows.max(1);
        format!(" (problem {}, head {}, {of} {})", head / heads.max(1), head % heads.max(1), row % rows.max(1))
    }
}

/// A comparison in words: the error beside what is right, then where the largest difference is.
fn words(comparison: &Comparison, tolerance: Tolerance) -> String {
    format!("relative error {:.3e} ({tolerance}){}", comparison.relative, comparison.largest())
}

/// The row and column of a matrix of blocks where element `at` of stored block `block` is.
fn place_in(stored: &Structure, block: usize, at: usize) -> (usize, usize) {
    let (rows, cols) = stored.block();
    let row = stored.row_ptr().partition_point(|first| *first as usize <= block).saturating_sub(1);
    let column = stored.col_idx()[block] as usize;
    (row * rows + at / cols, column * cols + at % cols)
}

/// A result beside the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The compared rows; `worst` names a row and a column of C.
    pub comparison: Comparison,
    /// Elements anywhere that are NaN, infinite, or what C is filled with before a launch: these were not written.
    unwritten: usize,
    /// What C is filled with, in words.
    poison: String,
    /// The compared elements that are beyond their bounds.
    wrong: Option<Wrong>,
    /// Rows and columns of C, where the largest difference is beyond them.
    padding: Option<(usize, usize)>,
    /// Which head has the largest difference.
    head: String,
    /// What is wrong with the second result.
    second: Option<String>,
}

impl Verdict {
    /// Compares the rows that are expected.
    ///
    /// # Errors
    /// When rows and reference do not belong to the result.
    pub fn new<C: Element>(got: &Dense<C>, expected: &Expected) -> Result<Self, Failure> {
        Self::placed(got, expected, &|row, column| (row, column))
    }

    /// Compares values of the stored blocks of a sparse C, one block after the other; what is far off is named by its row and
    /// column of C.
    ///
    /// # Errors
    /// When blocks and reference do not belong to the result.
    pub fn of_blocks<C: Element>(values: Vec<C>, stored: &Structure, expected: &Expected) -> Result<Self, Failure> {
        let size = stored.block().0 * stored.block().1;
        let got = Dense::from_vec(stored.nnzb(), size, Layout::RowMajor, size, values).map_err(Failure::wrong)?;
        let mut verdict = Self::placed(&got, expected, &|block, at| place_in(stored, block, at))?;
        let of = (stored.rows(), stored.cols());
        verdict.padding = verdict.comparison.worst.filter(|(row, col)| *row >= of.0 || *col >= of.1).map(|_| of);
        Ok(verdict)
    }

    /// The same with what is wrong with the second result.
    ///
    /// # Errors
    /// When reference and result have different rows.
    pub fn with_second(self, got: Option<&[f32]>, expected: &Expected) -> Result<Self, Failure> {
        Ok(Self { second: expected.fault_of_second(got)?, ..self })
    }

    /// The same with what is wrong with a further result, in words.
    pub(crate) fn with_fault(self, fault: Option<String>) -> Self {
        Self { second: fault, ..self }
    }

    /// The one of two that is further from right: first of all the one with more elements that were not written, then
    /// the one with elements beyond their bounds.
    pub fn worse(self, other: Self) -> Self {
        let wrong = || self.wrong.is_some().cmp(&other.wrong.is_some());
        let relative = || self.comparison.relative.total_cmp(&other.comparison.relative);
        match self.unwritten.cmp(&other.unwritten).then_with(wrong).then_with(relative) {
            std::cmp::Ordering::Less => other,
            _ => self,
        }
    }

    /// The comparison in words, beside what is right.
    pub fn words(&self, tolerance: Tolerance) -> String {
        let padding = self.padding.map_or_else(String::new, |(rows, cols)| {
            format!(" (in the padding of an edge block: C is {rows} x {cols}, and padding must be 0)")
        });
        format!("{}{}{padding}", words(&self.comparison, tolerance), self.head)
    }

    fn placed<C: Element>(got: &Dense<C>, expected: &Expected, place: Place<'_>) -> Result<Self, Failure> {
        let Expected { rows, want, .. } = expected;
        let mut comparison = Comparison::of_rows(got, &rows.list, &want.c)?;
        comparison.worst = comparison.worst.map(|(at, column)| place(rows.list[at], column));
        Ok(Self {
            head: comparison.worst.map_or_else(String::new, |(row, _)| expected.head_words(row)),
            comparison,
            unwritten: reference::unwritten(got),
            poison: C::POISON.to_string(),
            wrong: Wrong::new(got, &rows.list, want, place),
            padding: None,
            second: None,
        })
    }

    /// How many elements are far off and where, and which tiles of so many rows and columns that is; empty if none is.
    pub fn shape_words(&self, tile: Option<(usize, usize)>) -> String {
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

    /// Bytes of C at which elements are that are far off; of very many the first.
    pub fn far_off(&self) -> &[usize] {
        self.wrong.as_ref().map_or(&[], |wrong| &wrong.bytes)
    }

    /// The same without the bytes of elements that are far off.
    pub(crate) fn without_bytes(mut self) -> Self {
        self.wrong.iter_mut().for_each(|wrong| wrong.bytes.clear());
        self
    }

    /// Whether C has elements that were not written, so that it says nothing of the numbers.
    pub fn is_incomplete(&self) -> bool {
        self.unwritten > 0
    }

    /// What is wrong with the second result.
    pub fn second(&self) -> Option<&str> {
        self.second.as_deref()
    }

    /// Whether the compared rows of C are right; what was not compared may be unwritten.
    pub fn passes(&self, tolerance: Tolerance) -> bool {
        self.comparison.passes(tolerance.relative) && (self.wrong.is_none() || !tolerance.each)
    }

    /// Whether the whole result is right.
    ///
    /// # Errors
    /// Wrong: it is not, and this is how.
    pub fn verify(&self, kernel: &str, tolerance: Tolerance) -> Result<(), Failure> {
        if let Some(wrong) = &self.second {
            return Err(Failure::wrong(wrong));
        }
        if self.unwritten == 0 && self.passes(tolerance) {
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

    use bsr_runtime::reference::Bounds;
    use half::f16;

    use super::*;
    use crate::FailureKind;

    /// What elements must be, each to `relative` of it.
    fn fused(c: &[f64], relative: f64) -> Fused {
        let bounds = Some(Bounds::new(relative, vec![], 1));
        Fused { c: c.to_vec(), tolerance: relative, bounds, rows: None, row_bounds: None }
    }

    fn expected(rows: &Rows, want: &Fused) -> Expected {
        Expected::of_rows(rows.clone(), want.clone())
    }

    #[test]
    fn one_element_beyond_its_bound_is_wrong_however_small_the_error_of_all_is() {
        let want: Vec<f64> = (0..4000).map(|at| f64::from(at % 50)).collect();
        let mut got = Dense::<f32>::from_fn(80, 50, Layout::RowMajor, |_, col| col as f32);
        let ld = got.ld();
        got.data_mut()[3 * ld + 2] = 2.1;
        let verdict = Verdict::new(&got, &Expected::of_rows(Rows::all(80), fused(&want, 1e-2))).unwrap();
        assert!(verdict.comparison.passes(1e-2));
        let report = verdict.verify("k", Tolerance::strict(1e-2)).unwrap_err().to_string();
        assert!(report.contains("1 of 4000 elements are far off: all of rows 3 to 3, columns 2 to 2"), "{report}");
        assert!(report.contains("(at most 1.00e-2 is right), largest difference 1.000e-1 at row 3"), "{report}");
        // What was asked for is all that is asked.
        assert!(verdict.verify("k", Tolerance::norm(1e-2)).is_ok());
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
        let expected = Expected::of_blocks(rows, fused(&[1.0; 16], 1e-3), &stored);
        let verdict = Verdict::of_blocks(got.data().to_vec(), &stored, &expected).unwrap();
        assert_eq!(verdict.comparison.worst, Some((6, 7)));
        assert!(verdict.shape_words(None).contains("1 of 16 elements are far off: all of rows 6 to 6, columns 7 to 7"));
    }

    #[test]
    fn what_is_wrong_in_the_padding_of_a_block_is_called_so() {
        let stored = Structure::new(7, 8, (4, 8), vec![0, 0, 1], vec![0]).unwrap();
        let mut got = Dense::<f32>::from_fn(1, 32, Layout::RowMajor, |_, _| 0.0);
        let rows = Rows { list: vec![0], of: 1, unit: "stored blocks" };
        let words = |got: &Dense<f32>| {
            let expected = Expected::of_blocks(rows.clone(), fused(&[0.0; 32], 0.0), &stored);
            Verdict::of_blocks(got.data().to_vec(), &stored, &expected).unwrap().words(Tolerance::strict(0.0))
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
        let right = Verdict::new(&got, &expected(&rows, &want)).unwrap();
        assert!(right.verify("k", Tolerance::strict(1e-9)).is_ok());

        let ld = got.ld();
        got.data_mut()[ld + 3] = f16::NAN; // row 3, column 1: not among the compared rows
        let unwritten = Verdict::new(&got, &expected(&rows, &want)).unwrap();
        let report = unwritten.verify("k", Tolerance::strict(1.0)).unwrap_err();
        assert_eq!(report.kind(), FailureKind::Wrong);

        let wrong = Verdict::new(&got, &expected(&rows, &fused(&[0.0, 1.0, 2.0, 6.0, 7.0, 80.0], 1e-3))).unwrap();
        assert_eq!(wrong.comparison.worst, Some((2, 2)));
    }

    #[test]
    fn an_integer_that_was_not_written_fails_though_it_is_finite() {
        let rows = Rows { list: vec![0], of: 2, unit: "rows" };
        let mut got = Dense::<i32>::from_fn(2, 3, Layout::RowMajor, |r, c| (r * 3 + c) as i32);
        let want = fused(&[0.0, 1.0, 2.0], 0.0);
        assert!(Verdict::new(&got, &expected(&rows, &want)).unwrap().verify("k", Tolerance::strict(0.0)).is_ok());
        let ld = got.ld();
        got.data_mut()[ld + 1] = i32::POISON;
        let unwritten = Verdict::new(&got, &expected(&rows, &want)).unwrap();
        assert!(unwritten.is_incomplete());
        let report = unwritten.verify("k", Tolerance::strict(1.0)).unwrap_err().to_string();
        assert!(report.contains("1 elements of C are -2139062144: C is filled with -2139062144"), "{report}");
        // Integers are right or wrong.
        let off =
            Verdict::new(&Dense::<i32>::zeros(2, 3, Layout::RowMajor), &expected(&rows, &fused(&[0.0, 0.0, 1.0], 0.0)))
                .unwrap();
        assert!(off.verify("k", Tolerance::strict(0.0)).is_err());
    }

    #[test]
    fn a_tolerance_says_what_is_right() {
        assert_eq!(
            (Tolerance::strict(2e-3).to_string(), Tolerance::strict(0.0).to_string()),
            ("at most 2.00e-3 is right".into(), "only 0 is right".into())
        );
    }
}
