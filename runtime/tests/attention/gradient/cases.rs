//! What the gradients are computed of: specs, masks, sizes.

use std::ops::Range;

use bsr_runtime::attention::{BlockList, Coverage, HeadOrder, HostVector, Mask, Shape, Sharing};
use bsr_trial::attention::Problem;

use super::{Case, spec};

const CAUSAL_128: &str =
    "bm = 128, bn = 128, bk = 128, dtype = bf16, score = \"|| if i >= j { s * scale } else { -inf }\"";
const CAUSAL_64: &str = "bm = 64, bn = 64, bk = 64, score = \"|| if i >= j { s * scale } else { -inf }\"";
const WINDOW: &str = "bm = 64, bn = 128, bk = 64, dtype = bf16, score = \"|before: f32| if i < j { -inf } else if i - j > before { \
                      -inf } else { s * scale }\"";
const SLOPES: &str =
    "bm = 64, bn = 64, bk = 128, score = \"|slope: f32| s * scale - slope * (head + 1 + batch) * abs(i - j)\"";
/// Queries without a key although they have blocks.
const NOTHING: &str = "bm = 128, bn = 64, bk = 64, score = \"|| if i > j + 40 { s * scale } else { -inf }\"";

/// Documents: by query and by key.
const DOCUMENTS: &str = "bm = 64, bn = 64, bk = 64, dtype = bf16, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } \
                         else { -inf }\"";
/// Slopes by head, and a bias by key.
const BIASED: &str = "bm = 128, bn = 128, bk = 128, score = \"|slope: Heads<f32>, bias: Cols<f16>, of_query: Rows<bf16>| s * scale - \
                      slope * abs(i - j) + bias - of_query * bias\"";

/// Soft caps: by a number; by head, in a causal mask; in a window, with a bias by key.
const CAPPED: &str = "bm = 128, bn = 128, bk = 128, dtype = bf16, score = \"|cap: f32| cap * tanh(s * scale / cap)\"";
const CAPPED_CAUSAL: &str = "bm = 64, bn = 64, bk = 64, score = \"|cap: Heads<f32>| if i >= j { cap * tanh(s * scale / cap) } \
                             else { -inf }\"";
const CAPPED_WINDOW: &str = "bm = 64, bn = 128, bk = 64, dtype = bf16, score = \"|cap: f32, bias: Cols<f16>| if i < j { -inf } \
                             else if i - j > 70 { -inf } else { cap * tanh(s * scale / cap) + bias }\"";
/// Temperatures by query, of which there are none beyond the last one, and a term that is no multiple of the product.
const TEMPERATURES: &str = "bm = 128, bn = 64, bk = 64, score = \"|t: Rows<f32>, weight: Cols<bf16>| s * scale / t + weight * sin(s * scale)\"";
/// Derivatives of everything that has one, and a choice by the product.
const CURVED: &str = "bm = 64, bn = 64, bk = 128, dtype = bf16, score = \"|x: f32, of_head: Heads<bf16>| { let u = s * scale; if u > \
                      x { silu(u) - of_head * exp(-u * u) } else { gelu(u) + max(u, -1) * sigmoid(u) / (2 + u * u) } }\"";
/// Infinite for the zeros that are read beyond the last query.
pub(super) const INVERSE: &str =
    "bm = 128, bn = 64, bk = 64, score = \"|a: Rows<f32>, b: Cols<f32>| s * scale + 1 / a - log(b)\"";
/// The product alone, by no scale.
const UNSCALED: &str = "bm = 128, bn = 96, bk = 128, score = \"|| if i > j + 20 { s / 8 } else { -inf }\"";

type MaskOf = fn((usize, usize), (usize, usize)) -> Mask;

pub(crate) fn case(
    text: &'static str,
    [batch, heads, key_heads]: [usize; 3],
    [queries, keys]: [usize; 2],
    mask: MaskOf,
) -> Case {
    let spec = spec(text);
    let shape = Shape { batch, heads, key_heads, queries, keys, columns: spec.bn as usize };
    let mask = mask((queries, keys), (spec.bm as usize, spec.bk as usize));
    Case {
        spec: text,
        problem: Problem::new(&spec, shape, mask, "a case").unwrap(),
        with_lse_gradient: false,
        with_score: false,
    }
}

fn random(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::random(sizes, block, 0.5, 5).unwrap()
}

pub(super) fn full(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::full(sizes, block).unwrap()
}

fn window(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::block_window(sizes, block, 1).unwrap()
}

/// Rows and columns of blocks without any, and a column that one row stores alone.
pub(crate) fn gaps(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    let (rows, columns) = (sizes.0.div_ceil(block.0), sizes.1.div_ceil(block.1));
    let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
    for row in 0..rows {
        let stored = (0..columns).filter(|column| row % 3 != 1 && column % 3 != 2 && (row + column) % 2 == 0);
        list.indices.extend(stored.map(|column| column as u32));
        list.indptr.push(list.indices.len() as u32);
    }
    list.partial = vec![false; list.indices.len()];
    Mask::new(sizes, block, Sharing::All, vec![list]).unwrap()
}

