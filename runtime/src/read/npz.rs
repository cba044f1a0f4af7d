//! Archives of `scipy.sparse.save_npz`.

use std::io::{Read, Seek};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use super::error::Place;
use super::npy::Array;
use super::{ReadError, ReadProblem, Sparse, check_sides};
use crate::Structure;

const WRITE: &str = "write the file with scipy.sparse.save_npz";

/// Reads an archive that `scipy.sparse.save_npz` wrote: format `bsr` or `csr`, indices of 32 or 64 bits,
/// `float16`, `float32` or `float64` data. Unsorted and repeated indices are sorted and added, as scipy does.
/// `file` is named in errors.
///
/// # Errors
/// When the archive is not such a file, with the member.
pub fn parse(archive: impl Read + Seek, file: &Path) -> Result<Sparse, ReadError> {
    let mut archive =
        ZipArchive::new(archive).map_err(|error| ReadError::new(file, Place::Whole, zip_problem(error)))?;
    let at = |member| move |problem: ReadProblem| ReadError::new(file, Place::Member(member), problem);
    let mut member = |name: &'static str| unpack(&mut archive, name).map_err(at(name));

    let format = member("format")?;
    let format = Array::parse(&format).map_err(at("format"))?.text();
    let blocked = match format.as_deref() {
        Some("bsr") => true,
        Some("csr") => false,
        other => {
            let fact = format!("the format is `{}`, not bsr or csr", other.unwrap_or("no text"));
            let remedy = "convert it first: save_npz(file, matrix.tocsr())";
            return Err(at("format")(ReadProblem::unsupported(fact, remedy)));
        }
    };

    let [shape, indptr, indices, data] = [member("shape")?, member("indptr")?, member("indices")?, member("data")?];
    let [rows, cols] = sides(&shape).map_err(at("shape"))?;
    let indptr = index_array(&indptr).map_err(at("indptr"))?;
    let indices = index_array(&indices).map_err(at("indices"))?;
    let data = Array::parse(&data).map_err(at("data"))?;
    let (bm, bk) = block_of(&data, blocked, (rows, cols), indices.len()).map_err(at("data"))?;
    let Some(values) = data.floats() else {
        let fact = format!("the values are of type {}", data.kind);
        let remedy = "write float16, float32 or float64: matrix.astype(numpy.float32)";
        return Err(at("data")(ReadProblem::unsupported(fact, remedy)));
    };
    check_indptr(&indptr, rows / bm, indices.len()).map_err(at("indptr"))?;
    let columns = check_indices(&indices, cols / bk).map_err(at("indices"))?;
    if blocked {
        let blocks = Blocks { sides: [rows, cols], block: (bm, bk), indptr, columns, values };
        return blocks.sparse().map_err(at("data"));
    }
    let rows_of = (0u32..).zip(indptr.windows(2)).flat_map(|(row, ends)| (ends[0]..ends[1]).map(move |_| row));
    let triplets = rows_of.zip(columns).zip(values).map(|((row, col), value)| (row, col, value)).collect();
    Sparse::from_triplets(rows, cols, triplets)
        .map_err(|error| at("indices")(ReadProblem::malformed(error.to_string(), WRITE)))
}

/// The bytes of a member. They grow as they are unpacked, whatever the archive claims.
fn unpack(archive: &mut ZipArchive<impl Read + Seek>, name: &'static str) -> Result<Vec<u8>, ReadProblem> {
    let mut bytes = Vec::new();
    archive.by_name(&format!("{name}.npy")).map_err(zip_problem)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn zip_problem(error: ZipError) -> ReadProblem {
    match error {
        ZipError::Io(error) => ReadProblem::Io(error),
        ZipError::FileNotFound => ReadProblem::malformed("the archive has no such member", WRITE),
        ZipError::UnsupportedArchive(what) => ReadProblem::unsupported(format!("the archive: {what}"), WRITE),
        other => ReadProblem::malformed(format!("not a zip archive: {other}"), WRITE),
    }
}

fn sides(bytes: &[u8]) -> Result<[usize; 2], ReadProblem> {
    let array = Array::parse(bytes)?;
    let sides: Option<Vec<usize>> =
        array.integers().map(|sides| sides.into_iter().map_while(|side| usize::try_from(side).ok()).collect());
    let Some([rows, cols]) = sides.as_deref().and_then(|sides| <[usize; 2]>::try_from(sides).ok()) else {
        let fact = format!("an array {:?} of {}, not two whole numbers", array.shape, array.kind);
        return Err(ReadProblem::malformed(fact, WRITE));
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
            Err(ReadProblem::malformed(fact, WRITE))
        }
    }
}

