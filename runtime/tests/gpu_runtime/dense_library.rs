//! cuBLASLt against the CPU, and measuring.

use bsr_runtime::bench::{Candidate, DenseBaseline, InterleaveOptions, interleave};
use bsr_runtime::gpu::cublaslt::{CublasLt, DenseProblem};
use bsr_runtime::gpu::{DeviceBuffer, DeviceDense, GpuError, Module, Plain, Stream, StreamRef};
use bsr_runtime::{Dense, Dtype, Element, Layout, e4m3, e5m2};
use half::{bf16, f16};

use crate::{RANKS, device, launch_ranks, skip, tell};

/// A * B in f64, row by row.
fn product(a: &Dense<impl Element>, b: &Dense<impl Element>) -> Vec<f64> {
    let (n, k) = (b.cols(), a.cols());
    let (a, b) = (a.to_f64(), b.to_f64());
    let mut c = vec![0.0; a.len() / k * n];
    for (c_row, a_row) in c.chunks_mut(n).zip(a.chunks(k)) {
        for (&factor, b_row) in a_row.iter().zip(b.chunks(n)) {
            c_row.iter_mut().zip(b_row).for_each(|(sum, x)| *sum += factor * x);
        }
    }
    c
}

/// `|got - want| / |want|`; infinite where something is NaN.
fn relative_error(got: &[f64], want: &[f64]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 = got.iter().zip(want).map(|(g, w)| square(g - w)).sum();
    let error = (difference / want.iter().copied().map(square).sum::<f64>()).sqrt();
    if error.is_nan() { f64::INFINITY } else { error }
}

/// The worst error of all algorithms for a problem.
fn worst_error<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
    library: &CublasLt,
    shape: (usize, usize, usize),
    layouts: [Layout; 3],
) -> f64 {
    let problem = DenseProblem::new(shape, [A::DTYPE, B::DTYPE, C::DTYPE], layouts);
    worst_error_of::<A, B, C>(library, &problem)
}

fn worst_error_of<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
    library: &CublasLt,
    problem: &DenseProblem,
) -> f64 {
    let (device, DenseProblem { m, n, k, layouts, .. }) = (library.device(), *problem);
    let a = Dense::<A>::normal(m, k, layouts[0], 1);
    let b = Dense::<B>::normal(k, n, layouts[1], 2);
    let want = product(&a, &b);
    let (a, b) = (DeviceDense::upload(device, &a).unwrap(), DeviceDense::upload(device, &b).unwrap());
    let mut c = DeviceDense::<C>::zeros(device, m, n, layouts[2]).unwrap();
    assert_eq!(problem.ld, [a.ld(), b.ld(), c.ld()]);
    let plan = library.plan(problem).unwrap();
    let stream = Stream::new(device).unwrap();
    (0..plan.algorithms()).fold(0.0, |worst, index| {
        c.fill_bytes(C::POISON_BYTE).unwrap();
        // SAFETY: the matrices are those of the problem and live until the download below.
        unsafe { plan.launch_algorithm(index, stream.handle(), a.ptr(), b.ptr(), c.ptr()) }.unwrap();
        let got = c.download_on(stream.handle()).unwrap().to_f64();
        relative_error(&got, &want).max(worst)
    })
}

#[test]
fn the_dense_library_multiplies_in_every_layout() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let library = match CublasLt::new(&device) {
        Err(error @ GpuError::NoCublasLt) => return skip(&error.to_string()),
        library => library.unwrap(),
    };
    tell(format_args!("cuBLASLt {}", library.version()));
    let (row, col) = (Layout::RowMajor, Layout::ColMajor);
    for a in [row, col] {
        for b in [row, col] {
            for c in [row, col] {
                let layouts = [a, b, c];
                for shape in [(256, 256, 256), (192, 136, 72)] {
                    let error = worst_error::<f16, f16, f16>(&library, shape, layouts);
                    assert!(error < 2e-3, "f16 {shape:?} {layouts:?}: {error}");
                }
                let error = worst_error::<f16, f16, f32>(&library, (192, 136, 72), layouts);
                assert!(error < 1e-5, "f32 {layouts:?}: {error}");
                let error = worst_error::<bf16, bf16, bf16>(&library, (192, 136, 72), layouts);
                assert!(error < 1e-2, "bf16 {layouts:?}: {error}");
                // TF32 would be off by some 2^-11.
                let error = worst_error::<f32, f32, f32>(&library, (192, 136, 72), layouts);
                assert!(error < 1e-6, "f32 from f32 {layouts:?}: {error}");
                let in_tf32 = DenseProblem::new((192, 136, 72), [Dtype::F32; 3], layouts).in_tf32();
                let error = worst_error_of::<f32, f32, f32>(&library, &in_tf32);
                assert!(error < 2e-3, "TF32 {layouts:?}: {error}");
                let error = worst_error::<f64, f64, f64>(&library, (192, 136, 72), layouts);
                assert!(error < 1e-14, "f64 {layouts:?}: {error}");
            }
        }
    }
}

