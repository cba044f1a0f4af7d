//! One block's product, straight from global memory and added to it.

use serde::Serialize;

use super::super::plan::ScalarPlan;
use super::element;
use super::place::{Place, accumulator, offset};

#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    place: Place,
    setup: Vec<String>,
    columns: Vec<Column>,
    rows: Vec<Row>,
    load: &'static str,
    widens: Vec<String>,
    products: Vec<String>,
}

/// A column of B and C.
#[derive(Clone, Debug, Serialize)]
struct Column {
    add: Option<String>,
    index: String,
    inside: String,
    zero: String,
    register: String,
    b_bytes: u32,
}

/// A row of A and C.
#[derive(Clone, Debug, Serialize)]
struct Row {
    add: Option<String>,
    index: String,
    register: String,
    a_bytes: u32,
    sums: Vec<Sum>,
}

#[derive(Clone, Debug, Serialize)]
struct Sum {
    inside: String,
    c_bytes: u32,
    register: String,
}

impl Context {
    pub(super) fn new(plan: &ScalarPlan) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let inside = |j: u32| format!("%p_inside{j}");
        let column = |j: u32| {
            let (add, index) = offset("%r_c_col", j * t.grid_n());
            let (register, _) = element::registers(s.b, "b", j);
            let b_bytes = j * t.grid_n() * s.b.bytes();
            Column { add, index, inside: inside(j), zero: element::zero(s.b, &register), register, b_bytes }
        };
        let sum =
            |i: u32, j: u32| Sum { inside: inside(j), c_bytes: j * t.grid_n() * 4, register: accumulator(plan, i, j) };
        let row = |i: u32| {
            let (add, index) = offset("%r_c_row", i * t.grid_m());
            Row {
                add,
                index,
                register: element::registers(s.a, "a", i).0,
                a_bytes: i * t.grid_m() * s.bk * s.a.bytes(),
                sums: (0..t.thread_n).map(|j| sum(i, j)).collect(),
            }
        };
        let widen = |name: &str, i: u32| {
            let (narrow, wide) = element::registers(s.a, name, i);
            element::widen(s.a, &narrow, &wide)
        };
        Self {
            place: Place::new(plan),
            setup: element::widen_setup(s.a),
            columns: (0..t.thread_n).map(column).collect(),
            rows: (0..t.thread_m).map(row).collect(),
            load: element::load(s.a),
            widens: (0..t.thread_m)
                .flat_map(|i| widen("a", i))
                .chain((0..t.thread_n).flat_map(|j| widen("b", j)))
                .collect(),
            products: products(plan),
        }
    }
}

/// One step of K: every row times every column.
pub(super) fn products(plan: &ScalarPlan) -> Vec<String> {
    let t = &plan.tile;
    let product = |i: u32, j: u32| {
        let sum = accumulator(plan, i, j);
        format!("fma.rn.f32 {sum}, %f_a{i}, %f_b{j}, {sum}")
    };
    (0..t.thread_m).flat_map(|i| (0..t.thread_n).map(move |j| (i, j))).map(|(i, j)| product(i, j)).collect()
}
