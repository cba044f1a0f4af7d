//! A trace as a picture ([`timeline`]), and a plan as two: its shared memory to scale, and what its warps do to the stages of the ring buffer.

mod facts;
mod memory;
mod pipeline;
mod svg;
pub(super) mod timeline;

use bsr_codegen::Plan;

pub(super) use facts::{Facts, Region};
pub(super) use svg::{Svg, WIDTH};

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
