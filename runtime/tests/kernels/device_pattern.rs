//! Products on patterns that live on the GPU: against the f64 reference, through one captured graph, and with arrays that
//! are wrong.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::gpu::{
    Device, DeviceBsr, DeviceBuffer, DeviceDense, DevicePattern, Graph, IndexWidth, PatternShape, Plain, Stream,
    StreamRef,
};
use bsr_runtime::schedule::BlockIndex;
use bsr_runtime::{Bsr, Dense, Element, Inputs, KernelError, Launcher, Layout, Pattern, Structure, reference};
use half::f16;

use crate::device;
use crate::watchdog::watch;

/// A product with a sparse factor whose pattern may change.
struct Product {
    launcher: Launcher,
    pattern: Arc<DevicePattern>,
    sparse: DeviceBsr<f16>,
    dense: (Dense<f16>, DeviceDense<f16>),
    c: DeviceDense<f16>,
    is_dds: bool,
}

impl Product {
    fn new(device: &Device, spec: &str, pattern: Arc<DevicePattern>, n: usize) -> Self {
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let launcher = Launcher::load(device, &plan, plan.ptx().text(), plan.ptx().entry()).unwrap();
        let PatternShape { rows, cols, .. } = *pattern.shape();
        let is_dds = spec.contains("dds");
        let (shape, result) = if is_dds { ((n, rows), (n, cols)) } else { ((cols, n), (rows, n)) };
        let dense = Dense::<f16>::normal(shape.0, shape.1, Layout::RowMajor, 7);
        let uploaded = DeviceDense::upload(device, &dense).unwrap();
        let c = Dense::<f16>::zeros(result.0, result.1, Layout::RowMajor);
        Self {
            launcher,
            sparse: DeviceBsr::with_pattern(&pattern).unwrap(),
            pattern,
            dense: (dense, uploaded),
            c: DeviceDense::upload(device, &c).unwrap(),
            is_dds,
        }
    }

    /// Values of the blocks of a structure, in the first places.
    fn set_values(&mut self, a: &Bsr<f16>, stream: StreamRef<'_>) {
        let mut values = a.values().to_vec();
        values.resize(self.sparse.values().len(), f16::NAN);
        self.sparse.values_mut().upload_on(&values, stream).unwrap();
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), KernelError> {
        let dense = &self.dense.1;
        match self.is_dds {
            true => self.launcher.launch(stream, (dense, &self.sparse), &mut self.c),
            false => self.launcher.launch(stream, (&self.sparse, dense), &mut self.c),
        }
    }

    /// Compares C with the product of the blocks of `a`.
    fn judge(&self, a: &Bsr<f16>, context: &str) {
        let (plan, got) = (self.launcher.plan(), self.c.download().unwrap());
        let (rows, longest) = ((0..got.rows()).collect::<Vec<_>>(), BlockIndex::new(plan, a.structure()).longest_sum());
        let want = reference::expected(plan.spec(), a, &self.dense.0, &Inputs::new(), &rows, longest).unwrap();
        want.verify(&got, None).unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
    }
}

fn poison(product: &mut Product) {
    product.c.fill_bytes(0xFF).unwrap();
}

/// Patterns of different kinds and densities, in turn.
fn structure(shape: &PatternShape, step: u64) -> Structure {
    let word = match step % 5 {
        0 => "random:0.2",
        1 => "powerlaw:0.3",
        2 => "window:0.4",
        3 => "random:0.9",
        _ => "random:0.02",
    };
    word.parse::<Pattern>().unwrap().structure(shape.rows, shape.cols, shape.block, step).unwrap()
}

fn mask(structure: &Structure) -> Vec<u8> {
    let mut mask = vec![0; structure.block_rows() * structure.block_cols()];
    for row in 0..structure.block_rows() {
        for block in structure.blocks_of(row) {
            mask[row * structure.block_cols() + structure.col_idx()[block] as usize] = 1;
        }
    }
    mask
}

