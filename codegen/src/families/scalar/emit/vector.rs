//! A tile of C in registers, operands 16 bytes at a time.

use std::ops::Range;

use serde::Serialize;

use super::super::plan::{ScalarPlan, Staging};
use super::element;
use super::place::offset;
use super::store::Store;

/// 32-bit words of a load of 16 bytes.
const WORDS: u32 = 4;
/// Words of A's rows in a stage: two loads.
const STAGE_WORDS: u32 = 2 * WORDS;
/// Rows whose chains fit the registers beside 64 sums and what is in flight.
const CHAINED_ROWS: u32 = 4;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    place: Place,
    stage: Stage,
    fetch: Fetch,
    setup: Vec<String>,
    /// The stage's words of A, one or two k each, before and after A's next stage is written.
    first_half: Vec<Word>,
    second_half: Vec<Word>,
    store: Store,
}

#[derive(Clone, Debug, Serialize)]
struct Place {
    block_m: u32,
    block_k: u32,
    cta_m: u32,
    cta_n: u32,
    thread_m: u32,
    thread_n: u32,
    lanes_m: u32,
    lanes_n: u32,
    lanes_n_mask: u32,
    lanes_n_shift: u32,
    warps_n: u32,
    warp_columns: u32,
    /// Columns that lie side by side: 16 bytes of B.
    run: u32,
    bytes: u32,
    line_bytes: u32,
    out_bytes: u32,
    accumulators: Vec<String>,
    /// What the multiplication is called after.
    sums: String,
}

#[derive(Clone, Debug, Serialize)]
struct Stage {
    k_step: u32,
    steps: u32,
    buffer_bytes: u32,
    /// The way back.
    buffer_back: i64,
    b_offset: u32,
    b_row_bytes: u32,
    /// Four lines of A: what half a row of a stage becomes.
    a_half_bytes: u32,
    a_advance: u32,
    a_next_block: u32,
}

/// What a thread brings from global memory, 16 bytes at a time.
#[derive(Clone, Debug, Serialize)]
struct Fetch {
    a: Vec<ALoad>,
    b: Vec<BLoad>,
    /// Loads of B in one of its rows.
    b_loads_a_row: u32,
    b_elements: u32,
    /// Rows of B that the CTA's threads load at once.
    b_rows: u32,
    /// Threads with a load in the last round of A, rows with one in that of B; 0 where all have.
    a_last: u32,
    b_last: u32,
}

#[derive(Clone, Debug, Serialize)]
struct ALoad {
    guard: &'static str,
    registers: String,
    from: u32,
    writes: Vec<Write>,
}

#[derive(Clone, Debug, Serialize)]
struct BLoad {
    guard: &'static str,
    words: Vec<String>,
    registers: String,
    add: Option<String>,
    index: String,
    /// Where it is, if it is not in the thread's first row.
    address: Option<String>,
    from: &'static str,
    to: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Write {
    register: String,
    to: u32,
}

/// One word of A's rows: what is read for it, multiplied, and promoted to f32 where a chain ends.
#[derive(Clone, Debug, Serialize)]
struct Word {
    comment: String,
    reads: Vec<String>,
    products: Vec<String>,
    promotes: Vec<String>,
}

const A_LAST: &str = "@%p_a_last ";
const B_LAST: &str = "@%p_b_last ";

impl Context {
    pub(super) fn new(plan: &ScalarPlan, staging: &Staging, chain: Option<u32>) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let line = s.bk * s.a.bytes();
        let mut first_half = words(plan, staging, chain);
        let second_half = first_half.split_off(first_half.len() / 2);
        Self {
            place: Place {
                block_m: s.bm,
                block_k: s.bk,
                cta_m: t.cta_m,
                cta_n: t.cta_n,
                thread_m: t.thread_m,
                thread_n: t.thread_n,
                lanes_m: t.lanes_m,
                lanes_n: t.lanes_n,
                lanes_n_mask: t.lanes_n - 1,
                lanes_n_shift: t.lanes_n.trailing_zeros(),
                warps_n: t.grid_n() / t.lanes_n,
                warp_columns: t.lanes_n * t.thread_n,
                run: run(plan),
                bytes: s.a.bytes(),
                line_bytes: line,
                out_bytes: s.out.bytes(),
                accumulators: (0..t.accumulators()).map(|i| format!("%f_acc{i}")).collect(),
                sums: chain.map_or(String::new(), |chain| {
                    format!(": {chain} products are added in {}, then promoted to f32", s.a)
                }),
            },
            stage: Stage {
                k_step: staging.k_step,
                steps: staging.steps,
                buffer_bytes: staging.buffer_bytes,
                buffer_back: -i64::from(staging.buffer_bytes),
                b_offset: staging.b_offset,
                b_row_bytes: t.cta_n * s.b.bytes(),
                a_half_bytes: WORDS * staging.a_pitch * 4,
                a_advance: STAGE_WORDS * 4,
                a_next_block: (s.bm - 1) * line,
            },
            fetch: Fetch::new(plan, staging),
            setup: element::widen_setup(s.a),
            first_half,
            second_half,
            store: Store::new(plan, run(plan)),
        }
    }
}

