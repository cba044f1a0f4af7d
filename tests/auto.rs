//! Products whose kernel is chosen for their operands, on a real GPU; choices among the members of a family, anywhere.
//!
//! Without a GPU the first say SKIPPED on stderr and pass; with `BSR_REQUIRE_GPU` set they fail instead.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use bsr::prelude::*;
use bsr::tuner::pick::{Gpu, Why};
use bsr::{Auto, Chooser, Dds, Dsd, FirstUse, ProblemFacts, Tunable as _, Tuner, auto, reference};

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn square(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = [16, 64, 256], bk = 64)]
fn widths(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

fn device() -> Option<Device> {
    match Device::open(0) {
        Ok(device) if device.info().compute_capability == (9, 0) => Some(device),
        other => {
            let why = other.err().map_or("no GPU of compute capability 9.0".to_owned(), |error| error.to_string());
            assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set: {why}");
            let _ = writeln!(std::io::stderr(), "SKIPPED: {}: tests/auto.rs", why.lines().next().unwrap_or_default());
            None
        }
    }
}

#[test]
fn the_chosen_kernel_multiplies_whatever_the_block() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let product = Auto::<Dsd, f16, f16, f16>::new(&device);
    for (block, n) in [((64, 64), 200), ((32, 32), 256), ((16, 16), 128), ((512, 112), 512), ((24, 40), 96)] {
        let a = Bsr::<f16>::generate(Pattern::Random(0.3), 1000, 900, block, 2).unwrap();
        let b = Dense::<f16>::normal(900, n, Layout::RowMajor, 3);
        let want = reference::multiply(&a, &b).unwrap();
        let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
        let mut c = DeviceDense::<f16>::zeros(&device, 1000, n, Layout::RowMajor).unwrap();
        product.launch(&stream, &a, &b, &mut c).unwrap();
        stream.synchronize().unwrap();
        let error = reference::relative_error(&c.download().unwrap().to_f64(), &want);
        assert!(error < 1e-3, "{block:?}: {error}\n{}", product.explain(&a, &b).unwrap());
    }
}

#[test]
fn a_sparse_second_factor_and_a_kernel_of_the_attribute_are_chosen_for_too() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let a = Dense::<f16>::normal(256, 512, Layout::RowMajor, 3);
    let b = Bsr::<f16>::generate(Pattern::Random(0.3), 512, 640, (64, 64), 2).unwrap();
    let want: Vec<f64> =
        reference::multiply(&Bsr::from_dense(&a, (64, 64), Blocks::NonZero).unwrap(), &b.to_dense(Layout::RowMajor))
            .unwrap();
    let (a, b) = (DeviceDense::upload(&device, &a).unwrap(), DeviceBsr::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 256, 640, Layout::RowMajor).unwrap();
    Auto::<Dds, f16, f16, f16>::new(&device).launch(&stream, &a, &b, &mut c).unwrap();
    stream.synchronize().unwrap();
    assert!(reference::relative_error(&c.download().unwrap().to_f64(), &want) < 1e-3);

    let a = Bsr::<f16>::generate(Pattern::TopK(3), 512, 512, (64, 64), 2).unwrap();
    let b = Dense::<f16>::normal(512, 256, Layout::RowMajor, 3);
    let want = reference::multiply(&a, &b).unwrap();
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 512, 256, Layout::RowMajor).unwrap();
    square::auto(&device).launch(&stream, &a, &b, &mut c).unwrap();
    stream.synchronize().unwrap();
    assert!(reference::relative_error(&c.download().unwrap().to_f64(), &want) < 1e-3);
}

#[test]
fn the_first_use_measures_and_later_ones_take_no_time() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    // A shape that no table has.
    let a = Bsr::<f16>::generate(Pattern::Random(0.2), 1984, 1344, (64, 64), 2).unwrap();
    let b = Dense::<f16>::normal(1344, 1000, Layout::RowMajor, 3);
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 1984, 1000, Layout::RowMajor).unwrap();
    let tuner = Arc::new(auto::tuner(&device).first_use(FirstUse::Measure));
    let product = Auto::<Dsd, f16, f16, f16>::with(&device, tuner, square::SPEC);
    product.launch(&stream, &a, &b, &mut c).unwrap();
    let choice = product.explain(&a, &b).unwrap();
    assert!(matches!(choice.why, Why::Measured { us, of } if us > 0.0 && of > 1), "{choice}");
    let begun = Instant::now();
    for _ in 0..10_000 {
        std::hint::black_box(product.explain(&a, &b).unwrap());
    }
    let hit = begun.elapsed() / 10_000;
    let _ = writeln!(std::io::stderr(), "a choice that is known takes {hit:?}");
    assert!(hit.as_nanos() < 20_000, "{hit:?}");
}

#[test]
fn a_tuner_chooses_among_the_members_of_a_family() {
    let gpu = Gpu { name: "NVIDIA H200".into(), driver: String::new(), capability: (9, 0) };
    let tuner = Tuner::new(gpu);
    let members: Vec<&'static bsr::Member> = widths::MEMBERS.iter().collect();
    let a = Pattern::Random(0.25).structure(4096, 4096, (64, 64), 0).unwrap();
    let chosen = |n: usize| members[Chooser::choose(&tuner, &members, &ProblemFacts::new(&a, n))].spec().bn;
    // A wide product reads A least often with wide tiles; a narrow one would waste them.
    assert_eq!((chosen(4096), chosen(16)), (256, 16));
}
