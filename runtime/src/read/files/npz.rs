//! Archives of `scipy.sparse.save_npz`, `numpy.savez` and [`crate::write`].

use std::io::{Read, Seek};
use std::path::Path;

use bsr_codegen::Dtype;
use zip::ZipArchive;
use zip::result::ZipError;

use super::blocks::{Blocks, check_indices, check_indptr, check_padded};
use super::bounded::check_sides;
use super::choice::{Listed, choose};
use super::error::Place;
use super::npy::{self, Array};
use super::{ReadError, ReadProblem, Sparse};
use crate::Permutation;
use crate::read::check_memory;

const WRITE: &str = "write the file with scipy.sparse.save_npz";

/// Reads an archive that `scipy.sparse.save_npz` wrote: format `bsr`, `csr`, `csc` or `coo`, indices of 32 or 64 bits,
/// `float16`, `float32` or `float64` data. Unsorted and repeated indices are sorted and added, as scipy does. What
/// [`crate::write`] keeps besides is read back: the shape before padding, the element type, the order of rows. Of an
/// archive of `numpy.savez` the only matrix is read. `file` is named in errors.
///
/// # Errors
/// When the archive is not such a file, with the member.
pub fn parse(archive: impl Read + Seek, file: &Path) -> Result<Sparse, ReadError> {
    parse_array(archive, file, None)
}

/// As [`parse`]; of an archive of `numpy.savez` the matrix called `name` is read.
///
/// # Errors
/// As [`parse`]; and when there is no such matrix, or none is named and there are several.
pub fn parse_array(archive: impl Read + Seek, file: &Path, name: Option<&str>) -> Result<Sparse, ReadError> {
    let archive = ZipArchive::new(archive).map_err(|error| ReadError::new(file, Place::Whole, zip_problem(error)))?;
    let mut members = Members { archive, file };
    let sparse = name.is_none() && members.has("format");
    if sparse { read_sparse(&mut members) } else { read_dense(&mut members, name) }
}

/// The arrays of an archive.
struct Members<'f, R> {
    archive: ZipArchive<R>,
    file: &'f Path,
}

impl<R: Read + Seek> Members<'_, R> {
    fn has(&self, name: &str) -> bool {
        self.archive.index_for_name(&format!("{name}.npy")).is_some()
    }

    /// The bytes of a member. They grow as they are unpacked, and not beyond what the archive claims.
    fn unpack(&mut self, name: &'static str) -> Result<Vec<u8>, ReadError> {
        self.bytes(name).map_err(|problem| ReadError::new(self.file, Place::Member(name), problem))
    }

    fn bytes(&mut self, name: &str) -> Result<Vec<u8>, ReadProblem> {
        let mut bytes = Vec::new();
        let member = self.archive.by_name(&format!("{name}.npy")).map_err(zip_problem)?;
        let claimed = member.size();
        check_memory(&[("the array, unpacked,", claimed)])?;
        // An archive that says less than it holds is not unpacked further.
        member.take(claimed.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > claimed {
            let fact = format!("the archive says {claimed} bytes, and holds more");
            return Err(ReadProblem::refused(fact, WRITE));
        }
        Ok(bytes)
    }

    /// What `read` makes of a member.
    fn read<V>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&[u8]) -> Result<V, ReadProblem>,
    ) -> Result<V, ReadError> {
        let bytes = self.unpack(name)?;
        read(&bytes).map_err(|problem| ReadError::new(self.file, Place::Member(name), problem))
    }

    /// What `read` makes of a member that need not be there.
    fn read_if<V>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&[u8]) -> Result<V, ReadProblem>,
    ) -> Result<Option<V>, ReadError> {
        if self.has(name) { self.read(name, read).map(Some) } else { Ok(None) }
    }

    /// The arrays, with what their headers say.
    fn list(&mut self) -> Result<Vec<Listed>, ReadProblem> {
        let mut listed = Vec::new();
        for at in 0..self.archive.len() {
            let member = self.archive.by_index(at).map_err(zip_problem)?;
            let name = member.name().map_err(zip_problem)?.into_owned();
            let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else { continue };
            let mut header = Vec::new();
            member.take(1 << 16).read_to_end(&mut header)?;
            listed.push(match npy::describe(&header) {
                Some((shape, kind, is_float)) => Listed::new(&name, &shape, &kind, is_float),
                None => Listed { name, what: "no .npy array".to_owned(), is_matrix: false },
            });
        }
        Ok(listed)
    }
}

