//! Kernels: a spec in text, its plan and its PTX.

use std::ops::Range;

use bsr::spec::{LocatedRequest, build};
use bsr::{KernelSpec, Plan};
use pyo3::prelude::*;

/// What is wrong with a spec: the fact with its arithmetic, the remedies, and the bytes of the text to blame.
type Problem = (String, Vec<String>, usize, usize);

/// A planned kernel.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Kernel {
    pub(crate) plan: Plan,
    pub(crate) ptx: bsr::Ptx,
}

/// Plans the kernel of a spec; the problems of one that is refused, each with its place in the text.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, spec: &str) -> (Option<Kernel>, Vec<Problem>) {
    py.detach(|| match planned(spec) {
        Ok(plan) => (Some(Kernel::from(plan)), Vec::new()),
        Err(problems) => (None, problems),
    })
}

/// The kernels of the gradient of an attention, of dQ, then of dK and dV, and of the score's parameters where these are wanted;
/// nothing where one of them is not planned.
#[pyfunction]
#[pyo3(signature = (spec, with_score = false))]
pub(crate) fn gradient_kernels(py: Python<'_>, spec: &str, with_score: bool) -> Option<(Kernel, Kernel)> {
    py.detach(|| {
        let spec = spec.parse::<KernelSpec>().ok()?;
        let [dq, dkv] = if with_score { spec.gradients_with_score() } else { spec.gradients() };
        Some((Plan::new(&dq).ok()?.into(), Plan::new(&dkv).ok()?.into()))
    })
}

impl From<Plan> for Kernel {
    fn from(plan: Plan) -> Self {
        Self { ptx: plan.ptx(), plan }
    }
}

fn planned(text: &str) -> Result<Plan, Vec<Problem>> {
    let located = LocatedRequest::from_text(text);
    let request = located.request();
    let problem = |fact: String, help: Vec<String>, place: &Range<usize>| (fact, help, place.start, place.end);
    let spec = build(request).map_err(|errors| {
        let mut errors = errors;
        errors.sort_by_key(|error| error.place.start);
        errors.iter().map(|error| problem(error.to_string(), error.help(), &error.place)).collect::<Vec<_>>()
    })?;
    Plan::new(&spec).map_err(|errors| {
        let of = |error: &bsr::PlanError| {
            let help = error.help().map(Into::into).into_iter().collect();
            problem(error.to_string(), help, request.place_of(error.key()))
        };
        errors.iter().map(of).collect()
    })
}

#[pymethods]
impl Kernel {
    /// The spec, with every key that differs from its default.
    #[getter]
    fn spec(&self) -> String {
        self.plan.spec().to_string()
    }

    /// Every number of the kernel, with its arithmetic.
    #[getter]
    fn table(&self) -> String {
        self.plan.to_string()
    }

    /// The kernel's text.
    #[getter]
    fn ptx(&self) -> &str {
        self.ptx.text()
    }

    /// The kernel's name in the text.
    #[getter]
    fn entry(&self) -> &str {
        self.ptx.entry()
    }

    /// Which of C, A and B are in blocks: `dsd`, `sss` and so on.
    #[getter]
    fn op(&self) -> &'static str {
        self.plan.spec().op.as_str()
    }

    /// Whether the stored matrix is read or written transposed.
    #[getter]
    fn transpose(&self) -> bool {
        self.plan.spec().transpose.is_on()
    }

    /// Rows and columns of a block.
    #[getter]
    fn block(&self) -> (u32, u32) {
        (self.plan.spec().bm, self.plan.spec().bk)
    }

    /// Columns of a tile of a dense matrix, or of a block of B where A is in blocks, too.
    #[getter]
    fn width(&self) -> u32 {
        self.plan.spec().bn
    }

    /// Element types of A, B and C.
    #[getter]
    fn dtypes(&self) -> (String, String, String) {
        let spec = self.plan.spec();
        (spec.a.to_string(), spec.b.to_string(), spec.out.to_string())
    }

    /// Layouts of a dense A, B and C: `row` or `col`.
    #[getter]
    fn layouts(&self) -> (&'static str, &'static str, &'static str) {
        let spec = self.plan.spec();
        (spec.a_layout.as_str(), spec.b_layout.as_str(), spec.c_layout.as_str())
    }

    /// The epilogue in text.
    #[getter]
    fn epilogue(&self) -> Option<&'static str> {
        self.plan.spec().epilogue.map(bsr::Epilogue::text)
    }

    /// The epilogue's parameters: names and kinds, `Rows<f32>` for instance.
    #[getter]
    fn inputs(&self) -> Vec<(String, String)> {
        let program = self.plan.spec().epilogue.map(|epilogue| epilogue.program());
        let inputs = program.iter().flat_map(|program| program.inputs());
        inputs.map(|input| (input.name.clone(), input.kind.words())).collect()
    }

    /// How the second result is collected, where there is one: `row_sum` or `row_max`.
    #[getter]
    fn second(&self) -> Option<&'static str> {
        self.plan.spec().epilogue?.program().reduction().map(|reduction| reduction.as_str())
    }
}
