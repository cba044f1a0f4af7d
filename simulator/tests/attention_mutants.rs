//! Mutants of the kernels of attention: each must be found out by small problems, or be one of those that are known to change
//! nothing, with the reason why.
//!
//! The operators are those of the other families' mutants, and some that are of a softmax.
#![allow(clippy::unwrap_used)]

#[path = "common/heldout.rs"]
mod heldout;
#[path = "common/hunt.rs"]
mod hunt;
#[path = "common/operators.rs"]
mod operators;

use bsr_codegen::{Dtype, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{
    Attended, HeadOrder, HostVector, Mask, ScoreInputs, Shape, SimulatedAttention, Tensor, reference_of,
};
use bsr_runtime::simulated::{Options, Schedule};
use half::{bf16, f16};
use hunt::{Hunt, Prey};
use operators::{Change, join, parts};

/// Consumers of one row of blocks and of several; two buffers of Q and one; scores without vectors and with them; keys divided
/// into so few parts that one CTA collects them, and into more; heads that share a tile.
const KERNELS: &[&str] = &[
    "op = attention, bm = 128, bn = 64, bk = 64, stages = 2, dtype = bf16, score = \"|| if i >= j { s * scale } else { -inf }\"",
    "op = attention, bm = 64, bn = 32, bk = 32, d = 16, k_step = 16, stages = 3, score = \"|a: Rows<f32>, b: Cols<f32>, \
     h: Heads<f16>, c: Cols<f16>| if a == b { s * scale - h * abs(i - j) + c } else { -inf }\"",
    "op = attention, bm = 128, bn = 256, bk = 64",
    "op = attention, bm = 64, bn = 16, bk = 32, split = 5, score = \"|| if i >= j { s * scale } else { -inf }\"",
    "op = attention, bm = 64, bn = 32, bk = 32, d = 16, pack = 2, split = 2",
];

/// Operators of a softmax: names and changes.
const SOFTMAX: &[(&str, Change)] = &[
    ("drop a rescale", |_, s| dropped(s, &["mul.f32"])),
    ("drop an exponential", |_, s| dropped(s, &["ex2."])),
    ("drop a sum", |_, s| dropped(s, &["add.f32", "fma.rn.f32"])),
    ("drop a maximum", |_, s| dropped(s, &["max.f32"])),
    ("drop a shuffle", |_, s| dropped(s, &["shfl."])),
    ("drop a conversion", |_, s| dropped(s, &["cvt.rn.bf16x2", "cvt.rn.f16x2"])),
    ("drop a choice", |_, s| dropped(s, &["selp.f32"])),
    ("drop a negation", |_, s| dropped(s, &["neg.f32"])),
    ("drop a logarithm", |_, s| dropped(s, &["lg2."])),
    ("drop a load", |_, s| dropped(s, &["ld.global", "ld.shared", "ld.param"])),
    ("drop a store", |_, s| dropped(s, &["st.global", "st.shared"])),
    ("the key after it", |_, s| offset(s)),
    ("subtract where keys are compared", |_, s| dropped(s, &["sub.s32", "sub.u32"])),
];

fn dropped(s: &str, opcodes: &[&str]) -> Option<String> {
    let p = parts(s)?;
    opcodes.iter().any(|opcode| p.opcode.starts_with(opcode)).then(String::new)
}

/// An element of a vector by key, one further.
fn offset(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("ld.global.nc") && p.operands.contains("column"))?;
    let (rest, last) = p.operands.rsplit_once(" + ")?;
    let bytes: u32 = last.strip_suffix(']')?.parse().ok()?;
    Some(join(&p, p.opcode, &format!("{rest} + {}]", bytes + 4)))
}

/// Mutants that change nothing that a kernel does: operator, words of the statement, and why.
const HARMLESS: &[(&str, &str, &str)] = &[
    ("compare with one more", "%r_tid", "another thread does it"),
    (
        "arrive, do not wait",
        "%r_turn",
        "turns order the products of the consumers: without them a kernel is slower, and as right",
    ),
    (
        "before, not after",
        "fence.mbarrier_init",
        "the last barrier is of this CTA's threads alone, which bar.sync orders",
    ),
    ("relax a release", "red.release.gpu", "the fence.acq_rel.gpu of the same thread before it orders as much"),
    ("drop a fence", "fence.acq_rel", "the release that follows orders as much"),
    ("32-bit address", "%r_t, %r_queries", "a device holds fewer rows of O than 2^32"),
    ("32-bit address", "%r_head, %r_stride", "no vector of these problems has 2^32 elements"),
    (
        "drop a shuffle",
        "%r_warp, %r_warp",
        "all lanes have the same number of a warp: the shuffle tells the compiler so",
    ),
];