/// Columns of a thread that lie side by side.
fn run(plan: &ScalarPlan) -> u32 {
    WORDS * 4 / plan.spec.b.bytes()
}

impl Fetch {
    fn new(plan: &ScalarPlan, staging: &Staging) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let (threads, loads_a_row) = (t.threads(), t.cta_n / run(plan));
        let a_loads = 2 * t.cta_m;
        let b_rows = threads / loads_a_row;
        let names = |name: &str, i: u32| (0..WORDS).map(|w| format!("%r_{name}{}", WORDS * i + w)).collect::<Vec<_>>();
        let a = |i: u32| {
            let registers = names("a_in", i);
            let write = |(word, register): (usize, &String)| Write {
                register: register.clone(),
                to: (word as u32 * staging.a_pitch + i * threads / 2) * 4,
            };
            ALoad {
                guard: if (i + 1) * threads > a_loads { A_LAST } else { "" },
                from: i * threads / 2 * s.bk * s.a.bytes(),
                writes: registers.iter().enumerate().map(write).collect(),
                registers: registers.join(", "),
            }
        };
        let b = |i: u32| {
            let (words, further) = (names("b_in", i), i * b_rows);
            let (add, index) = offset("%r_b_row", further);
            BLoad {
                guard: if further + b_rows > staging.k_step { B_LAST } else { "" },
                registers: words.join(", "),
                words,
                add,
                index,
                address: (i > 0).then(|| format!("mad.lo.u64 %rd_t, %rd_line, {further}, %rd_b_at")),
                from: if i > 0 { "%rd_t" } else { "%rd_b_at" },
                to: further * t.cta_n * s.b.bytes(),
            }
        };
        Self {
            a: (0..a_loads.div_ceil(threads)).map(a).collect(),
            b: (0..staging.k_step.div_ceil(b_rows)).map(b).collect(),
            b_loads_a_row: loads_a_row,
            b_elements: run(plan),
            b_rows,
            a_last: a_loads % threads,
            b_last: staging.k_step % b_rows,
        }
    }
}

/// A stage's words. Chains take registers, so that rows take turns with them, four at a time: the others read B again.
fn words(plan: &ScalarPlan, staging: &Staging, chain: Option<u32>) -> Vec<Word> {
    let rows = plan.tile.thread_m;
    match chain {
        None => (0..STAGE_WORDS).map(|word| in_f32(plan, staging, word)).collect(),
        Some(chain) => (0..rows)
            .step_by(CHAINED_ROWS as usize)
            .map(|first| first..(first + CHAINED_ROWS).min(rows))
            .flat_map(|rows| (0..STAGE_WORDS).map(move |word| in_pairs(plan, staging, chain, rows.clone(), word)))
            .collect(),
    }
}

/// Up to four rows that lie side by side, in registers of a class.
fn read_a(staging: &Staging, class: &str, rows: Range<u32>, word: u32) -> String {
    let at = word * staging.a_pitch * 4 + rows.start * 4;
    let registers: Vec<String> = rows.map(|i| format!("%{class}_a{i}")).collect();
    match registers.len() {
        1 => format!("ld.shared.b32 {}, [%r_a_read + {at}]", registers[0]),
        many => format!("ld.shared.v{many}.b32 {{ {} }}, [%r_a_read + {at}]", registers.join(", ")),
    }
}

