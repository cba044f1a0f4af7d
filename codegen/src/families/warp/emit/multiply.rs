//! The products of a stage: fragments, their addresses, and which of them are multiplied with each other.

use serde::Serialize;

use super::super::plan::{Operand, VECTOR_BYTES, WarpPlan, doubles, fragment_registers, multiply_instruction, tf32};
use super::copies::Part;
use super::doubles as of_f64;
use super::operands::{Address, Fragments, Load, accumulator, address, register, tuple};
use super::words;
use crate::{Dtype, Layout};

/// What loads a fragment, whose lines are along K, or whose lines are lines of K.
const LOAD: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16";
const LOAD_TRANSPOSED: &str = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16";

/// The multiply steps of a kernel.
#[derive(Serialize)]
pub(super) struct Multiply {
    instruction: String,
    /// Of a `wmma` fragment.
    shape: String,
    /// What clears an accumulator.
    clear: &'static str,
    zero: &'static str,
    accumulators: Vec<String>,
    /// The layout of A in a stage, and how its fragments are loaded where they are not opaque.
    a_layout: Layout,
    load_a: &'static str,
    /// Bytes from one row of A to the next, and from one column of B, where fragments are opaque.
    row_bytes: u32,
    column_bytes: u32,
    /// Registers with the places of a warp's fragments of A in lines of K, and of row-major B, in a stage: those that no other
    /// one leads to.
    lanes_a: Vec<String>,
    lanes_b: Vec<String>,
    /// The first fragments of a stage.
    first: Fragments,
    rounds: Rounds,
    stages: Vec<Stage>,
}

/// What turns the blocks of a work tile into rounds of the stage loop.
#[derive(Serialize)]
struct Rounds {
    /// Added before the shift, to round up.
    up: u32,
    shift: u32,
    a_block: u32,
}

/// One stage of a block.
#[derive(Serialize)]
struct Stage {
    comment: String,
    units: Vec<Unit>,
}

/// One instruction's worth of K.
#[derive(Serialize)]
struct Unit {
    fragments: Fragments,
    /// What is copied of a later stage meanwhile.
    fetch: Option<Part>,
    /// Registers of f32 that are rounded to TF32 before.
    rounded: Vec<String>,
    products: Vec<Product>,
    /// The stage ends `before` these products are issued, or `after`; or not here.
    boundary: &'static str,
}

#[derive(Serialize)]
struct Product {
    a: String,
    b: String,
    d: String,
}

impl Multiply {
    /// Registers of a thread's sums.
    pub(super) fn sums(&self) -> u32 {
        self.accumulators.len() as u32
    }

    pub(super) fn new(plan: &WarpPlan) -> Self {
        let k = &plan.kloop;
        let (m, n) = plan.tiling.fragment;
        let along = |operand: &Operand| if operand.along_k { operand.pitch } else { plan.spec.b.bytes() };
        let (clear, zero, count) = match (plan.spec.acc, plan.tiling.accumulators(&plan.spec)) {
            (Dtype::F32, count) => ("mov.f32", "0f00000000", count),
            (Dtype::F64, registers) => ("mov.f64", "0d0000000000000000", registers / 2),
            (_, registers) => ("mov.b32", "0", registers),
        };
        Self {
            instruction: multiply_instruction(&plan.spec),
            shape: format!("m{m}n{n}k16"),
            clear,
            zero,
            accumulators: (0..count).map(|i| accumulator(plan, i)).collect(),
            a_layout: if plan.a.along_k { Layout::RowMajor } else { Layout::ColMajor },
            load_a: if plan.a.along_k { LOAD } else { LOAD_TRANSPOSED },
            row_bytes: along(&plan.a),
            column_bytes: along(&plan.b),
            lanes_a: Side::a(plan).lanes(plan),
            lanes_b: Side::b(plan).lanes(plan),
            first: Fragments { addresses: addresses(plan), ..Fragments::of(plan, 0, 0) },
            rounds: Rounds {
                up: k.sub_stages - 1,
                shift: k.sub_stages.trailing_zeros(),
                a_block: if k.distinct() == 1 { k.steps } else { 1 },
            },
            stages: (0..k.distinct())
                .map(|step| Stage { comment: comment(plan, step), units: units(plan, step) })
                .collect(),
        }
    }
}

