//! The whole attribute: from its tokens and its item to the type it makes.

use bsr_codegen::KernelSpec;
use bsr_codegen::spec::{Entry, Place, Request, Value, build, entries};
use proc_macro2::{Span, TokenStream};
use quote::quote;

use crate::args::{Tokens, hold_a_list, tokens};
use crate::attention;
use crate::call;
use crate::compile::{Compiled, emit, plan};
use crate::diagnose::Diagnostics;
use crate::fallback::{self, Fallback};
use crate::family;
use crate::inputs;
use crate::item::Item;
use crate::kernel::{checked, kernel, launch_types, mentioned};
use crate::library::{Found, Library};
use crate::surroundings;

/// Expands one use of the attribute, in a crate that finds the library as `found` says.
pub(crate) fn expand(args: TokenStream, item: TokenStream, found: &Found) -> TokenStream {
    let mut diagnostics = Diagnostics::default();
    let (library, args) = Library::read(args, found, &mut diagnostics);
    library.in_place(expand_at_root(args, item, diagnostics))
}

/// The expansion with the library at `::bsr`. On errors the type is emitted all the same, without PTX.
fn expand_at_root(args: TokenStream, item: TokenStream, mut diagnostics: Diagnostics) -> TokenStream {
    let (fallback, args) = Fallback::read(args, &mut diagnostics);
    let tokens = tokens(args);
    let is_family = hold_a_list(&tokens);
    let whole = match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => first.place.through(&last.place),
        _ => Span::call_site().into(),
    };
    let (entries, errors) = entries(&tokens, &whole.last.into());
    if attention::is_asked(&entries) {
        fallback.refuse_attention(&mut diagnostics);
        return attention::expand(item, (entries, errors), whole, diagnostics);
    }
    let item = match Item::read(item.clone(), is_family, &mut diagnostics) {
        Ok(read) => read,
        Err(error) => {
            let diagnostics = Diagnostics::from(error);
            return quote! { #diagnostics #item };
        }
    };
    if let Some(mistake) = surroundings::mistake(&item.name) {
        let (fact, help) = mistake.words(&item.name);
        diagnostics.error_on(&item.name, &fact, &[&help]);
        return quote! { #diagnostics };
    }
    let request = Request { entries, signature: item.operands.entries(), epilogue: item.epilogue, errors, whole };
    if is_family {
        fallback.refuse_family(&mut diagnostics);
        return family::expand(&item, request, diagnostics);
    }
    let (spec, compiled) = match build(&request) {
        Ok(spec) => (spec, planned(&spec, &request, &mut diagnostics)),
        Err(errors) => {
            errors.iter().for_each(|error| diagnostics.spec(error));
            (skeleton(&request), Compiled::default())
        }
    };
    if spec.op.is_gradient() {
        let fact = format!("op = {} is no operation of the attribute", spec.op);
        let help =
            "`KernelSpec::gradients` makes the specs of a gradient, and `attention::GradientLauncher` launches them";
        diagnostics.error_on(&item.name, &fact, &[help]);
    }
    let body = item.epilogue.map(|(epilogue, _)| epilogue);
    let Item { attributes, visibility, name, .. } = &item;
    let fields = call::fields(&item);
    let call = call::refused(&item, &spec);
    let mut launched = spec;
    launched.epilogue = spec.epilogue.or(body);
    let types = launch_types(&launched, &quote!(#name));
    let others = if diagnostics.is_empty() { fallback.kernels(&spec, &mut diagnostics) } else { Vec::new() };
    let ([texts, constant], about) = (fallback::embedded(name, &others), fallback::documentation(&others));
    let kernel = kernel(
        quote! { #(#attributes)* #about },
        visibility,
        name,
        fields,
        &spec,
        &quote! { #types #constant },
        &compiled,
    );
    let operands = match diagnostics.is_empty() {
        true => {
            let further = inputs::checked(&item.operands.further, body);
            let factors = checked(&item.operands, &spec);
            quote! { #factors #further }
        }
        false => mentioned(&item.operands),
    };
    let inputs = inputs::inputs(visibility, name, &quote!(#name), spec.epilogue.or(body));
    quote! { #diagnostics #kernel #texts #call #inputs #operands }
}

fn planned(spec: &KernelSpec, request: &Request<Tokens>, diagnostics: &mut Diagnostics) -> Compiled {
    match plan(spec) {
        Ok(plan) => emit(&plan),
        Err(errors) => {
            for error in errors.iter() {
                diagnostics.plan(*request.place_of(error.key()), error, "", "");
            }
            Compiled::default()
        }
    }
}

/// A legal spec with whatever dtypes a faulty request states, so that uses of the type still type-check.
fn skeleton(request: &Request<Tokens>) -> KernelSpec {
    let states_dtype = |entry: &&Entry<Tokens>| matches!(&*entry.key, "dtype" | "a" | "b" | "out");
    let size = |key: &str| Entry {
        key: key.into(),
        key_place: request.whole,
        value: Value::number(64),
        value_place: request.whole,
    };
    let mut entries: Vec<_> = request.entries.iter().filter(states_dtype).cloned().collect();
    entries.extend(["bm", "bn", "bk"].map(size));
    let dtypes = Request {
        entries,
        signature: request.signature.clone(),
        epilogue: None,
        errors: Vec::new(),
        whole: request.whole,
    };
    build(&dtypes).unwrap_or(KernelSpec::new(64, 64, 64))
}
