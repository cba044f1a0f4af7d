//! Kernels of gradients on a GPU.

use std::rc::Rc;

use bsr_codegen::{Dtype, KernelSpec, Op, Plan};
use bsr_runtime::attention::{
    DeviceTensor, GradientInputs, GradientLauncher, GradientOutputs, GradientPattern, HeadOrder, Inputs, Launcher,
    ScoreSums, UploadedVectors,
};
use bsr_runtime::bench::Work;
use bsr_runtime::gpu::{Device, DeviceBuffer, Stream, StreamRef};
use bsr_runtime::typed::Number;
use half::{bf16, f16};

use super::gpu::ProblemOf;
use super::{Backward, verdict};
use crate::gpu::{Case, Launch, OnDevice, Recorded, Steps};
use crate::verify::{Expected, RowChoice, Verdict};
use crate::{Failure, Planned};

/// Rows of each gradient that are compared where the number is left open.
const ROWS: usize = 128;

/// What gradients are computed from, on a device: made for each kernel.
pub(crate) struct GradientOperands {
    problem: ProblemOf,
    device: Device,
    rows: RowChoice,
    steps: Steps,
}

impl GradientOperands {
    /// On one device, of which so many rows are compared.
    pub(crate) fn new(problem: ProblemOf, device: &Device, rows: RowChoice, steps: &Steps) -> Self {
        Self { problem, device: device.clone(), rows, steps: Rc::clone(steps) }
    }

    fn case_in<T: Number>(&self, planned: Planned) -> Result<Case, Failure> {
        let (problem, device) = ((self.problem)(&planned)?, &self.device);
        let spec = *planned.spec();
        (self.steps)("drawing Q, K, V and dO, and computing O and LSE".to_owned());
        let tensors = problem.tensors::<T>();
        let [q, k, v] = tensors.each_ref().map(|tensor| DeviceTensor::upload(device, tensor));
        let (q, k, v) = (q?, k?, v?);
        let forward = Launcher::load(device, &Plan::new(&spec.attention_of_gradient()).map_err(Failure::bad_input)?)?;
        let mut output = DeviceTensor::<T>::uninit(device, problem.output_sizes(), HeadOrder::HeadsFirst)?;
        let mut lse = DeviceBuffer::<f32>::uninit(device, problem.shape.rows())?;
        let stream = Stream::new(device)?;
        let vectors = UploadedVectors::new(device, &problem.vectors)?;
        let each = vectors.each();
        let inputs = Inputs::from((&q, &k, &v, problem.scale)).scalars(&problem.scalars).vectors(&each);
        let pattern = forward.pattern(&problem.mask, problem.shape)?;
        forward.launch(&stream, inputs, &pattern, &mut output, Some(&mut lse))?;
        stream.synchronize()?;
        let drawn = Backward::of(&spec, &problem, tensors, output.download()?, lse.to_vec()?);
        (self.steps)("computing the reference in f64".to_owned());
        let expected = drawn.expected(spec.op, self.rows.most(ROWS));
        (self.steps)(format!("compiling {}", planned.ptx.entry()));
        let number = usize::from(spec.op == Op::AttentionDkv);
        let other = Plan::new(&spec.gradients()[1 - number]).map_err(Failure::bad_input)?;
        let plans = if number == 0 { [&planned.plan, &other] } else { [&other, &planned.plan] };
        let launcher = GradientLauncher::load(device, plans)?;
        let launcher = launcher.with_text(number, planned.ptx.text(), planned.cubin.as_deref())?;
        let pattern = launcher.pattern(&drawn.mask, drawn.shape)?;
        let workspace = pattern.workspace_len();
        let output_gradient = DeviceTensor::upload(device, &drawn.output_gradient)?;
        let [dq, dk, dv] =
            drawn.tensors.each_ref().map(|tensor| DeviceTensor::uninit(device, tensor.sizes(), tensor.order()));
        let score_sums = pattern.score_sums_len().map(|len| DeviceBuffer::uninit(device, len.max(1)));
        let [of_queries, of_keys] = score_sums;
        let (rows, tolerance) = (expected[0].rows.clone(), expected[0].want.tolerance);
        let KernelSpec { op, transpose, a, b, out, .. } = spec;
        let (block, nnzb) = (planned.block(), problem.mask.stored());
        let (m, n) = (problem.shape.queries, problem.shape.keys);
        let work = Work { op, transpose, m, n, k: problem.depth, block, nnzb, products: None, a, b, out };
        let (flops, bytes) = (problem.gradient_flops(op), 2 * problem.bytes(&spec));
        let launch = Gradient {
            launcher,
            pattern,
            number,
            tensors: [q, k, v, output, output_gradient],
            lse,
            vectors,
            gradients: [dq?, dk?, dv?],
            workspace: DeviceBuffer::uninit(device, workspace)?,
            score_sums: [of_queries?, of_keys?],
            most: self.rows.most(ROWS),
            drawn,
            expected,
        };
        // The kernel of dK and dV reads what that of dQ writes.
        let mut launch = Box::new(launch);
        launch.enqueue(0, stream.handle())?;
        stream.synchronize()?;
        Ok(Case { planned, rows, work, flops, bytes, tolerance, device: device.clone(), launch })
    }
}

