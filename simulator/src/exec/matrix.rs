//! Warp-wide matrix instructions: what they have in common, `ldmatrix` and `stmatrix`.

use crate::check::FindingKind;
use crate::check::clock::View;
use crate::check::shadow::{Proxy, Stamp};
use crate::machine::memory::{Place, Who};
use crate::machine::{Exec, Machine};
use crate::program::op::{Addr, Op, Reg};
use crate::program::types::Ty;
use crate::trace;

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
            Op::Movmatrix { d, a } => {
                self.movmatrix(who, *d, *a);
                Ok(())
            }
            Op::Mma(m) => self.mma(who, m),
            Op::MmaQuads(m) => {
                self.mma_quads(who, m);
                Ok(())
            }
            Op::WmmaLoad { d, matrix, addr, stride } => self.wmma_load(who, d, matrix, addr, *stride),
            Op::WmmaStore { s, matrix, addr, stride } => self.wmma_store(who, s, matrix, addr, *stride),
            Op::WmmaMma(m) => {
                self.wmma_mma(who, m);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A warp-wide multiply of so many products waits for the block's tensor core and keeps it busy.
    pub(super) fn tensor_core(&mut self, who: Who, products: u64, ty: Ty) {
        let cycles = trace::warp_multiply_cycles(products, ty.bits());
        let warp = &mut self.warps[who.w];
        let cta = &mut self.ctas[warp.cta];
        warp.now = warp.now.max(cta.tensor_free);
        cta.tensor_free = warp.now + cycles;
        self.cost.tensor_cycles += cycles;
        self.cost.flops += 2 * products;
    }

    /// The whole warp reads or writes a `wmma` matrix: any thread's later release covers it only with the others' (bar.warp.sync).
    pub(super) fn whole(&self, who: Who) -> (Stamp, View) {
        let stamp = self.stamp(who.w, u32::MAX, who.pc, Proxy::Generic);
        let mut view = self.view_of(who.w, 0);
        for l in 1..32 {
            view.meet(&self.view_of(who.w, l));
        }
        (stamp, view)
    }

    /// The thread that gives a row's address accesses it: what other threads of the warp did is ordered by a barrier
    /// alone.
    fn row_access(&self, who: Who, lane: u32) -> (Stamp, View) {
        (self.stamp(who.w, 1 << lane, who.pc, Proxy::Generic), self.view_of(who.w, lane))
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
                "the rows of ldmatrix and stmatrix must be in shared memory",
            ),
        }
    }

    fn movmatrix(&mut self, who: Who, d: Reg, a: Reg) {
        let rows = self.warps[who.w].regs[a as usize];
        let element = |row: usize, column: usize| rows[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
        let out = std::array::from_fn(|l| {
            let (row, column) = (l / 4, l % 4 * 2);
            element(column, row) | element(column + 1, row) << 16
        });
        self.set(who.w, who.mask, d, &out);
    }

    fn ldmatrix(&mut self, who: Who, d: &[Reg], trans: bool, addr: &Addr) -> Exec<()> {
        for (i, d) in d.iter().enumerate() {
            let mut m = [[0u16; 8]; 8];
            for (r, row) in m.iter_mut().enumerate() {
                let (stamp, view) = self.row_access(who, (i * 8 + r) as u32);
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
        for (i, s) in s.iter().enumerate() {
            let mut m = [[0u16; 8]; 8];
            for (l, v) in self.warps[who.w].regs[*s as usize].iter().enumerate() {
                for j in 0..2 {
                    let bits = (v >> (16 * j)) as u16;
                    if trans { m[l % 4 * 2 + j][l / 4] = bits } else { m[l / 4][l % 4 * 2 + j] = bits }
                }
            }
            for (r, row) in m.iter().enumerate() {
                let (stamp, view) = self.row_access(who, (i * 8 + r) as u32);
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
}
