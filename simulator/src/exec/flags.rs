//! Instructions whose result is a predicate, or which read and write the carry flag.

use super::combine;
use crate::address::{Window, classify, split_shared};
use crate::arithmetic::{float, int};
use crate::check::clock::lanes;
use crate::machine::Machine;
use crate::machine::memory::Who;
use crate::program::op::{Extended, IntFn, Op, PredSrc};
use crate::program::types::{Space, Ty, sign_extend};

impl Machine<'_> {
    pub(super) fn flags(&mut self, who: Who, op: &Op) {
        let w = who.w;
        match op {
            Op::Testp { class, ty, p, a } => {
                let values = self.values(w, *a);
                let is = |l: u32| float::is(*class, *ty, values[l as usize]);
                self.warps[w].set_pred(*p, who.mask, lanes_where(who, is));
            }
            Op::Isspacep { space, p, a } => {
                let (values, own) = (self.values(w, *a), self.warps[w].cta as u32);
                let is = |l: u32| match (space, classify(values[l as usize])) {
                    (Space::Global, Window::Global(_))
                    | (Space::Param, Window::Param(_))
                    | (Space::Local, Window::Local(_))
                    | (Space::SharedCluster, Window::Shared(_)) => true,
                    (Space::SharedCta, Window::Shared(at)) => split_shared(at).0 == own,
                    _ => false,
                };
                self.warps[w].set_pred(*p, who.mask, lanes_where(who, is));
            }
            Op::Lop3 { f, d, p, s, table, q } => {
                let [a, b, c] = s.map(|s| self.values(w, s));
                let out: [u64; 32] =
                    std::array::from_fn(|l| int::apply(IntFn::Lop3, Ty::B32, a[l], b[l], c[l], *table).unwrap_or(0));
                let with = self.predicate(w, *q);
                let any = lanes_where(who, |l| out[l as usize] != 0);
                if let Some(d) = d {
                    self.set(w, who.mask, *d, &out);
                }
                self.warps[w].set_pred(*p, who.mask, combine(*f, any, with));
            }
            Op::Extended { f, ty, d, s, flag, takes, gives } => {
                let [a, b, c] = s.map(|s| self.values(w, s));
                let carried = match takes {
                    true => self.predicate(w, PredSrc { reg: Some(*flag), negated: false }),
                    false => 0,
                };
                let of = |l: usize| extended(*f, *ty, [a[l], b[l], c[l]], carried >> l & 1 == 1);
                let out = std::array::from_fn(|l| of(l).0);
                let carries = lanes_where(who, |l| of(l as usize).1);
                self.set(w, who.mask, *d, &out);
                if *gives {
                    self.warps[w].set_pred(*flag, who.mask, carries);
                }
            }
            _ => {}
        }
    }
}

fn lanes_where(who: Who, is: impl Fn(u32) -> bool) -> u32 {
    lanes(who.mask).fold(0, |all, l| all | u32::from(is(l)) << l)
}

/// The result, and the carry (of a difference the borrow).
fn extended(f: Extended, ty: Ty, [a, b, c]: [u64; 3], carried: bool) -> (u64, bool) {
    let (bits, m) = (ty.bits(), ty.mask());
    let [a, b, c] = [a & m, b & m, c & m];
    if f == Extended::Sub {
        let taken = u128::from(b) + u128::from(carried);
        return (a.wrapping_sub(taken as u64) & m, u128::from(a) < taken);
    }
    let product = || match ty.signed() {
        true => (i128::from(sign_extend(a, bits)) * i128::from(sign_extend(b, bits))).cast_unsigned(),
        false => u128::from(a) * u128::from(b),
    };
    let (first, second) = match f {
        Extended::MadLo => (product() as u64 & m, c),
        Extended::MadHi => ((product() >> bits) as u64 & m, c),
        _ => (a, b),
    };
    let sum = u128::from(first) + u128::from(second) + u128::from(carried);
    (sum as u64 & m, sum > u128::from(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_go_from_one_word_to_the_next() {
        let word = u64::from(u32::MAX);
        assert_eq!(extended(Extended::Add, Ty::U32, [word, 1, 0], false), (0, true));
        assert_eq!(extended(Extended::Add, Ty::U32, [word, 0, 0], true), (0, true));
        assert_eq!(extended(Extended::Add, Ty::U64, [u64::MAX, u64::MAX, 0], true), (u64::MAX, true));
        assert_eq!(extended(Extended::Sub, Ty::U32, [0, 0, 0], true), (word, true));
        assert_eq!(extended(Extended::Sub, Ty::U32, [5, 4, 0], true), (0, false));
        assert_eq!(extended(Extended::MadHi, Ty::U32, [word, word, 1], false), (word, false));
        assert_eq!(extended(Extended::MadLo, Ty::U32, [word, word, word], false), (0, true));
        assert_eq!(extended(Extended::MadHi, Ty::S32, [word, 2, 0], false), (word, false));
    }
}