/// Reads the matrix called `name`, or the only one.
fn read_dense(members: &mut Members<'_, impl Read + Seek>, name: Option<&str>) -> Result<Sparse, ReadError> {
    let mut read = || {
        let listed = members.list()?;
        let bytes = members.bytes(&choose(&listed, name)?.name)?;
        dense_array(&bytes)
    };
    read().map_err(|problem| ReadError::new(members.file, Place::Whole, problem))
}

/// Reads a dense matrix in numpy's `.npy` format. `file` is named in errors.
///
/// # Errors
/// When the bytes are no such array, or it is no matrix of floating-point numbers.
pub fn parse_npy(bytes: &[u8], file: &Path) -> Result<Sparse, ReadError> {
    dense_array(bytes).map_err(|problem| ReadError::new(file, Place::Whole, problem))
}

fn dense_array(bytes: &[u8]) -> Result<Sparse, ReadProblem> {
    let array = Array::parse_any_order(bytes)?;
    let Some(([rows, cols], values)) = array.matrix() else {
        let fact = format!("an array {:?} of {}, no matrix of floating-point numbers", array.shape, array.kind);
        let remedy = "write one matrix of float16, float32 or float64: array.reshape(rows, -1).astype(numpy.float32)";
        return Err(ReadProblem::refused(fact, remedy));
    };
    check_sides(rows, cols)?;
    Ok(Sparse::from_rows(rows, cols, values).with_dtype(array.dtype()))
}

/// Reads what `scipy.sparse.save_npz` wrote.
fn read_sparse(members: &mut Members<'_, impl Read + Seek>) -> Result<Sparse, ReadError> {
    let format = members.read("format", |bytes| Ok(Array::parse(bytes)?.text()))?;
    let sides = members.read("shape", sides)?;
    let sparse = match format.as_deref() {
        Some("bsr") => read_bsr(members, sides)?,
        Some("csr") => read_lines(members, sides, Lines::Rows)?,
        Some("csc") => read_lines(members, sides, Lines::Columns)?,
        Some("coo") => read_coo(members, sides)?,
        other => {
            let fact = format!("the format is `{}`, not bsr, csr, csc or coo", other.unwrap_or("no text"));
            let remedy = "convert it first: save_npz(file, matrix.tocsr())";
            let problem = ReadProblem::refused(fact, remedy);
            return Err(ReadError::new(members.file, Place::Member("format"), problem));
        }
    };
    let order = members.read_if("row_permutation", |bytes| {
        let order = Permutation::from_signed(&index_array(bytes)?);
        order.map_err(|error| ReadProblem::refused(error.to_string(), "write the file again with bsr convert"))
    })?;
    let sparse = sparse.with_row_order(order).map_err(|error| {
        let problem = ReadProblem::refused(error.to_string(), "write the file again with bsr convert");
        ReadError::new(members.file, Place::Member("row_permutation"), problem)
    })?;
    let dtype = members.read_if("value_dtype", value_dtype)?.or(sparse.own_dtype());
    Ok(sparse.with_dtype(dtype))
}

fn value_dtype(bytes: &[u8]) -> Result<Dtype, ReadProblem> {
    let text = Array::parse(bytes)?.text();
    let text = text.as_deref().unwrap_or("no text");
    let dtypes = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];
    dtypes.into_iter().find(|dtype| dtype.to_string() == text).ok_or_else(|| {
        ReadProblem::refused(format!("the element type is `{text}`"), "it is one of f16, bf16, f32 and f64")
    })
}

