//! The attribute of an attention: `fn attend(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16> { .. }`,
//! whose body is the score of a query and a key.

use bsr_codegen::epilogue::parse_score;
use bsr_codegen::spec::{Atom, Entry, Request, SpecError, Value, build};
use bsr_codegen::{Epilogue, KernelSpec};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, FnArg, Pat, PatType, ReturnType, Signature, Visibility};

use crate::args::Tokens;
use crate::compile::{Compiled, emit, plan};
use crate::diagnose::Diagnostics;
use crate::epilogue::{Parameter, lexemes};
use crate::item::Form;
use crate::kernel::kernel_type;
use crate::literal::element;
use crate::signature::{Operand, operand, refuse_generics, refuse_qualifiers};

const EXAMPLE: &str = "write `fn attend(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16>;`";
/// Q, K and V.
const TENSORS: usize = 3;

/// Do the entries ask for an attention?
pub(crate) fn is_asked(entries: &[Entry<Tokens>]) -> bool {
    let says = |entry: &Entry<Tokens>| matches!(&entry.value, Value::Atom(Atom::Word(word) | Atom::Quoted(word)) if word == "attention");
    entries.iter().any(|entry| entry.key == "op" && says(entry))
}

/// The item, read.
struct Item {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    is_function: bool,
    /// Q, K, V and O, where their types are understood.
    operands: Vec<Operand>,
    score: Option<(Epilogue, Tokens)>,
}

