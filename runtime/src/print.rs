//! How matrices are printed: what they are in one line, and a picture of at most a screen.
//!
//! `Debug` is the one line; `Display` adds the picture. Neither prints every value of a matrix, which may have millions.

use std::fmt;

use bsr_codegen::Layout;

use crate::{Bsr, Dense, DenseView, Element, Structure};

/// Most lines and columns of a picture of a pattern.
const PICTURE: (usize, usize) = (24, 64);

/// Most rows and columns of a dense matrix that are shown.
const CORNER: (usize, usize) = (6, 8);

/// `1024 x 1120 in blocks of 512 x 112, 8 of 20 stored`.
struct Facts<'a>(&'a Structure);

impl fmt::Display for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, cols, (bm, bk)) = (self.0.rows(), self.0.cols(), self.0.block());
        let all = self.0.block_rows() * self.0.block_cols();
        write!(f, "{rows} x {cols} in blocks of {bm} x {bk}, {} of {all} stored", self.0.nnzb())
    }
}

/// `f16` of `half::binary16::f16`.
fn name_of<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit("::").next().unwrap_or(path)
}

impl fmt::Debug for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Structure({})", Facts(self))
    }
}

impl<T> fmt::Debug for Bsr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bsr<{}>({})", name_of::<T>(), Facts(self.structure()))
    }
}

/// What the structure is, and a picture of its pattern: `#` where blocks are stored, `.` where none are. Of a large
/// structure a character stands for several blocks, and for `+` some of them are stored.
///
/// ```
/// use bsr_runtime::Structure;
///
/// let structure = Structure::new(64, 96, (16, 32), vec![0, 2, 3, 3, 4], vec![0, 2, 1, 2])?;
/// let picture = "64 x 96 in blocks of 16 x 32, 4 of 12 stored\n#.#\n.#.\n...\n..#";
/// assert_eq!(structure.to_string(), picture);
/// # Ok::<(), bsr_codegen::Refusal>(())
/// ```
impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = [
            self.block_rows().div_ceil(PICTURE.0).max(1),
            // A character is about twice as high as it is wide.
            self.block_cols().div_ceil(PICTURE.1).max(1),
        ];
        write!(f, "{}", Facts(self))?;
        if group != [1, 1] {
            write!(f, "; a character is {} x {} blocks", group[0], group[1])?;
        }
        for first in (0..self.block_rows()).step_by(group[0]) {
            let rows = first..(first + group[0]).min(self.block_rows());
            let mut stored = vec![0; self.block_cols().div_ceil(group[1])];
            let blocks = self.blocks_of(rows.start).start..self.blocks_of(rows.end - 1).end;
            self.col_idx()[blocks].iter().for_each(|col| stored[*col as usize / group[1]] += 1);
            let character = |(at, stored): (usize, &usize)| {
                let cols = group[1].min(self.block_cols() - at * group[1]);
                match *stored {
                    0 => '.',
                    stored if stored == rows.len() * cols => '#',
                    _ => '+',
                }
            };
            let line: String = stored.iter().enumerate().map(character).collect();
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

/// The element type, and the picture of the [`Structure`].
impl<T: Element> fmt::Display for Bsr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", T::DTYPE, self.structure())
    }
}

/// `f16, 1120 x 512, row-major`, and the leading dimension where lines have padding.
struct DenseFacts {
    rows: usize,
    cols: usize,
    layout: Layout,
    ld: usize,
}

impl DenseFacts {
    fn of<T>(dense: &Dense<T>) -> Self {
        Self { rows: dense.rows(), cols: dense.cols(), layout: dense.layout(), ld: dense.ld() }
    }

    fn of_view<T>(view: &DenseView<'_, T>) -> Self {
        Self { rows: view.rows(), cols: view.cols(), layout: view.layout(), ld: view.ld() }
    }
}

impl fmt::Display for DenseFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, cols, layout, ld } = *self;
        let (order, line) = match layout {
            Layout::RowMajor => ("row-major", cols),
            Layout::ColMajor => ("column-major", rows),
        };
        write!(f, "{rows} x {cols}, {order}")?;
        if ld == line { Ok(()) } else { write!(f, ", ld = {ld}") }
    }
}

impl<T> fmt::Debug for DenseView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DenseView<{}>({})", name_of::<T>(), DenseFacts::of_view(self))
    }
}

impl<T> fmt::Debug for Dense<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dense<{}>({})", name_of::<T>(), DenseFacts::of(self))
    }
}

