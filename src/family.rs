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

use bsr_codegen::{Dtype, KernelSpec, Plan};
use bsr_runtime::gpu::{Device, DeviceBsr, DeviceDense, Plain, Stream, StreamRef};
use bsr_runtime::{Bsr, Dense, Element, Features, Kernel, KernelError, Launcher, Structure};

/// What `#[bsr_kernel]` with lists implements on the item it stands on.
pub trait Family {
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
    ) -> Result<LoadedMember<A, B, C>, FamilyError> {
        find_where::<A, B, C>(Self::MEMBERS, wanted)?.load(device)
    }

    /// Loads the member that `chooser` chooses for a problem, of those that multiply these element types and blocks.
    ///
    /// # Errors
    /// [`FamilyError::NoMember`]; [`FamilyError::Chosen`]; what [`Kernel::load`] answers.
    fn load_for<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        device: &Device,
        chooser: &impl Chooser,
        problem: &ProblemFacts,
    ) -> Result<LoadedMember<A, B, C>, FamilyError> {
        find_for::<A, B, C>(Self::MEMBERS, chooser, problem)?.load(device)
    }
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

    /// Loads the kernel on a device: the driver compiles the PTX.
    ///
    /// # Errors
    /// [`FamilyError::Types`] where the kernel is made for other element types; what [`Kernel::load`] answers.
    pub fn load<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &'static self,
        device: &Device,
    ) -> Result<LoadedMember<A, B, C>, FamilyError> {
        let wanted = [A::DTYPE, B::DTYPE, C::DTYPE];
        if self.dtypes() != wanted {
            return Err(FamilyError::Types { name: self.name, found: self.dtypes(), wanted });
        }
        let launcher = Launcher::load(device, self.plan(), self.ptx, self.entry)?;
        Ok(LoadedMember { member: self, launcher, types: PhantomData })
    }
}

/// A member on a device, with the types of its operands.
#[derive(Debug)]
pub struct LoadedMember<A, B, C> {
    member: &'static Member,
    launcher: Launcher,
    types: PhantomData<fn(A, B) -> C>,
}

impl<A: Element + Plain, B: Element + Plain, C: Element + Plain> LoadedMember<A, B, C> {
    /// The member.
    pub fn member(&self) -> &'static Member {
        self.member
    }

    /// The untyped launcher, which knows scales, too.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// As [`Loaded::prepare`](crate::Loaded::prepare).
    ///
    /// # Errors
    /// As [`LoadedMember::launch`].
    pub fn prepare(&self, a: &DeviceBsr<A>, n: usize) -> Result<(), KernelError> {
        self.launcher.prepare(a, n)
    }

    /// As [`Loaded::launch`](crate::Loaded::launch).
    ///
    /// # Errors
    /// As there.
    pub fn launch<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        c: &mut DeviceDense<C>,
    ) -> Result<(), KernelError> {
        self.launcher.launch(stream.into(), a, b, c)
    }

    /// As [`LoadedMember::launch`], of a member with `op = dds`: B is sparse.
    ///
    /// # Errors
    /// As there.
    pub fn launch_dds<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        a: &DeviceDense<A>,
        b: &DeviceBsr<B>,
        c: &mut DeviceDense<C>,
    ) -> Result<(), KernelError> {
        self.launcher.launch(stream.into(), a, b, c)
    }

    /// Host matrices in, host matrix out: uploads, multiplies, waits, downloads.
    ///
    /// # Errors
    /// As [`LoadedMember::launch`].
    pub fn multiply(&self, a: &Bsr<A>, b: &Dense<B>) -> Result<Dense<C>, KernelError> {
        let device = self.launcher.device();
        let stream = Stream::new(device)?;
        let a = DeviceBsr::upload(device, a)?;
        let b = DeviceDense::upload(device, b)?;
        let (rows, cols) = self.launcher.result_shape(&a, &b)?;
        let mut c = DeviceDense::zeros(device, rows, cols, self.member.spec.c_layout)?;
        self.launch(&stream, &a, &b, &mut c)?;
        stream.synchronize()?;
        Ok(c.download()?)
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
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// Rows and columns of a sparsity block.
    pub block: (usize, usize),
    /// Stored blocks, how they lie.
    pub features: Features,
}

impl ProblemFacts {
    /// The facts of a pattern times `n` columns.
    pub fn new(a: &Structure, n: usize) -> Self {
        Self { m: a.rows(), n, k: a.cols(), block: a.block(), features: Features::of(a) }
    }

    fn has_blocks_of(&self, spec: &KernelSpec) -> bool {
        (spec.bm as usize, spec.bk as usize) == self.block
    }

    fn blocks(&self) -> String {
        format!("bm = {}, bk = {}", self.block.0, self.block.1)
    }
}

/// The member whose dense tile wastes the fewest columns beyond N, the first of these where several do.
///
/// `bn = 96` wastes 96 x 3 - 256 = 32 columns of 256, `bn = 128` none. It knows nothing of speed: a family whose order
/// is from what is best in general to what is rarely best gets what it deserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFit;

impl Chooser for FirstFit {
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize {
        let waste = |member: &Member| {
            let bn = member.spec.bn as usize;
            problem.n.div_ceil(bn) * bn - problem.n
        };
        (0..members.len()).min_by_key(|at| waste(members[*at])).unwrap_or(0)
    }
}

/// Why no member of a family was loaded.
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
    /// The member is made for other element types.
    Types {
        /// The member.
        name: &'static str,
        /// Its element types of A, B and C.
        found: [Dtype; 3],
        /// Those asked for.
        wanted: [Dtype; 3],
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

bsr_codegen::message_as_debug!(FamilyError);

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
            Self::Types { name, found, wanted } => {
                writeln!(f, "`{name}` multiplies {}, not {}", product(found), product(wanted))?;
                write!(f, "  help: a member of these types, or cast the matrices")
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
        ProblemFacts::new(&a, n)
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
