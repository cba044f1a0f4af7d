//! Tensors in the `.safetensors` format: dense weights, and the blocks that [`crate::write`] wrote.
//!
//! The header is read and validated by the `safetensors` crate (offsets without holes, sizes that fit shapes); then only
//! the tensors that are needed are read.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use bsr_codegen::{Dtype, Refusal};
use half::{bf16, f16};
use safetensors::tensor::{Dtype as Kind, Metadata, TensorInfo};

use super::blocks::{Blocks, check_indices, check_indptr, check_padded};
use super::bounded::check_sides;
use super::choice::{Listed, choose};
use super::error::Place;
use super::{ReadError, ReadProblem, Sparse};
use crate::read::check_memory;
use crate::{Element, Permutation};

const WRITE: &str = "the file was cut short or altered; write it again";
/// The longest header that the format allows.
const LONGEST_HEADER: u64 = 100_000_000;

/// Reads a matrix from a `.safetensors` file: the blocks that [`crate::write`] wrote, or a dense tensor with two axes of
/// `F16`, `BF16`, `F32` or `F64`, the one called `name` or the only one. `file` is named in errors.
///
/// # Errors
/// When the file is no such file, with the tensor; when there is no such tensor, or none is named and there are several.
pub fn parse(file_bytes: impl Read + Seek, file: &Path, name: Option<&str>) -> Result<Sparse, ReadError> {
    let read = || {
        let mut tensors = Tensors::open(file_bytes)?;
        let blocks = name.is_none() && (tensors.meta("format") == Some("bsr") || tensors.has_block_names());
        if blocks { tensors.blocks() } else { tensors.dense(name) }
    };
    read().map_err(|problem| ReadError::new(file, Place::Whole, problem))
}

/// An open file whose header has been read.
struct Tensors<R> {
    file: R,
    /// Where the tensors' bytes begin.
    data: u64,
    header: Metadata,
}

