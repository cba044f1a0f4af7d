//! What a kernel reads besides its factors.

use bsr_codegen::{KernelSpec, Layout, Operand, Scale};
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::{Element, Inputs, Permutation, Scales, Structure};

use crate::Failure;

/// The layout of the dense factor.
pub(crate) fn dense_layout(spec: &KernelSpec) -> Layout {
    if sparse_operand(spec.op) == Operand::B { spec.a_layout } else { spec.b_layout }
}

/// Random inputs of the epilogue of `spec`, of which sums of products are some ten times as large, and where it asks for one
/// an order of rows: this one, or a random one.
pub(crate) fn inputs(spec: &KernelSpec, (m, n): (usize, usize), order: Option<&Permutation>, seed: u64) -> Inputs {
    let drawn = spec.epilogue.map(|epilogue| Inputs::random(epilogue.program(), (m, n), spec.c_layout, seed));
    let inputs = drawn.unwrap_or_default();
    match spec.permute.is_on() {
        true => inputs.order(order.cloned().unwrap_or_else(|| Permutation::random(m, seed))),
        false => inputs,
    }
}

/// Random scales of a kind for A of this structure and `n` columns of B, such that scaled products are about as large
/// as those of numbers from N(0, 1): drawn i8 are 20 times as large.
///
/// # Errors
/// None, as long as scales are drawn from around 1.
pub(crate) fn scales<A: Element, B: Element>(
    kind: Scale,
    a: &Structure,
    n: usize,
    seed: u64,
) -> Result<Scales, Failure> {
    let drawn = Scales::random(kind, a, n, seed);
    drawn.times(1.0 / A::SPREAD, 1.0 / B::SPREAD).map_err(Failure::wrong)
}
