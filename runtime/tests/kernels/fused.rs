//! Epilogues on a GPU: where their operands may lie, typed launches, second results of their own.

use bsr_runtime::gpu::{DeviceBsr, DeviceBuffer, DeviceDense, DeviceInputs, DeviceVector, Stream};
use bsr_runtime::{Bsr, Dense, KernelError, Layout, Pattern, reference};
use half::f16;

use crate::case::parse;
use crate::device;
use crate::run::load;

const M: usize = 256;
const N: usize = 96;
const K: usize = 64;
const ROW: Layout = Layout::RowMajor;

fn factors() -> (Bsr<f16>, Dense<f16>) {
    let a = Bsr::generate(Pattern::Random(1.0), M, K, (128, 32), 1).unwrap();
    (a, Dense::normal(K, N, ROW, 2))
}

#[test]
fn a_full_operand_may_be_c_and_nothing_else_may_overlap_a_result() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let text =
        "bm = 128, bn = 64, bk = 32, epilogue = \"|c: Dense<f16>, bias: Rows<f32>| (acc + bias - c, row_sum(acc))\"";
    let launcher = load(&device, &parse(text)).unwrap();
    let stream = Stream::new(&device).unwrap();
    let (host_a, host_b) = factors();
    let (a, b) = (DeviceBsr::upload(&device, &host_a).unwrap(), DeviceDense::upload(&device, &host_b).unwrap());
    let memory = DeviceBuffer::<f16>::zeroed(&device, 2 * M * N).unwrap();
    let view = |line: usize| {
        // SAFETY: M lines of N elements from a line below M lie within the memory, which outlives the view.
        unsafe { DeviceDense::<f16>::from_raw(memory.ptr() + (line * N * 2) as u64, M, N, ROW, N) }.unwrap()
    };
    let vector = |byte: u64, len: usize| {
        // SAFETY: every vector here lies within the memory, which outlives it.
        unsafe { DeviceVector::<f32>::from_raw(memory.ptr() + byte, len) }.unwrap()
    };
    let bias = DeviceVector::upload(&device, &vec![1.0_f32; M]).unwrap();
    let mut rows = DeviceVector::<f32>::zeros(&device, M).unwrap();
    let mut c = view(0);

    for (line, is_right) in [(0, true), (1, false), (M - 1, false), (M, true)] {
        let other = view(line);
        let inputs = DeviceInputs::new().matrix("c", &other).vector("bias", &bias);
        let outcome = launcher.launch(stream.handle(), (&a, &b, &inputs), (&mut c, &mut rows));
        match outcome {
            Ok(()) => assert!(is_right, "line {line}"),
            Err(KernelError::Overlap { result: "C", operand: "c", .. }) => assert!(!is_right, "line {line}"),
            Err(error) => panic!("{error}"),
        }
    }
    let inside = vector(16, M);
    let inputs = DeviceInputs::new().result("c").vector("bias", &inside);
    let outcome = launcher.launch(stream.handle(), (&a, &b, &inputs), (&mut c, &mut rows));
    assert!(matches!(outcome, Err(KernelError::Overlap { result: "C", operand: "bias", .. })), "{outcome:?}");
    let mut inside = vector(16, M);
    let inputs = DeviceInputs::new().result("c").vector("bias", &bias);
    let outcome = launcher.launch(stream.handle(), (&a, &b, &inputs), (&mut c, &mut inside));
    assert!(matches!(outcome, Err(KernelError::Overlap { result: "the second result", .. })), "{outcome:?}");
    let inputs = DeviceInputs::new().result("c").vector("bias", &bias);
    let outcome = launcher.launch(stream.handle(), (&a, &b, &inputs), &mut c);
    assert!(matches!(outcome, Err(KernelError::Epilogue { .. })), "{outcome:?}");
    stream.synchronize().unwrap();
}

#[test]
fn launches_one_after_the_other_add_to_c_and_start_their_sums_anew() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let text = "bm = 128, bn = 64, bk = 32, out = f32, epilogue = \"|c: Dense<f32>, beta: f32| (acc + beta * c, row_sum(acc))\"";
    let launcher = load(&device, &parse(text)).unwrap();
    let stream = Stream::new(&device).unwrap();
    let (host_a, host_b) = factors();
    let (a, b) = (DeviceBsr::upload(&device, &host_a).unwrap(), DeviceDense::upload(&device, &host_b).unwrap());
    let mut c = DeviceDense::<f32>::zeros(&device, M, N, ROW).unwrap();
    let mut rows = DeviceVector::<f32>::zeros(&device, M).unwrap();
    for _ in 0..3 {
        let inputs = DeviceInputs::new().beta(1.0);
        launcher.launch(stream.handle(), (&a, &b, &inputs), (&mut c, &mut rows)).unwrap();
    }
    stream.synchronize().unwrap();
    let sums = reference::multiply(&host_a, &host_b).unwrap();
    let three: Vec<f64> = sums.iter().map(|sum| 3.0 * sum).collect();
    let error = reference::relative_error(&c.download().unwrap().to_f64(), &three);
    assert!(error < 1e-5, "{error}");
    for (row, got) in rows.download().unwrap().into_iter().enumerate() {
        let want: f64 = sums[row * N..][..N].iter().sum();
        assert!((f64::from(got) - want).abs() < 1e-2, "row {row}: {got}, not {want}");
    }
}
