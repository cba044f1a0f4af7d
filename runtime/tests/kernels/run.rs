//! Running a table: load its kernels, multiply, compare, report.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Instant;

use bsr_codegen::KernelSpec;
use bsr_runtime::epilogue::{Input, Matrix};
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceVector, Stream, StreamRef, UploadedInputs};
use bsr_runtime::kernel::arguments::ByKind;
use bsr_runtime::reference::Fused;
use bsr_runtime::typed::{Number, Typed, with_types};
use bsr_runtime::{Dense, KernelError, Launcher};
use rayon::prelude::*;

use crate::case::{Case, Factors, Failure, plan};
use crate::walled::Walled;
use crate::watchdog::watch;
use crate::{device, tell};

/// Runs every case of a table.
///
/// # Panics
/// When cases fail, after all have run, with one paragraph for each.
pub(crate) fn run_table(name: &str, cases: &[Case]) {
    let Some((_turn, device)) = device() else {
        return;
    };
    let start = Instant::now();
    let (cases, elsewhere): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| runs(&device, &case.spec));
    let kernels = load_all(&device, &cases);
    let loaded = start.elapsed();
    let mut failures = vec![];
    let mut worst = Worst::default();
    let mut ran = 0;
    for case in &cases {
        ran += 1;
        let outcome = match &kernels[&case.spec] {
            Ok(launcher) => with_types(&case.spec, Check { device: &device, launcher, case }),
            Err(error) => Err(error.clone().into()),
        };
        match outcome {
            Ok(judged) => worst.add(case, &judged),
            Err(error) => failures.push(format!("{case}\n    {error}")),
        }
        // After a fault in a kernel every call fails: what follows would say nothing.
        if let Err(error) = device.synchronize() {
            failures.push(format!("{} cases were not run: {error}", cases.len() - ran));
            break;
        }
    }
    tell(format_args!(
        "{name}: {ran} cases, {} kernels, {} failures, {} cases of other GPUs; largest errors: {worst}; {:.1} s, {:.1} s of it \
         loading",
        kernels.len(),
        failures.len(),
        elsewhere.len(),
        start.elapsed().as_secs_f64(),
        loaded.as_secs_f64()
    ));
    assert!(
        failures.is_empty(),
        "{name}: {} of {} cases failed\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

/// Whether the device runs code for the architecture of a kernel.
pub(crate) fn runs(device: &Device, spec: &KernelSpec) -> bool {
    plan(spec).map_or(true, |plan| device.check_target(plan.arch().target).is_ok())
}

/// Loads each kernel once, several at a time: the driver compiles for most of it.
fn load_all(device: &Device, cases: &[&Case]) -> HashMap<KernelSpec, Result<Launcher, String>> {
    let mut specs: Vec<KernelSpec> = cases.iter().map(|case| case.spec).collect();
    specs.sort();
    specs.dedup();
    let load = |spec: &KernelSpec| load(device, spec).map_err(|error| error.to_string());
    let loaded = specs.par_iter().map(|spec| (*spec, load(spec)));
    loaded.collect()
}

/// Plans, compiles and loads; an error if the driver's compiler spilled registers, which `maxnreg` may ask for.
pub(crate) fn load(device: &Device, spec: &KernelSpec) -> Result<Launcher, Failure> {
    let plan = plan(spec)?;
    let ptx = plan.ptx();
    let launcher = Launcher::load(device, &plan, ptx.text(), ptx.entry())?;
    match launcher.function().attributes()?.local_bytes {
        0 => Ok(launcher),
        _ if spec.maxnreg.is_some() => Ok(launcher),
        bytes => Err(format!("{bytes} B of registers are spilled").into()),
    }
}

/// One case on the GPU.
struct Check<'r> {
    device: &'r Device,
    launcher: &'r Launcher,
    case: &'r Case,
}

impl Typed for Check<'_> {
    type Output = Judged;
    type Error = Failure;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Judged, Failure> {
        let Self { device, launcher, case } = self;
        let operands = Operands::<A, B>::new(device, case)?;
        let mut c = operands.result::<C>(device)?;
        let stream = Stream::new(device)?;
        let _watch = watch(case.to_string());
        operands.launch(launcher, stream.handle(), &mut c)?;
        stream.synchronize()?;
        operands.judge(&c)
    }
}

/// How far a right result is from the reference, and how far it may be.
#[derive(Debug)]
pub(crate) struct Judged {
    relative: f64,
    tolerance: f64,
}