fn comment(plan: &WarpPlan, step: u32) -> String {
    let k = &plan.kloop;
    match (k.sub_stages, k.steps) {
        (1, 1) => format!("The block's {} of K.", k.last),
        (1, n) if k.distinct() == 1 => format!("One of {n} stages of {} of K.", k.k_step),
        (1, _) => format!("K {} to {} of the block.", step * k.k_step, step * k.k_step + k.width(step) - 1),
        (sub_stages, _) => format!("{sub_stages} blocks of {} of K, side by side.", k.k_step),
    }
}

/// A stage's units: fragments of the next one are loaded before this one is multiplied, across the boundary of two
/// stages too, where the two sets of registers alternate evenly.
fn units(plan: &WarpPlan, step: u32) -> Vec<Unit> {
    let (count, buffered) = (plan.units(step), plan.tiling.buffered);
    let ahead = buffered && count.is_multiple_of(2);
    // Copies through registers are all on their way at once; the last unit is the boundary's.
    let parts = match (plan.arch.cp_async, ahead) {
        (false, _) => 1,
        (true, true) => count - 1,
        (true, false) => count,
    };
    let parts = if plan.spec.load.has_roles() { vec![] } else { Part::spread(plan, &step.to_string(), parts) };
    let mut parts = parts.into_iter();
    (0..count)
        .map(|unit| {
            let last = unit + 1 == count;
            let set = if buffered { unit % 2 } else { 0 };
            Unit {
                fragments: match (buffered, last) {
                    (true, false) => Fragments::of(plan, unit + 1, 1 - set),
                    (false, _) if unit > 0 => Fragments::of(plan, unit, 0),
                    _ => Fragments::default(),
                },
                fetch: parts.next(),
                rounded: rounded(plan, set),
                products: products(plan, set),
                boundary: match (last, ahead) {
                    (false, _) => "no",
                    (true, true) => "before",
                    (true, false) => "after",
                },
            }
        })
        .collect()
}

/// Registers `count * i` to `count * (i + 1) - 1` of the accumulators.
pub(super) fn sums(plan: &WarpPlan, i: u32, count: u32) -> String {
    tuple(&(count * i..count * (i + 1)).map(|n| accumulator(plan, n)).collect::<Vec<_>>())
}

/// Registers `count * i` to `count * (i + 1) - 1` of a set of fragments.
fn registers(plan: &WarpPlan, x: &str, set: u32, i: u32, count: u32) -> String {
    tuple(&(count * i..count * (i + 1)).map(|n| register(plan, x, set, n)).collect::<Vec<_>>())
}

/// What one instruction takes of fragments that are loaded together, in registers.
struct Taken {
    a: u32,
    b: u32,
    d: u32,
    /// Instructions along N, and along K.
    columns: u32,
    steps: u32,
}

impl Taken {
    fn of(plan: &WarpPlan) -> Self {
        let (a, b) = fragment_registers(&plan.spec);
        let columns = plan.tiling.fragments().1;
        if plan.doubles() {
            let (m, _, k) = doubles::mnk(&plan.spec);
            let steps = doubles::loaded_k(&plan.spec) / k;
            return Self { a: m / 8 * k / 4, b: k / 4, d: m / 4, columns: 2 * columns, steps };
        }
        // A load of B feeds two instructions of `mma.sync`, 8 columns each.
        let (columns, b, sums) = if plan.opaque() { (columns, b, 8) } else { (plan.tiling.warp_n / 8, 2, 4) };
        Self { a, b, d: plan.spec.acc.registers(sums), columns, steps: 1 }
    }
}

/// The registers of a set of fragments, where they are rounded: to nearest, while the tensor core itself would cut. TMA has
/// rounded what it loads.
fn rounded(plan: &WarpPlan, set: u32) -> Vec<String> {
    if !tf32::takes(&plan.spec) || plan.a.is_boxed() {
        return vec![];
    }
    let (parts, sizes) = (plan.tiling.fragments(), fragment_registers(&plan.spec));
    let of = |x, count| (0..count).map(move |n| register(plan, x, set, n));
    of("a", parts.0 * sizes.0).chain(of("b", parts.1 * sizes.1)).collect()
}

/// Every fragment of A with every one of B, back and forth, so that neighbours share one.
fn products(plan: &WarpPlan, set: u32) -> Vec<Product> {
    let Taken { a, b, d, columns, steps } = Taken::of(plan);
    let rows = plan.tiling.fragments().0;
    let product = |(step, i, j): (u32, u32, u32)| Product {
        a: registers(plan, "a", set, i * steps + step, a),
        b: registers(plan, "b", set, j * steps + step, b),
        d: sums(plan, i * columns + j, d),
    };
    let column = |i: u32, j: u32| if i.is_multiple_of(2) { j } else { columns - 1 - j };
    let places = |step: u32| (0..rows).flat_map(move |i| (0..columns).map(move |j| (step, i, column(i, j))));
    (0..steps).flat_map(places).map(product).collect()
}

