//! The operand types of a kernel function: `fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;`. Which of them is the
//! `Bsr` says which operation it is: a sparse second operand makes `op = dds`, a sparse result `op = sdd`, two sparse operands
//! `op = dss`, and with a sparse result `op = sss`.
//!
//! In a family `fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;` leaves `T` to the lists of the attribute.

use bsr_codegen::Op;
use bsr_codegen::spec::{Entry, Place, Value};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{FnArg, GenericParam, Ident, PathArguments, ReturnType, Safety, Signature, Type};

use crate::args::Tokens;
use crate::diagnose::Diagnostics;
use crate::epilogue::Parameter;
use crate::literal::ELEMENTS;
use crate::types::{element_path, matrix_name};

const EXAMPLE: &str = "write `(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>`";

/// The types of A, B and the result of an operation.
pub(crate) fn matrices(op: Op) -> [&'static str; 3] {
    match op {
        Op::Dsd => ["Bsr", "Dense", "Dense"],
        Op::Dds => ["Dense", "Bsr", "Dense"],
        Op::Sdd => ["Dense", "Dense", "Bsr"],
        Op::Dss => ["Bsr", "Bsr", "Dense"],
        Op::Sss => ["Bsr", "Bsr", "Bsr"],
        // A struct has these, and no types to compare with.
        Op::Attention | Op::AttentionDq | Op::AttentionDkv => ["Bsr", "Dense", "Dense"],
    }
}

/// The operands of a function whose types were understood; none of a struct.
#[derive(Default)]
pub(crate) struct Operands {
    pub(crate) a: Option<Operand>,
    pub(crate) b: Option<Operand>,
    pub(crate) out: Option<Operand>,
    /// What the operands are, where they are understood.
    pub(crate) operation: Option<(Op, Tokens)>,
    /// Every matrix and element type that the signature names rightly, whether in its place or not.
    pub(crate) names: Vec<TokenStream>,
    /// The type parameters of a family's function.
    pub(crate) parameters: Vec<Ident>,
    /// What the epilogue reads, behind the two factors.
    pub(crate) further: Vec<Parameter>,
    /// The type of the second result.
    pub(crate) second: Option<Type>,
}

impl Operands {
    /// The dtypes they state, as entries of the spec grammar.
    pub(crate) fn entries(&self) -> Vec<Entry<Tokens>> {
        let named = [("a", &self.a), ("b", &self.b), ("out", &self.out)];
        let entry = |(key, operand): (&str, &Option<Operand>)| operand.as_ref().map(|operand| operand.entry(key));
        let operation = self.operation.map(|(op, place)| Entry {
            key: "op".into(),
            key_place: place,
            value: Value::word(op.as_str()),
            value_place: place,
        });
        named.into_iter().filter_map(entry).chain(operation).collect()
    }
}

/// `Bsr<f16>` or `Dense<f16>`.
pub(crate) struct Operand {
    /// The whole type, as written.
    pub(crate) matrix: Type,
    /// The type parameter of the element type, in a family.
    pub(crate) parameter: Option<Ident>,
    /// The last word of the element type.
    element_name: String,
    element_place: Tokens,
}

impl Operand {
    /// Its element type, as an entry of the spec grammar.
    pub(crate) fn entry(&self, key: &str) -> Entry<Tokens> {
        Entry {
            key: key.into(),
            key_place: self.element_place,
            value: match self.parameter {
                Some(_) => Value::Parameter(self.element_name.clone()),
                None => Value::word(self.element_name.clone()),
            },
            value_place: self.element_place,
        }
    }
}

