//! Archives that `scipy.sparse.load_npz` reads.

use std::io::{self, Seek, SeekFrom, Write};

use bsr_codegen::{Dtype, IndexWidth};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::error::WriteProblem;
use super::file::Out;
use super::layout::{padded, pointers, signed};
use crate::{Bsr, Element, Permutation};

/// Writes `matrix` as `scipy.sparse.save_npz` writes a `bsr_array`.
pub(super) fn write<T: Element>(
    matrix: &Bsr<T>,
    row_order: Option<&Permutation>,
    out: &mut Out<'_>,
) -> Result<(), WriteProblem> {
    let (rows, cols) = padded(matrix);
    let ((bm, bk), nnzb) = (matrix.block(), matrix.nnzb());
    let pair = |sides: [usize; 2]| -> Vec<u8> { sides.iter().flat_map(|&v| (v as u64).to_le_bytes()).collect() };
    let text = |text: &str| (format!("|S{}", text.len()), text.as_bytes().to_vec());

    let mut archive = Archive(ZipWriter::new(FailsOnce { out, at: 0, end: 0, has_failed: false }));
    let (kind, format) = text("bsr");
    archive.member("format", &kind, &[], |out| out.write_all(&format), format.len())?;
    archive.member("_is_array", "|b1", &[], |out| out.write_all(&[1]), 1)?;
    archive.member("shape", "<i8", &[2], |out| out.write_all(&pair([rows, cols])), 16)?;
    let (width, starts) = pointers(matrix.row_ptr());
    let columns: Vec<u8> = matrix.col_idx().iter().flat_map(|column| column.to_le_bytes()).collect();
    for (name, width, bytes) in [("indptr", width, starts), ("indices", IndexWidth::I32, columns)] {
        let (kind, length) = (format!("<i{}", width.bytes()), bytes.len() / width.bytes() as usize);
        archive.member(name, &kind, &[length], |out| out.write_all(&bytes), bytes.len())?;
    }
    let is_f64 = T::DTYPE == Dtype::F64;
    let data = |out: &mut dyn Write| {
        matrix.values().chunks(1 << 16).try_for_each(|part| {
            // Every other type that is written is exact in f32.
            let bytes: Vec<u8> = match is_f64 {
                true => part.iter().flat_map(|v| v.to_f64().to_le_bytes()).collect(),
                false => part.iter().flat_map(|v| (v.to_f64() as f32).to_le_bytes()).collect(),
            };
            out.write_all(&bytes)
        })
    };
    let (kind, size) = if is_f64 { ("<f8", 8) } else { ("<f4", 4) };
    archive.member("data", kind, &[nnzb, bm, bk], data, matrix.values().len().saturating_mul(size))?;
    let (kind, dtype) = text(&T::DTYPE.to_string());
    archive.member("value_dtype", &kind, &[], |out| out.write_all(&dtype), dtype.len())?;
    if (rows, cols) != (matrix.rows(), matrix.cols()) {
        let own = pair([matrix.rows(), matrix.cols()]);
        archive.member("unpadded_shape", "<i8", &[2], |out| out.write_all(&own), own.len())?;
    }
    if let Some(order) = row_order {
        let bytes = signed(order);
        archive.member("row_permutation", "<i8", &[order.len()], |out| out.write_all(&bytes), bytes.len())?;
    }
    archive.0.finish().map_err(io::Error::from)?;
    Ok(())
}

struct Archive<'o, 'f>(ZipWriter<FailsOnce<'o, 'f>>);

/// A file that reports its first error, and then takes everything: an archive that is dropped finishes itself, and prints to
/// standard error where it cannot.
struct FailsOnce<'o, 'f> {
    out: &'o mut Out<'f>,
    at: u64,
    end: u64,
    has_failed: bool,
}

impl FailsOnce<'_, '_> {
    fn attempt<T>(&mut self, attempt: impl FnOnce(&mut Out<'_>) -> io::Result<T>, otherwise: T) -> io::Result<T> {
        if self.has_failed {
            return Ok(otherwise);
        }
        let done = attempt(self.out);
        self.has_failed = done.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        done
    }
}

impl Write for FailsOnce<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.attempt(|out| out.write(bytes), bytes.len())?;
        self.at += count as u64;
        self.end = self.end.max(self.at);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(|out| out.flush(), ())
    }
}

impl Seek for FailsOnce<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = self.attempt(|out| out.seek(to), at.unwrap_or(0))?;
        Ok(self.at)
    }
}

impl Archive<'_, '_> {
    /// One array of `length` bytes.
    fn member(
        &mut self,
        name: &str,
        kind: &str,
        shape: &[usize],
        data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        length: usize,
    ) -> io::Result<()> {
        let large = length as u64 > u64::from(u32::MAX) / 2;
        // Without a time of its own a member gets the same one every day.
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(large);
        self.0.start_file(format!("{name}.npy"), options)?;
        self.0.write_all(&header(kind, shape))?;
        data(&mut self.0)
    }
}

/// The header of an array in numpy's format, version 1.0: magic, length, and a Python dictionary, padded with spaces to a
/// multiple of 64 bytes and ended by a line break
/// ([numpy.lib.format](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)).
fn header(kind: &str, shape: &[usize]) -> Vec<u8> {
    let sides: Vec<String> = shape.iter().map(|side| format!("{side},")).collect();
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}", sides.join(" "));
    let before = 10 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', before.next_multiple_of(64) - before));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    // At most three sides of 20 digits: far below 2^16.
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_aligned_and_say_tuples() {
        for (shape, tuple) in [(&[][..], "()"), (&[7], "(7,)"), (&[3, 16, 128], "(3, 16, 128,)")] {
            let bytes = header("<f4", shape);
            assert!(bytes.len().is_multiple_of(64) && bytes.ends_with(b"\n"));
            let text = String::from_utf8_lossy(&bytes[10..]).into_owned();
            assert!(
                text.starts_with(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple}, }}")),
                "{text}"
            );
        }
    }
}
