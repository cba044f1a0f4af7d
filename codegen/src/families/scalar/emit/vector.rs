//! A tile of C in registers, operands 16 bytes at a time.

use std::ops::Range;

use serde::Serialize;

use super::super::plan::{ScalarPlan, Staging};
use super::elements::{self, A_LAST, B_LAST, Product, Stored, sum_at};

/// 32-bit words of a load of 16 bytes.
const WORDS: u32 = 4;
/// Words of A's rows in a stage: two loads.
const STAGE_WORDS: u32 = 2 * WORDS;
/// Rows whose chains fit the registers beside 64 sums and what is in flight.
const CHAINED_ROWS: u32 = 4;

#[derive(Serialize)]
pub(super) struct Operands {
    grid: Grid,
    /// What the multiplication is called after.
    how_sums_are_kept: String,
    /// Four lines of A: what half a row of a stage becomes.
    a_half_bytes: u32,
    b_row_bytes: u32,
    /// Bytes of A from one stage to the next.
    a_advance: u32,
    /// Loads of B in one of its rows, and rows that the CTA's threads load at once.
    b_loads_a_row: u32,
    b_rows: u32,
    /// Threads with a load in the last round of A, rows with one in that of B; 0 where all have.
    a_last: u32,
    b_last: u32,
    a: Vec<LoadOfA>,
    b: Vec<LoadOfB>,
    /// The stage's words of A, one or two k each, before and after A's next stage is written.
    first_half: Vec<Word>,
    second_half: Vec<Word>,
    rows: Vec<Row>,
}

/// How warps and lanes divide the tile.
#[derive(Serialize)]
struct Grid {
    warps_n: u32,
    warp_columns: u32,
    lanes_n_mask: u32,
    lanes_n_shift: u32,
    /// Adjacent columns: 16 bytes of B.
    run: u32,
}

#[derive(Serialize)]
struct LoadOfA {
    guard: &'static str,
    registers: Vec<String>,
    from: u32,
    /// Where each word goes.
    to: Vec<u32>,
}

#[derive(Serialize)]
struct LoadOfB {
    guard: &'static str,
    registers: Vec<String>,
    /// Rows below the thread's first.
    below: u32,
    to: u32,
}

/// One word of A's rows: what is read for it and multiplied.
#[derive(Default, Serialize)]
struct Word {
    comment: String,
    a: Vec<Read>,
    b: Vec<Read>,
    /// Of f32.
    products: Vec<Product>,
    /// Of a 16-bit type, two columns at a time, and the chains that end with them.
    pairs: Vec<Pair>,
    ends: Vec<End>,
}

/// Neighbouring words of shared memory.
#[derive(Serialize)]
struct Read {
    registers: Vec<String>,
    width: usize,
    from: u32,
}

/// One element of A times all columns.
#[derive(Serialize)]
struct Pair {
    a: String,
    /// Where the element is when the word is taken apart.
    half: &'static str,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    chain: String,
    b: String,
    so_far: String,
}

/// A chain of two columns, and the sums that it is added to.
#[derive(Serialize)]
struct End {
    chain: String,
    low: String,
    high: String,
}

/// A row of C, up to 16 bytes at a time where the tile is inside of C.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    by_element: elements::Row,
    stores: Vec<Store>,
}

/// Neighbouring columns in one store.
#[derive(Serialize)]
struct Store {
    /// Sums that are rounded to halves of one register.
    pairs: Vec<Rounded>,
    registers: Vec<String>,
    width: usize,
    to: u32,
}

#[derive(Serialize)]
struct Rounded {
    low: String,
    high: String,
    to: String,
}

