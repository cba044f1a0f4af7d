//! Products of two sparse factors whose patterns live on the GPU: bit by bit those of the host's lists, through one captured graph,
//! and with arrays that are wrong.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::gpu::{
    Device, DeviceBsr, DeviceBuffer, DeviceDense, DevicePattern, Graph, IndexWidth, PatternShape, Stream,
};
use bsr_runtime::{Bsr, Dense, KernelError, Launcher, Layout, Pattern, Structure};
use half::f16;

use crate::device;
use crate::watchdog::watch;

fn launcher(device: &Device, spec: &str) -> Launcher {
    let plan = Plan::new(&spec.parse().unwrap()).unwrap();
    Launcher::load(device, &plan, plan.ptx().text(), plan.ptx().entry()).unwrap()
}

/// Sides of a block of A, B and C.
fn blocks(launcher: &Launcher) -> [(usize, usize); 3] {
    let spec = launcher.plan().spec();
    let [bm, bn, bk] = [spec.bm, spec.bn, spec.bk].map(|side| side as usize);
    [(bm, bk), (bk, bn), (bm, bn)]
}

/// Patterns of different kinds and densities, in turn.
fn structure(rows: usize, cols: usize, block: (usize, usize), step: u64) -> Structure {
    let word = ["random:0.2", "powerlaw:0.3", "window:0.4", "random:0.9", "random:0.02"][step as usize % 5];
    word.parse::<Pattern>().unwrap().structure(rows, cols, block, step).unwrap()
}

/// A matrix with a pattern on the GPU, which has room for so many blocks.
fn empty(device: &Device, (rows, cols): (usize, usize), block: (usize, usize), room: usize) -> DeviceBsr<f16> {
    let empty = Structure::empty(rows, cols, block).unwrap();
    DeviceBsr::with_pattern(&Arc::new(DevicePattern::upload(device, &empty, room).unwrap())).unwrap()
}

/// Writes a matrix over one of the same shape.
fn replace(there: &mut DeviceBsr<f16>, with: &Bsr<f16>, stream: &Stream) {
    there.device_pattern().unwrap().replace_on(with.structure(), stream.handle()).unwrap();
    let mut values = with.values().to_vec();
    values.resize(there.values().len(), f16::NAN);
    there.values_mut().upload_on(&values, stream.handle()).unwrap();
}

fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

const SIZES: [usize; 3] = [1400, 700, 900];

