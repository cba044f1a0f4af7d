//! Launches that must not be: each is refused by name, and nothing is written.

use bsr_runtime::gpu::{Device, DeviceBsr, DeviceBuffer, DeviceDense, DeviceScales, Stream};
use bsr_runtime::typed::Number;
use bsr_runtime::{Bsr, Dense, Dtype, KernelError, Layout, Scale, Scales, Structure, e4m3};
use half::{bf16, f16};

use crate::case::parse;
use crate::device;
use crate::run::load;
use crate::walled::Walled;

const SPEC: &str = "bm = 128, bn = 64, bk = 32";
const M: usize = 256;
const N: usize = 96;
const K: usize = 64;
const ROW: Layout = Layout::RowMajor;
const COL: Layout = Layout::ColMajor;

fn matrix((m, k): (usize, usize), block: (usize, usize)) -> Bsr<f16> {
    Bsr::generate(bsr_runtime::Pattern::Random(1.0), m, k, block, 1).unwrap()
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let launcher = load(&device, &parse(SPEC)).unwrap();
    let stream = Stream::new(&device).unwrap();
    let a = DeviceBsr::upload(&device, &matrix((M, K), (128, 32))).unwrap();
    let dense =
        |rows, cols, layout| DeviceDense::upload(&device, &Dense::<f16>::normal(rows, cols, layout, 2)).unwrap();
    let b = dense(K, N, ROW);
    let mut c = Walled::<f16>::poisoned(&device, (M, N), ROW, true).unwrap();
    let refused = |what: &str, outcome: Result<(), KernelError>, named: &dyn Fn(&KernelError) -> bool| {
        let error = outcome.expect_err(what);
        assert!(named(&error), "{what}: {error:?}");
        assert!(error.to_string().contains("help: "), "{what}: {error}");
    };

    for block in [(64, 32), (128, 64), (32, 128)] {
        let other = DeviceBsr::upload(&device, &matrix((M, K), block)).unwrap();
        let outcome = launcher.launch(stream.handle(), (&other, &b), c.matrix_mut());
        refused("block", outcome, &|e| matches!(e, KernelError::Block { found_m, .. } if *found_m == block.0));
        let outcome = launcher.prepare(&other, N);
        refused("block", outcome, &|e| matches!(e, KernelError::Block { .. }));
    }
    for b in [dense(K + 1, N, ROW), dense(K, N + 1, ROW), dense(N, K, ROW)] {
        let outcome = launcher.launch(stream.handle(), (&a, &b), c.matrix_mut());
        refused("shape of B", outcome, &|e| matches!(e, KernelError::Shapes { .. }));
    }
    for shape in [(M - 1, N), (M, N - 1), (N, M)] {
        let mut c = Walled::<f16>::poisoned(&device, shape, ROW, true).unwrap();
        let outcome = launcher.launch(stream.handle(), (&a, &b), c.matrix_mut());
        refused("shape of C", outcome, &|e| matches!(e, KernelError::Shapes { .. }));
        c.untouched().unwrap();
    }

    let outcome = launcher.launch(stream.handle(), (&a, &dense(K, N, COL)), c.matrix_mut());
    refused("layout of B", outcome, &|e| {
        matches!(e, KernelError::Layout { operand: "B", key: "b_layout", found: COL, .. })
    });
    let mut turned = Walled::<f16>::poisoned(&device, (M, N), COL, true).unwrap();
    let outcome = launcher.launch(stream.handle(), (&a, &b), turned.matrix_mut());
    refused("layout of C", outcome, &|e| {
        matches!(e, KernelError::Layout { operand: "C", key: "c_layout", found: COL, .. })
    });
    turned.untouched().unwrap();

    let other_a = DeviceBsr::upload(&device, &matrix((M, K), (128, 32)).cast::<bf16>()).unwrap();
    let outcome = launcher.launch(stream.handle(), (&other_a, &b), c.matrix_mut());
    refused("type of A", outcome, &|e| matches!(e, KernelError::Dtype { operand: "A", .. }));
    let other_b = DeviceDense::upload(&device, &Dense::<bf16>::zeros(K, N, ROW)).unwrap();
    let outcome = launcher.launch(stream.handle(), (&a, &other_b), c.matrix_mut());
    refused("type of B", outcome, &|e| matches!(e, KernelError::Dtype { operand: "B", .. }));
    let mut other_c = Walled::<f32>::poisoned(&device, (M, N), ROW, true).unwrap();
    let outcome = launcher.launch(stream.handle(), (&a, &b), other_c.matrix_mut());
    refused("type of C", outcome, &|e| matches!(e, KernelError::Dtype { operand: "C", .. }));
    other_c.untouched().unwrap();

    let outcome = launcher.prepare(&a, 1 << 30);
    refused("columns", outcome, &|e| matches!(e, KernelError::TooLarge { .. }));
    let wide = Structure::empty(M, 1 << 30, (128, 32)).unwrap();
    let wide = DeviceBsr::upload(&device, &Bsr::<f16>::normal(wide, 1)).unwrap();
    let outcome = launcher.prepare(&wide, N);
    refused("columns of A", outcome, &|e| matches!(e, KernelError::TooLarge { .. }));

    c.untouched().unwrap();
    // The kernel and the stream are none the worse for it.
    launcher.launch(stream.handle(), (&a, &b), c.matrix_mut()).unwrap();
    stream.synchronize().unwrap();
    let finite = c.read().unwrap().to_f64().iter().all(|x| x.is_finite());
    assert!(finite);
}

