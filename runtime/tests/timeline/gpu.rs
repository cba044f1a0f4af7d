//! The same of a GPU: the records of eight kernels are held against their work lists.

use bsr_codegen::KernelSpec;
use bsr_codegen::probes::Probes;
use bsr_runtime::attention::{
    self, AttentionWork, DeviceTensor, GradientInputs, GradientLauncher, GradientOutputs, GradientWork, HeadOrder,
    Inputs, Mask, Shape, Tensor,
};
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceBuffer, DeviceDense, DeviceInputs, Stream};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::timeline::{Clock, Timeline};
use bsr_runtime::{Bsr, Launcher, Layout, Pattern};
use half::f16;

use crate::device::device;
use crate::products::{self, dense, expected};
use crate::{attention as steps, gradient, probed, rules};

/// The first CTAs of the device.
const PROBES: Probes = Probes { first: 0, ctas: 4, records: 1 << 14 };

/// Multiplies by blocks of a pattern, and holds the records against the work list.
fn product(device: &Device, spec: &str, (m, n, k): (usize, usize, usize), pattern: Pattern) {
    let plan = probed(spec, PROBES);
    let ptx = plan.ptx();
    let launcher = Launcher::load(device, &plan, ptx.text(), ptx.entry()).unwrap();
    assert_eq!(launcher.function().attributes().unwrap().local_bytes, 0, "{spec}: registers are spilled");
    let block = (plan.spec().bm as usize, plan.spec().bk as usize);
    let a = Bsr::<f16>::generate(pattern, m, k, block, 0).unwrap();
    let on_device = (DeviceBsr::upload(device, &a).unwrap(), DeviceDense::upload(device, &dense(k, n)).unwrap());
    let mut c = DeviceDense::<f16>::zeros(device, m, n, Layout::RowMajor).unwrap();
    let stream = Stream::new(device).unwrap();
    // The second launch finds the rings as the first one left them.
    for _ in 0..2 {
        launcher.launch(stream.handle(), ByKind(&on_device.0, &on_device.1, &DeviceInputs::default()), &mut c).unwrap();
    }
    let words = launcher.records().unwrap().unwrap();
    let timeline = Timeline::new(&plan, &words, Clock::Gpu).unwrap();
    rules::hold(&timeline);
    products::hold(&plan, &timeline, &expected(&plan, a.structure(), n, launcher.clusters()));
}

#[test]
fn products_record_what_their_work_lists_say() {
    let Some((_turn, device)) = device() else { return };
    product(&device, "bm = 512, bn = 128, bk = 112", (4096, 4096, 4480), Pattern::TopK(16));
    product(&device, "bm = 64, bn = 64, bk = 64", (4096, 4096, 4096), Pattern::Random(0.2));
    product(&device, "bm = 128, bn = 16, bk = 128, split = auto", (4096, 16, 8192), Pattern::Random(0.25));
}

#[test]
fn a_sampled_product_records_what_its_work_list_says() {
    let Some((_turn, device)) = device() else { return };
    let plan = probed("bm = 64, bn = 64, bk = 64, op = sdd", PROBES);
    let ptx = plan.ptx();
    let launcher = Launcher::load(&device, &plan, ptx.text(), ptx.entry()).unwrap();
    let structure = Pattern::Random(0.2).structure(4096, 4096, (64, 64), 0).unwrap();
    let [a, b] = [(4096, 1024), (1024, 4096)].map(|(m, n)| DeviceDense::upload(&device, &dense(m, n)).unwrap());
    let mut c = DeviceBsr::upload(&device, &Bsr::<f16>::normal(structure.clone(), 0)).unwrap();
    let stream = Stream::new(&device).unwrap();
    launcher.launch(stream.handle(), ByKind(&a, &b, &DeviceInputs::default()), &mut c).unwrap();
    let timeline = Timeline::new(&plan, &launcher.records().unwrap().unwrap(), Clock::Gpu).unwrap();
    rules::hold(&timeline);
    products::hold(&plan, &timeline, &expected(&plan, &structure, 1024, launcher.clusters()));
}

#[test]
fn an_attention_records_what_its_work_list_says() {
    let Some((_turn, device)) = device() else { return };
    let plan = probed("op = attention, bm = 128, bn = 128, bk = 128", PROBES);
    let launcher = attention::Launcher::load(&device, &plan).unwrap();
    let shape = Shape { batch: 1, heads: 8, key_heads: 8, queries: 4096, keys: 4096, columns: 128 };
    let mask = Mask::random((4096, 4096), (128, 128), 0.3, 0).unwrap();
    let tensor = |seed| Tensor::<f16>::normal([1, 8, 4096, 128], HeadOrder::HeadsFirst, seed);
    let [q, k, v] = [0, 1, 2].map(|seed| DeviceTensor::upload(&device, &tensor(seed)).unwrap());
    let mut output = DeviceTensor::<f16>::uninit(&device, [1, 8, 4096, 128], HeadOrder::HeadsFirst).unwrap();
    let (pattern, stream) = (launcher.pattern(&mask, shape).unwrap(), Stream::new(&device).unwrap());
    launcher.launch(&stream, Inputs::from((&q, &k, &v, 0.1)), &pattern, &mut output, None).unwrap();
    let timeline = Timeline::new(&plan, &launcher.records().unwrap().unwrap(), Clock::Gpu).unwrap();
    rules::hold(&timeline);
    let work = AttentionWork::new(&plan.attention_tiles().unwrap(), &shape, &mask, launcher.ctas()).unwrap();
    steps::hold(&plan, &timeline, &work);
}