/// Two k of a 16-bit type: pairs of columns, each row's element for both of them.
fn in_pairs(plan: &ScalarPlan, staging: &Staging, chain: u32, rows: Range<u32>, word: u32) -> Word {
    let (t, ty) = (&plan.tile, plan.spec.a);
    let (mut reads, mut products) = (vec![read_a(staging, "r", rows.clone(), word)], vec![]);
    for (half, name) in [(0, "%h_low"), (1, "%h_high")] {
        let k = 2 * word + half;
        let b: Vec<String> = (0..WORDS).map(|c| format!("%r_b{}", WORDS * half + c)).collect();
        reads.push(format!("ld.shared.v4.b32 {{ {} }}, [%r_b_read + {}]", b.join(", "), k * t.cta_n * 2));
        for i in rows.clone() {
            products.push(format!("mov.b32 {{ %h_low, %h_high }}, %r_a{i}"));
            products.push(format!("mov.b32 %r_pair, {{ {name}, {name} }}"));
            for (sum, b) in sums(i).zip(&b) {
                let so_far = if k.is_multiple_of(chain) { "%r_zero" } else { &sum };
                products.push(format!("fma.rn.{ty}x2 {sum}, %r_pair, {b}, {so_far}"));
            }
        }
    }
    let chain_ends = (2 * word + 2).is_multiple_of(chain);
    Word {
        comment: format!("Rows {} to {}, K {} and {}.", rows.start, rows.end - 1, 2 * word, 2 * word + 1),
        reads,
        products,
        promotes: if chain_ends { rows.flat_map(|i| promote(plan, i)).collect() } else { vec![] },
    }
}

/// The chains of row `i`, two columns each. Rows that take turns use the same registers.
fn sums(i: u32) -> impl Iterator<Item = String> {
    (0..WORDS).map(move |c| format!("%r_sum{}", i % CHAINED_ROWS * WORDS + c))
}

/// Adds a row's chains to its f32 sums.
fn promote(plan: &ScalarPlan, i: u32) -> Vec<String> {
    let mut lines = vec![];
    for (c, chain) in (0..).zip(sums(i)) {
        lines.push(format!("mov.b32 {{ %h_low, %h_high }}, {chain}"));
        for (half, narrow, wide) in [(0, "%h_low", "%f_low"), (1, "%h_high", "%f_high")] {
            let sum = format!("%f_acc{}", i * plan.tile.thread_n + 2 * c + half);
            lines.extend(element::widen(plan.spec.a, narrow, wide));
            lines.push(format!("add.f32 {sum}, {sum}, {wide}"));
        }
    }
    lines
}

/// One k of f32.
fn in_f32(plan: &ScalarPlan, staging: &Staging, word: u32) -> Word {
    let t = &plan.tile;
    let rows = (0..t.thread_m).step_by(WORDS as usize).map(|first| first..(first + WORDS).min(t.thread_m));
    let mut reads: Vec<String> = rows.map(|rows| read_a(staging, "f", rows, word)).collect();
    for part in 0..t.thread_n / WORDS {
        let b: Vec<String> = (0..WORDS).map(|c| format!("%f_b{}", part * WORDS + c)).collect();
        let at = (word * t.cta_n + part * WORDS * t.lanes_n) * 4;
        reads.push(format!("ld.shared.v4.b32 {{ {} }}, [%r_b_read + {at}]", b.join(", ")));
    }
    let product = |i: u32, j: u32| {
        let sum = format!("%f_acc{}", i * t.thread_n + j);
        format!("fma.rn.f32 {sum}, %f_a{i}, %f_b{j}, {sum}")
    };
    Word {
        comment: format!("K {word}."),
        reads,
        products: (0..t.thread_m).flat_map(|i| (0..t.thread_n).map(move |j| product(i, j))).collect(),
        promotes: vec![],
    }
}
