//! One kernel of a family.

use bsr_codegen::{Dtype, KernelSpec, Plan};
use bsr_runtime::Kernel;

/// One kernel of a family.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub(super) name: &'static str,
    pub(super) spec: KernelSpec,
    pub(super) ptx: &'static str,
    pub(super) entry: &'static str,
    pub(super) fingerprint: &'static str,
    pub(super) plan: fn() -> &'static Plan,
}

impl Member {
    /// A kernel of the attribute as a member of its family.
    #[doc(hidden)]
    pub const fn of<K: Kernel>(name: &'static str, fingerprint: &'static str) -> Self {
        Self { name, spec: K::SPEC, ptx: K::PTX, entry: K::ENTRY, fingerprint, plan: K::plan }
    }

    /// The name that distinguishes it from the other members: `bn128_stages3_f16`, which is also the name of its type.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The request.
    pub const fn spec(&self) -> &KernelSpec {
        &self.spec
    }

    /// The PTX, made at compile time.
    pub const fn ptx(&self) -> &'static str {
        self.ptx
    }

    /// The name of the entry point in the PTX.
    pub const fn entry(&self) -> &'static str {
        self.entry
    }

    /// The fingerprint of the PTX.
    pub const fn fingerprint(&self) -> &'static str {
        self.fingerprint
    }

    /// Every number of the kernel.
    pub fn plan(&self) -> &'static Plan {
        (self.plan)()
    }

    /// The element types of A, B and C.
    pub const fn dtypes(&self) -> [Dtype; 3] {
        [self.spec.a, self.spec.b, self.spec.out]
    }
}
