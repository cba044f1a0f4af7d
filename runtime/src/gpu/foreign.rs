//! Memory that another library allocated, and what kernels ask of it.

use bsr_codegen::Layout;

/// Memory that was allocated elsewhere and that kernels cannot address: as a matrix by TMA, or as scales.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// A null pointer.
    #[error("the base address of a {rows} x {cols} matrix is null\n  help: pass device memory")]
    Null {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// The base address is not a multiple of 16 bytes.
    #[error(
        "the base address {base:#x} lies {} B past a multiple of 16; TMA needs 16-byte alignment\n  help: start the view {} B later, or copy it into memory of its own",
        base % 16, 16 - base % 16
    )]
    Base {
        /// The base address.
        base: u64,
    },
    /// Scales at an address that is null or not a multiple of 16 bytes.
    #[error(
        "the scales of {operand} are at {base:#x}, which must be a multiple of 16 and not null\n  help: copy them into memory of their own"
    )]
    Scales {
        /// `A` or `B`.
        operand: &'static str,
        /// The address.
        base: u64,
    },
    /// A vector at an address that is null or not a multiple of 16 bytes.
    #[error(
        "a vector is at {base:#x}, which must be a multiple of 16 and not null\n  help: copy it into memory of its own"
    )]
    Vector {
        /// The address.
        base: u64,
    },
    /// Values of stored blocks at an address that is null or not a multiple of 16 bytes.
    #[error(
        "the values of stored blocks are at {base:#x}, which must be a multiple of 16 and not null\n  help: copy them into memory of their own"
    )]
    Values {
        /// The address.
        base: u64,
    },
    /// The stride between rows (columns) is not a multiple of 16 bytes.
    #[error(
        "a leading dimension of {ld} elements x {size} B = {} B is no multiple of 16; TMA needs that\n  help: pad the leading dimension to {padded} elements ({} B)",
        ld * size, padded * size
    )]
    Stride {
        /// The leading dimension in elements.
        ld: usize,
        /// Bytes of one element.
        size: usize,
        /// The next leading dimension TMA can take, in elements.
        padded: usize,
    },
    /// Rows (columns) that overlap.
    #[error(
        "a leading dimension of {ld} elements is shorter than the {inner} elements of one {line}\n  help: use at least {padded}"
    )]
    Overlap {
        /// The leading dimension in elements.
        ld: usize,
        /// Elements of one row or column.
        inner: usize,
        /// `row` or `column`.
        line: &'static str,
        /// The shortest leading dimension TMA can take, in elements.
        padded: usize,
    },
}

bsr_codegen::message_as_debug!(ForeignError);

/// How many lines a matrix has, and how many elements a line has.
pub(super) fn lines(rows: usize, cols: usize, layout: Layout) -> (usize, usize) {
    match layout {
        Layout::RowMajor => (rows, cols),
        Layout::ColMajor => (cols, rows),
    }
}

/// The shortest leading dimension TMA can take.
pub(super) fn padded_ld<T>(line: usize) -> usize {
    line.max(1).next_multiple_of((16 / size_of::<T>()).max(1))
}

pub(super) fn tma_stride<T>(ld: usize) -> bool {
    ld > 0 && (ld * size_of::<T>()).is_multiple_of(16)
}

/// Whether TMA can address foreign memory as a matrix.
pub(super) fn check<T>(ptr: u64, rows: usize, cols: usize, layout: Layout, ld: usize) -> Result<(), ForeignError> {
    let (_, inner) = lines(rows, cols, layout);
    if ptr == 0 {
        return Err(ForeignError::Null { rows, cols });
    }
    if !ptr.is_multiple_of(16) {
        return Err(ForeignError::Base { base: ptr });
    }
    if ld < inner || ld == 0 {
        let line = match layout {
            Layout::RowMajor => "row",
            Layout::ColMajor => "column",
        };
        return Err(ForeignError::Overlap { ld, inner, line, padded: padded_ld::<T>(inner) });
    }
    if !tma_stride::<T>(ld) {
        return Err(ForeignError::Stride { ld, size: size_of::<T>(), padded: padded_ld::<T>(ld) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn foreign_memory_is_taken_when_tma_can_address_it() {
        assert_eq!(check::<f16>(0x1000, 3, 1000, Layout::RowMajor, 1000), Ok(()));
        assert_eq!(check::<f16>(0x1000, 1, 8192, Layout::ColMajor, 8), Ok(()));
        assert_eq!(check::<f32>(0x1010, 8, 1, Layout::RowMajor, 4), Ok(()));
    }

    #[test]
    fn foreign_errors_name_the_padding() {
        let text = ForeignError::Stride { ld: 1001, size: 2, padded: 1008 }.to_string();
        assert!(text.contains("1001 elements x 2 B = 2002 B"), "{text}");
        assert!(text.contains("pad the leading dimension to 1008 elements (2016 B)"), "{text}");
        let text = ForeignError::Base { base: 0x7f00_0000_0012 }.to_string();
        assert!(text.contains("2 B past a multiple of 16") && text.contains("14 B later"), "{text}");
    }

    #[test]
    fn foreign_memory_is_refused_with_the_padding_to_use() {
        let stride = check::<f16>(0x1000, 8192, 1, Layout::RowMajor, 1);
        assert_eq!(stride, Err(ForeignError::Stride { ld: 1, size: 2, padded: 8 }));
        let base = check::<f16>(0x1002, 4, 8, Layout::RowMajor, 8);
        assert_eq!(base, Err(ForeignError::Base { base: 0x1002 }));
        let overlap = check::<f16>(0x1000, 100, 8, Layout::ColMajor, 96);
        assert_eq!(overlap, Err(ForeignError::Overlap { ld: 96, inner: 100, line: "column", padded: 104 }));
        assert!(overlap.is_err_and(|e| e.to_string().contains("at least 104")));
        assert_eq!(check::<f16>(0, 1, 1, Layout::RowMajor, 8), Err(ForeignError::Null { rows: 1, cols: 1 }));
    }

    #[test]
    fn padding_reaches_the_next_16_bytes() {
        assert_eq!(padded_ld::<f16>(1), 8);
        assert_eq!(padded_ld::<f16>(1000), 1000);
        assert_eq!(padded_ld::<f32>(5), 8);
        assert_eq!(padded_ld::<f32>(0), 4);
    }
}