impl Fragments {
    /// Those of unit `unit` of a stage, into set `set`.
    fn of(plan: &WarpPlan, unit: u32, set: u32) -> Self {
        if plan.doubles() {
            return of_f64::fragments(plan, unit, set);
        }
        let (parts, lines) = (plan.tiling.fragments(), plan.tiling.fragment);
        let (size_a, size_b) = fragment_registers(&plan.spec);
        let loads = |x: &str, operand: &Operand, parts: u32, lines: u32, size: u32| -> Vec<Load> {
            let vectors = lines * plan.spec.b.bytes() / VECTOR_BYTES;
            let load = |part: u32| Load {
                registers: registers(plan, x, set, part, size),
                address: place(operand, x, part * if operand.along_k { lines } else { vectors }, unit),
            };
            (0..parts).map(load).collect()
        };
        Self {
            a: loads("a", &plan.a, parts.0, lines.0, size_a),
            b: if plan.words() { vec![] } else { loads("b", &plan.b, parts.1, lines.1, size_b) },
            words: if plan.words() { words::fragments(plan, unit, set) } else { vec![] },
            ..Self::default()
        }
    }
}

/// The address of a fragment that begins `across` rows or 16-byte vectors from the warp's first, at unit `unit` of K:
/// 2 vectors, or 16 rows.
fn place(operand: &Operand, x: &str, across: u32, unit: u32) -> String {
    let (row, vector) = if operand.along_k { (across, 2 * unit) } else { (16 * unit, across) };
    let (number, vector) = match operand.group {
        1 => (0, vector),
        // Vectors change places within their group: every even one of a group has an address register.
        group => (vector % group / 2, vector / group * group),
    };
    address(&format!("%r_{x}_at{number}"), row * operand.pitch + operand.vector_offset(vector))
}

/// A factor in a stage, and how its warps share it.
struct Side<'p> {
    name: &'static str,
    operand: &'p Operand,
    /// Warps across it, and the rows or columns of each.
    warps: u32,
    extent: u32,
}

impl<'p> Side<'p> {
    fn a(plan: &'p WarpPlan) -> Self {
        Self { name: "a", operand: &plan.a, warps: plan.tiling.warps.0, extent: plan.tiling.warp_m }
    }

    fn b(plan: &'p WarpPlan) -> Self {
        Self { name: "b", operand: &plan.b, warps: plan.tiling.warps.1, extent: plan.tiling.warp_n }
    }

    /// 16-byte vectors of a line of a warp's part.
    fn vectors(&self, plan: &WarpPlan) -> u32 {
        if self.operand.along_k { self.operand.vectors } else { self.extent * plan.spec.b.bytes() / VECTOR_BYTES }
    }

    /// Address registers: one for every even vector of a group that is used.
    fn count(&self, plan: &WarpPlan) -> u32 {
        if plan.opaque() { 1 } else { (self.operand.group / 2).min(self.vectors(plan) / 2).max(1) }
    }

    /// Do a warp's vectors begin with a whole group? Then one address makes the others by flipping bits.
    fn is_aligned(&self, plan: &WarpPlan) -> bool {
        self.operand.along_k || self.warps == 1 || self.vectors(plan).is_multiple_of(self.operand.group)
    }

    /// Registers with a lane's own places, which no other one leads to.
    fn lanes(&self, plan: &WarpPlan) -> Vec<String> {
        let own = if self.is_aligned(plan) { 1 } else { self.count(plan) };
        (0..own).map(|i| format!("%r_frag_{}{i}", self.name)).collect()
    }

    fn addresses(&self, plan: &WarpPlan) -> impl Iterator<Item = Address> + use<> {
        let (x, aligned) = (self.name, self.is_aligned(plan));
        let flip = move |number| if aligned { number * 2 * VECTOR_BYTES } else { 0 };
        (0..self.count(plan)).map(move |number| Address { x, number, flip: flip(number) })
    }
}

fn addresses(plan: &WarpPlan) -> Vec<Address> {
    if plan.doubles() {
        return of_f64::addresses(plan);
    }
    let a = Side::a(plan).addresses(plan);
    if plan.words() {
        return a.chain(words::addresses()).collect();
    }
    a.chain(Side::b(plan).addresses(plan)).collect()
}
