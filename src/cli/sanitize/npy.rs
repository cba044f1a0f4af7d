//! Arrays of `.npy` files as bytes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use bsr::read::npy_elements;
use bsr_trial::sanitize::Element;

use super::super::exit::Failure;

/// Reads an array of elements of a type: its shape and its bytes.
///
/// # Errors
/// Bad input: no `.npy` file of this type in C order.
pub(super) fn read(path: &Path, element: Element) -> Result<(Vec<u64>, Vec<u8>), Failure> {
    let bad = |what: &dyn std::fmt::Display| Failure::bad_input(format!("{}: {what}", path.display()));
    let bytes = fs::read(path).map_err(|error| bad(&error))?;
    let (kind, shape, data) = npy_elements(&bytes).map_err(|problem| bad(&problem))?;
    if kind != element.numpy() {
        let fact = format!("elements of type `{kind}` where `{}` is needed", element.numpy());
        return Err(bad(&format!("{fact}\n  help: numpy.save(file, array.astype('{}'))", element.numpy())));
    }
    Ok((shape.into_iter().map(|side| side as u64).collect(), data.to_vec()))
}

/// The file of an array.
pub(super) fn file(element: Element, shape: &[u64], data: &[u8]) -> Vec<u8> {
    let mut sides = String::new();
    shape.iter().for_each(|side| _ = write!(sides, "{side}, "));
    let order = if element.bytes() == 1 { '|' } else { '<' };
    let mut header = format!("{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({sides}), }}", element.numpy());
    // The data begin at a multiple of 64, after ten bytes and the header.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 11;
    header.push_str(&" ".repeat(padded - header.len()));
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let data: Vec<u8> = (0..24).collect();
        fs::write(&path, file(Element::F16, &[3, 4], &data)).unwrap();
        assert_eq!(read(&path, Element::F16).unwrap(), (vec![3, 4], data));
        assert!(read(&path, Element::U32).unwrap_err().first_line().contains("`f2` where `u4`"));
    }
}
