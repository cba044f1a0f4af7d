//! Step 2: the work tile: rows of the consumers, rows of a step, registers.

use crate::epilogue::Program;
use crate::hopper::Roles;
use crate::hopper::held::{SLICE, SLICE_REGISTERS};
use crate::plan::{AttentionTiles, GradientSide, GradientTiles, PlanError};
use crate::scores::vectors;
use crate::{Arch, KernelSpec, Op};

/// Rows of a consumer.
pub(super) const WG_ROWS: u32 = 64;
/// Warpgroups that compute.
pub(super) const CONSUMERS: u32 = 2;
/// Rows of the largest step, of which the rows of all are multiples: a lane of the producer reads whole rows of LSE.
const WIDEST_STEP: u32 = 128;
const UNIT: u32 = 32;
/// Registers of a producer's thread.
const PRODUCER: u32 = 40;
/// Registers of a consumer's thread beside the sums: addresses, descriptors, LSE and delta of its rows.
const OVERHEAD: u32 = 36;
/// The same where scores are differentiated, which is done one pair of columns at a time.
const OVERHEAD_BY_PAIRS: u32 = 28;
/// The same where derivatives by parameters are computed, too.
const OVERHEAD_WITH_SUMS: u32 = 32;
/// The same where rows of the tile stay in registers, of the operand of S and of that of dP, which then are all that is left.
const BESIDE_HELD: [u32; 2] = [28, 40];
/// Further ones where derivatives by parameters are computed.
const BESIDE_HELD_WITH_SUMS: u32 = 12;
/// Rows of a thread.
const THREAD_ROWS: u32 = 2;
/// Words of a work tile.
const TILE_WORDS: u32 = 8;

/// The score of a pair in partial blocks, and its derivatives that are computed, as this side sees it: rows of the program are
/// those of the tile.
pub(crate) fn program(spec: &KernelSpec) -> Option<&'static Program> {
    let score = spec.score?;
    let programs = if spec.score_gradients.is_on() { score.summed() } else { score.differentiated() };
    let [of_queries, of_keys] = programs.ok()?;
    Some(if spec.op == Op::AttentionDkv { of_keys } else { of_queries })
}

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    pub(crate) side: GradientSide,
    pub(crate) roles: Roles,
    /// Rows of a tile.
    pub(crate) rows: u32,
    /// Rows of the other side in a step.
    pub(crate) step: u32,
    /// Columns of Q and K.
    pub(crate) depth: u32,
    /// Columns of V and O.
    pub(crate) columns: u32,
    /// Rows and columns of a block, as this side sees it.
    pub(crate) block: (u32, u32),
    /// Registers of a thread for what the score keeps of its rows and its head, and for sums of its gradients.
    pub(crate) score: u32,
    /// The derivative of the score is not the scale, or is taken by parameters, and is computed with it.
    pub(crate) has_derivative: bool,
    /// Parameters of the score whose gradients are summed.
    pub(crate) sums: u32,
    /// Slices of 16 columns of the tile's rows that stay in registers, of the operands of S and of dP.
    pub(crate) held: [u32; 2],
}

impl Tiling {
    /// Those whose registers fit, the largest step first: at least one. A step divides the block.
    pub(crate) fn candidates(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Self>, PlanError> {
        let of = |step| Self::new(spec, step, arch);
        let divides = |step: &u32| of(*step).block.1.is_multiple_of(*step) && step.is_multiple_of(UNIT);
        let legal = |step: &u32| (UNIT..=WIDEST_STEP).contains(step) && divides(step) && of(*step).fits();
        let steps: Vec<u32> = match spec.k_step {
            Some(step) => vec![step],
            None => (UNIT..=WIDEST_STEP).rev().step_by(UNIT as usize).collect(),
        };
        let found: Vec<Self> = steps.iter().filter(|step| **step > 0 && legal(step)).map(|step| of(*step)).collect();
        match found.is_empty() {
            true => Err(of(spec.k_step.unwrap_or(UNIT)).refusal(spec)),
            false => Ok(found),
        }
    }

    fn new(spec: &KernelSpec, step: u32, arch: &Arch) -> Self {
        let (side, block) = match spec.op {
            Op::AttentionDkv => (GradientSide::Keys, (spec.bk, spec.bm)),
            _ => (GradientSide::Queries, (spec.bm, spec.bk)),
        };
        let sums = program(spec).map_or(0, |program| program.slopes().len() as u32);
        let tiling = Self {
            side,
            roles: Roles::beside(CONSUMERS, PRODUCER, arch),
            rows: CONSUMERS * WG_ROWS,
            step,
            depth: spec.score_depth(),
            columns: spec.bn,
            block,
            score: program(spec).map_or(0, vectors::registers) + THREAD_ROWS * sums,
            has_derivative: program(spec).is_some_and(Program::is_sloped),
            sums,
            held: [0; 2],
        };
        Self { held: tiling.held(), ..tiling }
    }

    /// As many as there are registers for: instructions then read half of their operands from shared memory, or a third less.
    fn held(&self) -> [u32; 2] {
        let left = self.roles.consumer_registers.saturating_sub(self.registers().iter().sum::<u32>() + self.score);
        let left = left.saturating_sub(if self.sums > 0 { BESIDE_HELD_WITH_SUMS } else { 0 });
        let room = |beside: u32| left.saturating_sub(beside) / SLICE_REGISTERS;
        let first = room(BESIDE_HELD[0]).min(self.depth / SLICE);
        [first, room(BESIDE_HELD[1] + SLICE_REGISTERS * first).min(self.columns / SLICE)]
    }

    /// Registers of a thread for S, for dP, and for each gradient: dQ, or dK and dV.
    pub(crate) fn registers(&self) -> [u32; 4] {
        let of_values = if self.is_of_keys() { self.columns / 2 } else { 0 };
        [self.step / 2, self.step / 2, self.depth / 2, of_values]
    }

    /// Registers of a thread for the slices that stay there.
    pub(crate) fn held_registers(&self) -> u32 {
        SLICE_REGISTERS * self.held.iter().sum::<u32>()
    }

    /// The name of an operand of which a tile has rows: of S, and of dP.
    pub(crate) fn own(&self, operand: usize) -> &'static str {
        if self.is_of_keys() { ["K", "V"][operand] } else { ["Q", "dO"][operand] }
    }

