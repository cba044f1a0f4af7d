//! Mutants of the kernels of attention: each must be found out by small problems, or be one of those that are known to change
//! nothing, with the reason why.
//!
//! The operators are those of the other families' mutants, some that are of a softmax, and classes of mistakes, each wherever
//! it can be made. The problems are those of `bsr check`.

mod classes;
mod gradient;

use bsr_codegen::{Op, Plan};

use crate::families::some;
use crate::hunt::{self, Hunt, Prey};
use crate::operators::{self, Change, parts};
use crate::{heldout, trial};

/// Consumers of one row of blocks and of several; two buffers of Q and one; scores without vectors and with them; keys divided
/// into so few parts that one CTA collects them, and into more; heads that share a tile.
const KERNELS: &[&str] = &[
    "op = attention, bm = 128, bn = 64, bk = 64, stages = 2, dtype = bf16, score = \"|| if i >= j { s * scale } else { -inf }\"",
    "op = attention, bm = 64, bn = 32, bk = 32, d = 16, k_step = 16, stages = 3, score = \"|a: Rows<f32>, b: Cols<f32>, \
     h: Heads<f16>, c: Cols<f16>| if a == b { s * scale - h * abs(i - j) + c } else { -inf }\"",
    "op = attention, bm = 128, bn = 256, bk = 64",
    "op = attention, bm = 64, bn = 16, bk = 32, split = 5, score = \"|| if i >= j { s * scale } else { -inf }\"",
    "op = attention, bm = 64, bn = 32, bk = 32, d = 16, pack_heads = 2, split = 2",
    "op = attention, bm = 64, bn = 16, bk = 128, split = 2, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else \
     { -inf }\"",
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
    ("subtract where keys are compared", |_, s| dropped(s, &["sub.s32", "sub.u32"])),
];

fn dropped(s: &str, opcodes: &[&str]) -> Option<String> {
    let p = parts(s)?;
    opcodes.iter().any(|opcode| p.opcode.starts_with(opcode)).then(String::new)
}

/// A mutant that changes nothing that a kernel does: operator, words of the statement, and why.
type Harmless = (&'static str, &'static str, &'static str);

const HARMLESS: &[Harmless] = &[
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
    ("32-bit address", "%r_t, %r_block_queries", "a device holds fewer rows of O than 2^31"),
    ("32-bit address", "%r_head, %r_stride", "no vector of these problems has 2^32 elements"),
    (
        "drop a shuffle",
        "%r_warp, %r_warp",
        "all lanes have the same number of a warp: the shuffle tells the compiler so",
    ),
];

/// One mutant in so many is judged, unless `BSR_MUTANTS` asks for others.
const ONE_IN: usize = if cfg!(debug_assertions) { 120 } else { 1 };

/// A kernel, which is right itself, with its mutants by every operator.
fn prey(spec: &str) -> Prey<'_> {
    let parsed = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&parsed).unwrap_or_else(|error| panic!("{error}"));
    let (ptx, problems) = (plan.ptx(), trial::problems(&plan));
    assert_eq!(trial::check(&plan, ptx.text(), ptx.entry(), &problems), None, "{spec}: the kernel itself");
    let mutants =
        [operators::OPERATORS, heldout::OPERATORS, SOFTMAX].map(|list| operators::mutants(ptx.text(), list, 1));
    assert!(mutants.iter().all(|list| list.len() >= 6), "{spec}: few mutants");
    let of_classes = classes::mutants(plan.spec(), ptx.text());
    let of_gradients = if parsed.op == Op::AttentionDq { gradient::HARMLESS } else { &[] };
    let why = move |name: &str| {
        let known = HARMLESS
            .iter()
            .chain(of_gradients)
            .find(|(operator, words, _)| name.starts_with(operator) && name.contains(words));
        known.map(|(.., why)| *why)
    };
    Prey {
        spec,
        mutants: mutants.into_iter().flatten().chain(of_classes).collect(),
        judge: Box::new(move |text| trial::check(&plan, text, ptx.entry(), &problems)),
        why: Box::new(why),
    }
}

/// Every mutant that changes what a kernel does is found.
#[test]
fn mutants_of_attention_are_found() {
    let Hunt { all, equivalent, missed, .. } = hunt::hunt("attention", &some(KERNELS, 0), hunt::one_in(ONE_IN), prey);
    assert!(missed.is_empty(), "{} of {all} are missed, {equivalent} are equivalent: {missed:#?}", missed.len());
}
