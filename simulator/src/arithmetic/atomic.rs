//! What atomics do to memory.

use super::float;
use super::numbers::add;
use crate::program::op::{AtomFn, Cmp};
use crate::program::types::{Ty, mask};

/// The new value of memory.
pub(crate) fn atomic(f: AtomFn, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    match f {
        AtomFn::Add => add(old, b, ty),
        AtomFn::Min => {
            if float::compare(Cmp::Lt, ty, false, b, old) {
                b & ty.mask()
            } else {
                old
            }
        }
        AtomFn::Max => {
            if float::compare(Cmp::Gt, ty, false, b, old) {
                b & ty.mask()
            } else {
                old
            }
        }
        AtomFn::And => old & b,
        AtomFn::Or => old | b,
        AtomFn::Xor => old ^ b,
        AtomFn::Exch => b,
        AtomFn::Cas => {
            if old == b {
                c
            } else {
                old
            }
        }
        AtomFn::Inc => {
            if old >= b & mask(32) {
                0
            } else {
                old + 1
            }
        }
        AtomFn::Dec => {
            if old == 0 || old > b & mask(32) {
                b
            } else {
                old - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics() {
        assert_eq!(atomic(AtomFn::Inc, Ty::U32, 3, 3, 0), 0);
        assert_eq!(atomic(AtomFn::Inc, Ty::U32, 2, 3, 0), 3);
        assert_eq!(atomic(AtomFn::Dec, Ty::U32, 0, 7, 0), 7);
        assert_eq!(atomic(AtomFn::Cas, Ty::B32, 5, 5, 9), 9);
        assert_eq!(atomic(AtomFn::Cas, Ty::B32, 5, 6, 9), 5);
        assert_eq!(atomic(AtomFn::Min, Ty::S32, 1, 0xffff_ffff, 0), 0xffff_ffff);
        assert_eq!(atomic(AtomFn::Add, Ty::F16x2, 0x3c00_3c00, 0x4000_3c00, 0), 0x4200_4000);
    }
}