impl<R: Read + Seek> Tensors<R> {
    fn open(mut file: R) -> Result<Self, ReadProblem> {
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = [0; 8];
        let header = match file.read_exact(&mut bytes) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => return Err(ReadProblem::refused(format!("{length} bytes hold no header"), WRITE)),
        };
        if header > LONGEST_HEADER || header > length - 8 {
            let fact = format!("the header claims {header} bytes of a file of {length}");
            return Err(ReadProblem::refused(fact, "this is no .safetensors file, or it was cut short"));
        }
        let mut bytes = vec![0; header as usize];
        file.read_exact(&mut bytes)?;
        let parsed: Metadata = serde_json::from_slice(&bytes)
            .map_err(|error| ReadProblem::refused(format!("the header is wrong: {error}"), WRITE))?;
        let (data, claimed) = (8 + header, parsed.data_len() as u64);
        if data + claimed != length {
            let fact = format!("the tensors take {claimed} bytes, but {} follow the header", length - data);
            return Err(ReadProblem::refused(fact, WRITE));
        }
        Ok(Self { file, data, header: parsed })
    }

    fn meta(&self, key: &str) -> Option<&str> {
        self.header.metadata().as_ref()?.get(key).map(String::as_str)
    }

    fn has_block_names(&self) -> bool {
        ["crow_indices", "col_indices", "values"].iter().all(|name| self.header.info(name).is_some())
    }

    fn info(&self, name: &str) -> Result<TensorInfo, ReadProblem> {
        self.header.info(name).cloned().ok_or_else(|| {
            let fact = format!("the metadata says format = bsr, but there is no tensor `{name}`");
            ReadProblem::refused(fact, "blocks are the tensors crow_indices, col_indices and values")
        })
    }

    fn dense(&mut self, name: Option<&str>) -> Result<Sparse, ReadProblem> {
        let listed: Vec<Listed> = self
            .header
            .tensors()
            .iter()
            .map(|(name, info)| Listed::new(name, &info.shape, &info.dtype.to_string(), is_float(info.dtype)))
            .collect();
        let name = choose(&listed, name)?.name.clone();
        let info = self.info(&name)?;
        let &[rows, cols] = &info.shape[..] else {
            return Err(ReadProblem::refused(format!("`{name}` is no matrix"), WRITE));
        };
        check_sides(rows, cols)?;
        Ok(Sparse::from_rows(rows, cols, self.floats(&name, &info)?).with_dtype(dtype(info.dtype)))
    }

    fn blocks(&mut self) -> Result<Sparse, ReadProblem> {
        let [sides, block] = ["shape", "block"].map(|key| pair(key, self.meta(key)));
        let (sides, [bm, bk]) = (sides?, block?);
        let info = self.info("values")?;
        let indptr = self.integers("crow_indices")?;
        let indices = self.integers("col_indices")?;
        if info.shape[..] != [indices.len(), bm, bk] {
            let fact = format!("values has shape {:?}, not [{}, {bm}, {bk}]", info.shape, indices.len());
            return Err(ReadProblem::refused(fact, "it has one block of the stated size for each column index"));
        }
        if bm == 0 || bk == 0 {
            return Err(ReadProblem::refused(format!("the block is {bm} x {bk}"), "both sides are at least 1"));
        }
        let whole = [sides[0].div_ceil(bm).saturating_mul(bm), sides[1].div_ceil(bk).saturating_mul(bk)];
        check_padded(sides, whole, (bm, bk), WRITE)?;
        check_indptr(&indptr, whole[0] / bm, indices.len(), WRITE).map_err(|e| e.within("crow_indices"))?;
        let columns = check_indices(&indices, whole[1] / bk, WRITE).map_err(|e| e.within("col_indices"))?;
        let values = self.floats("values", &info)?;
        let sparse = Blocks { sides, block: (bm, bk), indptr, columns, values }.sparse()?;
        let order = match self.header.info("row_permutation") {
            None => None,
            Some(_) => Some(Permutation::from_signed(&self.integers("row_permutation")?)),
        };
        let wrong = |error: Refusal| error.within("row_permutation").help("write the file again with bsr convert");
        let order = order.transpose().map_err(wrong)?;
        // Blocks in f64 are so on purpose, where a dense matrix in f64 may just be what a program had.
        let of_blocks = if info.dtype == Kind::F64 { Some(Dtype::F64) } else { dtype(info.dtype) };
        Ok(sparse.with_row_order(order).map_err(wrong)?.with_dtype(of_blocks))
    }

    /// A list of integers.
    fn integers(&mut self, name: &str) -> Result<Vec<i64>, ReadProblem> {
        let info = self.info(name)?;
        check_memory(&[("its numbers, 8 B each,", 8 * elements(&info))])?;
        let mut integers = Vec::new();
        match info.dtype {
            Kind::I32 => self.read(&info, |bytes: &[u8; 4]| integers.push(i64::from(i32::from_le_bytes(*bytes))))?,
            Kind::I64 => self.read(&info, |bytes: &[u8; 8]| integers.push(i64::from_le_bytes(*bytes)))?,
            other => {
                let fact = format!("`{name}` is of type {other}");
                return Err(ReadProblem::refused(fact, "indices are I32 or I64"));
            }
        }
        Ok(integers)
    }

    /// All elements of a tensor.
    fn floats(&mut self, name: &str, info: &TensorInfo) -> Result<Vec<f64>, ReadProblem> {
        check_memory(&[("its numbers, 8 B each,", 8 * elements(info))])?;
        let mut floats = Vec::with_capacity(elements(info) as usize);
        match info.dtype {
            Kind::F16 => self.read(info, |bytes| floats.push(f16::from_le_bytes(*bytes).to_f64()))?,
            Kind::BF16 => self.read(info, |bytes| floats.push(bf16::from_le_bytes(*bytes).to_f64()))?,
            Kind::F32 => self.read(info, |bytes| floats.push(Element::to_f64(f32::from_le_bytes(*bytes))))?,
            Kind::F64 => self.read(info, |bytes| floats.push(f64::from_le_bytes(*bytes)))?,
            other => {
                let fact = format!("`{name}` is of type {other}");
                return Err(ReadProblem::refused(fact, "write it as F16, BF16, F32 or F64: tensor.float()"));
            }
        }
        Ok(floats)
    }

    /// Gives the elements of a tensor in order, of which the header was checked to take `SIZE` bytes each.
    fn read<const SIZE: usize>(
        &mut self,
        info: &TensorInfo,
        mut element: impl FnMut(&[u8; SIZE]),
    ) -> Result<(), ReadProblem> {
        let (start, end) = info.data_offsets;
        self.file.seek(SeekFrom::Start(self.data + start as u64))?;
        let (mut left, mut buffer) = (end - start, vec![0; 1 << 20]);
        while left > 0 {
            let part = &mut buffer[..left.min(1 << 20)];
            self.file.read_exact(part)?;
            part.as_chunks().0.iter().for_each(&mut element);
            left -= part.len();
        }
        Ok(())
    }
}

fn elements(info: &TensorInfo) -> u64 {
    let (start, end) = info.data_offsets;
    // At least a byte each.
    (8 * (end - start) / info.dtype.bitsize().max(8)) as u64
}

fn is_float(kind: Kind) -> bool {
    matches!(kind, Kind::F16 | Kind::BF16 | Kind::F32 | Kind::F64)
}

fn dtype(kind: Kind) -> Option<Dtype> {
    match kind {
        Kind::F16 => Some(Dtype::F16),
        Kind::BF16 => Some(Dtype::BF16),
        Kind::F32 => Some(Dtype::F32),
        _ => None,
    }
}

/// Two whole numbers of the metadata, `64x128`.
fn pair(key: &str, text: Option<&str>) -> Result<[usize; 2], ReadProblem> {
    let remedy = "the metadata of blocks has format = bsr, shape and block, as in 4096x1024 and 64x64";
    let Some(text) = text else {
        return Err(ReadProblem::refused(format!("the metadata has no {key}"), remedy));
    };
    let numbers = text.split_once('x').and_then(|(rows, cols)| Some([rows.parse().ok()?, cols.parse().ok()?]));
    numbers.ok_or_else(|| ReadProblem::refused(format!("{key} is `{text}`"), remedy))
}
