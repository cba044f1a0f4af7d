//! Spec values as Rust expressions and types.

use std::fmt::Debug;

use bsr_codegen::{Dtype, KernelSpec};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};

/// The Rust type of a dtype.
pub(crate) fn element(dtype: Dtype) -> TokenStream {
    match dtype {
        Dtype::F16 => quote!(::bsr::f16),
        Dtype::BF16 => quote!(::bsr::bf16),
        Dtype::F32 => quote!(::core::primitive::f32),
        Dtype::E4M3 => quote!(::bsr::e4m3),
        Dtype::E5M2 => quote!(::bsr::e5m2),
        Dtype::I8 => quote!(::core::primitive::i8),
        Dtype::I32 => quote!(::core::primitive::i32),
    }
}

/// The names under which element types are written in signatures.
pub(crate) const ELEMENTS: [Dtype; 7] =
    [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::E4M3, Dtype::E5M2, Dtype::I8, Dtype::I32];

/// The spec as a constant expression.
pub(crate) fn literal(spec: &KernelSpec) -> TokenStream {
    let KernelSpec {
        bm,
        bn,
        bk,
        op,
        transpose,
        batch,
        permute,
        mma,
        a,
        b,
        acc,
        out,
        a_layout,
        b_layout,
        c_layout,
        scale,
        accumulate,
        arch,
        warps,
        shape,
        vector,
        stages,
        consumers,
        cluster,
        k_step,
        schedule,
        swizzle,
        swap,
        pack,
        epilogue,
    } = *spec;
    let op = variant("Op", op);
    let [transpose, batch, permute] = [transpose, batch, permute].map(|switch| variant("Switch", switch));
    let mma = variant("Mma", mma);
    let [a, b, acc, out] = [a, b, acc, out].map(|dtype| variant("Dtype", dtype));
    let [a_layout, b_layout, c_layout] = [a_layout, b_layout, c_layout].map(|layout| variant("Layout", layout));
    let scale = variant("Scale", scale);
    let accumulate = option(accumulate.map(|accumulate| variant("Accumulate", accumulate)));
    let arch = option(arch.map(|target| variant("Target", target)));
    let warps = option(warps.map(|(m, n)| quote!((#m, #n))));
    let shape = option(shape.map(|shape| variant("Shape", shape)));
    let schedule = option(schedule.map(|schedule| variant("Schedule", schedule)));
    let [vector, stages, consumers] = [vector, stages, consumers].map(option);
    let [cluster, k_step, swizzle, pack] = [cluster, k_step, swizzle, pack].map(option);
    let swap = option(swap.map(|switch| variant("Switch", switch)));
    let epilogue = option(epilogue.map(|epilogue| {
        let text = epilogue.text();
        quote!(::bsr::Epilogue::compiled(#text))
    }));
    quote! {
        ::bsr::KernelSpec {
            bm: #bm,
            bn: #bn,
            bk: #bk,
            op: #op,
            transpose: #transpose,
            batch: #batch,
            permute: #permute,
            mma: #mma,
            a: #a,
            b: #b,
            acc: #acc,
            out: #out,
            a_layout: #a_layout,
            b_layout: #b_layout,
            c_layout: #c_layout,
            scale: #scale,
            accumulate: #accumulate,
            arch: #arch,
            warps: #warps,
            shape: #shape,
            vector: #vector,
            stages: #stages,
            consumers: #consumers,
            cluster: #cluster,
            k_step: #k_step,
            schedule: #schedule,
            swizzle: #swizzle,
            swap: #swap,
            pack: #pack,
            epilogue: #epilogue,
        }
    }
}

/// `::bsr::Mma::Wgmma`: the derived `Debug` of a value without fields is the name of its variant.
fn variant(name: &str, value: impl Debug) -> TokenStream {
    let name = Ident::new(name, Span::call_site());
    let variant = Ident::new(&format!("{value:?}"), Span::call_site());
    quote!(::bsr::#name::#variant)
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