#[test]
fn c_may_not_overlap_what_is_read() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let launcher = load(&device, &parse(SPEC)).unwrap();
    let stream = Stream::new(&device).unwrap();
    let a = DeviceBsr::upload(&device, &matrix((M, K), (128, 32))).unwrap();
    let values = a.values().to_vec().unwrap();
    // B lies right before C, or within it, or ends one line inside of it.
    let memory = DeviceBuffer::<f16>::zeroed(&device, (K + M) * N).unwrap();
    let view = |line: usize, rows: usize| {
        let ptr = memory.ptr() + (line * N * 2) as u64;
        // SAFETY: `line + rows` lines of N elements lie within the memory, which outlives the view.
        unsafe { DeviceDense::<f16>::from_raw(ptr, rows, N, ROW, N) }.unwrap()
    };
    let launch = |b_line, c_line| {
        let (b, mut c) = (view(b_line, K), view(c_line, M));
        launcher.launch(stream.handle(), (&a, &b), &mut c)
    };
    for (b_line, c_line) in [(0, 0), (0, K - 1), (M - 1, 0), (M / 2, 0)] {
        let outcome = launch(b_line, c_line);
        assert!(
            matches!(outcome, Err(KernelError::Overlap { operand: "B", .. })),
            "B at line {b_line}, C at line {c_line}: {outcome:?}"
        );
    }
    assert!(memory.to_vec().unwrap().iter().all(|x| x.to_bits() == 0));
    launch(0, K).unwrap();
    launch(M, 0).unwrap();
    stream.synchronize().unwrap();

    // C of 16 columns fits into the values of A: 2 x 2 blocks of 128 x 32.
    let b = DeviceDense::<f16>::zeros(&device, K, 16, ROW).unwrap();
    // SAFETY: M lines of 16 elements are fewer than A has values, and A outlives the view.
    let mut c = unsafe { DeviceDense::<f16>::from_raw(a.values().ptr(), M, 16, ROW, 16) }.unwrap();
    let outcome = launcher.launch(stream.handle(), (&a, &b), &mut c);
    assert!(matches!(outcome, Err(KernelError::Overlap { operand: "A", .. })), "{outcome:?}");
    assert_eq!(a.values().to_vec().unwrap(), values);
}

