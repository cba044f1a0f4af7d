//! The softmax of a step: a thread holds pairs of neighbouring keys of two queries.
//!
//! Register 4 t + 2 h + e of S is key 8 t + 2 (lane mod 4) + e of query lane / 4 + 8 h. Registers 2 i and 2 i + 1 are those
//! of register i of P, which is in the order that WGMMA and mma.sync want of an A operand in registers.

use serde::Serialize;

/// Partial results of a row that are made side by side, so that none waits for the one before it.
const CHAINS: u32 = 4;
/// A probability of up to 2^8 is as exact as one of at most 1, in f16 and in bf16, and 128 of them add up in f32 without loss.
const SLACK: u32 = 8;
/// Powers of 2 that the reference of probabilities in e4m3 is below the maximum: of the slack, what remains is 4.
const HEADROOM: u32 = 4;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Softmax {
    /// A row's greatest product: lines `to = max(a, b)`.
    maxima: Vec<[String; 3]>,
    /// Powers of 2 by which an exponential may exceed 1 before the reference moves, and that as the bits of an f32.
    slack: u32,
    slack_bits: String,
    rows: Vec<Row>,
    /// From products to exponentials, and to the row's sum.
    exponentials: Vec<Exponential>,
    /// Two probabilities to a register: register, upper, lower.
    packs: Vec<[String; 3]>,
    /// Four probabilities of 8 bits to a register.
    quads: Vec<Quad>,
    /// What the reference is below the maximum, negated, as the bits of an f32; nothing where it is the maximum.
    headroom: String,
    /// The register by which O is multiplied beside the reciprocal of its sum: the factor of V. Nothing without one.
    value_factor: &'static str,
    /// What products are multiplied by in an exponent: one register, or one for each row.
    multipliers: Vec<&'static str>,
    /// Factors of blocks of keys are part of the exponents.
    has_block_factors: bool,
    /// What a new reference does to O: register, factor.
    rescales: Vec<[String; 2]>,
}

/// A query's registers.
#[derive(Clone, Debug, Serialize)]
struct Row {
    number: u32,
    /// The greatest of the step, and the reference: a maximum of the steps so far. Beyond the limit, the reference moves.
    step: String,
    max: String,
    limit: String,
    sum: String,
    factor: String,
    base: String,
    multiplier: &'static str,
    /// Lines `to = a + b` that make one sum of the partial ones.
    totals: Vec<[String; 3]>,
}

/// Four probabilities of a query in a register, from the lowest byte.
#[derive(Clone, Debug, Serialize)]
struct Quad {
    register: String,
    sums: [String; 4],
}

#[derive(Clone, Debug, Serialize)]
struct Exponential {
    register: String,
    base: String,
    multiplier: &'static str,
    /// The partial sum, and whether the exponential is its first term.
    partial: String,
    first: bool,
}

impl Softmax {
    /// That of a step of so many keys, and of O of so many columns.
    pub(crate) fn new((step, columns): (u32, u32)) -> Self {
        let registers = step / 2;
        Self {
            maxima: in_turns([0, 1].map(|row| maxima(row, registers))),
            slack: SLACK,
            slack_bits: format!("0f{:08X}", (SLACK as f32).to_bits()),
            rows: [0, 1].map(row).into(),
            exponentials: (0..registers).map(exponential).collect(),
            packs: (0..registers / 2).map(|i| [probability(i), sum(2 * i + 1), sum(2 * i)]).collect(),
            quads: vec![],
            headroom: String::new(),
            value_factor: "",
            multipliers: vec![MULTIPLIER],
            has_block_factors: false,
            rescales: (0..columns / 2).map(|i| [out(i), factor(half(i))]).collect(),
        }
    }

    /// The same with probabilities in e4m3, where V's keys lie in the order that [`quad`] makes of them. `factor` is what O is
    /// multiplied by.
    ///
    /// The largest e4m3 is 448, and 2^-6 the least of full precision. The reference is 2^4 below the maximum when it is set, so
    /// that what has grown by up to 2^4 since is at most 2^8, and probabilities down to 2^-10 of the maximum keep three bits.
    /// Sums are of f32 and not of what P is rounded to: they are then exact to f32 whatever the values, and so is LSE.
    pub(crate) fn in_e4m3(self, step: u32, value_factor: &'static str) -> Self {
        let headroom = format!("0f{:08X}", (-(HEADROOM as f32)).to_bits());
        Self { packs: vec![], quads: (0..step / 8).map(quad).collect(), headroom, value_factor, ..self }
    }

