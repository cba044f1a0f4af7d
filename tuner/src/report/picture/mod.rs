//! A trace as a picture ([`timeline`]), block sizes as one ([`bars`]), and a plan as two: its shared memory to scale, and what its
//! warps do to the stages of the ring buffer.

pub(super) mod bars;
mod facts;
mod memory;
mod pipeline;
mod svg;
pub(super) mod timeline;

use bsr_codegen::Plan;

pub(super) use facts::{Facts, Region};
pub(super) use svg::{Svg, WIDTH};

/// What a picture outside the page is coloured by.
const ALONE: &str = concat!(
    include_str!("../../../templates/report/alone.css"),
    include_str!("../../../templates/report/timeline.css")
);

/// A picture as a file of its own, below these lines.
pub(super) fn file_of(svg: Svg, lines: &[String]) -> String {
    svg.file(lines, ALONE)
}

/// The pictures of one plan, as SVG.
#[derive(Debug)]
pub(super) struct Pictures {
    pub(super) regions: Vec<Region>,
    pub(super) memory: String,
    /// None of a plan without a ring buffer of stages.
    pub(super) pipeline: Option<String>,
}

/// Draws a plan; nothing of one without shared memory.
pub(super) fn draw(plan: &Plan) -> Option<Pictures> {
    let facts = Facts::of(plan)?;
    Some(Pictures {
        memory: memory::draw(&facts),
        pipeline: facts.ring.as_ref().map(|ring| pipeline::draw(&facts, ring)),
        regions: facts.regions(),
    })
}
