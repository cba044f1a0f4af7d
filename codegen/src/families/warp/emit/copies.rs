//! The copies that fetch a stage: which 16-byte vectors a thread copies, from where and to where.

use serde::Serialize;

use super::super::plan::{self, Pass, VECTOR_BYTES, WarpPlan};
use super::operands::address;
use super::sources::Source;
use crate::Dtype;

/// One operand's part of a stage.
#[derive(Serialize)]
pub(super) struct Operand<'p> {
    name: &'static str,
    /// Where the operand is in memory.
    base: Source,
    #[serde(flatten)]
    plan: &'p plan::Operand,
    swizzle_shift: u32,
    swizzle_mask: u32,
    idle_threads: bool,
    rows_of_last_pass: u32,
    panel_bytes: u32,
    /// Vectors of a panel, as a power of two.
    group_shift: u32,
    /// Where the operand begins in a stage.
    stage_offset: u32,
    /// Elements from one row to the next.
    stride: u32,
}

/// The loads of a kernel.
#[derive(Serialize)]
pub(super) struct Fetch {
    rows_a_stage: u32,
    /// Bytes of a block's values from one stage to the next.
    k_bytes: u32,
    /// The dimension along the rows of B, and the number of rows from the thread's first one.
    b_rows_along: &'static str,
    b_rows_left: &'static str,
    /// How much of K is left from where the block begins.
    k_left: &'static str,
    /// The threads' rows of B in one pass belong to several blocks of the stage; the same of A in lines of K.
    passes_span_blocks: bool,
    lines_span_blocks: bool,
    /// A whole stage, all at once.
    whole: Part,
}

/// What is copied of a stage at one place of the code.
#[derive(Serialize)]
pub(super) struct Part {
    /// The suffix of its labels.
    site: String,
    /// The stage begins here: its block is found first.
    begins: bool,
    /// B begins here.
    begins_b: bool,
    a: Vec<Copied>,
    /// Those of A in lines of K.
    lines: Vec<Group>,
    groups: Vec<Group>,
    /// The stage ends here.
    ends: bool,
    /// Its copies make a group, for which all warps wait.
    commits: bool,
}

/// Copies of lines of K that share a block and a place along them.
#[derive(Serialize)]
struct Group {
    /// The place is found here.
    begins: bool,
    /// Which of the stage's blocks.
    sub_stage: u32,
    /// Columns right of the thread's first.
    column: u32,
    column_bytes: u32,
    copies: Vec<Copied>,
}

/// One 16-byte vector a thread.
#[derive(Serialize)]
struct Copied {
    /// Rows below the thread's first, within the block.
    row: u32,
    /// The predicate that holds for threads that have such a vector, where not all have.
    guard: Option<String>,
    /// Address bits in which the swizzle differs from that of the thread's first row.
    flip: u32,
    to: String,
    from: String,
    /// Another one of the group follows.
    advance: bool,
    registers: [String; 4],
}

impl<'p> Operand<'p> {
    pub(super) fn new(
        (plan, swizzle_shift): (&'p plan::Operand, u32),
        (name, base): (&'static str, Source),
        stage_offset: u32,
        dtype: Dtype,
    ) -> Self {
        Self {
            name,
            base,
            plan,
            swizzle_shift,
            swizzle_mask: plan.group - 1,
            idle_threads: plan.idle_threads(),
            rows_of_last_pass: plan.rows_of_last_pass(),
            panel_bytes: plan.panel_bytes(),
            group_shift: plan.group.trailing_zeros(),
            stage_offset,
            stride: plan.pitch / dtype.bytes(),
        }
    }
}

impl Fetch {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let (spec, k) = (&plan.spec, &plan.kloop);
        Self {
            // Blocks that an index lists are not neighbours.
            rows_a_stage: if plan.lines() { 0 } else { k.sub_stages * spec.bm },
            k_bytes: k.k_step * if plan.lines() { line_bytes(plan) } else { spec.a.bytes() },
            b_rows_along: if plan.b.along_k { "N" } else { "K" },
            b_rows_left: if plan.b.along_k { "%r_n_left" } else { "%r_bound" },
            k_left: if k.sub_stages == 1 { "%r_left" } else { "%r_bound" },
            passes_span_blocks: k.sub_stages > 1 && plan.b.rows_a_pass > spec.bk,
            lines_span_blocks: k.sub_stages > 1 && plan.lines() && plan.a.rows_a_pass > spec.bk,
            whole: Part::whole(plan, "whole"),
        }
    }
}

impl Part {
    fn whole(plan: &WarpPlan, site: &str) -> Self {
        Self {
            site: site.to_owned(),
            begins: true,
            begins_b: true,
            a: if plan.lines() { vec![] } else { copies_of_a(plan) },
            lines: if plan.lines() { lines_of_a(plan) } else { vec![] },
            groups: groups_of_b(plan),
            ends: true,
            commits: plan.arch.cp_async && !plan.spec.load.has_roles(),
        }
    }

