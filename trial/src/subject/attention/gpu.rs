//! Attentions on a GPU.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use bsr_codegen::{Dtype, KernelSpec};
use bsr_runtime::attention::{
    DeviceFactors, DevicePages, DevicePattern, DeviceTensor, HeadOrder, HostPages, Inputs, Launcher, Tensor,
    UploadedVectors,
};
use bsr_runtime::bench::Work;
use bsr_runtime::e4m3;
use bsr_runtime::gpu::{Device, DeviceBuffer, DeviceVector, StreamRef};
use bsr_runtime::typed::Number;
use half::{bf16, f16};

use super::{Problem, verdict};
use crate::gpu::{Case, Launch, OnDevice, Recorded, Steps};
use crate::verify::{Expected, RowChoice, Verdict};
use crate::{Failure, Planned};

/// Rows of O that are compared where the number is left open.
const ROWS: usize = 512;

/// Makes an attention's problem for a kernel, whose blocks it has.
pub(super) type ProblemOf = Box<dyn Fn(&Planned) -> Result<Problem, Failure>>;

/// Tensors of an attention on a device, shared by kernels of one type.
pub(crate) struct AttentionOperands {
    problem: ProblemOf,
    device: Device,
    rows: RowChoice,
    steps: Steps,
    /// Those of the last kernel, with the problem's words.
    tensors: Option<(String, Rc<dyn Any>)>,
}

/// Q, K and V, which may be in pages, and what rows of O must be.
struct Tensors<T: Number> {
    tensors: [DeviceTensor<T>; 3],
    pages: Option<Arc<DevicePages>>,
    expected: Expected,
}

impl AttentionOperands {
    /// On one device, of which so many rows are compared.
    pub(crate) fn new(problem: ProblemOf, device: &Device, rows: RowChoice, steps: &Steps) -> Self {
        Self { problem, device: device.clone(), rows, steps: Rc::clone(steps), tensors: None }
    }

    fn tensors<T: Number>(&mut self, planned: &Planned, problem: &Problem) -> Result<Rc<Tensors<T>>, Failure> {
        // What the score computes, and whether there are sinks, is of the spec alone.
        let KernelSpec { score, sinks, page, scale, .. } = planned.spec();
        let key = format!("{}; {}; {score:?}; {sinks}; {page:?}; {scale}", problem.words(), problem.mask_words());
        if let Some((made, tensors)) = &self.tensors
            && *made == key
            && let Ok(tensors) = Rc::clone(tensors).downcast::<Tensors<T>>()
        {
            return Ok(tensors);
        }
        (self.steps)("drawing Q, K and V, and the reference in f64".to_owned());
        let host = problem.tensors::<T>();
        let expected = problem.expected(planned.spec(), &host, self.rows.most(ROWS));
        let [q, k, v] = &host;
        let upload = |tensors: [&Tensor<T>; 3]| {
            let [q, k, v] = tensors.map(|tensor| DeviceTensor::upload(&self.device, tensor));
            Ok::<_, Failure>([q?, k?, v?])
        };
        let (tensors, pages) = match (page, &problem.lengths) {
            (Some(page), Some(lengths)) => {
                let host = HostPages::new(k, v, lengths, *page as usize)?;
                let pages = DevicePages::upload(&self.device, host.shape, &host.table, &host.lengths)?;
                (upload([q, &host.keys, &host.values])?, Some(Arc::new(pages)))
            }
            _ if planned.spec().a.is_fp8() => (upload([q, k, &v.by_column()])?, None),
            _ => (upload([q, k, v])?, None),
        };
        let tensors = Rc::new(Tensors { tensors, pages, expected });
        self.tensors = Some((key, Rc::<Tensors<T>>::clone(&tensors)));
        Ok(tensors)
    }

