//! The device half of the runtime on a real GPU.
//!
//! Without one every test says SKIPPED on stderr and passes; with `BSR_REQUIRE_GPU=1` it fails instead.
#![allow(clippy::unwrap_used)]

use std::ffi::c_void;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bsr_runtime::bench::{Candidate, DenseBaseline, InterleaveOptions, interleave};
use bsr_runtime::gpu::cublaslt::{CublasLt, DenseProblem};
use bsr_runtime::gpu::{
    self, Device, DeviceBsr, DeviceBuffer, DeviceDense, Event, Fingerprint, Function, GpuError,
    Graph, LaunchDims, LaunchShape, Module, Operand, Stream, StreamRef, TensorMap, TensorMapCache,
    launch_params,
};
use bsr_runtime::{Bsr, Dense, Dtype, Element, Layout, Pattern};
use half::{bf16, f16};

const RANKS: &str = include_str!("ptx/ranks.ptx");
const BOXES: &str = include_str!("ptx/boxes.ptx");

/// The GPU, for one test at a time: waiting for a whole context is forbidden while a stream is in capture.
fn device() -> Option<(MutexGuard<'static, ()>, Device)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match Device::open(0) {
        Ok(device) => Some((turn, device)),
        Err(error) => {
            skip(&format!("no CUDA device ({error})"));
            None
        }
    }
}

/// Says so past the test harness, which keeps what is printed by tests that pass.
fn skip(why: &str) {
    assert!(
        std::env::var_os("BSR_REQUIRE_GPU").is_none(),
        "BSR_REQUIRE_GPU is set: {why}"
    );
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let why = why.lines().next().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {why}");
}

fn address<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Enqueues `ranks` over the whole of `out`.
fn launch_ranks(
    function: &Function,
    out: &DeviceBuffer<u32>,
    scale: u32,
    cluster: u32,
    stream: StreamRef<'_>,
) -> Result<(), GpuError> {
    let (ptr, count) = (out.ptr(), out.len() as u32);
    let grid = count.div_ceil(128).next_multiple_of(cluster);
    let dims = LaunchDims {
        grid,
        block: 128,
        cluster,
        shared_bytes: 0,
    };
    // SAFETY: the kernel takes a pointer, a length and a factor; every test waits before it drops `out`.
    unsafe {
        let mut params = [address(&ptr), address(&count), address(&scale)];
        launch_params(function, dims, &mut params, stream)
    }
}

/// What `ranks` writes.
fn ranks(len: usize, scale: u32, cluster: u32) -> Vec<u32> {
    let value = |i: u32| i * scale + 1000 * cluster + 100 * (i / 128 % cluster);
    (0..len as u32).map(value).collect()
}

#[test]
fn a_device_knows_itself() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let info = device.info();
    let _ = writeln!(std::io::stderr(), "{info:#?}");
    assert!(!info.name.is_empty() && info.sm_count > 0 && info.l2_bytes > 0);
    assert!(info.shared_bytes_per_block >= 48 << 10 && info.cuda_version >= (12, 0));
    assert_eq!(info.uuid.len(), "GPU-".len() + 36);
    let (free, total) = device.memory().unwrap();
    assert!(free > 0 && free <= total && total as u64 <= info.total_memory);
    let (major, minor) = info.compute_capability;
    device.check_target(&format!("sm_{major}{minor}a")).unwrap();
    let other = device.check_target("sm_75a").unwrap_err().to_string();
    assert!(
        other.contains("sm_75a") && other.contains(&info.name),
        "{other}"
    );
    assert!(matches!(
        Device::open(4096),
        Err(GpuError::NoSuchDevice { ordinal: 4096, .. })
    ));
}