#[test]
fn one_graph_multiplies_forty_pairs_of_patterns() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let [m, n, k] = SIZES;
    for spec in [
        "op = dss, bm = 64, bn = 64, bk = 64",
        "op = dss, bm = 128, bn = 128, bk = 64, pdl = on",
        "op = dss, bm = 256, bn = 64, bk = 64, schedule = strided",
        "op = sss, bm = 64, bn = 64, bk = 64",
        "op = sss, bm = 128, bn = 128, bk = 128, pdl = on",
    ] {
        let _watch = watch(format!("forty pairs of patterns: {spec}"));
        let launcher = launcher(&device, spec);
        let [of_a, of_b, of_c] = blocks(&launcher);
        let (mut a, mut b) = (empty(&device, (m, k), of_a, 400), empty(&device, (k, n), of_b, 300));
        let sparse = launcher.plan().spec().op.stores_blocks();
        let patterns = [&a, &b].map(|of| Arc::clone(of.device_pattern().unwrap()));
        let product = Arc::new(DevicePattern::product(&patterns[0], &patterns[1], 400).unwrap());
        let mut c = DeviceBsr::<f16>::with_pattern(&product).unwrap();
        let zeros = Dense::<f16>::zeros(m, n, Layout::RowMajor);
        let mut dense = DeviceDense::upload(&device, &zeros).unwrap();
        launcher.prepare_pairs(&a, &b, sparse.then_some(&c)).unwrap();
        let mut graph = Graph::capture(&stream, |stream| match sparse {
            true => launcher.launch(stream, (&a, &b), &mut c),
            false => launcher.launch(stream, (&a, &b), &mut dense),
        })
        .unwrap();
        for step in 0..40 {
            let context = format!("{spec}, step {step}");
            let left = Bsr::<f16>::normal(structure(m, k, of_a, step), step);
            let right = Bsr::<f16>::normal(structure(k, n, of_b, step / 5 + 1), step + 1000);
            replace(&mut a, &left, &stream);
            replace(&mut b, &right, &stream);
            c.values_mut().fill_bytes(0xFF).unwrap();
            dense.fill_bytes(0xFF).unwrap();
            // SAFETY: all that the graph touches is alive, and nothing else uses it.
            unsafe { graph.launch(stream.handle()) }.unwrap();
            stream.synchronize().unwrap();
            patterns.iter().chain([&product]).for_each(|pattern| pattern.check().unwrap());
            let (there, others) =
                (DeviceBsr::upload(&device, &left).unwrap(), DeviceBsr::upload(&device, &right).unwrap());
            match sparse {
                true => {
                    let pattern = left.structure().product(right.structure()).unwrap();
                    let got = c.download().unwrap();
                    assert_eq!(got.structure(), &pattern, "{context}");
                    let zeros = Bsr::<f16>::from_structure(pattern.clone(), vec![f16::ZERO; pattern.stored()]).unwrap();
                    let mut host = DeviceBsr::upload(&device, &zeros).unwrap();
                    launcher.launch(stream.handle(), (&there, &others), &mut host).unwrap();
                    stream.synchronize().unwrap();
                    assert_eq!(bits(got.values()), bits(host.download().unwrap().values()), "{context}");
                }
                false => {
                    let mut host = DeviceDense::upload(&device, &zeros).unwrap();
                    launcher.launch(stream.handle(), (&there, &others), &mut host).unwrap();
                    stream.synchronize().unwrap();
                    let [got, want] = [&dense, &host].map(|of| bits(of.download().unwrap().data()));
                    assert!(got == want, "{context}");
                }
            }
        }
        // A mask: blocks of C that are given, of the same factors.
        if sparse {
            let mut masked = empty(&device, (m, n), of_c, 300);
            masked.device_pattern().unwrap().replace_on(&structure(m, n, of_c, 7), stream.handle()).unwrap();
            launcher.launch(stream.handle(), (&a, &b), &mut masked).unwrap();
            stream.synchronize().unwrap();
            let whole = c.download().unwrap().to_dense(Layout::RowMajor);
            let got = masked.download().unwrap();
            let (kept, all) = (got.structure().clone(), got.to_dense(Layout::RowMajor));
            for row in 0..kept.block_rows() {
                for block in kept.blocks_of(row) {
                    let first = (row * of_c.0, kept.col_idx()[block] as usize * of_c.1);
                    for i in first.0..(first.0 + of_c.0).min(m) {
                        // Lines are longer than rows: 700 elements are padded to whole vectors.
                        let line = i * whole.ld();
                        let columns = line + first.1..line + (first.1 + of_c.1).min(n);
                        assert_eq!(bits(&all.data()[columns.clone()]), bits(&whole.data()[columns]), "{spec}, {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn wrong_arrays_of_a_factor_are_told_and_the_rows_are_zero() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let launcher = launcher(&device, "op = dss, bm = 64, bn = 64, bk = 64");
    let shape = PatternShape { rows: 256, cols: 320, block: (64, 64), capacity: 7 };
    let b = Bsr::<f16>::normal(structure(320, 200, (64, 64), 3), 5);
    let mut right = empty(&device, (320, 200), (64, 64), b.nnzb() + 3);
    replace(&mut right, &b, &stream);
    for (row_ptr, col_idx, wrong, fact) in [
        ([0_i64, 2, 2, 5, 7], [0_i64, 3, 1, 2, 4, 0, 1], vec![], ""),
        ([0, 2, 2, 5, 7], [0, 3, 1, 5, 4, 0, 1], vec![2], "it has a block in column 5"),
        ([0, 2, 2, 5, 7], [0, 3, 1, 2, 4, 0, 1 << 40], vec![3], "in column 1099511627776"),
        ([0, 2, 2, 5, 1 << 33], [0, 3, 1, 2, 4, 0, 1], vec![3], "8589934592 > 7"),
        ([0, -3, 2, 5, 7], [0, 3, 1, 2, 4, 0, 1], vec![0, 1], "block row 0"),
    ] {
        let buffers = (
            DeviceBuffer::from_slice(&device, &row_ptr).unwrap(),
            DeviceBuffer::from_slice(&device, &col_idx).unwrap(),
        );
        // SAFETY: the buffers live longer than the launches, and are as long as the shape says.
        let pattern = unsafe {
            DevicePattern::from_raw(&device, shape, IndexWidth::I64, (buffers.0.ptr(), buffers.1.ptr())).unwrap()
        };
        let pattern = Arc::new(pattern);
        let mut a = DeviceBsr::<f16>::with_pattern(&pattern).unwrap();
        let values = Dense::<f16>::normal(7 * 64, 64, Layout::RowMajor, 3);
        a.values_mut().upload_on(values.data(), stream.handle()).unwrap();
        let zeros = Dense::<f16>::zeros(256, 200, Layout::RowMajor);
        let mut c = DeviceDense::upload(&device, &zeros).unwrap();
        c.fill_bytes(0xFF).unwrap();
        launcher.launch(stream.handle(), (&a, &right), &mut c).unwrap();
        stream.synchronize().unwrap();
        let (mut kept, mut columns, mut blocks) = (vec![0], vec![], vec![]);
        for row in 0..4 {
            if !wrong.contains(&row) {
                let (first, end) = (row_ptr[row] as usize, row_ptr[row + 1] as usize);
                for (block, column) in col_idx.iter().enumerate().take(end).skip(first) {
                    columns.push(*column as i32);
                    blocks.extend_from_slice(&values.data()[block * 64 * 64..(block + 1) * 64 * 64]);
                }
            }
            kept.push(columns.len() as i32);
        }
        let structure = Structure::new(256, 320, (64, 64), kept, columns).unwrap();
        let left = DeviceBsr::upload(&device, &Bsr::from_structure(structure, blocks).unwrap()).unwrap();
        let others = DeviceBsr::upload(&device, &b).unwrap();
        let mut host = DeviceDense::upload(&device, &zeros).unwrap();
        launcher.launch(stream.handle(), (&left, &others), &mut host).unwrap();
        stream.synchronize().unwrap();
        let [got, want] = [&c, &host].map(|of| bits(of.download().unwrap().data()));
        assert!(got == want, "{fact}");
        match wrong.is_empty() {
            true => pattern.check().unwrap(),
            false => {
                let text = pattern.check().expect_err("a wrong row").to_string();
                assert!(text.contains(fact) && text.contains("help: "), "{text}");
            }
        }
        // A pattern on the GPU and one on the host are not listed together.
        let text = launcher.launch(stream.handle(), (&a, &others), &mut c).expect_err("mixed").to_string();
        assert!(text.contains("patterns on the GPU: A; on the host: B") && text.contains("help: "), "{text}");
    }
}

#[test]
fn a_product_with_more_blocks_than_room_is_told() {
    let Some((_turn, device)) = device() else { return };
    let full = Pattern::Random(1.0).structure(256, 256, (64, 64), 0).unwrap();
    let pattern = Arc::new(DevicePattern::upload(&device, &full, 16).unwrap());
    let product = Arc::new(DevicePattern::product(&pattern, &pattern, 9).unwrap());
    let launcher = launcher(&device, "op = sss, bm = 64, bn = 64, bk = 64");
    let stream = Stream::new(&device).unwrap();
    let a = DeviceBsr::<f16>::with_pattern(&pattern).unwrap();
    let mut c = DeviceBsr::<f16>::with_pattern(&product).unwrap();
    let launched: Result<(), KernelError> = launcher.launch(stream.handle(), (&a, &a), &mut c);
    launched.unwrap();
    stream.synchronize().unwrap();
    let text = product.check().expect_err("too many blocks").to_string();
    assert!(text.contains("12 > 9, the capacity") && text.contains("help: "), "{text}");
}