/// The expansion with the library at `::bsr`.
pub(crate) fn expand(
    item: TokenStream,
    (entries, errors): (Vec<Entry<Tokens>>, Vec<SpecError<Tokens>>),
    whole: Tokens,
    mut diagnostics: Diagnostics,
) -> TokenStream {
    let item = match syn::parse2::<Form>(item.clone()) {
        Ok(form) => Item::read(form, &mut diagnostics),
        Err(error) => {
            let diagnostics = Diagnostics::from(error);
            return quote! { #diagnostics #item };
        }
    };
    let named = ["a", "b", "out"].into_iter().zip([0, 1, TENSORS]);
    let entry = |(key, at): (&str, usize)| item.operands.get(at).map(|operand| operand.entry(key));
    let request =
        Request { entries, signature: named.filter_map(entry).collect(), epilogue: item.score, errors, whole };
    let (spec, compiled) = match build(&request) {
        Ok(spec) => (spec, planned(&spec, &request, &mut diagnostics)),
        Err(errors) => {
            errors.iter().for_each(|error| diagnostics.spec(error));
            (KernelSpec::new(64, 64, 64), Compiled::default())
        }
    };
    let kernel = item.kernel(&spec, &compiled);
    let checks = if diagnostics.is_empty() { item.checks(&spec) } else { TokenStream::new() };
    quote! { #diagnostics #kernel #checks }
}

fn planned(spec: &KernelSpec, request: &Request<Tokens>, diagnostics: &mut Diagnostics) -> Compiled {
    match plan(spec) {
        Ok(plan) => emit(&plan),
        Err(errors) => {
            errors.iter().for_each(|error| diagnostics.plan(*request.place_of(error.key()), error, "", ""));
            Compiled::default()
        }
    }
}

impl Item {
    fn read(form: Form, diagnostics: &mut Diagnostics) -> Self {
        match form {
            Form::Struct(item) => Self {
                attributes: item.attrs,
                visibility: item.vis,
                name: item.ident,
                is_function: false,
                operands: vec![],
                score: None,
            },
            Form::Function { attributes, visibility, signature, body } => {
                refuse_qualifiers(&signature, diagnostics);
                refuse_generics(&signature, diagnostics);
                let (operands, further) = arguments(&signature, diagnostics);
                let score = score(body.as_ref(), &further, diagnostics);
                Self { attributes, visibility, name: signature.ident, is_function: true, operands, score }
            }
        }
    }

    /// The type, its constants and its `bsr::attention::AttentionKernel`.
    fn kernel(&self, spec: &KernelSpec, compiled: &Compiled) -> TokenStream {
        let Self { attributes, visibility, name, is_function, .. } = self;
        let (attributes, fields) = (quote!(#(#attributes)*), if *is_function { quote!({}) } else { quote!(;) });
        let kernel_type = kernel_type(&attributes, visibility, name, &fields, spec, compiled);
        let (dtype, out) = (element(spec.a), element(spec.out));
        quote! {
            #kernel_type

            #[automatically_derived]
            #[allow(deprecated)]
            impl ::bsr::attention::AttentionKernel for #name {
                type Element = #dtype;
                type Output = #out;
                const PTX: &'static ::core::primitive::str = Self::PTX;
                const ENTRY: &'static ::core::primitive::str = Self::ENTRY;

                fn plan() -> &'static ::bsr::Plan {
                    Self::plan()
                }
            }
        }
    }

    /// Has the compiler check that the operand types are what their names say.
    fn checks(&self, spec: &KernelSpec) -> TokenStream {
        let check = |(at, operand): (usize, &Operand)| {
            let element = element(if at == TENSORS { spec.out } else { spec.a });
            let written = &operand.matrix;
            quote_spanned! {written.span()=>
                const _: fn(#written) -> ::bsr::Dense<#element> = |operand| operand;
            }
        };
        self.operands.iter().enumerate().map(check).collect()
    }
}

/// Q, K, V and O, and what follows `scale`.
fn arguments(signature: &Signature, diagnostics: &mut Diagnostics) -> (Vec<Operand>, Vec<Parameter>) {
    let typed = |argument: &FnArg| match argument {
        FnArg::Typed(argument) => Some(argument.clone()),
        FnArg::Receiver(_) => None,
    };
    let arguments: Vec<PatType> = signature.inputs.iter().filter_map(typed).collect();
    if arguments.len() <= TENSORS || arguments.len() < signature.inputs.len() {
        let fact = format!("an attention reads Q, K, V and a scale, not {} arguments", signature.inputs.len());
        diagnostics.error_on(signature.inputs.to_token_stream(), &fact, &[EXAMPLE]);
        return (vec![], vec![]);
    }
    let mut operands = vec![];
    for (role, argument) in ["Q", "K", "V"].into_iter().zip(&arguments) {
        operands.extend(operand(&argument.ty, "Dense", &format!("{role} is a tensor of heads"), &[], diagnostics));
    }
    let scale = &arguments[TENSORS];
    let is_scale = matches!(&*scale.pat, Pat::Ident(name) if name.ident == "scale");
    if !is_scale || scale.ty.to_token_stream().to_string() != "f32" {
        diagnostics.error_on(scale, "the fourth argument is `scale: f32`, the factor of the products", &[EXAMPLE]);
    }
    match &signature.output {
        ReturnType::Type(_, result) => {
            operands.extend(operand(result, "Dense", "O is a tensor of heads", &[], diagnostics));
        }
        ReturnType::Default => diagnostics.error_on(&signature.ident, "an attention has a result", &[EXAMPLE]),
    }
    let read = |argument: &PatType| Parameter::read(argument, diagnostics);
    let further = arguments[TENSORS + 1..].iter().filter_map(read).collect();
    (if operands.len() == TENSORS + 1 { operands } else { vec![] }, further)
}

/// The body as a score.
fn score(body: Option<&TokenTree>, further: &[Parameter], diagnostics: &mut Diagnostics) -> Option<(Epilogue, Tokens)> {
    let Some(TokenTree::Group(group)) = body else {
        if let Some(first) = further.first() {
            let (name, place) = first.name();
            let help = ["give the function a body: `{ s * scale }`".to_owned()];
            diagnostics.error(place, &format!("`{name}` is an operand of the score, and there is no score"), &help);
        }
        return None;
    };
    let parameters: Vec<_> = further.iter().map(Parameter::syntax).collect();
    match parse_score(&parameters, &lexemes(group), &group.span_close().into()) {
        Ok(program) => Some((Epilogue::new(program), Tokens { first: group.span_open(), last: group.span_close() })),
        Err(errors) => {
            errors.iter().for_each(|error| diagnostics.error(error.place, &error.fact, &error.help));
            None
        }
    }
}
