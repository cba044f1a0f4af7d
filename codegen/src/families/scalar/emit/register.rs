//! A tile of C in registers, operands element by element through shared memory.

use serde::Serialize;

use super::super::plan::{ScalarPlan, Staging};
use super::atomic::products;
use super::element;
use super::place::{Place, accumulator, offset};

#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    place: Place,
    stage: Stage,
    setup: Vec<String>,
    element_load: &'static str,
    a_loads: Vec<ALoad>,
    a_widens: Vec<String>,
    b_rows: Vec<BRow>,
    b_widens: Vec<String>,
    a_reads: Vec<Read>,
    b_reads: Vec<Read>,
    products: Vec<String>,
    rows: Vec<Row>,
    store: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Stage {
    k_step: u32,
    k_shift: u32,
    k_mask: u32,
    steps: u32,
    /// Bytes of a stage of A in shared memory, and of a row of either operand.
    b_offset: u32,
    a_row_bytes: u32,
    b_row_bytes: u32,
    /// Bytes of `k_step` elements of A.
    a_advance: u32,
    /// From the end of a block's first row to the next block.
    a_next_block: u32,
    /// Threads that have an element in the last round of loads of A; 0 where all have.
    a_last: u32,
    /// Rows of threads that have one in the last round of loads of B; 0 where all have.
    b_last: u32,
}

/// An element of A's stage that a thread brings to shared memory.
#[derive(Clone, Debug, Serialize)]
struct ALoad {
    guard: &'static str,
    register: String,
    wide: String,
    from: u32,
    to: u32,
}

/// A row of B's stage of which a thread brings its columns.
#[derive(Clone, Debug, Serialize)]
struct BRow {
    /// Where it lies, if it is not the thread's first.
    address: Option<String>,
    base: &'static str,
    add: Option<String>,
    index: String,
    guard: &'static str,
    elements: Vec<BLoad>,
}

#[derive(Clone, Debug, Serialize)]
struct BLoad {
    add: Option<String>,
    index: String,
    zero: String,
    register: String,
    wide: String,
    from: u32,
    to: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Read {
    register: String,
    from: u32,
}

/// A row of C.
#[derive(Clone, Debug, Serialize)]
struct Row {
    add: Option<String>,
    index: String,
    elements: Vec<Element>,
}

#[derive(Clone, Debug, Serialize)]
struct Element {
    add: Option<String>,
    index: String,
    rounding: Vec<String>,
    register: String,
    to: u32,
}

const A_LAST: &str = "@%p_a_last ";
const B_LAST: &str = "@%p_b_last ";

impl Context {
    pub(super) fn new(plan: &ScalarPlan, staging: &Staging) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let (a_loads, b_rows) = (a_loads(plan, staging), b_rows(plan, staging));
        let widen = |(narrow, wide): (&String, &String)| element::widen(s.a, narrow, wide);
        Self {
            place: Place::new(plan),
            stage: Stage::new(plan, staging),
            setup: element::widen_setup(s.a),
            element_load: element::load(s.a),
            a_widens: a_loads.iter().map(|l| (&l.register, &l.wide)).flat_map(widen).collect(),
            b_widens: b_rows.iter().flat_map(|r| &r.elements).map(|l| (&l.register, &l.wide)).flat_map(widen).collect(),
            a_loads,
            b_rows,
            a_reads: (0..t.thread_m)
                .map(|i| Read { register: format!("%f_a{i}"), from: i * t.grid_m() * staging.a_pitch * 4 })
                .collect(),
            b_reads: (0..t.thread_n).map(|j| Read { register: format!("%f_b{j}"), from: j * t.grid_n() * 4 }).collect(),
            products: products(plan),
            rows: (0..t.thread_m).map(|i| row(plan, i)).collect(),
            store: if s.out.bytes() == 4 { "st.global.f32" } else { "st.global.b16" },
        }
    }
}

impl Stage {
    fn new(plan: &ScalarPlan, staging: &Staging) -> Self {
        let (t, s) = (&plan.tile, &plan.spec);
        let line = s.bk * s.a.bytes();
        Self {
            k_step: staging.k_step,
            k_shift: staging.k_step.trailing_zeros(),
            k_mask: staging.k_step - 1,
            steps: staging.steps,
            b_offset: staging.b_offset,
            a_row_bytes: staging.a_pitch * 4,
            b_row_bytes: t.cta_n * 4,
            a_advance: staging.k_step * s.a.bytes(),
            a_next_block: (s.bm - 1) * line,
            a_last: t.cta_m * staging.k_step % t.threads(),
            b_last: staging.k_step % t.grid_m(),
        }
    }
}

/// Element `tid`, and every `threads` elements further.
fn a_loads(plan: &ScalarPlan, staging: &Staging) -> Vec<ALoad> {
    let (t, s) = (&plan.tile, &plan.spec);
    let (elements, threads) = (t.cta_m * staging.k_step, t.threads());
    let load = |i: u32| {
        let (register, wide) = element::registers(s.a, "a_in", i);
        ALoad {
            guard: if (i + 1) * threads > elements { A_LAST } else { "" },
            register,
            wide,
            from: i * threads / staging.k_step * s.bk * s.a.bytes(),
            to: i * threads * 4,
        }
    };
    (0..elements.div_ceil(threads)).map(load).collect()
}

/// The thread's own row, and every `grid_m` rows further.
fn b_rows(plan: &ScalarPlan, staging: &Staging) -> Vec<BRow> {
    let (t, s) = (&plan.tile, &plan.spec);
    let element = |i: u32, j: u32| {
        let (register, wide) = element::registers(s.b, "b_in", i * t.thread_n + j);
        let (add, index) = offset("%r_b_col", j * t.grid_n());
        BLoad {
            add,
            index,
            zero: element::zero(s.b, &register),
            register,
            wide,
            from: j * t.grid_n() * s.b.bytes(),
            to: (i * t.grid_m() * t.cta_n + j * t.grid_n()) * 4,
        }
    };
    let row = |i: u32| {
        let further = i * t.grid_m();
        let (add, index) = offset("%r_row", further);
        BRow {
            address: (i > 0).then(|| format!("mad.lo.u64 %rd_b_row, %rd_line, {further}, %rd_b_at")),
            base: if i > 0 { "%rd_b_row" } else { "%rd_b_at" },
            add,
            index,
            guard: if further + t.grid_m() > staging.k_step { B_LAST } else { "" },
            elements: (0..t.thread_n).map(|j| element(i, j)).collect(),
        }
    };
    (0..staging.k_step.div_ceil(t.grid_m())).map(row).collect()
}

fn row(plan: &ScalarPlan, i: u32) -> Row {
    let (t, s) = (&plan.tile, &plan.spec);
    let element = |j: u32| {
        let (add, index) = offset("%r_c_col", j * t.grid_n());
        let (rounding, register) = element::round(s.out, &plan.arch, &accumulator(plan, i, j));
        Element { add, index, rounding, register, to: j * t.grid_n() * s.out.bytes() }
    };
    let (add, index) = offset("%r_c_row", i * t.grid_m());
    Row { add, index, elements: (0..t.thread_n).map(element).collect() }
}
