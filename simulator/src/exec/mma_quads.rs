//! `mma.m8n8k4` of f16: the products of four groups of eight threads, 4q to 4q + 3 and 4q + 16 to 4q + 19.

use crate::arithmetic::numbers::{from_f64, to_f32};
use crate::machine::Machine;
use crate::machine::memory::Who;
use crate::program::op::{Quads, Reg};
use crate::program::types::Ty;

/// Rows, columns, and elements of K.
const N: usize = 8;
const K: usize = 4;

/// Place `t` among the eight threads of a group, of thread `l`.
fn place(l: usize) -> usize {
    l % 4 + l / 16 * 4
}

/// Row and column of element `i` of C or D, of the thread at this place.
fn sum_at(ty: Ty, t: usize, i: usize) -> (usize, usize) {
    match ty {
        Ty::F16 => (t, i),
        _ => ((t & 1) + (i & 2) + (t & 4), (i & 4) + (t & 2) + (i & 1)),
    }
}

impl Machine<'_> {
    pub(super) fn mma_quads(&mut self, who: Who, m: &Quads) {
        let of = |c: usize| match m.c_ty {
            Ty::F16 => (c / 2, c % 2 * 16),
            _ => (c, 0),
        };
        let sums: Vec<[u64; 32]> = m.c.iter().map(|c| self.values(who.w, *c)).collect();
        let sum = |l: usize, i: usize| {
            let (register, shift) = of(i);
            to_f32(sums[register][l] >> shift, m.c_ty)
        };
        // By group, row and column.
        let (mut a, mut b, mut c) = ([[[0f32; K]; N]; 4], [[[0f32; N]; K]; 4], [[[0f32; N]; N]; 4]);
        for l in 0..32 {
            let (q, t) = (l / 4 % 4, place(l));
            for i in 0..4 {
                // A line of four elements is a row or a column by the thread's place, or half of one by its half.
                let (line, along, half) = (t, l % 4, t / 4 * 4);
                let (x, y) = (self.half(who, &m.a, l, i), self.half(who, &m.b, l, i));
                if m.a_by_rows {
                    a[q][line][i] = x
                } else {
                    a[q][half + i][along] = x
                }
                if m.b_by_columns { b[q][i][line] = y } else { b[q][along][half + i] = y }
            }
            for i in 0..8 {
                let (row, column) = sum_at(m.c_ty, t, i);
                c[q][row][column] = sum(l, i);
            }
        }
        let product = |q: usize, row: usize, column: usize| -> f32 {
            (0..K).fold(c[q][row][column], |sum, k| sum + a[q][row][k] * b[q][k][column])
        };
        let per = if m.d_ty == Ty::F16 { 2 } else { 1 };
        for (register, d) in m.d.iter().enumerate() {
            let out = std::array::from_fn(|l| {
                let bits = |i: usize| {
                    let (row, column) = sum_at(m.d_ty, place(l), i);
                    let sum = product(l / 4 % 4, row, column);
                    if per == 2 { from_f64(f64::from(sum), Ty::F16) } else { u64::from(sum.to_bits()) }
                };
                let first = bits(register * per);
                if per == 2 { first | bits(register * per + 1) << 16 } else { first }
            });
            self.set(who.w, who.mask, *d, &out);
        }
        self.tensor_core(who, (4 * N * N * K) as u64, Ty::F16);
    }

    /// Element `i` of four in two registers of a thread.
    fn half(&self, who: Who, registers: &[Reg], lane: usize, i: usize) -> f32 {
        to_f32(self.warps[who.w].regs[registers[i / 2] as usize][lane] >> (i % 2 * 16), Ty::F16)
    }
}
