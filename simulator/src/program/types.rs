//! PTX types, state spaces and special registers.

/// A PTX instruction type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Tf32,
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    U16x2,
    S16x2,
    /// Four bits and one bit, of matrices alone.
    U4,
    S4,
    B1,
}

/// The types in their order, with their names and their bits.
const TYPES: &[(Ty, &str, u32)] = &[
    (Ty::Pred, "pred", 1),
    (Ty::B8, "b8", 8),
    (Ty::B16, "b16", 16),
    (Ty::B32, "b32", 32),
    (Ty::B64, "b64", 64),
    (Ty::U8, "u8", 8),
    (Ty::U16, "u16", 16),
    (Ty::U32, "u32", 32),
    (Ty::U64, "u64", 64),
    (Ty::S8, "s8", 8),
    (Ty::S16, "s16", 16),
    (Ty::S32, "s32", 32),
    (Ty::S64, "s64", 64),
    (Ty::F16, "f16", 16),
    (Ty::F16x2, "f16x2", 32),
    (Ty::Bf16, "bf16", 16),
    (Ty::Bf16x2, "bf16x2", 32),
    (Ty::F32, "f32", 32),
    (Ty::F64, "f64", 64),
    (Ty::Tf32, "tf32", 32),
    (Ty::E4m3, "e4m3", 8),
    (Ty::E5m2, "e5m2", 8),
    (Ty::E4m3x2, "e4m3x2", 16),
    (Ty::E5m2x2, "e5m2x2", 16),
    (Ty::U16x2, "u16x2", 32),
    (Ty::S16x2, "s16x2", 32),
    (Ty::U4, "u4", 4),
    (Ty::S4, "s4", 4),
    (Ty::B1, "b1", 1),
];

impl Ty {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        TYPES.iter().find(|(_, name, _)| *name == word).map(|(ty, ..)| *ty)
    }

    pub(crate) fn name(self) -> &'static str {
        TYPES[self as usize].1
    }

    #[inline]
    pub(crate) fn bits(self) -> u32 {
        TYPES[self as usize].2
    }

    #[inline]
    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    #[inline]
    pub(crate) fn signed(self) -> bool {
        matches!(self, Self::S4 | Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    #[inline]
    pub(crate) fn int(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64) || self.signed()
    }

    pub(crate) fn untyped(self) -> bool {
        matches!(self, Self::B8 | Self::B16 | Self::B32 | Self::B64)
    }

    /// Scalar or packed floating point with arithmetic of its own.
    #[inline]
    pub(crate) fn float(self) -> bool {
        matches!(self, Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2 | Self::F32 | Self::F64)
    }

    /// All ones in the width.
    #[inline]
    pub(crate) fn mask(self) -> u64 {
        mask(self.bits())
    }

    /// May a register declared as `self` be used where an operand of type `want` is needed?
    pub(crate) fn fits(self, want: Self) -> bool {
        if self == Self::Pred || want == Self::Pred {
            return self == want;
        }
        // Alternate formats live in untyped registers.
        let plain = |t: Self| !(t.int() || matches!(t, Self::F16 | Self::F16x2 | Self::F32 | Self::F64));
        self.bits() == want.bits() && (plain(self) || plain(want) || self == want || (self.int() && want.int()))
    }
}

/// All ones in the low `bits`.
#[inline]
pub(crate) fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Sign-extends the low `bits` of `v`.
#[inline]
pub(crate) fn sign_extend(v: u64, bits: u32) -> i64 {
    let shift = 64 - bits;
    ((v << shift) as i64) >> shift
}

/// Where an address points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    SharedCta,
    SharedCluster,
    Param,
    /// A thread's own.
    Local,
}

/// A special register; the number is the dimension (0 = x).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Clusterid(u8),
    Nclusterid(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    Clock64,
    Globaltimer,
    GlobaltimerLo,
    GlobaltimerHi,
    /// A launch outside graphs: 0.
    CurrentGraphExec,
    DynamicSmem,
    TotalSmem,
}

impl Special {
    /// The register behind `%tid.x` and its type; `None` for a name that is no special register.
    pub(crate) fn parse(word: &str) -> Option<(Self, Ty)> {
        let word = word.strip_prefix('%')?;
        if let Some((stem, dimension)) = word.rsplit_once('.') {
            let (_, of) = THREE_DIMENSIONAL.iter().find(|(name, _)| *name == stem)?;
            let at = ["x", "y", "z"].iter().position(|name| *name == dimension)?;
            return Some((of(at as u8), Ty::U32));
        }
        SPECIAL.iter().find(|(name, ..)| *name == word).map(|(_, special, ty)| (*special, *ty))
    }
}

type Dimension = fn(u8) -> Special;

const THREE_DIMENSIONAL: &[(&str, Dimension)] = &[
    ("tid", Special::Tid),
    ("ntid", Special::Ntid),
    ("ctaid", Special::Ctaid),
    ("nctaid", Special::Nctaid),
    ("clusterid", Special::Clusterid),
    ("nclusterid", Special::Nclusterid),
    ("cluster_ctaid", Special::ClusterCtaid),
    ("cluster_nctaid", Special::ClusterNctaid),
];

const SPECIAL: &[(&str, Special, Ty)] = &[
    ("cluster_ctarank", Special::ClusterCtarank, Ty::U32),
    ("cluster_nctarank", Special::ClusterNctarank, Ty::U32),
    ("is_explicit_cluster", Special::IsExplicitCluster, Ty::Pred),
    ("laneid", Special::Laneid, Ty::U32),
    ("warpid", Special::Warpid, Ty::U32),
    ("nwarpid", Special::Nwarpid, Ty::U32),
    ("smid", Special::Smid, Ty::U32),
    ("nsmid", Special::Nsmid, Ty::U32),
    ("gridid", Special::Gridid, Ty::U64),
    ("lanemask_eq", Special::LanemaskEq, Ty::U32),
    ("lanemask_le", Special::LanemaskLe, Ty::U32),
    ("lanemask_lt", Special::LanemaskLt, Ty::U32),
    ("lanemask_ge", Special::LanemaskGe, Ty::U32),
    ("lanemask_gt", Special::LanemaskGt, Ty::U32),
    ("clock", Special::Clock, Ty::U32),
    ("clock_hi", Special::ClockHi, Ty::U32),
    ("clock64", Special::Clock64, Ty::U64),
    ("globaltimer", Special::Globaltimer, Ty::U64),
    ("globaltimer_lo", Special::GlobaltimerLo, Ty::U32),
    ("globaltimer_hi", Special::GlobaltimerHi, Ty::U32),
    ("current_graph_exec", Special::CurrentGraphExec, Ty::U64),
    ("dynamic_smem_size", Special::DynamicSmem, Ty::U32),
    ("total_smem_size", Special::TotalSmem, Ty::U32),
    ("aggr_smem_size", Special::TotalSmem, Ty::U32),
];

/// How the names of special registers begin that have no value here: of a debugger's and a profiler's hardware, and of shared memory that
/// the system keeps.
pub(crate) const WITHOUT_VALUE: &[&str] = &["%envreg", "%pm", "%reserved_smem_offset"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_in_their_order() {
        for (at, (ty, ..)) in TYPES.iter().enumerate() {
            assert_eq!(*ty as usize, at);
        }
    }
}
