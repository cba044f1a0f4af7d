//! The operands of the warp family's templates.

use serde::Serialize;

use super::super::plan::{self, Memory, Tiling, VECTOR_BYTES, WarpPlan, k_unit};
use super::division::Division;
use super::sources::{Source, Sources};
use super::work_tile::{Batch, WorkTile};
use super::{copies, doubles, epilogue, fused, multiply, split};
use crate::plan::KLoop;
use crate::{Arch, KernelSpec};

/// Everything the templates name: the plan, and what follows from it.
#[derive(Serialize)]
pub(super) struct Context<'p> {
    spec: &'p KernelSpec,
    arch: &'p Arch,
    tiling: &'p Tiling,
    kloop: &'p KLoop,
    memory: &'p Memory,
    epilogue: &'p plan::Epilogue,
    opaque: bool,
    words: bool,
    /// A is read in lines of K.
    lines: bool,
    /// Where loads have sizes from, and the store its own and C.
    sources: Sources,
    result: Sources,
    work_tile: WorkTile,
    batch: Option<Batch>,
    split: Option<split::Exchange>,
    a: copies::Operand<'p>,
    b: copies::Operand<'p>,
    ring: Ring,
    element: Element,
    block: Block,
    /// None where TMA loads.
    fetch: Option<copies::Fetch>,
    multiply: multiply::Multiply,
    /// One of the two.
    store: Option<epilogue::Store>,
    doubles: Option<doubles::Store>,
    /// What is computed of sums before they are stored.
    fused: Option<fused::Fused>,
}

/// The ring of stages.
#[derive(Serialize)]
struct Ring {
    /// Bytes of all stages.
    end: u32,
    /// Bytes of the stages that are filled before the first is multiplied.
    filled: u32,
    /// Stages whose copies may still be in flight when the next stage is due.
    pending: u32,
}

/// An element of A or B: both are equally large.
#[derive(Serialize)]
struct Element {
    bytes: u32,
    /// Elements of a 16-byte vector.
    per_vector: u32,
    per_vector_mask: u32,
    per_vector_shift: u32,
}

/// A sparsity block.
#[derive(Serialize)]
struct Block {
    /// How to divide by its rows.
    rows: Division,
    row_bytes: u32,
    /// Bytes of a line that is contiguous along M.
    line_bytes: u32,
    bytes: u32,
    /// 16-byte vectors of K from one block of a stage to the next.
    vectors: u32,
    /// Blocks of a stage are padded.
    padded: bool,
}

impl<'p> Context<'p> {
    /// Work tiles have so many words, of which one says how much of K they are.
    pub(super) fn new(plan: &'p WarpPlan, (words, role): (u32, u32)) -> Self {
        let WarpPlan { spec, arch, tiling, kloop, memory, epilogue, .. } = plan;
        let per_vector = VECTOR_BYTES / spec.a.bytes();
        let row_bytes = spec.bk * spec.a.bytes();
        let pitch = kloop.pitch(k_unit(spec));
        let operand = |of, name, offset| {
            let base = Source::address(plan, name);
            copies::Operand::new((of, plan.swizzle_shift(of)), (name, base), offset, spec.a)
        };
        let multiply = multiply::Multiply::new(plan);
        Self {
            spec,
            arch,
            tiling,
            kloop,
            memory,
            epilogue,
            opaque: plan.opaque(),
            words: plan.words(),
            lines: plan.lines(),
            sources: Sources::of_loads(plan),
            result: Sources::of_result(plan),
            work_tile: WorkTile::new(plan, words),
            batch: Batch::new(plan),
            split: split::Exchange::new(plan, multiply.sums(), role),
            a: operand(&plan.a, "a", 0),
            b: operand(&plan.b, "b", memory.b_offset),
            ring: Ring {
                end: memory.stages * memory.stage_bytes,
                filled: (memory.stages - 1) * memory.stage_bytes,
                pending: memory.stages - 2,
            },
            element: Element {
                bytes: spec.a.bytes(),
                per_vector,
                per_vector_mask: per_vector - 1,
                per_vector_shift: per_vector.trailing_zeros(),
            },
            block: Block {
                rows: Division::by(spec.bm),
                row_bytes,
                line_bytes: copies::line_bytes(plan),
                bytes: spec.bm * row_bytes,
                vectors: pitch / per_vector,
                padded: kloop.sub_stages > 1 && pitch > spec.bk,
            },
            fetch: (!plan.a.is_boxed()).then(|| copies::Fetch::new(plan)),
            multiply,
            store: (!plan.doubles()).then(|| epilogue::Store::new(plan)),
            doubles: plan.doubles().then(|| doubles::Store::new(plan)),
            fused: fused::Fused::new(plan),
        }
    }

    /// The same where another word of a work tile has the number of its problem.
    pub(super) fn with_problem(self, word: u32) -> Self {
        Self { batch: self.batch.map(|batch| batch.with_word(word)), ..self }
    }
}
