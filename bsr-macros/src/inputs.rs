//! What the operands of an epilogue expand to.

use bsr_codegen::Epilogue;
use bsr_codegen::epilogue::InputKind;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Visibility;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::epilogue::Parameter;
use crate::kernel::Further;
use crate::literal::element;

/// The type that holds what an epilogue reads: a field for every parameter, of operands on the device or on the host. None
/// where it reads nothing. `tag` is the kernel that [`EpilogueOf`](Further::ty) names.
pub(crate) fn inputs(
    visibility: &Visibility,
    name: &Ident,
    tag: &TokenStream,
    epilogue: Option<Epilogue>,
) -> TokenStream {
    let Some(epilogue) = epilogue.filter(|epilogue| !epilogue.program().inputs().is_empty()) else {
        return TokenStream::new();
    };
    let type_name = format_ident!("{}_inputs", name.unraw());
    let (mut fields, mut generics, mut kinds) = (TokenStream::new(), Vec::<Ident>::new(), Vec::new());
    let (mut on_device, mut on_host) = (TokenStream::new(), TokenStream::new());
    for input in epilogue.program().inputs() {
        let (text, field) = (&input.name, Ident::new(&input.name, name.span()));
        let doc = format!("`{text}: {}`.", input.kind.words());
        let element = element(input.kind.dtype());
        let kind = match input.kind {
            InputKind::Scalar => {
                fields.extend(quote! { #[doc = #doc] #visibility #field: #element, });
                let step = quote! { let given = given.scalar(#text, inputs.#field); };
                on_device.extend(step.clone());
                on_host.extend(step);
                continue;
            }
            InputKind::Dense(_) => quote!(::bsr::arguments::Full<#element>),
            InputKind::Blocks(_) => quote!(::bsr::arguments::Blocks<#element>),
            InputKind::Rows(_) | InputKind::Cols(_) | InputKind::Heads(_) => {
                quote!(::bsr::arguments::Vector<#element>)
            }
        };
        let generic = generic_name(text, &generics);
        fields.extend(quote! { #[doc = #doc] #visibility #field: #generic, });
        on_device.extend(
            quote! { let given = ::bsr::arguments::DeviceOperand::<'a, #kind>::give(inputs.#field, #text, given); },
        );
        on_host
            .extend(quote! { let given = ::bsr::arguments::HostOperand::<#kind>::give(inputs.#field, #text, given); });
        generics.push(generic);
        kinds.push(kind);
    }
    let of = Further::Epilogue.ty(tag);
    let doc = format!("What the epilogue of [`{name}`] reads: `{}`.", epilogue.text());
    quote! {
        #[doc = #doc]
        #[allow(non_camel_case_types, dead_code)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #type_name<#(#generics: ::bsr::arguments::OperandOf<#kinds>),*> {
            #fields
        }

        #[automatically_derived]
        #[allow(deprecated, non_camel_case_types)]
        impl<'a, #(#generics: ::bsr::arguments::DeviceOperand<'a, #kinds>),*>
            ::core::convert::From<#type_name<#(#generics),*>> for ::bsr::gpu::DeviceInputs<'a>
        {
            fn from(inputs: #type_name<#(#generics),*>) -> Self {
                let given = Self::new();
                #on_device
                given
            }
        }

        #[automatically_derived]
        #[allow(deprecated, non_camel_case_types)]
        impl<#(#generics: ::bsr::arguments::HostOperand<#kinds>),*>
            ::core::convert::From<#type_name<#(#generics),*>> for ::bsr::Inputs
        {
            fn from(inputs: #type_name<#(#generics),*>) -> Self {
                let given = Self::new();
                #on_host
                given
            }
        }

        #[automatically_derived]
        #[allow(deprecated, non_camel_case_types)]
        impl<#(#generics: ::bsr::arguments::OperandOf<#kinds>),*> ::bsr::arguments::FurtherOf<#of>
            for #type_name<#(#generics),*> {}

        #[automatically_derived]
        #[allow(deprecated, non_camel_case_types)]
        impl<#(#generics: ::bsr::arguments::OperandOf<#kinds>),*> ::bsr::arguments::FurtherOf<::bsr::arguments::ByName>
            for #type_name<#(#generics),*> {}
    }
}

/// `Bias` of `bias`: the type of a field.
fn generic_name(field: &str, taken: &[Ident]) -> Ident {
    let mut name: String = field.trim_start_matches('_').split('_').map(capitalised).collect();
    if !name.starts_with(|c: char| c.is_alphabetic()) {
        name.insert_str(0, "Of");
    }
    let ident = |name: &str| Ident::new(name, Span::call_site());
    match taken.contains(&ident(&name)) || name == "Self" {
        true => ident(&format!("{name}{}", taken.len() + 1)),
        false => ident(&name),
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Has the compiler check that element types are what their names say.
pub(crate) fn checked(further: &[Parameter], epilogue: Option<Epilogue>) -> TokenStream {
    let Some(epilogue) = epilogue else { return TokenStream::new() };
    let checks = further.iter().zip(epilogue.program().inputs()).filter_map(|(further, input)| {
        let written = further.element.as_ref()?;
        let element = element(input.kind.dtype());
        Some(quote_spanned! {written.span()=> const _: fn(#written) -> #element = |element| element; })
    });
    checks.collect()
}