/// One mutant in so many is judged, unless `BSR_MUTANTS` asks for others.
const ONE_IN: usize = if cfg!(debug_assertions) { 8 } else { 1 };

/// A problem with its operands and what is right.
struct Problem<T> {
    shape: Shape,
    mask: Mask,
    tensors: [Tensor<T>; 3],
    vectors: Vec<HostVector>,
    scale: f32,
    ctas: u32,
    right: Attended,
}

impl<T: Element> Problem<T> {
    fn new(
        plan: &Plan,
        [queries, keys]: [usize; 2],
        heads: [usize; 2],
        stored: fn(usize, usize) -> bool,
        ctas: u32,
    ) -> Self {
        let spec = plan.spec();
        let (bm, bk) = (spec.bm as usize, spec.bk as usize);
        let columns = spec.bn as usize;
        let depth = spec.score_depth() as usize;
        let pack = plan.attention_tiles().map_or(1, |tiles| tiles.heads() as usize);
        let heads = [heads[0] * pack, heads[1]];
        let shape = Shape { batch: 2, heads: heads[0], key_heads: heads[1], queries, keys, columns };
        let tensor = |heads, rows, columns, seed| Tensor::normal([2, heads, rows, columns], HeadOrder::RowsFirst, seed);
        let tensors =
            [tensor(heads[0], queries, depth, 1), tensor(heads[1], keys, depth, 2), tensor(heads[1], keys, columns, 3)];
        let rule = |row: std::ops::Range<usize>, column: std::ops::Range<usize>| {
            use bsr_runtime::attention::Coverage;
            match (stored(row.start / bm, column.start / bk), (row.start / bm + column.start / bk) % 3) {
                (false, _) => Coverage::None,
                (_, 2) => Coverage::Full,
                _ => Coverage::Partial,
            }
        };
        let mask = Mask::by_rule((queries, keys), (bm, bk), rule).unwrap();
        let vectors = vectors(plan, &shape);
        let scale = (depth as f32).sqrt().recip();
        let rows = (0..shape.rows()).map(|at| [at / (heads[0] * queries), at / queries % heads[0], at % queries]);
        let inputs = ScoreInputs::new(scale).vectors(&vectors);
        let right = reference_of(&shape, &mask, tensors.each_ref(), spec.score, &inputs, rows);
        Self { shape, mask, tensors, vectors, scale, ctas, right }
    }

    /// What one run of a kernel shows to be wrong.
    fn fault(&self, kernel: &SimulatedAttention, options: &Options) -> Option<String> {
        let inputs = ScoreInputs::new(self.scale).vectors(&self.vectors);
        let run = kernel.clone().with_ctas(self.ctas).run(self.tensors.each_ref(), &self.mask, inputs, options);
        let (output, sums, report) = match run {
            Ok(done) => done,
            Err(error) => return Some(format!("refused: {error}")),
        };
        if let Some(finding) = report.findings.first() {
            return Some(format!("{:?}", finding.kind));
        }
        let Shape { heads, queries, columns, .. } = self.shape;
        for (place, (sum, expected)) in sums.iter().zip(&self.right.sums).enumerate() {
            let found = f64::from(*sum);
            if found.is_nan() || found != *expected && ((found - expected).abs() > 1e-3 || expected.is_infinite()) {
                return Some(format!("the sum of row {place} is {found}, not {expected}"));
            }
            let row = output.row([place / (heads * queries), place / queries % heads, place % queries]);
            let of_row = &self.right.output[place * columns..(place + 1) * columns];
            let differs = |(found, expected): &(&T, &f64)| {
                let error = (found.to_f64() - **expected).abs();
                error.is_nan() || error >= 2e-2
            };
            let wrong = row.iter().zip(of_row).find(differs);
            if let Some((found, expected)) = wrong {
                return Some(format!("row {place} has {found}, not {expected}"));
            }
        }
        None
    }
}

