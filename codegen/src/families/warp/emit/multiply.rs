//! The products of a stage: fragments, the instructions that load them and those that multiply.

use serde::Serialize;

use super::super::plan::{Operand, PIECE, WarpPlan, fragment_registers};
use super::fetch::Part;
use crate::{Dtype, Layout};

/// The multiply steps of a kernel.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Multiply {
    instruction: String,
    /// Where a warp's fragments lie in a stage.
    lanes: Vec<String>,
    /// Addresses of a stage's fragments, from `%r_read_at`.
    addresses: Vec<String>,
    /// The first fragments of a stage.
    first: Vec<Load>,
    /// Turns an item's blocks into rounds of the stage loop.
    count: Vec<String>,
    zeros: Vec<String>,
    stages: Vec<Stage>,
}

/// One stage of a block.
#[derive(Clone, Debug, Serialize)]
struct Stage {
    comment: String,
    units: Vec<Unit>,
}

/// One instruction's worth of K.
#[derive(Clone, Debug, Serialize)]
struct Unit {
    loads: Vec<Load>,
    /// What is copied of a later stage meanwhile.
    fetch: Option<Part>,
    products: Vec<Product>,
    /// The stage ends `before` these products are issued, or `after`; or not here.
    seam: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Load {
    instruction: String,
    registers: String,
    address: String,
    stride: String,
}

#[derive(Clone, Debug, Serialize)]
struct Product {
    a: String,
    b: String,
    d: String,
}

impl Multiply {
    pub(super) fn new(plan: &WarpPlan) -> Self {
        let kloop = &plan.kloop;
        Self {
            instruction: instruction(plan),
            lanes: [lanes_a(plan), lanes_b(plan)].concat(),
            addresses: addresses(plan),
            first: loads(plan, 0, 0),
            count: count(plan),
            zeros: (0..plan.tiling.accumulators()).map(|i| zero(plan, i)).collect(),
            stages: (0..kloop.distinct())
                .map(|step| Stage { comment: comment(plan, step), units: units(plan, step) })
                .collect(),
        }
    }
}

fn comment(plan: &WarpPlan, step: u32) -> String {
    let k = &plan.kloop;
    match (k.slots, k.steps) {
        (1, 1) => format!("The block's {} of K.", k.last),
        (1, n) if k.distinct() == 1 => format!("One of {n} stages of {} of K.", k.k_step),
        (1, _) => format!("K {} to {} of the block.", step * k.k_step, step * k.k_step + k.width(step) - 1),
        (slots, _) => format!("{slots} blocks of {} of K, side by side.", k.k_step),
    }
}

fn count(plan: &WarpPlan) -> Vec<String> {
    let k = &plan.kloop;
    let mut lines = vec![];
    if k.slots > 1 {
        lines.push(format!("add.u32 %r_rounds, %r_rounds, {}", k.slots - 1));
        lines.push(format!("shr.u32 %r_rounds, %r_rounds, {}", k.slots.trailing_zeros()));
    }
    lines.push("max.u32 %r_rounds, %r_rounds, 1".to_owned());
    if k.steps > 1 && k.distinct() == 1 {
        lines.push(format!("mul.lo.u32 %r_rounds, %r_rounds, {}", k.steps));
    }
    lines
}

/// A stage's units: fragments of the next one are loaded before this one is multiplied, across the seam of two stages
/// too, where the two sets of registers alternate evenly.
fn units(plan: &WarpPlan, step: u32) -> Vec<Unit> {
    let (count, buffered) = (plan.units(step), plan.tiling.buffered);
    let ahead = buffered && count.is_multiple_of(2);
    // Copies through registers are all on their way at once; the last unit is the seam's.
    let parts = match (plan.arch.cp_async, ahead) {
        (false, _) => 1,
        (true, true) => count - 1,
        (true, false) => count,
    };
    let mut parts = Part::spread(plan, &step.to_string(), parts).into_iter();
    (0..count)
        .map(|unit| {
            let last = unit + 1 == count;
            let set = if buffered { unit % 2 } else { 0 };
            Unit {
                loads: match (buffered, last) {
                    (true, false) => loads(plan, unit + 1, 1 - set),
                    (false, _) if unit > 0 => loads(plan, unit, 0),
                    _ => vec![],
                },
                fetch: parts.next(),
                products: products(plan, set),
                seam: match (last, ahead) {
                    (false, _) => "no",
                    (true, true) => "before",
                    (true, false) => "after",
                },
            }
        })
        .collect()
}

/// The instruction that multiplies two fragments.
pub(crate) fn instruction(plan: &WarpPlan) -> String {
    let spec = &plan.spec;
    let (a, b) = (ptx_type(spec.a), ptx_type(spec.b));
    let sum = if spec.a.is_integer() { "s32" } else { "f32" };
    if !plan.opaque() {
        return format!("mma.sync.aligned.m16n8k{}.row.col.{sum}.{a}.{b}.{sum}", 32 / spec.a.bytes());
    }
    let types = if spec.a == Dtype::BF16 { "f32.bf16.bf16.f32" } else { "f32.f32" };
    format!("wmma.mma.sync.aligned.row.{}.{}.{types}", layout(spec.b_layout), shape(plan))
}

fn ptx_type(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::I8 => "s8",
        other => other.as_str(),
    }
}

