//! The operands of the scalar family's templates.

mod atomic;
mod elements;
mod register;
mod vector;

use serde::Serialize;

use super::plan::{Method, ScalarPlan, Staging, Tile};
use crate::emit::templates;
use crate::{Dtype, KernelSpec};

/// The instructions of a kernel.
pub(super) fn body(plan: &ScalarPlan) -> String {
    match &plan.method {
        Method::Atomic => render(plan, "atomic", atomic::Operands::new(plan)),
        Method::Register(staging) => render(plan, "register", register::Operands::new(plan, staging)),
        Method::Vector { staging, chain } => render(plan, "vector", vector::Operands::new(plan, staging, *chain)),
    }
}

/// Everything that the template of a method names: the plan, what follows from it, and the method's own operands.
#[derive(Serialize)]
struct Context<'p, Operands> {
    spec: &'p KernelSpec,
    tile: &'p Tile,
    staging: Option<&'p Staging>,
    method: &'static str,
    threads: Threads,
    element: Element,
    out: Out,
    accumulators: Vec<String>,
    operands: Operands,
}

/// The CTA's threads.
#[derive(Serialize)]
struct Threads {
    count: u32,
    m: u32,
    n: u32,
    n_mask: u32,
    n_shift: u32,
}

/// An element of A or B.
#[derive(Serialize)]
struct Element {
    /// The type that loads give it.
    kind: &'static str,
    bytes: u32,
    /// A row of a block of A, and all of the block but one.
    row_bytes: u32,
    next_block: u32,
}

/// An element of C.
#[derive(Serialize)]
struct Out {
    dtype: Dtype,
    bytes: u32,
    /// Two sums become two elements in one instruction; such architectures also convert to bf16 at all.
    converts_pairs: bool,
}

fn render(plan: &ScalarPlan, method: &'static str, operands: impl Serialize) -> String {
    let (spec, tile) = (&plan.spec, &plan.tile);
    let row_bytes = spec.bk * spec.a.bytes();
    let context = Context {
        spec,
        tile,
        staging: plan.staging(),
        method,
        threads: Threads {
            count: tile.threads(),
            m: tile.grid_m(),
            n: tile.grid_n(),
            n_mask: tile.grid_n() - 1,
            n_shift: tile.grid_n().trailing_zeros(),
        },
        element: Element {
            kind: if spec.a == Dtype::F32 { "f32" } else { "b16" },
            bytes: spec.a.bytes(),
            row_bytes,
            next_block: (spec.bm - 1) * row_bytes,
        },
        out: Out { dtype: spec.out, bytes: spec.out.bytes(), converts_pairs: plan.arch.compute_capability >= (8, 0) },
        accumulators: (0..tile.accumulators()).map(elements::sum).collect(),
        operands,
    };
    templates::render(&format!("scalar/{method}.ptx"), &context)
}
