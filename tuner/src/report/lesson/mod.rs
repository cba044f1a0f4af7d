//! What a kernel teaches: which roof limits it, when its clusters compute what, what each key changed, and which points next to
//! it cannot be planned.
//!
//! Everything is computed here; the page shows the lesson of the winner, and on a click that of another kernel.

mod effects;
mod refused;
mod timeline;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::roofs::{Limit, Traffic};
use serde::Serialize;

use super::axes::Axis;
use super::measured::{self, Measured};
use crate::groups::{Group, Point};
use crate::{DeviceKind, Record, Traced, model};

pub(super) use effects::Effect;
pub(super) use refused::Refused;

/// Kernels with a lesson on a page, and limits: more would make it slow to write, and to open.
const MOST_LESSONS: usize = 120;
const MOST_LIMITS: usize = 2000;

/// How many kernels of each product have a lesson, and a limit, on a page of so many products: the best ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    lessons: usize,
    pub(super) limits: usize,
}

impl Budget {
    pub(super) fn new(products: usize) -> Self {
        let products = products.max(1);
        Self { lessons: (MOST_LESSONS / products).clamp(1, 24), limits: (MOST_LIMITS / products).max(1) }
    }

    /// Lessons of a product by its place on the page.
    pub(super) fn lessons(self, product: usize) -> usize {
        if product < MOST_LESSONS { self.lessons } else { 0 }
    }
}

/// One kernel's.
#[derive(Debug, Serialize)]
pub(super) struct Lesson {
    /// Its place among the rows of the product.
    pub(super) place: usize,
    pub(super) name: String,
    /// The arithmetic of its limit, and how near the other roofs are.
    pub(super) limit: Option<[String; 2]>,
    pub(super) effects: Vec<Effect>,
    pub(super) refused: Vec<Refused>,
    /// An SVG.
    pub(super) timeline: Option<String>,
    /// Timelines that the kernel recorded.
    pub(super) measured: Vec<Measured>,
}

/// The lessons of the best kernels of a group, and of those that were traced.
pub(super) fn lessons(group: &Group<'_>, axes: &[Axis], most: usize, traces: &[Traced]) -> Vec<Lesson> {
    let timed = group.kernels.iter().enumerate().filter(|(_, point)| point.record.timing.is_some());
    let is_traced = |point: &Point<'_>| most > 0 && traces.iter().any(|traced| traced.is_of(point.record));
    let taught = timed.enumerate().filter(|(rank, (_, point))| *rank < most || is_traced(point));
    taught.filter_map(|(_, (place, point))| lesson(group, axes, (place, point), traces)).collect()
}

fn lesson(group: &Group<'_>, axes: &[Axis], (place, point): (usize, &Point<'_>), traces: &[Traced]) -> Option<Lesson> {
    let spec = point.spec.as_ref()?;
    let plan = Plan::new(spec).ok()?;
    Some(Lesson {
        place,
        name: point.record.subject.clone(),
        limit: limit(group, point.record, spec).map(|limit| [limit.arithmetic(), limit.others()]),
        effects: effects::of(group, axes, point),
        refused: refused::next_to(spec, &plan),
        timeline: timeline::draw(&model::work_list(&plan, group.problem, &card(group))),
        measured: measured::of(point.record, traces),
    })
}

/// What limits a kernel; nothing of one without a time, or of a model.
pub(super) fn limit(group: &Group<'_>, record: &Record, spec: &KernelSpec) -> Option<Limit> {
    let timing = record.timing.as_ref().filter(|_| record.verdict.has_time())?;
    if group.device.kind != DeviceKind::Gpu || group.roofs.is_unknown() {
        return None;
    }
    Limit::new(traffic(group, spec)?, timing.median_us, &group.roofs)
}

fn traffic(group: &Group<'_>, spec: &KernelSpec) -> Option<Traffic> {
    let plan = Plan::new(spec).ok()?;
    Some(model::traffic(&plan, group.problem, None, &card(group)))
}

fn card(group: &Group<'_>) -> model::Card {
    model::for_gpu(&group.device.name, None).0
}
