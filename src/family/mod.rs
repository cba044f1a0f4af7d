//! Families: the kernels that one attribute with lists makes, and how one of them is chosen.
//!
//! ```
//! use bsr::prelude::*;
//!
//! #[bsr_kernel(bm = 64, bn = [64, 128], bk = 32, dtype = [f16, bf16])]
//! fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;
//!
//! let names: Vec<&str> = spmm::MEMBERS.iter().map(|member| member.name()).collect();
//! assert_eq!(names, ["bn64_f16", "bn64_bf16", "bn128_f16", "bn128_bf16"]);
//! let wide = spmm::pick(|spec| spec.bn == 128);
//! assert_eq!(wide.map(|member| member.name()), Some("bn128_f16"));
//! assert_eq!(spmm_members::bn128_f16::SPEC.bn, 128);
//! ```

mod choose;
mod error;
mod member;
#[cfg(feature = "tuner")]
mod tunable;
#[cfg(feature = "tuner")]
mod tuner;

use std::marker::PhantomData;

use bsr_codegen::KernelSpec;
use bsr_runtime::gpu::{Device, DeviceBsr, Plain, StreamRef};
use bsr_runtime::kernel::arguments::{Arguments, HostArguments, Returns};
use bsr_runtime::kernel::{DeviceMatrix, Operation};
use bsr_runtime::{Element, KernelError, Launcher, Results, Structure};

pub use choose::{Chooser, FirstFit, ProblemFacts};
pub use error::FamilyError;
pub use member::Member;
#[cfg(feature = "tuner")]
pub use tunable::{FamilyAuto, TunableFamily};

/// What `#[bsr_kernel]` with lists implements on the item it stands on.
pub trait Family: Sized + 'static {
    /// Which matrices are sparse.
    type Op: Operation;
    /// What the members read besides A and B: a type of [`arguments`](crate::arguments).
    type Further: 'static;
    /// What they write.
    type Returns: Returns;
    /// The kernels that can be planned, in the order of the lists: the first list varies slowest.
    const MEMBERS: &'static [Member];

    /// The first member of which `wanted` is true.
    fn pick(wanted: impl Fn(&KernelSpec) -> bool) -> Option<&'static Member> {
        Self::MEMBERS.iter().find(|member| wanted(member.spec()))
    }

    /// Loads the first member that multiplies these element types and of which `wanted` is true.
    ///
    /// # Errors
    /// [`FamilyError::NoMember`]; what [`Kernel::load`](crate::Kernel::load) answers.
    fn load_where<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
        wanted: impl Fn(&KernelSpec) -> bool,
    ) -> Result<LoadedMember<Self, A, B, C>, FamilyError> {
        LoadedMember::load(device, find_where::<A, B, C>(Self::MEMBERS, wanted)?)
    }

    /// Loads the member that `chooser` chooses for a problem, of those that multiply these element types and blocks.
    ///
    /// # Errors
    /// [`FamilyError::NoMember`]; [`FamilyError::Chosen`]; what [`Kernel::load`](crate::Kernel::load) answers.
    fn load_for<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
        chooser: &impl Chooser,
        problem: &ProblemFacts,
    ) -> Result<LoadedMember<Self, A, B, C>, FamilyError> {
        LoadedMember::load(device, find_for::<A, B, C>(Self::MEMBERS, chooser, problem)?)
    }

    /// What a [`Chooser`] may know of a product of this family, by the pattern of its sparse matrix and the third extent: N where
    /// A is sparse, M where B is, K where C is. Whether the sparse matrix is transposed the first member says.
    fn problem(sparse: &Structure, dense_extent: usize) -> ProblemFacts {
        let spec = Self::MEMBERS.first().map_or(KernelSpec::new(64, 64, 64), |member| *member.spec());
        ProblemFacts::new(&spec.op(Self::Op::OP), sparse, dense_extent)
    }
}