/// Reads the operands; what is wrong with them goes to the diagnostics.
pub(crate) fn read(signature: &Signature, is_family: bool, diagnostics: &mut Diagnostics) -> Operands {
    refuse_qualifiers(signature, diagnostics);
    let parameters = match is_family {
        true => parameters(signature, diagnostics),
        false => refuse_generics(signature, diagnostics),
    };
    let operand = |ty: &Type, matrix: &str, role: &str, diagnostics: &mut Diagnostics| {
        operand(ty, matrix, role, &parameters, diagnostics)
    };
    let (mut types, mut further) = (Vec::new(), Vec::new());
    for input in &signature.inputs {
        match input {
            // What follows the two factors is the epilogue's.
            FnArg::Typed(argument) if types.len() == 2 => further.extend(Parameter::read(argument, diagnostics)),
            FnArg::Typed(argument) => types.push(&*argument.ty),
            FnArg::Receiver(receiver) => {
                let help = ["a kernel is a free function, not a method"];
                diagnostics.error_on(receiver, "a kernel has no receiver", &help);
            }
        }
    }
    let result = match &signature.output {
        ReturnType::Type(_, result) => Some(&**result),
        ReturnType::Default => None,
    };
    let (result, second) = match result {
        Some(Type::Tuple(results)) if results.elems.len() == 2 => {
            (results.elems.first(), results.elems.last().cloned())
        }
        result => (result, None),
    };
    let names = types.iter().copied().chain(result).flat_map(names).collect();
    let mut operation = None;
    let samples = result.and_then(matrix_name).as_deref() == Some("Bsr");
    let (a, b) = match types[..] {
        [a, b] => {
            let names = (matrix_name(a), matrix_name(b));
            if let (Some("Bsr"), Some("Bsr")) = (names.0.as_deref(), names.1.as_deref()) {
                operation = Some((if samples { Op::Sss } else { Op::Dss }, place_of(a, b)));
                let role = "both operands are sparse";
                (operand(a, "Bsr", role, diagnostics), operand(b, "Bsr", role, diagnostics))
            } else if let (true, Some(result)) = (samples, result) {
                operation = Some((Op::Sdd, place_of(result, result)));
                (
                    operand(a, "Dense", "both operands of a sparse result are dense", diagnostics),
                    operand(b, "Dense", "both operands of a sparse result are dense", diagnostics),
                )
            } else if let (Some("Dense"), Some("Bsr")) = (names.0.as_deref(), names.1.as_deref()) {
                operation = Some((Op::Dds, place_of(a, b)));
                (
                    operand(a, "Dense", "the first operand is dense", diagnostics),
                    operand(b, "Bsr", "the second operand is the sparse one", diagnostics),
                )
            } else {
                operation = Some((Op::Dsd, place_of(a, b)));
                (
                    operand(a, "Bsr", "the first operand is the sparse one", diagnostics),
                    operand(b, "Dense", "the second operand is dense", diagnostics),
                )
            }
        }
        _ => {
            let fact = format!("a kernel has two operands, not {}", types.len());
            if types.is_empty() {
                diagnostics.error_on(&signature.ident, &fact, &[EXAMPLE]);
            } else {
                diagnostics.error_on(&signature.inputs, &fact, &[EXAMPLE]);
            }
            (None, None)
        }
    };
    let out = match result {
        Some(result) if samples => operand(result, "Bsr", "the result is sparse", diagnostics),
        Some(result) => operand(result, "Dense", "the result is dense", diagnostics),
        None => {
            diagnostics.error_on(&signature.ident, "the result type is missing", &[EXAMPLE]);
            None
        }
    };
    Operands { a, b, out, operation, names, parameters, further, second }
}

pub(crate) fn refuse_qualifiers(signature: &Signature, diagnostics: &mut Diagnostics) {
    let help = ["a kernel is a plain `fn`; only its launch can be `async`, `const` or `unsafe`"];
    let mut refuse = |node: &dyn ToTokens, what: &str| {
        let fact = format!("a kernel function cannot be {what}");
        diagnostics.error_on(node, &fact, &help);
    };
    if let Some(node) = &signature.constness {
        refuse(node, "`const`");
    }
    if let Some(node) = &signature.asyncness {
        refuse(node, "`async`");
    }
    match &signature.safety {
        Safety::Unsafe(node) => refuse(node, "`unsafe`"),
        Safety::Safe(node) => refuse(node, "`safe`"),
        _ => {}
    }
    if let Some(node) = &signature.abi {
        refuse(node, "`extern`");
    }
    if let Some(node) = &signature.variadic {
        refuse(node, "variadic");
    }
}

