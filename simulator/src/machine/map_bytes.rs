//! The 128 bytes of a tensor map that a kernel makes or copies from its parameters. The ISA leaves their layout open; this
//! one is the simulator's.

use super::global::{BufferId, GlobalMemory};
use super::im2col::Im2col;
use super::tensor_map::{Swizzle, TensorElement, TensorMapDesc};
use crate::program::op::MapField;

/// Bytes of a tensor map.
pub(crate) const MAP_BYTES: usize = 128;

const ADDRESS: usize = 0;
const EXTENTS: usize = 8;
const STRIDES: usize = 28;
const BOX: usize = 60;
const ELEMENT_STRIDES: usize = 80;
const RANK: usize = 100;
const ELEMENT: usize = 101;
const INTERLEAVE: usize = 102;
const SWIZZLE: usize = 103;
const FILL: usize = 104;
/// Spatial dimensions of im2col mode, 0 for tiles, then three corners below and three above.
const IM2COL: usize = 105;
const CORNERS: usize = 106;
/// What says that a tensor map is here.
const MARK: usize = 124;
const MARKED: u32 = 0x70a6_54d3;

/// Element types by their numbers in `tensormap.replace`.
const ELEMENTS: [TensorElement; 13] = {
    use TensorElement::{B8, B32, B64, Bf16, F16, F32, F64, S32, S64, Tf32, U16};
    [B8, U16, B32, S32, B64, S64, F16, F32, F32, F64, Bf16, Tf32, Tf32]
};

/// Writes a field.
pub(crate) fn replace(map: &mut [u8; MAP_BYTES], field: MapField, ordinal: u32, value: u64) {
    let at = ordinal as usize;
    match field {
        MapField::Address => put(map, ADDRESS, &value.to_le_bytes()),
        MapField::Stride => put(map, STRIDES + 8 * at, &value.to_le_bytes()),
        MapField::Extent => put(map, EXTENTS + 4 * at, &(value as u32).to_le_bytes()),
        MapField::Box => put(map, BOX + 4 * at, &(value as u32).to_le_bytes()),
        MapField::ElementStride => put(map, ELEMENT_STRIDES + 4 * at, &(value as u32).to_le_bytes()),
        MapField::Rank => map[RANK] = value as u8,
        MapField::Element => map[ELEMENT] = value as u8,
        MapField::Interleave => map[INTERLEAVE] = value as u8,
        MapField::Swizzle => map[SWIZZLE] = value as u8,
        MapField::Fill => map[FILL] = value as u8,
    }
    put(map, MARK, &MARKED.to_le_bytes());
}

/// The bytes of a tensor map that the host has made, as a kernel finds them that copies it and replaces fields.
pub(crate) fn write(of: &TensorMapDesc, memory: &GlobalMemory) -> [u8; MAP_BYTES] {
    let mut map = [0; MAP_BYTES];
    let mut set = |field, ordinal: usize, value| replace(&mut map, field, ordinal as u32, value);
    set(MapField::Address, 0, memory.address(of.buffer).wrapping_add(of.offset));
    set(MapField::Rank, 0, of.dims.len() as u64 - 1);
    let number = ELEMENTS.iter().position(|element| *element == of.element).unwrap_or(0);
    set(MapField::Element, 0, number as u64);
    set(MapField::Swizzle, 0, u64::from((of.swizzle.span() / 16).trailing_zeros()));
    set(MapField::Fill, 0, u64::from(of.fill_nan));
    // An extent of 2^32 does not fit a field of 32 bits; no buffer is that long.
    of.dims.iter().enumerate().for_each(|(d, v)| set(MapField::Extent, d, (*v).min(u64::from(u32::MAX))));
    of.strides.iter().enumerate().for_each(|(d, v)| set(MapField::Stride, d, *v));
    of.box_dims.iter().enumerate().for_each(|(d, v)| set(MapField::Box, d, u64::from(*v)));
    of.element_strides.iter().enumerate().for_each(|(d, v)| set(MapField::ElementStride, d, u64::from(*v)));
    if let Some(mode) = &of.im2col {
        map[IM2COL] = mode.lower.len() as u8;
        let places = [CORNERS, CORNERS + 6].map(|from| (from..).step_by(2));
        for (corners, places) in [&mode.lower, &mode.upper].into_iter().zip(places) {
            // A corner has 16 bits at most.
            corners.iter().zip(places).for_each(|(c, at)| put(&mut map, at, &(*c as i16).to_le_bytes()));
        }
    }
    map
}

