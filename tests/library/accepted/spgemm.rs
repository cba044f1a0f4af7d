#![deny(warnings, missing_docs)]
//! Two sparse operands: `op = dss`, or with a sparse result `op = sss`, without being written.

use bsr::operation::Operation;
use bsr::{Bsr, Dense, Kernel, Layout, Op, bf16, bsr_kernel, e4m3, f16};

/// Sparse times sparse.
#[bsr_kernel(bm = 64, bn = 32, bk = 32)]
pub fn spgemm(a: Bsr<f16>, b: Bsr<f16>) -> Dense<f16>;

/// The same in blocks, written, and added to what C holds.
#[bsr_kernel(op = sss, bm = 64, bn = 32, bk = 32)]
pub fn blocks(a: Bsr<bf16>, b: Bsr<bf16>, c: Bsr<f32>, beta: f32) -> Bsr<f32> {
    acc + beta * c
}

/// Of 8-bit factors, whose blocks of B are column by column in a GPU's memory.
#[bsr_kernel(bm = 64, bn = 32, bk = 64)]
pub fn narrow(a: Bsr<e4m3>, b: Bsr<e4m3>) -> Dense<bf16>;

fn op<K: Kernel>() -> Op {
    <K::Op as Operation>::OP
}

#[test]
fn two_sparse_operands_make_op_dss_or_sss() {
    assert_eq!((spgemm::SPEC.op, op::<spgemm>()), (Op::Dss, Op::Dss));
    assert_eq!((blocks::SPEC.op, op::<blocks>()), (Op::Sss, Op::Sss));
    assert!(spgemm::ENTRY.starts_with("bsr_dss_wgmma"));
    assert_eq!((narrow::SPEC.op, narrow::SPEC.b_layout), (Op::Dss, Layout::ColMajor));
}

#[cfg(feature = "simulator")]
#[test]
fn they_multiply() {
    use bsr::Pattern;
    use bsr::simulated::Options;

    let a = Bsr::<bf16>::generate(Pattern::Random(0.5), 130, 70, (64, 32), 1).unwrap();
    let b = Bsr::<bf16>::generate(Pattern::Random(0.5), 70, 60, (32, 32), 2).unwrap();
    let pattern = a.structure().product(b.structure()).unwrap();
    let c = Bsr::<f32>::normal(pattern.clone(), 3);
    let given = (&a, &b, &pattern, blocks_inputs { c: &c, beta: 0.0 });
    let (got, report) = blocks::simulate(given, &Options::default()).unwrap();
    assert!(report.is_clean());
    let want = bsr::reference::multiply(&a, &b.to_dense(Layout::RowMajor)).unwrap();
    assert!(bsr::reference::relative_error(&got.to_dense(Layout::RowMajor).to_f64(), &want) < 1e-5);

    let a = Bsr::<e4m3>::generate(Pattern::Random(0.5), 130, 70, (64, 64), 1).unwrap();
    let b = Bsr::<e4m3>::generate(Pattern::Random(0.5), 70, 60, (64, 32), 2).unwrap();
    let (got, report) = narrow::simulate((&a, &b), &Options::default()).unwrap();
    assert!(report.is_clean());
    let want = bsr::reference::multiply(&a, &b.to_dense(Layout::RowMajor)).unwrap();
    assert!(bsr::reference::relative_error(&got.to_f64(), &want) < 4e-3);
}
