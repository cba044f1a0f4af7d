//! The parameters of a generated kernel: boxes in and out through tensor maps.

use bsr_runtime::gpu::{
    self, DeviceBuffer, DeviceDense, LaunchShape, Module, Operand, Stream, TensorMap,
    TensorMapCache,
};
use bsr_runtime::{Dense, Dtype, Element, Layout};
use half::f16;

use crate::{device, skip};

const BOXES: &str = include_str!("../ptx/boxes.ptx");

#[test]
fn boxes_travel_through_tensor_maps() {
    let Some((_turn, device)) = device() else {
        return;
    };
    if device.check_target("sm_90a").is_err() {
        return skip("no device of compute capability 9.0");
    }
    let function = Module::load(&device, BOXES)
        .unwrap()
        .function("boxes")
        .unwrap();
    let (rows, cols) = (10, 40);
    let host = Dense::<f16>::from_fn(rows, cols, Layout::RowMajor, |r, c| {
        f16::from_f64((r * cols + c + 1) as f64)
    });
    let a = DeviceDense::upload(&device, &host).unwrap();
    let mut c = DeviceDense::<f16>::zeros(&device, rows, cols, Layout::RowMajor).unwrap();
    let stream = Stream::new(&device).unwrap();
    let cache = TensorMapCache::new(&device);
    let unused = DeviceBuffer::<u32>::zeroed(&device, 4).unwrap();
    for swizzle_bytes in [0, 64, 128] {
        let map = |operand| TensorMap {
            operand,
            dtype: Dtype::F16,
            dims: [cols as u64, rows as u64],
            row_stride_bytes: host.ld() as u64 * 2,
            box_dims: [32, 8],
            swizzle_bytes,
        };
        let maps = [map(Operand::A), map(Operand::B), map(Operand::C)];
        let shape = LaunchShape {
            grid: 1,
            block: 32,
            cluster: 1,
            shared_bytes: 520,
            maps,
        };
        let encoded = [a.ptr(), a.ptr(), c.ptr()].map(|base| {
            let first = cache.get(base, &maps[0]).unwrap();
            assert_eq!(cache.get(base, &maps[0]).unwrap(), first);
            first
        });
        function.prepare(&shape).unwrap();
        for (from, to) in [((0, 0), (8, 2)), ((32, 4), (0, 0)), ((4, 1), (16, 6))] {
            c.fill_bytes_on(0xFF, stream.handle()).unwrap();
            let work = DeviceBuffer::from_slice(&device, &[from.0, from.1, to.0, to.1]).unwrap();
            let ptrs = [unused.ptr(), unused.ptr(), work.ptr()];
            // SAFETY: the kernel takes these six parameters; everything lives until the download below.
            unsafe { gpu::launch(&function, &shape, encoded.each_ref(), ptrs, stream.handle()) }
                .unwrap();
            let got = c.download_on(stream.handle()).unwrap();
            for row in 0..rows {
                for col in 0..cols {
                    let (y, x) = (
                        row.wrapping_sub(to.1 as usize),
                        col.wrapping_sub(to.0 as usize),
                    );
                    let value = got.get(row, col).unwrap().to_f64();
                    if y < 8 && x < 32 {
                        let source = host.get(y + from.1 as usize, x + from.0 as usize);
                        let want = source.map_or(0.0, Element::to_f64);
                        assert_eq!(
                            value, want,
                            "swizzle {swizzle_bytes}, {from:?} to {to:?}, {row} {col}"
                        );
                    } else {
                        assert!(value.is_nan(), "written outside of the box at {row} {col}");
                    }
                }
            }
        }
    }
}
