//! Step 6: what a launch is told: tensor maps, and the form of a work item.

use super::SampledPlan;
use super::sides::Side;
use super::tiling::Tiling;
use crate::hopper::fused_plan as fused;
use crate::plan::Major;
use crate::plan::{Argument, Operand, Parameter, Parameters, Problem, Sampling, TensorMap};

const HEADER: u32 = Sampling::HEADER;
/// Items are whole pieces of 16 bytes.
const PIECE: u32 = 4;
/// Bytes of a flag in the workspace, and what places are multiples of.
pub(crate) const FLAG: u32 = 128;

/// The form of a work item, in 32-bit words.
///
/// | words | what |
/// |---|---|
/// | 0 | first row of the left factor |
/// | 1 | first element of K |
/// | 2 | stages: at least 1 |
/// | 3 | 1 for a tile of half of the slots, 0 for all |
/// | 4 | first row within the block |
/// | 5 | the problem of a batch |
/// | 6 | how much of K: 0 for all of it, [`Sampling::CONTRIBUTES`] for a part that goes to the workspace, else so many parts to collect |
/// | 7 | the first of their places in the workspace |
/// | 8 .. 8 + slots | first column of each slot in the right factor |
/// | then, for each slot | first column within the block, then the blocks of the packed block rows |
///
/// A slot without a block has a column and blocks beyond all others: TMA reads zeros there and writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    slots: u32,
    pack: u32,
}

impl Item {
    /// Bytes from an item's start to the number of its problem.
    pub(crate) const PROBLEM: u32 = 4 * 5;

    pub(crate) fn new(tiling: &Tiling) -> Self {
        Self { slots: tiling.slots, pack: tiling.pack }
    }

    /// Words of an item.
    pub(crate) fn words(&self) -> u32 {
        (HEADER + self.slots * (2 + self.pack)).next_multiple_of(PIECE)
    }

    pub(crate) fn bytes(&self) -> u32 {
        4 * self.words()
    }

    /// Bytes from an item's start to the column of slot `slot`.
    pub(crate) fn column(&self, slot: u32) -> u32 {
        4 * (HEADER + slot)
    }

    /// Bytes from an item's start to what a store of slot `slot` needs: the column within the block, then the blocks.
    pub(crate) fn stores(&self, slot: u32) -> u32 {
        4 * (HEADER + self.slots + slot * (1 + self.pack))
    }
}

impl SampledPlan {
    pub(crate) fn tiles(&self) -> Sampling {
        let t = &self.tiling;
        Sampling {
            block: (self.spec.bm, self.spec.bk),
            rows: t.cta_m,
            slices: t.slices,
            pack: t.pack,
            parts: t.parts,
            slot: t.slot,
            slots: t.slots,
            half: t.half(),
            k_step: self.k_step(),
            item_words: self.item.words(),
            place_bytes: t.roles.consumers * self.place_bytes(),
        }
    }

    /// Bytes of one consumer's part of a place in the workspace: its sums, then a flag that says that they are there.
    pub(crate) fn place_bytes(&self) -> u32 {
        self.sums_bytes() + FLAG
    }

    /// Bytes of a consumer's sums.
    pub(crate) fn sums_bytes(&self) -> u32 {
        4 * self.arch.warpgroup * self.tiling.accumulators()
    }

    pub(crate) fn arguments(&self, problem: &Problem) -> Parameters {
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        if self.spec.batch.is_on() {
            push("maps", Argument::Maps);
            push("work_head", Argument::WorkHead);
            push("work", Argument::Work);
            return parameters;
        }
        let [left, right, c] = self.maps(problem);
        push("map_a", Argument::Map(left));
        push("map_b", Argument::Map(right));
        push("map_c", Argument::Map(c));
        push("work_head", Argument::WorkHead);
        push("work", Argument::Work);
        push("workspace", Argument::Workspace);
        if let Some(fused) = &self.fused {
            let (rows, columns) = match self.sides.left.operand {
                Operand::A => (problem.m, problem.n),
                _ => (problem.n, problem.m),
            };
            push("m", Argument::Number(rows as u32));
            push("n", Argument::Number(columns as u32));
            let tile = |at, dtype| TensorMap { operand: Operand::Epilogue(at), dtype, ..c };
            parameters.extend(fused::parameters(fused.program, tile));
        }
        parameters
    }

    /// The tensor maps of one problem: the factors, C.
    pub(crate) fn maps(&self, problem: &Problem) -> [TensorMap; 3] {
        [
            self.map_of(&self.sides.left, self.left.load, self.left.span, problem),
            self.map_of(&self.sides.right, self.right.load, self.right.span, problem),
            self.map_c(problem),
        ]
    }

    /// A factor as it lies in memory, its contiguous dimension first.
    fn map_of(&self, side: &Side, load: (u32, u32), span: u32, problem: &Problem) -> TensorMap {
        let (other, ld) = match side.operand {
            Operand::A => (problem.m, problem.lda),
            _ => (problem.n, problem.ldb),
        };
        let dims = match side.major {
            Major::K => [problem.k, other],
            Major::Mn => [other, problem.k],
        };
        TensorMap::matrix(
            (side.operand, side.dtype),
            dims.map(|dim| dim.max(1)),
            (ld * u64::from(side.dtype.bytes())).max(16),
            [load.0, load.1],
            span,
        )
    }

    /// The stored blocks: \[columns of a block, rows of a block, blocks\].
    fn map_c(&self, problem: &Problem) -> TensorMap {
        let (bm, bk) = (u64::from(self.spec.bm), u64::from(self.spec.bk));
        let line = bk * u64::from(self.spec.out.bytes());
        TensorMap {
            operand: Operand::C,
            dtype: self.spec.out,
            rank: 3,
            offset_bytes: 0,
            dims: [bk, bm, problem.nnzb.max(1)],
            strides_bytes: [line, bm * line],
            box_dims: [self.epilogue.unit, self.epilogue.box_rows, 1],
            swizzle_bytes: self.epilogue.swizzle,
        }
    }
}
