//! Measuring the roofs of a GPU, with kernels that do one thing alone.

use std::ffi::c_void;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bsr_codegen::Dtype;
use bsr_codegen::roofs::RoofKernel;

use crate::bench::{Candidate, InterleaveOptions, Power, interleave_watched};
use crate::gpu::{
    Device, DeviceBuffer, DevicePtr, Event, Function, GpuError, Graph, LaunchDims, Module, Stream, StreamRef,
    launch_params, target_runs_on,
};
use crate::roofs::{LaunchRoof, MeasuredRoofs, TensorRoof};
use crate::{Dense, Element, e4m3};

/// Told what is measured next.
pub type Progress<'p> = dyn FnMut(&str) + 'p;

/// Bytes that come from L2 over and over: what the half of an H200's L2 holds.
const L2_BYTES: u32 = 16 << 20;
/// Bulk copies of each CTA from L2: about half a millisecond.
const L2_STEPS: u32 = 2048;
/// Rounds of products on 16-bit operands: about three milliseconds.
const ROUNDS: u32 = 2000;
/// Launches of a kernel that does nothing.
const LAUNCHES: usize = 1000;
/// Repetitions of that, of which the median counts.
const REPEATS: usize = 11;

/// How thoroughly roofs are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Every roof, under the load that each kernel is for the GPU after a second and a half: some ten seconds.
    Thorough,
    /// About a second: tensor cores in f16 alone, at the clock of a GPU that has just begun to work, and 1 GiB of memory.
    Quick,
}

impl Effort {
    fn dtypes(self) -> &'static [Dtype] {
        match self {
            Self::Thorough => &[Dtype::F16, Dtype::BF16, Dtype::E4M3, Dtype::I8],
            Self::Quick => &[Dtype::F16],
        }
    }

    /// Bytes that are read and copied: far more than L2 holds.
    fn stream_bytes(self) -> u64 {
        match self {
            Self::Thorough => 4 << 30,
            Self::Quick => 1 << 30,
        }
    }

    fn options(self) -> InterleaveOptions {
        let (warmup_ms, min_repeats, limit_ms) = match self {
            Self::Thorough => (1500, 100, 2000),
            Self::Quick => (100, 20, 100),
        };
        InterleaveOptions {
            warmup: Duration::from_millis(warmup_ms),
            min_repeats,
            max_repeats: 400,
            time_limit: Duration::from_millis(limit_ms),
            cold: false,
            ..InterleaveOptions::default()
        }
    }
}

