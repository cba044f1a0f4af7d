//! What atomics do to memory.

use super::float;
use super::numbers::{add, raw};
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

/// The new values of `old` memory, element by element, in place of what each is combined with.
pub(crate) fn reduce_elements(f: AtomFn, ty: Ty, old: &[u8], data: &mut [u8]) {
    let e = ty.bytes() as usize;
    for (d, o) in data.chunks_mut(e).zip(old.chunks(e)) {
        let new = atomic(f, ty, raw(o), raw(d), 0);
        d.copy_from_slice(&new.to_le_bytes()[..e]);
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
