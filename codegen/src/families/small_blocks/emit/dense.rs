//! What a block is multiplied with: lines of B, each a row of it or a column.

use std::ops::Range;

use serde::Serialize;

use super::super::plan::SmallBlocksPlan;
use super::super::plan::groups::MOST_HELD;
use super::registers::{Wide, class, guard_of_products, part, value, zero};
use crate::Layout;

/// Lines of B that are read, then multiplied.
#[derive(Serialize)]
pub(super) struct Step {
    lines: Vec<Line>,
    widened: Vec<Widened>,
    products: Vec<Product>,
}

/// An element that is narrower than the sums, and what it becomes.
#[derive(Serialize)]
struct Widened {
    narrow: String,
    wide: String,
}

/// A line of each block in flight.
#[derive(Serialize)]
struct Line {
    /// The blocks whose addresses move on to it.
    moves: Vec<u32>,
    loads: Vec<Load>,
}

#[derive(Serialize)]
struct Load {
    block: u32,
    #[serde(flatten)]
    wide: Wide,
    from: u32,
}

/// A multiply-add.
#[derive(Serialize)]
struct Product {
    guard: String,
    sum: String,
    a: String,
    b: String,
}

/// A block of which B has not all rows, or not all columns of the tile: element by element.
#[derive(Serialize)]
pub(super) struct Edge {
    block: u32,
    guard: String,
    lines: Vec<EdgeLine>,
}

#[derive(Serialize)]
struct EdgeLine {
    number: u32,
    elements: Vec<EdgeElement>,
}

#[derive(Serialize)]
struct EdgeElement {
    number: u32,
    register: String,
    zero: &'static str,
    from: u32,
    widened: Option<Widened>,
    product: Product,
}

/// Lines of B that a block meets, and the elements of each.
fn extent(plan: &SmallBlocksPlan) -> (u32, u32) {
    match plan.spec.b_layout {
        Layout::RowMajor => (plan.inner(), plan.spec.bn),
        Layout::ColMajor => (plan.spec.bn, plan.inner()),
    }
}

fn element(plan: &SmallBlocksPlan, block: u32, line: u32, at: u32) -> String {
    format!("%{}_b{block}_{line}_{at}", class(plan.spec.b))
}

/// The element as it is multiplied.
fn factor(plan: &SmallBlocksPlan, block: u32, line: u32, at: u32) -> String {
    match widened(plan, block, line, at) {
        Some(widened) => widened.wide,
        None => element(plan, block, line, at),
    }
}

fn widened(plan: &SmallBlocksPlan, block: u32, line: u32, at: u32) -> Option<Widened> {
    let wide = || format!("%{}_w{block}_{line}_{at}", class(plan.spec.acc));
    (plan.spec.b != plan.spec.acc).then(|| Widened { narrow: element(plan, block, line, at), wide: wide() })
}

fn product(plan: &SmallBlocksPlan, block: u32, line: u32, at: u32) -> Product {
    let (k, column) = match plan.spec.b_layout {
        Layout::RowMajor => (line, at),
        Layout::ColMajor => (at, line),
    };
    Product {
        guard: guard_of_products(plan, block),
        sum: part(plan, block, column),
        a: value(&plan.spec, block, k),
        b: factor(plan, block, line, at),
    }
}

/// All lines of the blocks in flight at once where they fit the registers, else one after the other.
pub(super) fn steps(plan: &SmallBlocksPlan) -> Vec<Step> {
    let (lines, length) = extent(plan);
    let together = if plan.in_flight() * lines * length <= MOST_HELD { lines } else { 1 };
    (0..lines)
        .step_by(together as usize)
        .map(|first| step(plan, 0..plan.in_flight(), first..first + together))
        .collect()
}

/// Some lines of some blocks.
fn step(plan: &SmallBlocksPlan, blocks: Range<u32>, lines: Range<u32>) -> Step {
    let (_, length) = extent(plan);
    let load = |block: u32, line: u32, first: u32| {
        let registers: Vec<String> = (first..first + plan.b_load).map(|at| element(plan, block, line, at)).collect();
        Load { block, wide: Wide::new(plan.spec.b.as_str(), &registers), from: first * plan.spec.b.bytes() }
    };
    let line = |line: u32| Line {
        moves: if line > 0 { blocks.clone().collect() } else { vec![] },
        loads: blocks
            .clone()
            .flat_map(|block| (0..length).step_by(plan.b_load as usize).map(move |first| (block, first)))
            .map(|(block, first)| load(block, line, first))
            .collect(),
    };
    let each = |line: u32| {
        let of_block = move |block: u32| (0..length).map(move |at| (block, line, at));
        blocks.clone().flat_map(of_block)
    };
    let elements = || lines.clone().flat_map(each);
    Step {
        lines: lines.clone().map(line).collect(),
        widened: elements().filter_map(|(block, line, at)| widened(plan, block, line, at)).collect(),
        products: elements().map(|(block, line, at)| product(plan, block, line, at)).collect(),
    }
}

/// All lines of one block at once, of few columns.
pub(super) fn step_of_block(plan: &SmallBlocksPlan, block: u32) -> Step {
    step(plan, block..block + 1, 0..extent(plan).0)
}

impl Edge {
    pub(super) fn new(plan: &SmallBlocksPlan, block: u32) -> Self {
        let (lines, length) = extent(plan);
        let element = |line: u32, number: u32| EdgeElement {
            number,
            register: element(plan, block, line, number),
            zero: zero(plan.spec.b),
            widened: widened(plan, block, line, number),
            from: number * plan.spec.b.bytes(),
            product: product(plan, block, line, number),
        };
        let line = |number: u32| EdgeLine { number, elements: (0..length).map(|at| element(number, at)).collect() };
        Self { block, guard: guard_of_products(plan, block), lines: (0..lines).map(line).collect() }
    }
}
