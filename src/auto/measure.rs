//! Timing a few kernels on the operands at hand, each checked against the f64 reference first.

use std::time::Duration;

use bsr_codegen::{KernelSpec, Op, Plan};
use bsr_runtime::bench::{Candidate, InterleaveOptions, interleave};
use bsr_runtime::gpu::{Device, DeviceDense, Plain, Stream, StreamRef};
use bsr_runtime::kernel::{Factor, Operation};
use bsr_runtime::reference::{Comparison, tolerance_of};
use bsr_runtime::{Element, Launcher};

/// Rows of C that are compared.
const ROWS: usize = 16;

/// Microseconds of each kernel, or why it has none.
pub(super) fn times<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain>(
    device: &Device,
    a: &O::A<A>,
    b: &O::B<B>,
    specs: &[KernelSpec],
) -> Vec<Result<f64, String>> {
    let mut loaded: Vec<Result<Trial<C>, String>> = specs.iter().map(|spec| Trial::load(device, spec, a, b)).collect();
    let wanted = specs.first().map(|spec| want::<O, A, B>(spec, a, b));
    for trial in &mut loaded {
        let checked = match (&trial, &wanted) {
            (Ok(_), Some(Err(why))) => Err(why.clone()),
            (Ok(right), Some(Ok(want))) => right.check(want),
            _ => Ok(()),
        };
        if let Err(why) = checked {
            *trial = Err(why);
        }
    }
    let mut candidates: Vec<Candidate<'_>> =
        loaded.iter_mut().filter_map(|trial| trial.as_mut().ok()).map(|trial| trial.candidate(a, b)).collect();
    let options = InterleaveOptions {
        warmup: Duration::from_millis(100),
        min_repeats: 10,
        max_repeats: 60,
        time_limit: Duration::from_secs(2),
        ..InterleaveOptions::default()
    };
    let timed = interleave(&mut candidates, &options, device);
    drop(candidates);
    match timed {
        Err(error) => specs.iter().map(|_| Err(error.to_string())).collect(),
        Ok(timings) => {
            let mut medians = timings.iter().map(|timing| timing.median_us());
            let time = |trial: Result<Trial<C>, String>| trial.and_then(|_| medians.next().ok_or_else(String::new));
            loaded.into_iter().map(time).collect()
        }
    }
}

/// A kernel with a result of its own, which it has computed once.
struct Trial<C: Element + Plain> {
    launcher: Launcher,
    c: DeviceDense<C>,
}

impl<C: Element + Plain> Trial<C> {
    fn load(device: &Device, spec: &KernelSpec, a: &impl Factor, b: &impl Factor) -> Result<Self, String> {
        let plan = Plan::new(spec).map_err(|errors| errors.to_string())?;
        let ptx = plan.ptx();
        (|| {
            let launcher = Launcher::load(device, &plan, ptx.text(), ptx.entry())?;
            let (rows, cols) = launcher.result_shape(a, b)?;
            let mut c = DeviceDense::zeros(device, rows, cols, spec.c_layout)?;
            c.fill_bytes(C::POISON_BYTE)?;
            let stream = Stream::new(device)?;
            launcher.launch(stream.handle(), a, b, &mut c)?;
            stream.synchronize()?;
            Ok(Self { launcher, c })
        })()
        .map_err(|error: bsr_runtime::KernelError| error.to_string())
    }

    fn check(&self, want: &Want) -> Result<(), String> {
        let spec = self.launcher.plan().spec();
        let c = self.c.download().map_err(|error| error.to_string())?;
        let compared = Comparison::of_rows(&c, &want.rows, &want.values).map_err(|error| error.to_string())?;
        match compared.passes(tolerance_of(spec, want.longest)) {
            true => Ok(()),
            false => Err(format!("wrong result of {spec}\n  {compared}")),
        }
    }

    fn candidate<'t>(&'t mut self, a: &'t impl Factor, b: &'t impl Factor) -> Candidate<'t> {
        let Self { launcher, c } = self;
        let name = launcher.plan().spec().to_string();
        Candidate::new(name, move |stream: StreamRef<'_>| launcher.launch(stream, a, b, c))
    }
}

/// Rows of the product in f64.
struct Want {
    rows: Vec<usize>,
    values: Vec<f64>,
    /// The most products that an element sums.
    longest: usize,
}

fn want<O: Operation, A: Element + Plain, B: Element + Plain>(
    spec: &KernelSpec,
    a: &O::A<A>,
    b: &O::B<B>,
) -> Result<Want, String> {
    let (m, longest) = match spec.op {
        Op::Dds => (a.shape().0, a.shape().1),
        _ if spec.transpose.is_on() => (a.shape().1, a.shape().0),
        _ => a.shape(),
    };
    // Spread over the rows, the first and the last among them.
    let count = ROWS.min(m);
    let mut rows: Vec<usize> = (0..count).map(|at| at * (m - 1) / (count - 1).max(1)).collect();
    rows.dedup();
    let values = O::reference_rows(spec, a, b, &rows).map_err(|error| error.to_string())?;
    Ok(Want { rows, values, longest })
}
