//! The project's own kernels on the simulator, against the f64 reference.
#![allow(dead_code, clippy::unwrap_used)]

use bsr_codegen::{Arch, Dtype, KernelSpec, Layout, Plan, Problem, Ptx};
use bsr_runtime::reference::{Comparison, multiply};
use bsr_runtime::schedule::WorkPlan;
use bsr_runtime::{Bsr, Dense, Element, Pattern, Structure};
use bsr_simulator::{
    BufferId, GlobalMemory, Launch, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};
use half::{bf16, f16};

/// A multiplication to run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Blocks of every block row, or a pattern.
    pub(crate) blocks: Blocks,
    pub(crate) clusters: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    Pattern(Pattern),
    /// The number of blocks of each block row, at the first columns.
    Rows(Vec<usize>),
}

impl Case {
    pub(crate) fn new(m: usize, n: usize, k: usize, pattern: Pattern) -> Self {
        Self { m, n, k, blocks: Blocks::Pattern(pattern), clusters: 2 }
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) report: Report,
    /// Relative error, infinite where something is not a number.
    pub(crate) error: f64,
}

pub(crate) fn plan(spec: &str) -> Plan {
    let spec: KernelSpec = spec.parse().unwrap_or_else(|e| panic!("{e}"));
    Plan::new(&spec, &Arch::SM_90A).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs `text` (the plan's own PTX, or what somebody made of it).
pub(crate) fn run(plan: &Plan, text: &str, entry: &str, case: &Case, options: &Options) -> Done {
    let out = plan.spec().out;
    match (plan.spec().a, out) {
        (Dtype::F16, Dtype::F16) => typed::<f16, f16>(plan, text, entry, case, options),
        (Dtype::F16, Dtype::BF16) => typed::<f16, bf16>(plan, text, entry, case, options),
        (Dtype::F16, _) => typed::<f16, f32>(plan, text, entry, case, options),
        (Dtype::BF16, Dtype::BF16) => typed::<bf16, bf16>(plan, text, entry, case, options),
        (Dtype::BF16, Dtype::F16) => typed::<bf16, f16>(plan, text, entry, case, options),
        (_, _) => typed::<bf16, f32>(plan, text, entry, case, options),
    }
}

pub(crate) fn run_own(plan: &Plan, case: &Case, options: &Options) -> Done {
    let ptx: Ptx = plan.ptx();
    run(plan, ptx.text(), ptx.entry(), case, options)
}

fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    match T::DTYPE {
        Dtype::F16 => values.iter().flat_map(|v| f16::from_f64(v.to_f64()).to_le_bytes()).collect(),
        Dtype::BF16 => values.iter().flat_map(|v| bf16::from_f64(v.to_f64()).to_le_bytes()).collect(),
        Dtype::F32 => values.iter().flat_map(|v| (v.to_f64() as f32).to_le_bytes()).collect(),
    }
}

fn values<T: Element>(bytes: &[u8]) -> Vec<T> {
    let e = T::DTYPE.bytes() as usize;
    bytes
        .chunks(e)
        .map(|b| {
            T::from_f64(match T::DTYPE {
                Dtype::F16 => f16::from_le_bytes([b[0], b[1]]).to_f64(),
                Dtype::BF16 => bf16::from_le_bytes([b[0], b[1]]).to_f64(),
                Dtype::F32 => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            })
        })
        .collect()
}

fn structure(case: &Case, block: (usize, usize)) -> Structure {
    match &case.blocks {
        Blocks::Pattern(p) => p.structure(case.m, case.k, block, 7).unwrap(),
        Blocks::Rows(rows) => {
            let mut row_ptr = vec![0];
            let mut columns = Vec::new();
            for n in rows {
                columns.extend(0..*n as i32);
                row_ptr.push(columns.len() as i32);
            }
            Structure::new(case.m, case.k, block, row_ptr, columns).unwrap()
        }
    }
}

fn typed<T: Element, O: Element>(plan: &Plan, text: &str, entry: &str, case: &Case, options: &Options) -> Done {
    let spec = plan.spec();
    let layout = |l: Layout| l;
    let a = Bsr::<T>::normal(structure(case, (spec.bm as usize, spec.bk as usize)), 1);
    let b = Dense::<T>::normal(case.k, case.n, layout(spec.b_layout), 2);
    let mut c = Dense::<O>::filled(case.m, case.n, layout(spec.c_layout), O::from_f64(f64::NAN));
    let work = WorkPlan::new(plan, a.structure(), case.n, case.clusters);
    let problem = Problem {
        m: case.m as u64,
        n: case.n as u64,
        k: case.k as u64,
        nnzb: a.nnzb() as u64,
        ldb: b.ld() as u64,
        ldc: c.ld() as u64,
    };
    let shape = plan.launch(&problem, work.clusters());
    let mut memory = GlobalMemory::new();
    let words = |w: &[u32]| w.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let mut upload = |bytes: Vec<u8>| memory.upload(if bytes.is_empty() { vec![0; 16] } else { bytes }, 256);
    let id_a = upload(bytes(a.values()));
    let id_b = upload(bytes(b.data()));
    let id_c = upload(bytes(c.data()));
    let columns: Vec<u32> = a.col_idx().iter().map(|v| *v as u32).collect();
    let pointers = [upload(words(&columns)), upload(words(&work.heads(a.structure()))), upload(words(&work.words()))];
    let mut params = Vec::new();
    for (map, id) in shape.maps.iter().zip([if a.nnzb() == 0 { id_c } else { id_a }, id_b, id_c]) {
        params.push(Param::TensorMap(desc(map, id)));
    }
    params.extend(pointers.map(Param::Buffer));
    let launch = Launch {
        grid: [shape.grid, 1, 1],
        cluster: [shape.cluster, 1, 1],
        block: [shape.block, 1, 1],
        shared_bytes: shape.shared_bytes,
        params,
    };
    let module = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let report = simulate(&module, entry, &launch, &mut memory, options).unwrap_or_else(|e| panic!("{e}"));
    c.data_mut().copy_from_slice(&values::<O>(memory.bytes(id_c)));
    let want = multiply(&a, &b).unwrap();
    let compared = Comparison::of_dense(&c, &want).unwrap();
    let error = if compared.not_finite > 0 { f64::INFINITY } else { compared.relative };
    Done { report, error }
}

fn desc(map: &bsr_codegen::TensorMap, id: BufferId) -> TensorMapDesc {
    let element = match map.dtype {
        Dtype::F16 => TensorElement::F16,
        Dtype::BF16 => TensorElement::Bf16,
        Dtype::F32 => TensorElement::F32,
    };
    TensorMapDesc::matrix(
        id,
        element,
        map.dims,
        map.row_stride_bytes,
        map.box_dims,
        Swizzle::from_span(map.swizzle_bytes).unwrap(),
    )
}

/// The largest relative error of a right result.
pub(crate) fn tolerance(plan: &Plan) -> f64 {
    match plan.spec().out {
        Dtype::F16 => 2e-3,
        Dtype::BF16 => 1e-2,
        Dtype::F32 => 1e-5,
    }
}

/// Panics unless the run is clean and right.
pub(crate) fn assert_right(plan: &Plan, done: &Done, what: &str) {
    for f in &done.report.findings {
        eprintln!("{f}");
    }
    assert!(done.report.is_clean(), "{what}: {} findings", done.report.findings.len());
    assert!(done.error <= tolerance(plan), "{what}: relative error {}", done.error);
}
