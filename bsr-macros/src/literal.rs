//! Spec values as Rust expressions and types.

use bsr_codegen::{Dtype, KernelSpec, Layout, Mma, Op, Schedule};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// The Rust type of a dtype.
pub(crate) fn element(dtype: Dtype) -> TokenStream {
    match dtype {
        Dtype::F16 => quote!(::bsr::f16),
        Dtype::BF16 => quote!(::bsr::bf16),
        Dtype::F32 => quote!(::core::primitive::f32),
    }
}

/// The spec as a constant expression.
pub(crate) fn literal(spec: &KernelSpec) -> TokenStream {
    let KernelSpec {
        bm,
        bn,
        bk,
        op,
        mma,
        a,
        b,
        acc,
        out,
        b_layout,
        c_layout,
        stages,
        consumers,
        cluster,
        k_step,
        schedule,
        swizzle,
    } = *spec;
    let op = match op {
        Op::Dsd => quote!(::bsr::Op::Dsd),
    };
    let mma = match mma {
        Mma::Wgmma => quote!(::bsr::Mma::Wgmma),
    };
    let [a, b, acc, out] = [a, b, acc, out].map(|dtype| match dtype {
        Dtype::F16 => quote!(::bsr::Dtype::F16),
        Dtype::BF16 => quote!(::bsr::Dtype::BF16),
        Dtype::F32 => quote!(::bsr::Dtype::F32),
    });
    let [b_layout, c_layout] = [b_layout, c_layout].map(|layout| match layout {
        Layout::RowMajor => quote!(::bsr::Layout::RowMajor),
        Layout::ColMajor => quote!(::bsr::Layout::ColMajor),
    });
    let schedule = option(schedule.map(|schedule| match schedule {
        Schedule::Balanced => quote!(::bsr::Schedule::Balanced),
        Schedule::Strided => quote!(::bsr::Schedule::Strided),
    }));
    let [stages, consumers, cluster, k_step, swizzle] = [stages, consumers, cluster, k_step, swizzle].map(option);
    quote! {
        ::bsr::KernelSpec {
            bm: #bm,
            bn: #bn,
            bk: #bk,
            op: #op,
            mma: #mma,
            a: #a,
            b: #b,
            acc: #acc,
            out: #out,
            b_layout: #b_layout,
            c_layout: #c_layout,
            stages: #stages,
            consumers: #consumers,
            cluster: #cluster,
            k_step: #k_step,
            schedule: #schedule,
            swizzle: #swizzle,
        }
    }
}

fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