    fn case_in<T: Number, O: Number>(&mut self, planned: Planned) -> Result<Case, Failure> {
        let problem = (self.problem)(&planned)?;
        let tensors = self.tensors::<T>(&planned, &problem)?;
        (self.steps)(format!("compiling {}", planned.ptx.entry()));
        let launcher = planned.attention(&self.device)?;
        let pattern = match &tensors.pages {
            Some(pages) => launcher.paged(pages, problem.shape)?,
            None => launcher.pattern(&problem.mask, problem.shape)?,
        };
        let output = DeviceTensor::<O>::uninit(&self.device, problem.output_sizes(), HeadOrder::HeadsFirst)?;
        let lse = DeviceBuffer::<f32>::uninit(&self.device, problem.shape.rows())?;
        let vectors = UploadedVectors::new(&self.device, &problem.vectors)?;
        let sinks = problem.sinks.as_deref().map(|sinks| DeviceVector::upload(&self.device, sinks)).transpose()?;
        let factors = problem.factors.as_ref().map(|each| DeviceFactors::upload(&self.device, each)).transpose()?;
        let (rows, tolerance) = (tensors.expected.rows.clone(), tensors.expected.want.tolerance);
        let [queries, keys] = [problem.shape.queries, problem.shape.keys];
        let KernelSpec { op, transpose, a, b, out, .. } = *planned.spec();
        let (block, nnzb) = (planned.block(), problem.mask.stored());
        let work =
            Work { op, transpose, m: queries, n: keys, k: problem.depth, block, nnzb, products: None, a, b, out };
        let (flops, bytes, device) = (problem.flops(), problem.bytes(planned.spec()), self.device.clone());
        let (scale, scalars) = (problem.scale, problem.scalars);
        let launch =
            Box::new(Attention { launcher, pattern, tensors, output, scale, scalars, vectors, sinks, factors, lse });
        Ok(Case { planned, rows, work, flops, bytes, tolerance, device, launch })
    }
}

impl OnDevice for AttentionOperands {
    fn case(&mut self, planned: Planned) -> Result<Case, Failure> {
        match (planned.spec().a, planned.spec().out) {
            (Dtype::E4M3, Dtype::BF16) => self.case_in::<e4m3, bf16>(planned),
            (Dtype::E4M3, _) => self.case_in::<e4m3, f16>(planned),
            (Dtype::BF16, _) => self.case_in::<bf16, bf16>(planned),
            _ => self.case_in::<f16, f16>(planned),
        }
    }
}

struct Attention<T: Number, O: Number> {
    launcher: Launcher,
    pattern: DevicePattern,
    tensors: Rc<Tensors<T>>,
    output: DeviceTensor<O>,
    scale: f32,
    scalars: Vec<f32>,
    vectors: UploadedVectors,
    sinks: Option<DeviceVector<f32>>,
    factors: Option<DeviceFactors>,
    lse: DeviceBuffer<f32>,
}

impl<T: Number, O: Number> Attention<T, O> {
    fn enqueue(&mut self, stream: StreamRef<'_>, with_lse: bool) -> Result<(), Failure> {
        let Self { launcher, pattern, tensors, output, scale, scalars, vectors, sinks, factors, lse } = self;
        let (each, [q, k, v]) = (vectors.each(), &tensors.tensors);
        let inputs = Inputs::from((q, k, v, *scale)).scalars(scalars).vectors(&each).sinks(sinks.as_ref());
        let inputs = inputs.factors(factors.as_ref());
        Ok(launcher.launch(stream, inputs, pattern, output, with_lse.then_some(lse))?)
    }
}

impl<T: Number, O: Number> Launch for Attention<T, O> {
    fn poison(&mut self) -> Result<(), Failure> {
        Ok(self.output.fill_bytes(O::POISON_BYTE)?)
    }

    /// Without LSE, which is that of the last launch of all results.
    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        self.enqueue(stream, false)
    }

    fn launch_all(&mut self, stream: StreamRef<'_>) -> Result<(), Failure> {
        self.enqueue(stream, true)
    }

    fn verdict(&self) -> Result<Verdict, Failure> {
        verdict(&self.output.download()?, Some(&self.lse.to_vec()?), &self.tensors.expected)
    }

    fn recorded(&self) -> Result<Option<Recorded>, Failure> {
        Ok(Some((self.launcher.function().attributes()?, self.launcher.records()?)))
    }
}
