//! One array of numbers in numpy's `.npy` format.
//!
//! The header is a Python literal. This reader takes exactly what numpy writes for plain arrays - a
//! dictionary of `descr`, `fortran_order` and `shape` - and refuses anything else without evaluating it, so
//! that a hostile header can neither recurse, overflow nor claim memory.

use super::ReadProblem;
use crate::read::check_memory;
use bsr_codegen::Dtype;

/// An array as it lies in the file: little-endian numbers, in C order.
#[derive(Debug)]
pub(super) struct Array<'a> {
    /// The element type in numpy's short form, without byte order: `f4`, `i8`, `S3`.
    pub(super) kind: &'a str,
    /// The length of each axis.
    pub(super) shape: Vec<usize>,
    /// Whether the first axis is the fastest.
    fortran: bool,
    /// The bytes of the elements.
    data: &'a [u8],
}

impl<'a> Array<'a> {
    /// An array in C order.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ReadProblem> {
        let array = Self::parse_any_order(bytes)?;
        if array.fortran {
            let remedy = "write it in C order: numpy.ascontiguousarray";
            return Err(ReadProblem::refused("the array is in Fortran order", remedy));
        }
        Ok(array)
    }

    /// An array in either order.
    pub(super) fn parse_any_order(bytes: &'a [u8]) -> Result<Self, ReadProblem> {
        const WRITE: &str = "write the file with scipy.sparse.save_npz, or an array with numpy.save";
        let (header, data) = split_header(bytes)
            .ok_or_else(|| ReadProblem::refused("the member is not a .npy array of version 1, 2 or 3", WRITE))?;
        let Some(Header { descr, fortran_order, shape }) = Header::parse(header) else {
            let fact = format!("the header is `{}`", header.trim().chars().take(120).collect::<String>());
            return Err(ReadProblem::refused(fact, WRITE));
        };
        if descr.starts_with('>') {
            let remedy = "write the arrays in little-endian order: array.astype(array.dtype.newbyteorder('<'))";
            return Err(ReadProblem::refused(format!("`{descr}` is big-endian"), remedy));
        }
        let kind = descr.trim_start_matches(['<', '|', '=']);
        let size = element_size(kind).ok_or_else(|| {
            ReadProblem::refused(format!("elements of type `{descr}`"), "write f2, f4 or f8 data and i4 or i8 indices")
        })?;
        if kind.starts_with(['f', 'i']) {
            let made = (8 * data.len() / size.max(1)) as u64;
            // What is made of it; a matrix in Fortran order is turned, which takes as much again.
            check_memory(&[("its numbers, 8 B each,", made * (1 + u64::from(fortran_order)))])?;
        }
        let bytes = shape.iter().try_fold(size, |product, &side| product.checked_mul(side));
        if bytes != Some(data.len()) {
            let fact = format!("shape {shape:?} of {size}-byte elements, but {} bytes of data", data.len());
            return Err(ReadProblem::refused(fact, "the file was cut short or altered; write it again"));
        }
        let fortran = fortran_order && shape.len() > 1;
        Ok(Self { kind, shape, fortran, data })
    }

    /// The elements of a matrix of floating-point numbers, row by row, whatever order they are stored in; `None` if it is
    /// something else.
    pub(super) fn matrix(&self) -> Option<([usize; 2], Vec<f64>)> {
        let [rows, cols] = <[usize; 2]>::try_from(&self.shape[..]).ok()?;
        let values = self.floats()?;
        if !self.fortran {
            return Some(([rows, cols], values));
        }
        let by_rows = (0..rows).flat_map(|row| (0..cols).map(move |col| col * rows + row));
        Some(([rows, cols], by_rows.map(|at| values[at]).collect()))
    }

    /// The element type of a [`Bsr`](crate::Bsr) that these elements have, if there is one.
    pub(super) fn dtype(&self) -> Option<Dtype> {
        match self.kind {
            "f2" => Some(Dtype::F16),
            "f4" => Some(Dtype::F32),
            _ => None,
        }
    }

    /// The elements as floating-point numbers; `None` if they are not.
    pub(super) fn floats(&self) -> Option<Vec<f64>> {
        Some(match self.kind {
            "f2" => self.map(|bytes| f64::from(half::f16::from_le_bytes(bytes))),
            "f4" => self.map(|bytes| f64::from(f32::from_le_bytes(bytes))),
            "f8" => self.map(f64::from_le_bytes),
            _ => return None,
        })
    }

    /// The elements as integers; `None` if they are not.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        Some(match self.kind {
            "i4" => self.map(|bytes| i64::from(i32::from_le_bytes(bytes))),
            "i8" => self.map(i64::from_le_bytes),
            _ => return None,
        })
    }

    /// The text of an array of one ASCII string; `None` if it is not one.
    pub(super) fn text(&self) -> Option<String> {
        let bytes: Vec<u8> = match self.kind.as_bytes().first() {
            Some(b'S') => self.data.to_vec(),
            Some(b'U') => self.map(u32::from_le_bytes).into_iter().map(u8::try_from).collect::<Result<_, _>>().ok()?,
            _ => return None,
        };
        let text = String::from_utf8(bytes).ok()?;
        (self.shape.iter().product::<usize>() == 1).then(|| text.trim_end_matches('\0').to_string())
    }

    fn map<const SIZE: usize, V>(&self, value: impl Fn([u8; SIZE]) -> V) -> Vec<V> {
        self.data.as_chunks().0.iter().map(|&bytes| value(bytes)).collect()
    }
}

