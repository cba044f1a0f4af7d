//! Memory that another library allocated, and what kernels ask of it.

use std::fmt::Display;

use bsr_codegen::{Layout, Refusal};

/// An array at an address that is null or not a multiple of `align` bytes.
pub(super) fn misplaced(what: impl Display, base: u64, align: u64) -> Refusal {
    Refusal::new(format!("{what} at {base:#x}, which must be a multiple of {align} and not null"))
        .help("copy into memory of its own")
}

/// A matrix whose base address is not a multiple of 16 bytes.
pub(super) fn unaligned(base: u64) -> Refusal {
    let past = base % 16;
    let fact = format!("the base address {base:#x} lies {past} B past a multiple of 16; TMA needs 16-byte alignment");
    Refusal::new(fact).help(format!("start the view {} B later, or copy it into memory of its own", 16 - past))
}

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
pub(super) fn check<T>(ptr: u64, rows: usize, cols: usize, layout: Layout, ld: usize) -> Result<(), Refusal> {
    let (_, inner) = lines(rows, cols, layout);
    if ptr == 0 {
        let fact = format!("the base address of a {rows} x {cols} matrix is null");
        return Err(Refusal::new(fact).help("pass device memory"));
    }
    if !ptr.is_multiple_of(16) {
        return Err(unaligned(ptr));
    }
    if ld < inner || ld == 0 {
        let line = match layout {
            Layout::RowMajor => "row",
            Layout::ColMajor => "column",
        };
        let fact = format!("a leading dimension of {ld} elements is shorter than the {inner} elements of one {line}");
        return Err(Refusal::new(fact).help(format!("use at least {}", padded_ld::<T>(inner))));
    }
    if !tma_stride::<T>(ld) {
        let (size, padded) = (size_of::<T>(), padded_ld::<T>(ld));
        let bytes = format!("{ld} elements x {size} B = {} B", ld * size);
        let fact = format!("a leading dimension of {bytes} is no multiple of 16; TMA needs that");
        let help = format!("pad the leading dimension to {padded} elements ({} B)", padded * size);
        return Err(Refusal::new(fact).help(help));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
        let refused = |base, ld| check::<f16>(base, 8, 1000, Layout::RowMajor, ld).unwrap_err().to_string();
        let text = refused(0x1000, 1001);
        assert!(text.contains("1001 elements x 2 B = 2002 B"), "{text}");
        assert!(text.contains("pad the leading dimension to 1008 elements (2016 B)"), "{text}");
        let text = refused(0x7f00_0000_0012, 1000);
        assert!(text.contains("2 B past a multiple of 16") && text.contains("14 B later"), "{text}");
    }

    #[test]
    fn foreign_memory_is_refused_with_the_padding_to_use() {
        let stride = check::<f16>(0x1000, 8192, 1, Layout::RowMajor, 1);
        assert!(stride.is_err_and(|e| e.to_string().contains("to 8 elements")));
        let base = check::<f16>(0x1002, 4, 8, Layout::RowMajor, 8);
        assert!(base.is_err_and(|e| e.to_string().contains("0x1002")));
        let overlap = check::<f16>(0x1000, 100, 8, Layout::ColMajor, 96);
        let text = overlap.unwrap_err().to_string();
        assert!(text.contains("100 elements of one column") && text.contains("at least 104"), "{text}");
        assert!(check::<f16>(0, 1, 1, Layout::RowMajor, 8).is_err_and(|e| e.to_string().contains("is null")));
    }

    #[test]
    fn padding_reaches_the_next_16_bytes() {
        assert_eq!(padded_ld::<f16>(1), 8);
        assert_eq!(padded_ld::<f16>(1000), 1000);
        assert_eq!(padded_ld::<f32>(5), 8);
        assert_eq!(padded_ld::<f32>(0), 4);
    }
}
