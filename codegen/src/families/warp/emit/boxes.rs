//! The boxes that one thread loads by TMA into a stage.

use serde::Serialize;

use super::super::plan::{Operand, WarpPlan};
use crate::Layout;
use crate::plan::TileScheduler;

/// The loads of a kernel.
#[derive(Serialize)]
pub(super) struct Boxes {
    /// A block where there is none: TMA reads zeros.
    outside: u32,
    /// Rows of A from one block to the next, where blocks are neighbours.
    block_rows: u32,
    /// Lines of a block's values, where an index lists blocks.
    block_lines: u32,
    /// Blocks of a stage, by their number.
    blocks: Vec<u32>,
    /// The stages of a block, or the one of several blocks.
    stages: Vec<Stage>,
}

#[derive(Serialize)]
pub(super) struct Stage {
    number: u32,
    /// What TMA delivers.
    bytes: u32,
    loads: Vec<Load>,
}

#[derive(Serialize)]
pub(super) struct Load {
    pub(super) map: &'static str,
    /// Bytes from the beginning of the stage.
    pub(super) to: u32,
    /// Coordinates, the contiguous dimension first.
    pub(super) x: Coordinate,
    pub(super) y: Coordinate,
}

/// A register and what is added to it, or that alone.
#[derive(Serialize)]
pub(super) struct Coordinate {
    base: Option<String>,
    by: u32,
}

impl Coordinate {
    pub(super) fn new(base: impl Into<String>, by: u32) -> Self {
        Self { base: Some(base.into()), by }
    }

    fn constant(by: u32) -> Self {
        Self { base: None, by }
    }
}

impl Boxes {
    /// Those of a stage whose place says nothing of blocks.
    pub(super) fn of_stage(loads: impl Iterator<Item = (u32, Load)>) -> Self {
        let stages = vec![Stage::of(0, loads)];
        Self { outside: TileScheduler::OUTSIDE, block_rows: 0, block_lines: 0, blocks: vec![], stages }
    }

    pub(super) fn new(plan: &WarpPlan) -> Self {
        let k = &plan.kloop;
        Self {
            outside: TileScheduler::OUTSIDE,
            block_rows: if plan.lines() { 0 } else { plan.spec.bm },
            block_lines: if plan.lines() { plan.spec.bk } else { 0 },
            blocks: (0..k.sub_stages).collect(),
            stages: (0..k.steps).map(|step| Stage::new(plan, step)).collect(),
        }
    }
}

impl Stage {
    fn new(plan: &WarpPlan, step: u32) -> Self {
        let of_a = (0..plan.kloop.sub_stages).flat_map(|block| match plan.lines() {
            false => loads_of_a(plan, step, block),
            true => lines(plan, ("a", &plan.a, plan.tiling.cta_m), ("%r_a_row", "%r_block_row"), 0, (step, block)),
        });
        let of_b = (0..plan.kloop.sub_stages).flat_map(|block| match plan.spec.b_layout {
            Layout::RowMajor => {
                let to = plan.memory.b_offset;
                lines(plan, ("b", &plan.b, plan.tiling.cta_n), ("%r_c_col", "%r_block_k"), to, (step, block))
            }
            Layout::ColMajor => columns_of_b(plan, step, block),
        });
        Self::of(step, of_a.chain(of_b))
    }

    /// Stage `number`, with loads of so many bytes each.
    fn of(number: u32, of_each: impl Iterator<Item = (u32, Load)>) -> Self {
        let (mut bytes, mut loads) = (0, vec![]);
        for (size, load) in of_each {
            bytes += size;
            loads.push(load);
        }
        Self { number, bytes, loads }
    }
}

/// The first elements of the panels that `width` elements along a row take, `span` each.
pub(super) fn panels(width: u32, span: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..width.div_ceil(span)).map(move |panel| (panel, panel * span))
}

/// The first lines of the boxes of so many lines.
pub(super) fn boxes(lines: u32, of_box: u32) -> impl Iterator<Item = u32> {
    (0..lines / of_box).map(move |part| part * of_box)
}

/// Panels of a part of a stage that is along K, from one block of several.
fn panels_of_block(plan: &WarpPlan, span: u32) -> u32 {
    (plan.kloop.k_step).div_ceil(span)
}

fn loads_of_a(plan: &WarpPlan, step: u32, block: u32) -> Vec<(u32, Load)> {
    let (a, k, size) = (&plan.a, &plan.kloop, plan.spec.a.bytes());
    let (span, lines) = (a.span() / size, a.box_lines(a.rows, &plan.arch));
    let first = block * panels_of_block(plan, span);
    let of_panel = |(panel, x): (u32, u32)| {
        boxes(a.rows, lines).map(move |line| {
            let load = Load {
                map: "a",
                to: (first + panel) * a.panel_bytes() + line * a.pitch,
                x: Coordinate::constant(step * k.k_step + x),
                y: Coordinate::new(format!("%r_block_row{block}"), line),
            };
            (lines * a.pitch, load)
        })
    };
    panels(k.width(step), span).flat_map(of_panel).collect()
}

/// Columns of B: lines of K.
fn columns_of_b(plan: &WarpPlan, step: u32, block: u32) -> Vec<(u32, Load)> {
    let (b, k, size) = (&plan.b, &plan.kloop, plan.spec.b.bytes());
    let (span, lines) = (b.span() / size, b.box_lines(b.rows, &plan.arch));
    let first = block * panels_of_block(plan, span);
    let of_panel = |(panel, x): (u32, u32)| {
        boxes(b.rows, lines).map(move |line| {
            let load = Load {
                map: "b",
                to: plan.memory.b_offset + (first + panel) * b.panel_bytes() + line * b.pitch,
                x: Coordinate::new(format!("%r_block_k{block}"), step * k.k_step + x),
                y: Coordinate::new("%r_c_col", line),
            };
            (lines * b.pitch, load)
        })
    };
    panels(k.width(step), span).flat_map(of_panel).collect()
}

/// Lines of K, `width` elements along M or N of each, from registers where they begin in both directions.
fn lines(
    plan: &WarpPlan,
    (map, operand, width): (&'static str, &Operand, u32),
    (across, along): (&'static str, &'static str),
    offset: u32,
    (step, block): (u32, u32),
) -> Vec<(u32, Load)> {
    let k = &plan.kloop;
    let (span, lines) = (operand.span() / plan.spec.b.bytes(), operand.box_lines(k.k_step, &plan.arch));
    let of_panel = |(panel, x): (u32, u32)| {
        boxes(k.k_step, lines).map(move |line| {
            let load = Load {
                map,
                to: offset + panel * operand.panel_bytes() + (block * k.k_step + line) * operand.pitch,
                x: Coordinate::new(across, x),
                y: Coordinate::new(format!("{along}{block}"), step * k.k_step + line),
            };
            (lines * operand.pitch, load)
        })
    };
    panels(width, span).flat_map(of_panel).collect()
}
