//! The `#[bsr_kernel]` attribute of bsr.
//!
//! Tokens -> `Request` -> `KernelSpec` -> `Plan` -> `Ptx` -> a type with constants, all while the attribute expands.
//! The templates are held by `bsr-codegen` through `include_str!`: editing one rebuilds every crate with a kernel.

mod args;
mod compile;
mod diagnose;
mod expand;
mod item;
mod literal;
mod signature;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes a block-sparse kernel of a function without a body, or of a unit struct.
///
/// ```ignore
/// #[bsr_kernel(bm = 512, bn = 128, bk = 112)]
/// pub fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
///
/// #[bsr_kernel(bm = 64, bn = 256, bk = 64, dtype = bf16, out = f32)]
/// pub struct Spmm;
/// ```
///
/// The item becomes a unit struct that implements `bsr::Kernel` and has the constants `SPEC`, `PTX`, `ENTRY` and
/// `FINGERPRINT` and the function `plan()`. Its documentation ends with the plan as a table. The keys are those of
/// `bsr::KernelSpec`; on a function the operand types give the dtypes.
///
/// # Errors
/// Everything wrong with the attribute or the item is a compile error on the guilty token; the type is emitted
/// nevertheless, so that its users see no further errors.
#[proc_macro_attribute]
pub fn bsr_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}
