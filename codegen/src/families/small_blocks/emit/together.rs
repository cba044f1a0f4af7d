//! The operands of the template of a CTA that reads blocks together: products that wait in shared memory, and how they are added up.

use serde::Serialize;

use super::super::plan::SmallBlocksPlan;
use super::registers::{class, part, sum, zero};
use super::{dense, values};

/// Products of a row that are read before the first of them is added.
const AT_ONCE: u32 = 4;

/// What the template names.
#[derive(Serialize)]
pub(super) struct Together {
    /// Bytes of the products of a row of a block, and of a block.
    row_bytes: u32,
    block_bytes: u32,
    /// The blocks in flight.
    turns: Vec<Turn>,
    at_once: u32,
    /// Reads of that many blocks' products, and of one's.
    several: Vec<Read>,
    one: Vec<Read>,
}

/// A block in flight: a list of it alone, what it is multiplied with, and its products.
#[derive(Serialize)]
struct Turn {
    blocks: [values::Block; 1],
    step: dense::Step,
    edge: dense::Edge,
    parts: Vec<Part>,
}

/// The product of a column of a block.
#[derive(Serialize)]
struct Part {
    register: String,
    zero: &'static str,
    to: u32,
}

/// A product that is read, and the sum that it is added to.
#[derive(Serialize)]
struct Read {
    register: String,
    from: u32,
    sum: String,
}

impl Together {
    /// `block` makes the values of a block in flight.
    pub(super) fn new(plan: &SmallBlocksPlan, block: impl Fn(u32) -> values::Block) -> Self {
        let (spec, bytes) = (&plan.spec, plan.spec.acc.bytes());
        let row_bytes = spec.bn * bytes;
        let block_bytes = plan.rows() * row_bytes;
        let columns = |block: u32| (0..spec.bn).map(move |column| (block, column));
        let read = |(block, column): (u32, u32)| Read {
            register: format!("%{}_read{block}_{column}", class(spec.acc)),
            from: block * block_bytes + column * bytes,
            sum: sum(spec, column),
        };
        let product = |(block, column): (u32, u32)| Part {
            register: part(plan, block, column),
            zero: zero(spec.acc),
            to: block * plan.slots() * block_bytes + column * bytes,
        };
        Self {
            row_bytes,
            block_bytes,
            turns: (0..plan.in_flight())
                .map(|number| Turn {
                    blocks: [block(number)],
                    step: dense::step_of_block(plan, number),
                    edge: dense::Edge::new(plan, number),
                    parts: columns(number).map(product).collect(),
                })
                .collect(),
            at_once: AT_ONCE,
            several: (0..AT_ONCE).flat_map(columns).map(read).collect(),
            one: columns(0).map(read).collect(),
        }
    }
}
