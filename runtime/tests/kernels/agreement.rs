//! The simulator and the GPU run the same PTX on the same inputs: element by element, within the numeric model.
//!
//! Both round the same exact products; the tensor core adds them in an order and with a rounding of its own. So f32
//! results agree to a few units in the last place of the largest partial sum, and 16-bit results are equal but for
//! ties that fall the other way, one unit apart. `simulator/AGREEMENT.md` holds the table that this test prints.

use bsr_codegen::Dtype;
use bsr_runtime::Dense;
use bsr_runtime::gpu::{DeviceBsr, DeviceDense, Stream};
use bsr_runtime::simulated::{Options, Schedule, Simulated};
use half::{bf16, f16};

use crate::case::{Blocks, Case, Failure};
use crate::run::load;
use crate::walled::Poison;
use crate::{device, tell};

const SPECS: [&str; 12] = [
    "bm = 512, bn = 128, bk = 112",
    "bm = 512, bn = 128, bk = 112, cluster = 2",
    "bm = 512, bn = 256, bk = 112, c_layout = col",
    "bm = 128, bn = 256, bk = 128, cluster = 2",
    "bm = 128, bn = 256, bk = 64, dtype = bf16, b_layout = col",
    "bm = 128, bn = 128, bk = 64, out = f32",
    "bm = 128, bn = 64, bk = 80, out = f32, c_layout = col",
    "bm = 64, bn = 512, bk = 64",
    "bm = 64, bn = 96, bk = 48, dtype = bf16, out = f32",
    "bm = 128, bn = 256, bk = 32",
    "bm = 64, bn = 64, bk = 16",
    "bm = 192, bn = 192, bk = 240, consumers = 3",
];
const SHAPES: [(usize, usize, usize); 3] = [(1024, 256, 672), (700, 333, 500), (130, 1, 900)];

/// Difference of one case: elements that differ, the largest distance in units in the last place of a 16-bit result,
/// and the relative Frobenius distance.
struct Difference {
    elements: usize,
    differ: usize,
    ulps: u32,
    relative: f64,
}

#[test]
fn the_simulator_and_the_gpu_agree() {
    let Some((_turn, device)) = device() else {
        return;
    };
    let mut failures = vec![];
    for spec in SPECS {
        for shape in SHAPES {
            let case = Case::new(spec, shape, Blocks::Pattern("random:0.4"));
            let difference = match (case.spec.a, case.spec.out) {
                (Dtype::F16, Dtype::F16) => compare::<f16, f16>(&device, &case, |x| ordered(x.to_bits())),
                (Dtype::F16, _) => compare::<f16, f32>(&device, &case, |_| 0),
                (_, Dtype::F32) => compare::<bf16, f32>(&device, &case, |_| 0),
                _ => compare::<bf16, bf16>(&device, &case, |x| ordered(x.to_bits())),
            };
            match difference {
                Ok(Difference { elements, differ, ulps, relative }) => {
                    tell(format_args!(
                        "{case}: {differ} of {elements} elements differ, by {ulps} ulp at most; relative {relative:.1e}"
                    ));
                    let wide = case.spec.out == Dtype::F32;
                    let rare = wide || differ * 100 <= elements;
                    if relative > if wide { 1e-6 } else { 1e-4 } || !rare {
                        failures.push(format!("{case}: {differ} of {elements} differ, relative {relative:.1e}"));
                    }
                }
                Err(error) => failures.push(format!("{case}: {error}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The bits of a 16-bit float as an integer that grows with it: neighbours are 1 apart, across zero too.
fn ordered(bits: u16) -> i16 {
    let magnitude = (bits & 0x7fff) as i16;
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

fn compare<T: Poison, C: Poison>(
    device: &bsr_runtime::gpu::Device,
    case: &Case,
    bits: impl Fn(C) -> i16,
) -> Result<Difference, Failure> {
    let a = case.matrix::<T>()?;
    let b = Dense::<T>::normal(case.k, case.n, case.spec.b_layout, 3);

    let launcher = load(device, &case.spec)?;
    let stream = Stream::new(device)?;
    let (device_a, device_b) = (DeviceBsr::upload(device, &a)?, DeviceDense::upload(device, &b)?);
    let mut c = DeviceDense::<C>::zeros(device, case.m, case.n, case.spec.c_layout)?;
    launcher.launch(stream.handle(), &device_a, &device_b, &mut c)?;
    stream.synchronize()?;
    let from_gpu = c.download()?;

    let plan = case.plan()?;
    let ptx = plan.ptx();
    let options = Options { schedule: Schedule::Early, races: false, ..Options::default() };
    let simulated = Simulated::new(&plan, ptx.text(), ptx.entry())?;
    let (from_simulator, report) = simulated.multiply::<T, T, C>(&a, &b, &options)?;
    if !report.is_clean() {
        return Err(format!("the simulator found {}", report.findings[0]).into());
    }

    let mut difference = Difference { elements: case.m * case.n, differ: 0, ulps: 0, relative: 0.0 };
    let (mut distance, mut norm) = (0.0, 0.0);
    for row in 0..case.m {
        for col in 0..case.n {
            let (Some(x), Some(y)) = (from_gpu.get(row, col), from_simulator.get(row, col)) else { continue };
            let (fx, fy) = (x.to_f64(), y.to_f64());
            distance += (fx - fy) * (fx - fy);
            norm += fx * fx;
            if fx != fy {
                difference.differ += 1;
                difference.ulps = difference.ulps.max(bits(x).abs_diff(bits(y)).into());
            }
        }
    }
    difference.relative = if norm > 0.0 { (distance / norm).sqrt() } else { distance };
    Ok(difference)
}
