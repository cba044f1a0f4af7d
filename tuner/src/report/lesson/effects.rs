//! What each key changed: kernels that differ in it alone.

use serde::Serialize;

use super::super::axes::Axis;
use super::super::words;
use crate::groups::{Group, Point};

/// A kernel that differs from another one in one key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in super::super) struct Effect {
    pub(in super::super) key: &'static str,
    pub(in super::super) meaning: &'static str,
    pub(in super::super) from: String,
    pub(in super::super) to: String,
    /// Microseconds of the other one.
    pub(in super::super) us: String,
    /// `+4.1 %`: how much longer the other one takes.
    pub(in super::super) change: String,
    /// Whether it is longer or shorter by more than both times are uncertain.
    pub(in super::super) class: &'static str,
}

/// All kernels of the group that differ from this one in exactly one key, key by key.
pub(super) fn of(group: &Group<'_>, axes: &[Axis], point: &Point<'_>) -> Vec<Effect> {
    let (Some(spec), Some(timing)) = (&point.spec, &point.record.timing) else { return vec![] };
    let own: Vec<Option<usize>> = axes.iter().map(|axis| axis.place(spec)).collect();
    let mut found: Vec<(usize, usize, Effect)> = vec![];
    for other in group.kernels.iter().filter(|other| other.record.verdict.has_time()) {
        let (Some(other_spec), Some(theirs)) = (&other.spec, &other.record.timing) else { continue };
        let mut differing =
            axes.iter().zip(&own).enumerate().filter(|(_, (axis, own))| axis.place(other_spec) != **own);
        let (Some((number, (axis, _))), None) = (differing.next(), differing.next()) else { continue };
        // Ratios to the dense library in the same rounds tell more than times of different ones.
        let change = match (group.measure.of(point.record), group.measure.of(other.record)) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => ours / theirs - 1.0,
            _ => theirs.median_us / timing.median_us - 1.0,
        };
        let unsure = timing.relative_ci.unwrap_or(0.0) + theirs.relative_ci.unwrap_or(0.0);
        let class = match change {
            longer if longer > unsure => "longer",
            shorter if shorter < -unsure => "shorter",
            _ => "equal",
        };
        let place = axis.place(other_spec).unwrap_or(usize::MAX);
        let effect = Effect {
            key: axis.name,
            meaning: axis.meaning,
            from: spec.value(axis.key),
            to: other_spec.value(axis.key),
            us: words::number(theirs.median_us),
            change: format!("{:+.1} %", 100.0 * change),
            class,
        };
        found.push((number, place, effect));
    }
    found.sort_by_key(|(number, place, _)| (*number, *place));
    found.into_iter().map(|(_, _, effect)| effect).collect()
}