impl Operands {
    pub(super) fn new(plan: &ScalarPlan, staging: &Staging, chain: Option<u32>) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let run = run(plan);
        let b_loads_a_row = t.cta_n / run;
        let b_rows = t.threads() / b_loads_a_row;
        let mut first_half = words(plan, staging, chain);
        let second_half = first_half.split_off(first_half.len() / 2);
        Self {
            grid: Grid {
                warps_n: t.grid_n() / t.lanes_n,
                warp_columns: t.lanes_n * t.thread_n,
                lanes_n_mask: t.lanes_n - 1,
                lanes_n_shift: t.lanes_n.trailing_zeros(),
                run,
            },
            how_sums_are_kept: chain.map_or(String::new(), |chain| {
                format!(": {chain} products are added in {}, then promoted to f32", s.a)
            }),
            a_half_bytes: WORDS * staging.a_pitch * 4,
            b_row_bytes: t.cta_n * s.b.bytes(),
            a_advance: STAGE_WORDS * 4,
            b_loads_a_row,
            b_rows,
            a_last: 2 * t.cta_m % t.threads(),
            b_last: staging.k_step % b_rows,
            a: loads_of_a(plan, staging),
            b: loads_of_b(plan, staging, b_rows),
            first_half,
            second_half,
            rows: (0..t.thread_m).map(|i| Row::new(plan, i)).collect(),
        }
    }
}

/// Adjacent columns of a thread.
fn run(plan: &ScalarPlan) -> u32 {
    WORDS * 4 / plan.spec.b.bytes()
}

/// The registers of words `WORDS * i` to `WORDS * (i + 1) - 1`.
fn four(name: &str, i: u32) -> Vec<String> {
    (0..WORDS).map(|word| format!("%{name}{}", WORDS * i + word)).collect()
}

fn loads_of_a(plan: &ScalarPlan, staging: &Staging) -> Vec<LoadOfA> {
    let (loads, threads) = (2 * plan.tile.cta_m, plan.tile.threads());
    let load = |i: u32| {
        let row = i * threads / 2;
        LoadOfA {
            guard: if (i + 1) * threads > loads { A_LAST } else { "" },
            registers: four("r_a_in", i),
            from: row * plan.spec.bk * plan.spec.a.bytes(),
            to: (0..WORDS).map(|word| (word * staging.a_pitch + row) * 4).collect(),
        }
    };
    (0..loads.div_ceil(threads)).map(load).collect()
}

fn loads_of_b(plan: &ScalarPlan, staging: &Staging, rows: u32) -> Vec<LoadOfB> {
    let load = |i: u32| LoadOfB {
        guard: if (i + 1) * rows > staging.k_step { B_LAST } else { "" },
        registers: four("r_b_in", i),
        below: i * rows,
        to: i * rows * plan.tile.cta_n * plan.spec.b.bytes(),
    };
    (0..staging.k_step.div_ceil(rows)).map(load).collect()
}

/// A stage's words. Chains take registers, so that rows take turns with them, four at a time: the others read B again.
fn words(plan: &ScalarPlan, staging: &Staging, chain: Option<u32>) -> Vec<Word> {
    let Some(chain) = chain else {
        return (0..STAGE_WORDS).map(|word| Word::of_f32(plan, staging, word)).collect();
    };
    groups(plan.tile.thread_m, CHAINED_ROWS)
        .flat_map(|rows| (0..STAGE_WORDS).map(move |word| Word::of_pairs(plan, staging, chain, rows.clone(), word)))
        .collect()
}

/// `0..count`, up to `size` at a time.
fn groups(count: u32, size: u32) -> impl Iterator<Item = Range<u32>> {
    (0..count).step_by(size as usize).map(move |first| first..(first + size).min(count))
}

impl Read {
    fn new(registers: Vec<String>, from: u32) -> Self {
        Self { width: registers.len(), registers, from }
    }

    /// Up to four adjacent rows of A, in registers of a class.
    fn of_a(staging: &Staging, class: &str, rows: Range<u32>, word: u32) -> Self {
        let from = (word * staging.a_pitch + rows.start) * 4;
        Self::new(rows.map(|i| format!("%{class}_a{i}")).collect(), from)
    }
}

