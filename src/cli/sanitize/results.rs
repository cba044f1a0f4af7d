//! What buffers hold after a launch, beside what they must.

use std::collections::BTreeMap;
use std::path::Path;

use bsr_simulator::GlobalMemory;

use super::super::exit::Failure;
use super::classes::{Class, UNSTABLE_RESULT, WRONG_RESULT};
use super::element::Element;
use super::launch::{After, Buffer};
use super::memory::Placed;
use super::npy;

/// What each buffer must hold.
pub(super) struct Expected(BTreeMap<String, (Class, Vec<u8>)>);

impl Expected {
    /// What is known before the first launch.
    ///
    /// # Errors
    /// Bad input: files that do not fit.
    pub(super) fn new(
        buffers: &BTreeMap<String, Buffer>,
        placed: &BTreeMap<String, Placed>,
        memory: &GlobalMemory,
        folder: &Path,
    ) -> Result<Self, Failure> {
        let mut all = BTreeMap::new();
        for (name, buffer) in buffers {
            let place = &placed[name];
            let bytes = match &buffer.after {
                After::Unchanged => place.elements(memory.bytes(place.id)),
                After::File(file) => {
                    let (shape, bytes) = npy::read(&folder.join(file), buffer.element)?;
                    if shape != place.shape {
                        let fact = format!("buffer `{name}` has shape {:?}, and {file} has {shape:?}", place.shape);
                        return Err(Failure::bad_input(fact));
                    }
                    bytes
                }
                After::Equal | After::Any => continue,
            };
            all.insert(name.clone(), (WRONG_RESULT, bytes));
        }
        Ok(Self(all))
    }

    /// Compares what a launch has left, and remembers it where only equality is required. What differs, in words.
    pub(super) fn compare(
        &mut self,
        buffers: &BTreeMap<String, Buffer>,
        placed: &BTreeMap<String, Placed>,
        memory: &GlobalMemory,
    ) -> Vec<(Class, String)> {
        let mut wrong = Vec::new();
        for (name, buffer) in buffers {
            let place = &placed[name];
            let found = place.elements(memory.bytes(place.id));
            match self.0.get(name) {
                Some((class, expected)) => {
                    let tolerance = buffer.tolerance.unwrap_or(default_tolerance(place.element, *class));
                    if let Some(what) = difference(place, expected, &found, tolerance) {
                        wrong.push((*class, format!("buffer `{name}`: {what}")));
                    }
                }
                None if buffer.after == After::Equal => {
                    self.0.insert(name.clone(), (UNSTABLE_RESULT, found));
                }
                None => {}
            }
        }
        wrong
    }
}

/// Sums in another order differ in the last bits; nothing else may where schedules are compared.
fn default_tolerance(element: Element, class: Class) -> f64 {
    match (element, class == WRONG_RESULT) {
        (Element::F64, _) => 1e-12,
        (Element::F32, true) => 1e-5,
        (Element::F32, false) => 1e-6,
        (Element::F16, _) => 2e-3,
        (Element::Bf16, _) => 1e-2,
        (Element::E4m3, _) => 0.08,
        (Element::E5m2, _) => 0.15,
        _ => 0.0,
    }
}

/// How two arrays differ, if one of their elements does beyond the tolerance.
fn difference(place: &Placed, expected: &[u8], found: &[u8], tolerance: f64) -> Option<String> {
    if expected == found {
        return None;
    }
    let size = place.element.bytes();
    let value = |bytes: &[u8]| place.element.get(bytes);
    let finite = expected.chunks(size).map(|e| value(e).abs()).filter(|v| v.is_finite());
    let (count, sum) = finite.fold((0u64, 0.0), |(count, sum), v| (count + 1, sum + v));
    let mean = sum / count.max(1) as f64;
    let off = |want: f64, have: f64| !((want - have).abs() <= tolerance * (want.abs() + mean) || want == have);
    let pairs = expected.chunks(size).zip(found.chunks(size));
    let wrong = pairs.enumerate().filter(|(_, (e, f))| {
        e != f && !(place.element.is_float() && value(e).is_nan() && value(f).is_nan()) && off(value(e), value(f))
    });
    let mut wrong = wrong.map(|(at, (e, f))| (at, value(e), value(f)));
    let (at, want, have) = wrong.next()?;
    let more = wrong.count();
    let also = if more == 0 { String::new() } else { format!(" and {more} more elements") };
    Some(format!("element {:?} is {have} and must be {want}{also} (tolerance {tolerance:e})", index(place, at)))
}

/// The index of an element in each dimension.
fn index(place: &Placed, at: usize) -> Vec<u64> {
    let mut rest = at as u64;
    let mut out: Vec<u64> = place
        .shape
        .iter()
        .rev()
        .map(|side| {
            let here = rest % side.max(&1);
            rest /= side.max(&1);
            here
        })
        .collect();
    out.reverse();
    out
}
