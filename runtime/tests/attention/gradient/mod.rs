//! Gradients: the f64 reference against finite differences, both kernels on the simulator and on a GPU against the reference.

mod cases;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Element;
use bsr_runtime::attention::{
    DeviceTensor, GradientInputs, GradientLauncher, GradientOutputs, HeadOrder, Mask, Saved, ScoreInputs, ScoreSums,
    Shape, Sharing, SimulatedGradient, Tensor, UploadedVectors, gradients_of_keys, gradients_of_queries, reference_of,
};
use bsr_runtime::gpu::{Device, DeviceBuffer, Plain, Stream};
use bsr_runtime::simulated::{Options, Schedule};
use bsr_trial::attention::{Backward, Problem};
use half::{bf16, f16};

use crate::device::device;
use cases::{INVERSE, cases, full};
pub(crate) use cases::{by_head, case, causal, gaps, mixed, near, none, partial, varied};

/// A spec beside `op = attention`, and what its gradient is computed of.
pub(crate) struct Case {
    pub(crate) spec: &'static str,
    pub(crate) problem: Problem,
    pub(crate) with_lse_gradient: bool,
    /// The kernels also sum the gradients of the score's parameters.
    pub(crate) with_score: bool,
}

pub(crate) fn spec(text: &str) -> KernelSpec {
    format!("op = attention, {text}").parse().unwrap()
}

fn plans(text: &str, with_score: bool) -> [Plan; 2] {
    let spec = spec(text);
    let specs = if with_score { spec.gradients_with_score() } else { spec.gradients() };
    specs.map(|spec| Plan::new(&spec).unwrap_or_else(|error| panic!("{spec}: {error}")))
}

impl Case {
    fn draw<T: Element>(&self) -> Backward<T> {
        let drawn = Backward::new(&spec(self.spec), &self.problem).unwrap();
        if self.with_lse_gradient { drawn.with_lse_gradient(self.problem.seed) } else { drawn }
    }
}

