//! Products of more blocks than 32 bits count.

use bsr_codegen::{IndexWidth, KernelSpec, Layout, Plan};
use bsr_runtime::gpu::{DeviceBsr, DeviceBuffer, DeviceDense, DeviceInputs, Stream};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::{Dense, Launcher, Structure};
use half::f16;

use crate::device;

/// Columns of the matrix, every one of which is stored in every row.
const COLUMNS: usize = 1 << 16;
/// Values repeat after so many blocks: no multiple of it is a power of two, so that other blocks have other values.
const PERIOD: usize = 31;

fn value(block: usize) -> f16 {
    f16::from_f32((block % PERIOD) as f32)
}

/// C of a dense row is the sum of its values, which depends on the number of the row's first block.
fn want(row: usize) -> f64 {
    let (first, whole) = (row * COLUMNS, COLUMNS / PERIOD);
    let all = (PERIOD * (PERIOD - 1) / 2 * whole) as f64;
    all + (whole * PERIOD..COLUMNS).map(|column| value(first + column).to_f64()).sum::<f64>()
}

/// Takes 13 GB of the GPU's memory, and 20 of the host's.
#[test]
#[ignore = "a matrix of more than 2^31 blocks"]
fn more_than_31_bits_count() {
    all_count((1 << 15) + 1, IndexWidth::I32);
}

/// Takes 26 GB of the GPU's memory, and 40 of the host's.
#[test]
#[ignore = "a matrix of more than 2^32 blocks"]
fn more_than_32_bits_count() {
    all_count((1 << 16) + 1, IndexWidth::I64);
}

/// A product of as many dense rows, whose pointers the kernel reads in `width`.
fn all_count(rows: usize, width: IndexWidth) {
    let Some((_turn, device)) = device() else { return };
    let spec = "bm = 1, bn = 1, bk = 1, mma = scalar, a = f16, b = f32, b_layout = col, c_layout = col";
    let spec: KernelSpec = spec.parse().unwrap();
    let blocks = rows * COLUMNS;
    let row_ptr: Vec<i64> = (0..=rows).map(|row| (row * COLUMNS) as i64).collect();
    let one: Vec<i32> = (0..COLUMNS as i32).collect();
    let structure = Structure::new(rows, COLUMNS, (1, 1), row_ptr, one.repeat(rows)).unwrap();
    let spec = spec.counting(structure.nnzb() as u64);
    assert_eq!((structure.nnzb(), spec.row_ptr), (blocks, width));
    let period: Vec<f16> = (0..PERIOD * COLUMNS).map(value).collect();
    let mut values = period.repeat(blocks / period.len() + 1);
    values.truncate(blocks);
    let values = DeviceBuffer::from_slice(&device, &values).unwrap();
    // SAFETY: the values outlive the matrix, and there is one for each block.
    let a = unsafe { DeviceBsr::<f16>::from_raw(&device, &structure, values.ptr()) }.unwrap();
    let b = Dense::from_fn(COLUMNS, 1, Layout::ColMajor, |_, _| 1.0_f32);
    let b = DeviceDense::upload(&device, &b).unwrap();
    let mut c = DeviceDense::<f32>::zeros(&device, rows, 1, Layout::ColMajor).unwrap();
    let plan = Plan::new(&spec).unwrap();
    let ptx = plan.ptx();
    let launcher = Launcher::load(&device, &plan, ptx.text(), ptx.entry()).unwrap();
    let stream = Stream::new(&device).unwrap();
    launcher.launch(stream.handle(), ByKind(&a, &b, &DeviceInputs::new()), &mut c).unwrap();
    let found = c.download().unwrap().to_f64();
    // Sums of integers below 2^24: exact in f32.
    assert!(found.iter().enumerate().all(|(row, sum)| *sum == want(row)), "{rows} rows");
}
