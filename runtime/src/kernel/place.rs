//! Whether operands lie on the GPU that the kernel is loaded on.

use super::KernelError;

/// Refuses operands of another GPU, by name. Of memory that was allocated elsewhere nothing is known: whoever gave it says
/// where it is.
pub(super) fn check<'o>(
    kernel: usize,
    operands: impl IntoIterator<Item = (&'o str, Option<usize>)>,
) -> Result<(), KernelError> {
    match operands.into_iter().find(|(_, on)| on.is_some_and(|on| on != kernel)) {
        Some((operand, Some(on))) => Err(KernelError::OtherDevice { operand: operand.to_owned(), on, kernel }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_of_another_gpu_is_refused_by_name() {
        assert!(check(0, [("A", Some(0)), ("B", None), ("C", Some(0))]).is_ok());
        let refused = check(1, [("A", Some(1)), ("B", None), ("C", Some(0))]);
        let words = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(words.contains("C is on GPU 0, and the kernel on GPU 1"), "{words}");
        assert!(words.contains("help: upload C to GPU 1, or load the kernel on GPU 0"), "{words}");
    }
}