pub(crate) fn all_right(cases: &[Case], check: impl Fn(usize, &Case) -> Result<(), String>) {
    let fault = |(number, case): (usize, &Case)| {
        let found = check(number, case).err()?;
        Some(format!("{}, {:?}: {found}", case.spec, case.problem.shape))
    };
    let faults: Vec<String> = cases.iter().enumerate().filter_map(fault).collect();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

/// The loss is the sum of dO * O and of dLSE * LSE. Sinks are in LSE, and the gradients of Q, K and V know no more of them.
#[test]
fn the_reference_is_the_slope_of_a_loss() {
    slopes_of_a_loss(None, None);
    slopes_of_a_loss(Some(&[0.5, -1.0, 4.0, 1.5]), None);
    for score in [
        "|cap: f32| if i + 40 >= j { cap * tanh(s * scale / cap) } else { -inf }",
        "|x: f32| { let u = s * scale; if u > 0 { x * u * u } else { exp(u) / x - u } }",
    ] {
        slopes_of_a_loss(None, Some(score));
    }
}

fn slopes_of_a_loss(sinks: Option<&[f32]>, score: Option<&str>) {
    let shape = Shape { batch: 1, heads: 4, key_heads: 2, queries: 70, keys: 75, columns: 5 };
    let mask = by_head((70, 75), (32, 16));
    let mut lists = mask.lists().to_vec();
    lists.iter_mut().for_each(|list| list.partial.fill(score.is_some()));
    let mask = Mask::new((70, 75), (32, 16), Sharing::ByHead, lists).unwrap();
    let score = score.map(|text| spec(&format!("bm = 64, bn = 64, bk = 64, score = \"{text}\"")).score.unwrap());
    let scalars = if score.is_some() { &[0.7][..] } else { &[] };
    let sizes = [[1, 4, 70, 7], [1, 2, 75, 7], [1, 2, 75, 5]];
    let tensors: Vec<Tensor<f32>> =
        sizes.iter().zip(1..).map(|(sizes, seed)| Tensor::normal(*sizes, HeadOrder::HeadsFirst, seed)).collect();
    let scale = 0.4;
    let dout = Tensor::<f32>::normal([1, 4, 70, 5], HeadOrder::HeadsFirst, 4);
    let dlse = Tensor::<f32>::normal([1, 1, 1, 280], HeadOrder::HeadsFirst, 5).into_data();
    let rows = |heads: usize, rows: usize| (0..heads * rows).map(move |at| [0, at / rows, at % rows]);
    let attended = |tensors: &[Tensor<f32>], sinks: Option<&[f32]>| {
        let inputs = ScoreInputs::new(scale).scalars(scalars).sinks(sinks);
        reference_of(&shape, &mask, [&tensors[0], &tensors[1], &tensors[2]], score, &inputs, rows(4, 70))
    };
    let loss = |tensors: &[Tensor<f32>], sinks: Option<&[f32]>| -> f64 {
        let found = attended(tensors, sinks);
        let of_output = found.output.iter().zip(dout.data()).map(|(value, slope)| value * f64::from(*slope));
        let of_lse = found.lse.iter().zip(&dlse).map(|(value, slope)| value * f64::from(*slope));
        of_output.chain(of_lse.filter(|term| term.is_finite())).sum()
    };
    let right = attended(&tensors, sinks);
    let output = Tensor::from_vec(
        [1, 4, 70, 5],
        HeadOrder::HeadsFirst,
        right.output.iter().map(|value| *value as f32).collect::<Vec<f32>>(),
    )
    .unwrap();
    let lse: Vec<f32> = right.lse.iter().map(|value| *value as f32).collect();
    let saved = Saved {
        tensors: [&tensors[0], &tensors[1], &tensors[2]],
        output: &output,
        lse: &lse,
        output_gradient: &dout,
        lse_gradient: Some(&dlse),
        inputs: ScoreInputs::new(scale).scalars(scalars),
    };
    let dq = gradients_of_queries(&shape, &mask, &saved, score, rows(4, 70));
    let [dk, dv] = gradients_of_keys(&shape, &mask, &saved, score, rows(2, 75));
    let mut not_zero = 0;
    for (at, gradient) in [dq, dk, dv].iter().enumerate() {
        for element in (0..gradient.values.len()).step_by(97) {
            let moved = |by: f32| {
                let mut tensors = tensors.clone();
                let mut data = tensors[at].data().to_vec();
                data[element] += by;
                let is = f64::from(data[element]);
                tensors[at] = Tensor::from_vec(sizes[at], HeadOrder::HeadsFirst, data).unwrap();
                (is, loss(&tensors, sinks))
            };
            let ((low, less), (high, more)) = (moved(-1e-3), moved(1e-3));
            let (slope, found) = ((more - less) / (high - low), gradient.values[element]);
            assert!((slope - found).abs() < 2e-5 * (1.0 + slope.abs()), "{at}, {element}: {found}, not {slope}");
            not_zero += usize::from(found != 0.0);
        }
    }
    assert!(not_zero > 20, "{not_zero} elements");
    // That of a sink is its share of each row's sum times -delta.
    let deltas = (0..280).map(|row| {
        let of_row = 5 * row..5 * row + 5;
        let of_output = right.output[of_row.clone()].iter().zip(&dout.data()[of_row]);
        of_output.map(|(value, slope)| value * f64::from(*slope)).sum::<f64>() - f64::from(dlse[row])
    });
    let deltas: Vec<f64> = deltas.collect();
    for (head, sink) in sinks.unwrap_or_default().iter().enumerate() {
        let moved = |by: f32| {
            let mut sinks = sinks.unwrap().to_vec();
            sinks[head] += by;
            (f64::from(sinks[head]), loss(&tensors, Some(&sinks)))
        };
        let ((low, less), (high, more)) = (moved(-1e-3), moved(1e-3));
        let of_row = |row: usize| -(f64::from(*sink) - right.lse[row]).exp() * deltas[row];
        let (slope, found) = ((more - less) / (high - low), (70 * head..70 * head + 70).map(of_row).sum::<f64>());
        assert!((slope - found).abs() < 1e-4 * (1.0 + slope.abs()), "sink {head}: {found}, not {slope}");
    }
}

#[test]
fn a_mask_transposed_twice_is_itself() {
    let mask = by_head((300, 200), (64, 32));
    let transposed = mask.transposed();
    assert_eq!((transposed.sizes(), transposed.block(), transposed.stored()), ((200, 300), (32, 64), mask.stored()));
    assert_eq!(transposed.transposed(), mask);
}

#[test]
fn the_kernels_are_right_on_the_simulator() {
    all_right(&cases(), |number, case| match spec(case.spec).a {
        bsr_codegen::Dtype::BF16 => simulate::<bf16>(number, case),
        _ => simulate::<f16>(number, case),
    });
}

/// Of the queries of a step that are beyond the last one, vectors have zeros, and the score may be no number.
#[test]
fn queries_beyond_the_last_one_have_no_part() {
    let mut cases = [case(INVERSE, [1, 2, 1], [150, 130], partial)];
    varied(&mut cases);
    all_right(&cases, simulate::<f16>);
}

/// The kernel of dK and dV reads what that of dQ wrote.
pub(crate) fn simulate<T: Element>(number: usize, case: &Case) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let drawn = case.draw::<T>();
    let schedule = [Schedule::Scrambled, Schedule::Early, Schedule::Late][number / 3 % 3];
    let options = Options { schedule, seed: number as u64, ..Options::default() };
    let (mut gradients, mut terms) = (vec![], None);
    for plan in plans(case.spec, case.with_score) {
        let kernel = SimulatedGradient::of_plan(&plan).unwrap().with_ctas([3, 1, 8][number % 3]);
        let run = kernel.run(&drawn.saved(), terms.as_ref(), &drawn.mask, &options).map_err(|error| text(&error))?;
        if !run.report.is_clean() {
            return Err(format!("{}: {:#?}", plan.spec(), run.report.findings));
        }
        if let Some(fault) = drawn.fault_of_sums(plan.spec(), &run.score_sums, usize::MAX) {
            return Err(format!("{}: {fault}", plan.spec()));
        }
        gradients.extend(run.gradients);
        terms = Some(run.terms);
    }
    drawn.verify([&gradients[0], &gradients[1], &gradients[2]], usize::MAX).map(drop)
}

