//! Families whose members a tuner chooses.

use std::sync::Arc;

use bsr_runtime::Element;
use bsr_runtime::gpu::{Device, Plain};

use super::{Family, FamilyError, no_member, typed};
use crate::auto::{Auto, tuner};

/// A [family](Family) as a product whose member is chosen when its operands are known.
pub trait TunableFamily: Family {
    /// The family as a product whose member is chosen for its operands, by what was tuned or by the cost model, when it is
    /// launched: only members are taken. Blocks are those of the operands, and everything else that is no choice - layouts,
    /// transposition, epilogue - is that of the first member of these element types.
    ///
    /// # Errors
    /// [`FamilyError::NoMember`].
    fn auto<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
    ) -> Result<FamilyAuto<Self, A, B, C>, FamilyError> {
        let members = typed::<A, B, C>(Self::MEMBERS);
        let Some(first) = members.first() else { return Err(no_member::<A, B, C>(Self::MEMBERS, 0, "")) };
        let offered = members.iter().fold(tuner(device), |tuner, member| tuner.variant(*member.spec(), 0));
        Ok(Auto::with(device, Arc::new(offered), *first.spec()))
    }
}

impl<F: Family> TunableFamily for F {}

/// A [product](Auto) that chooses among the members of a family.
pub type FamilyAuto<F, A, B, C> = Auto<<F as Family>::Op, A, B, C, <F as Family>::Returns, <F as Family>::Further>;
