//! From a spec to what the expansion embeds: the only place here that plans and emits.

use bsr_codegen::{KernelSpec, Plan, PlanErrors};

/// What the expansion embeds.
#[derive(Default)]
pub(crate) struct Compiled {
    pub(crate) ptx: String,
    pub(crate) entry: String,
    pub(crate) fingerprint: String,
    /// The plan as a table.
    pub(crate) table: String,
}

/// Plans a kernel.
///
/// # Errors
/// Every reason why the spec cannot be planned.
pub(crate) fn plan(spec: &KernelSpec) -> Result<Plan, PlanErrors> {
    Plan::new(spec)
}

/// Emits a kernel.
pub(crate) fn emit(plan: &Plan) -> Compiled {
    let ptx = plan.ptx();
    Compiled {
        ptx: ptx.text().into(),
        entry: ptx.entry().into(),
        fingerprint: ptx.fingerprint().into(),
        table: plan.to_string(),
    }
}