pub(crate) fn none(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::random(sizes, block, 0.0, 5).unwrap()
}

pub(crate) fn causal(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::causal(sizes.0, sizes.1, block).unwrap()
}

/// Keys up to 70 before each query.
pub(crate) fn near(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::window(sizes, block, 70, 0).unwrap()
}

/// Every other block is partial.
pub(crate) fn mixed(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    let of = |rows: Range<usize>, columns: Range<usize>| match (rows.start / block.0 + columns.start / block.1) % 2 {
        0 => Coverage::Partial,
        _ => Coverage::Full,
    };
    Mask::by_rule(sizes, block, of).unwrap()
}

pub(crate) fn partial(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    Mask::by_rule(sizes, block, |_, _| Coverage::Partial).unwrap()
}

/// A pattern for each of four heads.
pub(crate) fn by_head(sizes: (usize, usize), block: (usize, usize)) -> Mask {
    let lists = [1, 2, 3, 4].map(|seed| Mask::random(sizes, block, 0.4, seed).unwrap().lists()[0].clone());
    Mask::new(sizes, block, Sharing::ByHead, lists.to_vec()).unwrap()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("bm = 128, bn = 128, bk = 128, dtype = bf16", [1, 1, 1], [300, 420], random),
        case("bm = 64, bn = 128, bk = 64, dtype = bf16", [1, 1, 1], [300, 260], random),
        case("bm = 128, bn = 64, bk = 128", [1, 2, 1], [260, 300], random),
        case("bm = 64, bn = 64, bk = 64", [2, 1, 1], [330, 200], gaps),
        case("bm = 64, bn = 64, bk = 128, dtype = bf16", [1, 1, 1], [200, 390], gaps),
        case("bm = 128, bn = 64, bk = 64", [1, 1, 1], [390, 200], gaps),
        case("bm = 64, bn = 96, bk = 64, dtype = bf16", [1, 1, 1], [150, 150], full),
        case("bm = 128, bn = 96, bk = 128", [1, 1, 1], [200, 200], window),
        case("bm = 64, bn = 64, bk = 64, dtype = bf16", [1, 4, 2], [190, 130], by_head),
        case("bm = 128, bn = 128, bk = 128", [1, 4, 1], [130, 140], full),
        case("bm = 256, bn = 64, bk = 192, dtype = bf16", [1, 1, 1], [500, 400], random),
        case("bm = 64, bn = 32, bk = 64", [1, 1, 1], [70, 70], none),
        case("bm = 64, bn = 32, bk = 64, dtype = bf16", [1, 3, 1], [1, 513], full),
        case("bm = 64, bn = 32, bk = 64", [1, 1, 1], [513, 1], full),
        case("bm = 64, bn = 64, bk = 64, d = 128", [1, 1, 1], [130, 130], full),
        case("bm = 128, bn = 128, bk = 128, d = 96, dtype = bf16", [1, 1, 1], [130, 260], full),
        case(CAUSAL_128, [1, 1, 1], [300, 300], causal),
        case(CAUSAL_64, [1, 4, 2], [200, 200], causal),
        case(WINDOW, [1, 2, 1], [300, 300], near),
        case(SLOPES, [2, 4, 2], [150, 210], partial),
        case(NOTHING, [1, 1, 1], [130, 130], partial),
    ];
    cases[18].problem.scalars = vec![70.0];
    cases.extend([case(DOCUMENTS, [2, 4, 2], [200, 270], partial), case(BIASED, [2, 2, 1], [300, 410], partial)]);
    cases.extend([
        case(CAPPED, [1, 2, 1], [300, 420], partial),
        case(CAPPED, [1, 1, 1], [130, 270], mixed),
        case(CAPPED_CAUSAL, [2, 4, 2], [200, 200], causal),
        case(CAPPED_WINDOW, [1, 2, 1], [300, 300], near),
        case(TEMPERATURES, [2, 2, 1], [150, 210], partial),
        case(CURVED, [1, 2, 2], [200, 150], mixed),
        case(UNSCALED, [1, 1, 1], [140, 140], partial),
    ]);
    cases[26].problem.scalars = vec![3.0];
    varied(&mut cases);
    // Scores that are far from each other: most probabilities are 0.
    cases[1].problem.scale *= 6.0;
    cases
}

/// Values, vectors, sinks and layouts of each case.
pub(crate) fn varied(cases: &mut [Case]) {
    for (number, case) in cases.iter_mut().enumerate() {
        case.problem.seed = 10 * number as u64;
        case.problem.vectors = HostVector::varied(&spec(case.spec), &case.problem.shape, number);
        case.with_lse_gradient = number % 3 == 1;
        let heads = case.problem.shape.heads;
        case.problem.sinks = (number % 3 == 0).then(|| (0..heads).map(|head| 3.0 - 2.5 * head as f32).collect());
        case.problem.order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
    }
}
