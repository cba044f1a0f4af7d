//! What answers to `spmm(&a, &b)`: a function beside the type, which no types satisfy.

use bsr_codegen::KernelSpec;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::item::Item;
use crate::literal::element;
use crate::signature::matrices;

/// What the type of a kernel ends with. That of a function has braces: `struct spmm;` would be a value, too, whose name meets
/// that of the function.
pub(crate) fn fields(item: &Item) -> TokenStream {
    if item.arguments.is_some() { quote!({}) } else { quote!(;) }
}

/// A function with the kernel's name, where the item was one. A call of it is one error, in the words of
/// `bsr::call::Called`.
pub(crate) fn refused(item: &Item, spec: &KernelSpec) -> TokenStream {
    let Item { visibility, name, arguments: Some(arguments), .. } = item else { return TokenStream::new() };
    let parameters: Vec<Ident> = (0..*arguments).map(|at| format_ident!("Argument{at}")).collect();
    let Some(first) = parameters.first() else { return TokenStream::new() };
    let result = format_ident!("{}", matrices(spec.op)[2]);
    let element = element(spec.out);
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, unreachable_pub, deprecated)]
        #visibility fn #name<#(#parameters),*>(#(_: #parameters),*) -> ::bsr::#result<#element>
        where
            #first: ::bsr::call::Called<#name>,
        {
            ::core::unreachable!()
        }
    }
}