#[test]
fn what_goes_up_comes_down() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let host: Vec<f32> = (0..100_003).map(|i| i as f32 * 0.5).collect();
    let mut buffer = DeviceBuffer::from_slice(&device, &host).unwrap();
    assert!(buffer.ptr().is_multiple_of(256));
    assert_eq!(buffer.to_vec().unwrap(), host);

    let stream = Stream::new(&device).unwrap();
    buffer.fill_bytes_on(0xFF, stream.handle()).unwrap();
    assert!(
        buffer
            .to_vec_on(stream.handle())
            .unwrap()
            .iter()
            .all(|x| x.is_nan())
    );
    buffer.upload_on(&host, stream.handle()).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), host);
    buffer.fill_bytes(0).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), vec![0.0; host.len()]);

    let short = buffer.upload_on(&host[1..], stream.handle());
    assert!(matches!(
        short,
        Err(GpuError::Length {
            host: 100_002,
            device: 100_003
        })
    ));
    let empty = DeviceBuffer::<u32>::from_slice(&device, &[]).unwrap();
    assert!(empty.is_empty() && empty.ptr() != 0 && empty.to_vec().unwrap().is_empty());
    let too_much = DeviceBuffer::<u8>::uninit(&device, 1 << 50);
    assert!(
        matches!(too_much, Err(GpuError::OutOfMemory { .. })),
        "{too_much:?}"
    );
}

#[test]
fn matrices_go_up_and_come_down() {
    let Some((_turn, device)) = device() else {
        return;
    };
    for layout in [Layout::RowMajor, Layout::ColMajor] {
        for (rows, cols) in [(37, 53), (8192, 1), (1, 1), (64, 64)] {
            let host = Dense::<bf16>::normal(rows, cols, layout, 5);
            let up = DeviceDense::upload(&device, &host).unwrap();
            assert_eq!((up.rows(), up.cols(), up.ld()), (rows, cols, host.ld()));
            assert_eq!(up.download().unwrap().data(), host.data());
            let mut zeros = DeviceDense::<f32>::zeros(&device, rows, cols, layout).unwrap();
            assert!(zeros.download().unwrap().to_f64().iter().all(|&x| x == 0.0));
            zeros.fill_bytes(0xFF).unwrap();
            assert!(
                zeros
                    .download()
                    .unwrap()
                    .to_f64()
                    .iter()
                    .all(|x| x.is_nan())
            );
        }
        // Lines that do not lie a multiple of 16 bytes apart, and memory after the last line.
        let data: Vec<f16> = (0..1000).map(|i| f16::from_f64(f64::from(i))).collect();
        let odd = Dense::from_vec(9, 9, layout, 11, data).unwrap();
        let up = DeviceDense::upload(&device, &odd).unwrap();
        assert_eq!(up.ld(), 16);
        assert_eq!(up.download().unwrap().to_f64(), odd.to_f64());
        // SAFETY: the memory is that of `up`, which outlives the view.
        let view =
            unsafe { DeviceDense::<f16>::from_raw(up.ptr(), 9, 9, layout, up.ld()) }.unwrap();
        assert_eq!(view.ptr(), up.ptr());
        assert!(view.download().is_err());
    }

    let host = Bsr::<f16>::generate(Pattern::TopK(3), 200, 300, (64, 48), 1).unwrap();
    let up = DeviceBsr::upload(&device, &host).unwrap();
    assert_eq!(
        (up.rows(), up.cols(), up.block(), up.nnzb()),
        (200, 300, (64, 48), host.nnzb())
    );
    assert_eq!(up.row_ptr(), host.row_ptr());
    assert_eq!(up.col_idx().to_vec().unwrap(), host.col_idx());
    assert_eq!(up.values().to_vec().unwrap(), host.values());
    assert_eq!(up.fingerprint(), Fingerprint::of(host.structure()));
}

