//! The cursor that runs ahead of the products: which block comes next, and the copies that fetch a stage of it.

use serde::Serialize;

use super::super::plan::{Operand, PIECE, Pass, WarpPlan};
use super::lanes::{self, Lanes};

/// The loads of a kernel.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fetch {
    asynchronous: bool,
    lanes: Vec<Lanes>,
    slots: u32,
    steps: u32,
    k_step: u32,
    k_bytes: u32,
    first_block: Vec<String>,
    next_first_block: Vec<String>,
    block_columns: u32,
    block_row_bytes: u32,
    rows_a_stage: u32,
    element_bytes: u32,
    per_piece_mask: u32,
    b_rows_along: &'static str,
    /// A new tile's place in B.
    tile: Vec<String>,
    find_a: Vec<String>,
    /// A whole stage, all at once.
    pub(super) whole: Part,
    b: B,
}

/// What is copied of a stage at one place of the code.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Part {
    site: String,
    /// The stage begins here: its block is found first.
    begins: bool,
    /// B begins here.
    begins_b: bool,
    a: Vec<Copied>,
    groups: Vec<Group>,
    /// The stage ends here.
    ends: bool,
}

#[derive(Clone, Debug, Serialize)]
struct B {
    /// The last piece of a line along K may hold elements beyond K, which must become zeros.
    exact: bool,
    bytes: Vec<String>,
    masks: Vec<Mask>,
    registers: Vec<MaskedRegister>,
}

/// Copies that share a place in K.
#[derive(Clone, Debug, Serialize)]
struct Group {
    find: Vec<String>,
    copies: Vec<Copied>,
}

/// One piece a thread.
#[derive(Clone, Debug, Serialize)]
struct Copied {
    /// What sets the predicate of a piece that exists.
    test: String,
    /// What sets it for those only that this thread copies.
    guarded: Vec<String>,
    /// Holds for pieces that exist and are this thread's.
    exists: &'static str,
    /// Holds for pieces that are this thread's, as the beginning of an instruction.
    guard: String,
    flip: Vec<String>,
    to: String,
    from: String,
    advance: bool,
    registers: Vec<String>,
    vector: String,
}

#[derive(Clone, Debug, Serialize)]
struct Mask {
    register: String,
    bits_before: u32,
}

#[derive(Clone, Debug, Serialize)]
struct MaskedRegister {
    register: String,
    mask: String,
}

impl Fetch {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let (spec, k) = (&plan.spec, &plan.kloop);
        let asynchronous = plan.arch.cp_async;
        let first_of_b = 4 * plan.a.copies();
        let along_k = plan.b_along_k();
        let exact = along_k && !asynchronous;
        let of_b = first_of_b..first_of_b + 4 * plan.b.copies();
        Self {
            asynchronous,
            lanes: vec![Lanes::a(plan), Lanes::b(plan)],
            slots: k.slots,
            steps: k.steps,
            k_step: k.k_step,
            k_bytes: k.k_step * spec.a.bytes(),
            first_block: divide("%r_first", "%r_a_row", spec.bm),
            next_first_block: divide("%r_t", "%r_t", spec.bm),
            block_columns: spec.bk,
            block_row_bytes: spec.bk * spec.a.bytes(),
            rows_a_stage: k.slots * spec.bm,
            element_bytes: spec.b.bytes(),
            per_piece_mask: PIECE / spec.b.bytes() - 1,
            b_rows_along: if along_k { "N" } else { "K" },
            tile: tile(plan),
            find_a: find_a(plan),
            whole: Part::whole(plan, "whole"),
            b: B {
                exact: along_k,
                bytes: if along_k { bytes(plan) } else { vec![] },
                masks: (0..if exact { 4 } else { 0 })
                    .map(|i| Mask { register: format!("%r_mask{i}"), bits_before: 32 * i })
                    .collect(),
                registers: of_b
                    .filter(|_| exact)
                    .map(|i| MaskedRegister { register: copy_register(i), mask: format!("%r_mask{}", i % 4) })
                    .collect(),
            },
        }
    }
}

impl Part {
    fn whole(plan: &WarpPlan, site: &str) -> Self {
        let groups = if plan.b_along_k() { vec![along_k_group(plan)] } else { along_n_groups(plan) };
        let site = site.to_owned();
        Self { site, begins: true, begins_b: true, a: copies_of_a(plan), groups, ends: true }
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
                part
            })
            .collect()
    }

    /// The first `copies` copies; what remains is `self`.
    fn split_off(&mut self, copies: usize) -> Self {
        let of_a = copies.min(self.a.len());
        let a: Vec<Copied> = self.a.drain(..of_a).collect();
        let mut of_b = copies - of_a;
        let mut groups = vec![];
        while of_b > 0 && !self.groups.is_empty() {
            let group = &mut self.groups[0];
            let count = of_b.min(group.copies.len());
            of_b -= count;
            groups.push(Group { find: std::mem::take(&mut group.find), copies: group.copies.drain(..count).collect() });
            if group.copies.is_empty() {
                self.groups.remove(0);
            }
        }
        let begins_b = self.begins_b && !groups.is_empty();
        let part = Self { site: String::new(), begins: self.begins, begins_b, a, groups, ends: false };
        self.begins = false;
        self.begins_b &= !begins_b;
        part
    }
}

