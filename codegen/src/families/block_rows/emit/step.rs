//! A stage of a tile of several blocks: its loads, and the bytes of a block of either factor that takes part.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use crate::hopper::tma::Load;

/// One stage that the producer fills.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    label: String,
    comment: String,
    /// Bytes of a block of A, and of B.
    a_bytes: u32,
    b_bytes: u32,
    loads: Vec<Load>,
}

impl Step {
    /// The stages of a block's K, in which B has so many blocks beside one another.
    pub(super) fn all(plan: &BlockRowsPlan, columns: u32, loads: impl Fn(u32) -> Vec<Load>) -> Vec<Self> {
        let k = &plan.kloop;
        let fill = |step: u32| {
            let unloaded = if step + 1 == k.steps { plan.b.unloaded_bytes(k) } else { 0 };
            Self {
                label: format!("$empty_{step}"),
                comment: match k.steps {
                    1 => format!("The block's {} of K.", k.last),
                    _ => format!("K {} to {} of the block.", step * k.k_step, step * k.k_step + k.width(step) - 1),
                },
                a_bytes: plan.a.bytes() / plan.tiling.pack,
                b_bytes: (plan.b.bytes() - unloaded) / columns,
                loads: loads(step),
            }
        };
        (0..k.steps).map(fill).collect()
    }
}
