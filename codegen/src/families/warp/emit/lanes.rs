//! Which pieces of an operand a thread copies: where they come from and where they go.

use serde::Serialize;

use super::super::plan::{Operand, PIECE, Pass, WarpPlan, k_unit};

/// One operand's part of the prologue.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Lanes {
    name: &'static str,
    rows: u32,
    pieces: u32,
    lanes: u32,
    rows_a_pass: u32,
    setup: Vec<String>,
}

impl Lanes {
    pub(super) fn a(plan: &WarpPlan) -> Self {
        let (spec, slots) = (&plan.spec, plan.kloop.slots);
        let block_row = spec.bk * spec.a.bytes();
        let mut setup = common(&plan.a, "a", 0);
        setup.push("ld.param.u64 %rd_a_lane, [a]".to_owned());
        setup.push("cvta.to.global.u64 %rd_a_lane, %rd_a_lane".to_owned());
        setup.push(format!("mad.wide.u32 %rd_a_lane, %r_row_a, {block_row}, %rd_a_lane"));
        setup.extend(along_k(plan, "a"));
        if slots > 1 {
            setup.push(format!("mad.wide.u32 %rd_a_lane, %r_slot_a, {}, %rd_a_lane", spec.bm * block_row));
        }
        Self::of(&plan.a, "A", setup)
    }

    pub(super) fn b(plan: &WarpPlan) -> Self {
        let (spec, b) = (&plan.spec, &plan.b);
        let mut setup = common(b, "b", plan.memory.b_offset);
        setup.push("ld.param.u64 %rd_b_lane, [b]".to_owned());
        setup.push("cvta.to.global.u64 %rd_b_lane, %rd_b_lane".to_owned());
        setup.push(format!("mul.wide.u32 %rd_b_pass, %r_ldb_bytes, {}", b.rows_a_pass));
        if b.along_k {
            setup.push("mad.wide.u32 %rd_b_lane, %r_row_b, %r_ldb_bytes, %rd_b_lane".to_owned());
            setup.extend(along_k(plan, "b"));
        } else {
            if plan.kloop.slots > 1 && b.rows_a_pass > spec.bk {
                setup.push(format!("div.u32 %r_slot_b, %r_row_b, {}", spec.bk));
                setup.push(format!("mul.lo.u32 %r_t, %r_slot_b, {}", spec.bk));
                setup.push("sub.u32 %r_k_b, %r_row_b, %r_t".to_owned());
            } else {
                setup.push("mov.u32 %r_k_b, %r_row_b".to_owned());
            }
            setup.push("mad.wide.u32 %rd_b_lane, %r_k_b, %r_ldb_bytes, %rd_b_lane".to_owned());
            setup.push(format!("mad.wide.u32 %rd_b_lane, %r_piece_b, {PIECE}, %rd_b_lane"));
            setup.push(format!("mul.lo.u32 %r_n_b, %r_piece_b, {}", PIECE / spec.b.bytes()));
        }
        Self::of(b, "B", setup)
    }

    fn of(operand: &Operand, name: &'static str, setup: Vec<String>) -> Self {
        Self {
            name,
            rows: operand.rows,
            pieces: operand.pieces,
            lanes: operand.lanes,
            rows_a_pass: operand.rows_a_pass,
            setup,
        }
    }
}

/// Row and piece of a thread, and their place in a stage.
fn common(operand: &Operand, x: &str, stage_offset: u32) -> Vec<String> {
    let mut lines = vec![
        format!("div.u32 %r_row_{x}, %r_tid, {}", operand.lanes),
        format!("mul.lo.u32 %r_t, %r_row_{x}, {}", operand.lanes),
        format!("sub.u32 %r_piece_{x}, %r_tid, %r_t"),
    ];
    if operand.idle_threads() {
        lines.push(format!("setp.lt.u32 %p_copy_{x}, %r_row_{x}, {}", operand.rows_a_pass));
    }
    if operand.rows_of_last_pass() < operand.rows_a_pass {
        lines.push(format!("setp.lt.u32 %p_copy_{x}_last, %r_row_{x}, {}", operand.rows_of_last_pass()));
    }
    if operand.group > 1 {
        lines.push(format!("shr.u32 %r_t, %r_row_{x}, {}", operand.swizzle_shift()));
        lines.push(format!("and.b32 %r_t, %r_t, {}", operand.group - 1));
        lines.push(format!("xor.b32 %r_t, %r_t, %r_piece_{x}"));
        lines.push(format!("mul.lo.u32 %r_t, %r_t, {PIECE}"));
    } else {
        lines.push(format!("mul.lo.u32 %r_t, %r_piece_{x}, {PIECE}"));
    }
    lines.push(format!("mad.lo.u32 %r_dst_{x}, %r_row_{x}, {}, %r_t", operand.pitch));
    if stage_offset > 0 {
        lines.push(format!("add.u32 %r_dst_{x}, %r_dst_{x}, {stage_offset}"));
    }
    lines
}

/// Where in K a thread's piece lies: in which slot of a stage, and how far inside of it.
fn along_k(plan: &WarpPlan, x: &str) -> Vec<String> {
    let bytes = plan.spec.a.bytes();
    let per_piece = PIECE / bytes;
    if plan.kloop.slots == 1 {
        return vec![
            format!("mad.wide.u32 %rd_{x}_lane, %r_piece_{x}, {PIECE}, %rd_{x}_lane"),
            format!("mul.lo.u32 %r_k_{x}, %r_piece_{x}, {per_piece}"),
        ];
    }
    let pieces = plan.kloop.pitch(k_unit(&plan.spec)) / per_piece;
    let mut lines = vec![
        format!("div.u32 %r_slot_{x}, %r_piece_{x}, {pieces}"),
        format!("mul.lo.u32 %r_t, %r_slot_{x}, {pieces}"),
        format!("sub.u32 %r_t, %r_piece_{x}, %r_t"),
        format!("mad.wide.u32 %rd_{x}_lane, %r_t, {PIECE}, %rd_{x}_lane"),
        format!("mul.lo.u32 %r_k_{x}, %r_t, {per_piece}"),
    ];
    if padded(plan) {
        lines.push(format!("setp.lt.u32 %p_inside_{x}, %r_k_{x}, {}", plan.spec.bk));
    }
    lines
}

/// Gathered blocks whose slots are wider than they are.
pub(super) fn padded(plan: &WarpPlan) -> bool {
    plan.kloop.slots > 1 && plan.kloop.pitch(k_unit(&plan.spec)) > plan.spec.bk
}

/// The predicate without which a thread must not write its piece.
pub(super) fn guard(operand: &Operand, x: &str, pass: &Pass) -> Option<String> {
    if pass.last {
        Some(format!("%p_copy_{x}_last"))
    } else if operand.idle_threads() {
        Some(format!("%p_copy_{x}"))
    } else {
        None
    }
}
