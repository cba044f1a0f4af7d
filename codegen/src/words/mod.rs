//! The vocabulary of a spec: the closed sets of words a key may take.
//!
//! Every set knows its canonical spelling of each value, the further spellings it accepts, and the words
//! it reserves for things that do not exist yet.

#[macro_use]
mod vocabulary;
mod choices;
mod dtype;
mod machine;
mod op;

pub use choices::{Accumulate, IndexWidth, Load, Pdl, Scale, Schedule, SplitK, Switch};
pub use dtype::{Dtype, Layout};
pub use machine::{Mma, Shape, Target};
pub use op::Op;
pub(crate) use vocabulary::Vocabulary;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_values_are_complete() {
        fn is_all<T: Vocabulary + PartialEq>(values: &[T]) -> bool {
            T::WORDS.iter().all(|(_, value)| values.contains(value))
        }
        assert!(is_all(&Op::ALL) && is_all(&Mma::ALL) && is_all(&Target::ALL) && is_all(&Shape::ALL));
    }
}
