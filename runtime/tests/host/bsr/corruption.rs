//! Ways to spoil a valid matrix.

use super::parts::Parts;

/// A name, what it does (`None` where the matrix offers no place for it), and what the error must say.
pub(crate) type Corruption = (&'static str, fn(&mut Parts) -> Option<()>, &'static str);

/// One corruption for every fact that is checked.
pub(crate) const CORRUPTIONS: [Corruption; 16] = [
    (
        "no block height",
        |p| {
            p.block.0 = 0;
            Some(())
        },
        "the block is 0 x",
    ),
    (
        "no block width",
        |p| {
            p.block.1 = 0;
            Some(())
        },
        "x 0, but both sides",
    ),
    (
        "rows beyond 32 bits",
        |p| {
            p.rows = 1 << 31;
            Some(())
        },
        "rows = 2147483648 is not below",
    ),
    ("row_ptr too short", |p| p.row_ptr.pop().map(drop), "row_ptr has"),
    (
        "row_ptr too long",
        |p| {
            p.row_ptr.push(p.col_idx.len() as i32);
            Some(())
        },
        "row_ptr has",
    ),
    (
        "row_ptr not from 0",
        |p| {
            p.row_ptr[0] = 1;
            Some(())
        },
        "row_ptr[0] = 1, but",
    ),
    (
        "row_ptr negative",
        |p| {
            *p.row_ptr.get_mut(1)? = -1;
            Some(())
        },
        "row_ptr[1] = -1 is less than row_ptr[0]",
    ),
    (
        "row_ptr decreasing",
        |p| {
            let at = (2..p.row_ptr.len()).find(|&at| p.row_ptr[at - 1] > 0)?;
            p.row_ptr[at] = p.row_ptr[at - 1] - 1;
            Some(())
        },
        "is less than row_ptr[",
    ),
    (
        "row_ptr ends early",
        |p| {
            p.col_idx.push(0);
            Some(())
        },
        "stored blocks, but col_idx has",
    ),
    (
        "column negative",
        |p| {
            *p.col_idx.first_mut()? = -1;
            Some(())
        },
        "col_idx[0] = -1 in block row",
    ),
    (
        "column too large",
        |p| {
            *p.col_idx.last_mut()? = p.cols.div_ceil(p.block.1) as i32;
            Some(())
        },
        "is outside 0..",
    ),
    (
        "columns swapped",
        |p| {
            let at = p.neighbours()?;
            p.col_idx.swap(at - 1, at);
            Some(())
        },
        " follows ",
    ),
    (
        "column twice",
        |p| {
            let at = p.neighbours()?;
            p.col_idx[at] = p.col_idx[at - 1];
            Some(())
        },
        "are both",
    ),
    ("a value missing", |p| p.values.pop().map(drop), "values, but"),
    (
        "a value too many",
        |p| {
            p.values.push(0.0);
            Some(())
        },
        "values, but",
    ),
    (
        "NaN in the padding",
        |p| {
            let at = p.padding()?;
            p.values[at] = f32::NAN;
            Some(())
        },
        "= NaN in block",
    ),
];
