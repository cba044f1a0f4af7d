//! Modules, launches with and without clusters, graphs.

use bsr_runtime::gpu::{DeviceBuffer, GpuError, Graph, LaunchDims, Module, Stream, StreamRef, launch_params};

use crate::{RANKS, device, launch_ranks, ranks, skip, tell};

#[test]
fn refused_ptx_shows_the_log_and_the_line() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let broken = RANKS.replace("mul.lo.u32      %r9, %r4, %r6;", "mul.lo.u32      %r9, %r4, %nonsense;");
    let text = Module::load(&device, &broken).unwrap_err().to_string();
    tell(&text);
    assert!(text.contains("CUDA_ERROR_INVALID_PTX"), "{text}");
    assert!(text.contains("| ") && text.matches("%nonsense").count() >= 2, "{text}");

    let elsewhere = RANKS.replace(".target sm_90", ".target sm_75a");
    assert!(matches!(Module::load(&device, &elsewhere), Err(GpuError::WrongTarget { .. })));
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
    let assembled = std::process::Command::new("ptxas").args(["-arch=sm_90", "-o"]).args([&image, &source]).status();
    if !assembled.is_ok_and(|status| status.success()) {
        return skip("no ptxas on the path");
    }
    let bytes = std::fs::read(&image).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let function = Module::load_cubin(&device, &bytes).unwrap().function("ranks").unwrap();
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
    tell(format_args!("JIT log: {}", module.log()));
    assert!(module.warnings().is_empty(), "{:?}", module.warnings());
    let function = module.function("ranks").unwrap();
    drop(module);
    let attributes = function.attributes().unwrap();
    assert!(attributes.registers > 0 && attributes.local_bytes == 0, "{attributes:?}");

    let stream = Stream::new(&device).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&device, 5000).unwrap();
    for cluster in [1, 2, 8, 16] {
        let dims = LaunchDims { grid: [cluster, 1], block: 128, cluster, shared_bytes: 0, is_dependent: false };
        let most = function.max_active_clusters(dims).unwrap();
        tell(format_args!("clusters of {cluster} at a time: {most}"));
        assert!(most > 0, "{cluster}");
        out.fill_bytes_on(0xFF, stream.handle()).unwrap();
        launch_ranks(&function, &out, 7, cluster, stream.handle()).unwrap();
        assert_eq!(out.to_vec_on(stream.handle()).unwrap(), ranks(5000, 7, cluster), "{cluster}");
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
    let function = Module::load(&device, RANKS).unwrap().function("ranks").unwrap();
    let limit = device.info().shared_bytes_per_block;
    let dims = LaunchDims { grid: [1, 1], block: 128, cluster: 1, shared_bytes: limit, is_dependent: false };
    function.prepare(dims).unwrap();
    assert_eq!(function.attributes().unwrap().max_dynamic_shared_bytes, limit);
    let more = function.prepare(LaunchDims { shared_bytes: limit + 1, ..dims });
    assert!(matches!(more, Err(GpuError::SharedMemory { .. })), "{more:?}");
    // As much shared memory as there is: one block a multiprocessor; a quarter of it: several.
    assert_eq!(function.max_active_clusters(dims).unwrap(), device.sm_count());
    let quarter = LaunchDims { shared_bytes: limit / 4 - 1024, ..dims };
    assert_eq!(function.max_active_clusters(quarter).unwrap(), 4 * device.sm_count());

    let stream = Stream::new(&device).unwrap();
    let odd = LaunchDims { grid: [3, 1], cluster: 2, ..dims };
    // SAFETY: nothing is launched.
    let outcome = unsafe { launch_params(&function, odd, &mut [], stream.handle()) };
    assert!(matches!(outcome, Err(GpuError::BadGrid { grid: [3, 1], .. })));
}

#[test]
fn a_launch_can_be_captured_and_replayed() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let function = Module::load(&device, RANKS).unwrap().function("ranks").unwrap();
    let stream = Stream::new(&device).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    function
        .prepare(LaunchDims { grid: [2, 1], block: 128, cluster: 2, shared_bytes: 0, is_dependent: false })
        .unwrap();
    let mut graph = Graph::capture(&stream, |stream| {
        launch_ranks(&function, &out, 5, 1, stream)?;
        launch_ranks(&function, &out, 5, 2, stream)
    })
    .unwrap();
    assert!(!stream.is_capturing().unwrap());
    assert_eq!(out.to_vec().unwrap(), vec![0; 1000], "capturing ran the kernel");
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