#[test]
fn the_kernels_are_right_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    all_right(&cases(), |_, case| match spec(case.spec).a {
        bsr_codegen::Dtype::BF16 => launch::<bf16>(&device, case),
        _ => launch::<f16>(&device, case),
    });
}

/// Computes a case twice: the results are right, and the same bit by bit.
pub(crate) fn launch<T: Element + Plain>(device: &Device, case: &Case) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let [dq, dkv] = plans(case.spec, case.with_score);
    let drawn = case.draw::<T>();
    let launcher = GradientLauncher::load(device, [&dq, &dkv]).map_err(|error| text(&error))?;
    let pattern = launcher.pattern(&drawn.mask, drawn.shape).map_err(|error| text(&error))?;
    let [q, k, v] = drawn.tensors.each_ref().map(|tensor| DeviceTensor::upload(device, tensor).unwrap());
    let [output, output_gradient] =
        [&drawn.output, &drawn.output_gradient].map(|tensor| DeviceTensor::upload(device, tensor).unwrap());
    let lse = DeviceBuffer::from_slice(device, &drawn.lse).unwrap();
    let lse_gradient = drawn.lse_gradient.as_ref().map(|values| DeviceBuffer::from_slice(device, values).unwrap());
    let uploaded = UploadedVectors::new(device, &drawn.vectors).unwrap();
    let vectors = uploaded.each();
    let inputs = GradientInputs {
        tensors: [&q, &k, &v],
        output: &output,
        lse: &lse,
        output_gradient: &output_gradient,
        lse_gradient: lse_gradient.as_ref(),
        scale: drawn.scale,
        scalars: &drawn.scalars,
        vectors: &vectors,
    };
    let stream = Stream::new(device).unwrap();
    let (mut results, mut all_sums) = (vec![], vec![]);
    for _ in 0..2 {
        let mut gradients = drawn.tensors.each_ref().map(|tensor| {
            let mut gradient = DeviceTensor::<T>::uninit(device, tensor.sizes(), tensor.order()).unwrap();
            gradient.fill_bytes(T::POISON_BYTE).unwrap();
            gradient
        });
        let mut workspace = DeviceBuffer::<f32>::uninit(device, pattern.workspace_len()).unwrap();
        workspace.fill_bytes(0xFF).unwrap();
        let mut sums = pattern.score_sums_len().map(|len| {
            let mut sums = DeviceBuffer::<f32>::uninit(device, len.max(1)).unwrap();
            sums.fill_bytes(0xFF).unwrap();
            (len > 0).then_some(sums)
        });
        let [dq, dk, dv] = gradients.each_mut();
        let score_sums = sums.each_mut().map(Option::as_mut);
        let mut outputs = GradientOutputs { dq, dk, dv, workspace: &mut workspace, score_sums };
        launcher.launch(&stream, &inputs, &pattern, &mut outputs).map_err(|error| text(&error))?;
        stream.synchronize().map_err(|error| text(&error))?;
        results.push(gradients.each_ref().map(|gradient| gradient.download().unwrap()));
        all_sums.push(sums.map(|sums| sums.map_or_else(Vec::new, |sums| sums.to_vec().unwrap())));
    }
    for (plan, values) in [&dq, &dkv].into_iter().zip(&all_sums[0]) {
        let sums = ScoreSums::of(plan.spec(), &drawn.shape, values.clone());
        drawn.fault_of_sums(plan.spec(), &sums, usize::MAX).map_or(Ok(()), Err)?;
    }
    let [dq, dk, dv] = &results[0];
    drawn.verify([dq, dk, dv], usize::MAX)?;
    let bits = |at: usize| results[at].each_ref().map(|gradient| T::to_bytes(gradient.data()));
    let bits_of_sums = |at: usize| all_sums[at].each_ref().map(|sums: &Vec<f32>| f32::to_bytes(sums));
    if bits(0) != bits(1) || bits_of_sums(0) != bits_of_sums(1) {
        return Err("two launches differ".to_owned());
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let text = "bm = 64, bn = 64, bk = 64";
    let [_, plan] = plans(text, false);
    let kernel = SimulatedGradient::of_plan(&plan).unwrap();
    let drawn = case(text, [1, 2, 1], [100, 90], full).draw::<f16>();
    let refused = |saved: &Saved<'_, f16>, mask: &Mask, words: &str| {
        let error = kernel.run(saved, None, mask, &Options::default()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let saved = drawn.saved();
    refused(&Saved { lse: &drawn.lse[1..], ..saved }, &drawn.mask, "LSE has 199 elements");
    refused(&Saved { output: &drawn.tensors[1], ..saved }, &drawn.mask, "O is [1, 1, 90, 64]");
    refused(&Saved { inputs: ScoreInputs::new(-1.0), ..saved }, &drawn.mask, "a scale of -1");
    refused(&saved, &full((100, 91), (64, 64)), "the mask is of 100 queries x 91 keys");
    refused(&saved, &full((100, 90), (128, 64)), "the mask has 128 x 64 blocks");
    let forward = Plan::new(&spec(text)).unwrap();
    assert!(SimulatedGradient::of_plan(&forward).unwrap_err().to_string().contains("op = attention"));
}