#[test]
fn refused_ptx_shows_the_log_and_the_line() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let broken = RANKS.replace(
        "mul.lo.u32      %r9, %r4, %r6;",
        "mul.lo.u32      %r9, %r4, %nonsense;",
    );
    let text = Module::load(&device, &broken).unwrap_err().to_string();
    let _ = writeln!(std::io::stderr(), "{text}");
    assert!(text.contains("CUDA_ERROR_INVALID_PTX"), "{text}");
    assert!(
        text.contains("| ") && text.matches("%nonsense").count() >= 2,
        "{text}"
    );

    let elsewhere = RANKS.replace(".target sm_90", ".target sm_75a");
    assert!(matches!(
        Module::load(&device, &elsewhere),
        Err(GpuError::WrongTarget { .. })
    ));
    let nul = Module::load(&device, ".version 8.0\0").unwrap_err();
    assert!(matches!(nul, GpuError::NulByte { offset: 12, .. }));
    let module = Module::load(&device, RANKS).unwrap();
    let missing = module.function("rank").unwrap_err().to_string();
    assert!(missing.contains("no entry `rank`"), "{missing}");
}

#[test]
fn a_cubin_loads_like_its_ptx() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("bsr-cubin-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, image) = (folder.join("ranks.ptx"), folder.join("ranks.cubin"));
    std::fs::write(&source, RANKS).unwrap();
    let assembled = std::process::Command::new("ptxas")
        .args(["-arch=sm_90", "-o"])
        .args([&image, &source])
        .status();
    if !assembled.is_ok_and(|status| status.success()) {
        return skip("no ptxas on the path");
    }
    let bytes = std::fs::read(&image).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let function = Module::load_cubin(&device, &bytes)
        .unwrap()
        .function("ranks")
        .unwrap();
    let out = DeviceBuffer::<u32>::zeroed(&device, 500).unwrap();
    let stream = Stream::new(&device).unwrap();
    launch_ranks(&function, &out, 3, 1, stream.handle()).unwrap();
    assert_eq!(out.to_vec_on(stream.handle()).unwrap(), ranks(500, 3, 1));
    let cut = Module::load_cubin(&device, &bytes[..bytes.len() / 2]);
    assert!(matches!(cut, Err(GpuError::NotACubin { .. })));
}

#[test]
fn a_kernel_runs_plain_and_in_clusters() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let module = Module::load(&device, RANKS).unwrap();
    let _ = writeln!(std::io::stderr(), "JIT log: {}", module.log());
    assert!(module.warnings().is_empty(), "{:?}", module.warnings());
    let function = module.function("ranks").unwrap();
    drop(module);
    let attributes = function.attributes().unwrap();
    assert!(
        attributes.registers > 0 && attributes.local_bytes == 0,
        "{attributes:?}"
    );

    let stream = Stream::new(&device).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&device, 5000).unwrap();
    for cluster in [1, 2, 8, 16] {
        let dims = LaunchDims {
            grid: cluster,
            block: 128,
            cluster,
            shared_bytes: 0,
        };
        let most = function.max_active_clusters(dims).unwrap();
        let _ = writeln!(std::io::stderr(), "clusters of {cluster} at a time: {most}");
        assert!(most > 0, "{cluster}");
        out.fill_bytes_on(0xFF, stream.handle()).unwrap();
        launch_ranks(&function, &out, 7, cluster, stream.handle()).unwrap();
        assert_eq!(
            out.to_vec_on(stream.handle()).unwrap(),
            ranks(5000, 7, cluster),
            "{cluster}"
        );
    }
    // The legacy default stream, and a thread that has no context yet.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the null stream is always alive.
            let default = unsafe { StreamRef::from_raw(std::ptr::null_mut()) };
            launch_ranks(&function, &out, 9, 2, default).unwrap();
        });
    });
    assert_eq!(out.to_vec().unwrap(), ranks(5000, 9, 2));
}