/// What the matrix is, and its first rows and columns.
///
/// ```
/// use bsr_runtime::{Dense, Layout};
///
/// let matrix = Dense::from_fn(2, 3, Layout::RowMajor, |row, col| (row * 3 + col) as f32);
/// assert_eq!(matrix.to_string(), "f32, 2 x 3, row-major, ld = 4\n 0 1 2\n 3 4 5");
/// ```
impl<T: Element> fmt::Display for DenseView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", T::DTYPE, DenseFacts::of_view(self))?;
        let shown = (self.rows().min(CORNER.0), self.cols().min(CORNER.1));
        let text = |row, col| self.get(row, col).map(|value| value.to_string()).unwrap_or_default();
        let lines: Vec<Vec<String>> =
            (0..shown.0).map(|row| (0..shown.1).map(|col| text(row, col)).collect()).collect();
        let width = lines.iter().flatten().map(String::len).max().unwrap_or(0);
        for line in &lines {
            f.write_str("\n")?;
            line.iter().try_for_each(|value| write!(f, " {value:>width$}"))?;
            if shown.1 < self.cols() {
                f.write_str(" ..")?;
            }
        }
        if shown.0 < self.rows() { f.write_str("\n ..") } else { Ok(()) }
    }
}

/// As of its view.
impl<T: Element> fmt::Display for Dense<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::f16;

    use super::*;
    use crate::Pattern;

    #[test]
    fn debug_is_one_line_however_large_the_matrix() {
        let a = Bsr::<f16>::generate(Pattern::TopK(4), 1024, 1120, (512, 112), 0).unwrap();
        assert_eq!(format!("{a:?}"), "Bsr<f16>(1024 x 1120 in blocks of 512 x 112, 8 of 20 stored)");
        assert_eq!(format!("{:?}", a.structure()), "Structure(1024 x 1120 in blocks of 512 x 112, 8 of 20 stored)");
        let b = Dense::<f32>::zeros(1000, 9, Layout::ColMajor);
        assert_eq!(format!("{b:?}"), "Dense<f32>(1000 x 9, column-major)");
        assert_eq!(format!("{:?}", b.view()), "DenseView<f32>(1000 x 9, column-major)");
    }

    #[test]
    fn a_large_pattern_is_drawn_in_groups_of_blocks() {
        let block_rows = 48 + 1;
        // The first block row is full, the second one empty; the others have their first block.
        let mut row_ptr = vec![0, 65, 65];
        row_ptr.extend((66..).take(block_rows - 2));
        let mut col_idx: Vec<i32> = (0..65).collect();
        col_idx.extend(vec![0; block_rows - 2]);
        let structure = Structure::new(block_rows * 8, 65 * 8, (8, 8), row_ptr, col_idx).unwrap();
        let text = structure.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "392 x 520 in blocks of 8 x 8, 112 of 3185 stored; a character is 3 x 2 blocks");
        assert_eq!(lines.len(), 1 + 17);
        assert_eq!(lines[1], "+".repeat(33));
        assert_eq!(lines[2], format!("+{}", ".".repeat(32)));
        let full = Bsr::<f32>::generate(Pattern::Random(1.0), 200, 200, (2, 2), 0).unwrap().to_string();
        assert!(full.starts_with("f32, 200 x 200"), "{full}");
        assert!(full.lines().skip(1).all(|line| line == "#".repeat(50)), "{full}");
    }

    #[test]
    fn matrices_without_elements_are_printed() {
        assert_eq!(Structure::empty(0, 16, (8, 8)).unwrap().to_string(), "0 x 16 in blocks of 8 x 8, 0 of 0 stored");
        assert_eq!(Structure::empty(8, 0, (8, 8)).unwrap().to_string(), "8 x 0 in blocks of 8 x 8, 0 of 0 stored\n");
        let empty = Dense::<f32>::zeros(0, 0, Layout::RowMajor);
        assert!(empty.to_string().starts_with("f32, 0 x 0, row-major"), "{empty}");
    }

    #[test]
    fn a_large_dense_matrix_shows_its_corner() {
        let matrix = Dense::from_fn(100, 100, Layout::ColMajor, |row, col| (row * 100 + col) as f32);
        let text = matrix.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + CORNER.0 + 1);
        assert_eq!(lines[1], "   0   1   2   3   4   5   6   7 ..");
        assert_eq!(lines[6], " 500 501 502 503 504 505 506 507 ..");
    }
}