pub(super) fn layout(layout: Layout) -> &'static str {
    match layout {
        Layout::RowMajor => "row",
        Layout::ColMajor => "col",
    }
}

pub(super) fn shape(plan: &WarpPlan) -> String {
    let (m, n) = plan.tiling.fragment;
    format!("m{m}n{n}k16")
}

/// The register of one sum.
pub(super) fn accumulator(plan: &WarpPlan, i: u32) -> String {
    if plan.spec.a.is_integer() { format!("%r_acc{i}") } else { format!("%f_acc{i}") }
}

fn zero(plan: &WarpPlan, i: u32) -> String {
    let register = accumulator(plan, i);
    if plan.spec.a.is_integer() { format!("mov.b32 {register}, 0") } else { format!("mov.f32 {register}, 0f00000000") }
}

/// Registers `count * i` to `count * (i + 1) - 1` of a family.
fn registers(family: &str, i: u32, count: u32) -> String {
    let names: Vec<String> = (count * i..count * (i + 1)).map(|n| format!("{family}{n}")).collect();
    format!("{{ {} }}", names.join(", "))
}

/// Every fragment of A with every one of B, back and forth, so that neighbours share one.
fn products(plan: &WarpPlan, set: u32) -> Vec<Product> {
    let (parts_m, parts_n) = plan.tiling.fragments();
    let (a, b) = fragment_registers(&plan.spec);
    let mut products = vec![];
    for i in 0..parts_m {
        let a = registers(&format!("%r_a{set}_"), i, a);
        let row: Vec<Product> = if plan.opaque() {
            let product = |j| Product {
                a: a.clone(),
                b: registers(&format!("%r_b{set}_"), j, b),
                d: sums(plan, i * parts_n + j, 8),
            };
            (0..parts_n).map(product).collect()
        } else {
            // A load of B feeds two instructions of 8 columns.
            let product = |j| Product {
                a: a.clone(),
                b: registers(&format!("%r_b{set}_"), j, 2),
                d: sums(plan, i * 2 * parts_n + j, 4),
            };
            (0..2 * parts_n).map(product).collect()
        };
        if i % 2 == 0 { products.extend(row) } else { products.extend(row.into_iter().rev()) }
    }
    products
}

pub(super) fn sums(plan: &WarpPlan, i: u32, count: u32) -> String {
    let names: Vec<String> = (count * i..count * (i + 1)).map(|n| accumulator(plan, n)).collect();
    format!("{{ {} }}", names.join(", "))
}

/// Loads of the fragments of unit `unit` of a stage into set `set`.
fn loads(plan: &WarpPlan, unit: u32, set: u32) -> Vec<Load> {
    let (parts_m, parts_n) = plan.tiling.fragments();
    let (size_a, size_b) = fragment_registers(&plan.spec);
    let a = (0..parts_m).map(|i| {
        let (instruction, stride) = load_instruction(plan, "a", &plan.a);
        let registers = registers(&format!("%r_a{set}_"), i, size_a);
        Load { instruction, registers, address: place(plan, &plan.a, "a", i, unit), stride }
    });
    let b = (0..parts_n).map(|j| {
        let (instruction, stride) = load_instruction(plan, "b", &plan.b);
        let registers = registers(&format!("%r_b{set}_"), j, size_b);
        Load { instruction, registers, address: place(plan, &plan.b, "b", j, unit), stride }
    });
    a.chain(b).collect()
}

fn load_instruction(plan: &WarpPlan, x: &str, operand: &Operand) -> (String, String) {
    if !plan.opaque() {
        let transposed = if operand.along_k { "" } else { ".trans" };
        return (format!("ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16"), String::new());
    }
    let way = if x == "a" || !operand.along_k { "row" } else { "col" };
    let name = format!("wmma.load.{x}.sync.aligned.{way}.{}.shared.{}", shape(plan), plan.spec.a);
    (name, format!(", {}", operand.pitch / plan.spec.a.bytes()))
}

/// The address of fragment `part` (along M or N) at unit `unit` of K.
fn place(plan: &WarpPlan, operand: &Operand, x: &str, part: u32, unit: u32) -> String {
    let (m, n) = plan.tiling.fragment;
    let lines = if x == "a" { m } else { n };
    let per_unit = 32 / PIECE;
    // Rows and pieces from the warp's first.
    let (row, piece) = if operand.along_k {
        (part * lines, unit * per_unit)
    } else {
        (unit * 16, part * lines * plan.spec.b.bytes() / PIECE)
    };
    let (base, piece) = match operand.group {
        1 => (format!("%r_{x}_at0"), piece),
        // Pieces change places within their group: every even piece of a group has an address register.
        group => (format!("%r_{x}_at{}", piece % group / 2), piece / group * group),
    };
    match row * operand.pitch + piece * PIECE {
        0 => base,
        offset => format!("{base} + {offset}"),
    }
}

