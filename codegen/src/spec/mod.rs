//! What was asked: [`KernelSpec`] and the one grammar that writes it down.
//!
//! ```text
//! attribute tokens --+                                  +--> FamilySpec: a Request for every member
//!                    +--> Token --entries()--+          |    |
//! text --------------+                       +--> Request --build()--> KernelSpec
//! TOML --------------------------------------+
//! ```
//!
//! A front end only finds keys, values and their places; [`build`] alone knows what they mean, so an attribute,
//! a command line and a file can never disagree. Where a value is a list, the request stands for a [`FamilySpec`].
//!
//! ```
//! use bsr_codegen::{Dtype, KernelSpec};
//!
//! let spec: KernelSpec = "bm = 512, bn = 128, bk = 112, dtype = bf16, stages = auto".parse()?;
//! assert_eq!((spec.bm, spec.out, spec.stages), (512, Dtype::BF16, None));
//! assert_eq!(spec.to_string(), "bm = 512, bn = 128, bk = 112, dtype = bf16");
//! # Ok::<(), bsr_codegen::spec::SpecErrors>(())
//! ```

mod error;
mod family;
mod grammar;
mod keys;
mod number;
mod range;
mod report;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod toml;
mod value;

use serde::{Deserialize, Serialize};

use crate::Epilogue;

pub use crate::place::Place;
pub use crate::words::{Accumulate, Dtype, Layout, Mma, Op, Scale, Schedule, Shape, Switch, Target};
pub use error::{Given, SpecError, SpecErrorKind};
pub use family::{Axis, FamilyMember, FamilySpec, MOST_MEMBERS};
pub use grammar::{Request, build};
pub use keys::Key;
pub use report::{LocatedFamily, LocatedRequest, LocatedSpec, SpecErrors};
pub use syntax::{Bracket, Entry, Token, TokenKind, entries};
pub use value::{Atom, Element, Value};

/// What was asked of a kernel computing C\[M, N\] = A\[M, K\] * B\[K, N\] with A in BSR.
///
/// `None` stands for `auto`: the plan decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// Rows of a sparsity block, in elements of M.
    pub bm: u32,
    /// Columns of the dense tile, in elements of N.
    pub bn: u32,
    /// Columns of a sparsity block, in elements of K.
    pub bk: u32,
    /// Which operands are sparse.
    pub op: Op,
    /// The sparse operand is read transposed, as it is stored: without being rebuilt.
    #[serde(default)]
    pub transpose: Switch,
    /// One launch computes a list of products.
    #[serde(default)]
    pub batch: Switch,
    /// Each row of C is written where an order of rows, which a launch is given, says.
    #[serde(default)]
    pub permute: Switch,
    /// The matrix instruction.
    pub mma: Mma,
    /// Element type of the sparse matrix A.
    pub a: Dtype,
    /// Element type of the dense matrix B.
    pub b: Dtype,
    /// Type of the accumulators.
    pub acc: Dtype,
    /// Element type of the dense result C.
    pub out: Dtype,
    /// Layout of a dense A\[M, K\].
    #[serde(default = "row_major")]
    pub a_layout: Layout,
    /// Layout of a dense B\[K, N\].
    pub b_layout: Layout,
    /// Layout of a dense C\[M, N\].
    pub c_layout: Layout,
    /// What the factors are scaled by.
    #[serde(default)]
    pub scale: Scale,
    /// Where and how precisely products are summed.
    #[serde(default)]
    pub accumulate: Option<Accumulate>,
    /// The architecture.
    #[serde(default)]
    pub arch: Option<Target>,
    /// Warps of a CTA along M and along N.
    #[serde(default)]
    pub warps: Option<(u32, u32)>,
    /// Shape of a `wmma` fragment.
    #[serde(default)]
    pub shape: Option<Shape>,
    /// Elements of one scalar load.
    #[serde(default)]
    pub vector: Option<u32>,
    /// Stages of the shared-memory ring.
    pub stages: Option<u32>,
    /// Consumer warpgroups a CTA.
    pub consumers: Option<u32>,
    /// CTAs a cluster.
    pub cluster: Option<u32>,
    /// Elements of K that one stage holds.
    pub k_step: Option<u32>,
    /// How tiles are dealt to clusters.
    pub schedule: Option<Schedule>,
    /// Shared-memory swizzle span in bytes: 32, 64 or 128.
    pub swizzle: Option<u32>,
    /// Dense columns are WGMMA's rows, and the block's rows its columns.
    #[serde(default)]
    pub swap: Option<Switch>,
    /// Block rows that share a CTA tile.
    #[serde(default)]
    pub pack: Option<u32>,
    /// What becomes of a sum before it is written.
    #[serde(default)]
    pub epilogue: Option<Epilogue>,
}

/// The layout of a matrix of which nothing is said.
fn row_major() -> Layout {
    Layout::RowMajor
}

impl KernelSpec {
    /// Whether the kernel adds a factor times what C held: the key `beta`, which is a name for the epilogue that does,
    /// [`Epilogue::accumulate_of`].
    pub fn beta(&self) -> Switch {
        if self.epilogue == Some(Epilogue::accumulate_of(self.op, self.out)) { Switch::On } else { Switch::Off }
    }

    /// The key that asks for an epilogue.
    pub(crate) fn epilogue_key(&self) -> &'static str {
        if self.beta().is_on() { Key::Beta.as_str() } else { Key::Epilogue.as_str() }
    }

    /// The key with which to change an operand's type: `a` alone would contradict the `dtype` that both have.
    pub(crate) fn type_key(&self, operand: &'static str) -> &'static str {
        if self.a == self.b { "dtype" } else { operand }
    }

    /// The spec `bm = .., bn = .., bk = ..` with every other key at its default: f16 operands and result,
    /// f32 accumulators, row-major B and C, and everything the plan can decide left to the plan.
    pub const fn new(bm: u32, bn: u32, bk: u32) -> Self {
        Self {
            bm,
            bn,
            bk,
            op: Op::Dsd,
            transpose: Switch::Off,
            batch: Switch::Off,
            permute: Switch::Off,
            mma: Mma::Wgmma,
            a: Dtype::F16,
            b: Dtype::F16,
            acc: Dtype::F32,
            out: Dtype::F16,
            a_layout: Layout::RowMajor,
            b_layout: Layout::RowMajor,
            c_layout: Layout::RowMajor,
            scale: Scale::Unscaled,
            accumulate: None,
            arch: None,
            warps: None,
            shape: None,
            vector: None,
            stages: None,
            consumers: None,
            cluster: None,
            k_step: None,
            schedule: None,
            swizzle: None,
            swap: None,
            pack: None,
            epilogue: None,
        }
    }

    /// The same spec for other operands, with the accumulators, the result and the layout of B that go with them.
    #[must_use]
    pub const fn with_dtype(self, dtype: Dtype) -> Self {
        Self {
            a: dtype,
            b: dtype,
            acc: dtype.accumulator(),
            out: dtype.default_out(),
            b_layout: dtype.default_b_layout(),
            ..self
        }
    }
}
