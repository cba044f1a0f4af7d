//! `wmma`: whole matrices in fragments that only its own instructions can read.
//!
//! The ISA says nothing of which element a thread holds. Here lane `l` of a matrix with 32 p elements holds p of them
//! from `l * p` on, over and over where there are more places than elements. A and B are counted as they are in
//! memory, so that a fragment which is loaded by rows and multiplied as columns gives a wrong product, as on hardware.

use crate::arithmetic::numbers;
use crate::arithmetic::product::{Element, multiply};
use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::memory::{Place, Who};
use crate::machine::{Exec, Machine};
use crate::program::op::{Addr, Frag, Reg, Src, WMMA_K, WmmaMatrix, WmmaMma};

impl WmmaMatrix {
    /// The number of an element in its fragment.
    fn number(&self, row: u32, column: u32) -> usize {
        let by_rows = self.row_major || self.frag == Frag::C;
        (if by_rows { row * self.columns() + column } else { column * self.rows() + row }) as usize
    }

    /// The number of the element in slot `slot` of a lane.
    fn element(&self, lane: usize, slot: usize) -> usize {
        let each = self.elements() / 32;
        lane * each + slot % each
    }

    fn per_register(&self) -> usize {
        4 / self.ty.bytes() as usize
    }
}

/// Bytes of the longest line: 32 elements of single precision.
const LONGEST: usize = 128;

impl Machine<'_> {
    pub(super) fn wmma_load(&mut self, who: Who, d: &[Reg], m: &WmmaMatrix, addr: &Addr, stride: Src) -> Exec<()> {
        let mut all = vec![0u64; m.elements()];
        let e = m.ty.bytes() as usize;
        self.wmma_lines(who, m, addr, stride, |machine, line, place| {
            let (stamp, view) = machine.whole(who);
            let mut buffer = [0u8; LONGEST];
            let length = m.lines().1 as usize;
            machine.load(&stamp, &view, place, &mut buffer[..length * e])?;
            for (i, element) in buffer[..length * e].chunks(e).enumerate() {
                let (row, column) = if m.row_major { (line, i as u32) } else { (i as u32, line) };
                all[m.number(row, column)] = numbers::raw(element);
            }
            Ok(())
        })?;
        self.put_wmma(who, d, m, &all);
        Ok(())
    }

    pub(super) fn wmma_store(&mut self, who: Who, s: &[Reg], m: &WmmaMatrix, addr: &Addr, stride: Src) -> Exec<()> {
        let all = self.wmma_bits(who, s, m);
        let e = m.ty.bytes() as usize;
        self.wmma_lines(who, m, addr, stride, |machine, line, place| {
            let (stamp, view) = machine.whole(who);
            let mut buffer = [0u8; LONGEST];
            let length = m.lines().1 as usize;
            for (i, raw) in buffer[..length * e].chunks_mut(e).enumerate() {
                let (row, column) = if m.row_major { (line, i as u32) } else { (i as u32, line) };
                raw.copy_from_slice(&all[m.number(row, column)].to_le_bytes()[..e]);
            }
            machine.store(&stamp, &view, place, &buffer[..length * e])
        })
    }

    /// Every line of a matrix in memory, its place checked.
    fn wmma_lines(
        &mut self,
        who: Who,
        m: &WmmaMatrix,
        addr: &Addr,
        stride: Src,
        mut each: impl FnMut(&mut Self, u32, Place) -> Exec<()>,
    ) -> Exec<()> {
        let (base, step) = (self.raw_address(who.w, 0, addr), self.value(who.w, 0, stride) as u32);
        let same = |machine: &Self, l| {
            machine.raw_address(who.w, l, addr) == base && machine.value(who.w, l, stride) as u32 == step
        };
        if !lanes(who.mask).all(|l| same(self, l)) {
            return self.fail(
                FindingKind::Divergence,
                who.w,
                who.mask,
                who.pc,
                "the threads of a wmma access give different addresses or strides",
            );
        }
        let e = m.ty.bytes();
        let (lines, length) = m.lines();
        // The programming guide's rule, and the least that ldmatrix, which this becomes, can do with.
        let aligned = |line| if line == 0 { (length * e).min(32) } else { 16 };
        for line in 0..lines {
            let offset = i64::from(line) * i64::from(step) * i64::from(e);
            let at = Addr { base: Src::Imm(base), offset, space: addr.space };
            let place = self.resolve(who, 0, &at, length * e, aligned(line))?;
            if let Place::Shared(cta, offset) = place {
                self.check_opaque(who, cta, offset, length * e)?;
            }
            each(self, line, place)?;
        }
        Ok(())
    }

    pub(super) fn wmma_mma(&mut self, who: Who, op: &WmmaMma) {
        let dense = |m: &WmmaMatrix, bits: Vec<u64>| {
            let mut out = vec![0f32; bits.len()];
            for row in 0..m.rows() {
                for column in 0..m.columns() {
                    out[(row * m.columns() + column) as usize] = f32::of(bits[m.number(row, column)], m.ty);
                }
            }
            out
        };
        let a = dense(&op.a, self.wmma_bits(who, &op.a_regs, &op.a));
        let b = dense(&op.b, self.wmma_bits(who, &op.b_regs, &op.b));
        let mut c = dense(&op.c, self.wmma_bits(who, &op.c_regs, &op.c));
        multiply(&mut c, &a, &b, op.c.n as usize, WMMA_K as usize);
        self.tensor_core(who, op.c.elements() as u64 * u64::from(WMMA_K), op.a.ty);
        let bits: Vec<u64> = c.iter().map(|v| v.bits(op.d.ty)).collect();
        self.put_wmma(who, &op.d_regs, &op.d, &bits);
    }

    /// The elements of a fragment, by number.
    fn wmma_bits(&self, who: Who, regs: &[Reg], m: &WmmaMatrix) -> Vec<u64> {
        let file = &self.warps[who.w].regs;
        let (per, bits) = (m.per_register(), m.ty.bits());
        let mut all = vec![0u64; m.elements()];
        for (i, r) in regs.iter().enumerate() {
            for (l, v) in file[*r as usize].iter().enumerate() {
                for j in 0..per {
                    all[m.element(l, i * per + j)] = v >> (j as u32 * bits) & m.ty.mask();
                }
            }
        }
        all
    }

    fn put_wmma(&mut self, who: Who, regs: &[Reg], m: &WmmaMatrix, all: &[u64]) {
        let (per, bits) = (m.per_register(), m.ty.bits());
        for (i, r) in regs.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                (0..per).fold(0, |v, j| v | all[m.element(l, i * per + j)] << (j as u32 * bits))
            });
            self.set(who.w, who.mask, *r, &out);
        }
    }
}