/// The elements of an array in C order: their type in numpy's short form, the shape, and the bytes.
///
/// # Errors
/// What is not such an array.
pub fn elements(bytes: &[u8]) -> Result<(&str, Vec<usize>, &[u8]), ReadProblem> {
    let Array { kind, shape, data, .. } = Array::parse(bytes)?;
    Ok((kind, shape, data))
}

/// The shape and the type that an array's first bytes say, if they hold its whole header; whether it is of
/// floating-point numbers that are read.
pub(super) fn describe(bytes: &[u8]) -> Option<(Vec<usize>, String, bool)> {
    let Header { descr, shape, .. } = Header::parse(split_header(bytes)?.0)?;
    let is_float = matches!(descr, "<f2" | "<f4" | "<f8" | "=f2" | "=f4" | "=f8");
    Some((shape, descr.to_owned(), is_float))
}

/// Bytes of one element.
fn element_size(kind: &str) -> Option<usize> {
    let count: usize = kind.get(1..)?.parse().ok()?;
    match kind.as_bytes()[0] {
        b'f' | b'i' | b'u' | b'c' | b'b' | b'S' => Some(count),
        b'U' => count.checked_mul(4),
        _ => None,
    }
}

/// The header text and the data behind it.
fn split_header(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (version, rest) = bytes.strip_prefix(b"\x93NUMPY")?.split_at_checked(2)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(bytes, rest)| (usize::from(u16::from_le_bytes(*bytes)), rest))?,
        2 | 3 => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (usize::try_from(u32::from_le_bytes(*bytes)).ok()?, rest)
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

/// What the dictionary says.
struct Header<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'a> Header<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = quoted(rest)?;
            let after = after.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" => {
                    let (text, after) = quoted(after)?;
                    descr.replace(text).is_none().then_some(after)?
                }
                "fortran_order" => {
                    let (value, after) = match after.strip_prefix("True") {
                        Some(after) => (true, after),
                        None => (false, after.strip_prefix("False")?),
                    };
                    fortran_order.replace(value).is_none().then_some(after)?
                }
                "shape" => {
                    let (sides, after) = after.strip_prefix('(')?.split_once(')')?;
                    shape.replace(tuple(sides)?).is_none().then_some(after)?
                }
                _ => return None,
            };
            rest = rest.trim_start();
            rest = match rest.strip_prefix(',') {
                Some(after) => after.trim_start(),
                None => rest.is_empty().then_some(rest)?,
            };
        }
        Some(Self { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// A Python string without escapes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote).filter(|(inside, _)| !inside.contains('\\'))
}

/// The whole numbers between the brackets of a Python tuple.
fn tuple(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|side| side.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn refusal(header: &str, data: &[u8]) -> String {
        Array::parse(&npy(header, data)).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_numpy_writes() {
        let bytes = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }   \n", &[0; 16]);
        let array = Array::parse(&bytes).unwrap();
        assert_eq!((array.kind, &array.shape[..]), ("f8", &[1, 2][..]));
        assert_eq!(array.floats().unwrap(), [0.0, 0.0]);
        assert!(array.integers().is_none() && array.text().is_none());

        let bytes = npy(
            "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }",
            &[1, 0, 0, 0, 254, 255, 255, 255, 0, 1, 0, 0],
        );
        assert_eq!(Array::parse(&bytes).unwrap().integers().unwrap(), [1, -2, 256]);
        let bytes = npy("{'descr': '|S5', 'fortran_order': False, 'shape': (), }", b"bsr\0\0");
        assert_eq!(Array::parse(&bytes).unwrap().text().unwrap(), "bsr");
        let bytes = npy("{'descr': '<U3', 'fortran_order': False, 'shape': (), }", b"c\0\0\0s\0\0\0r\0\0\0");
        assert_eq!(Array::parse(&bytes).unwrap().text().unwrap(), "csr");
        let bytes = npy("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", &[0, 0x3c, 0, 0xc0]);
        assert_eq!(Array::parse(&bytes).unwrap().floats().unwrap(), [1.0, -2.0]);
    }

    #[test]
    fn a_matrix_is_read_by_rows_in_either_order() {
        let data: Vec<u8> = (1u8..=6).flat_map(|v| f32::from(v).to_le_bytes()).collect();
        for (order, expected) in [("False", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), ("True", [1.0, 3.0, 5.0, 2.0, 4.0, 6.0])] {
            let bytes = npy(&format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2, 3), }}"), &data);
            let array = Array::parse_any_order(&bytes).unwrap();
            assert_eq!(array.matrix().unwrap(), ([2, 3], expected.to_vec()));
            assert_eq!(describe(&bytes[..80]).unwrap(), (vec![2, 3], "<f4".to_owned(), true));
        }
        let bytes = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", &data);
        assert!(Array::parse(&bytes).unwrap().matrix().is_none());
        assert!(describe(&bytes[..40]).is_none());
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        assert!(refusal("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", &[0; 8]).contains("big-endian"));
        assert!(refusal("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 1), }", &[0; 8]).contains("Fortran"));
        assert!(refusal("{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", &[0; 2]).contains("`<V2`"));
        assert!(refusal("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", &[0; 8]).contains("`|O`"));
        for header in [
            "{'descr': '<f8', 'fortran_order': False}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
            "[[[[[[[[",
        ] {
            assert!(refusal(header, &[0; 8]).contains("the header is"), "{header}");
        }
    }

    #[test]
    fn a_claimed_size_is_only_compared() {
        let claims = ["(9223372036854775807, 9223372036854775807)", "(2,)", "(0,)"];
        for shape in claims {
            let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
            assert!(refusal(&header, &[0; 8]).contains("8 bytes of data"), "{shape}");
        }
    }
}
