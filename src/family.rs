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

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bsr_codegen::{Dtype, KernelSpec, Op, Plan};
use bsr_runtime::gpu::{Device, DeviceBsr, Plain, StreamRef};
use bsr_runtime::kernel::arguments::{Arguments, HostArguments, Returns};
use bsr_runtime::kernel::{DeviceMatrix, Operation};
use bsr_runtime::{Element, Kernel, KernelError, Launcher, Results, Structure};
use bsr_tuner::pick::Tuner;
use bsr_tuner::{Facts, Features, TuningProblem, Workload};

use crate::Auto;

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
    /// [`FamilyError::NoMember`]; what [`Kernel::load`] answers.
    fn load_where<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
        wanted: impl Fn(&KernelSpec) -> bool,
    ) -> Result<LoadedMember<Self, A, B, C>, FamilyError> {
        LoadedMember::load(device, find_where::<A, B, C>(Self::MEMBERS, wanted)?)
    }

    /// Loads the member that `chooser` chooses for a problem, of those that multiply these element types and blocks.
    ///
    /// # Errors
    /// [`FamilyError::NoMember`]; [`FamilyError::Chosen`]; what [`Kernel::load`] answers.
    fn load_for<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
        chooser: &impl Chooser,
        problem: &ProblemFacts,
    ) -> Result<LoadedMember<Self, A, B, C>, FamilyError> {
        LoadedMember::load(device, find_for::<A, B, C>(Self::MEMBERS, chooser, problem)?)
    }

    /// What a [`Chooser`] may know of a product of this family, by the pattern of its sparse matrix and the third extent: N where
    /// A is sparse, M where B is, K where C is. Whether the sparse matrix is transposed the first member says.
    fn problem(sparse: &Structure, along: usize) -> ProblemFacts {
        let spec = Self::MEMBERS.first().map_or(KernelSpec::new(64, 64, 64), |member| *member.spec());
        ProblemFacts::new(&spec.op(Self::Op::OP), sparse, along)
    }

    /// The family as a product whose member is chosen for its operands, by what was tuned or by the cost model, when it is
    /// launched: only members are taken. Blocks are those of the operands, and everything else that is no choice - layouts,
    /// transposition, epilogue - is that of the first member of these element types.
    ///
    /// # Errors
    /// [`FamilyError::NoMember`].
    fn auto<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
    ) -> Result<FamilyAuto<Self, A, B, C>, FamilyError> {
        let members = typed::<A, B, C>(Self::MEMBERS);
        let Some(first) = members.first() else { return Err(no_member::<A, B, C>(Self::MEMBERS, 0, "")) };
        let offered = members.iter().fold(auto(device), |tuner, member| tuner.variant(*member.spec(), 0));
        Ok(Auto::with(device, Arc::new(offered), *first.spec()))
    }
}

/// A [product](Auto) that chooses among the members of a family.
pub type FamilyAuto<F, A, B, C> = Auto<<F as Family>::Op, A, B, C, <F as Family>::Returns, <F as Family>::Further>;

