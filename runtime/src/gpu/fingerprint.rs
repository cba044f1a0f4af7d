//! What tells patterns from each other.

use crate::Structure;

/// A hash of the shape, the block and the places of the blocks; values do not count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 16]);

/// Integers that are copied at a time to be hashed.
const CHUNK: usize = 1 << 16;

fn update(hasher: &mut blake3::Hasher, integers: impl Iterator<Item = i32>) {
    hasher.update(&integers.flat_map(i32::to_le_bytes).collect::<Vec<u8>>());
}

impl Fingerprint {
    /// The fingerprint of a structure. The same on every platform.
    pub fn of(structure: &Structure) -> Self {
        Self::finished(Self::hasher(structure))
    }

    /// That of several patterns together, in this order.
    #[doc(hidden)]
    pub fn of_all(patterns: impl IntoIterator<Item = Self>) -> Self {
        let mut hasher = blake3::Hasher::new();
        patterns.into_iter().for_each(|pattern| {
            hasher.update(&pattern.0);
        });
        Self::finished(hasher)
    }

    /// That of a pattern on the GPU, which has no other's in this program.
    pub(super) fn of_pattern(shape: &Structure, id: u64) -> Self {
        let mut hasher = Self::hasher(shape);
        hasher.update(&id.to_le_bytes());
        Self::finished(hasher)
    }

    fn hasher(structure: &Structure) -> blake3::Hasher {
        let (bm, bk) = structure.block();
        let mut hasher = blake3::Hasher::new();
        for number in [structure.rows(), structure.cols(), bm, bk] {
            hasher.update(&(number as u64).to_le_bytes());
        }
        // The row pointers' length follows from rows and bm, so the two lists cannot be taken for each other. A row has fewer than
        // 2^31 blocks, so that the lower halves of its pointers tell them from all others.
        let lower = |at: &i64| *at as i32;
        structure.row_ptr().chunks(CHUNK).for_each(|part| update(&mut hasher, part.iter().map(lower)));
        structure.col_idx().chunks(CHUNK).for_each(|part| update(&mut hasher, part.iter().copied()));
        hasher
    }

    fn finished(hasher: blake3::Hasher) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(short)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn structure(cols: usize, block: (usize, usize), row_ptr: &[i32], col_idx: &[i32]) -> Structure {
        Structure::new(32, cols, block, row_ptr.to_vec(), col_idx.to_vec()).unwrap()
    }

    #[test]
    fn the_fingerprint_is_of_the_pattern() {
        let base = Fingerprint::of(&structure(64, (16, 16), &[0, 1, 3], &[2, 0, 3]));
        assert_eq!(base, Fingerprint::of(&structure(64, (16, 16), &[0, 1, 3], &[2, 0, 3])));
        for other in [
            structure(64, (16, 16), &[0, 1, 3], &[2, 1, 3]),
            structure(64, (16, 16), &[0, 2, 3], &[0, 2, 3]),
            structure(80, (16, 16), &[0, 1, 3], &[2, 0, 3]),
            structure(64, (16, 8), &[0, 1, 3], &[2, 0, 3]),
        ] {
            assert_ne!(base, Fingerprint::of(&other));
        }
        assert_eq!(base.to_string().len(), 32);
    }
}