/// The member `data`.
struct Data {
    values: Vec<f64>,
    shape: Vec<usize>,
    dtype: Option<Dtype>,
}

fn data(members: &mut Members<'_, impl Read + Seek>) -> Result<Data, ReadError> {
    members.read("data", |bytes| {
        let data = Array::parse(bytes)?;
        let Some(values) = data.floats() else {
            let fact = format!("the values are of type {}", data.kind);
            let remedy = "write float16, float32 or float64: matrix.astype(numpy.float32)";
            return Err(ReadProblem::refused(fact, remedy));
        };
        let dtype = data.dtype();
        Ok(Data { values, shape: data.shape, dtype })
    })
}

/// Refuses data that has not one value for each index.
fn check_count(shape: &[usize], indices: usize) -> Result<(), ReadProblem> {
    let wrong = |fact: String| Err(ReadProblem::refused(fact, WRITE));
    match *shape {
        [count] if count == indices => Ok(()),
        [count] => wrong(format!("{count} entries, but {indices} column indices")),
        _ => wrong(format!("shape {shape:?}, not [nonzeros]")),
    }
}

/// What `indptr` counts.
#[derive(Clone, Copy, PartialEq)]
enum Lines {
    Rows,
    Columns,
}

fn read_lines(
    members: &mut Members<'_, impl Read + Seek>,
    [rows, cols]: [usize; 2],
    lines: Lines,
) -> Result<Sparse, ReadError> {
    let (length, across) = if lines == Lines::Rows { (rows, cols) } else { (cols, rows) };
    let indptr = members.read("indptr", index_array)?;
    let indices = members.read("indices", index_array)?;
    let Data { values, shape, dtype } = data(members)?;
    let at = |member, problem| ReadError::new(members.file, Place::Member(member), problem);
    check_count(&shape, indices.len()).map_err(|problem| at("data", problem))?;
    check_indptr(&indptr, length, indices.len(), WRITE).map_err(|problem| at("indptr", problem))?;
    let indices = check_indices(&indices, across, WRITE).map_err(|problem| at("indices", problem))?;
    let line_of = (0u32..).zip(indptr.windows(2)).flat_map(|(line, ends)| (ends[0]..ends[1]).map(move |_| line));
    let places = line_of.zip(indices).map(|(line, index)| match lines {
        Lines::Rows => (line, index),
        Lines::Columns => (index, line),
    });
    let triplets = places.zip(values).map(|((row, col), value)| (row, col, value)).collect();
    let sparse = Sparse::from_triplets(rows, cols, triplets)
        .map_err(|error| at("indices", ReadProblem::refused(error.to_string(), WRITE)))?;
    Ok(sparse.with_dtype(dtype))
}

fn read_coo(members: &mut Members<'_, impl Read + Seek>, [rows, cols]: [usize; 2]) -> Result<Sparse, ReadError> {
    let (row, col) = if members.has("coords") {
        members.read("coords", |bytes| {
            let array = Array::parse(bytes)?;
            match (array.integers(), &array.shape[..]) {
                (Some(mut row), &[2, count]) => {
                    let col = row.split_off(count);
                    Ok((row, col))
                }
                _ => {
                    let fact = format!("an array {:?} of {}, not [2, nonzeros] integers", array.shape, array.kind);
                    Err(ReadProblem::refused(fact, WRITE))
                }
            }
        })?
    } else {
        (members.read("row", index_array)?, members.read("col", index_array)?)
    };
    let Data { values, shape, dtype } = data(members)?;
    let at = |member, problem| ReadError::new(members.file, Place::Member(member), problem);
    check_count(&shape, col.len()).map_err(|problem| at("data", problem))?;
    if row.len() != col.len() {
        let fact = format!("{} entries, but {} column indices", row.len(), col.len());
        return Err(at("row", ReadProblem::refused(fact, WRITE)));
    }
    let row = check_indices(&row, rows, WRITE).map_err(|problem| at("row", problem))?;
    let col = check_indices(&col, cols, WRITE).map_err(|problem| at("col", problem))?;
    let triplets = row.into_iter().zip(col).zip(values).map(|((row, col), value)| (row, col, value)).collect();
    let sparse = Sparse::from_triplets(rows, cols, triplets)
        .map_err(|error| at("row", ReadProblem::refused(error.to_string(), WRITE)))?;
    Ok(sparse.with_dtype(dtype))
}

