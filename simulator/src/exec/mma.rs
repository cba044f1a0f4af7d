//! `mma.sync`: fragments as the ISA lays them out.

use crate::arithmetic::product::{Element, multiply, multiply_integers};
use crate::machine::Machine;
use crate::machine::memory::Who;
use crate::program::op::Mma;
use crate::program::types::Ty;

const M: usize = 16;
const N: usize = 8;

/// The most elements of K that an instruction takes.
const K: usize = 32;

/// C, A and B, row-major; A and B may be shorter than their places.
struct Fragments<T> {
    c: [T; M * N],
    a: [T; M * K],
    b: [T; K * N],
}

/// Thread l, of group g = l / 4 and place t = l % 4 in it: a register holds `per` neighbours along k. Calls `put` with g, the
/// place of the first along k, which neighbour it is, and its bits.
fn each(file: &[u64; 32], bits: u32, mut put: impl FnMut(usize, usize, usize, u64)) {
    let per = 32 / bits as usize;
    for (l, v) in file.iter().enumerate() {
        for j in 0..per {
            put(l / 4, l % 4 * per, j, v >> (j as u32 * bits));
        }
    }
}

impl Machine<'_> {
    pub(super) fn mma(&mut self, who: Who, m: &Mma) {
        let k = m.k as usize;
        if m.d_ty == Ty::F64 {
            return self.mma_f64(who, m);
        }
        if m.d_ty == Ty::S32 {
            let Fragments { mut c, a, b } = self.fragments::<i32>(who, m);
            multiply_integers(&mut c, &a[..M * k], &b[..k * N], N, k, m.saturate);
            self.put_fragment(who, m, &c);
        } else {
            let Fragments { mut c, a, b } = self.fragments::<f32>(who, m);
            multiply(&mut c, &a[..M * k], &b[..k * N], N, k);
            self.put_fragment(who, m, &c);
        }
        self.tensor_core(who, (M * N) as u64 * u64::from(m.k), m.a_ty);
    }

    fn fragments<T: Element>(&self, who: Who, m: &Mma) -> Fragments<T> {
        let k = m.k as usize;
        let file = &self.warps[who.w].regs;
        let (mut a, mut b, mut c) = ([T::default(); M * K], [T::default(); K * N], [T::default(); M * N]);
        let bits = m.a_ty.bits();
        let per = 32 / bits as usize;
        for (i, r) in m.a.iter().enumerate() {
            let (row, column) = (i % 2 * 8, i / 2 * 4 * per);
            each(&file[*r as usize], bits, |g, t, j, v| a[(row + g) * k + column + t + j] = T::of(v, m.a_ty));
        }
        for (i, r) in m.b.iter().enumerate() {
            each(&file[*r as usize], bits, |g, t, j, v| b[(i * 4 * per + t + j) * N + g] = T::of(v, m.b_ty));
        }
        for (i, s) in m.c.iter().enumerate() {
            for (l, v) in self.values(who.w, *s).into_iter().enumerate() {
                let at = place(m.c_ty, l, i);
                c[at] = T::of(v, m.c_ty);
                if m.c_ty == Ty::F16 {
                    c[at + 1] = T::of(v >> 16, m.c_ty);
                }
            }
        }
        Fragments { c, a, b }
    }

    fn put_fragment<T: Element>(&mut self, who: Who, m: &Mma, c: &[T]) {
        for (i, d) in m.d.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                let at = place(m.d_ty, l, i);
                let low = c[at].bits(m.d_ty);
                if m.d_ty == Ty::F16 { low | c[at + 1].bits(m.d_ty) << 16 } else { low }
            });
            self.set(who.w, who.mask, *d, &out);
        }
    }
}

/// Where in C register `i` of thread `l` is; one of f16 has the next element as well.
fn place(ty: Ty, l: usize, i: usize) -> usize {
    let (row, column) = if ty == Ty::F16 { (i, 0) } else { (i / 2, i % 2) };
    (l / 4 + row * 8) * N + l % 4 * 2 + column
}