/// Measures the roofs that kernels can be had for on this GPU.
///
/// # Errors
/// Those of the device; [`GpuError::OutOfMemory`] where less than 1 GiB is free.
pub fn measure_roofs(device: &Device, effort: Effort, progress: &mut Progress<'_>) -> Result<MeasuredRoofs, GpuError> {
    let runs =
        |kernel: RoofKernel| target_runs_on(kernel.arch().target, device.info().compute_capability) == Some(true);
    let [hbm_read_tbs, hbm_copy_tbs] = memory(device, effort, progress)?;
    let l2_tbs = runs(RoofKernel::L2).then(|| l2(device, effort, progress)).transpose()?;
    let mut roofs = vec![];
    for &dtype in effort.dtypes() {
        if runs(RoofKernel::Tensor(dtype)) {
            progress(&format!("tensor cores, {dtype}"));
            roofs.push(tensor(device, dtype, effort)?);
        }
    }
    progress("launches");
    let info = device.info();
    Ok(MeasuredRoofs {
        gpu: info.name.clone(),
        driver: info.driver(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        hbm_read_tbs,
        hbm_copy_tbs,
        l2_tbs,
        tensor: roofs,
        launch: launches(device)?,
    })
}

/// A kernel with its arguments.
struct Probe {
    function: Function,
    dims: LaunchDims,
    pointers: Vec<DevicePtr>,
    numbers: Vec<u32>,
}

impl Probe {
    fn new(
        device: &Device,
        kernel: RoofKernel,
        ctas: u32,
        pointers: Vec<DevicePtr>,
        numbers: Vec<u32>,
    ) -> Result<Self, GpuError> {
        assert_eq!((pointers.len(), numbers.len()), (kernel.pointers().len(), kernel.numbers().len()));
        let function = Module::load(device, &kernel.ptx())?.function(&kernel.entry())?;
        let dims = LaunchDims {
            grid: [ctas, 1],
            block: kernel.threads(),
            cluster: 1,
            shared_bytes: kernel.shared_bytes(),
            is_dependent: false,
        };
        function.prepare(dims)?;
        Ok(Self { function, dims, pointers, numbers })
    }

    /// # Safety
    /// The pointers must be of live buffers as large as the kernel reads and writes.
    unsafe fn launch(&self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        let pointers = self.pointers.iter().map(|pointer| std::ptr::from_ref(pointer).cast_mut().cast());
        let numbers = self.numbers.iter().map(|number| std::ptr::from_ref(number).cast_mut().cast());
        let mut params: Vec<*mut c_void> = pointers.chain(numbers).collect();
        // SAFETY: as many parameters as the kernel declares, of their sizes (`Probe::new`); the caller vouches for the buffers.
        unsafe { launch_params(&self.function, self.dims, &mut params, stream) }
    }
}

/// The median time of a probe in microseconds, under a load of itself, and how the GPU ran.
///
/// # Safety
/// As [`Probe::launch`].
unsafe fn timed(device: &Device, name: &str, probe: &Probe, effort: Effort) -> Result<(f64, Option<Power>), GpuError> {
    // SAFETY: the caller vouches for the buffers.
    let candidate = Candidate::new(name, |stream: StreamRef<'_>| unsafe { probe.launch(stream) });
    let (timings, power) = interleave_watched(&mut [candidate], &effort.options(), device)?;
    Ok((timings[0].median_us(), power))
}

/// TB/s of bytes in microseconds.
fn tbs(bytes: u64, us: f64) -> f64 {
    bytes as f64 / us / 1e6
}

/// TB/s of reading and of copying device memory.
fn memory(device: &Device, effort: Effort, progress: &mut Progress<'_>) -> Result<[f64; 2], GpuError> {
    progress("device memory, read");
    // Both buffers, and some room beside them.
    let (free, _) = device.memory()?;
    let bytes = effort.stream_bytes().min(free as u64 * 2 / 5) / (256 << 20) * (256 << 20);
    let from = DeviceBuffer::<u8>::zeroed(device, bytes.max(256 << 20) as usize)?;
    let tiles = (from.len() as u64 / u64::from(RoofKernel::TILE_BYTES)) as u32;
    let ctas = 4 * device.sm_count();
    let seen = DeviceBuffer::<u32>::zeroed(device, 1)?;
    let read = Probe::new(device, RoofKernel::Read, ctas, vec![from.ptr(), seen.ptr()], vec![tiles])?;
    // SAFETY: the first buffer has `tiles` tiles, the second one word.
    let (read_us, _) = unsafe { timed(device, "read", &read, effort) }?;
    progress("device memory, copy");
    let to = DeviceBuffer::<u8>::uninit(device, from.len())?;
    let copy = Probe::new(device, RoofKernel::Copy, ctas, vec![from.ptr(), to.ptr()], vec![tiles])?;
    // SAFETY: both buffers have `tiles` tiles.
    let (copy_us, _) = unsafe { timed(device, "copy", &copy, effort) }?;
    Ok([tbs(from.len() as u64, read_us), tbs(2 * from.len() as u64, copy_us)])
}

fn l2(device: &Device, effort: Effort, progress: &mut Progress<'_>) -> Result<f64, GpuError> {
    progress("L2 to shared memory");
    let ctas = device.sm_count();
    let from = DeviceBuffer::<u8>::zeroed(device, L2_BYTES as usize)?;
    let sums = DeviceBuffer::<u32>::zeroed(device, ctas as usize)?;
    let mask = L2_BYTES / RoofKernel::CHUNK_BYTES - 1;
    let probe = Probe::new(device, RoofKernel::L2, ctas, vec![from.ptr(), sums.ptr()], vec![mask, L2_STEPS])?;
    // SAFETY: the buffer has one chunk more than `mask`, the sums one word for each CTA.
    let (us, _) = unsafe { timed(device, "L2", &probe, effort) }?;
    Ok(tbs(u64::from(ctas) * u64::from(L2_STEPS) * u64::from(RoofKernel::CHUNK_BYTES), us))
}

fn tensor(device: &Device, dtype: Dtype, effort: Effort) -> Result<TensorRoof, GpuError> {
    let ctas = device.sm_count();
    let kernel = RoofKernel::Tensor(dtype);
    let from = DeviceBuffer::from_slice(device, &operands(dtype))?;
    let sums = DeviceBuffer::<u32>::zeroed(device, (ctas * kernel.threads()) as usize)?;
    let probe = Probe::new(device, kernel, ctas, vec![from.ptr(), sums.ptr()], vec![ROUNDS])?;
    // SAFETY: the buffer has both operands, the sums one word for each thread.
    let (us, power) = unsafe { timed(device, "tensor", &probe, effort) }?;
    let flops = RoofKernel::flops_a_round(dtype) * u64::from(ROUNDS) * u64::from(ctas);
    Ok(TensorRoof {
        dtype,
        tflops: crate::bench::tflops(flops, us),
        sm_mhz: power.as_ref().and_then(|power| power.sm_mhz).map(|clock| clock.median),
        watts: power.and_then(|power| power.watts),
    })
}

/// Both operands, drawn from N(0, 1): the power that the tensor cores draw depends on them.
fn operands(dtype: Dtype) -> Vec<u8> {
    fn drawn<T: Element>(bytes: u32) -> Vec<u8> {
        let count = (bytes / T::DTYPE.bytes()) as usize;
        T::to_bytes(&Dense::<T>::normal(1, count, bsr_codegen::Layout::RowMajor, 0).into_vec())
    }
    let bytes = RoofKernel::OPERAND_BYTES.iter().sum();
    match dtype {
        Dtype::BF16 => drawn::<half::bf16>(bytes),
        Dtype::E4M3 => drawn::<e4m3>(bytes),
        Dtype::I8 => drawn::<i8>(bytes),
        _ => drawn::<half::f16>(bytes),
    }
}

/// The medians over repetitions of one launch between two events, and of each of many in a stream and in a graph.
fn launches(device: &Device) -> Result<LaunchRoof, GpuError> {
    let probe = Probe::new(device, RoofKernel::Empty, device.sm_count(), vec![], vec![])?;
    let stream = Stream::new(device)?;
    let (start, end) = (Event::new(device)?, Event::new(device)?);
    let between = |enqueue: &mut dyn FnMut(StreamRef<'_>) -> Result<(), GpuError>| {
        let mut times = vec![];
        for _ in 0..REPEATS {
            start.record(stream.handle())?;
            enqueue(stream.handle())?;
            end.record(stream.handle())?;
            stream.synchronize()?;
            times.push(f64::from(start.elapsed_ms(&end)?) * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok::<_, GpuError>(times[REPEATS / 2])
    };
    // SAFETY: the kernel has no parameters.
    let launch = |stream: StreamRef<'_>| unsafe { probe.launch(stream) };
    let many = |stream: StreamRef<'_>| (0..LAUNCHES).try_for_each(|_| launch(stream));
    let mut graph = Graph::capture(&stream, many)?;
    between(&mut |stream| many(stream))?;
    Ok(LaunchRoof {
        single_us: single(device, &probe)?,
        stream_us: between(&mut |stream| many(stream))? / LAUNCHES as f64,
        // SAFETY: the captured launches touch no memory.
        graph_us: between(&mut |stream| unsafe { graph.launch(stream) })? / LAUNCHES as f64,
    })
}

/// One launch as a measurement has it: behind the emptying of L2, between two events.
fn single(device: &Device, probe: &Probe) -> Result<f64, GpuError> {
    let options = InterleaveOptions {
        warmup: Duration::from_millis(300),
        min_repeats: 100,
        max_repeats: 100,
        ..Default::default()
    };
    // SAFETY: the kernel has no parameters.
    let candidate = Candidate::new("empty", |stream: StreamRef<'_>| unsafe { probe.launch(stream) });
    let (timings, _) = interleave_watched(&mut [candidate], &options, device)?;
    Ok(timings[0].median_us())
}
