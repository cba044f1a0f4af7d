//! Both products of a step: fragments, and what they are multiplied with.

use serde::Serialize;

use super::super::plan::{AttentionWarpPlan, KEYS, UNIT};
use super::copies::place;
use crate::scores::softmax::{out, probability, sum};

/// Vectors of 16 bytes of one instruction's worth of K.
const VECTORS: u32 = 2;

/// Fragments that one `ldmatrix` loads, and the two instructions that multiply them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Multiplied {
    address: String,
    products: [Product; 2],
}

#[derive(Clone, Debug, Serialize)]
struct Product {
    a: String,
    b: String,
    d: String,
    /// What the products are added to: zeros, or the sums so far.
    c: String,
}

/// A load of Q: registers and address.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Held {
    registers: String,
    address: String,
}

/// `{ %r_q0, %r_q1 }`.
fn tuple(registers: impl Iterator<Item = String>) -> String {
    format!("{{ {} }}", registers.collect::<Vec<_>>().join(", "))
}

fn four(name: impl Fn(u32) -> String, number: u32) -> String {
    tuple((4 * number..4 * number + 4).map(name))
}

/// The two registers of an instruction's B fragment.
fn pair(half: u32) -> String {
    tuple((2 * half..2 * half + 2).map(|i| format!("%r_b{i}")))
}

fn query(i: u32) -> String {
    format!("%r_q{i}")
}

/// Q of a warp, by 16 columns.
pub(super) fn held(plan: &AttentionWarpPlan) -> Vec<Held> {
    let held = |k: u32| Held { registers: four(query, k), address: place("q", &plan.queries, 0, VECTORS * k) };
    (0..plan.tiling.depth / UNIT).map(held).collect()
}

/// S = Q K^T of a step: neighbouring instructions add to different sums.
pub(super) fn scores(plan: &AttentionWarpPlan) -> Vec<Multiplied> {
    let keys = plan.tiling.step / KEYS;
    let places = (0..plan.tiling.depth / UNIT).flat_map(|k| (0..keys).map(move |group| (k, group)));
    let zeros = || tuple((0..4).map(|_| "%f_zero".to_owned()));
    let multiplied = |(k, group): (u32, u32)| Multiplied {
        address: place("k", &plan.keys, KEYS * group, VECTORS * k),
        products: [0, 1].map(|half| {
            let d = four(sum, 2 * group + half);
            Product { a: four(query, k), b: pair(half), c: if k == 0 { zeros() } else { d.clone() }, d }
        }),
    };
    places.map(multiplied).collect()
}

/// O += P V of a step.
pub(super) fn output(plan: &AttentionWarpPlan) -> Vec<Multiplied> {
    let columns = plan.tiling.columns / UNIT;
    let places = (0..plan.tiling.step / UNIT).flat_map(|k| (0..columns).map(move |group| (k, group)));
    let multiplied = |(k, group): (u32, u32)| Multiplied {
        address: place("v", &plan.values, UNIT * k, VECTORS * group),
        products: [0, 1].map(|half| {
            let d = four(out, 2 * group + half);
            Product { a: four(probability, k), b: pair(half), c: d.clone(), d }
        }),
    };
    places.map(multiplied).collect()
}
