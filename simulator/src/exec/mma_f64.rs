//! `mma.sync` of f64: fragments as the ISA lays them out, sums with one rounding for each product.

use crate::machine::Machine;
use crate::machine::memory::Who;
use crate::program::op::Mma;

const N: usize = 8;

impl Machine<'_> {
    pub(super) fn mma_f64(&mut self, who: Who, m: &Mma) {
        let (rows, k) = (m.m as usize, m.k as usize);
        let halves = rows / 8;
        let (mut a, mut b, mut c) = (vec![0.0; rows * k], vec![0.0; k * N], vec![0.0; rows * N]);
        let file = &self.warps[who.w].regs;
        // Thread l, of group g = l / 4 and place t = l % 4 in it: of A, rows g and g + 8 of column t, then of t + 4, ..
        for (i, r) in m.a.iter().enumerate() {
            for (l, v) in file[*r as usize].iter().enumerate() {
                a[(i % halves * 8 + l / 4) * k + i / halves * 4 + l % 4] = f64::from_bits(*v);
            }
        }
        for (i, r) in m.b.iter().enumerate() {
            for (l, v) in file[*r as usize].iter().enumerate() {
                b[(i * 4 + l % 4) * N + l / 4] = f64::from_bits(*v);
            }
        }
        for (i, s) in m.c.iter().enumerate() {
            for (l, v) in self.values(who.w, *s).into_iter().enumerate() {
                c[place(l, i)] = f64::from_bits(v);
            }
        }
        for (row, a) in c.chunks_exact_mut(N).zip(a.chunks_exact(k)) {
            for (x, b) in a.iter().zip(b.chunks_exact(N)) {
                row.iter_mut().zip(b).for_each(|(c, y)| *c = x.mul_add(*y, *c));
            }
        }
        for (i, d) in m.d.iter().enumerate() {
            let out = std::array::from_fn(|l| c[place(l, i)].to_bits());
            self.set(who.w, who.mask, *d, &out);
        }
        self.tensor_core(who, (rows * N * k) as u64, m.a_ty);
    }
}

/// Where in C register `i` of thread `l` is.
fn place(l: usize, i: usize) -> usize {
    (l / 4 + i / 2 * 8) * N + l % 4 * 2 + i % 2
}