impl Judged {
    /// # Errors
    /// When C or the second result is not right.
    pub(crate) fn of<C: Number>(c: &Dense<C>, second: Option<&[f32]>, want: &Fused) -> Result<Self, Failure> {
        Ok(Self { relative: want.verify(c, second)?, tolerance: want.tolerance })
    }

    /// The same of the blocks of an SDDMM, beyond the edge of the matrix too.
    pub(crate) fn of_blocks<C: Number>(c: &[C], second: Option<&[f32]>, want: &Fused) -> Result<Self, Failure> {
        Ok(Self { relative: want.verify_blocks(c, second)?, tolerance: want.tolerance })
    }
}

/// The largest errors of a table, by types, and what part of the tolerance they are.
#[derive(Default)]
pub(crate) struct Worst(BTreeMap<String, (f64, f64)>);

impl Worst {
    pub(crate) fn add(&mut self, case: &Case, judged: &Judged) {
        let (error, share) = self.0.entry(format!("{} to {}", case.spec.a, case.spec.out)).or_default();
        *error = error.max(judged.relative);
        let exact = judged.relative == 0.0;
        *share = share.max(if exact { 0.0 } else { judged.relative / judged.tolerance });
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.0.iter();
        let words = words.map(|(types, (error, share))| format!("{types} {error:.1e} ({share:.2} of the tolerance)"));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

/// The factors of a case on the device, and what their product is.
pub(crate) struct Operands<A: Number, B: Number> {
    pub(crate) case: Case,
    pub(crate) a: DeviceBsr<A>,
    pub(crate) b: Walled<B>,
    inputs: UploadedInputs,
    /// What C holds before the launch, where the epilogue reads it.
    before: Option<Matrix>,
    second: RefCell<DeviceVector<f32>>,
    by_tma: bool,
    want: Fused,
}

impl<A: Number, B: Number> Operands<A, B> {
    pub(crate) fn new(device: &Device, case: &Case) -> Result<Self, Failure> {
        let Factors { a, b, scales, inputs, want } = case.factors::<A, B>()?;
        let before = inputs.names().find_map(|name| match inputs.get(name) {
            Some(Input::Result(matrix)) => Some(matrix.clone()),
            _ => None,
        });
        Ok(Self {
            a: DeviceBsr::upload(device, &a)?,
            b: Walled::upload(device, &b)?,
            inputs: UploadedInputs::upload(device, &inputs.scales(scales))?,
            before,
            second: RefCell::new(DeviceVector::zeros(device, case.m)?),
            by_tma: case.plan()?.stores_by_tma(),
            want,
            case: case.clone(),
        })
    }

    /// A place for the product, poisoned.
    pub(crate) fn result<C: Number>(&self, device: &Device) -> Result<Walled<C>, Failure> {
        let shape = (self.case.m, self.case.n);
        let mut c = Walled::poisoned(device, shape, self.case.spec.c_layout, self.by_tma)?;
        if let Some(before) = &self.before {
            let element = |row, col| C::from_f64(before.get(row, col));
            c.write(&Dense::from_fn(shape.0, shape.1, self.case.spec.c_layout, element))?;
        }
        Ok(c)
    }

    pub(crate) fn launch<C: Number>(
        &self,
        launcher: &Launcher,
        stream: StreamRef<'_>,
        c: &mut Walled<C>,
    ) -> Result<(), KernelError> {
        let mut second = self.second.borrow_mut();
        let collects = self.case.spec.epilogue.is_some_and(|epilogue| epilogue.program().reduction().is_some());
        let inputs = ByKind(&self.a, self.b.matrix(), self.inputs.inputs());
        launcher.launch(stream, inputs, (c.matrix_mut(), collects.then_some(&mut *second)))
    }

    /// Another B, and what is wanted of the product then.
    pub(crate) fn redraw_b(&mut self, seed: u64) -> Result<(), Failure> {
        let a = self.case.factors::<A, B>()?;
        let b = self.case.dense::<B>(seed);
        self.want = self.case.want(&a.a, &b, &a.scales, &a.inputs, self.case.k)?;
        self.b.write(&b)
    }

    /// An error unless `c` is the product, to the accuracy of its type, and nothing around it was written.
    pub(crate) fn judge<C: Number>(&self, c: &Walled<C>) -> Result<Judged, Failure> {
        let second = self.second.borrow().download()?;
        let second = self.want.rows.as_ref().map(|_| &second[..]);
        Judged::of(&c.read()?, second, &self.want)
    }
}
