//! Timing a few kernels on the operands at hand, each checked against the f64 reference first.

use std::time::Duration;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::bench::{Candidate, InterleaveOptions, interleave};
use bsr_runtime::gpu::{Device, Plain, Stream, StreamRef};
use bsr_runtime::kernel::{DeviceMatrix, Operation, Sample};
use bsr_runtime::reference::tolerance_of;
use bsr_runtime::{Element, Inputs, KernelError, Launcher, Structure};

/// The factors, and where the blocks of a sparse result are.
type Operands<'o, O, A, B> = (&'o <O as Operation>::A<A>, &'o <O as Operation>::B<B>, Option<&'o Structure>);

/// Microseconds of each kernel, or why it has none.
pub(super) fn times<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain>(
    device: &Device,
    operands: Operands<'_, O, A, B>,
    specs: &[KernelSpec],
) -> Vec<Result<f64, String>> {
    let (a, b, pattern) = operands;
    let load = |spec: &KernelSpec| Trial::<O, C>::load(device, spec, a, b, pattern);
    let mut loaded: Vec<Result<Trial<O, C>, String>> = specs.iter().map(load).collect();
    let sample = specs.first().map(|spec| O::sample(device, spec, a, b, pattern).map_err(|error| error.to_string()));
    for trial in &mut loaded {
        let checked = match (&trial, &sample) {
            (Ok(_), Some(Err(why))) => Err(why.clone()),
            (Ok(right), Some(Ok(sample))) => right.check(sample),
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
            let time = |trial: Result<Trial<O, C>, String>| trial.and_then(|_| medians.next().ok_or_else(String::new));
            loaded.into_iter().map(time).collect()
        }
    }
}

/// A kernel with a result of its own, which it has computed once.
struct Trial<O: Operation, C: Element + Plain> {
    launcher: Launcher,
    c: O::C<C>,
}

impl<O: Operation, C: Element + Plain> Trial<O, C> {
    fn load(
        device: &Device,
        spec: &KernelSpec,
        a: &impl DeviceMatrix,
        b: &impl DeviceMatrix,
        pattern: Option<&Structure>,
    ) -> Result<Self, String> {
        let plan = Plan::new(spec).map_err(|errors| errors.to_string())?;
        let ptx = plan.ptx();
        let trial = || {
            let launcher = Launcher::load(device, &plan, ptx.text(), ptx.entry())?;
            let stream = Stream::new(device)?;
            let shape = launcher.result_shape(a, b)?;
            let mut c = O::result::<C>((device, stream.handle()), spec, shape, pattern, &Inputs::new())?;
            c.fill_bytes(C::POISON_BYTE)?;
            launcher.launch(stream.handle(), (a, b), &mut c)?;
            stream.synchronize()?;
            Ok(Self { launcher, c })
        };
        trial().map_err(|error: KernelError| error.to_string())
    }

    fn check(&self, sample: &Sample) -> Result<(), String> {
        let spec = self.launcher.plan().spec();
        let compared = O::compare::<C>(&self.c, sample).map_err(|error| error.to_string())?;
        match compared.passes(tolerance_of(spec, sample.longest())) {
            true => Ok(()),
            false => Err(format!("wrong result of {spec}\n  {compared}")),
        }
    }

    fn candidate<'t>(&'t mut self, a: &'t impl DeviceMatrix, b: &'t impl DeviceMatrix) -> Candidate<'t> {
        let Self { launcher, c } = self;
        let name = launcher.plan().spec().to_string();
        Candidate::new(name, move |stream: StreamRef<'_>| launcher.launch(stream, (a, b), &mut *c))
    }
}
