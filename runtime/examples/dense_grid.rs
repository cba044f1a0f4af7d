//! Times the dense library over a grid of sizes, for the model that says whether blocks are faster than it:
//! `cargo run --release -p bsr-runtime --example dense_grid -- grid.json`.
//!
//! Every point is timed from a cold L2 cache and under the load of its own repetitions, with each algorithm that the
//! library proposes; the fastest counts. The file has one line for each point, ends after 140 s or those asked for, and has the
//! card, the driver and the version of the library in its first line.

use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bsr_codegen::{Dtype, Layout};
use bsr_runtime::bench::{Candidate, InterleaveOptions, interleave};
use bsr_runtime::gpu::cublaslt::{CublasLt, DensePlan, DenseProblem};
use bsr_runtime::gpu::{Device, DeviceBuffer, GpuError, Stream, StreamRef};
use bsr_runtime::{Dense, Element, e4m3};
use half::{bf16, f16};

type Sizes = (usize, usize, usize);

/// Sizes that no model is fitted to: those of layers, of benchmarks, and some that no tile divides.
const HELD_OUT: [Sizes; 30] = [
    (8192, 8192, 8288),
    (8192, 8192, 1792),
    (4096, 4096, 11008),
    (11008, 4096, 4096),
    (4096, 11008, 4096),
    (14336, 2048, 4096),
    (4096, 512, 14336),
    (768, 3072, 768),
    (3072, 8192, 768),
    (1000, 1000, 1000),
    (2000, 2000, 2000),
    (3000, 3000, 3000),
    (5000, 5000, 5000),
    (12000, 12000, 3000),
    (10000, 128, 10000),
    (2003, 4096, 2003),
    (2003, 512, 2003),
    (1536, 1536, 6144),
    (6144, 1536, 1536),
    (640, 640, 640),
    (384, 12288, 384),
    (12288, 384, 12288),
    (320, 320, 12800),
    (12800, 320, 320),
    (100, 100, 100),
    (4096, 32, 4096),
    (4096, 16, 4096),
    (1024, 4096, 9216),
    (9216, 1024, 1024),
    (7168, 4608, 2304),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: dense_grid FILE [SECONDS]")?;
    let limit = Duration::from_secs(args.next().map_or(Ok(140), |seconds| seconds.parse())?);
    let (device, begun) = (Device::open(0)?, Instant::now());
    let library = CublasLt::new(&device)?;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let head = serde_json::json!({
        "card": device.info().name, "driver": device.info().driver(), "cublaslt": library.version(), "at": at,
    });
    writeln!(file, "{head}")?;
    let mut count = 0;
    for (dtype, b_layout, sizes) in points() {
        let buffers = Buffers::new(&device, dtype, &sizes)?;
        for (m, n, k) in sizes {
            if begun.elapsed() > limit {
                break;
            }
            let out = if dtype.is_fp8() { Dtype::BF16 } else { dtype };
            let types = DenseProblem::nearest([dtype, dtype, out]);
            let problem = DenseProblem::new((m, n, k), types, [Layout::RowMajor, b_layout, Layout::RowMajor]);
            let times = match library.plan(&problem) {
                Ok(plan) => buffers.times(&plan, &device)?,
                Err(error) => {
                    eprintln!("{problem}: {error}");
                    continue;
                }
            };
            let Some(fastest) = times.iter().copied().reduce(f64::min) else { continue };
            let line = serde_json::json!({
                "dtype": dtype, "b_layout": b_layout, "m": m, "n": n, "k": k, "us": fastest, "first_us": times[0],
            });
            writeln!(file, "{line}")?;
            count += 1;
        }
        file.flush()?;
        eprintln!("{dtype}, B {b_layout}: {count} points, {:.0} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Products of all sides, and the points between: powers of four, and the powers of two between them.
fn points() -> Vec<(Dtype, Layout, Vec<Sizes>)> {
    fn cube(sides: &[usize]) -> Vec<Sizes> {
        let of_n = |m: usize, n: usize| sides.iter().map(move |&k| (m, n, k));
        sides.iter().flat_map(|&m| sides.iter().flat_map(move |&n| of_n(m, n))).collect()
    }
    let both = |x: &[usize], y: &[usize]| [cube(x), cube(y)].concat();
    let (row, col) = (Layout::RowMajor, Layout::ColMajor);
    vec![
        (Dtype::F16, row, both(&[64, 256, 1024, 4096, 16384], &[128, 512, 2048, 8192])),
        (Dtype::F16, row, HELD_OUT.to_vec()),
        (Dtype::E4M3, col, both(&[256, 1024, 4096, 16384], &[512, 2048, 8192])),
        (Dtype::F16, col, HELD_OUT.to_vec()),
        (Dtype::I8, col, both(&[256, 1024, 4096, 16384], &[2048, 8192])),
        (Dtype::F32, row, [cube(&[256, 1024, 4096]), vec![(8192, 8192, 8192), (16384, 256, 16384)]].concat()),
        (Dtype::BF16, row, vec![(1024, 1024, 1024), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 256, 16384)]),
    ]
}

/// Operands as large as the largest of several products, normal random.
struct Buffers([DeviceBuffer<u8>; 3]);

impl Buffers {
    fn new(device: &Device, dtype: Dtype, sizes: &[Sizes]) -> Result<Self, GpuError> {
        /// Elements that are drawn; they repeat.
        const DRAWN: usize = 1 << 22;
        let most = |elements: fn(&Sizes) -> usize| sizes.iter().map(elements).max().unwrap_or(0);
        let drawn = |seed: u64, elements: usize| {
            let period = match dtype {
                Dtype::F16 => normal::<f16>(DRAWN, seed),
                Dtype::BF16 => normal::<bf16>(DRAWN, seed),
                Dtype::E4M3 => normal::<e4m3>(DRAWN, seed),
                Dtype::I8 => normal::<i8>(DRAWN, seed),
                _ => normal::<f32>(DRAWN, seed),
            };
            let bytes: Vec<u8> = period.iter().copied().cycle().take(elements * dtype.bytes() as usize).collect();
            DeviceBuffer::from_slice(device, &bytes)
        };
        // Lines are padded to 16 bytes.
        let padded = |x: usize| x.next_multiple_of(16);
        let a = most(|&(m, _, k)| m * k.next_multiple_of(16));
        let b = most(|&(_, n, k)| n.next_multiple_of(16) * k.next_multiple_of(16));
        let c = most(|&(m, n, _)| m * n.next_multiple_of(16));
        Ok(Self([drawn(0, padded(a))?, drawn(1, padded(b))?, DeviceBuffer::uninit(device, 4 * c)?]))
    }

    /// Microseconds of each algorithm that runs, in the library's order.
    fn times(&self, plan: &DensePlan, device: &Device) -> Result<Vec<f64>, GpuError> {
        /// Of products with more operations the few likeliest algorithms are timed.
        const MANY: u64 = 400_000_000_000;
        let [a, b, c] = self.0.each_ref().map(DeviceBuffer::ptr);
        let launch = |index: usize, stream: StreamRef<'_>| {
            // SAFETY: the buffers are as large as the largest of the products that they are made for.
            unsafe { plan.launch_algorithm(index, stream, a, b, c) }
        };
        let stream = Stream::new(device)?;
        let most = if plan.problem().flops() > MANY { 3 } else { plan.algorithms() };
        let runs = |index: &usize| launch(*index, stream.handle()).and_then(|()| stream.synchronize()).is_ok();
        let usable = (0..plan.algorithms()).filter(runs).take(most);
        let mut candidates: Vec<_> = usable
            .map(|index| Candidate::new(index.to_string(), move |stream: StreamRef<'_>| launch(index, stream)))
            .collect();
        let options = InterleaveOptions {
            warmup: Duration::from_millis(100),
            min_repeats: 10,
            max_repeats: 40,
            time_limit: Duration::from_millis(200),
            ..InterleaveOptions::default()
        };
        Ok(interleave(&mut candidates, &options, device)?.iter().map(|timing| timing.median_us()).collect())
    }
}

fn normal<T: Element>(count: usize, seed: u64) -> Vec<u8> {
    T::to_bytes(&Dense::<T>::normal(1, count, Layout::RowMajor, seed).into_vec())
}