    /// `16 columns of Q and 0 of dO, read once for each tile`.
    pub(crate) fn held_words(&self) -> String {
        let [first, second] = self.held.map(|slices| SLICE * slices);
        format!("{first} columns of {} and {second} of {}, read once for each tile", self.own(0), self.own(1))
    }

    pub(crate) fn is_of_keys(&self) -> bool {
        self.side == GradientSide::Keys
    }

    /// All consumers compute the same blocks.
    pub(crate) fn is_uniform(&self) -> bool {
        self.block.0.is_multiple_of(self.rows)
    }

    /// What lists of the work are made by.
    pub(crate) fn tiles(&self) -> GradientTiles {
        GradientTiles {
            side: self.side,
            depth: self.depth,
            tiles: AttentionTiles {
                block: self.block,
                rows: self.rows,
                consumers: CONSUMERS,
                step: self.step,
                blocks: 1,
                uniform: self.is_uniform(),
                columns: self.columns,
                tile_words: TILE_WORDS,
                split: None,
                packed: None,
                page: None,
            },
        }
    }

    /// Registers of a thread beside sums and the score.
    fn overhead(&self) -> u32 {
        match self.has_derivative {
            true if self.sums > 0 => OVERHEAD_WITH_SUMS,
            true => OVERHEAD_BY_PAIRS,
            false => OVERHEAD,
        }
    }

    fn fits(&self) -> bool {
        self.registers().iter().sum::<u32>() + self.overhead() + self.score <= self.roles.consumer_registers
    }

    /// `64 of S + 64 of dP + 64 of dQ`.
    pub(crate) fn registers_words(&self) -> String {
        let [s, dp, first, second] = self.registers();
        match self.is_of_keys() {
            true => format!("{s} of S + {dp} of dP + {first} of dK + {second} of dV"),
            false => format!("{s} of S + {dp} of dP + {first} of dQ"),
        }
    }

    /// What rows of the other side are, and the key that says how many a block has.
    pub(crate) fn other_side(&self) -> (&'static str, &'static str) {
        if self.is_of_keys() { ("queries", "bm") } else { ("keys", "bk") }
    }

    fn refusal(&self, spec: &KernelSpec) -> PlanError {
        let ((of, key), mut words) = (self.other_side(), self.registers_words());
        if self.score > 0 {
            words += &format!(" + {} of the score", self.score);
        }
        let (registers, overhead) = (self.roles.consumer_registers, self.overhead());
        if spec.k_step.is_some() {
            return PlanError::new(
                "k_step",
                format!("steps of {} {of} are not planned for {key} = {}", self.step, self.block.1),
                format!(
                    "a step is a multiple of {UNIT} up to {WIDEST_STEP} that divides {key}, and takes {words} + {overhead} of \
                     the {registers} registers that a thread of {CONSUMERS} consumers has"
                ),
                "drop `k_step`: the plan takes the largest that fits",
            );
        }
        PlanError::new(
            "bn",
            format!("gradients of {} columns do not fit the registers", self.columns_words()),
            format!(
                "a step of {} {of} takes {words} + {overhead} of the {registers} registers that a thread of {CONSUMERS} \
                 consumers has",
                self.step
            ),
            "bn = ?, or d = ?",
        )
    }

    /// `128`, or `192 and 128`.
    pub(crate) fn columns_words(&self) -> String {
        match self.depth == self.columns {
            true => self.columns.to_string(),
            false => format!("{} and {}", self.depth, self.columns),
        }
    }
}