/// The chooser that knows what was tuned for the device, or for one like it, and what the cost model says:
/// `spmm::load_for::<f16, f16, f16>(&device, &family::auto(&device), &problem)`.
#[cfg(feature = "tuner")]
pub fn auto(device: &Device) -> bsr_tuner::pick::Tuner {
    crate::auto::tuner(device)
}

fn find_where<A: Element, B: Element, C: Element>(
    members: &'static [Member],
    wanted: impl Fn(&KernelSpec) -> bool,
) -> Result<&'static Member, FamilyError> {
    let typed = typed::<A, B, C>(members);
    let found = typed.iter().find(|member| wanted(member.spec())).copied();
    found.ok_or_else(|| no_member::<A, B, C>(members, typed.len(), "the condition"))
}

fn find_for<A: Element, B: Element, C: Element>(
    members: &'static [Member],
    chooser: &impl Chooser,
    problem: &ProblemFacts,
) -> Result<&'static Member, FamilyError> {
    let typed = typed::<A, B, C>(members);
    let count = typed.len();
    let candidates: Vec<_> = typed.into_iter().filter(|member| problem.has_blocks_of(member.spec())).collect();
    if candidates.is_empty() {
        return Err(no_member::<A, B, C>(members, count, &problem.blocks()));
    }
    let index = chooser.choose(&candidates, problem);
    candidates.get(index).copied().ok_or(FamilyError::Chosen { index, candidates: candidates.len() })
}

