//! Ways to spoil a valid matrix.

use bsr_runtime::BsrError;

use super::parts::Parts;

/// A name, what it does (`None` where the matrix offers no place for it), and the error that must name it.
pub(crate) type Corruption = (&'static str, fn(&mut Parts) -> Option<()>, fn(&BsrError) -> bool);

/// One corruption for every fact that is checked.
pub(crate) const CORRUPTIONS: [Corruption; 16] = [
    (
        "no block height",
        |p| {
            p.block.0 = 0;
            Some(())
        },
        |e| matches!(e, BsrError::ZeroBlock { bm: 0, .. }),
    ),
    (
        "no block width",
        |p| {
            p.block.1 = 0;
            Some(())
        },
        |e| matches!(e, BsrError::ZeroBlock { bk: 0, .. }),
    ),
    (
        "rows beyond 32 bits",
        |p| {
            p.rows = 1 << 31;
            Some(())
        },
        |e| matches!(e, BsrError::TooLarge { what: "rows", .. }),
    ),
    ("row_ptr too short", |p| p.row_ptr.pop().map(drop), |e| matches!(e, BsrError::RowPtrLength { .. })),
    (
        "row_ptr too long",
        |p| {
            p.row_ptr.push(p.col_idx.len() as i32);
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrLength { .. }),
    ),
    (
        "row_ptr not from 0",
        |p| {
            p.row_ptr[0] = 1;
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrStart { got: 1 }),
    ),
    (
        "row_ptr negative",
        |p| {
            *p.row_ptr.get_mut(1)? = -1;
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrDecreasing { block_row: 0, end: -1, .. }),
    ),
    (
        "row_ptr decreasing",
        |p| {
            let at = (2..p.row_ptr.len()).find(|&at| p.row_ptr[at - 1] > 0)?;
            p.row_ptr[at] = p.row_ptr[at - 1] - 1;
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrDecreasing { .. }),
    ),
    (
        "row_ptr ends early",
        |p| {
            p.col_idx.push(0);
            Some(())
        },
        |e| matches!(e, BsrError::RowPtrEnd { .. }),
    ),
    (
        "column negative",
        |p| {
            *p.col_idx.first_mut()? = -1;
            Some(())
        },
        |e| matches!(e, BsrError::ColumnOutOfRange { at: 0, column: -1, .. }),
    ),
    (
        "column too large",
        |p| {
            *p.col_idx.last_mut()? = p.cols.div_ceil(p.block.1) as i32;
            Some(())
        },
        |e| matches!(e, BsrError::ColumnOutOfRange { .. }),
    ),
    (
        "columns swapped",
        |p| {
            let at = p.neighbours()?;
            p.col_idx.swap(at - 1, at);
            Some(())
        },
        |e| matches!(e, BsrError::Unsorted { .. }),
    ),
    (
        "column twice",
        |p| {
            let at = p.neighbours()?;
            p.col_idx[at] = p.col_idx[at - 1];
            Some(())
        },
        |e| matches!(e, BsrError::Duplicate { .. }),
    ),
    ("a value missing", |p| p.values.pop().map(drop), |e| matches!(e, BsrError::ValuesLength { .. })),
    (
        "a value too many",
        |p| {
            p.values.push(0.0);
            Some(())
        },
        |e| matches!(e, BsrError::ValuesLength { .. }),
    ),
    (
        "NaN in the padding",
        |p| {
            let at = p.padding()?;
            p.values[at] = f32::NAN;
            Some(())
        },
        |e| matches!(e, BsrError::PaddingNotZero { value, .. } if value.is_nan()),
    ),
];