fn read_bsr(members: &mut Members<'_, impl Read + Seek>, padded: [usize; 2]) -> Result<Sparse, ReadError> {
    let indptr = members.read("indptr", index_array)?;
    let indices = members.read("indices", index_array)?;
    let Data { values, shape, dtype } = data(members)?;
    let own = members.read_if("unpadded_shape", sides)?;
    let at = |member, problem| ReadError::new(members.file, Place::Member(member), problem);
    let block = block_of(&shape, padded, indices.len()).map_err(|problem| at("data", problem))?;
    let sides = own.unwrap_or(padded);
    check_padded(sides, padded, block, WRITE).map_err(|problem| at("unpadded_shape", problem))?;
    check_indptr(&indptr, padded[0] / block.0, indices.len(), WRITE).map_err(|problem| at("indptr", problem))?;
    let columns = check_indices(&indices, padded[1] / block.1, WRITE).map_err(|problem| at("indices", problem))?;
    let blocks = Blocks { sides, block, indptr, columns, values };
    Ok(blocks.sparse().map_err(|problem| at("data", problem))?.with_dtype(dtype))
}

fn zip_problem(error: ZipError) -> ReadProblem {
    match error {
        ZipError::Io(error) => ReadProblem::Io(error),
        ZipError::FileNotFound => ReadProblem::refused("the archive has no such member", WRITE),
        ZipError::UnsupportedArchive(what) => ReadProblem::refused(format!("the archive: {what}"), WRITE),
        other => ReadProblem::refused(format!("not a zip archive: {other}"), WRITE),
    }
}

fn sides(bytes: &[u8]) -> Result<[usize; 2], ReadProblem> {
    let array = Array::parse(bytes)?;
    let sides: Option<Vec<usize>> =
        array.integers().map(|sides| sides.into_iter().map_while(|side| usize::try_from(side).ok()).collect());
    let Some([rows, cols]) = sides.as_deref().and_then(|sides| <[usize; 2]>::try_from(sides).ok()) else {
        let fact = format!("an array {:?} of {}, not two whole numbers", array.shape, array.kind);
        return Err(ReadProblem::refused(fact, WRITE));
    };
    check_sides(rows, cols)?;
    Ok([rows, cols])
}

fn index_array(bytes: &[u8]) -> Result<Vec<i64>, ReadProblem> {
    let array = Array::parse(bytes)?;
    match array.integers() {
        Some(indices) if array.shape.len() == 1 => Ok(indices),
        _ => {
            let fact = format!("an array {:?} of {}, not a list of 32- or 64-bit integers", array.shape, array.kind);
            Err(ReadProblem::refused(fact, WRITE))
        }
    }
}

/// The block size that the shape of the data says: `[nnzb, bm, bk]`.
fn block_of(shape: &[usize], [rows, cols]: [usize; 2], indices: usize) -> Result<(usize, usize), ReadProblem> {
    let wrong = |fact: String| Err(ReadProblem::refused(fact, WRITE));
    let &[count, bm, bk] = shape else {
        return wrong(format!("shape {shape:?}, not [blocks, block rows, block columns]"));
    };
    if bm == 0 || bk == 0 || !rows.is_multiple_of(bm) || !cols.is_multiple_of(bk) {
        return wrong(format!("blocks of {bm} x {bk} do not divide a {rows} x {cols} matrix"));
    }
    if count != indices {
        return wrong(format!("{count} entries, but {indices} column indices"));
    }
    Ok((bm, bk))
}
