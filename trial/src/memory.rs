//! Whether a problem fits this machine's memory.

use bsr_codegen::Dtype;
use bsr_runtime::read;

use crate::Failure;

/// Makes sure that operands fit this machine's memory: the name, the elements and the type of each.
///
/// # Errors
/// Bad input, with the arithmetic.
pub(crate) fn check(operands: &[(&str, f64, Dtype)], help: &str) -> Result<(), Failure> {
    let bytes = |(_, elements, dtype): &(&str, f64, Dtype)| elements * f64::from(dtype.bytes());
    let gigabytes = |bytes: f64| format!("{:.1}", bytes / 1e9);
    match read::memory_available() {
        Some(available) if operands.iter().map(bytes).sum::<f64>() > available as f64 => {
            let words = |operand: &(&str, f64, Dtype)| {
                format!("{} {} GB of {}", operand.0, gigabytes(bytes(operand)), operand.2)
            };
            let sum = operands.iter().map(words).collect::<Vec<_>>().join(" + ");
            let fact = "the problem does not fit this machine's memory";
            let available = gigabytes(available as f64);
            let message = format!("{fact}\n  {sum}; {available} GB are available\n  help: {help}");
            Err(Failure::bad_input(message))
        }
        _ => Ok(()),
    }
}
