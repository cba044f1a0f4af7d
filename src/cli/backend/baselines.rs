//! Other libraries on the same workload: cuBLASLt on equal work and on the whole product, cuSPARSE on the same blocks.

use std::rc::Rc;

use bsr::bench::{self, Work};
use bsr::gpu::cusparse::{Cusparse, Format, SparseProduct};
use bsr::gpu::{Device, StreamRef};
use bsr::{Dtype, KernelSpec, Layout, Op, Scale, bf16, f16};
use bsr_runtime::typed::Number;
use bsr_trial::gpu::{Launch, Left, Operands};
use bsr_trial::verify::{Tolerance, Verdict};
use bsr_tuner::backend::Baseline;
use bsr_tuner::{TuningProblem, Workload};

use super::super::dense::Dense;
use super::super::exit::Failure;
use super::Bad;

/// The other libraries of a workload.
pub(super) struct Baselines {
    device: Device,
    workload: Workload,
    dense: Dense,
    entries: Vec<Entry>,
}

struct Entry {
    baseline: Baseline,
    what: What,
}

enum What {
    /// A product of the dense library, of equal work with this; its number, when it has been asked for.
    Dense(Work, Option<usize>),
    /// A format of cuSPARSE with B and C in this layout, made when first needed.
    Sparse(Format, Layout, Option<Box<Prepared>>),
}

/// A sparse product and its reference.
struct Prepared {
    product: Box<dyn Launch>,
    tolerance: Tolerance,
}

/// A spec with the facts of a workload, whose choices nobody reads.
pub(super) fn any_spec(workload: &Workload) -> KernelSpec {
    workload.facts.spec(64)
}

impl Baselines {
    /// What there is; the libraries are not asked yet.
    pub(super) fn new(device: &Device, problem: &TuningProblem) -> Result<Self, Failure> {
        let (workload, spec) = (problem.workload.clone(), any_spec(&problem.workload));
        let Workload { m, n, k, .. } = workload;
        let block = (spec.bm as usize, spec.bk as usize);
        let KernelSpec { op, transpose, a, b, out, .. } = spec;
        let products = problem.second().map(|_| problem.executed_flops() / 2);
        let work = Work { op, transpose, m, n, k, block, nnzb: problem.features.nnzb, products, a, b, out };
        let whole = Work { block: workload.stored_shape(), nnzb: 1, products: None, ..work };
        let dense = Dense::new(device, workload.seed, false);
        let mut entries = Vec::new();
        for (name, work) in [("cublaslt (equal FLOPs)", work), ("cublaslt (dense)", whole)] {
            let promise = dense.promise(&work, &spec);
            let flops = *promise.as_ref().unwrap_or(&0);
            let baseline = Baseline { name: name.to_owned(), flops, refused: promise.err() };
            entries.push(Entry { baseline, what: What::Dense(work, None) });
        }
        for format in Format::ALL {
            for layout in [Layout::RowMajor, Layout::ColMajor] {
                let refused = refusal(&spec);
                let name = match layout {
                    Layout::RowMajor => format!("cusparse {}", format.as_str()),
                    Layout::ColMajor => format!("cusparse {} (B and C column-major)", format.as_str()),
                };
                let baseline = Baseline { name, flops: problem.executed_flops(), refused };
                entries.push(Entry { baseline, what: What::Sparse(format, layout, None) });
            }
        }
        Ok(Self { device: device.clone(), workload, dense, entries })
    }

    pub(super) fn list(&self) -> Vec<Baseline> {
        self.entries.iter().map(|entry| entry.baseline.clone()).collect()
    }

