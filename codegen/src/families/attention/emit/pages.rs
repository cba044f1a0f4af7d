//! Where the keys of a step are, of a kernel whose K and V are in pages.
//!
//! Lanes of the producer hold 32 entries of the page table. A step has whole pages, whose number divides 32, or a part of one,
//! so that its entries are always among those that are held.

use serde::Serialize;

use super::super::plan::AttentionPlan;
use crate::hopper::OperandTile;
use crate::plan::AttentionTiles;

/// What the templates of pages name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Pages {
    /// Bits of the number of a key in its page, and the greatest such number.
    shift: u32,
    last_row: u32,
    /// The greatest number of a key among those of 32 pages.
    batch_mask: u32,
    /// The word of a work tile that has the number of keys.
    length_word: u32,
    /// The flags of a step that one consumer computes, of the first one.
    flags: u32,
    keys: Operand,
    values: Operand,
    /// The boxes of a V by columns.
    columns: Vec<Keys>,
}

/// Keys of a panel of V by columns: the page among those of a step, and the first key from the step's first one, or the page's.
#[derive(Clone, Debug, Serialize)]
struct Keys {
    number: u32,
    column: u32,
    offset: u32,
}

/// K or V of a step.
#[derive(Clone, Debug, Serialize)]
struct Operand {
    boxes: Vec<PageBox>,
    span: u32,
    panel_bytes: u32,
    panel_offsets: Vec<u32>,
}

/// What a step has of one page, in panels of columns.
#[derive(Clone, Debug, Serialize)]
struct PageBox {
    number: u32,
    panels: Vec<Panel>,
}

#[derive(Clone, Debug, Serialize)]
struct Panel {
    column: u32,
    offset: u32,
}

impl Pages {
    pub(super) fn new(plan: &AttentionPlan) -> Option<Self> {
        let page = plan.spec.page?;
        let scored = if plan.score().is_some() { AttentionTiles::PARTIAL } else { 0 };
        Some(Self {
            shift: page.ilog2(),
            last_row: page - 1,
            batch_mask: 32 * page - 1,
            length_word: plan.tiles().length_word() as u32,
            flags: AttentionTiles::STORED | scored,
            keys: Operand::new(&plan.keys),
            values: Operand::new(&plan.values),
            columns: if plan.is_fp8() { keys_of_panels(&plan.values, page) } else { vec![] },
        })
    }
}

/// A panel has keys of one page.
fn keys_of_panels(tile: &OperandTile, page: u32) -> Vec<Keys> {
    let keys = |panel: u32| {
        let first = panel * tile.span_elements();
        Keys { number: first / page, column: first % page, offset: panel * tile.panel_bytes() }
    };
    (0..tile.panels).map(keys).collect()
}

impl Operand {
    fn new(tile: &OperandTile) -> Self {
        let panel_offsets: Vec<u32> = (0..tile.panels).map(|number| number * tile.panel_bytes()).collect();
        let page_box = |number: u32| {
            let panel = |(panel, offset): (usize, &u32)| Panel {
                column: panel as u32 * tile.span_elements(),
                offset: offset + number * tile.box_rows * tile.span,
            };
            PageBox { number, panels: panel_offsets.iter().enumerate().map(panel).collect() }
        };
        Self {
            boxes: (0..tile.rows / tile.box_rows).map(page_box).collect(),
            span: tile.span,
            panel_bytes: tile.panel_bytes(),
            panel_offsets,
        }
    }
}
