//! cuSPARSE beside the f64 reference, and what the driver keeps of what it compiled.

use std::rc::Rc;
use std::time::Instant;

use bsr_codegen::Plan;
use bsr_runtime::gpu::cusparse::{Cusparse, Format, SparseProduct};
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, GpuError, Module, Stream};
use bsr_runtime::{Bsr, Dense, Layout, Pattern, reference};
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

/// The driver keeps what it compiled, for other processes too, which a sweep lives by: told, not judged, since that can be
/// turned off.
#[test]
fn what_the_driver_compiled_it_keeps() {
    let Some((_turn, device)) = device() else { return };
    // A kernel that no other test has.
    let spec = format!("bm = 128, bn = 192, bk = {}", 16 + 16 * (std::process::id() % 30));
    let plan = Plan::new(&spec.parse().unwrap()).unwrap();
    if device.check_target(plan.arch().target).is_err() {
        return skip("no GPU of the kernel's architecture");
    }
    let times = [(); 2].map(|()| {
        let begun = Instant::now();
        drop(Module::load(&device, plan.ptx().text()).unwrap());
        begun.elapsed()
    });
    tell(format_args!("compiled in {:.2?}, loaded again in {:.2?}", times[0], times[1]));
}
