//! What 8 bits cost: the error of O of an attention of e4m3, against f64 of what was quantised, beside that of bf16.

use bsr_codegen::{AttentionTiles, Plan};
use bsr_runtime::attention::{
    DeviceFactors, DeviceTensor, HeadOrder, Inputs, Launcher, Mask, QuantisedTensors, ScoreInputs, Shape, Sharing,
    SimulatedAttention, Tensor, quantise, reference, reference_of,
};
use bsr_runtime::gpu::{Device, Stream};
use bsr_runtime::simulated::Options;
use bsr_runtime::{Element, e4m3};
use half::bf16;

use crate::device::device;

/// The error of a kernel of e4m3, in those of exact probabilities of the same e4m3.
const MOST: f64 = 1.5;

/// What is computed: heads of 64 or 128 columns, `steepness` times the usual scale.
struct Work {
    shape: Shape,
    mask: Mask,
    scale: f32,
    tensors: [Tensor<f32>; 3],
}

impl Work {
    fn new(columns: usize, sizes: [usize; 2], steepness: f32) -> Self {
        let shape = Shape { batch: 1, heads: 2, key_heads: 2, queries: sizes[0], keys: sizes[1], columns };
        let tensor = |rows, seed| Tensor::normal([1, 2, rows, columns], HeadOrder::HeadsFirst, seed);
        Self {
            shape,
            mask: Mask::random((sizes[0], sizes[1]), (128, 128), 0.6, 3).unwrap(),
            scale: steepness / (columns as f32).sqrt(),
            tensors: [tensor(sizes[0], 1), tensor(sizes[1], 2), tensor(sizes[1], 3)],
        }
    }

    fn plan(&self, types: &str) -> Plan {
        let columns = self.shape.columns;
        Plan::new(&format!("op = attention, bm = 128, bn = {columns}, bk = 128, {types}").parse().unwrap()).unwrap()
    }

    fn in_bf16(&self) -> [Tensor<bf16>; 3] {
        self.tensors.each_ref().map(|tensor| {
            let data = tensor.data().iter().map(|value| bf16::from_f32(*value)).collect();
            Tensor::from_vec(tensor.sizes(), tensor.order(), data).unwrap()
        })
    }

    /// The relative error of an O.
    fn error(&self, output: impl Iterator<Item = f64>) -> f64 {
        let right = reference(&self.shape, &self.mask, self.tensors.each_ref(), self.scale, None).output;
        let (mut wrong, mut whole) = (0.0, 0.0);
        for (found, right) in output.zip(right) {
            wrong += (found - right).powi(2);
            whole += right.powi(2);
        }
        (wrong / whole).sqrt()
    }

    /// The error of bf16, that of e4m3, and what the rounding of Q, K and V alone leads to.
    fn judge(&self, outputs: [&Tensor<bf16>; 2], quantised: &QuantisedTensors) -> [f64; 3] {
        let inputs = ScoreInputs::new(self.scale).factors(&quantised.factors);
        let rows = (0..self.shape.rows()).map(|at| [0, at / self.shape.queries, at % self.shape.queries]);
        let exact = reference_of(&self.shape, &self.mask, quantised.tensors.each_ref(), None, &inputs, rows).output;
        let [of_bf16, of_e4m3] = outputs.map(|output| self.error(output.data().iter().map(|value| value.to_f64())));
        [of_bf16, of_e4m3, self.error(exact.into_iter())]
    }
}

fn check(name: &str, [of_bf16, of_e4m3, of_rounding]: [f64; 3]) {
    println!("{name}: bf16 {of_bf16:.2e}, e4m3 {of_e4m3:.2e}, of which the rounding of Q, K and V {of_rounding:.2e}");
    assert!(of_e4m3 <= MOST * of_rounding, "{name}: {of_e4m3:.2e} is beyond {MOST} times {of_rounding:.2e}");
    assert!(of_bf16 < of_e4m3 && of_e4m3 < 0.15, "{name}");
}

#[test]
fn e4m3_is_as_exact_as_its_operands() {
    for (columns, steepness) in [(64, 1.0), (128, 1.0), (64, 3.0)] {
        let work = Work::new(columns, [130, 520], steepness);
        let quantised = quantise(work.tensors.each_ref(), Sharing::ByHead).unwrap();
        let simulated = |plan: &Plan| {
            let ptx = plan.ptx();
            SimulatedAttention::new(plan, ptx.text(), ptx.entry()).unwrap()
        };
        let (plain, narrow) = (work.plan("dtype = bf16"), work.plan("dtype = e4m3, scale = tensor"));
        let (options, [q, k, v]) = (Options::default(), work.in_bf16());
        let (of_bf16, ..) = simulated(&plain).run([&q, &k, &v], &work.mask, work.scale, &options).unwrap();
        let inputs = ScoreInputs::new(work.scale).factors(&quantised.factors);
        let run = simulated(&narrow).run_into(quantised.tensors.each_ref(), &work.mask, inputs, &options);
        let (of_e4m3, _, report) = run.unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
        check(&format!("{columns} columns, scores x {steepness}"), work.judge([&of_bf16, &of_e4m3], &quantised));
    }
}

