//! The simulator and the GPU run the same PTX on the same inputs: element by element, within the numeric model.
//!
//! Both round the same exact products; the tensor core adds them in an order and with a rounding of its own. So f32
//! results agree to a few units in the last place of the largest partial sum, and 16-bit results are equal but for
//! ties that fall the other way, one unit apart. Integers are equal, and so is what the CUDA cores sum up. `simulator/AGREEMENT.md` holds the table that this test prints.

use bsr_codegen::Mma;
use bsr_runtime::Results;
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceDense, DeviceScales, Stream};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::simulated::{Fp8Accumulate, Options, Schedule, Simulated};
use bsr_runtime::typed::{Number, Typed, with_types};

use crate::case::{Blocks, Case, Factors, Failure};
use crate::run::load;
use crate::{device, tell};

const SPECS: [&str; 33] = [
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
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, out = f32, accumulate = fast",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, out = f32, accumulate = promoted",
    "bm = 512, bn = 128, bk = 112, a = e4m3, b = e5m2",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = block",
    "bm = 128, bn = 128, bk = 128, dtype = i8",
    "bm = 128, bn = 128, bk = 64, dtype = i8, out = f32, scale = row_col",
    "bm = 112, bn = 128, bk = 512, transpose = on",
    "bm = 128, bn = 256, bk = 128, op = dds",
    "bm = 128, bn = 128, bk = 40, op = dds, transpose = on, out = f32",
    "bm = 128, bn = 128, bk = 24",
    "bm = 128, bn = 256, bk = 128, dtype = f32, tf32 = on, b_layout = col",
    "bm = 32, bn = 128, bk = 32, dtype = f32, tf32 = on, b_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32, tf32 = on",
    "bm = 64, bn = 128, bk = 64, mma = mma_sync",
    "bm = 96, bn = 64, bk = 80, mma = mma_sync, dtype = bf16, out = f32",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8",
    "bm = 64, bn = 64, bk = 64, mma = wmma",
    "bm = 48, bn = 64, bk = 112, mma = wmma, arch = sm_70, out = f32",
    "bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = register",
    "bm = 64, bn = 64, bk = 32, mma = scalar, accumulate = register, dtype = f32",
];
const SHAPES: [(usize, usize, usize); 3] = [(1024, 256, 672), (700, 333, 500), (130, 1, 900)];

/// Difference of one case: elements that differ, the largest distance in units in the last place of a 16- or 8-bit
/// result, and the relative Frobenius distance.
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
            match with_types(&case.spec, Compare { device: &device, case: &case }) {
                Ok(difference) => {
                    let Difference { elements, differ, ulps, relative } = difference;
                    tell(format_args!(
                        "{case}: {differ} of {elements} elements differ, by {ulps} ulp at most; relative {relative:.1e}"
                    ));
                    failures.extend(excessive(&case, &difference));
                }
                Err(error) => failures.push(format!("{case}: {error}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What is wrong with a difference: that of integers and of multiply-adds one by one is none at all, that of other f32
/// results as small as the rounding of sums, that of narrower ones also rare.
fn excessive(case: &Case, difference: &Difference) -> Option<String> {
    let Difference { elements, differ, relative, .. } = *difference;
    let spec = case.spec;
    let (most, rare) = match spec.out.bytes() {
        _ if spec.a.is_integer() || spec.mma == Mma::Scalar => (0.0, differ == 0),
        // Sums of FP8 are of 14 bits: how the hardware cuts them is modelled, and not known to the last.
        _ if spec.a.is_fp8() => (1e-3, true),
        // Of TF32 an instruction has half of the K, and so sums are rounded twice as often.
        4 if spec.tf32.is_on() => (2e-6, true),
        4 => (1e-6, true),
        // Of a few elements a few ties are many.
        _ => (1e-4, differ * 100 <= elements.max(400)),
    };
    let wrong = relative > most || !rare;
    wrong.then(|| format!("{case}: {differ} of {elements} differ, relative {relative:.1e}"))
}

struct Compare<'r> {
    device: &'r Device,
    case: &'r Case,
}

impl Typed for Compare<'_> {
    type Output = Difference;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Difference, Failure> {
        let Self { device, case } = self;
        let Factors { a, b, scales, .. } = case.factors::<A, B>()?;
        let launcher = load(device, &case.spec)?;
        let stream = Stream::new(device)?;
        let (device_a, device_b) = (DeviceBsr::upload(device, &a)?, DeviceDense::upload(device, &b)?);
        let device_scales = DeviceScales::upload(device, &scales)?;
        let mut c = DeviceDense::<C>::zeros(device, case.m, case.n, case.spec.c_layout)?;
        launcher.launch(stream.handle(), ByKind(&device_a, &device_b, &device_scales), &mut c)?;
        stream.synchronize()?;
        let from_gpu = c.download()?;

        let plan = case.plan()?;
        let ptx = plan.ptx();
        let fp8 = if case.spec.a.is_fp8() && case.spec.mma == Mma::Wgmma {
            Fp8Accumulate::Reduced
        } else {
            Fp8Accumulate::Single
        };
        let options = Options { schedule: Schedule::Early, races: false, fp8, ..Options::default() };
        let simulated = Simulated::new(&plan, ptx.text(), ptx.entry())?;
        let (Results { c: from_simulator, .. }, report) =
            simulated.multiply::<C, _>(ByKind(&a, &b, &scales), &options)?;
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
                    difference.ulps = difference.ulps.max(ordered(x).abs_diff(ordered(y)));
                }
            }
        }
        difference.relative = if norm > 0.0 { (distance / norm).sqrt() } else { distance };
        Ok(difference)
    }
}

/// The bits of a 16- or 8-bit float as an integer that grows with it: neighbours are 1 apart, across zero too.
fn ordered<T: Number>(value: T) -> i32 {
    let bytes = T::to_bytes(&[value]);
    let (bits, sign) = match *bytes.as_slice() {
        [low] => (i32::from(low), 0x80),
        [low, high] => (i32::from(u16::from_le_bytes([low, high])), 0x8000),
        _ => return 0,
    };
    if bits & sign == 0 { bits } else { -(bits & !sign) }
}