    /// The same with factors of blocks in the exponents: those of Q and K in what products are multiplied by, that of V in what is added.
    pub(crate) fn with_block_factors(mut self) -> Self {
        for row in &mut self.rows {
            row.multiplier = OF_ROWS[row.number as usize];
        }
        for (register, exponential) in self.exponentials.iter_mut().enumerate() {
            let row = half(register as u32) as usize;
            (exponential.base, exponential.multiplier) = (OF_STEP[row].to_owned(), OF_ROWS[row]);
        }
        Self { multipliers: OF_ROWS.to_vec(), has_block_factors: true, ..self }
    }
}

/// What products are multiplied by in an exponent.
const MULTIPLIER: &str = "%f_multiplier";
/// The same of each row, where factors of blocks are part of it, and what is added: the reference, negated, and the step's factor of V.
const OF_ROWS: [&str; 2] = ["%f_multiplier0", "%f_multiplier1"];
const OF_STEP: [&str; 2] = ["%f_of_step0", "%f_of_step1"];

/// Register `i` of P in e4m3, as WGMMA wants an A operand of 32 keys: bytes 4 t to 4 t + 3 of a query's first 16 keys, t being
/// lane mod 4, of its next ones, and the same of the query 8 below (PTX ISA, "Register fragments for
/// wgmma.mma_async.m64nNk32").
///
/// The thread has keys 2 t, 2 t + 1, 8 + 2 t, 9 + 2 t of those 16: which key a byte is of is then [`AttentionTiles::key_of_place`](crate::plan::AttentionTiles::key_of_place), and V lies so.
fn quad(i: u32) -> Quad {
    let (keys, row) = (2 * (i / 4) + i % 4 / 2, i % 2);
    let of = |eight: u32, key: u32| sum(8 * keys + 4 * eight + 2 * row + key);
    Quad { register: probability(i), sums: [of(0, 0), of(0, 1), of(1, 0), of(1, 1)] }
}

/// A register of S.
pub(crate) fn sum(i: u32) -> String {
    format!("%f_s{i}")
}

/// A register of O.
pub(crate) fn out(i: u32) -> String {
    format!("%f_o{i}")
}

/// A register of two probabilities.
pub(crate) fn probability(i: u32) -> String {
    format!("%r_p{i}")
}

/// Which of a thread's queries a register of S or O belongs to.
fn half(register: u32) -> u32 {
    register / 2 % 2
}

/// The position of a register of S in its row.
fn place(register: u32) -> u32 {
    register / 4 * 2 + register % 2
}

fn maxima(row: u32, registers: u32) -> Vec<[String; 3]> {
    let of_row: Vec<String> = (0..registers).filter(|i| half(*i) == row).map(sum).collect();
    let chains = CHAINS as usize;
    let chain = |number: usize| if number == 0 { format!("%f_step{row}") } else { format!("%f_chain{row}_{number}") };
    let mut lines = vec![];
    for (at, register) in of_row.iter().enumerate().skip(chains) {
        let to = chain(at % chains);
        let before = if at < 2 * chains { of_row[at - chains].clone() } else { to.clone() };
        lines.push([to, before, register.clone()]);
    }
    let made = |number: usize| {
        if number + chains < of_row.len() { chain(number) } else { of_row[number].clone() }
    };
    lines.push([chain(1), made(0), made(1)]);
    lines.push([chain(2), made(2), made(3)]);
    lines.push([chain(0), chain(1), chain(2)]);
    lines
}

/// Neighbouring lines are of different rows, so that none waits for the one before it.
fn in_turns(rows: [Vec<[String; 3]>; 2]) -> Vec<[String; 3]> {
    let [first, second] = rows;
    first.into_iter().zip(second).flat_map(|(first, second)| [first, second]).collect()
}

fn row(number: u32) -> Row {
    let partial = |chain: u32| format!("%f_part{number}_{chain}");
    Row {
        number,
        step: format!("%f_step{number}"),
        max: format!("%f_max{number}"),
        limit: format!("%f_limit{number}"),
        sum: format!("%f_sum{number}"),
        factor: factor(number),
        base: base(number),
        multiplier: MULTIPLIER,
        totals: vec![
            [partial(0), partial(0), partial(1)],
            [partial(2), partial(2), partial(3)],
            [partial(0), partial(0), partial(2)],
        ],
    }
}

fn exponential(register: u32) -> Exponential {
    let (row, place) = (half(register), place(register));
    Exponential {
        register: sum(register),
        base: base(row),
        multiplier: MULTIPLIER,
        partial: format!("%f_part{row}_{}", place % CHAINS),
        first: place < CHAINS,
    }
}

fn factor(row: u32) -> String {
    format!("%f_factor{row}")
}

fn base(row: u32) -> String {
    format!("%f_base{row}")
}
