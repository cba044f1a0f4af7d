//! cuSPARSE beside the f64 reference, and kernels whose machine code was compiled ahead.

use std::rc::Rc;
use std::time::Instant;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::gpu::cusparse::{Cusparse, Format, SparseProduct};
use bsr_runtime::gpu::{CubinCache, DeviceBsr, DeviceDense, GpuError, Module, Stream};
use bsr_runtime::{Bsr, Dense, Launcher, Layout, Pattern, reference};
use half::f16;

use super::{device, skip, tell};

#[test]
fn both_formats_multiply_what_the_reference_does() {
    let Some((_turn, device)) = device() else { return };
    let library = match Cusparse::new(&device) {
        Ok(library) => library,
        Err(error) => return skip(&error.to_string()),
    };
    // Rows of several lengths, one of them empty.
    let host = Bsr::<f16>::generate(Pattern::PowerLaw(0.2), 512, 768, (32, 32), 3).unwrap();
    let a = Rc::new(DeviceBsr::upload(&device, &host).unwrap());
    for layout in [Layout::RowMajor, Layout::ColMajor] {
        let b = Dense::<f16>::normal(768, 256, layout, 5);
        let want = reference::multiply(&host, &b).unwrap();
        let b = Rc::new(DeviceDense::upload(&device, &b).unwrap());
        for format in Format::ALL {
            let made = SparseProduct::new(&library, format, Rc::clone(&a), Rc::clone(&b));
            let mut product = match made {
                Ok(product) => product,
                Err(error) => {
                    tell(format_args!("{} {layout}: {error}", format.as_str()));
                    continue;
                }
            };
            product.result_mut().fill_bytes(0xff).unwrap();
            let stream = Stream::new(&device).unwrap();
            product.launch(stream.handle()).unwrap();
            stream.synchronize().unwrap();
            let error = reference::relative_error(&product.result().download().unwrap().to_f64(), &want);
            tell(format_args!("cuSPARSE {} {layout}: error {error:.2e}", format.as_str()));
            assert!(error < 1e-3, "{} {layout}: {error}", format.as_str());
        }
    }
}

#[test]
fn what_cusparse_does_not_have_is_refused_in_words() {
    let Some((_turn, device)) = device() else { return };
    let Ok(library) = Cusparse::new(&device) else { return skip("no cuSPARSE") };
    let b = Rc::new(DeviceDense::upload(&device, &Dense::<f16>::normal(512, 64, Layout::RowMajor, 0)).unwrap());
    for (m, block, word) in [(512, (64, 32), "square"), (500, (32, 32), "whole number")] {
        let host = Bsr::<f16>::generate(Pattern::TopK(2), m, 512, block, 0).unwrap();
        let a = Rc::new(DeviceBsr::upload(&device, &host).unwrap());
        let refused = SparseProduct::new(&library, Format::Bsr, a, Rc::clone(&b)).unwrap_err();
        assert!(matches!(refused, GpuError::CusparseProblem { .. }), "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
    }
}

#[test]
fn a_cubin_that_was_compiled_ahead_multiplies_the_same() {
    let Some((_turn, device)) = device() else { return };
    let spec: KernelSpec = "bm = 64, bn = 128, bk = 64".parse().unwrap();
    let plan = match Plan::new(&spec) {
        Ok(plan) if device.check_target(plan.arch().target).is_ok() => plan,
        _ => return skip("no GPU of the kernel's architecture"),
    };
    let folder = tempfile::tempdir().unwrap();
    let cache = CubinCache::new(folder.path());
    let ptx = plan.ptx();
    let first = cache.get(&device, &ptx).unwrap();
    let again = cache.get(&device, &ptx).unwrap();
    assert!(first.compiled.is_some() && again.compiled.is_none() && first.path == again.path);
    // A file that was cut short is no reason to fail.
    std::fs::write(&first.path, b"\x7fELF").unwrap();
    assert!(cache.get(&device, &ptx).unwrap().compiled.is_some());

    let a = Bsr::<f16>::generate(Pattern::TopK(3), 256, 512, (64, 64), 0).unwrap();
    let b = Dense::<f16>::normal(512, 200, Layout::RowMajor, 1);
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
    let image = std::fs::read(&first.path).unwrap();
    let results = [
        Launcher::load(&device, &plan, ptx.text(), ptx.entry()).unwrap(),
        Launcher::load_cubin(&device, &plan, &image, ptx.entry()).unwrap(),
    ]
    .map(|launcher| {
        let mut c = DeviceDense::<f16>::zeros(&device, 256, 200, Layout::RowMajor).unwrap();
        let stream = Stream::new(&device).unwrap();
        launcher.launch(stream.handle(), &a, &b, &mut c).unwrap();
        stream.synchronize().unwrap();
        c.download().unwrap()
    });
    assert_eq!(results[0].data(), results[1].data());
    assert!(results[0].data().iter().any(|value| value.to_f32() != 0.0));
}

/// The driver compiles for several threads at a time, which a sweep lives by: told, not judged, since it depends on the cores
/// of the machine.
#[test]
fn compiling_in_threads_is_told() {
    let Some((_turn, device)) = device() else { return };
    // The driver keeps what it compiled: every kernel is compiled once.
    let texts = |bk: u32| -> Vec<String> {
        let spec = |stages, bn| format!("bm = 128, bn = {bn}, bk = {bk}, stages = {stages}");
        let all = (2..=5).flat_map(|stages| [64, 128, 192, 256].map(|bn| spec(stages, bn)));
        all.filter_map(|text| Some(Plan::new(&text.parse().ok()?).ok()?.ptx().text().to_owned())).collect()
    };
    let (some, others) = (texts(48), texts(80));
    if Module::compile(&device, &some[0]).is_err() {
        return skip("no GPU of the kernel's architecture");
    }
    let begun = Instant::now();
    some[1..].iter().for_each(|text| drop(Module::compile(&device, text).unwrap()));
    let alone = begun.elapsed() / (some.len() as u32 - 1);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for part in others.chunks(others.len().div_ceil(8)) {
            let device = &device;
            scope.spawn(move || part.iter().for_each(|text| drop(Module::compile(device, text).unwrap())));
        }
    });
    let together = begun.elapsed() / others.len() as u32;
    tell(format_args!("a kernel takes {alone:.2?} one by one, {together:.2?} of 8 threads"));
}