#[test]
fn e4m3_of_a_gpu_is_as_exact_as_its_operands() {
    let Some((_turn, device)) = device() else { return };
    for (columns, steepness) in [(64, 1.0), (128, 1.0), (64, 3.0), (128, 3.0)] {
        let work = Work::new(columns, [500, 4096], steepness);
        let quantised = quantise(work.tensors.each_ref(), Sharing::ByHead).unwrap();
        let [q, k, v] = work.in_bf16();
        let of_bf16 = launch(&device, &work, "dtype = bf16", [&q, &k, &v], None);
        let factors = DeviceFactors::upload(&device, &quantised.factors).unwrap();
        let [q, k, v] = &quantised.tensors;
        let tensors = [q, k, &v.by_column()];
        let of_e4m3 = launch(&device, &work, "dtype = e4m3, scale = tensor", tensors, Some(&factors));
        check(&format!("{columns} columns, scores x {steepness}"), work.judge([&of_bf16, &of_e4m3], &quantised));
    }
}

fn launch<T: Element + bsr_runtime::gpu::Plain>(
    device: &Device,
    work: &Work,
    types: &str,
    tensors: [&Tensor<T>; 3],
    factors: Option<&DeviceFactors>,
) -> Tensor<bf16> {
    let launcher = Launcher::load(device, &work.plan(types)).unwrap();
    let pattern = launcher.pattern(&work.mask, work.shape).unwrap();
    let [q, k, v] = tensors.map(|tensor| DeviceTensor::upload(device, tensor).unwrap());
    let stream = Stream::new(device).unwrap();
    let mut o = DeviceTensor::<bf16>::uninit(device, q.sizes(), HeadOrder::HeadsFirst).unwrap();
    let inputs = Inputs::from((&q, &k, &v, work.scale)).factors(factors);
    launcher.launch(&stream, inputs, &pattern, &mut o, None).unwrap();
    stream.synchronize().unwrap();
    o.download().unwrap()
}

/// Every place of a group has a key of its own, and a thread's four places are the four keys that it has.
#[test]
fn places_of_keys() {
    let keys: Vec<usize> = (0..16).map(AttentionTiles::key_of_place).collect();
    for thread in 0..4 {
        assert_eq!(keys[4 * thread..][..4], [0, 1, 8, 9].map(|key| key + 2 * thread));
    }
    let v = Tensor::from_vec([1, 1, 18, 2], HeadOrder::HeadsFirst, (0..36_u8).map(f32::from).collect()).unwrap();
    let by_column = v.by_column();
    assert_eq!(by_column.sizes(), [1, 1, 2, 32]);
    assert_eq!(by_column.row([0, 0, 1])[..8], [1.0, 3.0, 17.0, 19.0, 5.0, 7.0, 21.0, 23.0]);
    assert_eq!(
        by_column.row([0, 0, 0])[16..],
        [32.0, 34.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(by_column.sizes()[3], AttentionTiles::places(18));
    let (q, k) = (
        Tensor::<f32>::normal([2, 4, 3, 16], HeadOrder::RowsFirst, 1),
        Tensor::normal([2, 2, 5, 16], HeadOrder::HeadsFirst, 2),
    );
    for (sharing, count) in [(Sharing::All, 1), (Sharing::ByHead, 2), (Sharing::ByBoth, 4)] {
        let QuantisedTensors { tensors, factors } = quantise([&q, &k, &k], sharing).unwrap();
        assert_eq!((factors.len(), tensors[0].order()), (count, HeadOrder::RowsFirst));
        let largest =
            |tensor: &Tensor<e4m3>| tensor.data().iter().fold(0.0_f64, |most, value| value.to_f64().abs().max(most));
        assert_eq!(tensors.each_ref().map(largest), [448.0; 3]);
    }
    assert!(quantise([&q, &k, &k], Sharing::ByProblem).is_err());
    let infinite = Tensor::filled([2, 2, 5, 16], HeadOrder::HeadsFirst, f32::INFINITY);
    assert!(quantise([&q, &infinite, &k], Sharing::All).unwrap_err().to_string().contains("K[0, 0, 0, 0]"));
}
