//! From the text of a spec to its plan.

use bsr_codegen::{KernelSpec, Plan, PlanErrors};

/// Plans what must parse and may be refused.
pub(crate) fn try_plan(text: &str) -> Result<Plan, PlanErrors> {
    let spec: KernelSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Plan::new(&spec)
}

/// The text of a spec in parts, some of which may be empty.
pub(crate) fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Plans what must be planned.
pub(crate) fn plan(text: &str) -> Plan {
    try_plan(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}
