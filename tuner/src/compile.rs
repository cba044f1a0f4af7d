//! From a point to something that a backend can run.

use bsr_codegen::emit::fingerprint;
use bsr_codegen::{KernelSpec, Plan};

/// What tells kernels apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    /// Digest of the plan: of its table, which holds every number.
    pub plan: String,
    /// Fingerprint of the PTX.
    pub ptx: String,
}

impl Fingerprints {
    /// Those of a spec's plan.
    ///
    /// # Errors
    /// A spec that cannot be planned: the keys that are in the way, which points with the same reason share.
    pub fn of(spec: &KernelSpec) -> Result<Self, String> {
        let plan = Plan::new(spec).map_err(|errors| {
            let mut keys: Vec<&str> = errors.iter().map(|error| error.key()).collect();
            keys.sort_unstable();
            keys.dedup();
            format!("cannot be planned: {}", keys.join(", "))
        })?;
        Ok(Self { plan: fingerprint(&plan.to_string()), ptx: plan.ptx().fingerprint().to_owned() })
    }
}

/// Makes kernels of points, on several threads at once.
pub trait Compiler: Sync {
    /// What the kernel would be, without the work of compiling it: what is known already is not compiled.
    ///
    /// # Errors
    /// Why the point is no kernel: a reason that others share, for a histogram.
    fn fingerprints(&self, spec: &KernelSpec) -> Result<Fingerprints, String> {
        Fingerprints::of(spec)
    }

    /// Compiles, and tells the milliseconds that it took; none from a cache, and where nothing is compiled.
    ///
    /// # Errors
    /// Why the kernel is refused, in the compiler's words.
    fn compile(&self, spec: &KernelSpec) -> Result<Option<f64>, String>;
}

/// Leaves machine code to the backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainCompiler;

impl Compiler for PlainCompiler {
    fn compile(&self, _spec: &KernelSpec) -> Result<Option<f64>, String> {
        Ok(None)
    }
}
