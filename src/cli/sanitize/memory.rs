//! The buffers of a launch: what they hold before it.

use std::collections::BTreeMap;
use std::path::Path;

use bsr::{Dense, Layout};
use bsr_simulator::GlobalMemory;
use bsr_trial::sanitize::{Element, Placed};

use super::super::exit::Failure;
use super::launch::{Buffer, Values};
use super::{npy, params};

/// The most bytes of one buffer.
const MOST: u64 = 1 << 34;

/// Places all buffers. Files are named from `folder`.
///
/// # Errors
/// Bad input: shapes, values or files that do not fit.
pub(super) fn place(
    buffers: &BTreeMap<String, Buffer>,
    folder: &Path,
) -> Result<(GlobalMemory, BTreeMap<String, Placed>), Failure> {
    let mut memory = GlobalMemory::new();
    let mut placed = BTreeMap::new();
    for (name, buffer) in buffers {
        let bad = |what: String| Failure::bad_input(format!("buffer `{name}`: {what}"));
        let (shape, dense) = contents(buffer, folder, &bad)?;
        let row = shape.last().copied().unwrap_or(1) * buffer.element.bytes() as u64;
        let pitch = buffer.pitch.map_or(row, |elements| elements * buffer.element.bytes() as u64);
        if pitch < row {
            let fact = format!("a pitch of {pitch} bytes, and a row has {row}");
            return Err(bad(format!("{fact}; the pitch is at least the last dimension")));
        }
        if !buffer.align.is_power_of_two() {
            return Err(bad(format!("an alignment is a power of two; {} is not", buffer.align)));
        }
        let id = memory.upload(spread(&dense, row, pitch), buffer.align);
        memory.pad(id, row, pitch);
        placed.insert(name.clone(), Placed { id, element: buffer.element, shape, rows: (row, pitch) });
    }
    // Addresses are known when all buffers are there.
    for (name, buffer) in buffers {
        let bad = |what: String| Failure::bad_input(format!("buffer `{name}`: {what}"));
        let id = placed[name].id;
        for (at, field) in params::fields(&buffer.fields, &placed).map_err(bad)? {
            memory.put(id, at, &field).map_err(bad)?;
        }
        let Values::Names(names) = &buffer.values else { continue };
        let mut bytes = Vec::new();
        for other in names {
            let Some(target) = placed.get(other) else {
                return Err(Failure::bad_input(format!("buffer `{name}`: there is no buffer `{other}`")));
            };
            bytes.extend(memory.address(target.id).to_le_bytes());
        }
        memory.bytes_mut(placed[name].id).copy_from_slice(&bytes);
    }
    Ok((memory, placed))
}

/// Rows that are further apart than they are long.
fn spread(dense: &[u8], row: u64, pitch: u64) -> Vec<u8> {
    if row == pitch || row == 0 {
        return dense.to_vec();
    }
    let line = |bytes: &[u8]| {
        let mut line = bytes.to_vec();
        line.resize(pitch as usize, 0xff);
        line
    };
    dense.chunks(row as usize).flat_map(line).collect()
}

/// The shape of a buffer, and its elements.
fn contents(buffer: &Buffer, folder: &Path, bad: &dyn Fn(String) -> Failure) -> Result<(Vec<u64>, Vec<u8>), Failure> {
    let element = buffer.element;
    let count = buffer.shape.iter().try_fold(1u64, |all, side| all.checked_mul(*side)).unwrap_or(u64::MAX);
    let most = MOST / element.bytes() as u64;
    if count > most {
        return Err(bad(format!("shape {:?} has {count} elements; at most {most} fit", buffer.shape)));
    }
    let numbers = |values: &mut dyn Iterator<Item = f64>| {
        let mut bytes = Vec::with_capacity(count as usize * element.bytes());
        values.for_each(|value| element.put(value, &mut bytes));
        bytes
    };
    let all = 0..count;
    let [low, high] = buffer.range.unwrap_or([0.0, 1.0]);
    let given = |found: usize| match found as u64 == count {
        true => Ok(()),
        false => Err(bad(format!("shape {:?} has {count} elements, and {found} values are given", buffer.shape))),
    };
    let bytes = match &buffer.values {
        Values::Constant(value) => numbers(&mut all.map(|_| *value)),
        Values::List(list) if list.is_empty() => numbers(&mut all.map(|_| 0.0)),
        Values::List(list) => {
            given(list.len())?;
            numbers(&mut list.iter().copied())
        }
        Values::Names(names) if element == Element::Address => {
            given(names.len())?;
            vec![0; 8 * names.len()]
        }
        Values::Names(_) => return Err(bad("names of buffers are values of `type = \"address\"`".into())),
        Values::Word(word) => match word.as_str() {
            "normal" if element.is_float() => {
                let drawn = Dense::<f32>::normal(1, count as usize, Layout::RowMajor, buffer.seed);
                numbers(&mut drawn.to_f64().into_iter())
            }
            "normal" => {
                return Err(
                    bad("`normal` is for floating-point numbers; `uniform` with a range draws integers".into()),
                );
            }
            "uniform" if element.is_float() => numbers(&mut all.map(|at| low + (high - low) * unit(buffer.seed, at))),
            "uniform" => {
                numbers(&mut all.map(|at| (low + (high - low + 1.0) * unit(buffer.seed, at)).floor().min(high)))
            }
            "index" => numbers(&mut all.map(|at| at as f64)),
            "poison" => vec![0xff; count as usize * element.bytes()],
            file if file.ends_with(".npy") => {
                let (shape, bytes) = npy::read(&folder.join(file), element)?;
                if !buffer.shape.is_empty() && shape != buffer.shape {
                    return Err(bad(format!("shape {:?}, and {file} has {shape:?}", buffer.shape)));
                }
                return Ok((shape, bytes));
            }
            other => {
                let known = "normal, uniform, index, poison, a number, a list, or the name of a .npy file";
                return Err(bad(format!("values `{other}` are unknown; {known} is possible")));
            }
        },
    };
    Ok((buffer.shape.clone(), bytes))
}

/// A number from 0 up to 1 that depends on the seed and the place alone.
fn unit(seed: u64, at: u64) -> f64 {
    // The mixing function of SplitMix64 (Steele, Lea and Flood, 2014).
    let mut z = seed.wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
