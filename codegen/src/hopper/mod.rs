//! What the kernels of Hopper share: the warpgroups' roles, the operands in shared memory, WGMMA, TMA, the epilogue.

pub(crate) mod factors;
pub(crate) mod fused;
pub(crate) mod fused_plan;
pub(crate) mod heads;
pub(crate) mod held;
pub(crate) mod mainloop;
mod maps;
mod operand;
pub(crate) mod permute;
pub(crate) mod permuted;
pub(crate) mod problem_maps;
pub(crate) mod ring;
mod roles;
pub(crate) mod split_k;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod tma;
pub(crate) mod wgmma;

pub(crate) use fused_plan::SECOND;
pub(crate) use operand::{OperandTile, box_columns, whole_boxes};
pub(crate) use ring::{ALIGN, BARRIER};
pub(crate) use roles::{CONSUMER_OVERHEAD, Roles};
pub(crate) use wgmma::{WGMMA_M, wgmma_k};

use serde::Serialize;

use crate::emit::templates;
use crate::{KernelSpec, Pdl};

/// The body of a kernel, from the context of its family and that of every Hopper kernel.
pub(crate) fn body(template: &str, spec: &KernelSpec, family: &impl Serialize) -> String {
    /// `pdl`: the kernel may start while the one before it in the stream ends. `early`: it then reads the sparse operand at
    /// once.
    #[derive(Serialize)]
    struct Body<'f, F> {
        #[serde(flatten)]
        family: &'f F,
        pdl: bool,
        early: bool,
    }
    templates::render(template, &Body { family, pdl: spec.pdl.is_on(), early: spec.pdl == Pdl::Early })
}
