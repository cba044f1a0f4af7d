//! Timelines that kernels recorded themselves: in the lesson of a kernel, and as files of their own.

use serde::Serialize;

use super::picture::{file_of, timeline};
use crate::{DeviceKind, Record, Traced};

/// A trace as a picture for a document: an SVG that stands on a light and on a dark background. None of a trace without slices.
pub fn timeline_picture(traced: &Traced) -> Option<String> {
    let lines = [timeline::label(&traced.trace), traced.of.words()];
    timeline::draw(&traced.trace).map(|svg| file_of(svg, &lines))
}

/// A timeline in a lesson.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    /// Whether a GPU's clock took it.
    is_gpu: bool,
    /// Where, when, and what the probes cost.
    words: String,
    /// An SVG.
    picture: String,
}

/// Those of a record's kernel, the latest first.
pub(super) fn of(record: &Record, traces: &[Traced]) -> Vec<Measured> {
    let mut found: Vec<&Traced> = traces.iter().filter(|traced| traced.is_of(record)).collect();
    found.sort_by_key(|traced| std::cmp::Reverse(traced.of.at));
    let drawn = |traced: &&Traced| {
        let svg = timeline::draw(&traced.trace)?;
        Some(Measured {
            is_gpu: traced.of.device.kind == DeviceKind::Gpu,
            words: traced.of.words(),
            picture: svg.finish(&timeline::label(&traced.trace)),
        })
    };
    found.iter().filter_map(drawn).collect()
}
