//! What a kernel expands to: its type, its constants, what its launches are typed by.

use bsr_codegen::{Dtype, KernelSpec, Op, Scale};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Visibility;
use syn::spanned::Spanned;

use crate::compile::Compiled;
use crate::literal::{element, literal};
use crate::signature::{Operand, Operands, matrices};

/// The type with its constants and its plan: what every kernel has, whatever it computes.
pub(crate) fn kernel_type(
    attributes: &TokenStream,
    visibility: &Visibility,
    name: &Ident,
    fields: &TokenStream,
    spec: &KernelSpec,
    compiled: &Compiled,
) -> TokenStream {
    let spec = literal(spec);
    let planned = planned(&quote!(Self::SPEC));
    let Compiled { ptx, entry, fingerprint, table } = compiled;
    let documentation = format!("\n# The plan\n\n```text\n{}\n```", table.trim_end());
    let listing = format!("The PTX of this kernel, made at compile time.\n\n```ptx\n{}\n```", ptx.trim_end());
    quote! {
        #attributes
        #[doc = #documentation]
        #[allow(non_camel_case_types)]
        #visibility struct #name #fields

        #[automatically_derived]
        #[allow(dead_code, deprecated)]
        impl #name {
            /// The spec of this kernel.
            pub const SPEC: ::bsr::KernelSpec = #spec;
            // By another name: rustdoc prints the expression of a constant, here the same text once more in one line.
            #[doc(hidden)]
            const __PTX: &'static ::core::primitive::str = #ptx;
            #[doc = #listing]
            pub const PTX: &'static ::core::primitive::str = Self::__PTX;
            /// The name of the entry point in the PTX.
            pub const ENTRY: &'static ::core::primitive::str = #entry;
            /// The fingerprint of the PTX.
            pub const FINGERPRINT: &'static ::core::primitive::str = #fingerprint;

            /// Every number of this kernel.
            pub fn plan() -> &'static ::bsr::Plan {
                #planned
            }
        }
    }
}

/// The plan of a spec, made once.
pub(crate) fn planned(spec: &TokenStream) -> TokenStream {
    quote! {
        static PLAN: ::std::sync::OnceLock<::bsr::Plan> = ::std::sync::OnceLock::new();
        PLAN.get_or_init(|| match ::bsr::Plan::new(&#spec) {
            ::core::result::Result::Ok(plan) => plan,
            ::core::result::Result::Err(errors) => ::core::panic!("{errors}"),
        })
    }
}

/// The type, its constants and its `bsr::Kernel`.
pub(crate) fn kernel(
    attributes: TokenStream,
    visibility: &Visibility,
    name: &Ident,
    fields: TokenStream,
    spec: &KernelSpec,
    types: &TokenStream,
    compiled: &Compiled,
) -> TokenStream {
    let [a, b, out] = [spec.a, spec.b, spec.out].map(element);
    let op = operation(spec.op);
    let kernel_type = kernel_type(&attributes, visibility, name, &fields, spec, compiled);
    quote! {
        #kernel_type

        #[automatically_derived]
        #[allow(deprecated)]
        impl ::bsr::Kernel for #name {
            type Op = ::bsr::operation::#op;
            type A = #a;
            type B = #b;
            type Out = #out;
            #types
            const SPEC: ::bsr::KernelSpec = Self::SPEC;
            const PTX: &'static ::core::primitive::str = Self::PTX;
            const ENTRY: &'static ::core::primitive::str = Self::ENTRY;

            fn plan() -> &'static ::bsr::Plan {
                Self::plan()
            }
        }
    }
}

/// What a kernel reads besides its factors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Further {
    Nothing,
    Scaled,
    Permuted,
    Epilogue,
    /// Several of them.
    ByName,
}

impl Further {
    pub(crate) fn of(spec: &KernelSpec) -> Self {
        let reads = spec.epilogue.is_some_and(|epilogue| !epilogue.program().inputs().is_empty());
        match (reads, spec.scale != Scale::Unscaled, spec.permute.is_on()) {
            (false, false, false) => Self::Nothing,
            (false, true, false) => Self::Scaled,
            (false, false, true) => Self::Permuted,
            (true, false, false) => Self::Epilogue,
            _ => Self::ByName,
        }
    }

    /// The type of the kernel `name` for it.
    pub(crate) fn ty(self, name: &TokenStream) -> TokenStream {
        match self {
            Self::Nothing => quote!(::bsr::arguments::Nothing),
            Self::Scaled => quote!(::bsr::arguments::Scaled),
            Self::Permuted => quote!(::bsr::arguments::Permuted),
            Self::Epilogue => quote!(::bsr::arguments::EpilogueOf<#name>),
            Self::ByName => quote!(::bsr::arguments::ByName),
        }
    }
}

/// What a launch of a kernel is typed by; `name` is the kernel that has its epilogue's operands.
pub(crate) fn launch_types(spec: &KernelSpec, name: &TokenStream) -> TokenStream {
    let (further, returns) = (Further::of(spec).ty(name), returns(spec));
    quote! {
        type Further = #further;
        type Returns = #returns;
    }
}

/// The type of a kernel's results.
pub(crate) fn returns(spec: &KernelSpec) -> TokenStream {
    match spec.epilogue.and_then(|epilogue| epilogue.program().reduction()) {
        Some(_) => quote!(::bsr::arguments::CWithRows),
        None => quote!(::bsr::arguments::Single),
    }
}

/// The type of an operation.
pub(crate) fn operation(op: Op) -> Ident {
    Ident::new(op.type_name(), Span::call_site())
}

/// Has the compiler check that the operand types are what their names say. It also makes use of their imports.
pub(crate) fn checked(operands: &Operands, spec: &KernelSpec) -> TokenStream {
    let check = |operand: &Option<Operand>, matrix: &str, dtype: Dtype| {
        let operand = operand.as_ref()?;
        let (written, element) = (&operand.matrix, element(dtype));
        let matrix = Ident::new(matrix, Span::call_site());
        Some(match &operand.parameter {
            None => quote_spanned! {written.span()=>
                const _: fn(#written) -> ::bsr::#matrix<#element> = |operand| operand;
            },
            // A parameter is of every type in its list; the first member's will do.
            Some(parameter) => quote_spanned! {written.span()=>
                const _: fn() = || {
                    type #parameter = #element;
                    let _: fn(#written) -> ::bsr::#matrix<#element> = |operand| operand;
                };
            },
        })
    };
    let [a, b, out] = matrices(spec.op);
    let checks = [check(&operands.a, a, spec.a), check(&operands.b, b, spec.b), check(&operands.out, out, spec.out)];
    checks.into_iter().flatten().collect()
}

/// Uses the names in the signature, so that beside an error there are no warnings about unused imports.
pub(crate) fn mentioned(operands: &Operands) -> TokenStream {
    let names = &operands.names;
    quote! { #(const _: ::core::option::Option<#names> = ::core::option::Option::None;)* }
}