impl Word {
    /// One k of f32.
    fn of_f32(plan: &ScalarPlan, staging: &Staging, word: u32) -> Self {
        let t = &plan.tile;
        let read_b = |part: u32| Read::new(four("f_b", part), (word * t.cta_n + part * WORDS * t.lanes_n) * 4);
        Self {
            comment: format!("K {word}."),
            a: groups(t.thread_m, WORDS).map(|rows| Read::of_a(staging, "f", rows, word)).collect(),
            b: (0..t.thread_n / WORDS).map(read_b).collect(),
            products: elements::products(plan),
            ..Self::default()
        }
    }

    /// Two k of a 16-bit type: pairs of columns, each row's element for both of them.
    fn of_pairs(plan: &ScalarPlan, staging: &Staging, chain: u32, rows: Range<u32>, word: u32) -> Self {
        let halves = [(2 * word, 0, "%h_low"), (2 * word + 1, 1, "%h_high")];
        let pair = |(k, set, half): (u32, u32, &'static str), i: u32| {
            let so_far = |sum: &str| if k.is_multiple_of(chain) { "%r_zero".to_owned() } else { sum.to_owned() };
            let steps = chains(i).into_iter().zip(four("r_b", set));
            let step = |(chain, b): (String, String)| Step { so_far: so_far(&chain), chain, b };
            Pair { a: format!("%r_a{i}"), half, steps: steps.map(step).collect() }
        };
        let ends = (2 * word + 2).is_multiple_of(chain);
        Self {
            comment: format!("Rows {} to {}, K {} and {}.", rows.start, rows.end - 1, 2 * word, 2 * word + 1),
            a: vec![Read::of_a(staging, "r", rows.clone(), word)],
            b: halves.map(|(k, set, _)| Read::new(four("r_b", set), k * plan.tile.cta_n * 2)).into(),
            pairs: halves.into_iter().flat_map(|half| rows.clone().map(move |i| pair(half, i))).collect(),
            ends: if ends { rows.flat_map(|i| End::of_row(plan, i)).collect() } else { vec![] },
            ..Self::default()
        }
    }
}

/// The chains of row `i`, two columns each. Rows that take turns use the same registers.
fn chains(i: u32) -> Vec<String> {
    four("r_sum", i % CHAINED_ROWS)
}

impl End {
    fn of_row(plan: &ScalarPlan, i: u32) -> Vec<Self> {
        let end =
            |(c, chain): (u32, String)| Self { chain, low: sum_at(plan, i, 2 * c), high: sum_at(plan, i, 2 * c + 1) };
        (0..).zip(chains(i)).map(end).collect()
    }
}

impl Row {
    /// Row `i` of a thread, whose columns come in runs, `lanes_n` runs apart.
    fn new(plan: &ScalarPlan, i: u32) -> Self {
        let (t, run) = (&plan.tile, run(plan));
        let right = |j: u32| j / run * run * t.lanes_n + j % run;
        let width = run.min(16 / plan.spec.out.bytes());
        Self {
            by_element: elements::Row {
                below: i,
                elements: (0..t.thread_n).map(|j| Stored::new(plan, (i, j), right(j))).collect(),
            },
            stores: groups(t.thread_n, width)
                .map(|columns| {
                    let to = right(columns.start) * plan.spec.out.bytes();
                    Store::new(plan, columns.map(|j| sum_at(plan, i, j)).collect(), to)
                })
                .collect(),
        }
    }
}

impl Store {
    fn new(plan: &ScalarPlan, sums: Vec<String>, to: u32) -> Self {
        if plan.spec.out.bytes() == 4 {
            return Self { pairs: vec![], width: sums.len(), registers: sums, to };
        }
        let pair = |(i, two): (usize, &[String])| Rounded {
            low: two[0].clone(),
            high: two[1].clone(),
            to: format!("%r_pack{i}"),
        };
        let pairs: Vec<Rounded> = sums.chunks(2).enumerate().map(pair).collect();
        Self { registers: pairs.iter().map(|pair| pair.to.clone()).collect(), width: pairs.len(), pairs, to }
    }
}