/// TMA writes 16 bytes at a time: what lies behind a line that ends in between must be C's own padding.
#[test]
fn a_window_whose_neighbours_would_be_overwritten_is_refused() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    let a = DeviceBsr::upload(&device, &matrix((M, K), (128, 32))).unwrap();
    for (spec, c_layout) in [(SPEC.to_owned(), ROW), (format!("{SPEC}, c_layout = col"), COL)] {
        let launcher = load(&device, &parse(&spec)).unwrap();
        // C[M, N] with lines of 8 * i + 1 elements.
        let (m, n) = if c_layout == ROW { (M, N - 7) } else { (M - 7, N) };
        let a = if c_layout == ROW { &a } else { &DeviceBsr::upload(&device, &matrix((m, K), (128, 32))).unwrap() };
        let b = DeviceDense::upload(&device, &Dense::<f16>::normal(K, n, ROW, 2)).unwrap();
        let (lines, line) = if c_layout == ROW { (m, n) } else { (n, m) };
        let padded = line.next_multiple_of(8);
        let mut memory = DeviceBuffer::<f16>::uninit(&device, lines * (padded + 8)).unwrap();
        memory.fill_bytes(0xFF).unwrap();
        let view = |ld| {
            // SAFETY: the memory has room for `lines` lines of `padded + 8` elements and outlives the view.
            unsafe { DeviceDense::<f16>::from_raw(memory.ptr(), m, n, c_layout, ld) }.unwrap()
        };
        let outcome = launcher.launch(stream.handle(), (a, &b), &mut view(padded + 8));
        assert!(matches!(outcome, Err(KernelError::Window { .. })), "{spec}: {outcome:?}");
        stream.synchronize().unwrap();
        assert!(memory.to_vec().unwrap().iter().all(|x| x.to_bits() == 0xFFFF), "{spec}");
        launcher.launch(stream.handle(), (a, &b), &mut view(padded)).unwrap();
        stream.synchronize().unwrap();
    }
}

/// Kernels that store element by element, or set C to zero first, leave what lies between the lines alone: any window
/// will do.
#[test]
fn a_window_of_a_wider_matrix_is_written_and_nothing_else() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    fills_its_window::<f16>(&device, &stream, "mma = mma_sync", ROW);
    fills_its_window::<f16>(&device, &stream, "mma = mma_sync", COL);
    fills_its_window::<f16>(&device, &stream, "mma = wmma", ROW);
    fills_its_window::<f16>(&device, &stream, "mma = scalar, accumulate = register", ROW);
    fills_its_window::<f32>(&device, &stream, "mma = scalar, accumulate = atomic, out = f32", ROW);
}

fn fills_its_window<C: Number>(device: &Device, stream: &Stream, rest: &str, layout: Layout) {
    let spec = parse(&format!("{SPEC}, {rest}, c_layout = {layout}"));
    let launcher = load(device, &spec).unwrap();
    let (m, n) = (M - 3, N - 7);
    let filled = Bsr::<f16>::generate(bsr_runtime::Pattern::Random(1.0), m, K, (128, 32), 1).unwrap();
    let empty = Bsr::<f16>::normal(Structure::empty(m, K, (128, 32)).unwrap(), 1);
    let b = DeviceDense::upload(device, &Dense::<f16>::normal(K, n, ROW, 2)).unwrap();
    for a in [filled, empty] {
        let zeros = a.nnzb() == 0;
        let a = DeviceBsr::upload(device, &a).unwrap();
        let mut c = Walled::<C>::poisoned(device, (m, n), layout, false).unwrap();
        launcher.launch(stream.handle(), (&a, &b), c.matrix_mut()).unwrap();
        stream.synchronize().unwrap();
        let values = c.read().unwrap().to_f64();
        assert!(values.iter().all(|x| x.is_finite()), "{spec}");
        assert_eq!(values.iter().all(|x| *x == 0.0), zeros, "{spec}");
    }
}