/// Address registers of an operand: one for every even piece of a group that is used.
fn variants(plan: &WarpPlan, operand: &Operand, pieces: u32) -> u32 {
    if plan.opaque() { 1 } else { (operand.group / 2).min(pieces / 2).max(1) }
}

fn variants_a(plan: &WarpPlan) -> u32 {
    variants(plan, &plan.a, plan.a.pieces)
}

fn variants_b(plan: &WarpPlan) -> u32 {
    let pieces = if plan.b.along_k { plan.b.pieces } else { plan.tiling.warp_n * plan.spec.b.bytes() / PIECE };
    variants(plan, &plan.b, pieces)
}

/// Do the warp's pieces begin with a whole group? Then one address makes the others by flipping bits.
fn aligned_b(plan: &WarpPlan) -> bool {
    let first = plan.tiling.warp_n * plan.spec.b.bytes() / PIECE;
    plan.b.along_k || plan.tiling.warps.1 == 1 || first.is_multiple_of(plan.b.group)
}

fn lanes_a(plan: &WarpPlan) -> Vec<String> {
    let a = &plan.a;
    if plan.opaque() {
        return vec![format!("mul.lo.u32 %r_frag_a0, %r_warp_row, {}", a.pitch)];
    }
    let mut lines = vec![
        "and.b32 %r_row, %r_lane, 15".to_owned(),
        "shr.u32 %r_half, %r_lane, 4".to_owned(),
        "add.u32 %r_row, %r_row, %r_warp_row".to_owned(),
    ];
    lines.extend(swizzled(a, "%r_frag_a0", 0));
    lines
}

fn lanes_b(plan: &WarpPlan) -> Vec<String> {
    let (b, offset) = (&plan.b, plan.memory.b_offset);
    if plan.opaque() {
        let by = if b.along_k { b.pitch } else { plan.spec.b.bytes() };
        return vec![
            format!("mul.lo.u32 %r_frag_b0, %r_warp_col, {by}"),
            format!("add.u32 %r_frag_b0, %r_frag_b0, {offset}"),
        ];
    }
    let mut lines = vec![];
    if b.along_k {
        lines.extend([
            "and.b32 %r_row, %r_lane, 7".to_owned(),
            "shr.u32 %r_t, %r_lane, 4".to_owned(),
            "mad.lo.u32 %r_row, %r_t, 8, %r_row".to_owned(),
            "add.u32 %r_row, %r_row, %r_warp_col".to_owned(),
            "bfe.u32 %r_half, %r_lane, 3, 1".to_owned(),
        ]);
        lines.extend(swizzled(b, "%r_frag_b0", offset));
        return lines;
    }
    lines.extend([
        "and.b32 %r_row, %r_lane, 15".to_owned(),
        "shr.u32 %r_half, %r_lane, 4".to_owned(),
        format!("shr.u32 %r_t, %r_warp_col, {}", (PIECE / plan.spec.b.bytes()).trailing_zeros()),
        "add.u32 %r_half, %r_half, %r_t".to_owned(),
    ]);
    let own = if aligned_b(plan) { 1 } else { variants_b(plan) };
    for variant in 0..own {
        if variant > 0 {
            lines.push("add.u32 %r_half, %r_half, 2".to_owned());
        }
        lines.extend(swizzled(b, &format!("%r_frag_b{variant}"), offset));
    }
    lines
}

/// The place of row `%r_row`, piece `%r_half` in a stage.
fn swizzled(operand: &Operand, register: &str, offset: u32) -> Vec<String> {
    vec![
        format!("shr.u32 %r_t, %r_row, {}", operand.swizzle_shift()),
        format!("and.b32 %r_t, %r_t, {}", operand.group - 1),
        "xor.b32 %r_t, %r_t, %r_half".to_owned(),
        format!("mad.lo.u32 %r_t, %r_t, {PIECE}, {offset}"),
        format!("mad.lo.u32 {register}, %r_row, {}, %r_t", operand.pitch),
    ]
}

fn addresses(plan: &WarpPlan) -> Vec<String> {
    let mut lines = vec![];
    for (x, count, aligned) in [("a", variants_a(plan), true), ("b", variants_b(plan), aligned_b(plan))] {
        for variant in 0..count {
            lines.push(if variant == 0 || !aligned {
                format!("add.u32 %r_{x}_at{variant}, %r_read_at, %r_frag_{x}{variant}")
            } else {
                format!("xor.b32 %r_{x}_at{variant}, %r_{x}_at0, {}", variant * 2 * PIECE)
            });
        }
    }
    lines
}
