//! A tile of C in registers, operands element by element through shared memory.

use serde::Serialize;

use super::super::plan::{ScalarPlan, Staging};
use super::elements::{A_LAST, B_LAST, Element, Product, Read, Row, Stored, products};

#[derive(Serialize)]
pub(super) struct Operands {
    k_shift: u32,
    k_mask: u32,
    /// Bytes of a row of either operand in shared memory.
    a_row_bytes: u32,
    b_row_bytes: u32,
    /// Bytes of A from one stage to the next.
    a_advance: u32,
    /// Threads that have an element in the last round of loads of A; 0 where all have.
    a_last: u32,
    /// Rows of threads that have one in the last round of loads of B; 0 where all have.
    b_last: u32,
    a_loads: Vec<LoadOfA>,
    b_rows: Vec<RowOfB>,
    a_reads: Vec<Read>,
    b_reads: Vec<Read>,
    products: Vec<Product>,
    rows: Vec<Row>,
}

/// An element of A's stage that a thread brings to shared memory.
#[derive(Serialize)]
struct LoadOfA {
    guard: &'static str,
    a: Element,
    from: u32,
    to: u32,
}

/// A row of B's stage of which a thread brings its columns.
#[derive(Serialize)]
struct RowOfB {
    /// Rows below the thread's first.
    below: u32,
    guard: &'static str,
    loads: Vec<LoadOfB>,
}

#[derive(Serialize)]
struct LoadOfB {
    /// Columns right of the thread's first.
    right: u32,
    b: Element,
    from: u32,
    to: u32,
}

impl Operands {
    pub(super) fn new(plan: &ScalarPlan, staging: &Staging) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let (a_row_bytes, b_row_bytes) = (staging.a_pitch * 4, t.cta_n * 4);
        let row = |i: u32| Row {
            below: i * t.grid_m(),
            elements: (0..t.thread_n).map(|j| Stored::new(plan, (i, j), j * t.grid_n())).collect(),
        };
        Self {
            k_shift: staging.k_step.trailing_zeros(),
            k_mask: staging.k_step - 1,
            a_row_bytes,
            b_row_bytes,
            a_advance: staging.k_step * s.a.bytes(),
            a_last: t.cta_m * staging.k_step % t.threads(),
            b_last: staging.k_step % t.grid_m(),
            a_loads: loads_of_a(plan, staging),
            b_rows: rows_of_b(plan, staging),
            a_reads: (0..t.thread_m)
                .map(|i| Read { register: format!("%f_a{i}"), from: i * t.grid_m() * a_row_bytes })
                .collect(),
            b_reads: (0..t.thread_n).map(|j| Read { register: format!("%f_b{j}"), from: j * t.grid_n() * 4 }).collect(),
            products: products(plan),
            rows: (0..t.thread_m).map(row).collect(),
        }
    }
}

/// Element `tid`, and every `threads` elements further.
fn loads_of_a(plan: &ScalarPlan, staging: &Staging) -> Vec<LoadOfA> {
    let (t, s) = (&plan.tile, &plan.spec);
    let (elements, threads) = (t.cta_m * staging.k_step, t.threads());
    let load = |i: u32| LoadOfA {
        guard: if (i + 1) * threads > elements { A_LAST } else { "" },
        a: Element::new(s.a, "a_in", i),
        from: i * threads / staging.k_step * s.bk * s.a.bytes(),
        to: i * threads * 4,
    };
    (0..elements.div_ceil(threads)).map(load).collect()
}

/// The thread's own row, and every `grid_m` rows further.
fn rows_of_b(plan: &ScalarPlan, staging: &Staging) -> Vec<RowOfB> {
    let (t, s) = (&plan.tile, &plan.spec);
    let load = |i: u32, j: u32| {
        let (below, right) = (i * t.grid_m(), j * t.grid_n());
        LoadOfB {
            right,
            b: Element::new(s.b, "b_in", i * t.thread_n + j),
            from: right * s.b.bytes(),
            to: (below * t.cta_n + right) * 4,
        }
    };
    let row = |i: u32| RowOfB {
        below: i * t.grid_m(),
        guard: if (i + 1) * t.grid_m() > staging.k_step { B_LAST } else { "" },
        loads: (0..t.thread_n).map(|j| load(i, j)).collect(),
    };
    (0..staging.k_step.div_ceil(t.grid_m())).map(row).collect()
}
