//! Launches on a real GPU as applications make them: a hundred times, through one captured graph, with masks that change there.

use std::sync::Arc;

use bsr_runtime::Element;
use bsr_runtime::attention::{
    AttentionError, BlockList, DeviceMask, DeviceMaskShape, DevicePattern, DeviceTensor, HeadOrder, Inputs, Launcher,
    Mask, PartialBlocks, Shape, Sharing,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, Graph, IndexWidth, Stream, StreamRef};
use half::bf16;

use crate::device::device;
use crate::table::{self, CAUSAL, Case};
use crate::{Operands, plan, wrong};

/// Tensors on a device, and what comes of them.
struct There {
    launcher: Launcher,
    inputs: [DeviceTensor<bf16>; 3],
    scale: f32,
    output: DeviceTensor<bf16>,
    sums: DeviceBuffer<f32>,
}

impl There {
    fn new(device: &Device, case: &Case) -> Self {
        let operands = Operands::<bf16>::new(case);
        let inputs = operands.each().map(|tensor| DeviceTensor::upload(device, tensor).unwrap());
        Self {
            launcher: Launcher::load(device, &plan(case)).unwrap(),
            scale: operands.scale,
            output: DeviceTensor::uninit(device, inputs[0].sizes(), case.order).unwrap(),
            sums: DeviceBuffer::uninit(device, case.shape.rows()).unwrap(),
            inputs,
        }
    }

    fn poison(&mut self) {
        self.output.fill_bytes(bf16::POISON_BYTE).unwrap();
        self.sums.fill_bytes(0xFF).unwrap();
    }

    fn launch(&mut self, stream: StreamRef<'_>, pattern: &DevicePattern) -> Result<(), AttentionError> {
        let [q, k, v] = &self.inputs;
        let inputs = Inputs::from((q, k, v, self.scale));
        self.launcher.launch(stream, inputs, pattern, &mut self.output, Some(&mut self.sums))
    }

    fn bits(&self) -> (Vec<u8>, Vec<u8>) {
        let output = self.output.download().unwrap();
        (bf16::to_bytes(output.data()), f32::to_bytes(&self.sums.to_vec().unwrap()))
    }

    /// The bits of a launch with a mask on the host.
    fn with_host_mask(&mut self, stream: &Stream, mask: &Mask, shape: Shape) -> (Vec<u8>, Vec<u8>) {
        let pattern = self.launcher.pattern(mask, shape).unwrap();
        self.poison();
        self.launch(stream.handle(), &pattern).unwrap();
        stream.synchronize().unwrap();
        self.bits()
    }
}

fn case(spec: &str, shape: Shape, mask: Mask) -> Case {
    Case {
        spec: format!("{spec}, dtype = bf16"),
        shape,
        order: HeadOrder::HeadsFirst,
        mask,
        scalars: &[],
        vectors: vec![],
        lengths: None,
        steepness: 1.0,
    }
}

#[test]
fn divided_keys_give_the_same_bits_a_hundred_times() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let decode = Shape { batch: 2, heads: 8, key_heads: 2, queries: 2, keys: 5000, columns: 128 };
    let skewed = Shape { batch: 1, heads: 2, key_heads: 2, queries: 1500, keys: 1500, columns: 128 };
    let mut cases: Vec<Case> = table::divided().into_iter().filter(|case| case.spec.contains("dtype = bf16")).collect();
    for split in ["auto", "16"] {
        let mask = Mask::full((decode.queries, decode.keys), (64, 128)).unwrap();
        cases.push(case(&format!("bm = 64, bn = 128, bk = 128, split = {split}"), decode, mask.clone()));
        cases.push(case(&format!("bm = 64, bn = 128, bk = 128, split = {split}, pack_heads = 4"), decode, mask));
        let mask = Mask::causal(1500, 1500, (128, 128)).unwrap();
        cases.push(case(&format!("bm = 128, bn = 128, bk = 128, split = {split}, {CAUSAL}"), skewed, mask));
    }
    for case in cases {
        let mut there = There::new(&device, &case);
        let pattern = there.launcher.pattern(&case.mask, case.shape).unwrap();
        let mut first = None;
        for launch in 0..100 {
            there.poison();
            there.launch(stream.handle(), &pattern).unwrap();
            stream.synchronize().unwrap();
            let bits = there.bits();
            assert!(*first.get_or_insert_with(|| bits.clone()) == bits, "launch {launch}: {}", case.spec);
        }
        let output = there.output.download().unwrap();
        let operands = Operands::<bf16>::new(&case);
        wrong(&case, &operands, (&output, &there.sums.to_vec().unwrap())).unwrap();
    }
}

