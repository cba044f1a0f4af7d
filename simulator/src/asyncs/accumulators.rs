//! The accumulators of a warpgroup's matrix multiplies.
//!
//! Operations that follow each other on one list of registers add to one matrix, which is taken from the registers before
//! the first and put back when a warp waits. Between the two no thread may touch the registers, and one that does is
//! reported.

use crate::arithmetic::product::Element;
use crate::machine::Machine;
use crate::machine::warpgroup::{Warpgroup, WgOp};
use crate::program::op::{Op, Wgmma};
use crate::program::types::Ty;

/// What accumulators are summed in.
pub(crate) trait Sum: Element {
    fn of_group(group: &mut Warpgroup) -> &mut Vec<Self>;
}

impl Sum for f32 {
    fn of_group(group: &mut Warpgroup) -> &mut Vec<Self> {
        &mut group.accumulators.floats
    }
}

impl Sum for i32 {
    fn of_group(group: &mut Warpgroup) -> &mut Vec<Self> {
        &mut group.accumulators.integers
    }
}

impl Machine<'_> {
    /// A warpgroup's block, and the first of its warps.
    pub(super) fn warps_of(&self, group: usize) -> (usize, usize) {
        let per_cta = self.warps_per_cta() as usize;
        let groups_per_cta = per_cta.div_ceil(4);
        let cta = group / groups_per_cta;
        (cta, cta * per_cta + group % groups_per_cta * 4)
    }

    /// The matrix that an operation adds to, zero if it does not add.
    pub(super) fn load_accumulators<T: Sum>(&mut self, group: usize, op: &WgOp, w: &Wgmma) -> &mut [T] {
        let code = &self.program.code;
        let resident = self.warpgroups[group].accumulators.resident;
        let same = resident.is_some_and(|pc| {
            pc == op.pc || matches!(&code[pc as usize].op, Op::Wgmma(h) if (h.d_ty, h.n) == (w.d_ty, w.n) && h.d == w.d)
        });
        if !same {
            self.flush_accumulators(group);
        }
        let mut acc = std::mem::take(T::of_group(&mut self.warpgroups[group]));
        acc.resize(64 * w.n as usize, T::default());
        if !op.scale_d {
            acc.fill(T::default());
        } else if !same {
            self.accumulators(self.warps_of(group).1, w, &mut acc);
        }
        self.warpgroups[group].accumulators.resident = Some(op.pc);
        let there = T::of_group(&mut self.warpgroups[group]);
        *there = acc;
        there
    }

    /// Puts the accumulators of a warpgroup back into their registers.
    pub(super) fn flush_accumulators(&mut self, group: usize) {
        let program = self.program;
        let Some(pc) = self.warpgroups[group].accumulators.resident.take() else { return };
        let Op::Wgmma(w) = &program.code[pc as usize].op else { return };
        match w.d_ty {
            Ty::S32 => self.put::<i32>(group, w),
            _ => self.put::<f32>(group, w),
        }
    }

    fn put<T: Sum>(&mut self, group: usize, w: &Wgmma) {
        let acc = std::mem::take(T::of_group(&mut self.warpgroups[group]));
        self.put_accumulators(self.warps_of(group).1, w, &acc);
        *T::of_group(&mut self.warpgroups[group]) = acc;
    }

    fn accumulators<T: Element>(&self, first: usize, w: &Wgmma, acc: &mut [T]) {
        let lanes = lane_places(w);
        for q in 0..4 {
            let file = &self.warps[first + q].regs;
            for (i, r) in w.d.iter().enumerate() {
                let acc = &mut acc[place(w, q, i)..];
                let values = lanes.iter().zip(&file[*r as usize]);
                if w.d_ty == Ty::F16 {
                    for (lane, bits) in values {
                        (acc[*lane], acc[lane + 1]) = (T::of(*bits, w.d_ty), T::of(*bits >> 16, w.d_ty));
                    }
                } else {
                    values.for_each(|(lane, bits)| acc[*lane] = T::of_word(*bits as u32));
                }
            }
        }
    }

    fn put_accumulators<T: Element>(&mut self, first: usize, w: &Wgmma, acc: &[T]) {
        let lanes = lane_places(w);
        for q in 0..4 {
            let file = &mut self.warps[first + q].regs;
            for (i, r) in w.d.iter().enumerate() {
                let acc = &acc[place(w, q, i)..];
                let values = lanes.iter().zip(&mut file[*r as usize]);
                if w.d_ty == Ty::F16 {
                    values.for_each(|(l, bits)| *bits = acc[*l].bits(w.d_ty) | acc[l + 1].bits(w.d_ty) << 16);
                } else {
                    values.for_each(|(lane, bits)| *bits = u64::from(acc[*lane].word()));
                }
            }
        }
    }
}

/// How far the other threads' elements are from the first thread's.
fn lane_places(w: &Wgmma) -> [usize; 32] {
    std::array::from_fn(|l| l / 4 * w.n as usize + l % 4 * 2)
}

/// Where in D register `i` of the first thread of warp `q` is; thread `l` has rows 16q + l/4 and + 8, columns
/// 8j + 2(l%4) and + 1. A register of f16 holds both columns.
fn place(w: &Wgmma, q: usize, i: usize) -> usize {
    let n = w.n as usize;
    if w.d_ty == Ty::F16 {
        (q * 16 + (i % 2) * 8) * n + i / 2 * 8
    } else {
        (q * 16 + (i / 2 % 2) * 8) * n + i / 4 * 8 + i % 2
    }
}