#[test]
fn launches_that_cannot_be_are_refused_in_words() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let function = Module::load(&device, RANKS)
        .unwrap()
        .function("ranks")
        .unwrap();
    let limit = device.info().shared_bytes_per_block;
    let dims = LaunchDims {
        grid: 1,
        block: 128,
        cluster: 1,
        shared_bytes: limit,
    };
    function.prepare(dims).unwrap();
    assert_eq!(
        function.attributes().unwrap().max_dynamic_shared_bytes,
        limit
    );
    let more = function.prepare(LaunchDims {
        shared_bytes: limit + 1,
        ..dims
    });
    assert!(
        matches!(more, Err(GpuError::SharedMemory { .. })),
        "{more:?}"
    );
    assert_eq!(
        function.max_active_clusters(dims).unwrap(),
        device.sm_count()
    );

    let stream = Stream::new(&device).unwrap();
    let odd = LaunchDims {
        grid: 3,
        cluster: 2,
        ..dims
    };
    // SAFETY: nothing is launched.
    let outcome = unsafe { launch_params(&function, odd, &mut [], stream.handle()) };
    assert!(matches!(outcome, Err(GpuError::BadGrid { grid: 3, .. })));
}

#[test]
fn a_launch_can_be_captured_and_replayed() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let function = Module::load(&device, RANKS)
        .unwrap()
        .function("ranks")
        .unwrap();
    let stream = Stream::new(&device).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut graph = Graph::capture(&stream, |stream| {
        launch_ranks(&function, &out, 5, 1, stream)?;
        launch_ranks(&function, &out, 5, 2, stream)
    })
    .unwrap();
    assert!(!stream.is_capturing().unwrap());
    assert_eq!(
        out.to_vec().unwrap(),
        vec![0; 1000],
        "capturing ran the kernel"
    );
    for _ in 0..3 {
        out.fill_bytes_on(0xFF, stream.handle()).unwrap();
        // SAFETY: `out` is alive and used by nothing else.
        unsafe { graph.launch(stream.handle()) }.unwrap();
        assert_eq!(out.to_vec_on(stream.handle()).unwrap(), ranks(1000, 5, 2));
    }
    // A capture that fails leaves the stream as it was.
    let failed = Graph::capture(&stream, |_| Err(GpuError::NoDevice));
    assert!(matches!(failed, Err(GpuError::NoDevice)));
    launch_ranks(&function, &out, 6, 1, stream.handle()).unwrap();
    assert_eq!(out.to_vec_on(stream.handle()).unwrap(), ranks(1000, 6, 1));
}

#[test]
fn events_tell_time_and_order_streams() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let (first, second) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let mut buffer = DeviceBuffer::<u8>::uninit(&device, 512 << 20).unwrap();
    let (start, end) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    assert!(start.elapsed_ms(&end).is_err(), "never recorded");
    start.record(first.handle()).unwrap();
    buffer.fill_bytes_on(3, first.handle()).unwrap();
    end.record(first.handle()).unwrap();
    second.wait(&end).unwrap();
    buffer.fill_bytes_on(4, second.handle()).unwrap();
    end.synchronize().unwrap();
    let ms = start.elapsed_ms(&end).unwrap();
    let _ = writeln!(std::io::stderr(), "512 MiB set in {ms} ms");
    assert!(ms > 0.01 && ms < 1000.0, "{ms}");
    let content = buffer.to_vec_on(second.handle()).unwrap();
    assert!(content.iter().all(|&byte| byte == 4));
}