#[test]
fn one_graph_serves_a_hundred_masks() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    for (spec, by_mask) in [
        ("bm = 64, bn = 64, bk = 64", false),
        ("bm = 128, bn = 128, bk = 64, cluster = 2", true),
        ("bm = 64, bn = 64, bk = 64, op = dds", true),
        ("bm = 64, bn = 64, bk = 64, split = auto, pdl = on", false),
        ("bm = 64, bn = 64, bk = 64, split = 3", true),
        ("bm = 64, bn = 128, bk = 64, cluster = 2, split = 2, pdl = on", false),
        ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", false),
        ("bm = 64, bn = 64, bk = 64, pack = 3, swap = off, cluster = 2", true),
    ] {
        let _watch = watch(format!("a hundred masks: {spec}"));
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let block = (plan.spec().bm as usize, plan.spec().bk as usize);
        let shape = PatternShape { rows: 700, cols: 540, block, capacity: 99 };
        let empty = Structure::empty(shape.rows, shape.cols, block).unwrap();
        let pattern = match by_mask {
            true => DevicePattern::upload_mask(&device, shape, &mask(&empty)),
            false => DevicePattern::upload(&device, &empty, shape.capacity),
        };
        let mut product = Product::new(&device, spec, Arc::new(pattern.unwrap()), 200);
        product.launcher.prepare(&product.sparse, 200).unwrap();
        // Lists that are made before the capture are no reason not to make them in the graph.
        product.launch(stream.handle()).unwrap();
        stream.synchronize().unwrap();
        let mut graph = Graph::capture(&stream, |stream| product.launch(stream)).unwrap();
        for step in 0..100 {
            let structure = structure(&shape, step);
            let a = Bsr::<f16>::normal(structure.clone(), step);
            match by_mask {
                true => product.pattern.replace_mask_on(&mask(&structure), stream.handle()).unwrap(),
                false => product.pattern.replace_on(&structure, stream.handle()).unwrap(),
            }
            product.set_values(&a, stream.handle());
            poison(&mut product);
            // SAFETY: all that the graph touches is alive, and nothing else uses it.
            unsafe { graph.launch(stream.handle()) }.unwrap();
            stream.synchronize().unwrap();
            product.pattern.check().unwrap();
            product.judge(&a, &format!("{spec}, mask {step}"));
        }
        let last = product.pattern.download().unwrap();
        assert_eq!(last, structure(&shape, 99), "{spec}");
    }
}

#[test]
fn launches_make_the_lists_when_the_pattern_has_changed() {
    let Some((_turn, device)) = device() else { return };
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    for spec in [
        "bm = 192, bn = 128, bk = 96",
        "bm = 512, bn = 128, bk = 112, cluster = 2",
        "bm = 64, bn = 256, bk = 64, op = dds",
        "bm = 64, bn = 256, bk = 64, op = dds, split = 2",
        "bm = 128, bn = 128, bk = 64, pack = 2, swap = off, split = auto",
    ] {
        let _watch = watch(format!("changes: {spec}"));
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let block = (plan.spec().bm as usize, plan.spec().bk as usize);
        let shape = PatternShape { rows: 2500, cols: 1100, block, capacity: 800 };
        let first = structure(&shape, 0);
        let pattern = DevicePattern::upload(&device, &first, shape.capacity).unwrap();
        let mut product = Product::new(&device, spec, Arc::new(pattern), 300);
        for step in 0..6 {
            // One stream after the other, and each pattern twice: made anew, and as it is.
            let stream = &streams[step as usize / 3];
            let structure = structure(&shape, step);
            product.pattern.replace_on(&structure, stream.handle()).unwrap();
            let a = Bsr::<f16>::normal(structure, step);
            product.set_values(&a, stream.handle());
            for _ in 0..2 {
                poison(&mut product);
                product.launch(stream.handle()).unwrap();
                stream.synchronize().unwrap();
                product.judge(&a, &format!("{spec}, pattern {step}"));
            }
            assert_eq!(product.sparse.download().unwrap(), a, "{spec}");
        }
    }
}

#[test]
fn wrong_arrays_are_told_and_nothing_is_computed_for_their_rows() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let spec = "bm = 64, bn = 64, bk = 64";
    let shape = PatternShape { rows: 256, cols: 320, block: (64, 64), capacity: 8 };
    let right = ([0_i64, 2, 2, 5, 7], [0_i64, 3, 1, 2, 4, 0, 1, -9]);
    let edited = |ptr: &[(usize, i64)], idx: &[(usize, i64)]| {
        let (mut row_ptr, mut col_idx) = right;
        ptr.iter().for_each(|(at, value)| row_ptr[*at] = *value);
        idx.iter().for_each(|(at, value)| col_idx[*at] = *value);
        (row_ptr, col_idx)
    };
    for ((row_ptr, col_idx), wrong, fact) in [
        (right, vec![], ""),
        (edited(&[], &[(3, 5)]), vec![2], "block row 2 of a pattern on the GPU is wrong: it has a block in column 5"),
        (edited(&[], &[(3, -1)]), vec![2], "in column -1"),
        (edited(&[], &[(3, 0)]), vec![2], "column 0 stands behind a larger one"),
        (edited(&[], &[(3, 1)]), vec![2], "column 1 occurs twice"),
        (edited(&[], &[(6, 1 << 40)]), vec![3], "in column 1099511627776"),
        (edited(&[(4, 9)], &[]), vec![3], "9 > 8, the capacity"),
        (edited(&[(4, (1 << 33) + 7)], &[]), vec![3], "8589934599 > 8"),
        (edited(&[(1, -3)], &[]), vec![0, 1], "block row 0"),
        (edited(&[(0, 1)], &[]), vec![0], "the first row pointer is 1"),
    ] {
        let buffers = (
            DeviceBuffer::from_slice(&device, &row_ptr).unwrap(),
            DeviceBuffer::from_slice(&device, &col_idx).unwrap(),
        );
        // SAFETY: the buffers live longer than the launches, and are as long as the shape says.
        let pattern = unsafe {
            DevicePattern::from_raw(&device, shape, IndexWidth::I64, (buffers.0.ptr(), buffers.1.ptr())).unwrap()
        };
        let mut product = Product::new(&device, spec, Arc::new(pattern), 64);
        // What is right, with the values at the places where the arrays have them.
        let mut values = vec![f16::ZERO; 8 * 64 * 64];
        let noise = Dense::<f16>::normal(8 * 64, 64, Layout::RowMajor, 3);
        values.copy_from_slice(noise.data());
        product.sparse.values_mut().upload_on(&values, stream.handle()).unwrap();
        poison(&mut product);
        product.launch(stream.handle()).unwrap();
        stream.synchronize().unwrap();
        let (mut kept, mut columns, mut blocks) = (vec![0], vec![], vec![]);
        for row in 0..4 {
            if !wrong.contains(&row) {
                for block in row_ptr[row] as usize..row_ptr[row + 1] as usize {
                    columns.push(col_idx[block] as i32);
                    blocks.extend_from_slice(&values[block * 64 * 64..(block + 1) * 64 * 64]);
                }
            }
            kept.push(columns.len() as i32);
        }
        let structure = Structure::new(shape.rows, shape.cols, shape.block, kept, columns).unwrap();
        product.judge(&Bsr::from_structure(structure, blocks).unwrap(), fact);
        match wrong.is_empty() {
            true => product.pattern.check().unwrap(),
            false => {
                let text = product.pattern.check().expect_err("a wrong row").to_string();
                assert!(text.contains(fact) && text.contains("help: "), "{text}");
                product.pattern.check().expect("told once");
            }
        }
    }
}

