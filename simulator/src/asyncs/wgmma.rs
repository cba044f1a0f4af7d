//! One `wgmma.mma_async`: descriptors, operands, and the multiply as a native loop.
//!
//! Numerics: products are exact; each sum of k products and the accumulator is made in single precision, in the order
//! of k, rounding to nearest. The tensor core sums a k step with more care and truncates: results agree to the last
//! bits of single precision, not bit by bit. Integers are exact.

use super::reduced;
use crate::address::SHARED_BASE;
use crate::arithmetic::product::{Element, add_integers, multiply, multiply_integers, multiply_sparse};
use crate::check::FindingKind;
use crate::machine::launch::Fp8Accumulate;
use crate::machine::tensor_map::Swizzle;
use crate::machine::warpgroup::WgOp;
use crate::machine::{Exec, Machine};
use crate::program::op::{WgA, Wgmma};
use crate::program::types::Ty;

/// A decoded shared-memory matrix descriptor; addresses and offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) start: u32,
    pub(crate) leading: u32,
    pub(crate) stride: u32,
    pub(crate) base_offset: u32,
    pub(crate) swizzle: Swizzle,
}

impl Descriptor {
    pub(crate) fn decode(bits: u64) -> Self {
        let field = |at: u32| ((bits >> at & 0x3fff) << 4) as u32;
        Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base_offset: (bits >> 49 & 7) as u32,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::B128,
                2 => Swizzle::B64,
                _ => Swizzle::B32,
            },
        }
    }

    /// Shared address of the 16-byte unit `unit` along the contiguous direction.
    ///
    /// K-major: `line` is the row (m or n), units run along k. MN-major: `line` is k, units run along m or n.
    pub(crate) fn unit(&self, mn_major: bool, line: u32, unit: u32) -> u32 {
        let span = self.swizzle.span();
        let per_atom = span / 16;
        let linear = match (mn_major, self.swizzle) {
            // 8 x 16-byte core matrices, each 128 bytes in a row.
            (false, Swizzle::None) => line / 8 * self.stride + line % 8 * 16 + unit * self.leading,
            (true, Swizzle::None) => unit * self.stride + line / 8 * self.leading + line % 8 * 16,
            (false, _) => line / 8 * self.stride + line % 8 * span + unit * 16,
            (true, _) => {
                unit / per_atom * self.leading + line / 8 * self.stride + line % 8 * span + unit % per_atom * 16
            }
        };
        let a = self.start.wrapping_add(linear) & 0x3_ffff;
        // The pattern repeats from a boundary of 8 spans unless the base offset says where it starts.
        let phase = (a >> 7).wrapping_sub(self.base_offset) & (per_atom - 1);
        a ^ phase << 4
    }
}

