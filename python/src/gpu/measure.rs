//! Kernels timed on the GPU at hand, for a table of the tuner.

use std::sync::Arc;

use bsr::gpu::{Device, DeviceBsr, DeviceDense, Plain};
use bsr::tuner::pick::{Choice, FirstUse, Table, Tuned, Tuner, Why};
use bsr::tuner::{DeviceId, DeviceKind};
use bsr::{Auto, Bsr, Dense, Dsd, Dtype, Element, KernelSpec, Layout, Op, Plan, Sdd, Structure, bf16, e4m3, e5m2, f16};
use pyo3::prelude::*;

use crate::errors::refused;

/// Seeds of what is multiplied: times do not depend on the values of normal numbers.
const SEED: u64 = 0;

/// The choice for a product along `n`, measured where the tuner's table has nothing for it; `tuner` says so. What is measured
/// is compared with the reference first.
///
/// # Errors
/// Types that are not launched from Python; as [`bsr::AutoError`].
pub(super) fn measured(
    device: &Device,
    tuner: Tuner,
    facts: &KernelSpec,
    structure: &Structure,
    n: usize,
) -> PyResult<Arc<Choice>> {
    let tuner = Arc::new(tuner.first_use(FirstUse::Measure));
    let of = Measured { device, tuner, facts, structure, n };
    match (facts.op, facts.a, facts.out) {
        (Op::Dsd, Dtype::F16, Dtype::F16) => of.product::<f16, f16>(),
        (Op::Dsd, Dtype::BF16, Dtype::BF16) => of.product::<bf16, bf16>(),
        (Op::Dsd, Dtype::E4M3, Dtype::BF16) => of.product::<e4m3, bf16>(),
        (Op::Dsd, Dtype::E5M2, Dtype::BF16) => of.product::<e5m2, bf16>(),
        (Op::Dsd, Dtype::I8, Dtype::I32) => of.product::<i8, i32>(),
        (Op::Sdd, Dtype::F16, Dtype::F16) => of.sddmm::<f16>(),
        (Op::Sdd, Dtype::BF16, Dtype::BF16) => of.sddmm::<bf16>(),
        (op, a, out) => Err(refused(format!(
            "op = {op} of {a} into {out} is not measured from Python\n  help: `python -m bsr_gemm sweep` measures it"
        ))),
    }
}

/// What is to be measured.
struct Measured<'a> {
    device: &'a Device,
    tuner: Arc<Tuner>,
    facts: &'a KernelSpec,
    structure: &'a Structure,
    n: usize,
}

impl Measured<'_> {
    fn product<T: Element + Plain, C: Element + Plain>(&self) -> PyResult<Arc<Choice>> {
        let inner = if self.facts.transpose.is_on() { self.structure.rows() } else { self.structure.cols() };
        let sparse = Bsr::<T>::normal(self.structure.clone(), SEED);
        let sparse = DeviceBsr::upload(self.device, &sparse).map_err(refused)?;
        let dense = self.dense::<T>(inner, self.n, self.facts.b_layout)?;
        let product = Auto::<Dsd, T, T, C>::with(self.device, Arc::clone(&self.tuner), *self.facts);
        product.explain((&sparse, &dense)).map_err(refused)
    }

    fn sddmm<T: Element + Plain>(&self) -> PyResult<Arc<Choice>> {
        let (rows, cols) = (self.structure.rows(), self.structure.cols());
        let a = self.dense::<T>(rows, self.n, self.facts.a_layout)?;
        let b = self.dense::<T>(self.n, cols, self.facts.b_layout)?;
        let c = DeviceBsr::<T>::zeros(self.device, self.structure).map_err(refused)?;
        let product = Auto::<Sdd, T, T, T>::with(self.device, Arc::clone(&self.tuner), *self.facts);
        product.explain((&a, &b, &c)).map_err(refused)
    }

    fn dense<T: Element + Plain>(&self, rows: usize, cols: usize, layout: Layout) -> PyResult<DeviceDense<T>> {
        DeviceDense::upload(self.device, &Dense::<T>::normal(rows, cols, layout, SEED + 1)).map_err(refused)
    }
}

/// What was measured, as the table of a tuner has it; none where nothing was.
///
/// # Errors
/// A kernel that cannot be planned, which a choice is not.
pub(super) fn tuned(device: &Device, choice: &Choice) -> PyResult<Option<Tuned>> {
    let Why::Measured { us, .. } = choice.why else { return Ok(None) };
    let ptx = Plan::new(&choice.spec).map_err(refused)?.ptx();
    let (name, driver) = (device.info().name.clone(), device.info().driver());
    Ok(Some(Tuned {
        problem: choice.problem.clone(),
        spec: choice.spec,
        ptx: ptx.fingerprint().to_owned(),
        device: DeviceId { kind: DeviceKind::Gpu, name, driver },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        us,
        ratio: None,
        others: Vec::new(),
    }))
}

/// A result as a line of a table.
///
/// # Errors
/// None that is known: all keys are text.
pub(super) fn line(tuned: Tuned) -> PyResult<String> {
    let mut table = Table::default();
    table.add(tuned);
    table.to_lines().map_err(refused)
}