impl OnDevice for GradientOperands {
    fn case(&mut self, planned: Planned) -> Result<Case, Failure> {
        match planned.spec().a {
            Dtype::BF16 => self.case_in::<bf16>(planned),
            _ => self.case_in::<f16>(planned),
        }
    }
}

struct Gradient<T: Number> {
    launcher: GradientLauncher,
    pattern: GradientPattern,
    /// Which of the two kernels it is.
    number: usize,
    /// Q, K, V, O and dO.
    tensors: [DeviceTensor<T>; 5],
    lse: DeviceBuffer<f32>,
    vectors: UploadedVectors,
    gradients: [DeviceTensor<T>; 3],
    workspace: DeviceBuffer<f32>,
    score_sums: [DeviceBuffer<f32>; 2],
    /// Rows that are compared.
    most: usize,
    drawn: Backward<T>,
    expected: Vec<Expected>,
}

impl<T: Number> Gradient<T> {
    /// The results of the kernel.
    fn results(&self) -> &[DeviceTensor<T>] {
        if self.number == 0 { &self.gradients[..1] } else { &self.gradients[1..] }
    }

    fn enqueue(&mut self, number: usize, stream: StreamRef<'_>) -> Result<(), Failure> {
        let [q, k, v, output, output_gradient] = &self.tensors;
        let [dq, dk, dv] = &mut self.gradients;
        let vectors = self.vectors.each();
        let inputs = GradientInputs {
            tensors: [q, k, v],
            output,
            lse: &self.lse,
            output_gradient,
            lse_gradient: None,
            scale: self.drawn.scale,
            scalars: &self.drawn.scalars,
            vectors: &vectors,
        };
        let wanted = self.pattern.score_sums_len();
        let [of_queries, of_keys] = &mut self.score_sums;
        let score_sums = [(of_queries, wanted[0]), (of_keys, wanted[1])].map(|(sums, len)| (len > 0).then_some(sums));
        let mut outputs = GradientOutputs { dq, dk, dv, workspace: &mut self.workspace, score_sums };
        Ok(self.launcher.launch_one(number, stream, &inputs, &self.pattern, &mut outputs)?)
    }
}

impl<T: Number> Launch for Gradient<T> {
    fn poison(&mut self) -> Result<(), Failure> {
        self.gradients.iter_mut().try_for_each(|gradient| gradient.fill_bytes(T::POISON_BYTE))?;
        Ok(self.score_sums.iter_mut().try_for_each(|sums| sums.fill_bytes(0xFF))?)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        self.enqueue(self.number, stream)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        let mut worst: Option<Verdict> = None;
        for (found, wanted) in self.results().iter().zip(&self.expected) {
            let verdict = verdict(&found.download()?, None, wanted)?;
            worst = Some(match worst {
                Some(worst) => worst.worse(verdict),
                None => verdict,
            });
        }
        let worst = worst.ok_or_else(|| Failure::wrong("a gradient without results"))?;
        let spec = self.launcher.plans()[self.number].spec();
        if spec.score_sums().is_empty() {
            return Ok(worst);
        }
        let sums = ScoreSums::of(spec, &self.drawn.shape, self.score_sums[self.number].to_vec()?);
        Ok(worst.with_fault(self.drawn.fault_of_sums(spec, &sums, self.most)))
    }

    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        let attributes = self.launcher.functions()[self.number].attributes()?;
        Ok(Some((attributes, self.launcher.records()?[self.number].take())))
    }
}