    /// A stage in `count` parts of about as many copies: a burst of them would stop the products behind it.
    pub(super) fn spread(plan: &WarpPlan, site: &str, count: u32) -> Vec<Self> {
        let mut rest = Self::whole(plan, site);
        let total = plan.a.copies() + plan.b.copies();
        (0..count)
            .map(|i| {
                let copies = total * (i + 1) / count - total * i / count;
                let mut part = rest.split_off(copies as usize);
                part.site = format!("{site}_{i}");
                part.ends = i + 1 == count;
                part.commits = rest.commits && part.ends;
                part
            })
            .collect()
    }

    /// The first `copies` copies; what remains is `self`.
    fn split_off(&mut self, copies: usize) -> Self {
        let of_a = copies.min(self.a.len());
        let a: Vec<Copied> = self.a.drain(..of_a).collect();
        let mut left = copies - of_a;
        let [lines, groups] = [&mut self.lines, &mut self.groups].map(|groups| split_groups(groups, &mut left));
        let begins_b = self.begins_b && !groups.is_empty();
        let begins = self.begins;
        let part = Self { site: String::new(), begins, begins_b, a, lines, groups, ends: false, commits: false };
        self.begins = false;
        self.begins_b &= !begins_b;
        part
    }
}

/// The first copies of groups, of which `left` are still to be taken; what remains is in `groups`.
fn split_groups(groups: &mut Vec<Group>, left: &mut usize) -> Vec<Group> {
    let mut taken = vec![];
    while *left > 0 && !groups.is_empty() {
        let group = &mut groups[0];
        let count = (*left).min(group.copies.len());
        *left -= count;
        taken.push(Group { copies: group.copies.drain(..count).collect(), ..*group });
        group.begins = false;
        if group.copies.is_empty() {
            groups.remove(0);
        }
    }
    taken
}

/// Bytes of a line of a block's values that are contiguous along M.
pub(super) fn line_bytes(plan: &WarpPlan) -> u32 {
    plan.spec.bm * plan.spec.a.bytes()
}

fn copies_of_a(plan: &WarpPlan) -> Vec<Copied> {
    let row_bytes = plan.spec.bk * plan.spec.a.bytes();
    let copy = |(i, pass): (usize, Pass)| Copied {
        from: address("%rd_a", pass.row * row_bytes + pass.vector * VECTOR_BYTES),
        ..copied((&plan.a, "a"), &pass, i as u32)
    };
    plan.a.passes(plan.swizzle_shift(&plan.a)).enumerate().map(copy).collect()
}

/// Of column-major B all rows, which are columns of C; of row-major B those of one block under a thread's vector.
fn groups_of_b(plan: &WarpPlan) -> Vec<Group> {
    groups(plan, (&plan.b, "b"), plan.a.copies(), |_, _| String::new())
}

/// Lines of K of A's blocks, those of one block under a thread's vector.
fn lines_of_a(plan: &WarpPlan) -> Vec<Group> {
    let bytes = line_bytes(plan);
    groups(plan, (&plan.a, "a"), 0, |row, column_bytes| address("%rd_a", row * bytes + column_bytes))
}

/// Copies of an operand, of which so many come before those: those that share a block and a vector together. `from` is the
/// address of a row of a block, so many bytes from its beginning.
fn groups(
    plan: &WarpPlan,
    (operand, x): (&plan::Operand, &str),
    before: u32,
    from: impl Fn(u32, u32) -> String,
) -> Vec<Group> {
    let (bk, bytes) = (plan.spec.bk, plan.spec.b.bytes());
    let gathers = plan.kloop.sub_stages > 1 && !operand.along_k;
    let sub_stage = |pass: &Pass| if gathers { pass.row / bk } else { 0 };
    let passes: Vec<(usize, Pass)> = operand.passes(plan.swizzle_shift(operand)).enumerate().collect();
    let together =
        passes.chunk_by(|(_, x), (_, y)| operand.along_k || x.vector == y.vector && sub_stage(x) == sub_stage(y));
    together
        .map(|group| {
            let (_, first) = group[0];
            let (sub_stage, column_bytes) = (sub_stage(&first), first.vector * VECTOR_BYTES);
            let copies = group.iter().enumerate().map(|(at, (i, pass))| {
                let row = pass.row - sub_stage * bk;
                let advance = at + 1 < group.len();
                Copied { row, advance, from: from(row, column_bytes), ..copied((operand, x), pass, before + *i as u32) }
            });
            Group { begins: true, sub_stage, column: column_bytes / bytes, column_bytes, copies: copies.collect() }
        })
        .collect()
}

/// The thread's vector of a pass, number `number` of a stage.
fn copied((operand, x): (&plan::Operand, &str), pass: &Pass, number: u32) -> Copied {
    let guard = match (pass.last, operand.idle_threads()) {
        (true, _) => Some(format!("%p_copy_{x}_last")),
        (false, true) => Some(format!("%p_copy_{x}")),
        (false, false) => None,
    };
    let base = if pass.flip == 0 { format!("%r_to_{x}") } else { "%r_to".to_owned() };
    Copied {
        row: pass.row,
        guard,
        flip: pass.flip,
        to: address(&base, pass.offset),
        from: String::new(),
        advance: false,
        registers: [0, 1, 2, 3].map(|word| format!("%r_copy{}", 4 * number + word)),
    }
}