/// The block size that the shape of the data says: `[nnzb, bm, bk]` in bsr, `[nnz]` in csr.
fn block_of(
    data: &Array<'_>,
    blocked: bool,
    (rows, cols): (usize, usize),
    indices: usize,
) -> Result<(usize, usize), ReadProblem> {
    let wrong = |fact: String| Err(ReadProblem::malformed(fact, WRITE));
    let (count, block) = match (blocked, &data.shape[..]) {
        (true, &[nnzb, bm, bk]) => (nnzb, (bm, bk)),
        (false, &[nnz]) => (nnz, (1, 1)),
        (true, _) => {
            return wrong(format!("shape {:?}, not [blocks, block rows, block columns]", data.shape));
        }
        (false, _) => return wrong(format!("shape {:?}, not [nonzeros]", data.shape)),
    };
    if block.0 == 0 || block.1 == 0 || rows % block.0 != 0 || cols % block.1 != 0 {
        return wrong(format!("blocks of {} x {} do not divide a {rows} x {cols} matrix", block.0, block.1));
    }
    if count != indices {
        return wrong(format!("{count} entries, but {indices} column indices"));
    }
    Ok(block)
}

fn check_indptr(indptr: &[i64], rows: usize, count: usize) -> Result<(), ReadProblem> {
    let wrong = |fact: String| Err(ReadProblem::malformed(fact, WRITE));
    if indptr.len() != rows + 1 {
        return wrong(format!("{} entries, but {rows} rows take {rows} + 1 = {}", indptr.len(), rows + 1));
    }
    if indptr[0] != 0 {
        return wrong(format!("entry 0 is {}, not 0", indptr[0]));
    }
    if let Some(at) = indptr.windows(2).position(|ends| ends[1] < ends[0]) {
        return wrong(format!("entry {} is {}, less than {} before it", at + 1, indptr[at + 1], indptr[at]));
    }
    if indptr[rows] != count as i64 {
        return wrong(format!("the last entry is {}, but there are {count} column indices", indptr[rows]));
    }
    Ok(())
}

fn check_indices(indices: &[i64], cols: usize) -> Result<Vec<u32>, ReadProblem> {
    let inside = |(at, &column): (usize, &i64)| match u32::try_from(column) {
        Ok(column) if (column as usize) < cols => Ok(column),
        _ => Err(ReadProblem::malformed(format!("entry {at} is {column}, not in 0..{cols}"), WRITE)),
    };
    indices.iter().enumerate().map(inside).collect()
}

/// A checked bsr matrix whose block rows need not be in order.
struct Blocks {
    sides: [usize; 2],
    block: (usize, usize),
    indptr: Vec<i64>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Blocks {
    /// Sorts each block row by column and adds the blocks that share a place.
    fn sparse(self) -> Result<Sparse, ReadProblem> {
        let Self { sides: [rows, cols], block, indptr, columns, values } = self;
        let (mut row_ptr, mut col_idx) = (vec![0], Vec::with_capacity(columns.len()));
        // For each block of the file, in sorted order: which it is, and where it goes.
        let mut moves = Vec::with_capacity(columns.len());
        for ends in indptr.windows(2) {
            let mut order: Vec<usize> = (ends[0] as usize..ends[1] as usize).collect();
            order.sort_by_key(|&block| columns[block]);
            let first = col_idx.len();
            for from in order {
                let column = columns[from] as i32;
                if col_idx.len() == first || col_idx.last() != Some(&column) {
                    col_idx.push(column);
                }
                moves.push((from, col_idx.len() - 1));
            }
            row_ptr.push(col_idx.len() as i32);
        }
        let structure = Structure::new(rows, cols, block, row_ptr, col_idx)
            .map_err(|error| ReadProblem::Convert(super::ConvertError::Bsr(error)))?;
        if moves.iter().all(|(from, to)| from == to) {
            return Ok(Sparse::from_blocks(structure, values));
        }
        let size = block.0 * block.1;
        let mut sorted = vec![0.0; structure.stored()];
        for (from, to) in moves {
            let (from, to) = (&values[from * size..][..size], &mut sorted[to * size..][..size]);
            to.iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
        }
        Ok(Sparse::from_blocks(structure, sorted))
    }
}
