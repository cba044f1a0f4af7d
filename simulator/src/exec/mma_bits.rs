//! `mma.sync` of single bits: sums of the ones of combined bits.

use super::mma::place;
use crate::machine::Machine;
use crate::machine::memory::Who;
use crate::program::op::{Logic, Mma};
use crate::program::types::Ty;

const N: usize = 8;

impl Machine<'_> {
    pub(super) fn mma_bits(&mut self, who: Who, m: &Mma, f: Logic) {
        let (rows, words) = (m.m as usize, m.k as usize / 32);
        let file = &self.warps[who.w].regs;
        // Register i of thread l, of group g = l / 4 and place t = l % 4 in it: of A, 32 bits of rows g and g + 8 in turn, of the
        // first four words and then of the next; of B, of column g.
        let mut halves = [[0u32; 8]; 16];
        for (i, r) in m.a.iter().enumerate() {
            for (l, v) in file[*r as usize].iter().enumerate() {
                halves[i % 2 * 8 + l / 4][i / 2 * 4 + l % 4] = *v as u32;
            }
        }
        let mut columns = [[0u32; 8]; N];
        for (i, r) in m.b.iter().enumerate() {
            for (l, v) in file[*r as usize].iter().enumerate() {
                columns[l / 4][i * 4 + l % 4] = *v as u32;
            }
        }
        let ones = |row: usize, column: usize| -> u32 {
            let pairs = halves[row][..words].iter().zip(&columns[column]);
            pairs.map(|(a, b)| if f == Logic::And { a & b } else { a ^ b }.count_ones()).sum()
        };
        let sums: Vec<[u64; 32]> = m.c.iter().map(|c| self.values(who.w, *c)).collect();
        for (i, d) in m.d.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                let at = place(Ty::S32, l, i);
                u64::from((sums[i][l] as u32).wrapping_add(ones(at / N, at % N)))
            });
            self.set(who.w, who.mask, *d, &out);
        }
        self.tensor_core(who, (rows * N) as u64 * u64::from(m.k), m.a_ty);
    }
}
