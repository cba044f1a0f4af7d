//! What can go wrong with a family.

use bsr_codegen::{Dtype, Refusal};
use bsr_runtime::KernelError;

/// Why no member of a family was loaded.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FamilyError {
    /// No member is of these element types and meets the condition.
    #[error("{}", no_member(dtypes, [*typed, *members], condition))]
    NoMember {
        /// The element types of A, B and C.
        dtypes: [Dtype; 3],
        /// All members.
        members: usize,
        /// Those of these element types.
        typed: usize,
        /// The condition that none of these meets.
        condition: String,
    },
    /// A chooser named a member that there is not.
    #[error(
        "the chooser chose member {index} of {candidates}\n  help: `Chooser::choose` answers with a number below {candidates}"
    )]
    Chosen {
        /// The number it gave.
        index: usize,
        /// How many there were.
        candidates: usize,
    },
    /// The kernel could not be loaded.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

bsr_codegen::message_as_debug!(FamilyError);

fn no_member([a, b, out]: &[Dtype; 3], [typed, members]: [usize; 2], condition: &str) -> Refusal {
    if typed == 0 {
        return Refusal::new(format!("the family has no kernel for {a} x {b} -> {out}"))
            .why(format!("0 of {members} members"))
            .help("list the types in the attribute");
    }
    Refusal::new(format!("no kernel of the family meets {condition}"))
        .why(format!("{typed} of {members} members are {a} x {b} -> {out}, 0 of these meet it"))
        .help("list what is missing in the attribute, or ask for less")
}
