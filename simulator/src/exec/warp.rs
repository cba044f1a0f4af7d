//! Instructions across the threads of a warp: shuffles, votes, election.

use crate::arithmetic::atomic::atomic;
use crate::check::clock::lanes;
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};
use crate::program::op::{Op, Shfl, Vote};
use crate::schedule::{Random, Schedule};

impl Machine<'_> {
    pub(super) fn warp_wide(&mut self, who: Who, op: &Op) -> Exec<()> {
        let w = who.w;
        match op {
            Op::Shfl { f, d, p, a, b, c, .. } => {
                let (v, n, clamp) = (self.values(w, *a), self.values(w, *b), self.values(w, *c));
                let mut out = [0u64; 32];
                let mut valid = 0;
                for l in lanes(who.mask) {
                    let (from, ok) = source(*f, l, n[l as usize] as u32, clamp[l as usize] as u32);
                    // Reading a thread that does not take part gives an undefined value: a recognisable one.
                    out[l as usize] = if who.mask >> from & 1 == 1 { v[from as usize] } else { 0xdead_beef };
                    valid |= u32::from(ok) << l;
                }
                self.set(w, who.mask, *d, &out);
                if let Some(p) = p {
                    self.warps[w].set_pred(*p, who.mask, valid);
                }
            }
            Op::Vote { f, d, a, .. } => {
                let yes = self.holds(w, *a) & who.mask;
                let holds = match f {
                    Vote::Ballot => {
                        self.set(w, who.mask, *d, &[u64::from(yes); 32]);
                        return Ok(());
                    }
                    Vote::All => yes == who.mask,
                    Vote::Any => yes != 0,
                    Vote::Uni => yes == who.mask || yes == 0,
                };
                self.warps[w].set_pred(*d, who.mask, if holds { u32::MAX } else { 0 });
            }
            Op::Match { all, ty, d, p, a, .. } => {
                let v = self.values(w, *a).map(|x| x & ty.mask());
                let mut out = [0u64; 32];
                let same =
                    |l: u32| lanes(who.mask).filter(|m| v[*m as usize] == v[l as usize]).fold(0u32, |s, m| s | 1 << m);
                let mut every = true;
                for l in lanes(who.mask) {
                    let s = same(l);
                    every &= s == who.mask;
                    out[l as usize] = u64::from(s);
                }
                if *all && !every {
                    out = [0; 32];
                }
                self.set(w, who.mask, *d, &out);
                if let Some(p) = p {
                    self.warps[w].set_pred(*p, who.mask, if every { u32::MAX } else { 0 });
                }
            }
            Op::Redux { f, ty, d, a, .. } => {
                let v = self.values(w, *a);
                let total = lanes(who.mask).map(|l| v[l as usize]).reduce(|x, y| atomic(*f, *ty, x, y, 0)).unwrap_or(0);
                self.set(w, who.mask, *d, &[total; 32]);
            }
            Op::Activemask { d } => self.set(w, who.mask, *d, &[u64::from(who.mask); 32]),
            Op::Elect { d, p, .. } => {
                // Which thread is elected is not defined, only that the same members elect the same one.
                let nth = match self.options.schedule {
                    Schedule::Scrambled if !self.options.lowest_leader => {
                        Random::new(self.options.seed ^ u64::from(who.mask)).below(u64::from(who.mask.count_ones()))
                    }
                    _ => 0,
                };
                let leader = lanes(who.mask).nth(nth as usize).unwrap_or(0);
                self.warps[w].set_pred(*p, who.mask, 1 << leader);
                if let Some(d) = d {
                    self.set(w, who.mask, *d, &[u64::from(leader); 32]);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The lane a thread reads from, and whether it is in range.
pub(super) fn source(f: Shfl, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let max = (lane & segment) | (clamp & !segment);
    let min = lane & segment;
    let (j, ok) = match f {
        Shfl::Up => {
            let j = lane.wrapping_sub(b);
            (j, (j as i32) >= (max as i32))
        }
        Shfl::Down => (lane + b, lane + b <= max),
        Shfl::Bfly => (lane ^ b, lane ^ b <= max),
        Shfl::Idx => {
            let j = min | (b & !segment);
            (j, j <= max)
        }
    };
    if ok { (j & 31, true) } else { (lane, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_follow_the_isa() {
        assert_eq!(source(Shfl::Idx, 5, 0, 31), (0, true));
        assert_eq!(source(Shfl::Up, 5, 1, 0), (4, true));
        assert_eq!(source(Shfl::Up, 0, 1, 0), (0, false));
        assert_eq!(source(Shfl::Down, 31, 1, 31), (31, false));
        assert_eq!(source(Shfl::Down, 3, 2, 31), (5, true));
        assert_eq!(source(Shfl::Bfly, 3, 1, 31), (2, true));
        // Segments of 8: c = ((-8) & 31) << 8 | 31.
        let c = 24 << 8 | 31;
        assert_eq!(source(Shfl::Idx, 13, 2, c), (10, true));
        assert_eq!(source(Shfl::Down, 7, 1, 24 << 8 | 7), (7, false));
    }
}
