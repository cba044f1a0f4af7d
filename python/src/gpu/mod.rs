//! Launches on a GPU: operands by address, on the stream of the caller.

mod attention;
mod attention_gradient;
mod batch;
mod device_mask;
mod device_pages;
mod further;
mod listed;
mod measure;
mod pairs;
mod ready;
mod sparse;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bsr::gpu::Device;
use bsr::tuner::pick::{Table, Tuner};
use bsr::{KernelSpec, Launcher, Plan};
use pyo3::prelude::*;

use crate::array::Kind;
use crate::choice;
use crate::errors::refused;
use crate::pattern::Pattern;
use crate::plan::Kernel;
pub(crate) use attention::{AttentionWork, LoadedAttention, ReadyAttention, shape};
pub(crate) use attention_gradient::{GradientWork, LoadedGradient, ReadyGradient};
pub(crate) use batch::Batch;
pub(crate) use device_mask::DeviceMask;
pub(crate) use device_pages::DevicePages;
pub(crate) use listed::DevicePattern;
pub(crate) use pairs::ReadyPairs;
use pairs::Somewhere;
pub(crate) use ready::Ready;
pub(crate) use sparse::Sparse;
use sparse::{AnyBsr, Places};

/// A GPU, and what chooses kernels for it.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Gpu {
    device: Device,
    /// Chooses by the table that comes with the crate and by `table`.
    tuner: RwLock<Arc<Tuner>>,
    /// What was measured besides.
    table: Mutex<Table>,
    /// Chosen kernels by their specs: one serves every pattern.
    kernels: Mutex<HashMap<KernelSpec, Arc<Launcher>>>,
}

impl Gpu {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    fn tuner(&self) -> Arc<Tuner> {
        Arc::clone(&self.tuner.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds results to the table; choices that were made are made anew when they are asked for.
    fn extend(&self, results: Table) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.extend(results);
        let tuner = Tuner::on(&self.device).with(table.clone());
        *self.tuner.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tuner);
    }

    fn load_plan(&self, plan: &Plan) -> PyResult<Arc<Launcher>> {
        let known = |kernels: &HashMap<KernelSpec, Arc<Launcher>>| kernels.get(plan.spec()).cloned();
        if let Some(launcher) = known(&self.kernels.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(launcher);
        }
        let ptx = plan.ptx();
        let made = Arc::new(Launcher::load(&self.device, plan, ptx.text(), ptx.entry()).map_err(refused)?);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(kernels.entry(*plan.spec()).or_insert(made)))
    }
}

#[pymethods]
impl Gpu {
    /// Opens a GPU through its primary context, which PyTorch uses too.
    #[new]
    fn new(ordinal: usize) -> PyResult<Self> {
        let device = Device::open(ordinal).map_err(refused)?;
        let tuner = RwLock::new(Arc::new(Tuner::on(&device)));
        Ok(Self { tuner, table: Mutex::default(), device, kernels: Mutex::default() })
    }

    /// Adds what was tuned elsewhere, a line of JSON each, as `bsr export --tuned` writes it.
    fn add_tuned(&self, lines: &str) -> PyResult<()> {
        self.extend(Table::from_lines(lines).map_err(refused)?);
        Ok(())
    }

    /// Measures the likeliest kernels for a product along `n`, on matrices of this pattern, and remembers the fastest; nothing
    /// where the table has the problem. Which kernel it is and why, and its line of the table where it was measured.
    fn tune(&self, py: Python<'_>, pattern: &Pattern, facts: &str, n: usize) -> PyResult<(String, Option<String>)> {
        let facts: KernelSpec = facts.parse().map_err(refused)?;
        py.detach(|| {
            let table = self.table.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let tuner = Tuner::on(&self.device).with(table);
            let choice = measure::measured(&self.device, tuner, &facts, &pattern.structure, choice::rounded(n))?;
            let Some(tuned) = measure::tuned(&self.device, &choice)? else { return Ok((choice.to_string(), None)) };
            let mut results = Table::default();
            results.add(tuned.clone());
            self.extend(results);
            Ok((choice.to_string(), Some(measure::line(tuned)?)))
        })
    }

    /// Has launches leave so many multiprocessors free from now on.
    fn leave_free(&self, multiprocessors: u32) {
        self.device.leave_free(multiprocessors);
    }

    /// The GPU's name.
    #[getter]
    fn name(&self) -> String {
        self.device.info().name.clone()
    }

    /// Copies a pattern to the GPU, for matrices of an element type.
    fn sparse(&self, py: Python<'_>, pattern: &Pattern, kind: &str) -> PyResult<Sparse> {
        let kind = Kind::parse(kind)?;
        py.detach(|| Ok(Sparse { matrix: AnyBsr::of(Places::Host(&self.device, pattern), kind)? }))
    }