    /// Has a product where it can be launched.
    pub(super) fn ready(&mut self, name: &str, operands: &mut Operands) -> Result<(), Failure> {
        let (device, workload) = (self.device.clone(), self.workload.clone());
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.baseline.name == name) else { return Ok(()) };
        match &mut entry.what {
            What::Dense(work, at @ None) => {
                let spec = any_spec(&workload);
                self.dense.add(work, &spec)?;
                *at = self.dense.equal(work, &spec);
                if at.is_none() {
                    return Err(Failure::bad_input(self.dense.notes().join("; ")));
                }
            }
            What::Sparse(format, layout, prepared @ None) => {
                let spec = any_spec(&workload).b_layout(*layout).c_layout(*layout);
                *prepared = Some(Box::new(match spec.a {
                    Dtype::BF16 => make::<bf16>(&device, *format, &spec, operands)?,
                    _ => make::<f16>(&device, *format, &spec, operands)?,
                }));
            }
            What::Dense(_, Some(_)) | What::Sparse(_, _, Some(_)) => {}
        }
        Ok(())
    }

    /// Runs a sparse product once into a poisoned result; dense ones have no such reference.
    pub(super) fn check(&mut self, name: &str) -> Result<Option<f64>, Bad> {
        let device = self.device.clone();
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.baseline.name == name) else { return Ok(None) };
        let What::Sparse(_, _, Some(prepared)) = &mut entry.what else { return Ok(None) };
        prepared.product.poison().map_err(Failure::from)?;
        let stream = bsr::gpu::Stream::new(&device).map_err(Failure::from)?;
        prepared.product.launch(stream.handle()).map_err(Failure::from)?;
        stream.synchronize().map_err(Failure::from)?;
        let verdict = prepared.product.verdict()?;
        verdict.verify(name, prepared.tolerance).map_err(|failure| Bad::Wrong(failure.into()))?;
        Ok(Some(verdict.comparison.relative))
    }

    /// What can be launched now, by its name.
    pub(super) fn launches(&mut self) -> Vec<(String, bench::Candidate<'_>)> {
        let Self { dense, entries, .. } = self;
        let mut all = Vec::new();
        for Entry { baseline, what } in entries {
            match what {
                What::Dense(_, Some(at)) => all.push((baseline.name.clone(), dense.candidate(*at))),
                What::Sparse(_, _, Some(prepared)) => {
                    let product = &mut prepared.product;
                    let launch = move |stream: StreamRef<'_>| product.launch(stream);
                    all.push((baseline.name.clone(), bench::Candidate::new(baseline.name.clone(), launch)));
                }
                _ => {}
            }
        }
        all
    }
}

/// Why cuSPARSE has no such product, as far as the facts tell.
fn refusal(spec: &KernelSpec) -> Option<String> {
    let why = if spec.op != Op::Dsd || spec.transpose.is_on() {
        "the sparse operand stands on the left, as it is stored"
    } else if spec.a != spec.b || spec.a != spec.out || !matches!(spec.a, Dtype::F16 | Dtype::BF16) {
        "all three matrices are f16, or all are bf16"
    } else if spec.epilogue.is_some() || spec.scale != Scale::Unscaled || spec.batch.is_on() || spec.permute.is_on() {
        "a plain product alone"
    } else if spec.bm != spec.bk {
        return Some(format!("cuSPARSE takes square blocks alone, these are {} x {}", spec.bm, spec.bk));
    } else {
        return None;
    };
    Some(format!("cuSPARSE: {why}"))
}

fn make<T: Number>(
    device: &Device,
    format: Format,
    spec: &KernelSpec,
    operands: &mut Operands,
) -> Result<Prepared, Failure> {
    let (left, right) = (operands.left::<T, T>(spec)?, operands.right::<T>(spec)?);
    let library = Cusparse::new(device)?;
    let product = SparseProduct::new(&library, format, Rc::clone(&left.a), right)?;
    let tolerance = left.expected.tolerance(None);
    Ok(Prepared { product: Box::new(On { product, left }), tolerance })
}

struct On<T: Number> {
    product: SparseProduct<T>,
    left: Rc<Left<T>>,
}

impl<T: Number> Launch for On<T> {
    fn poison(&mut self) -> Result<(), bsr_trial::Failure> {
        Ok(self.product.result_mut().fill_bytes(T::POISON_BYTE)?)
    }

    fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), bsr_trial::Failure> {
        Ok(self.product.launch(stream)?)
    }

    fn verdict(&self) -> Result<Verdict, bsr_trial::Failure> {
        Verdict::new(&self.product.result().download()?, &self.left.expected)
    }
}
