//! Mutants of the kernels of attention's gradient: of every 100 that change what a kernel does, 99 must be found.

use bsr_codegen::KernelSpec;

use super::classes::{RINGS, number};
use super::{Harmless, prey};
use crate::hunt;
use crate::operators::{self, Change, join, parts};

/// Tiles of one row of blocks and of several; one buffer of a tile's rows and two; steps of a whole block and of a part of one; scores
/// whose derivative is the scale and others, with vectors by query, key and head.
const KERNELS: &[&str] = &[
    "op = attention_dq, bm = 64, bn = 32, bk = 64",
    "op = attention_dkv, bm = 64, bn = 32, bk = 128, k_step = 32, stages = 2, dtype = bf16",
    "op = attention_dq, bm = 128, bn = 32, bk = 64, d = 64, k_step = 32, score = \"|a: Rows<f32>, b: Cols<f32>, h: Heads<f16>| if a == b \
     { s * scale - h * abs(i - j) } else { -inf }\"",
    "op = attention_dkv, bm = 64, bn = 32, bk = 64, k_step = 32, score = \"|a: Rows<f32>, b: Cols<f32>, h: Heads<f16>| if a == b \
     { s * scale - h * abs(i - j) } else { -inf }\"",
    "op = attention_dq, bm = 64, bn = 32, bk = 64, k_step = 32, score = \"|cap: Heads<f32>| if i >= j { cap * tanh(s * scale / cap) } \
     else { -inf }\"",
    "op = attention_dkv, bm = 64, bn = 32, bk = 64, k_step = 32, score = \"|t: Rows<f32>, cap: Heads<f32>| if i >= j { cap * tanh(s * \
     scale / (t * cap)) } else { -inf }\"",
    "op = attention_dkv, bm = 128, bn = 128, bk = 64, stages = 2",
];

/// Mutants that change nothing that a kernel of dQ does.
pub(super) const HARMLESS: &[Harmless] = &[(
    "do not wait",
    "bra $fixed_empty",
    "the wait for O's place at the tile before has seen both consumers store dQ of the one before that, whose rows these are",
)];

/// Kernels that a debug build takes, and one mutant in so many of them, unless `BSR_MUTANTS` asks for others.
const FEW: &[&str] = KERNELS.split_at(2).0;
const ONE_IN: usize = 20;

/// The last row of the other side, at every place of a step.
const ENDS: &[(&str, Change)] = &[
    ("ends: one less", |_, s| number(s, "%p_column", 1)),
    ("ends: one more", |_, s| {
        let p = parts(s).filter(|p| p.opcode == "setp.gt.s32" && p.operands.starts_with("%p_column"))?;
        Some(join(&p, "setp.ge.s32", p.operands))
    }),
];

/// The mutants of the classes that a kernel of a gradient has.
pub(super) fn mutants(spec: &KernelSpec, text: &str) -> Vec<(String, String)> {
    debug_assert!(spec.op.is_gradient());
    [ENDS, RINGS].into_iter().flat_map(|list| operators::mutants(text, list, usize::MAX)).collect()
}

#[test]
fn mutants_of_gradients_are_found() {
    let (kernels, one_in) = match cfg!(debug_assertions) && std::env::var_os("BSR_MUTANTS").is_none() {
        true => (FEW, ONE_IN),
        false => (KERNELS, 1),
    };
    hunt::all_are_found(&[hunt::hunt("gradients", kernels, hunt::one_in(one_in), prey)]);
}