#[test]
fn scales_go_with_the_kernel_and_the_problem() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let stream = Stream::new(&device).unwrap();
    let structure = bsr_runtime::Pattern::Random(1.0).structure(M, K, (128, 32), 1).unwrap();
    let a = DeviceBsr::upload(&device, &Bsr::<e4m3>::normal(structure.clone(), 1)).unwrap();
    let b = DeviceDense::upload(&device, &Dense::<e4m3>::normal(K, N, COL, 2)).unwrap();
    let mut c = Walled::<f16>::poisoned(&device, (M, N), ROW, true).unwrap();
    let fp8 = format!("{SPEC}, dtype = e4m3, out = f16");
    let unscaled = load(&device, &parse(&fp8)).unwrap();
    let by_row = load(&device, &parse(&format!("{fp8}, scale = row_col"))).unwrap();
    let upload = |scales: &Scales| DeviceScales::upload(&device, scales).unwrap();
    let right = upload(&Scales::random(Scale::RowCol, &structure, N, 3));

    let outcome = by_row.launch(stream.handle(), (&a, &b), c.matrix_mut());
    assert!(matches!(outcome, Err(KernelError::Scales { found: Scale::Unscaled, expected: Scale::RowCol })));
    let outcome = unscaled.launch(stream.handle(), (&a, &b, &right), c.matrix_mut());
    assert!(matches!(outcome, Err(KernelError::Scales { found: Scale::RowCol, expected: Scale::Unscaled })));
    let other = upload(&Scales::tensor(1.0, 1.0).unwrap());
    let outcome = by_row.launch(stream.handle(), (&a, &b, &other), c.matrix_mut());
    assert!(matches!(outcome, Err(KernelError::Scales { found: Scale::Tensor, expected: Scale::RowCol })));
    let short = upload(&Scales::row_col(vec![1.0; M], vec![1.0; N - 1]).unwrap());
    let outcome = by_row.launch(stream.handle(), (&a, &b, &short), c.matrix_mut());
    assert!(matches!(outcome, Err(KernelError::Refused(_))), "{outcome:?}");
    let turned = DeviceDense::upload(&device, &Dense::<e4m3>::normal(K, N, ROW, 2)).unwrap();
    let outcome = unscaled.launch(stream.handle(), (&a, &turned), c.matrix_mut());
    assert!(matches!(outcome, Err(KernelError::AlongK { dtype: Dtype::E4M3, .. })), "{outcome:?}");

    // C in the memory of the scales of A.
    let foreign = DeviceBuffer::<f32>::from_slice(&device, &[1.0; M]).unwrap();
    // SAFETY: M and N f32 lie there and outlive the view.
    let overlapping =
        unsafe { DeviceScales::from_raw(Scale::RowCol, (c.matrix().ptr(), M), (foreign.ptr(), N)).unwrap() };
    let outcome = by_row.launch(stream.handle(), (&a, &b, &overlapping), c.matrix_mut());
    assert!(matches!(outcome, Err(KernelError::Overlap { operand: "the scales of A", .. })), "{outcome:?}");

    c.untouched().unwrap();
    by_row.launch(stream.handle(), (&a, &b, &right), c.matrix_mut()).unwrap();
    stream.synchronize().unwrap();
    assert!(c.read().unwrap().to_f64().iter().all(|x| x.is_finite()));
}

#[test]
fn a_grid_that_is_too_wide_is_refused_before_anything_is_made() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let launcher =
        load(&device, &parse("bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = atomic, out = f32")).unwrap();
    let a = DeviceBsr::upload(&device, &matrix((M, K), (64, 32))).unwrap();
    let outcome = launcher.prepare(&a, 65_536 * 64 + 1);
    assert!(matches!(&outcome, Err(KernelError::Grid { limit: 65_535, .. })), "{outcome:?}");
}

#[test]
fn foreign_memory_that_tma_cannot_take_is_refused_with_the_padding() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let memory = DeviceBuffer::<f16>::zeroed(&device, 4096).unwrap();
    let view = |offset: u64, cols: usize, ld: usize| {
        // SAFETY: no view is used in a launch.
        unsafe { DeviceDense::<f16>::from_raw(memory.ptr() + offset, 16, cols, ROW, ld) }
    };
    assert!(view(0, 99, 104).is_ok());
    assert!(view(16, 99, 104).is_ok());
    let refused = |view: Result<DeviceDense<f16>, bsr_codegen::Refusal>, words: &str| {
        view.is_err_and(|error| error.to_string().contains(words))
    };
    assert!(refused(view(2, 99, 104), "2 B past a multiple of 16"));
    assert!(refused(view(8, 99, 104), "8 B past a multiple of 16"));
    assert!(refused(view(0, 1, 1), "pad the leading dimension to 8 elements"));
    assert!(refused(view(0, 99, 99), "pad the leading dimension to 104 elements"));
    assert!(refused(view(0, 99, 96), "use at least 104"));
    // SAFETY: as above.
    let null = unsafe { DeviceDense::<f16>::from_raw(0, 16, 8, ROW, 8) };
    assert!(refused(null, "is null"));
}

