//! `mma.sync`: fragments as the ISA lays them out.

use crate::arithmetic::product::{Element, add_integers, multiply, multiply_integers, multiply_sparse};
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};
use crate::program::op::Mma;
use crate::program::types::Ty;

/// The most rows of A.
const M: usize = 16;
const N: usize = 8;

/// C, A and B, row-major, which may be shorter than their places: those of A and B are `16 * K` and `8 * KB`.
struct Fragments<T, const A: usize, const B: usize> {
    c: [T; M * N],
    a: [T; A],
    b: [T; B],
}

/// Thread l, of group g = l / 4 and place t = l % 4 in it: a register holds `per` neighbours along k. Calls `put` with g, the
/// place of the first along k, which neighbour it is, and its bits.
#[inline]
fn each(file: &[u64; 32], bits: u32, mut put: impl FnMut(usize, usize, usize, u64)) {
    let per = 32 / bits as usize;
    for (l, v) in file.iter().enumerate() {
        for j in 0..per {
            put(l / 4, l % 4 * per, j, v >> (j as u32 * bits));
        }
    }
}

impl Machine<'_> {
    pub(super) fn mma(&mut self, who: Who, m: &Mma) -> Exec<()> {
        if m.d_ty == Ty::F64 {
            self.mma_f64(who, m);
            return Ok(());
        }
        if let Some(f) = m.bitwise {
            self.mma_bits(who, m, f);
            return Ok(());
        }
        let (k, stored) = (m.k as usize, m.stored_k() as usize);
        let places = match m.sparse {
            Some(sparse) => {
                self.metadata_is_defined(who, sparse)?;
                Some(self.places(who.w, M, who.pc, sparse)?)
            }
            None => None,
        };
        // At most 32 elements of K are stored, and 64 of 4 bits; a sparse A has half of those of B.
        match (m.d_ty == Ty::S32, &places) {
            (false, None) => self.multiply::<f32, { M * 32 }, { 32 * N }>(who, m, |c, a, b| multiply(c, a, b, N, k)),
            (true, None) => self.multiply::<i32, { M * 64 }, { 64 * N }>(who, m, |c, a, b| {
                multiply_integers(c, a, b, N, k, m.saturate);
            }),
            (false, Some(at)) => self.multiply::<f32, { M * 32 }, { 64 * N }>(who, m, |c, a, b| {
                multiply_sparse(c, a, at, b, N, stored);
            }),
            (true, Some(at)) => self.multiply::<i32, { M * 64 }, { 128 * N }>(who, m, |c, a, b| {
                add_integers(c, m.saturate, |c| multiply_sparse(c, a, at, b, N, stored));
            }),
        }
        self.tensor_core(who, u64::from(m.m) * (N * stored) as u64, m.a_ty);
        Ok(())
    }

    /// Takes the fragments, adds products to C, and puts it back.
    fn multiply<T: Element, const A: usize, const B: usize>(
        &mut self,
        who: Who,
        m: &Mma,
        add: impl FnOnce(&mut [T], &[T], &[T]),
    ) {
        let Fragments { mut c, a, b } = self.fragments::<T, A, B>(who, m);
        let rows = m.m as usize;
        add(&mut c[..rows * N], &a[..rows * m.stored_k() as usize], &b[..m.k as usize * N]);
        self.put_fragment(who, m, &c);
    }

    fn fragments<T: Element, const A: usize, const B: usize>(&self, who: Who, m: &Mma) -> Fragments<T, A, B> {
        let k = m.stored_k() as usize;
        let file = &self.warps[who.w].regs;
        let (mut a, mut b, mut c) = ([T::default(); A], [T::default(); B], [T::default(); M * N]);
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
#[inline]
pub(super) fn place(ty: Ty, l: usize, i: usize) -> usize {
    let (row, column) = if ty == Ty::F16 { (i, 0) } else { (i / 2, i % 2) };
    (l / 4 + row * 8) * N + l % 4 * 2 + column
}