/// `to` = `from` / `by`, for numbers below 2^31: a shift, or a multiplication by 2^(31 + s) / `by` with 2^s >= `by`.
fn divide(to: &str, from: &str, by: u32) -> Vec<String> {
    if by.is_power_of_two() {
        return vec![format!("shr.u32 {to}, {from}, {}", by.trailing_zeros())];
    }
    let s = by.next_power_of_two().trailing_zeros();
    let factor = (1u64 << (31 + s)) / u64::from(by) + 1;
    vec![format!("mul.hi.u32 {to}, {from}, {factor}"), format!("shr.u32 {to}, {to}, {}", s - 1)]
}

fn copy_register(i: u32) -> String {
    format!("%r_copy{i}")
}

fn tile(plan: &WarpPlan) -> Vec<String> {
    let mut lines = vec!["ld.param.u32 %r_n_left, [n]".to_owned(), "sub.u32 %r_n_left, %r_n_left, %r_c_col".to_owned()];
    if plan.b_along_k() {
        lines.push("mad.wide.u32 %rd_b_tile, %r_c_col, %r_ldb_bytes, %rd_b_lane".to_owned());
        lines.push("sub.u32 %r_n_left, %r_n_left, %r_row_b".to_owned());
    } else {
        lines.push(format!("mad.wide.u32 %rd_b_tile, %r_c_col, {}, %rd_b_lane", plan.spec.b.bytes()));
        lines.push("sub.u32 %r_n_left, %r_n_left, %r_n_b".to_owned());
    }
    lines
}

/// Does the thread's piece of A exist, and where does it begin?
fn find_a(plan: &WarpPlan) -> Vec<String> {
    if plan.kloop.slots == 1 {
        return vec!["setp.gt.s32 %p_a, %r_left, %r_k_a".to_owned()];
    }
    let mut lines = vec!["add.u32 %r_t, %r_j, %r_slot_a".to_owned(), "setp.lt.u32 %p_a, %r_t, %r_chunk".to_owned()];
    if lanes::padded(plan) {
        lines.push("and.pred %p_a, %p_a, %p_inside_a".to_owned());
    }
    let row_bytes = plan.spec.bk * plan.spec.a.bytes();
    lines.push(format!("mad.wide.u32 %rd_a, %r_a_row, {row_bytes}, %rd_a_lane"));
    lines
}

fn copies_of_a(plan: &WarpPlan) -> Vec<Copied> {
    let row_bytes = plan.spec.bk * plan.spec.a.bytes();
    let copy = |(i, pass): (usize, Pass)| {
        let from = offset("%rd_a", pass.row * row_bytes + pass.piece * PIECE);
        copied((&plan.a, "a"), &pass, i as u32, from, (String::new(), "%p_a"), false)
    };
    plan.a.passes().enumerate().map(copy).collect()
}

/// Row-major B: rows lie along K, a piece is 8 columns.
fn along_n_groups(plan: &WarpPlan) -> Vec<Group> {
    let (b, bk, per_piece) = (&plan.b, plan.spec.bk, PIECE / plan.spec.b.bytes());
    let slot = |pass: &Pass| if plan.kloop.slots > 1 { pass.row / bk } else { 0 };
    let passes: Vec<(usize, Pass)> = b.passes().enumerate().collect();
    let together = passes.chunk_by(|(_, x), (_, y)| x.piece == y.piece && slot(x) == slot(y));
    together
        .map(|group| {
            let (_, first) = group[0];
            let mut find = if plan.kloop.slots > 1 {
                find_slot(plan, slot(&first))
            } else {
                vec!["sub.u32 %r_bound, %r_left, %r_k_b".to_owned()]
            };
            let n = first.piece * per_piece;
            find.push(match plan.kloop.slots {
                1 => format!("setp.gt.s32 %p_b, %r_n_left, {n}"),
                _ => format!("setp.gt.and.s32 %p_b, %r_n_left, {n}, %p_b"),
            });
            find.push("mad.wide.u32 %rd_b, %r_k, %r_ldb_bytes, %rd_b_tile".to_owned());
            if first.piece > 0 {
                find.push(format!("add.s64 %rd_b, %rd_b, {}", first.piece * PIECE));
            }
            let row_in_slot = |pass: &Pass| pass.row - slot(pass) * if plan.kloop.slots > 1 { bk } else { 0 };
            let copies = group.iter().enumerate().map(|(at, (i, pass))| {
                let test = format!("setp.gt.and.s32 %p_t, %r_bound, {}, %p_b", row_in_slot(pass));
                let more = at + 1 < group.len();
                copied((b, "b"), pass, plan.a.copies() + *i as u32, "%rd_b".to_owned(), (test, "%p_t"), more)
            });
            Group { find, copies: copies.collect() }
        })
        .collect()
}