#[test]
fn launches_on_two_streams_and_through_a_graph_have_workspaces_of_their_own() {
    let Some((_turn, device)) = device() else { return };
    let streams = [Stream::new(&device).unwrap(), Stream::new(&device).unwrap()];
    let shape = Shape { batch: 1, heads: 4, key_heads: 1, queries: 3, keys: 9000, columns: 64 };
    let mask = Mask::full((3, 9000), (64, 128)).unwrap();
    let case = case("bm = 64, bn = 64, bk = 128, consumers = 2, split = auto", shape, mask);
    let mut both = [There::new(&device, &case), There::new(&device, &case)];
    let pattern = both[0].launcher.pattern(&case.mask, case.shape).unwrap();
    let expected = both[0].with_host_mask(&streams[0], &case.mask, shape);
    for _ in 0..50 {
        for (there, stream) in both.iter_mut().zip(&streams) {
            there.launch(stream.handle(), &pattern).unwrap();
        }
    }
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    both.iter().for_each(|there| assert!(there.bits() == expected));
    let third = Stream::new(&device).unwrap();
    let there = &mut both[0];
    let mut graph = Graph::capture(&third, |stream| there.launch(stream, &pattern)).unwrap();
    for _ in 0..20 {
        there.poison();
        // SAFETY: all that the graph touches is alive, and nothing else uses it.
        unsafe { graph.launch(third.handle()) }.unwrap();
        third.synchronize().unwrap();
        assert!(there.bits() == expected);
    }
}

/// A mask of random blocks, some of them partial, of another density each time.
fn changing(sizes: (usize, usize), block: (usize, usize), sharing: Sharing, patterns: usize, step: u64) -> Mask {
    let lists = (0..patterns as u64).map(|pattern| {
        let density = (step % 7) as f64 / 6.0;
        let mut list: BlockList = Mask::random(sizes, block, density, 100 * step + pattern).unwrap().lists()[0].clone();
        list.partial = list.indices.iter().map(|column| (u64::from(*column) + step).is_multiple_of(3)).collect();
        list
    });
    Mask::new(sizes, block, sharing, lists.collect()).unwrap()
}

