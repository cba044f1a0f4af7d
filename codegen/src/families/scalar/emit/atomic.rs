//! One block's product, straight from global memory and added to it.

use serde::Serialize;

use super::super::plan::ScalarPlan;
use super::elements::{Element, Product, products, sum_at};

#[derive(Serialize)]
pub(super) struct Operands {
    columns: Vec<Column>,
    rows: Vec<Row>,
    products: Vec<Product>,
}

/// A column of B and C.
#[derive(Serialize)]
struct Column {
    /// Columns right of the thread's first.
    right: u32,
    inside: String,
    b: Element,
    b_bytes: u32,
}

/// A row of A and C.
#[derive(Serialize)]
struct Row {
    /// Rows below the thread's first.
    below: u32,
    a: Element,
    a_bytes: u32,
    sums: Vec<Sum>,
}

#[derive(Serialize)]
struct Sum {
    inside: String,
    to: u32,
    register: String,
}

impl Operands {
    pub(super) fn new(plan: &ScalarPlan) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let inside = |j: u32| format!("%p_inside{j}");
        let column = |j: u32| {
            let right = j * t.grid_n();
            Column { right, inside: inside(j), b: Element::new(s.b, "b", j), b_bytes: right * s.b.bytes() }
        };
        let sum = |i: u32, j: u32| Sum {
            inside: inside(j),
            to: j * t.grid_n() * s.out.bytes(),
            register: sum_at(plan, i, j),
        };
        let row = |i: u32| {
            let below = i * t.grid_m();
            Row {
                below,
                a: Element::new(s.a, "a", i),
                a_bytes: below * s.bk * s.a.bytes(),
                sums: (0..t.thread_n).map(|j| sum(i, j)).collect(),
            }
        };
        Self {
            columns: (0..t.thread_n).map(column).collect(),
            rows: (0..t.thread_m).map(row).collect(),
            products: products(plan),
        }
    }
}
