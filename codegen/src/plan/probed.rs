//! A plan whose kernel records what its roles do.

use super::Plan;
use crate::probes::{MOST_RECORDS, Probes, ProbesError, Roles};

/// What the rings of a kernel may take.
const MOST_BYTES: u64 = 1 << 31;

impl Plan {
    /// The same plan with probes in its kernel: the text has them and one parameter more, [`Argument::Probes`](super::Argument::Probes), and each role
    /// of the requested CTAs writes its slices to a ring in the layout of [`crate::probes`].
    ///
    /// # Errors
    /// [`ProbesError`] for a kernel without roles, and for rings that are too large.
    pub fn probed(&self, probes: Probes) -> Result<Self, ProbesError> {
        let roles = self.kernel().roles().ok_or(ProbesError::NoRoles { mma: self.spec().mma })?;
        let Probes { ctas, records, .. } = probes;
        let count = roles.count();
        // Bounded first, so that the bytes of a ring are a number.
        let ring = u64::from(Probes { records: records.min(MOST_RECORDS), ..probes }.ring_bytes());
        let bytes = ring.saturating_mul(u64::from(ctas) * u64::from(count));
        if ctas == 0 || records == 0 || records > MOST_RECORDS || bytes > MOST_BYTES {
            return Err(ProbesError::TooMuch { records, ctas, roles: count, ring, bytes, most: MOST_BYTES });
        }
        Ok(Self { probes: Some((probes, roles)), ..self.clone() })
    }

    /// What the kernel records, and of which roles; nothing unless it was [probed](Plan::probed).
    pub fn probes(&self) -> Option<(&Probes, &Roles)> {
        self.probes.as_ref().map(|(probes, roles)| (probes, roles))
    }
}