#[test]
fn one_graph_serves_a_hundred_masks() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let sizes = (700, 900);
    let shape = Shape { batch: 2, heads: 4, key_heads: 2, queries: sizes.0, keys: sizes.1, columns: 64 };
    // Two consumers and three, steps within a block and of two.
    for (spec, block, sharing) in [
        ("bm = 64, bn = 64, bk = 64, consumers = 2, k_step = 64", (64, 64), Sharing::All),
        ("bm = 64, bn = 64, bk = 64, consumers = 2, k_step = 128", (64, 64), Sharing::ByHead),
        ("bm = 64, bn = 64, bk = 64, consumers = 3, k_step = 64", (64, 64), Sharing::ByBoth),
        ("bm = 64, bn = 64, bk = 64", (64, 64), Sharing::ByProblem),
        ("bm = 128, bn = 64, bk = 128, consumers = 2, split = auto", (128, 128), Sharing::ByHead),
        ("bm = 128, bn = 64, bk = 128", (128, 128), Sharing::ByHead),
        ("bm = 128, bn = 64, bk = 128, split = auto", (128, 128), Sharing::All),
        ("bm = 192, bn = 64, bk = 96, consumers = 2", (192, 96), Sharing::ByProblem),
        ("bm = 64, bn = 64, bk = 128, consumers = 2", (64, 128), Sharing::ByBoth),
    ] {
        let patterns = sharing.patterns(shape.batch, shape.heads);
        let mask = |step| changing(sizes, block, sharing, patterns, step);
        let case = case(&format!("{spec}, {CAUSAL}"), shape, mask(6));
        let mut there = There::new(&device, &case);
        let capacity = patterns * sizes.0.div_ceil(block.0) * sizes.1.div_ceil(block.1);
        let lists = Arc::new(DeviceMask::upload(&device, &case.mask, capacity).unwrap());
        let pattern = there.launcher.device_pattern(&lists, shape).unwrap();
        there.launch(stream.handle(), &pattern).unwrap();
        stream.synchronize().unwrap();
        let mut graph = Graph::capture(&stream, |stream| there.launch(stream, &pattern)).unwrap();
        for step in 0..100 {
            let mask = mask(step);
            // Keys of a tile are not divided on the GPU; where they are on the host the bits may differ.
            let expected = (!spec.contains("split")).then(|| there.with_host_mask(&stream, &mask, shape));
            lists.replace_on(&mask, stream.handle()).unwrap();
            there.poison();
            // SAFETY: all that the graph touches is alive, and nothing else uses it.
            unsafe { graph.launch(stream.handle()) }.unwrap();
            stream.synchronize().unwrap();
            lists.check().unwrap();
            let found = there.bits();
            assert!(expected.is_none_or(|expected| expected == found), "{spec}, mask {step}");
            if step % 20 == 3 {
                let operands = Operands::<bf16>::new(&case);
                let output = there.output.download().unwrap();
                let case = Case { mask, spec: case.spec.clone(), vectors: vec![], lengths: None, ..case };
                wrong(&case, &operands, (&output, &there.sums.to_vec().unwrap())).unwrap();
            }
        }
    }
}

#[test]
fn wrong_arrays_are_told_and_never_an_address() {
    let Some((_turn, device)) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let shape = Shape { batch: 1, heads: 2, key_heads: 1, queries: 320, keys: 320, columns: 64 };
    let case = case("bm = 64, bn = 64, bk = 64", shape, Mask::full((320, 320), (64, 64)).unwrap());
    let mut there = There::new(&device, &case);
    let mask_shape =
        DeviceMaskShape { queries: 320, keys: 320, block: (64, 64), sharing: Sharing::All, patterns: 1, capacity: 25 };
    let right: Vec<i64> = (0..25).map(|at| at % 5).collect();
    for (place, value) in [(7, i64::MAX), (7, -1), (9, 5), (6, 0), (5, 1 << 33)] {
        let mut columns = right.clone();
        columns[place] = value;
        let indptr = DeviceBuffer::from_slice(&device, &[0_i64, 5, 10, 15, 20, 25]).unwrap();
        let indices = DeviceBuffer::from_slice(&device, &columns).unwrap();
        // SAFETY: the arrays are of these sizes, and outlive the mask.
        let mask = unsafe {
            DeviceMask::from_raw(
                &device,
                mask_shape,
                IndexWidth::I64,
                (indptr.ptr(), indices.ptr()),
                PartialBlocks::None,
            )
        };
        let mask = Arc::new(mask.unwrap());
        let pattern = there.launcher.device_pattern(&mask, shape).unwrap();
        there.poison();
        there.launch(stream.handle(), &pattern).unwrap();
        stream.synchronize().unwrap();
        let error = mask.check().unwrap_err().to_string();
        assert!(error.contains("block row 1") && error.contains("help: "), "{error}");
        let (output, sums) = (there.output.download().unwrap(), there.sums.to_vec().unwrap());
        for head in 0..2 {
            for query in 0..320 {
                let (row, sum) = (output.row([0, head, query]), sums[320 * head + query]);
                match (64..128).contains(&query) {
                    true => {
                        assert!(row.iter().all(|value| value.to_f32() == 0.0) && sum == f32::NEG_INFINITY, "{query}")
                    }
                    false => assert!(row.iter().any(|value| value.to_f32() != 0.0) && sum.is_finite(), "{query}"),
                }
            }
        }
        mask.check().unwrap();
    }
}