#[test]
fn nothing_to_compute_is_no_launch() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let launcher = load(&device, &parse(SPEC)).unwrap();
    let stream = Stream::new(&device).unwrap();
    for (m, n) in [(0, N), (M, 0), (0, 0)] {
        let empty = Structure::empty(m, K, (128, 32)).unwrap();
        let a = DeviceBsr::upload(&device, &Bsr::<f16>::normal(empty, 1)).unwrap();
        let b = DeviceDense::<f16>::zeros(&device, K, n, ROW).unwrap();
        let mut c = DeviceDense::<f16>::zeros(&device, m, n, ROW).unwrap();
        launcher.launch(stream.handle(), (&a, &b), &mut c).unwrap();
        stream.synchronize().unwrap();
    }
    // A sum of nothing is zero, also where A has no columns at all.
    let empty = Structure::empty(M, 0, (128, 32)).unwrap();
    let a = DeviceBsr::upload(&device, &Bsr::<f16>::normal(empty, 1)).unwrap();
    let b = DeviceDense::<f16>::zeros(&device, 0, N, ROW).unwrap();
    let mut c = Walled::<f16>::poisoned(&device, (M, N), ROW, true).unwrap();
    launcher.launch(stream.handle(), (&a, &b), c.matrix_mut()).unwrap();
    stream.synchronize().unwrap();
    assert!(c.read().unwrap().to_f64().iter().all(|x| *x == 0.0));
}

/// Needs two GPUs.
#[test]
fn a_matrix_of_another_gpu_is_refused_by_name() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let Ok(other) = Device::open(1) else {
        crate::tell("SKIPPED: one GPU, and this takes two: a_matrix_of_another_gpu_is_refused_by_name");
        return;
    };
    let launcher = load(&device, &parse(SPEC)).unwrap();
    let stream = Stream::new(&device).unwrap();
    let on = |device: &Device| {
        let a = DeviceBsr::upload(device, &matrix((M, K), (128, 32))).unwrap();
        let b = DeviceDense::upload(device, &Dense::<f16>::normal(K, N, ROW, 2)).unwrap();
        (a, b, DeviceDense::<f16>::zeros(device, M, N, ROW).unwrap())
    };
    let ((a, b, mut c), (far_a, far_b, mut far_c)) = (on(&device), on(&other));
    let words = |outcome: Result<(), KernelError>| outcome.expect_err("another GPU's").to_string();
    assert!(
        words(launcher.launch(stream.handle(), (&far_a, &b), &mut c))
            .contains("A is on GPU 1, and the kernel on GPU 0")
    );
    assert!(words(launcher.launch(stream.handle(), (&a, &far_b), &mut c)).contains("B is on GPU 1"));
    assert!(words(launcher.launch(stream.handle(), (&a, &b), &mut far_c)).contains("C is on GPU 1"));
    launcher.launch(stream.handle(), (&a, &b), &mut c).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn a_product_that_leaves_multiprocessors_free_is_the_same() {
    let Some((_turn, device)) = device() else {
        return;
    };
    // A handle of its own: what it leaves free is its own matter.
    let device = Device::open(device.info().ordinal).unwrap();
    let launcher = load(&device, &parse(SPEC)).unwrap();
    let stream = Stream::new(&device).unwrap();
    let a = DeviceBsr::upload(&device, &matrix((32 * M, K), (128, 32))).unwrap();
    let b = DeviceDense::upload(&device, &Dense::<f16>::normal(K, 1024, ROW, 2)).unwrap();
    let product = |free: u32| {
        device.leave_free(free);
        let mut c = DeviceDense::<f16>::zeros(&device, 32 * M, 1024, ROW).unwrap();
        launcher.launch(stream.handle(), (&a, &b), &mut c).unwrap();
        stream.synchronize().unwrap();
        c.download().unwrap()
    };
    let whole = product(0);
    for free in [1, 16, device.sm_count() - 1, device.sm_count()] {
        assert_eq!(product(free).data(), whole.data(), "{free} multiprocessors are left free");
    }
}
