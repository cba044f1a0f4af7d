//! The kernels that measure a GPU's roofs: on the simulator they do all that is counted, and on a GPU the roofs are those of
//! a GPU.

use bsr_codegen::roofs::RoofKernel;
use bsr_runtime::bench::{Effort, measure_roofs};
use bsr_runtime::{Dense, Dtype, Element, Layout, e4m3, roofs};
use bsr_simulator::{BufferId, GlobalMemory, Launch, Options, Param, parse, simulate};
use half::{bf16, f16};

use crate::device::{device, tell};

/// Launches a kernel on the simulator, which is to find nothing.
fn launch(memory: &mut GlobalMemory, kernel: RoofKernel, ctas: u32, pointers: &[BufferId], numbers: &[u32]) {
    let params = pointers.iter().map(|id| Param::Buffer(*id)).chain(numbers.iter().map(|number| Param::U32(*number)));
    let launch = Launch {
        grid: [ctas, 1, 1],
        cluster: [1; 3],
        block: [kernel.threads(), 1, 1],
        shared_bytes: kernel.shared_bytes(),
        params: params.collect(),
    };
    let module = parse(&kernel.ptx()).unwrap();
    let report = simulate(&module, &kernel.entry(), &launch, memory, &Options::default()).unwrap();
    assert!(report.findings.is_empty(), "{}: {:#?}", kernel.entry(), report.findings);
}

