//! The request: [`KernelSpec`], and its one grammar.
//!
//! ```text
//! attribute tokens --+                                  +--> FamilySpec: a Request for every member
//!                    +--> Token --entries()--+          |    |
//! text --------------+                       +--> Request --build()--> KernelSpec
//! TOML --------------------------------------+
//! ```
//!
//! A front end only finds keys, values and their places; [`build`] alone knows what they mean, so an attribute,
//! a command line and a file can never disagree. Where a value is a list, the request describes a [`FamilySpec`].
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
mod setting;
mod syntax;
mod table;
mod text;
mod toml;
mod value;

use crate::Epilogue;

pub use crate::place::Place;
pub use crate::words::{
    Accumulate, Dtype, IndexWidth, Layout, Load, Mma, Op, Pdl, Scale, Schedule, Shape, SplitK, Switch, Target,
};
pub use error::{Given, SpecError, SpecErrorKind};
pub use family::{Axis, FamilyMember, FamilySpec};
pub use grammar::{Request, build};
pub use keys::{KernelSpec, Key};
pub use range::MOST_MEMBERS;
pub use report::{LocatedFamily, LocatedRequest, LocatedSpec, SpecErrors};
pub use setting::{Takes, Word};
pub use syntax::{Bracket, Entry, Token, TokenKind, entries};
pub use value::{Atom, Element, Value};

impl KernelSpec {
    /// Most rows and columns of small blocks, whose values and numbers are addressed in 64 bits.
    #[doc(hidden)]
    pub const SMALL_BLOCK: u32 = 8;

    /// The same product of a matrix with so many stored blocks: row pointers of small blocks have 64 bits where 32, which the
    /// kernels read unsigned, do not count them.
    #[doc(hidden)]
    #[must_use]
    pub fn counting(self, blocks: u64) -> Self {
        let is_small = self.op == Op::Dsd && self.bm.max(self.bk) <= Self::SMALL_BLOCK;
        if is_small && blocks > u32::MAX.into() { self.row_ptr(IndexWidth::I64) } else { self }
    }

    /// Whether the kernel adds a factor times what C held: the key `beta`, which is a name for the epilogue that does,
    /// [`Epilogue::accumulate_of`].
    pub fn beta(&self) -> Switch {
        if self.epilogue == Some(Epilogue::accumulate_of(self.op, self.out)) { Switch::On } else { Switch::Off }
    }

    /// The spec of the same product with every choice left to the plan, but for `bn`. Promoted sums stay: to which precision
    /// FP8 is summed is no choice.
    #[doc(hidden)]
    #[must_use]
    pub fn without_choices(&self) -> Self {
        let mut product = Self::new(self.bm, self.bn, self.bk);
        Key::ALL.into_iter().filter(|key| key.is_fact()).for_each(|key| product.copy_key(key, self));
        product.accumulate = self.accumulate.filter(|kind| *kind == Accumulate::Promoted);
        product
    }

    /// Reads the text of a recorded kernel, which an earlier version may have written: an attention had `pack` for `pack_heads`.
    ///
    /// # Errors
    /// Those of a spec's text.
    pub fn from_record(text: &str) -> Result<Self, SpecErrors> {
        text.parse().map(Self::renamed)
    }

    /// The same with `pack_heads` for the `pack` of an attention.
    fn renamed(self) -> Self {
        let is_old = self.op == Op::Attention && self.pack_heads.is_none();
        if is_old { Self { pack_heads: self.pack, pack: None, ..self } } else { self }
    }

    /// The key that requests an epilogue.
    pub(crate) fn epilogue_key(&self) -> &'static str {
        if self.beta().is_on() { Key::Beta.as_str() } else { Key::Epilogue.as_str() }
    }

    /// The key with which to change an operand's type: `a` alone would contradict the `dtype` that both have.
    pub(crate) fn type_key(&self, operand: &'static str) -> &'static str {
        if self.a == self.b && matches!(operand, "a" | "b") { "dtype" } else { operand }
    }

    /// The spec `bm = .., bn = .., bk = ..` with every other key at its default: f16 operands and result,
    /// f32 accumulators, row-major B and C, and everything the plan can decide left to the plan.
    pub const fn new(bm: u32, bn: u32, bk: u32) -> Self {
        Self { bm, bn, bk, ..Self::DEFAULT }
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

#[cfg(test)]
mod long_tests;
#[cfg(test)]
mod tests;
