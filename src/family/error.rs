//! What can go wrong with a family.

use std::error::Error;
use std::fmt;

use bsr_codegen::Dtype;
use bsr_runtime::KernelError;

/// Why no member of a family was loaded.
#[non_exhaustive]
pub enum FamilyError {
    /// No member is of these element types and meets the condition.
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
    Chosen {
        /// The number it gave.
        index: usize,
        /// How many there were.
        candidates: usize,
    },
    /// The kernel could not be loaded.
    Kernel(KernelError),
}

impl fmt::Display for FamilyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = |[a, b, out]: &[Dtype; 3]| format!("{a} x {b} -> {out}");
        match self {
            Self::NoMember { dtypes, members, typed: 0, .. } => {
                writeln!(f, "the family has no kernel for {}", product(dtypes))?;
                writeln!(f, "  0 of {members} members")?;
                write!(f, "  help: list the types in the attribute")
            }
            Self::NoMember { dtypes, members, typed, condition } => {
                writeln!(f, "no kernel of the family meets {condition}")?;
                writeln!(f, "  {typed} of {members} members are {}, 0 of these meet it", product(dtypes))?;
                write!(f, "  help: list what is missing in the attribute, or ask for less")
            }
            Self::Chosen { index, candidates } => {
                writeln!(f, "the chooser chose member {index} of {candidates}")?;
                write!(f, "  help: `Chooser::choose` answers with a number below {candidates}")
            }
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl Error for FamilyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Kernel(error) => error.source(),
            _ => None,
        }
    }
}

impl From<KernelError> for FamilyError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

bsr_codegen::message_as_debug!(FamilyError);