#[test]
fn boxes_travel_through_tensor_maps() {
    let Some((_turn, device)) = device() else {
        return;
    };
    if device.check_target("sm_90a").is_err() {
        return skip("no device of compute capability 9.0");
    }
    let function = Module::load(&device, BOXES)
        .unwrap()
        .function("boxes")
        .unwrap();
    let (rows, cols) = (10, 40);
    let host = Dense::<f16>::from_fn(rows, cols, Layout::RowMajor, |r, c| {
        f16::from_f64((r * cols + c + 1) as f64)
    });
    let a = DeviceDense::upload(&device, &host).unwrap();
    let mut c = DeviceDense::<f16>::zeros(&device, rows, cols, Layout::RowMajor).unwrap();
    let stream = Stream::new(&device).unwrap();
    let cache = TensorMapCache::new(&device);
    let unused = DeviceBuffer::<u32>::zeroed(&device, 4).unwrap();
    for swizzle_bytes in [0, 64, 128] {
        let map = |operand| TensorMap {
            operand,
            dtype: Dtype::F16,
            dims: [cols as u64, rows as u64],
            row_stride_bytes: host.ld() as u64 * 2,
            box_dims: [32, 8],
            swizzle_bytes,
        };
        let maps = [map(Operand::A), map(Operand::B), map(Operand::C)];
        let shape = LaunchShape {
            grid: 1,
            block: 32,
            cluster: 1,
            shared_bytes: 520,
            maps,
        };
        let encoded = [a.ptr(), a.ptr(), c.ptr()].map(|base| {
            let first = cache.get(base, &maps[0]).unwrap();
            assert_eq!(cache.get(base, &maps[0]).unwrap(), first);
            first
        });
        function.prepare(&shape).unwrap();
        for (from, to) in [((0, 0), (8, 2)), ((32, 4), (0, 0)), ((4, 1), (16, 6))] {
            c.fill_bytes_on(0xFF, stream.handle()).unwrap();
            let work = DeviceBuffer::from_slice(&device, &[from.0, from.1, to.0, to.1]).unwrap();
            let ptrs = [unused.ptr(), unused.ptr(), work.ptr()];
            // SAFETY: the kernel takes these six parameters; everything lives until the download below.
            unsafe { gpu::launch(&function, &shape, encoded.each_ref(), ptrs, stream.handle()) }
                .unwrap();
            let got = c.download_on(stream.handle()).unwrap();
            for row in 0..rows {
                for col in 0..cols {
                    let (y, x) = (
                        row.wrapping_sub(to.1 as usize),
                        col.wrapping_sub(to.0 as usize),
                    );
                    let value = got.get(row, col).unwrap().to_f64();
                    if y < 8 && x < 32 {
                        let source = host.get(y + from.1 as usize, x + from.0 as usize);
                        let want = source.map_or(0.0, Element::to_f64);
                        assert_eq!(
                            value, want,
                            "swizzle {swizzle_bytes}, {from:?} to {to:?}, {row} {col}"
                        );
                    } else {
                        assert!(value.is_nan(), "written outside of the box at {row} {col}");
                    }
                }
            }
        }
    }
}

/// `|got - want| / |want|` against an f64 product on the CPU.
fn gemm_error<C: Element>(got: &Dense<C>, a: &Dense<impl Element>, b: &Dense<impl Element>) -> f64 {
    let (m, n, k) = (a.rows(), b.cols(), a.cols());
    let (a, b, got) = (a.to_f64(), b.to_f64(), got.to_f64());
    let (mut difference, mut norm) = (0.0, 0.0);
    for row in 0..m {
        let mut want = vec![0.0; n];
        for i in 0..k {
            let factor = a[row * k + i];
            want.iter_mut()
                .zip(&b[i * n..][..n])
                .for_each(|(sum, x)| *sum += factor * x);
        }
        for (want, got) in want.iter().zip(&got[row * n..][..n]) {
            difference += (want - got).powi(2);
            norm += want.powi(2);
        }
    }
    (difference / norm).sqrt()
}

