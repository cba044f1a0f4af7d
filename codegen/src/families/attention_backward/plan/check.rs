//! Step 1: can this family plan the block, the types and the score?

use super::tiling::{CONSUMERS, WG_ROWS};
use crate::epilogue::NoDerivative;
use crate::plan::{PlanError, PlanErrors};
use crate::scores::check::{self, FOREIGN};
use crate::spec::Key;
use crate::{KernelSpec, Op};

/// Columns of a head are multiples of it: four threads share a row of O and dO, and each reads 8 columns at a time.
const COLUMNS: u32 = 32;
/// Largest block along each dimension.
const LARGEST: u32 = 512;
/// Widest head.
const WIDEST: u32 = 256;

pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    let of_rows = "a consumer warpgroup has 64 queries or keys of one block";
    let of_columns = "they are K of two products and N of the others, and four threads share a row of O";
    let sides = [
        ("bm", "blocks of", "queries", spec.bm, WG_ROWS, LARGEST, of_rows),
        ("bk", "blocks of", "keys", spec.bk, WG_ROWS, LARGEST, of_rows),
        ("bn", "heads of", "columns", spec.bn, COLUMNS, WIDEST, of_columns),
        ("d", "Q and K of", "columns", spec.score_depth(), COLUMNS, WIDEST, of_columns),
    ];
    for (key, what, of, value, unit, most, why) in sides {
        if (value == 0 || value > most || !value.is_multiple_of(unit)) && (key != "d" || spec.d.is_some()) {
            errors.push(PlanError::new(
                key,
                format!("{what} {value} {of} are not planned for op = {}", spec.op),
                format!("{why}: a multiple of {unit} up to {most}"),
                format!("{key} = {}", (value / unit * unit).clamp(unit, most)),
            ));
        }
    }
    let results = if spec.op == Op::AttentionDq { "dQ" } else { "dK and dV" };
    check::check_types(spec, results, "gradients are staged where operands of their size were", errors);
    check::check_foreign(spec, FOREIGN, errors);
    for (key, why) in [
        (Key::Pack, "a tile has rows of one block"),
        (Key::PackHeads, "each head of Q has tiles of its own, and the heads of a group are added in the kernel"),
        (Key::Sinks, "LSE includes the sinks, and dQ, dK and dV depend on them through LSE alone"),
        (Key::Page, "a gradient is of tensors, and pages may be shared"),
        (Key::WorkList, "its work list is in memory"),
        (Key::Split, "a gradient is summed by one CTA, in one order"),
    ] {
        if spec.says(key) {
            errors.push(PlanError::new(
                key.as_str(),
                format!("op = {} has no `{key}`", spec.op),
                why,
                format!("drop `{key}`"),
            ));
        }
    }
    check_score(spec, errors);
    check_score_gradients(spec, errors);
    if let Some(number) = spec.consumers.filter(|number| *number != CONSUMERS) {
        errors.push(PlanError::new(
            "consumers",
            format!("a gradient of {number} consumers is not planned"),
            format!("a work tile is {WG_ROWS} rows of each of {CONSUMERS} warpgroups"),
            format!("drop `consumers`, or consumers = {CONSUMERS}"),
        ));
    }
}

/// A score is one value with a derivative by the product.
fn check_score(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(score) = spec.score else { return };
    let mut refuse = |fact: String, why: &str, help: String| {
        errors.push(PlanError::new(Key::Score.as_str(), fact, why, help));
    };
    if let Some(reduction) = score.program().reduction() {
        let fact = format!("a score has no `{}`", reduction.as_str());
        return refuse(fact, "it is one value of a query and a key", "end the body in that value".to_owned());
    }
    if let Err(NoDerivative { name, instead }) = score.differentiated() {
        refuse(
            format!("a gradient under the score {} is not planned", score.text()),
            &format!("the derivative of `{name}` by `s` is no expression of the language"),
            format!("`{instead}` in place of `{name}`"),
        );
    }
}

/// Gradients of the score's parameters are of expressions, and this kernel has some of them.
fn check_score_gradients(spec: &KernelSpec, errors: &mut PlanErrors) {
    let mut refuse = |fact: &str, why: String, help: String| {
        errors.push(PlanError::new(Key::ScoreGradients.as_str(), fact, why, help));
    };
    let off = "score_gradients = off";
    match spec.sums_of_score() {
        Err(NoDerivative { name, instead }) => refuse(
            "gradients of this score's parameters are not planned",
            format!("the derivative of `{name}` is no expression of the language"),
            format!("`{instead}` in place of `{name}`, or {off}"),
        ),
        Ok([]) if spec.score_gradients.is_on() => {
            let (of, other, words) = match spec.op {
                Op::AttentionDkv => ("`Cols` vectors", Op::AttentionDq, "numbers, `Rows` and `Heads` vectors"),
                _ => ("numbers, `Rows` and `Heads` vectors", Op::AttentionDkv, "`Cols` vectors"),
            };
            refuse(
                &format!("op = {} has no gradients of this score's parameters to sum", spec.op),
                format!("it sums those of {of}, and op = {other} those of {words}, where the score depends on them"),
                off.to_owned(),
            );
        }
        Ok(_) => {}
    }
}
