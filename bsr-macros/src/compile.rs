//! From a spec to what the expansion embeds: the only place here that plans and emits.

use bsr_codegen::{Arch, KernelSpec, Plan, PlanErrors};

/// What the expansion embeds.
#[derive(Default)]
pub(crate) struct Compiled {
    pub(crate) ptx: String,
    pub(crate) entry: String,
    pub(crate) fingerprint: String,
    /// The plan as a table.
    pub(crate) table: String,
}

/// Plans and emits a kernel.
///
/// # Errors
/// Every reason why the spec cannot be planned.
pub(crate) fn compile(spec: &KernelSpec) -> Result<Compiled, PlanErrors> {
    let plan = Plan::new(spec, &Arch::SM_90A)?;
    let ptx = plan.ptx();
    Ok(Compiled {
        ptx: ptx.text().into(),
        entry: ptx.entry().into(),
        fingerprint: ptx.fingerprint().into(),
        table: plan.to_string(),
    })
}
