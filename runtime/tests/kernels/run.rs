//! Running a table: load its kernels, multiply, compare, report.

use std::collections::HashMap;
use std::time::Instant;

use bsr_codegen::{Dtype, KernelSpec};
use bsr_runtime::gpu::{Device, DeviceBsr, Stream};
use bsr_runtime::reference::{self, Comparison};
use bsr_runtime::{Dense, Launcher};
use half::{bf16, f16};
use rayon::prelude::*;

use crate::case::{Case, Failure, plan};
use crate::walled::{Poison, Walled};
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
    let kernels = load_all(&device, cases);
    let loaded = start.elapsed();
    let mut failures = vec![];
    let mut worst: HashMap<Dtype, f64> = HashMap::new();
    let mut ran = 0;
    for case in cases {
        ran += 1;
        let outcome = match &kernels[&case.spec] {
            Ok(launcher) => check(&device, launcher, case),
            Err(error) => Err(error.clone().into()),
        };
        match outcome {
            Ok(comparison) => {
                let error = worst.entry(case.spec.out).or_default();
                *error = error.max(comparison.relative);
            }
            Err(error) => failures.push(format!("{case}\n    {error}")),
        }
        // After a fault in a kernel every call fails: what follows would say nothing.
        if let Err(error) = device.synchronize() {
            failures.push(format!("{} cases were not run: {error}", cases.len() - ran));
            break;
        }
    }
    let errors: Vec<String> = worst.iter().map(|(dtype, error)| format!("{dtype} {error:.1e}")).collect();
    tell(format_args!(
        "{name}: {ran} cases, {} kernels, {} failures; largest errors: {}; {:.1} s, {:.1} s of it loading",
        kernels.len(),
        failures.len(),
        errors.join(", "),
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

/// Loads each kernel once, several at a time: the driver compiles for most of it.
fn load_all(device: &Device, cases: &[Case]) -> HashMap<KernelSpec, Result<Launcher, String>> {
    let mut specs: Vec<KernelSpec> = cases.iter().map(|case| case.spec).collect();
    specs.sort();
    specs.dedup();
    let load = |spec: &KernelSpec| load(device, spec).map_err(|error| error.to_string());
    let loaded = specs.par_iter().map(|spec| (*spec, load(spec)));
    loaded.collect()
}

/// Plans, compiles and loads; an error if the driver's compiler spilled registers.
pub(crate) fn load(device: &Device, spec: &KernelSpec) -> Result<Launcher, Failure> {
    let plan = plan(spec)?;
    let ptx = plan.ptx();
    let launcher = Launcher::load(device, &plan, ptx.text(), ptx.entry())?;
    match launcher.function().attributes()?.local_bytes {
        0 => Ok(launcher),
        bytes => Err(format!("{bytes} B of registers are spilled").into()),
    }
}

fn check(device: &Device, launcher: &Launcher, case: &Case) -> Result<Comparison, Failure> {
    match (case.spec.a, case.spec.out) {
        (Dtype::F16, Dtype::F16) => check_as::<f16, f16>(device, launcher, case),
        (Dtype::F16, Dtype::BF16) => check_as::<f16, bf16>(device, launcher, case),
        (Dtype::F16, Dtype::F32) => check_as::<f16, f32>(device, launcher, case),
        (Dtype::BF16, Dtype::F16) => check_as::<bf16, f16>(device, launcher, case),
        (Dtype::BF16, Dtype::BF16) => check_as::<bf16, bf16>(device, launcher, case),
        (Dtype::BF16, Dtype::F32) => check_as::<bf16, f32>(device, launcher, case),
        (Dtype::F32, _) => Err("no kernel multiplies f32".into()),
    }
}

fn check_as<T: Poison, C: Poison>(device: &Device, launcher: &Launcher, case: &Case) -> Result<Comparison, Failure> {
    let operands = Operands::<T>::new(device, case)?;
    let mut c = operands.result::<C>(device)?;
    let stream = Stream::new(device)?;
    let _watch = watch(case.to_string());
    launcher.launch(stream.handle(), &operands.a, operands.b.matrix(), c.matrix_mut())?;
    stream.synchronize()?;
    operands.judge(&c)
}

/// A and B of a case on the device, and what their product is.
pub(crate) struct Operands<T: Poison> {
    pub(crate) case: Case,
    pub(crate) a: DeviceBsr<T>,
    pub(crate) b: Walled<T>,
    want: Vec<f64>,
}

impl<T: Poison> Operands<T> {
    pub(crate) fn new(device: &Device, case: &Case) -> Result<Self, Failure> {
        let a = case.matrix::<T>()?;
        let b = Dense::<T>::normal(case.k, case.n, case.spec.b_layout, case.seed() + 2);
        Ok(Self {
            want: reference::multiply(&a, &b)?,
            a: DeviceBsr::upload(device, &a)?,
            b: Walled::upload(device, &b)?,
            case: case.clone(),
        })
    }

    /// A place for the product, poisoned.
    pub(crate) fn result<C: Poison>(&self, device: &Device) -> Result<Walled<C>, Failure> {
        Walled::poisoned(device, (self.case.m, self.case.n), self.case.spec.c_layout)
    }

    /// An error unless `c` is the product, to the accuracy of its type, and nothing around it was written.
    pub(crate) fn judge<C: Poison>(&self, c: &Walled<C>) -> Result<Comparison, Failure> {
        let got = c.read()?;
        let comparison = Comparison::of_dense(&got, &self.want)?;
        if comparison.passes(self.case.tolerance()) {
            return Ok(comparison);
        }
        let unwritten = got.to_f64().iter().filter(|x| x.is_nan()).count();
        Err(format!("{comparison}; the tolerance is {:.0e}, {unwritten} elements are NaN", self.case.tolerance())
            .into())
    }
}