fn put(map: &mut [u8; MAP_BYTES], at: usize, bytes: &[u8]) {
    map[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The map that the bytes describe; none if there is none.
///
/// # Errors
/// A description that the driver would refuse.
pub(crate) fn read(map: &[u8; MAP_BYTES], memory: &GlobalMemory) -> Option<Result<TensorMapDesc, String>> {
    (word(map, MARK) == MARKED).then(|| describe(map, memory))
}

fn word(map: &[u8; MAP_BYTES], at: usize) -> u32 {
    map[at..at + 4].iter().rev().fold(0, |v, b| v << 8 | u32::from(*b))
}

fn long(map: &[u8; MAP_BYTES], at: usize) -> u64 {
    u64::from(word(map, at)) | u64::from(word(map, at + 4)) << 32
}

fn describe(map: &[u8; MAP_BYTES], memory: &GlobalMemory) -> Result<TensorMapDesc, String> {
    // The field counts from 0.
    let rank = usize::from(map[RANK]) + 1;
    if rank > 5 {
        return Err(format!("its rank is {rank}; 1 to 5 is possible"));
    }
    let address = long(map, ADDRESS);
    let Some((buffer, offset)) = memory.find(address, 1) else {
        return Err(format!("its global address {address:#x} is in no buffer"));
    };
    let Some(element) = ELEMENTS.get(usize::from(map[ELEMENT])).copied() else {
        return Err(format!("its element type has the number {}; 0 to {} exist", map[ELEMENT], ELEMENTS.len() - 1));
    };
    if map[INTERLEAVE] != 0 {
        return Err("interleaved layouts are not modelled".into());
    }
    let Some(swizzle) = [0, 32, 64, 128].get(usize::from(map[SWIZZLE])).and_then(|span| Swizzle::from_span(*span))
    else {
        return Err(format!("its swizzle mode has the number {}; 0 to 3 are modelled", map[SWIZZLE]));
    };
    let spatial = usize::from(map[IM2COL]);
    if spatial > 3 {
        return Err(format!("it has {spatial} spatial dimensions; 0 to 3 are possible"));
    }
    let corners = |from: usize| {
        (0..spatial).map(|d| i32::from(i16::from_le_bytes([map[from + 2 * d], map[from + 2 * d + 1]]))).collect()
    };
    let im2col = (spatial > 0).then(|| Im2col { lower: corners(CORNERS), upper: corners(CORNERS + 6) });
    let box_rank = if im2col.is_some() { 2 } else { rank };
    let words = |from: usize| (0..rank).map(move |d| word(map, from + 4 * d));
    let found = TensorMapDesc {
        buffer: BufferId(buffer),
        offset: offset as u64,
        element,
        dims: words(EXTENTS).map(u64::from).collect(),
        strides: (1..rank).map(|d| long(map, STRIDES + 8 * (d - 1))).collect(),
        box_dims: words(BOX).take(box_rank).collect(),
        element_strides: words(ELEMENT_STRIDES).collect(),
        im2col,
        swizzle,
        fill_nan: map[FILL] != 0,
    };
    found.check(memory).map(|()| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_either_mode_is_read_as_it_was_written() {
        let mut memory = GlobalMemory::new();
        let id = memory.alloc(1 << 16, 16);
        let mut map = TensorMapDesc::matrix(id, TensorElement::F16, [64, 32], 128, [32, 8], Swizzle::B64);
        assert_eq!(read(&write(&map, &memory), &memory), Some(Ok(map.clone())));
        map.dims = vec![64, 7, 5, 3];
        map.strides = vec![128, 128 * 7, 128 * 35];
        map.box_dims = vec![32, 300];
        map.element_strides = vec![1, 2, 1, 1];
        map.im2col = Some(Im2col { lower: vec![-1, -2], upper: vec![1, -3] });
        let mut bytes = write(&map, &memory);
        assert_eq!(read(&bytes, &memory), Some(Ok(map)));
        // What a kernel writes there is no place in the map.
        bytes[IM2COL] = 200;
        assert!(read(&bytes, &memory).is_some_and(|map| map.is_err_and(|why| why.contains("200 spatial dimensions"))));
    }
}