/// The members that multiply these element types.
pub(crate) fn typed<A: Element, B: Element, C: Element>(members: &'static [Member]) -> Vec<&'static Member> {
    members.iter().filter(|member| member.dtypes() == [A::DTYPE, B::DTYPE, C::DTYPE]).collect()
}

pub(crate) fn no_member<A: Element, B: Element, C: Element>(
    members: &[Member],
    typed: usize,
    condition: &str,
) -> FamilyError {
    let dtypes = [A::DTYPE, B::DTYPE, C::DTYPE];
    FamilyError::NoMember { dtypes, members: members.len(), typed, condition: condition.into() }
}

/// A member on a device, with the types of its operands. It is launched as any other [kernel](crate::Loaded).
#[derive(Debug)]
pub struct LoadedMember<F, A, B, C> {
    member: &'static Member,
    launcher: Launcher,
    types: PhantomData<fn(F, A, B) -> C>,
}

/// A member's result in device memory.
type ResultOf<F, C> = <<F as Family>::Op as Operation>::C<C>;
/// Where a launch of a member writes.
type PlacesOf<'r, F, C> = <<F as Family>::Returns as Returns>::Places<'r, ResultOf<F, C>>;
/// What a member computes, on the host.
type HostResults<F, C> = <<F as Family>::Returns as Returns>::Host<<ResultOf<F, C> as DeviceMatrix>::Host>;

impl<F: Family, A: Element + Plain, B: Element + Plain, C: Element + Plain> LoadedMember<F, A, B, C> {
    fn load(device: &Device, member: &'static Member) -> Result<Self, FamilyError> {
        let launcher = Launcher::load(device, member.plan(), member.ptx, member.entry)?;
        Ok(Self { member, launcher, types: PhantomData })
    }

    /// The member.
    pub fn member(&self) -> &'static Member {
        self.member
    }

    /// The untyped launcher.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// As [`Loaded::prepare`](crate::Loaded::prepare).
    ///
    /// # Errors
    /// As [`LoadedMember::launch`].
    pub fn prepare(
        &self,
        sparse: &DeviceBsr<<F::Op as Operation>::Sparse<A, B, C>>,
        n: usize,
    ) -> Result<(), KernelError> {
        self.launcher.prepare(sparse, n)
    }

    /// As [`Loaded::launch`](crate::Loaded::launch).
    ///
    /// # Errors
    /// As there.
    pub fn launch<'s, 'i>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        inputs: impl Arguments<'i, F::Op, A, B, F::Further>,
        results: PlacesOf<'_, F, C>,
    ) -> Result<(), KernelError> {
        self.launcher.launch(stream.into(), inputs.call(), F::Returns::split(results))
    }

    /// As [`Loaded::multiply`](crate::Loaded::multiply).
    ///
    /// # Errors
    /// As there.
    pub fn multiply<'h>(
        &self,
        inputs: impl HostArguments<'h, F::Op, A, B, F::Further>,
    ) -> Result<HostResults<F, C>, KernelError> {
        let Results { c, rows } = self.launcher.multiply::<F::Op, A, B, C>(inputs.call())?;
        Ok(F::Returns::host(c, rows))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::e4m3;
    use half::{bf16, f16};

    use bsr_codegen::{Dtype, Plan};

    use super::*;

    fn member(name: &'static str, (bn, bk): (u32, u32), dtype: Dtype) -> Member {
        let plan = || -> &'static Plan { unreachable!("no test plans") };
        let spec = KernelSpec::new(64, bn, bk).with_dtype(dtype);
        Member { name, spec, ptx: "", entry: "", fingerprint: "", plan }
    }

    fn members() -> &'static [Member] {
        Box::leak(Box::new([
            member("wide", (128, 32), Dtype::F16),
            member("odd", (96, 32), Dtype::F16),
            member("fp8", (16, 32), Dtype::E4M3),
            member("narrow", (64, 32), Dtype::F16),
            member("other_block", (16, 16), Dtype::F16),
        ]))
    }

    fn facts(n: usize) -> ProblemFacts {
        let a = Structure::new(128, 64, (64, 32), vec![0, 2, 3], vec![0, 1, 0]).unwrap();
        ProblemFacts::new(&KernelSpec::new(64, 64, 32), &a, n)
    }

    #[test]
    fn the_first_fit_wastes_the_fewest_columns_of_those_that_can_multiply() {
        let chosen = |n| find_for::<f16, f16, f16>(members(), &FirstFit, &facts(n)).unwrap().name();
        // 128 - 64, 96 - 64, 0.
        assert_eq!(chosen(64), "narrow");
        // 0, 3 x 96 - 256, 0: the first.
        assert_eq!(chosen(256), "wide");
        // 2 x 128 - 192, 0, 0: the first of the two.
        assert_eq!(chosen(192), "odd");
        // 128 - 97, 2 x 96 - 97, 2 x 64 - 97: the first of the two.
        assert_eq!(chosen(97), "wide");
        assert_eq!(find_for::<e4m3, e4m3, bf16>(members(), &FirstFit, &facts(64)).unwrap().name(), "fp8");
    }

    #[test]
    fn a_condition_is_asked_of_members_of_the_types_only() {
        let found = |bn| find_where::<f16, f16, f16>(members(), move |spec| spec.bn == bn);
        assert_eq!(found(16).unwrap().name(), "other_block");
        let error = found(256).unwrap_err().to_string();
        assert!(error.contains("4 of 5 members are f16 x f16 -> f16, 0 of these meet it"), "{error}");
        let error = find_where::<f16, f16, f32>(members(), |_| true).unwrap_err().to_string();
        assert!(error.contains("no kernel for f16 x f16 -> f32"), "{error}");
    }

    #[test]
    fn a_problem_of_other_blocks_has_no_member() {
        let problem = ProblemFacts { block: (64, 48), ..facts(64) };
        let error = find_for::<f16, f16, f16>(members(), &FirstFit, &problem).unwrap_err().to_string();
        assert!(error.contains("meets bm = 64, bk = 48"), "{error}");
    }

    #[test]
    fn a_chooser_out_of_range_is_an_error() {
        struct Beyond;
        impl Chooser for Beyond {
            fn choose(&self, members: &[&'static Member], _: &ProblemFacts) -> usize {
                members.len()
            }
        }
        let error = find_for::<f16, f16, f16>(members(), &Beyond, &facts(1)).unwrap_err().to_string();
        assert!(error.contains("member 3 of 3"), "{error}");
    }
}
