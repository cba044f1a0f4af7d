//! Files that `safetensors` and `torch.sparse_bsr_tensor` read.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use bsr_codegen::{Dtype, IndexWidth};
use safetensors::tensor::{Dtype as Kind, TensorInfo};
use serde_json::{Map, Value};

use super::error::WriteProblem;
use super::file::Out;
use super::layout::{padded, pointers, signed};
use crate::{Bsr, Element, Permutation};

/// Writes `matrix` as the tensors that a `torch.sparse_bsr_tensor` is made of.
pub(super) fn write<T: Element>(
    matrix: &Bsr<T>,
    row_order: Option<&Permutation>,
    out: &mut Out<'_>,
) -> Result<(), WriteProblem> {
    let (bm, bk) = matrix.block();
    let kind = match T::DTYPE {
        Dtype::F16 => Kind::F16,
        Dtype::BF16 => Kind::BF16,
        Dtype::F32 => Kind::F32,
        Dtype::F64 => Kind::F64,
        dtype => return Err(WriteProblem::dtype(dtype)),
    };
    let mut header = Header::default();
    // Widest elements first, so that all are aligned.
    if let Some(order) = row_order {
        header.add("row_permutation", Kind::I64, vec![order.len()]);
    }
    let is_widest = kind == Kind::F64;
    let shape = vec![matrix.nnzb(), bm, bk];
    if is_widest {
        header.add("values", kind, shape.clone());
    }
    let (width, starts) = pointers(matrix.row_ptr());
    let of_starts = if width == IndexWidth::I64 { Kind::I64 } else { Kind::I32 };
    header.add("crow_indices", of_starts, vec![matrix.row_ptr().len()]);
    header.add("col_indices", Kind::I32, vec![matrix.col_idx().len()]);
    if !is_widest {
        header.add("values", kind, shape);
    }
    let of = |(rows, cols): (usize, usize)| format!("{rows}x{cols}");
    let metadata = [
        ("format", "bsr".to_owned()),
        ("shape", of((matrix.rows(), matrix.cols()))),
        ("padded_shape", of(padded(matrix))),
        ("block", of((bm, bk))),
    ];
    out.write_all(&header.bytes(metadata)?)?;

    if let Some(order) = row_order {
        out.write_all(&signed(order))?;
    }
    let values =
        |out: &mut Out<'_>| matrix.values().chunks(1 << 16).try_for_each(|part| out.write_all(&T::to_bytes(part)));
    if is_widest {
        values(out)?;
    }
    out.write_all(&starts)?;
    matrix.col_idx().iter().try_for_each(|column| out.write_all(&column.to_le_bytes()))?;
    if !is_widest {
        values(out)?;
    }
    Ok(())
}

/// The tensors of a file, in the order of their bytes.
#[derive(Default)]
struct Header {
    tensors: BTreeMap<&'static str, TensorInfo>,
    end: usize,
}

impl Header {
    fn add(&mut self, name: &'static str, dtype: Kind, shape: Vec<usize>) {
        // The elements are in memory, so their bytes can be counted.
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let data_offsets = (self.end, self.end + bytes);
        self.end = data_offsets.1;
        self.tensors.insert(name, TensorInfo { dtype, shape, data_offsets });
    }

    /// Length and JSON, padded with spaces to a multiple of 8 bytes
    /// ([the format](https://github.com/huggingface/safetensors#format)). Written here rather than by the crate, which
    /// keeps metadata in the order of a hash: equal matrices shall be equal files.
    fn bytes(&self, metadata: [(&str, String); 4]) -> io::Result<Vec<u8>> {
        let metadata: BTreeMap<&str, String> = metadata.into_iter().collect();
        let mut json = Map::new();
        json.insert("__metadata__".to_owned(), serde_json::to_value(metadata)?);
        for (name, info) in &self.tensors {
            json.insert((*name).to_owned(), serde_json::to_value(info)?);
        }
        let mut text = Value::Object(json).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text);
        Ok(bytes)
    }
}