/// Three documents in runs of 29 tokens, slopes and small biases, in the order of the score that reads them.
fn vectors(plan: &Plan, shape: &Shape) -> Vec<HostVector> {
    if plan.spec().score.is_none_or(|score| score.program().inputs().is_empty()) {
        return vec![];
    }
    let documents = |len: usize| HostVector::from((0..len).map(|at| (at / 29 % 3) as f32).collect::<Vec<f32>>());
    let slopes: Vec<f16> = (0..shape.heads).map(|head| f16::from_f32(0.04 * (head + 1) as f32)).collect();
    let biases: Vec<f16> = (0..shape.keys).map(|key| f16::from_f32(0.1 * (key % 11) as f32)).collect();
    vec![documents(shape.queries), documents(shape.keys), slopes.into(), biases.into()]
}

/// Problems on which every loop of a kernel goes round: ragged ones with several tiles a CTA, rows without blocks, one pair.
fn problems<T: Element>(plan: &Plan) -> Vec<Problem<T>> {
    let of = |sizes, heads, stored, ctas| Problem::new(plan, sizes, heads, stored, ctas);
    let mut problems = vec![
        of([150, 169], [2, 1], |row, column| row != 1 || column % 2 == 0, 1),
        of([260, 99], [1, 1], |row, column| row % 3 != 1 && (row + column) % 4 != 1, 2),
        // The first tile of the second CTA is the last of all: nothing lies behind it.
        of([1, 1], [1, 1], |_, _| true, 2),
        // Many tiles of a few steps each, or none: the producer is as far ahead as the buffers of Q let it.
        of([500, 20], [2, 2], |row, _| row % 4 == 0, 1),
    ];
    if plan.spec().split.is_on() {
        // CTAs wait for the parts of others, which have several steps each.
        problems.push(of([70, 700], [1, 1], |row, column| row == 0 || column % 3 == 0, 3));
    }
    problems
}

fn schedules() -> [Options; 4] {
    let of = |schedule, seed| Options { schedule, seed, max_steps: 3_000_000, max_findings: 4, ..Options::default() };
    [of(Schedule::Scrambled, 0), of(Schedule::Early, 0), of(Schedule::Late, 0), of(Schedule::Scrambled, 1)]
}

fn check<T: Element>(plan: &Plan, text: &str, problems: &[Problem<T>]) -> Option<String> {
    let ptx = plan.ptx();
    let kernel = match SimulatedAttention::new(plan, text, ptx.entry()) {
        Ok(kernel) => kernel,
        Err(error) => return Some(format!("unreadable: {error}")),
    };
    problems.iter().find_map(|problem| schedules().iter().find_map(|options| problem.fault(&kernel, options)))
}

/// A kernel, which is right itself, with its mutants by every operator.
fn prey_of<'k, T: Element>(spec: &'k str, plan: Plan) -> Prey<'k> {
    let problems = problems::<T>(&plan);
    let ptx = plan.ptx();
    assert_eq!(check(&plan, ptx.text(), &problems), None, "{spec}: the kernel itself");
    let mutants =
        [operators::OPERATORS, heldout::OPERATORS, SOFTMAX].map(|list| operators::mutants(ptx.text(), list, 1));
    assert!(mutants.iter().all(|list| list.len() >= 6), "{spec}: few mutants");
    let why = |name: &str| {
        let known = HARMLESS.iter().find(|(operator, words, _)| name.starts_with(operator) && name.contains(words));
        known.map(|(.., why)| *why)
    };
    Prey {
        spec,
        mutants: mutants.into_iter().flatten().collect(),
        judge: Box::new(move |text| check(&plan, text, &problems)),
        why: Box::new(why),
    }
}

fn prey(spec: &str) -> Prey<'_> {
    let parsed = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&parsed).unwrap_or_else(|error| panic!("{error}"));
    match plan.spec().a {
        Dtype::BF16 => prey_of::<bf16>(spec, plan),
        _ => prey_of::<f16>(spec, plan),
    }
}

/// Every mutant that changes what a kernel does is found.
#[test]
fn mutants_of_attention_are_found() {
    let Hunt { all, equivalent, missed } = hunt::hunt("attention", KERNELS, hunt::one_in(ONE_IN), prey);
    assert!(missed.is_empty(), "{} of {all} are missed, {equivalent} are equivalent: {missed:#?}", missed.len());
}