fn dense_product<T: Element + gpu::Plain, C: Element + gpu::Plain>(
    library: &CublasLt,
    (m, n, k): (usize, usize, usize),
    layouts: [Layout; 3],
) -> f64 {
    let device = library.device();
    let a = Dense::<T>::normal(m, k, layouts[0], 1);
    let b = Dense::<T>::normal(k, n, layouts[1], 2);
    let (da, db) = (
        DeviceDense::upload(device, &a).unwrap(),
        DeviceDense::upload(device, &b).unwrap(),
    );
    let mut c = DeviceDense::<C>::zeros(device, m, n, layouts[2]).unwrap();
    let problem = DenseProblem::new((m, n, k), (T::DTYPE, C::DTYPE), layouts);
    assert_eq!(
        (problem.lda, problem.ldb, problem.ldc),
        (da.ld(), db.ld(), c.ld())
    );
    let plan = library.plan(&problem).unwrap();
    let stream = Stream::new(device).unwrap();
    let mut worst = 0.0_f64;
    for index in 0..plan.algorithms() {
        c.fill_bytes(0xFF).unwrap();
        // SAFETY: the matrices are those of the problem and live until the download below.
        unsafe { plan.launch_algorithm(index, stream.handle(), da.ptr(), db.ptr(), c.ptr()) }
            .unwrap();
        let error = gemm_error(&c.download_on(stream.handle()).unwrap(), &a, &b);
        worst = if error.is_nan() {
            f64::INFINITY
        } else {
            worst.max(error)
        };
    }
    worst
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
    let _ = writeln!(std::io::stderr(), "cuBLASLt {}", library.version());
    let (row, col) = (Layout::RowMajor, Layout::ColMajor);
    for a in [row, col] {
        for b in [row, col] {
            for c in [row, col] {
                let layouts = [a, b, c];
                for shape in [(256, 256, 256), (192, 136, 72)] {
                    let error = dense_product::<f16, f16>(&library, shape, layouts);
                    assert!(error < 2e-3, "f16 {shape:?} {layouts:?}: {error}");
                }
                let error = dense_product::<f16, f32>(&library, (256, 256, 256), layouts);
                assert!(error < 1e-5, "f32 {layouts:?}: {error}");
                let error = dense_product::<bf16, bf16>(&library, (256, 256, 256), layouts);
                assert!(error < 1e-2, "bf16 {layouts:?}: {error}");
            }
        }
    }
}

#[test]
fn candidates_take_turns_and_the_dense_baseline_tunes() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let function = Module::load(&device, RANKS)
        .unwrap()
        .function("ranks")
        .unwrap();
    let (small, large) = (
        DeviceBuffer::<u32>::zeroed(&device, 1 << 12).unwrap(),
        DeviceBuffer::<u32>::zeroed(&device, 1 << 28).unwrap(),
    );
    let opts = InterleaveOptions {
        max_repeats: 60,
        ..InterleaveOptions::default()
    };
    let mut candidates = [
        Candidate::new("small", |stream: StreamRef<'_>| {
            launch_ranks(&function, &small, 1, 1, stream)
        }),
        Candidate::new("large", |stream: StreamRef<'_>| {
            launch_ranks(&function, &large, 1, 1, stream)
        }),
    ];
    let timings = interleave(&mut candidates, &opts, &device).unwrap();
    for timing in &timings {
        let _ = writeln!(
            std::io::stderr(),
            "{}: {:?} ci {:?}",
            timing.name,
            timing.summary(),
            timing.relative_ci()
        );
    }
    assert_eq!(timings[0].samples_us.len(), timings[1].samples_us.len());
    let (small_us, large_us) = (timings[0].median_us(), timings[1].median_us());
    // 1 GiB takes at least 100 us on any GPU.
    assert!(
        small_us > 0.5 && small_us < 50.0 && large_us > 100.0,
        "{small_us} {large_us}"
    );

    let mut failing = [Candidate::new("failing", |_: StreamRef<'_>| {
        Err(GpuError::NoDevice)
    })];
    assert!(interleave(&mut failing, &opts, &device).is_err());

    let library = match CublasLt::new(&device) {
        Err(error @ GpuError::NoCublasLt) => return skip(&error.to_string()),
        library => library.unwrap(),
    };
    let problem = DenseProblem::new(
        (4096, 4096, 1024),
        (Dtype::F16, Dtype::F16),
        [Layout::RowMajor; 3],
    );
    let mut dense = DenseBaseline::new(&library, &problem, 0).unwrap();
    let tuned = dense.tune(&device, &opts).unwrap();
    for timing in &tuned {
        let rate = timing.tflops(problem.flops());
        let _ = writeln!(std::io::stderr(), "{rate:.1} TFLOP/s: {}", timing.name);
    }
    let best = &tuned[dense.plan().selected()];
    assert!(
        tuned
            .iter()
            .all(|timing| timing.median_us() >= best.median_us())
    );
    assert_eq!(best.name, dense.algorithm());
}
