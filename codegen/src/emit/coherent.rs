//! Loads of kernels that may start while an earlier one of the stream still writes.

use std::borrow::Cow;

use crate::{Pdl, Plan};

/// The body with loads that read what is written while the kernel runs, where an earlier one may do that.
///
/// `ld.global.nc` is for bytes that nothing writes as long as the kernel runs (PTX ISA 9.7.9.9). ptxas 13.0 therefore moves it up
/// across `griddepcontrol.wait`, and what it reads there may be from before the earlier kernel's writes.
pub(super) fn coherent<'b>(plan: &Plan, body: &'b str) -> Cow<'b, str> {
    match plan.spec().pdl {
        Pdl::Off => Cow::Borrowed(body),
        Pdl::On | Pdl::Early => Cow::Owned(body.replace("ld.global.nc.", "ld.global.")),
    }
}
