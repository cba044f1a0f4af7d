//! The work list in the parameters of a launch (`work_list`): a CTA finds its tile and the tile's steps without a read of memory.
//!
//! The words are {bytes to the tiles, bytes to the steps}, the first tile of each CTA and the end of the last one, the tiles and the
//! steps, as they are in memory otherwise; zeros follow.

use crate::plan::{PlanError, PlanErrors};
use crate::spec::Key;
use crate::{KernelSpec, Op};

/// The first PTX whose kernels have more than 4352 bytes of parameters: 32,764 (PTX ISA, "Kernel Function Parameters").
pub(crate) const PTX_VERSION: &str = "8.1";
/// What a list is a multiple of, and the least.
const UNIT: u32 = 16;
const LEAST: u32 = 256;
/// The most: 32,764 less four tensor maps, and what is left for addresses, numbers and a score's parameters.
const MOST: u32 = 30 << 10;

/// Refuses lists that no launch has.
pub(super) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(bytes) = spec.work_list else { return };
    if !bytes.is_multiple_of(UNIT) || !(LEAST..=MOST).contains(&bytes) {
        errors.push(PlanError::new(
            Key::WorkList.as_str(),
            format!("work lists of {bytes} B are not supported"),
            format!(
                "a kernel has 32,764 B of parameters, of which 2,044 are for tensor maps, addresses and numbers: a multiple of {UNIT} from \
                 {LEAST} to {MOST}"
            ),
            format!("work_list = {}", (bytes / UNIT * UNIT).clamp(LEAST, MOST)),
        ));
    }
    if spec.page.is_some() {
        errors.push(PlanError::new(
            Key::WorkList.as_str(),
            format!("op = {} with keys in pages has no `work_list`", Op::Attention),
            "kernels on the GPU list its work by the lengths, in memory",
            "drop `work_list`",
        ));
    }
}
