//! Operands of instructions, as text.

/// `base + by`, the address of a load or a store.
pub(super) fn address(base: &str, by: u32) -> String {
    if by == 0 { base.to_owned() } else { format!("{base} + {by}") }
}

/// `{ %f_acc0, %f_acc1 }`: the registers that one instruction takes together.
pub(super) fn tuple(registers: &[String]) -> String {
    format!("{{ {} }}", registers.join(", "))
}