#[test]
fn gradients_record_what_their_work_lists_say() {
    let Some((_turn, device)) = device() else { return };
    let specs = "op = attention, bm = 128, bn = 128, bk = 128".parse::<KernelSpec>().unwrap().gradients();
    let plans = specs.map(|spec| probed(&spec.to_string(), PROBES));
    let launcher = GradientLauncher::load(&device, plans.each_ref()).unwrap();
    let shape = Shape { batch: 1, heads: 8, key_heads: 4, queries: 4096, keys: 4096, columns: 128 };
    let mask = Mask::random((4096, 4096), (128, 128), 0.3, 0).unwrap();
    let tensor = |heads, seed| {
        DeviceTensor::upload(&device, &Tensor::<f16>::normal([1, heads, 4096, 128], HeadOrder::HeadsFirst, seed))
            .unwrap()
    };
    let ([q, o, dout, mut dq], [k, v, mut dk, mut dv]) =
        ([0, 1, 2, 3].map(|seed| tensor(8, seed)), [4, 5, 6, 7].map(|seed| tensor(4, seed)));
    let lse = DeviceBuffer::from_slice(&device, &vec![5.0_f32; 8 * 4096]).unwrap();
    let (pattern, stream) = (launcher.pattern(&mask, shape).unwrap(), Stream::new(&device).unwrap());
    let mut workspace = DeviceBuffer::<f32>::uninit(&device, pattern.workspace_len()).unwrap();
    let inputs = GradientInputs {
        tensors: [&q, &k, &v],
        output: &o,
        lse: &lse,
        output_gradient: &dout,
        lse_gradient: None,
        scale: 0.1,
        scalars: &[],
        vectors: &[],
    };
    let mut outputs =
        GradientOutputs { dq: &mut dq, dk: &mut dk, dv: &mut dv, workspace: &mut workspace, score_sums: [None, None] };
    launcher.launch(&stream, &inputs, &pattern, &mut outputs).unwrap();
    let forms = launcher.forms(&shape).unwrap();
    for ((plan, words), form) in plans.iter().zip(launcher.records().unwrap()).zip(forms) {
        let timeline = Timeline::new(plan, &words.unwrap(), Clock::Gpu).unwrap();
        rules::hold(&timeline);
        let work = GradientWork::new(&form.tiles, &shape, &mask, form.ctas).unwrap();
        gradient::hold(plan.spec(), form.tiles.side, &timeline, &work);
    }
}

#[test]
fn a_list_of_products_records_every_tile() {
    let Some((_turn, device)) = device() else { return };
    let all = Probes { first: 0, ctas: 132, records: 1 << 12 };
    let plan = probed("bm = 128, bn = 128, bk = 64, batch = on", all);
    let ptx = plan.ptx();
    let launcher = Launcher::load(&device, &plan, ptx.text(), ptx.entry()).unwrap();
    let a = Bsr::<f16>::generate(Pattern::Random(0.3), 2048, 2048, (128, 64), 0).unwrap();
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &dense(2048, 1024)).unwrap());
    let mut results = [0, 1].map(|_| DeviceDense::<f16>::zeros(&device, 2048, 1024, Layout::RowMajor).unwrap());
    let (mut batch, none) = (launcher.batch(), DeviceInputs::default());
    for c in &mut results {
        batch.push(ByKind(&a, &b, &none), c).unwrap();
    }
    let (batch, stream) = (batch.prepare().unwrap(), Stream::new(&device).unwrap());
    batch.launch(stream.handle()).unwrap();
    let timeline = Timeline::new(&plan, &launcher.records().unwrap().unwrap(), Clock::Gpu).unwrap();
    rules::hold(&timeline);
    let consumers = timeline.ctas.iter().flat_map(|cta| &cta.tracks).filter(|track| track.name == "consumer 0");
    let tile = plan.cluster_tile();
    let each = 2048_usize.div_ceil(tile.rows as usize) * 1024_usize.div_ceil(tile.columns as usize);
    assert_eq!(consumers.map(|track| track.tiles.len()).sum::<usize>(), 2 * each);
}