/// The block of slot `slot`, and of the thread's own where a pass covers several blocks.
fn find_slot(plan: &WarpPlan, slot: u32) -> Vec<String> {
    let mut lines = vec![format!("add.u32 %r_t, %r_j, {slot}")];
    if plan.b.rows_a_pass > plan.spec.bk {
        lines.push("add.u32 %r_t, %r_t, %r_slot_b".to_owned());
    }
    lines.extend(find_column(plan));
    lines.push("sub.u32 %r_bound, %r_bound, %r_k_b".to_owned());
    lines
}

/// From the number of a block in its chunk to its first row of B, and the rows from there to K.
fn find_column(plan: &WarpPlan) -> Vec<String> {
    vec![
        "setp.lt.u32 %p_b, %r_t, %r_chunk".to_owned(),
        "shfl.sync.idx.b32 %r_k, %r_cols, %r_t, 31, 0xffffffff".to_owned(),
        format!("mul.lo.u32 %r_k, %r_k, {}", plan.spec.bk),
        "ld.param.u32 %r_bound, [k]".to_owned(),
        "sub.u32 %r_bound, %r_bound, %r_k".to_owned(),
    ]
}

/// Column-major B: rows lie along N, a piece is 16 bytes of K.
fn along_k_group(plan: &WarpPlan) -> Group {
    let mut find = vec![];
    if plan.kloop.slots == 1 {
        find.push("setp.gt.s32 %p_b, %r_left, %r_k_b".to_owned());
    } else {
        find.push("add.u32 %r_t, %r_j, %r_slot_b".to_owned());
        find.extend(find_column(plan));
        find.push("setp.gt.and.s32 %p_b, %r_bound, %r_k_b, %p_b".to_owned());
        if lanes::padded(plan) {
            find.push("and.pred %p_b, %p_b, %p_inside_b".to_owned());
        }
    }
    find.push(format!("mad.wide.u32 %rd_b, %r_k, {}, %rd_b_tile", plan.spec.b.bytes()));
    let last = plan.b.copies() - 1;
    let copies = plan.b.passes().enumerate().map(|(i, pass)| {
        let test = format!("setp.gt.and.s32 %p_t, %r_n_left, {}, %p_b", pass.row);
        let more = (i as u32) < last;
        copied((&plan.b, "b"), &pass, plan.a.copies() + i as u32, "%rd_b".to_owned(), (test, "%p_t"), more)
    });
    Group { find, copies: copies.collect() }
}

/// Bytes of the thread's piece that lie within K.
fn bytes(plan: &WarpPlan) -> Vec<String> {
    let left = if plan.kloop.slots == 1 { "%r_left" } else { "%r_bound" };
    vec![
        format!("sub.s32 %r_bytes, {left}, %r_k_b"),
        format!("mul.lo.s32 %r_bytes, %r_bytes, {}", plan.spec.b.bytes()),
        "max.s32 %r_bytes, %r_bytes, 0".to_owned(),
        format!("min.s32 %r_bytes, %r_bytes, {PIECE}"),
    ]
}

fn copied(
    (operand, x): (&Operand, &str),
    pass: &Pass,
    number: u32,
    from: String,
    (test, found): (String, &'static str),
    advance: bool,
) -> Copied {
    let guard = lanes::guard(operand, x, pass);
    let base = format!("%r_to_{x}");
    let (flip, base) = match pass.flip {
        0 => (vec![], base),
        flip => (vec![format!("xor.b32 %r_to, {base}, {flip}")], "%r_to".to_owned()),
    };
    let registers: Vec<String> = (4 * number..4 * number + 4).map(copy_register).collect();
    Copied {
        test,
        guarded: guard.iter().map(|guard| format!("and.pred %p_t, {found}, {guard}")).collect(),
        exists: if guard.is_some() { "%p_t" } else { found },
        guard: guard.map(|guard| format!("@{guard} ")).unwrap_or_default(),
        flip,
        to: offset(&base, pass.offset),
        from,
        advance,
        vector: format!("{{ {} }}", registers.join(", ")),
        registers,
    }
}

fn offset(base: &str, by: u32) -> String {
    if by == 0 { base.to_owned() } else { format!("{base} + {by}") }
}
