//! Whether a kernel is faster than the dense library.

/// How much faster blocks must be predicted to be to be called faster: predictions are off by so much at times.
pub const SURE_PREDICTED: f64 = 1.15;
/// The same of measured times.
pub const SURE_MEASURED: f64 = 1.05;

/// What a sparse product is beside the dense library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// No kernel on tensor cores takes the block.
    NoKernel,
    /// Every block is stored, so that the dense library computes the same.
    Full,
    /// Faster, by this factor.
    Faster(f64),
    /// Within what a prediction or a measurement may be off.
    Even,
    /// The dense library is faster, by this factor.
    Slower(f64),
}

impl Verdict {
    /// That of a dense time over a time, of which a factor of `sure` is needed to call one of them faster.
    pub fn of(speedup: f64, sure: f64, is_full: bool) -> Self {
        match speedup {
            speedup if speedup < 1.0 / sure => Self::Slower(1.0 / speedup),
            _ if is_full => Self::Full,
            speedup if speedup > sure => Self::Faster(speedup),
            _ => Self::Even,
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoKernel => f.write_str("no tensor-core kernel"),
            Self::Full => f.write_str("stay dense: every block is stored"),
            Self::Faster(times) => write!(f, "{times:.2}x faster"),
            Self::Even => f.write_str("about even"),
            Self::Slower(times) => write!(f, "dense is faster: {times:.2}x"),
        }
    }
}