fn words(memory: &GlobalMemory, id: BufferId) -> Vec<u32> {
    memory.bytes(id).chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn every_byte_is_read() {
    let tiles = 3;
    let bytes = (tiles * RoofKernel::TILE_BYTES) as usize;
    for at in [None, Some(16), Some(bytes / 2 + 5), Some(bytes - 1)] {
        let mut content = vec![0; bytes];
        at.into_iter().for_each(|at: usize| content[at] = 7);
        let mut memory = GlobalMemory::new();
        let from = memory.upload(content, 256);
        let seen = memory.alloc(4, 256);
        launch(&mut memory, RoofKernel::Read, 2, &[from, seen], &[tiles]);
        assert_eq!(words(&memory, seen), [u32::from(at.is_some())], "{at:?}");
    }
}

#[test]
fn every_byte_is_copied() {
    let tiles = 3;
    let content: Vec<u8> = (0..tiles * RoofKernel::TILE_BYTES).map(|at| (at % 251) as u8).collect();
    let mut memory = GlobalMemory::new();
    let (from, to) = (memory.upload(content.clone(), 256), memory.alloc(content.len(), 256));
    launch(&mut memory, RoofKernel::Copy, 2, &[from, to], &[tiles]);
    assert!(memory.bytes(to) == content, "a byte was not copied");
}

/// As many chunks as are counted come from L2, each from its place, also where there are fewer of them than the ring holds rounds.
#[test]
fn every_chunk_comes_from_l2() {
    let (ctas, chunks) = (3, 8);
    for steps in [RoofKernel::CHUNKS, RoofKernel::CHUNKS + 1, 3 * RoofKernel::CHUNKS + 5] {
        let words_of_chunk = RoofKernel::CHUNK_BYTES / 4;
        let content = (0..chunks * words_of_chunk)
            .map(|word| if word % words_of_chunk == 0 { 1 << (3 * (word / words_of_chunk)) } else { 0 });
        let mut memory = GlobalMemory::new();
        let from = memory.upload(content.flat_map(u32::to_le_bytes).collect(), 256);
        let sums = memory.alloc(4 * ctas as usize, 256);
        launch(&mut memory, RoofKernel::L2, ctas, &[from, sums], &[chunks - 1, steps]);
        let want: Vec<u32> = (0..ctas)
            .map(|cta| (0..steps).map(|step| 1_u32 << (3 * ((cta + step * ctas) % chunks))).fold(0, u32::wrapping_add))
            .collect();
        assert_eq!(words(&memory, sums), want, "{steps} steps");
    }
}

/// The sum of all products of a round, from operands as they lie in shared memory: rows of 128 bytes of K, whose 16-byte
/// vectors are permuted by the row's number (the 128-byte swizzle).
fn sum_of_products(dtype: Dtype, bytes: &[u8]) -> f64 {
    fn values<T: Element>(bytes: &[u8]) -> Vec<f64> {
        T::from_bytes(bytes).iter().map(|value| value.to_f64()).collect()
    }
    let of = |bytes: &[u8]| match dtype {
        Dtype::F16 => values::<f16>(bytes),
        Dtype::BF16 => values::<bf16>(bytes),
        Dtype::E4M3 => values::<e4m3>(bytes),
        _ => values::<i8>(bytes),
    };
    let span = (128 / dtype.bytes()) as usize;
    let vector = (16 / dtype.bytes()) as usize;
    let [a_bytes, b_bytes] = RoofKernel::OPERAND_BYTES.map(|bytes| bytes as usize);
    // For each slab and element of its K the sum over all rows.
    let sums = |bytes: &[u8]| -> Vec<f64> {
        let rows = bytes.len() / 128 / 4;
        let mut sums = vec![0.0; 4 * span];
        for (at, value) in of(bytes).into_iter().enumerate() {
            let (row, place) = (at / span, at % span);
            let (slab, row) = (row / rows, row % rows);
            let k = ((place / vector) ^ (row % 8)) * vector + place % vector;
            sums[slab * span + k] += value;
        }
        sums
    };
    sums(&bytes[..a_bytes]).iter().zip(sums(&bytes[a_bytes..a_bytes + b_bytes])).map(|(a, b)| a * b).sum()
}

#[test]
fn the_tensor_cores_multiply_all_that_is_counted() {
    fn drawn<T: Element>(bytes: u32) -> Vec<u8> {
        T::to_bytes(&Dense::<T>::normal(1, (bytes / T::DTYPE.bytes()) as usize, Layout::RowMajor, 1).into_vec())
    }
    let bytes = RoofKernel::OPERAND_BYTES.iter().sum();
    for (dtype, content) in [
        (Dtype::F16, drawn::<f16>(bytes)),
        (Dtype::BF16, drawn::<bf16>(bytes)),
        (Dtype::E4M3, drawn::<e4m3>(bytes)),
        (Dtype::I8, drawn::<i8>(bytes)),
    ] {
        let (kernel, rounds) = (RoofKernel::Tensor(dtype), 2);
        let want = f64::from(rounds) * sum_of_products(dtype, &content);
        let mut memory = GlobalMemory::new();
        let from = memory.upload(content, 1024);
        let sums = memory.alloc(4 * kernel.threads() as usize, 256);
        launch(&mut memory, kernel, 1, &[from, sums], &[rounds]);
        let found: f64 = words(&memory, sums)
            .iter()
            .map(
                |word| {
                    if dtype == Dtype::I8 { f64::from(word.cast_signed()) } else { f64::from(f32::from_bits(*word)) }
                },
            )
            .sum();
        // Sums of both signs: the error is that of the largest partial sums.
        let tolerance = if dtype == Dtype::I8 { 0.0 } else { 1.0 + want.abs() * 1e-4 };
        assert!((found - want).abs() <= tolerance, "{dtype}: {found} against {want}");
    }
}

#[test]
fn a_gpus_roofs_are_those_of_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    let mut told = vec![];
    let measured = measure_roofs(&device, Effort::Thorough, &mut |what| told.push(what.to_owned())).unwrap();
    tell(format_args!("{measured:#?}"));
    assert!(!told.is_empty());
    if let Some(sheet) = roofs::Sheet::of(&measured.gpu) {
        for tbs in [measured.hbm_read_tbs, measured.hbm_copy_tbs] {
            assert!((0.75..1.0).contains(&(tbs / sheet.hbm_tbs)), "{tbs} of {} TB/s", sheet.hbm_tbs);
        }
        for roof in &measured.tensor {
            let told = sheet.rate(roof.dtype).unwrap();
            assert!((0.4..1.0).contains(&(roof.tflops / told)), "{roof:?}, {told} by the data sheet");
        }
        assert!(measured.l2_tbs.is_none_or(|l2| l2 > measured.hbm_read_tbs), "L2 is no slower than device memory");
    }
    let launch = measured.launch;
    assert!(launch.graph_us > 0.0 && launch.stream_us < 20.0 && launch.single_us < 50.0, "{launch:?}");
}
