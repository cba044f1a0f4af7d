//! What buffers hold after a launch, beside what they must.

use bsr_simulator::GlobalMemory;

use super::buffer::Placed;
use super::classes::{Class, UNSTABLE_RESULT, WRONG_RESULT};
use super::element::Element;

/// A buffer of a launch, and what it must hold afterwards.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its name in messages.
    pub name: String,
    /// Where it is.
    pub place: Placed,
    /// What it must hold.
    pub after: After,
    /// How far an element may be from what it must be, relative to it and to the mean magnitude of its row; by type if none.
    pub tolerance: Option<f64>,
}

/// What a buffer must hold after a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// The same under every schedule.
    Equal,
    /// These elements.
    Holds(Vec<u8>),
    /// Anything.
    Any,
}

/// What each buffer must hold: given, or left by the first launch that ended.
pub(super) struct Expected(Vec<Option<(Class, Vec<u8>)>>);

impl Expected {
    /// What is known before the first launch.
    pub(super) fn new(buffers: &[Buffer]) -> Self {
        let known = |buffer: &Buffer| match &buffer.after {
            After::Holds(bytes) => Some((WRONG_RESULT, bytes.clone())),
            After::Equal | After::Any => None,
        };
        Self(buffers.iter().map(known).collect())
    }

    /// Compares what a launch has left, and remembers it where only equality is required. What differs, in words.
    pub(super) fn compare(&mut self, buffers: &[Buffer], memory: &GlobalMemory) -> Vec<(Class, String)> {
        let mut wrong = Vec::new();
        for (buffer, expected) in buffers.iter().zip(&mut self.0) {
            let place = &buffer.place;
            match expected {
                Some((class, expected)) => {
                    let found = place.elements(memory);
                    let tolerance = buffer.tolerance.unwrap_or(default_tolerance(place.element, *class));
                    if let Some(what) = difference(place, expected, &found, tolerance) {
                        wrong.push((*class, format!("buffer `{}`: {what}", buffer.name)));
                    }
                }
                None if buffer.after == After::Equal => *expected = Some((UNSTABLE_RESULT, place.elements(memory))),
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
    // Each row has a bound of its own: rows may differ in magnitude.
    let row = place.shape.last().map_or(1, |side| (*side).max(1) as usize);
    let means: Vec<f64> = expected.chunks(size * row).map(|row| mean(row.chunks(size).map(value))).collect();
    let off = |at: usize, want: f64, have: f64| {
        !((want - have).abs() <= tolerance * (want.abs() + means[at / row]) || want == have)
    };
    let pairs = expected.chunks(size).zip(found.chunks(size));
    let wrong = pairs.enumerate().filter(|(at, (e, f))| {
        e != f && !(place.element.is_float() && value(e).is_nan() && value(f).is_nan()) && off(*at, value(e), value(f))
    });
    let mut wrong = wrong.map(|(at, (e, f))| (at, value(e), value(f)));
    let (at, want, have) = wrong.next()?;
    let more = wrong.count();
    let also = if more == 0 { String::new() } else { format!(" and {more} more elements") };
    Some(format!("element {:?} is {have} and must be {want}{also} (tolerance {tolerance:e})", index(place, at)))
}

/// The mean magnitude of the finite ones.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let finite = values.map(f64::abs).filter(|v| v.is_finite());
    let (count, sum) = finite.fold((0u64, 0.0), |(count, sum), v| (count + 1, sum + v));
    sum / count.max(1) as f64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_bound_of_its_own() {
        let mut memory = GlobalMemory::new();
        let bytes = |values: [f32; 4]| values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>();
        let want = bytes([1000.0, -1000.0, 1.0, -1.0]);
        let place = Placed::dense(&mut memory, want.clone(), Element::F32, vec![2, 2], 16);
        let wrong = |have: [f32; 4]| difference(&place, &want, &bytes(have), 1e-3);
        assert_eq!(wrong([1001.0, -1000.0, 1.0, -1.0]), None);
        // A bound from the mean of the whole, 500, would let this pass.
        assert!(wrong([1000.0, -1000.0, 1.25, -1.0]).is_some_and(|what| what.contains("[1, 0] is 1.25")));
    }
}
