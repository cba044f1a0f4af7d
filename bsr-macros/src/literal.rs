//! Spec values as Rust expressions and types.

use bsr_codegen::{Dtype, KernelSpec};
use proc_macro2::TokenStream;
use quote::quote;

/// The Rust type of a dtype.
pub(crate) fn element(dtype: Dtype) -> TokenStream {
    match dtype {
        Dtype::F16 => quote!(::bsr::f16),
        Dtype::BF16 => quote!(::bsr::bf16),
        Dtype::F32 => quote!(::core::primitive::f32),
        Dtype::F64 => quote!(::core::primitive::f64),
        Dtype::E4M3 => quote!(::bsr::e4m3),
        Dtype::E5M2 => quote!(::bsr::e5m2),
        Dtype::I8 => quote!(::core::primitive::i8),
        Dtype::I32 => quote!(::core::primitive::i32),
    }
}

/// The names under which element types are written in signatures.
pub(crate) const ELEMENTS: [Dtype; 8] =
    [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::E4M3, Dtype::E5M2, Dtype::I8, Dtype::I32];

/// The spec as a constant expression: its sizes, and a setter for every key that is not at its default.
pub(crate) fn literal(spec: &KernelSpec) -> TokenStream {
    let expression = spec.expression("::bsr");
    expression.parse().unwrap_or_else(|error| unreachable!("`{expression}` is not an expression: {error}"))
}