/// Refuses the parameters of a function that is not a family, and returns their names: they are reported once.
pub(crate) fn refuse_generics(signature: &Signature, diagnostics: &mut Diagnostics) -> Vec<Ident> {
    let fact = "a kernel function cannot be generic";
    let help = ["a family can: its attribute lists the types, as in `dtype = [f16, bf16]`"];
    if !signature.generics.params.is_empty() {
        diagnostics.error_on(&signature.generics, fact, &help);
    } else if let Some(node) = &signature.generics.where_clause {
        diagnostics.error_on(node, fact, &help);
    }
    signature.generics.type_params().map(|parameter| parameter.ident.clone()).collect()
}

/// The type parameters of a family's function, each an element type.
fn parameters(signature: &Signature, diagnostics: &mut Diagnostics) -> Vec<Ident> {
    let help = ["write `fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;`"];
    let mut parameters = Vec::new();
    for parameter in &signature.generics.params {
        match parameter {
            GenericParam::Type(ty) if ty.bounds.is_empty() && ty.default.is_none() => parameters.push(ty.ident.clone()),
            _ => diagnostics.error_on(parameter, "a parameter of a kernel function is a plain element type", &help),
        }
    }
    if let Some(node) = &signature.generics.where_clause {
        diagnostics.error_on(node, "a parameter of a kernel function has no bounds", &help);
    }
    parameters
}

/// Reads `MATRIX<ELEMENT>`.
pub(crate) fn operand(
    ty: &Type,
    matrix: &str,
    role: &str,
    parameters: &[Ident],
    diagnostics: &mut Diagnostics,
) -> Option<Operand> {
    let help = format!("write `{matrix}<f16>` or `{matrix}<bf16>`");
    let found = match matrix_name(ty) {
        Some(name) if name == matrix => None,
        _ => Some(ty.to_token_stream()),
    };
    if let Some(found) = found {
        let fact = format!("{role}: `{matrix}<...>`, not `{}`", compact(&found));
        diagnostics.error_on(ty, &fact, &[&help]);
        return None;
    }
    let Some(element) = element_path(ty) else {
        let fact = format!("`{matrix}` lacks its element type");
        diagnostics.error_on(ty, &fact, &[&help]);
        return None;
    };
    let last = element.segments.last()?;
    let first = element.segments.first()?;
    Some(Operand {
        matrix: ty.clone(),
        parameter: parameters.iter().find(|parameter| element.is_ident(*parameter)).cloned(),
        element_name: last.ident.to_string(),
        element_place: Tokens::from(first.ident.span()).through(&last.ident.span().into()),
    })
}

/// Types that name what a type names: `Bsr<::bsr::f16>` and `f16` of `&Bsr<f16>`.
fn names(ty: &Type) -> Vec<TokenStream> {
    let ty = match ty {
        Type::Reference(reference) => &*reference.elem,
        _ => ty,
    };
    let (Type::Path(path), Some("Bsr" | "Dense")) = (ty, matrix_name(ty).as_deref()) else {
        return Vec::new();
    };
    let mut matrix = path.path.clone();
    if let Some(last) = matrix.segments.last_mut() {
        last.arguments = PathArguments::None;
    }
    let element = element_path(ty).filter(|element| {
        let name = element.segments.last().map(|last| last.ident.to_string());
        name.is_some_and(|name| ELEMENTS.iter().any(|dtype| dtype.as_str() == name))
    });
    let element = element.map(ToTokens::to_token_stream);
    std::iter::once(quote!(#matrix<::bsr::f16>)).chain(element).collect()
}

/// Tokens as a person writes a type: `& mut Bsr < f16 >` becomes `&mut Bsr<f16>`.
fn compact(tokens: &TokenStream) -> String {
    let mut text = tokens.to_string();
    for (spaced, tight) in [(" < ", "<"), (" >", ">"), ("& ", "&"), (" :: ", "::"), (" ,", ",")] {
        text = text.replace(spaced, tight);
    }
    text
}

/// Everything from one type to another.
fn place_of(first: &Type, last: &Type) -> Tokens {
    Tokens::from(first.span()).through(&last.span().into())
}