impl Machine<'_> {
    /// Reads an operand of `lines` lines by `units` units of 16 bytes; bytes, line by line.
    fn operand(
        &mut self,
        op: &WgOp,
        cta: usize,
        d: Descriptor,
        mn_major: bool,
        lines: u32,
        units: u32,
    ) -> Exec<Vec<u8>> {
        let size = self.ctas[cta].shared.len() as u32;
        let mut out = vec![0u8; (lines * units * 16) as usize];
        let mut run: Option<(u32, u32)> = None;
        for line in 0..lines {
            for unit in 0..units {
                let a = d.unit(mn_major, line, unit);
                let offset = a.wrapping_sub(SHARED_BASE);
                if offset >= size || offset + 16 > size {
                    let text = format!(
                        "a descriptor reaches byte {a:#x} of shared memory; the block's {size} bytes start at {SHARED_BASE:#x}"
                    );
                    return self.fail(FindingKind::OutOfBounds, op.stamp.warp as usize, u32::MAX, op.pc, text);
                }
                let at = ((line * units + unit) * 16) as usize;
                out[at..at + 16].copy_from_slice(&self.ctas[cta].shared[offset as usize..offset as usize + 16]);
                // Units that touch are checked together.
                run = match run {
                    Some((from, to)) if to == offset => Some((from, to + 16)),
                    Some((from, to)) if from == offset + 16 => Some((offset, to)),
                    Some((from, to)) => {
                        self.check_shared_read(&op.stamp, &op.view, cta, from, to - from)?;
                        Some((offset, offset + 16))
                    }
                    None => Some((offset, offset + 16)),
                };
            }
        }
        if let Some((from, to)) = run {
            self.check_shared_read(&op.stamp, &op.view, cta, from, to - from)?;
        }
        Ok(out)
    }

    /// Carries out an operation of a warpgroup.
    pub(crate) fn wgmma(&mut self, group: usize, op: &WgOp, w: &Wgmma) -> Exec<()> {
        let (n, k) = (w.n as usize, w.stored_k() as usize);
        let places = match w.sparse {
            Some(sparse) => Some(self.places(self.warps_of(group).1, 64, op.pc, sparse)?),
            None => None,
        };
        if w.d_ty == Ty::S32 {
            let (a, b) = self.wgmma_operands::<i32>(group, op, w)?;
            let acc = self.load_accumulators::<i32>(group, op, w);
            match &places {
                Some(at) => add_integers(acc, w.saturate, |c| multiply_sparse(c, &a, at, &b, n, k)),
                None => multiply_integers(acc, &a, &b, n, k, w.saturate),
            }
        } else {
            let (a, b) = self.wgmma_operands::<f32>(group, op, w)?;
            let reduced = w.a_ty.bits() == 8 && self.options.fp8 == Fp8Accumulate::Reduced;
            let acc = self.load_accumulators::<f32>(group, op, w);
            match (&places, reduced) {
                (None, true) => reduced::multiply(acc, &a, &b, n, k),
                (None, false) => multiply(acc, &a, &b, n, k),
                (Some(at), true) => reduced::multiply_sparse(acc, &a, at, &b, n, k),
                (Some(at), false) => multiply_sparse(acc, &a, at, &b, n, k),
            }
        }
        if w.d_ty == Ty::F16 {
            // Rounded at every instruction.
            self.flush_accumulators(group);
        }
        self.cost.flops += 2 * 64 * n as u64 * k as u64;
        Ok(())
    }

    /// A as it is stored, and B, row-major.
    fn wgmma_operands<T: Element>(&mut self, group: usize, op: &WgOp, w: &Wgmma) -> Exec<(Vec<T>, Vec<T>)> {
        let (cta, first) = self.warps_of(group);
        let per_unit = 16 / w.a_ty.bytes();
        let a = match &w.a {
            WgA::Desc(_) => {
                let d = Descriptor::decode(op.desc_a);
                let k = w.stored_k();
                let (lines, units) = if w.trans_a { (k, 64 / per_unit) } else { (64, k / per_unit) };
                let bytes = self.operand(op, cta, d, w.trans_a, lines, units)?;
                unpack(&bytes, w.a_ty, lines as usize, w.trans_a, w.negate_a)
            }
            WgA::Regs(regs) => {
                self.flush_accumulators(group);
                self.a_fragment(first, regs, w)
            }
        };
        let d = Descriptor::decode(op.desc_b);
        let (lines, units) = if w.trans_b { (w.k, w.n / per_unit) } else { (w.n, w.k / per_unit) };
        // n = 8, 24, ... of 2-byte elements is a whole number of units either way.
        let bytes = self.operand(op, cta, d, w.trans_b, lines, units)?;
        // B as [k][n]: transposed in memory means n runs fastest already.
        let b = unpack(&bytes, w.b_ty, lines as usize, !w.trans_b, w.negate_b);
        Ok((a, b))
    }

    /// A from registers: thread `l` of warp `q` holds rows 16q + l/4 (and + 8), neighbours along k in a register.
    fn a_fragment<T: Element>(&self, first: usize, regs: &[u32], w: &Wgmma) -> Vec<T> {
        let k = w.stored_k() as usize;
        let per = 4 / w.a_ty.bytes() as usize;
        let mut out = vec![T::default(); 64 * k];
        for q in 0..4 {
            let file = &self.warps[first + q].regs;
            for (i, r) in regs.iter().enumerate() {
                for (l, bits) in file[*r as usize].iter().enumerate() {
                    let row = q * 16 + l / 4 + i % 2 * 8;
                    let column = (l % 4) * per + i / 2 * 4 * per;
                    let e = w.a_ty.bits();
                    for j in 0..per {
                        let v = T::of(bits >> (j as u32 * e), w.a_ty);
                        out[row * k + column + j] = if w.negate_a { -v } else { v };
                    }
                }
            }
        }
        out
    }
}

/// Elements of an operand; `across` turns [line][unit] into [unit][line].
fn unpack<T: Element>(bytes: &[u8], ty: Ty, lines: usize, across: bool, negate: bool) -> Vec<T> {
    let mut values: Vec<T> = Vec::with_capacity(bytes.len() / ty.bytes() as usize);
    T::widen(bytes, ty, &mut values);
    if negate {
        values.iter_mut().for_each(|v| *v = -*v);
    }
    if !across {
        return values;
    }
    let per_line = values.len() / lines;
    let mut out = vec![T::default(); values.len()];
    for (line, values) in values.chunks(per_line).enumerate() {
        for (i, v) in values.iter().enumerate() {
            out[i * lines + line] = *v;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_descriptor() {
        let bits = 0x4400 >> 4 | (0x80 >> 4) << 16 | (0x400 >> 4) << 32 | 3 << 49 | 1 << 62;
        let d = Descriptor::decode(bits);
        assert_eq!(
            d,
            Descriptor { start: 0x4400, leading: 0x80, stride: 0x400, base_offset: 3, swizzle: Swizzle::B128 }
        );
    }

    #[test]
    fn k_major_rows_follow_the_tma_swizzle() {
        for (swizzle, span) in [(Swizzle::B128, 128), (Swizzle::B64, 64), (Swizzle::B32, 32)] {
            let d = Descriptor { start: 0x4000, leading: 0, stride: 8 * span, base_offset: 0, swizzle };
            for row in 0..64 {
                for unit in 0..2 {
                    assert_eq!(d.unit(false, row, unit), swizzle.apply(0x4000 + row * span + unit * 16));
                }
            }
        }
    }

    #[test]
    fn mn_major_atoms_are_leading_apart_along_mn() {
        let d = Descriptor { start: 0x4000, leading: 0x2000, stride: 0x400, base_offset: 0, swizzle: Swizzle::B128 };
        // k = 9, element 64..72 of n: second atom, second group of 8 k rows, row 1 of it.
        assert_eq!(d.unit(true, 9, 8), Swizzle::B128.apply(0x4000 + 0x2000 + 0x400 + 128));
    }

    #[test]
    fn without_swizzle_core_matrices_are_whole() {
        let d = Descriptor { start: 0x1000, leading: 0x80, stride: 0x100, base_offset: 0, swizzle: Swizzle::None };
        assert_eq!(d.unit(false, 9, 1), 0x1000 + 0x100 + 16 + 0x80);
        assert_eq!(d.unit(true, 9, 1), 0x1000 + 0x100 + 16 + 0x80);
    }
}
