//! An attribute with lists: one type for the family, one for each member that can be planned.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bsr_codegen::spec::{FamilyMember, FamilySpec, Given, Key, Request, SpecError, SpecErrorKind, Value};
use bsr_codegen::{KernelSpec, Plan, PlanErrors};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse_quote;

use crate::args::Tokens;
use crate::call;
use crate::compile::{Compiled, emit, plan};
use crate::diagnose::Diagnostics;
use crate::inputs;
use crate::item::Item;
use crate::kernel::{Further, checked, kernel, launch_types, mentioned, operation, returns};

/// Most kernels that one attribute embeds.
const MOST_EMBEDDED: usize = 64;

/// How many reasons and names an error message lists before it counts the rest.
const SHOWN: usize = 4;

/// A member and what became of it.
struct Planned<'f> {
    member: &'f FamilyMember,
    plan: Result<Plan, PlanErrors>,
}

/// Expands an attribute with lists. On errors the type is emitted all the same, without PTX.
pub(crate) fn expand(item: &Item, request: Request<Tokens>, mut diagnostics: Diagnostics) -> TokenStream {
    check_parameters(item, &request, &mut diagnostics);
    let family = match FamilySpec::new(request) {
        Ok(family) => family,
        Err(errors) => {
            errors.iter().for_each(|error| diagnostics.spec_with(error, &generic_remedy(error)));
            let (empty, operands) = (types(item, &[], ""), mentioned(&item.operands));
            return quote! { #diagnostics #empty #operands };
        }
    };
    let planned = |member| Planned { member, plan: plan(&member.spec) };
    let planned: Vec<Planned<'_>> = family.members().iter().map(planned).collect();
    check_plans(&family, &planned, &mut diagnostics);
    check_signatures(&family, &planned, &mut diagnostics);
    let is_right = diagnostics.is_empty();
    // Beside an error every member gets its type, so that the uses of it are no further errors.
    let members: Vec<(&FamilyMember, Compiled)> = planned
        .iter()
        .filter_map(|Planned { member, plan }| match plan {
            Ok(plan) if is_right => Some((*member, emit(plan))),
            Err(_) if is_right => None,
            _ => Some((*member, Compiled::default())),
        })
        .collect();
    let types = types(item, &members, &documentation(&planned));
    let operands = match family.members().first() {
        Some(first) if is_right => checked(&item.operands, &first.spec),
        _ => mentioned(&item.operands),
    };
    let inputs = match members.first() {
        Some((first, _)) => {
            let body = item.epilogue.map(|(epilogue, _)| epilogue);
            inputs::inputs(&item.visibility, &item.name, &path(item, first), first.spec.epilogue.or(body))
        }
        None => TokenStream::new(),
    };
    quote! { #diagnostics #types #inputs #operands }
}

/// Where a list of dtypes meets a type in the signature, the type may be left to the list.
fn generic_remedy(error: &SpecError<Tokens>) -> Vec<String> {
    match error.kind {
        SpecErrorKind::Contradiction { by: Given::Type, .. } => {
            vec!["or leave the type to the list: `fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;`".into()]
        }
        _ => Vec::new(),
    }
}

/// A type parameter needs an operand that it types and a list that it is taken from.
fn check_parameters(item: &Item, request: &Request<Tokens>, diagnostics: &mut Diagnostics) {
    let operands = [&item.operands.a, &item.operands.b, &item.operands.out];
    let is_axis = |key: Key| {
        let is_list = |value: &_| matches!(value, Value::List(_));
        request.entries.iter().any(|entry| entry.key == key.as_str() && is_list(&entry.value))
    };
    let has_list = [Key::Dtype, Key::A, Key::B, Key::Out].into_iter().any(is_axis);
    for parameter in &item.operands.parameters {
        let is_used = operands.iter().any(|operand| {
            operand.as_ref().and_then(|operand| operand.parameter.as_ref()).is_some_and(|used| used == parameter)
        });
        if !is_used {
            diagnostics.error_on(parameter, &format!("`{parameter}` is not the type of an operand"), &["drop it"]);
        } else if !has_list && request.errors.is_empty() {
            let help = format!("list the types, as in `dtype = [f16, bf16]`, or write one in place of `{parameter}`");
            diagnostics.error_on(parameter, &format!("no list gives the types of `{parameter}`"), &[&help]);
        }
    }
}

/// A family needs a member that can be planned, and not more of them than can be embedded.
fn check_plans(family: &FamilySpec<Tokens>, planned: &[Planned<'_>], diagnostics: &mut Diagnostics) {
    let legal = planned.iter().filter(|planned| planned.plan.is_ok()).count();
    if let (0, Some(Planned { member, plan: Err(errors) })) = (legal, planned.first()) {
        let all = planned.len();
        let mut before = match all {
            1 => format!("the one kernel of this family cannot be planned, {}:\n", member.name()),
            _ => format!("none of the {all} kernels of this family can be planned; the first, {}:\n", member.name()),
        };
        let mut after = reasons(&planned[1..]);
        let mut shown: Vec<(&'static str, String)> = Vec::new();
        for error in errors.iter() {
            let (key, message) = (error.key(), error.to_string());
            if !shown.contains(&(key, message.clone())) {
                diagnostics.plan(family.place_of(member, key), error, &before, &after);
                shown.push((key, message));
            }
            (before, after) = (String::new(), String::new());
        }
    }
    if legal > MOST_EMBEDDED {
        let lengths: Vec<String> = family.axes().iter().map(|axis| axis.values.len().to_string()).collect();
        let product = match lengths.len() {
            1 => String::new(),
            _ => format!("{} = ", lengths.join(" x ")),
        };
        let fact = format!(
            "an attribute embeds at most {MOST_EMBEDDED} kernels\n  {product}{all} kernels, {legal} can be planned",
            all = planned.len()
        );
        let longest = family.axes().iter().rev().max_by_key(|axis| axis.values.len());
        if let (Some(axis), Some(first)) = (longest, planned.first()) {
            let place = family.place_of(first.member, axis.key.as_str());
            let help = format!("shorten a list, `{}` first, or make two families", axis.key);
            diagnostics.error(place, &fact, &[help]);
        }
    }
}

/// Members have the same launches: they multiply the same matrices and have the same results.
fn check_signatures(family: &FamilySpec<Tokens>, planned: &[Planned<'_>], diagnostics: &mut Diagnostics) {
    let Some(first) = planned.first() else { return };
    let reduction = |spec: &KernelSpec| spec.epilogue.and_then(|epilogue| epilogue.program().reduction());
    for Planned { member, .. } in planned {
        let (key, fact) = if member.spec.op != first.member.spec.op {
            ("op", "the members of a family have one operation")
        } else if reduction(&member.spec).is_some() != reduction(&first.member.spec).is_some() {
            ("epilogue", "the members of a family have the same results")
        } else {
            continue;
        };
        return diagnostics.error(family.place_of(member, key), fact, &["make two families".to_owned()]);
    }
}

/// The facts that keep members from being planned, in order, each with the members it keeps.
fn grouped<'p>(planned: &'p [Planned<'_>], words: fn(&str) -> &str) -> Vec<(String, Vec<String>)> {
    let mut numbers: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for Planned { member, plan } in planned {
        for error in plan.as_ref().err().into_iter().flat_map(PlanErrors::iter) {
            let message = error.to_string();
            let fact = words(&message).to_string();
            let number = *numbers.entry((error.key(), fact.clone())).or_insert_with(|| {
                groups.push((fact, Vec::new()));
                groups.len() - 1
            });
            let names = &mut groups[number].1;
            if names.last() != Some(&member.name()) {
                names.push(member.name());
            }
        }
    }
    groups
}

/// `bn256_stages9 and 3 more: 9 stages do not fit shared memory`, one reason a line.
fn reasons(planned: &[Planned<'_>]) -> String {
    let groups = grouped(planned, |message| message.lines().next().unwrap_or_default());
    let mut text = String::new();
    for (at, (fact, names)) in groups.iter().take(SHOWN).enumerate() {
        let heading = if at == 0 { "\nthe others:" } else { "" };
        let _ = write!(text, "{heading}\n  {}: {fact}", counted(names));
    }
    if groups.len() > SHOWN {
        let _ = write!(text, "\n  and {} more reasons", groups.len() - SHOWN);
    }
    text
}

fn counted(names: &[String]) -> String {
    match names.len().saturating_sub(SHOWN) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

/// The members and their plans, then those that have none and why.
fn documentation(planned: &[Planned<'_>]) -> String {
    let width = planned.iter().map(|planned| planned.member.name().len()).max().unwrap_or(0);
    let (mut members, mut count) = (String::new(), 0);
    for Planned { member, plan } in planned {
        if let Ok(plan) = plan {
            let _ = writeln!(members, "{:width$}  {}", member.name(), plan.summary());
            count += 1;
        }
    }
    let mut text = format!("\n# The members\n\n```text\n{}\n```", members.trim_end());
    if count < planned.len() {
        let _ = write!(text, "\n\n{} of {} cannot be planned:\n\n```text\n", planned.len() - count, planned.len());
        for (message, names) in grouped(planned, |message| message) {
            let _ = writeln!(text, "{}\n  {}", names.join(", "), message.replace('\n', "\n  "));
        }
        text.push_str("```");
    }
    text
}

/// The type of the family, and the module with the types of its members.
fn types(item: &Item, members: &[(&FamilyMember, Compiled)], documentation: &str) -> TokenStream {
    let Item { attributes, visibility, name, .. } = item;
    let fields = call::fields(item);
    let call = members.first().map(|(member, _)| call::refused(item, &member.spec));
    let module = module(item);
    let module_documentation = format!("The kernels of the family `{name}`, one type each.");
    let mut kernels = TokenStream::new();
    let mut entries = Vec::new();
    let (op, returns, further) = signature(item, members);
    let first = members.first().map(|(first, _)| Ident::new(&first.name(), Span::call_site()));
    let first = quote!(self::#first);
    for (member, compiled) in members {
        let text = member.name();
        let ident = Ident::new(&text, Span::call_site());
        let documentation = format!("The member of `{name}` with `{}`.", member.spec);
        let types = launch_types(&member.spec, &first);
        let attributes = quote! { #[doc = #documentation] };
        kernels.extend(kernel(attributes, &parse_quote!(pub), &ident, quote!(;), &member.spec, &types, compiled));
        entries.push(quote! { ::bsr::Member::of::<#module::#ident>(#text, #module::#ident::FINGERPRINT) });
    }
    quote! {
        #(#attributes)*
        #[doc = #documentation]
        #[allow(non_camel_case_types)]
        #visibility struct #name #fields

        #call

        #[doc = #module_documentation]
        #[allow(dead_code, non_camel_case_types, unreachable_pub)]
        #visibility mod #module {
            #kernels
        }

        #[automatically_derived]
        #[allow(dead_code, deprecated)]
        impl #name {
            /// The kernels that can be planned, in the order of the lists.
            pub const MEMBERS: &'static [::bsr::Member] = &[#(#entries),*];
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl ::bsr::Family for #name {
            type Op = ::bsr::operation::#op;
            type Further = #further;
            type Returns = #returns;
            const MEMBERS: &'static [::bsr::Member] = Self::MEMBERS;
        }
    }
}

/// What the members of a family have in common: their operation, their results, and what they read besides the factors.
fn signature(item: &Item, members: &[(&FamilyMember, Compiled)]) -> (Ident, TokenStream, TokenStream) {
    let Some((first, _)) = members.first() else {
        let spec = KernelSpec::new(64, 64, 64);
        return (operation(spec.op), returns(&spec), Further::ByName.ty(&TokenStream::new()));
    };
    let further = Further::of(&first.spec);
    let is_common = members.iter().all(|(member, _)| Further::of(&member.spec) == further);
    let further = if is_common { further } else { Further::ByName };
    (operation(first.spec.op), returns(&first.spec), further.ty(&path(item, first)))
}

/// The module with the members' types.
fn module(item: &Item) -> Ident {
    format_ident!("{}_members", snake_case(&item.name.unraw().to_string()), span = item.name.span())
}

/// The type of a member, seen from the family.
fn path(item: &Item, member: &FamilyMember) -> TokenStream {
    let (module, name) = (module(item), Ident::new(&member.name(), Span::call_site()));
    quote!(#module::#name)
}

/// `TallSpmm` as `tall_spmm`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    let mut previous = '_';
    for c in name.chars() {
        if c.is_uppercase() && (previous.is_lowercase() || previous.is_ascii_digit()) {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
        previous = c;
    }
    snake
}
