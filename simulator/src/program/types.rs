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
}

impl Ty {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "tf32" => Self::Tf32,
            "e4m3" => Self::E4m3,
            "e5m2" => Self::E5m2,
            "e4m3x2" => Self::E4m3x2,
            "e5m2x2" => Self::E5m2x2,
            _ => return None,
        })
    }

    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F16x2 | Self::Bf16x2 | Self::F32 | Self::Tf32 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
        }
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    pub(crate) fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub(crate) fn int(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64) || self.signed()
    }

    pub(crate) fn untyped(self) -> bool {
        matches!(self, Self::B8 | Self::B16 | Self::B32 | Self::B64)
    }

    /// Scalar or packed floating point with arithmetic of its own.
    pub(crate) fn float(self) -> bool {
        matches!(self, Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2 | Self::F32 | Self::F64)
    }

    /// All ones in the width.
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

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pred => "pred",
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::F16x2 => "f16x2",
            Self::Bf16 => "bf16",
            Self::Bf16x2 => "bf16x2",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Tf32 => "tf32",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::E4m3x2 => "e4m3x2",
            Self::E5m2x2 => "e5m2x2",
        }
    }
}

/// All ones in the low `bits`.
pub(crate) fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Sign-extends the low `bits` of `v`.
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
    DynamicSmem,
    TotalSmem,
}

impl Special {
    /// The register behind `%tid.x` and its width; `None` for a name that is no special register.
    pub(crate) fn parse(word: &str) -> Option<(Self, Ty)> {
        let word = word.strip_prefix('%')?;
        if let Some((stem, dim)) = word.rsplit_once('.') {
            let d = match dim {
                "x" => 0,
                "y" => 1,
                "z" => 2,
                _ => return None,
            };
            let s = match stem {
                "tid" => Self::Tid(d),
                "ntid" => Self::Ntid(d),
                "ctaid" => Self::Ctaid(d),
                "nctaid" => Self::Nctaid(d),
                "clusterid" => Self::Clusterid(d),
                "nclusterid" => Self::Nclusterid(d),
                "cluster_ctaid" => Self::ClusterCtaid(d),
                "cluster_nctaid" => Self::ClusterNctaid(d),
                _ => return None,
            };
            return Some((s, Ty::U32));
        }
        let s = match word {
            "cluster_ctarank" => Self::ClusterCtarank,
            "cluster_nctarank" => Self::ClusterNctarank,
            "is_explicit_cluster" => return Some((Self::IsExplicitCluster, Ty::Pred)),
            "laneid" => Self::Laneid,
            "warpid" => Self::Warpid,
            "nwarpid" => Self::Nwarpid,
            "smid" => Self::Smid,
            "nsmid" => Self::Nsmid,
            "gridid" => return Some((Self::Gridid, Ty::U64)),
            "lanemask_eq" => Self::LanemaskEq,
            "lanemask_le" => Self::LanemaskLe,
            "lanemask_lt" => Self::LanemaskLt,
            "lanemask_ge" => Self::LanemaskGe,
            "lanemask_gt" => Self::LanemaskGt,
            "clock" => Self::Clock,
            "clock_hi" => Self::ClockHi,
            "clock64" => return Some((Self::Clock64, Ty::U64)),
            "globaltimer" => return Some((Self::Globaltimer, Ty::U64)),
            "globaltimer_lo" => Self::GlobaltimerLo,
            "dynamic_smem_size" => Self::DynamicSmem,
            "total_smem_size" => Self::TotalSmem,
            _ => return None,
        };
        Some((s, Ty::U32))
    }
}
