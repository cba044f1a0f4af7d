//! Warp-wide matrix instructions: `ldmatrix`, `stmatrix`, `mma.sync`, `wmma`.

use super::numbers::{from_f64, to_f32};
use crate::check::FindingKind;
use crate::check::clock::{View, lanes};
use crate::check::shadow::{Proxy, Stamp};
use crate::machine::memory::{Place, Who};
use crate::machine::{Exec, Machine};
use crate::program::op::{Addr, Frag, Mma, Op, Reg, Src};
use crate::program::types::Ty;

impl Machine<'_> {
    pub(super) fn matrix(&mut self, who: Who, op: &Op) -> Exec<()> {
        if who.mask != u32::MAX {
            return self.fail(
                FindingKind::Divergence,
                who.w,
                who.mask,
                who.pc,
                "a warp-wide matrix instruction needs all 32 threads",
            );
        }
        match op {
            Op::Ldmatrix { d, trans, addr } => self.ldmatrix(who, d, *trans, addr),
            Op::Stmatrix { s, trans, addr } => self.stmatrix(who, s, *trans, addr),
            Op::Mma(m) => {
                self.mma(who, m);
                Ok(())
            }
            Op::WmmaLoad { d, frag, row, ty, addr, stride } => self.wmma_load(who, d, *frag, *row, *ty, addr, *stride),
            Op::WmmaStore { s, row, ty, addr, stride } => self.wmma_store(who, s, *row, *ty, addr, *stride),
            Op::WmmaMma { d, a, b, c, ty, d_ty, c_ty } => {
                self.wmma_mma(who, [d, a, b, c], *ty, *d_ty, *c_ty);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The whole warp reads or writes: any thread's later release covers it only with the others' (bar.warp.sync).
    fn whole(&self, who: Who) -> (Stamp, View) {
        let stamp = self.stamp(who.w, u32::MAX, who.pc, Proxy::Generic);
        let mut view = self.view_of(who.w, 0);
        for l in 1..32 {
            view.meet(&self.view_of(who.w, l));
        }
        (stamp, view)
    }

    fn row_place(&mut self, who: Who, lane: u32, addr: &Addr) -> Exec<Place> {
        match self.resolve(who, lane, addr, 16, 16)? {
            p @ Place::Shared(cta, offset) => {
                self.check_opaque(who, cta, offset, 16)?;
                Ok(p)
            }
            _ => self.fail(
                FindingKind::OutOfBounds,
                who.w,
                1 << lane,
                who.pc,
                "the rows of ldmatrix and stmatrix lie in shared memory",
            ),
        }
    }

    fn ldmatrix(&mut self, who: Who, d: &[Reg], trans: bool, addr: &Addr) -> Exec<()> {
        let (stamp, view) = self.whole(who);
        for (i, d) in d.iter().enumerate() {
            let mut m = [[0u16; 8]; 8];
            for (r, row) in m.iter_mut().enumerate() {
                let place = self.row_place(who, (i * 8 + r) as u32, addr)?;
                let mut bytes = [0u8; 16];
                self.load(&stamp, &view, place, &mut bytes)?;
                for (c, v) in row.iter_mut().enumerate() {
                    *v = u16::from_le_bytes([bytes[2 * c], bytes[2 * c + 1]]);
                }
            }
            let out = std::array::from_fn(|l| {
                let at = |j: usize| if trans { m[l % 4 * 2 + j][l / 4] } else { m[l / 4][l % 4 * 2 + j] };
                u64::from(at(0)) | u64::from(at(1)) << 16
            });
            self.set(who.w, who.mask, *d, &out);
        }
        Ok(())
    }

    fn stmatrix(&mut self, who: Who, s: &[Reg], trans: bool, addr: &Addr) -> Exec<()> {
        let (stamp, view) = self.whole(who);
        for (i, s) in s.iter().enumerate() {
            let mut m = [[0u16; 8]; 8];
            for (l, v) in self.warps[who.w].regs[*s as usize].iter().enumerate() {
                for j in 0..2 {
                    let bits = (v >> (16 * j)) as u16;
                    if trans { m[l % 4 * 2 + j][l / 4] = bits } else { m[l / 4][l % 4 * 2 + j] = bits }
                }
            }
            for (r, row) in m.iter().enumerate() {
                let place = self.row_place(who, (i * 8 + r) as u32, addr)?;
                let mut bytes = [0u8; 16];
                for (c, v) in row.iter().enumerate() {
                    bytes[2 * c..2 * c + 2].copy_from_slice(&v.to_le_bytes());
                }
                self.store(&stamp, &view, place, &bytes)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::needless_range_loop)] // the lane is more than an index
    fn mma(&mut self, who: Who, m: &Mma) {
        let k = m.k as usize;
        let file = &self.warps[who.w].regs;
        let (mut a, mut b) = (vec![0f32; 16 * k], vec![0f32; k * 8]);
        for l in 0..32 {
            let (g, t) = (l / 4, l % 4);
            let pairs = |r: Reg| {
                let v = file[r as usize][l];
                (to_f32(v & 0xffff, m.a_ty), to_f32(v >> 16 & 0xffff, m.a_ty))
            };
            for (i, r) in m.a.iter().enumerate() {
                let row = g + i % 2 * 8;
                if m.a_ty == Ty::Tf32 {
                    a[row * k + t + i / 2 * 4] = to_f32(file[*r as usize][l], Ty::Tf32);
                } else {
                    let at = row * k + t * 2 + i / 2 * 8;
                    (a[at], a[at + 1]) = pairs(*r);
                }
            }
            for (i, r) in m.b.iter().enumerate() {
                if m.b_ty == Ty::Tf32 {
                    b[(t + i * 4) * 8 + g] = to_f32(file[*r as usize][l], Ty::Tf32);
                } else {
                    let row = t * 2 + i * 8;
                    (b[row * 8 + g], b[(row + 1) * 8 + g]) = pairs(*r);
                }
            }
        }
        let mut c = vec![0f32; 16 * 8];
        let sources: Vec<[u64; 32]> = m.c.iter().map(|s| self.values(who.w, *s)).collect();
        for l in 0..32 {
            for (i, v) in sources.iter().enumerate() {
                if m.c_ty == Ty::F32 {
                    c[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2] = f32::from_bits(v[l] as u32);
                } else {
                    let at = (l / 4 + i * 8) * 8 + l % 4 * 2;
                    (c[at], c[at + 1]) = (to_f32(v[l] & 0xffff, Ty::F16), to_f32(v[l] >> 16 & 0xffff, Ty::F16));
                }
            }
        }
        multiply(&mut c, &a, &b, 8, k);
        self.cost.flops += 2 * 16 * 8 * u64::from(m.k);
        for (i, d) in m.d.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                if m.d_ty == Ty::F32 {
                    u64::from(c[(l / 4 + i / 2 * 8) * 8 + l % 4 * 2 + i % 2].to_bits())
                } else {
                    let at = (l / 4 + i * 8) * 8 + l % 4 * 2;
                    half(c[at]) | half(c[at + 1]) << 16
                }
            });
            self.set(who.w, who.mask, *d, &out);
        }
    }

    // wmma fragments are opaque; here lane `l` holds elements 8l .. 8l + 8 of the row-major 16 x 16 matrix, and the
    // eight-register fragments of f16 hold them twice.

    #[allow(clippy::too_many_arguments)]
    fn wmma_load(&mut self, who: Who, d: &[Reg], frag: Frag, row: bool, ty: Ty, addr: &Addr, stride: Src) -> Exec<()> {
        let m = self.wmma_elements(who, row, ty, addr, stride, None)?;
        let single = ty == Ty::F32;
        for (i, d) in d.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                if single { m[l * 8 + i] } else { m[l * 8 + i % 4 * 2] | m[l * 8 + i % 4 * 2 + 1] << 16 }
            });
            self.set(who.w, who.mask, *d, &out);
        }
        let _ = frag;
        Ok(())
    }

    fn wmma_store(&mut self, who: Who, s: &[Reg], row: bool, ty: Ty, addr: &Addr, stride: Src) -> Exec<()> {
        let file = &self.warps[who.w].regs;
        let mut m = vec![0u64; 256];
        for (i, s) in s.iter().enumerate() {
            for (l, v) in file[*s as usize].iter().enumerate() {
                if ty == Ty::F32 {
                    m[l * 8 + i] = *v;
                } else {
                    (m[l * 8 + i * 2], m[l * 8 + i * 2 + 1]) = (v & 0xffff, v >> 16 & 0xffff);
                }
            }
        }
        self.wmma_elements(who, row, ty, addr, stride, Some(m)).map(|_| ())
    }

    /// Loads, or stores `put`: 256 elements, row-major.
    fn wmma_elements(
        &mut self,
        who: Who,
        row: bool,
        ty: Ty,
        addr: &Addr,
        stride: Src,
        put: Option<Vec<u64>>,
    ) -> Exec<Vec<u64>> {
        let e = ty.bytes();
        let base = self.raw_address(who.w, 0, addr);
        let uniform = lanes(who.mask).all(|l| self.raw_address(who.w, l, addr) == base);
        if !uniform {
            return self.fail(
                FindingKind::Divergence,
                who.w,
                who.mask,
                who.pc,
                "the threads of a wmma access give different addresses",
            );
        }
        let stride = self.value(who.w, 0, stride) as u32;
        let mut out = put.unwrap_or_else(|| vec![0; 256]);
        let storing = matches!(self.program.code[who.pc as usize].op, Op::WmmaStore { .. });
        let (stamp, view) = self.whole(who);
        for line in 0..16u32 {
            let a = Addr { base: Src::Imm(base), offset: i64::from(line * stride * e), space: addr.space };
            let place = self.resolve(who, 0, &a, 16 * e, (16 * e).min(32))?;
            let mut bytes = vec![0u8; (16 * e) as usize];
            if !storing {
                self.load(&stamp, &view, place, &mut bytes)?;
            }
            for i in 0..16u32 {
                let index = if row { line * 16 + i } else { i * 16 + line } as usize;
                let at = (i * e) as usize..((i + 1) * e) as usize;
                if storing {
                    bytes[at].copy_from_slice(&out[index].to_le_bytes()[..e as usize]);
                } else {
                    out[index] = bytes[at].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
                }
            }
            if storing {
                self.store(&stamp, &view, place, &bytes)?;
            }
        }
        Ok(out)
    }

    fn wmma_mma(&mut self, who: Who, [d, a, b, c]: [&Vec<Reg>; 4], ty: Ty, d_ty: Ty, c_ty: Ty) {
        let file = &self.warps[who.w].regs;
        let read = |regs: &[Reg], ty: Ty| {
            let mut m = vec![0f32; 256];
            for (i, r) in regs.iter().enumerate() {
                for (l, v) in file[*r as usize].iter().enumerate() {
                    if ty == Ty::F32 {
                        m[l * 8 + i] = f32::from_bits(*v as u32);
                    } else {
                        let at = l * 8 + i % 4 * 2;
                        (m[at], m[at + 1]) = (to_f32(v & 0xffff, ty), to_f32(v >> 16 & 0xffff, ty));
                    }
                }
            }
            m
        };
        let (a, b, mut c) = (read(a, ty), read(b, ty), read(c, c_ty));
        multiply(&mut c, &a, &b, 16, 16);
        self.cost.flops += 2 * 16 * 16 * 16;
        for (i, d) in d.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                if d_ty == Ty::F32 {
                    u64::from(c[l * 8 + i].to_bits())
                } else {
                    half(c[l * 8 + i * 2]) | half(c[l * 8 + i * 2 + 1]) << 16
                }
            });
            self.set(who.w, who.mask, *d, &out);
        }
    }
}

fn half(v: f32) -> u64 {
    from_f64(f64::from(v), Ty::F16)
}

/// C += A * B, row-major, `n` columns.
fn multiply(c: &mut [f32], a: &[f32], b: &[f32], n: usize, k: usize) {
    for (row, a) in c.chunks_mut(n).zip(a.chunks(k)) {
        for (x, b) in a.iter().zip(b.chunks(n)) {
            for (c, y) in row.iter_mut().zip(b) {
                *c += x * y;
            }
        }
    }
}