#[test]
fn the_dense_library_multiplies_eight_bit_operands() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let library = match CublasLt::new(&device) {
        Err(error @ GpuError::NoCublasLt) => return skip(&error.to_string()),
        library => library.unwrap(),
    };
    let shape = (256, 192, 512);
    for c in [Layout::RowMajor, Layout::ColMajor] {
        let layouts = [Layout::RowMajor, Layout::ColMajor, c];
        // Half an ulp of the result, and 14 bits of the tensor core's sums.
        let errors = [
            ("bf16", 1e-2, worst_error::<e4m3, e4m3, bf16>(&library, shape, layouts)),
            ("f16", 2e-3, worst_error::<e4m3, e4m3, f16>(&library, shape, layouts)),
            ("f32", 2e-3, worst_error::<e4m3, e4m3, f32>(&library, shape, layouts)),
            ("e4m3", 6e-2, worst_error::<e4m3, e4m3, e4m3>(&library, shape, layouts)),
            ("e4m3 x e5m2", 1e-2, worst_error::<e4m3, e5m2, bf16>(&library, shape, layouts)),
            ("e5m2 x e4m3", 1e-2, worst_error::<e5m2, e4m3, bf16>(&library, shape, layouts)),
        ];
        for (types, most, error) in errors {
            tell(format_args!("FP8 {types}, C {c}-major: {error:.1e}"));
            assert!(error < most, "FP8 {types}, C {c}-major: {error}");
        }
        assert_eq!(worst_error::<i8, i8, i32>(&library, shape, layouts), 0.0, "C {c}-major");
        let types = [Dtype::E4M3, Dtype::E4M3, Dtype::F32];
        let long = DenseProblem::new((256, 192, 8192), types, layouts);
        let fast = worst_error_of::<e4m3, e4m3, f32>(&library, &long);
        let precise = worst_error_of::<e4m3, e4m3, f32>(&library, &long.precise());
        tell(format_args!("K = 8192: fast {fast:.1e}, precise {precise:.1e}"));
        assert!(precise < fast && fast < 1e-2, "fast {fast}, precise {precise}");
    }
    // What the library has no kernel for is an error in words, and no crash.
    let ragged = DenseProblem::new(
        (256, 192, 511),
        [Dtype::E4M3, Dtype::E4M3, Dtype::BF16],
        [Layout::RowMajor, Layout::ColMajor, Layout::RowMajor],
    );
    if let Err(error) = library.plan(&ragged) {
        assert!(error.to_string().contains("help: "), "{error}");
    }
}

#[test]
fn candidates_take_turns_and_the_dense_baseline_tunes() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let function = Module::load(&device, RANKS).unwrap().function("ranks").unwrap();
    let (small, large) = (
        DeviceBuffer::<u32>::zeroed(&device, 1 << 12).unwrap(),
        DeviceBuffer::<u32>::zeroed(&device, 1 << 28).unwrap(),
    );
    let opts = InterleaveOptions { max_repeats: 60, ..InterleaveOptions::default() };
    let mut candidates = [
        Candidate::new("small", |stream: StreamRef<'_>| launch_ranks(&function, &small, 1, 1, stream)),
        Candidate::new("large", |stream: StreamRef<'_>| launch_ranks(&function, &large, 1, 1, stream)),
    ];
    let timings = interleave(&mut candidates, &opts, &device).unwrap();
    for timing in &timings {
        let (summary, ci) = (timing.summary(), timing.relative_ci());
        tell(format_args!("{}: {summary:?}, ci {ci:?}", timing.name));
    }
    assert_eq!(timings[0].samples_us.len(), timings[1].samples_us.len());
    let (small_us, large_us) = (timings[0].median_us(), timings[1].median_us());
    // 1 GiB takes at least 100 us on any GPU.
    assert!(small_us > 0.5 && small_us < 50.0 && large_us > 100.0, "{small_us} {large_us}");

    let mut failing = [Candidate::new("failing", |_: StreamRef<'_>| Err(GpuError::NoDevice))];
    assert!(interleave(&mut failing, &opts, &device).is_err());

    let library = match CublasLt::new(&device) {
        Err(error @ GpuError::NoCublasLt) => return skip(&error.to_string()),
        library => library.unwrap(),
    };
    let problem = DenseProblem::new((4096, 4096, 1024), [Dtype::F16; 3], [Layout::RowMajor; 3]);
    let mut dense = DenseBaseline::new(&library, &problem, 0).unwrap();
    let tuned = dense.tune(&device, &opts).unwrap();
    for timing in &tuned {
        let rate = timing.tflops(problem.flops());
        tell(format_args!("{rate:.1} TFLOP/s: {}", timing.name));
    }
    let fastest = tuned.iter().min_by(|x, y| x.median_us().total_cmp(&y.median_us()));
    assert_eq!(fastest.unwrap().name, dense.algorithm());
}