#[test]
fn kernels_that_read_other_lists_refuse_patterns_on_the_gpu() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    for (spec, remedy) in [
        ("bm = 16, bn = 64, bk = 16", "a multiple of 64"),
        ("bm = 64, bn = 64, bk = 64, mma = scalar", "mma = wgmma"),
        ("bm = 64, bn = 64, bk = 64, pdl = early", "pdl = on"),
    ] {
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let block = (plan.spec().bm as usize, plan.spec().bk as usize);
        let empty = Structure::empty(128, 128, block).unwrap();
        let pattern = Arc::new(DevicePattern::upload(&device, &empty, 4).unwrap());
        let mut product = Product::new(&device, spec, pattern, 64);
        let text = product.launch(stream.handle()).expect_err("refused").to_string();
        assert!(text.contains("the pattern lives on the GPU") && text.contains(remedy), "{spec}: {text}");
        assert!(product.launcher.prepare(&product.sparse, 64).is_err(), "{spec}");
    }
}

#[test]
fn an_sddmm_computes_the_blocks_of_a_mask_that_changes() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    for spec in ["op = sdd, bm = 64, bn = 64, bk = 64", "op = sdd, bm = 128, bn = 128, bk = 128, out = f32"] {
        let _watch = watch(format!("sddmm: {spec}"));
        match spec.contains("f32") {
            true => sddmm_masks::<f32>(&device, &stream, spec),
            false => sddmm_masks::<f16>(&device, &stream, spec),
        }
    }
}

/// An SDDMM into 30 masks through one graph.
fn sddmm_masks<C: Element + Plain>(device: &Device, stream: &Stream, spec: &str) {
    let plan = Plan::new(&spec.parse().unwrap()).unwrap();
    let launcher = Launcher::load(device, &plan, plan.ptx().text(), plan.ptx().entry()).unwrap();
    let block = plan.sddmm_tiles().map(|tiles| (tiles.block.0 as usize, tiles.block.1 as usize)).unwrap();
    let shape = PatternShape { rows: 700, cols: 540, block, capacity: 99 };
    let empty = Structure::empty(shape.rows, shape.cols, block).unwrap();
    let pattern = Arc::new(DevicePattern::upload_mask(device, shape, &mask(&empty)).unwrap());
    let (a, b) = (
        Dense::<f16>::normal(shape.rows, 96, Layout::RowMajor, 1),
        Dense::<f16>::normal(96, shape.cols, Layout::RowMajor, 2),
    );
    let (a_there, b_there) = (DeviceDense::upload(device, &a).unwrap(), DeviceDense::upload(device, &b).unwrap());
    let mut c = DeviceBsr::<C>::with_pattern(&pattern).unwrap();
    launcher.prepare(&c, 96).unwrap();
    let mut graph = Graph::capture(stream, |stream| launcher.launch(stream, (&a_there, &b_there), &mut c)).unwrap();
    for step in 0..30 {
        let structure = structure(&shape, step);
        pattern.replace_mask_on(&mask(&structure), stream.handle()).unwrap();
        c.values_mut().fill_bytes(0xFF).unwrap();
        // SAFETY: all that the graph touches is alive, and nothing else uses it.
        unsafe { graph.launch(stream.handle()) }.unwrap();
        stream.synchronize().unwrap();
        let got = c.download().unwrap();
        assert_eq!(*got.structure(), structure, "{spec}, mask {step}");
        if got.nnzb() > 0 {
            let blocks: Vec<usize> = (0..got.nnzb()).collect();
            let want = reference::expected_blocks(plan.spec(), &a, &b, &structure, &blocks, &Inputs::new()).unwrap();
            want.verify_blocks(got.values(), None).unwrap_or_else(|wrong| panic!("{spec}, mask {step}: {wrong}"));
        }
    }
}