    /// Chooses and loads a kernel for a product along `n`, with an epilogue or none; with `is_list` for a list of products, of which
    /// that is the largest.
    #[pyo3(signature = (pattern, facts, n, epilogue=None, is_list=false))]
    fn choose(
        &self,
        py: Python<'_>,
        pattern: &Pattern,
        facts: &str,
        n: usize,
        epilogue: Option<&str>,
        is_list: bool,
    ) -> PyResult<Loaded> {
        let (facts, epilogue) = choice::read(facts, epilogue)?;
        py.detach(|| {
            let chosen = choice::choose(&self.tuner(), pattern, &facts, n)?;
            let plan = if is_list { choice::with_batch(&chosen)? } else { choice::with_epilogue(&chosen, epilogue)? };
            Ok(Loaded { launcher: self.load_plan(&plan)?, why: chosen.to_string() })
        })
    }

    /// Chooses and loads a kernel for a product along `n` of a pattern that lives on the GPU.
    #[pyo3(signature = (pattern, facts, n, epilogue=None))]
    fn choose_listed(
        &self,
        py: Python<'_>,
        pattern: &DevicePattern,
        facts: &str,
        n: usize,
        epilogue: Option<&str>,
    ) -> PyResult<Loaded> {
        let (facts, epilogue) = choice::read(facts, epilogue)?;
        py.detach(|| {
            let chosen = choice::choose(&self.tuner(), pattern.likely(), &facts, n)?;
            let plan = listed::plan(&chosen, epilogue)?;
            Ok(Loaded { launcher: self.load_plan(&plan)?, why: format!("the pattern is on the GPU; {chosen}") })
        })
    }

    /// Chooses and loads a kernel for the product of two patterns at the blocks of a third. All of them are on the host, or on the GPU.
    fn choose_pairs(
        &self,
        py: Python<'_>,
        a: Somewhere<'_>,
        b: Somewhere<'_>,
        c: Somewhere<'_>,
        facts: &str,
    ) -> PyResult<Loaded> {
        let (facts, _) = choice::read(facts, None)?;
        let (is_listed, patterns) = (a.is_on_gpu(), [a.known(), b.known(), c.known()]);
        py.detach(|| {
            let chosen = choice::choose_pairs(&self.tuner(), patterns, &facts)?;
            if !is_listed {
                let plan = choice::with_epilogue(&chosen, None)?;
                return Ok(Loaded { launcher: self.load_plan(&plan)?, why: chosen.to_string() });
            }
            let plan = listed::plan(&chosen, None)?;
            Ok(Loaded { launcher: self.load_plan(&plan)?, why: format!("the patterns are on the GPU; {chosen}") })
        })
    }

    /// Loads a kernel of attention.
    fn load_attention(&self, py: Python<'_>, kernel: &Kernel) -> PyResult<LoadedAttention> {
        let (ptx, plan) = (&kernel.ptx, &kernel.plan);
        let load = || bsr_runtime::attention::Launcher::load_text(&self.device, plan, ptx.text(), ptx.entry());
        let launcher = py.detach(load).map_err(refused)?;
        Ok(LoadedAttention { launcher: Arc::new(launcher), device: self.device.clone() })
    }

    /// Loads the kernels of the gradient of an attention: of dQ, then of dK and dV.
    fn load_gradient(&self, py: Python<'_>, dq: &Kernel, dkv: &Kernel) -> PyResult<LoadedGradient> {
        let load = || bsr_runtime::attention::GradientLauncher::load(&self.device, [&dq.plan, &dkv.plan]);
        let launcher = py.detach(load).map_err(refused)?;
        Ok(LoadedGradient { launcher: Arc::new(launcher), device: self.device.clone() })
    }

    /// Forgets every kernel that was loaded, with what it keeps of patterns; those that are in use stay until they are not.
    fn forget(&self) {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Loads a kernel.
    fn load(&self, py: Python<'_>, kernel: &Kernel) -> PyResult<Loaded> {
        let launcher = py.detach(|| self.load_plan(&kernel.plan))?;
        Ok(Loaded { launcher, why: "the program says so".to_owned() })
    }
}

/// A kernel on a GPU.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Loaded {
    pub(crate) launcher: Arc<Launcher>,
    why: String,
}

#[pymethods]
impl Loaded {
    /// The kernel's spec.
    #[getter]
    fn spec(&self) -> String {
        self.launcher.plan().spec().to_string()
    }

    /// How a dense B lies, or each block of one in blocks beside an A in blocks: `row` or `col`.
    #[getter]
    fn b_layout(&self) -> &'static str {
        self.launcher.plan().spec().b_layout.as_str()
    }

    /// How it was chosen.
    #[getter]
    fn why(&self) -> &str {
        &self.why
    }
}