/// The chooser that knows what was tuned for the device, or for one like it, and what the cost model says:
/// `spmm::load_for::<f16, f16, f16>(&device, &family::auto(&device), &problem)`.
pub fn auto(device: &Device) -> Tuner {
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
fn typed<A: Element, B: Element, C: Element>(members: &'static [Member]) -> Vec<&'static Member> {
    members.iter().filter(|member| member.dtypes() == [A::DTYPE, B::DTYPE, C::DTYPE]).collect()
}

fn no_member<A: Element, B: Element, C: Element>(members: &[Member], typed: usize, condition: &str) -> FamilyError {
    let dtypes = [A::DTYPE, B::DTYPE, C::DTYPE];
    FamilyError::NoMember { dtypes, members: members.len(), typed, condition: condition.into() }
}

/// One kernel of a family.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    name: &'static str,
    spec: KernelSpec,
    ptx: &'static str,
    entry: &'static str,
    fingerprint: &'static str,
    plan: fn() -> &'static Plan,
}

impl Member {
    /// A kernel of the attribute as a member of its family.
    #[doc(hidden)]
    pub const fn of<K: Kernel>(name: &'static str, fingerprint: &'static str) -> Self {
        Self { name, spec: K::SPEC, ptx: K::PTX, entry: K::ENTRY, fingerprint, plan: K::plan }
    }

    /// What tells it from the other members: `bn128_stages3_f16`, which is also the name of its type.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What was asked.
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

/// Chooses a member for a problem.
///
/// The members are those that can multiply it: they have its element types and its blocks. There is one at least.
pub trait Chooser {
    /// The number of the chosen one in `members`.
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize;
}

/// What a [`Chooser`] may know of a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProblemFacts {
    /// Which matrix is sparse.
    pub op: Op,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Elements that are summed.
    pub k: usize,
    /// Rows and columns of a sparsity block.
    pub block: (usize, usize),
    /// Stored blocks, how they lie.
    pub features: Features,
}

impl ProblemFacts {
    /// The facts of a product as `spec` says it, by the pattern of its sparse matrix and the third extent: N where A is
    /// sparse, M where B is, K where C is.
    pub fn new(spec: &KernelSpec, sparse: &Structure, along: usize) -> Self {
        let (m, n, k) = extents(spec, sparse, along);
        Self { op: spec.op, m, n, k, block: sparse.block(), features: Features::of(sparse) }
    }

    /// The extent that the width of the dense tile divides; none of SDDMM, whose tiles are blocks.
    fn tiled(&self) -> Option<usize> {
        match self.op {
            Op::Dsd => Some(self.n),
            Op::Dds => Some(self.m),
            Op::Sdd => None,
        }
    }

    fn has_blocks_of(&self, spec: &KernelSpec) -> bool {
        (spec.bm as usize, spec.bk as usize) == self.block
    }

    fn blocks(&self) -> String {
        format!("bm = {}, bk = {}", self.block.0, self.block.1)
    }
}

/// M, N and K of a product as `spec` says it.
pub(crate) fn extents(spec: &KernelSpec, sparse: &Structure, along: usize) -> (usize, usize, usize) {
    let (rows, cols) = match spec.transpose.is_on() {
        true => (sparse.cols(), sparse.rows()),
        false => (sparse.rows(), sparse.cols()),
    };
    match spec.op {
        Op::Dsd => (rows, along, cols),
        Op::Dds => (along, cols, rows),
        Op::Sdd => (rows, cols, along),
    }
}

/// The member whose dense tile wastes the fewest columns beyond N (rows beyond M where B is sparse), the first of these where
/// several do.
///
/// `bn = 96` wastes 96 x 3 - 256 = 32 columns of 256, `bn = 128` none. It knows nothing of speed: a family whose order
/// is from what is best in general to what is rarely best gets what it deserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFit;

impl Chooser for FirstFit {
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize {
        let waste = |member: &Member| {
            let bn = member.spec.bn as usize;
            problem.tiled().map_or(0, |extent| extent.div_ceil(bn) * bn - extent)
        };
        (0..members.len()).min_by_key(|at| waste(members[*at])).unwrap_or(0)
    }
}

/// Chooses by what was tuned, or by the cost model; the first member where neither says anything.
impl Chooser for Tuner {
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize {
        let Some(first) = members.first() else { return 0 };
        let ProblemFacts { m, n, k, features, .. } = *problem;
        let workload = Workload::given(Facts::of(first.spec()), (m, n, k));
        let specs: Vec<KernelSpec> = members.iter().map(|member| *member.spec()).collect();
        let choice = self.pick_of(&TuningProblem { workload, features }, &specs);
        choice.ok().and_then(|choice| specs.iter().position(|spec| *spec == choice.spec)).unwrap_or(0)
    }
}

/// Why no member of a family was loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum FamilyError {
    /// No member is of these element types and meets the condition.
    NoMember {
        /// The element types of A, B and C.
        dtypes: [Dtype; 3],
        /// All members.
        members: usize,
        /// Those of these element types.
        typed: usize,
        /// The condition that none of these meets.
        condition: String,
    },
    /// A chooser named a member that there is not.
    Chosen {
        /// The number it gave.
        index: usize,
        /// How many there were.
        candidates: usize,
    },
    /// The kernel could not be loaded.
    Kernel(KernelError),
}

impl fmt::Display for FamilyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = |[a, b, out]: &[Dtype; 3]| format!("{a} x {b} -> {out}");
        match self {
            Self::NoMember { dtypes, members, typed: 0, .. } => {
                writeln!(f, "the family has no kernel for {}", product(dtypes))?;
                writeln!(f, "  0 of {members} members")?;
                write!(f, "  help: list the types in the attribute")
            }
            Self::NoMember { dtypes, members, typed, condition } => {
                writeln!(f, "no kernel of the family meets {condition}")?;
                writeln!(f, "  {typed} of {members} members are {}, 0 of these meet it", product(dtypes))?;
                write!(f, "  help: list what is missing in the attribute, or ask for less")
            }
            Self::Chosen { index, candidates } => {
                writeln!(f, "the chooser chose member {index} of {candidates}")?;
                write!(f, "  help: `Chooser::choose` answers with a number below {candidates}")
            }
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl Error for FamilyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Kernel(error) => error.source(),
            _ => None,
        }
    }
}

impl From<KernelError> for FamilyError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::e4m3;
    use half::{bf16, f16};

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
