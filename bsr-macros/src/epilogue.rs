//! The body of a kernel function: the computation applied to each sum before it is written.

use bsr_codegen::Epilogue;
use bsr_codegen::epilogue::{InputKind, Lexeme, LexemeKind, ParameterSyntax, Program, parse_function};
use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Pat, PatType, Type};

use crate::args::Tokens;
use crate::diagnose::Diagnostics;
use crate::types::{element_path, matrix_name};

/// A parameter behind the two factors, as read.
pub(crate) struct Parameter {
    syntax: ParameterSyntax<Tokens>,
    /// Its element type, as written.
    pub(crate) element: Option<syn::Path>,
}

impl Parameter {
    /// Reads a parameter; what is wrong with it goes to the diagnostics.
    pub(crate) fn read(argument: &PatType, diagnostics: &mut Diagnostics) -> Option<Self> {
        let Pat::Ident(name) = &*argument.pat else {
            diagnostics.error_on(&argument.pat, "a further operand has a plain name", &["write `bias: Rows<f32>`"]);
            return None;
        };
        let kind = matrix_name(&argument.ty).unwrap_or_else(|| argument.ty.to_token_stream().to_string());
        let element = element_path(&argument.ty).cloned();
        let last = |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string());
        let place = place_of(&argument.ty);
        let name_place = Tokens::from(name.ident.span());
        Some(Self {
            syntax: ParameterSyntax {
                name: name.ident.to_string(),
                name_place,
                kind,
                element: element.as_ref().and_then(last),
                type_place: place,
            },
            element,
        })
    }
}

impl Parameter {
    /// As the parser takes it.
    pub(crate) fn syntax(&self) -> ParameterSyntax<Tokens> {
        self.syntax.clone()
    }

    /// Its name and its place.
    pub(crate) fn name(&self) -> (&str, Tokens) {
        (&self.syntax.name, self.syntax.name_place)
    }
}

/// The place of a whole node.
fn place_of(node: &impl ToTokens) -> Tokens {
    let mut tokens = node.to_token_stream().into_iter();
    let first = tokens.next().map_or_else(Span::call_site, |token| token.span());
    Tokens { first, last: tokens.last().map_or(first, |token| token.span()) }
}

/// The epilogue that body, further operands and second result make; what is wrong with them goes to the diagnostics.
pub(crate) fn read(
    body: Option<&TokenTree>,
    further: &[Parameter],
    second: Option<&Type>,
    samples: bool,
    diagnostics: &mut Diagnostics,
) -> Option<(Epilogue, Tokens)> {
    let form = if samples { OF_SDDMM } else { "write `-> (Dense<bf16>, Rows<f32>)`" };
    let Some(TokenTree::Group(group)) = body else {
        if let Some(first) = further.first() {
            let help = ["give the function a body: `{ acc + bias }`".to_owned()];
            let fact = format!("`{}` is an operand of the epilogue, and there is no epilogue", first.syntax.name);
            diagnostics.error(first.syntax.name_place, &fact, &help);
        } else if let Some(second) = second {
            diagnostics.error_on(second, "a second result needs an epilogue", &[FORM]);
        }
        return None;
    };
    let parameters: Vec<_> = further.iter().map(|further| further.syntax.clone()).collect();
    let program = match parse_function(&parameters, &lexemes(group), &group.span_close().into()) {
        Ok(program) => program,
        Err(errors) => {
            errors.iter().for_each(|error| diagnostics.error(error.place, &error.fact, &error.help));
            return None;
        }
    };
    match (program.reduction(), second) {
        (Some(reduction), None) => {
            let fact = format!("the body has a second result, the {} of each row", reduction.as_str());
            diagnostics.error_on(body, &fact, &[form]);
        }
        (None, Some(second)) => diagnostics.error_on(second, "the body has one result", &[FORM]),
        (Some(_), Some(second)) => {
            let is_f32 = element_path(second).is_some_and(|path| path.is_ident("f32"));
            if matrix_name(second).as_deref() != Some("Rows") || !is_f32 {
                diagnostics.error_on(second, "the second result is `Rows<f32>`", &[form]);
            }
        }
        (None, None) => {}
    }
    if lie_otherwise(further, &program, samples, diagnostics) {
        return None;
    }
    Some((Epilogue::new(program), Tokens { first: group.span_open(), last: group.span_close() }))
}

/// Full operands that are not stored like the result, as a matrix or in blocks; they are reported.
fn lie_otherwise(further: &[Parameter], program: &Program, samples: bool, diagnostics: &mut Diagnostics) -> bool {
    let mut found = false;
    for (Parameter { syntax, .. }, input) in further.iter().zip(program.inputs()) {
        let (fact, wanted) = match (input.kind, samples) {
            (InputKind::Dense(dtype), true) => ("the result is stored in blocks", InputKind::Blocks(dtype)),
            (InputKind::Blocks(dtype), false) => ("the result is dense", InputKind::Dense(dtype)),
            _ => continue,
        };
        let fact = format!("`{}` is `{}`, and {fact}", input.name, input.kind.words());
        diagnostics.error(syntax.type_place, &fact, &[format!("write `{}: {}`", input.name, wanted.words())]);
        found = true;
    }
    found
}

const OF_SDDMM: &str = "write `-> (Bsr<bf16>, Rows<f32>)`";
const FORM: &str = "a body that ends in `(x, row_sum(y))` or `(x, row_max(y))` has two results";

/// The body as tokens of the epilogue's language.
pub(crate) fn lexemes(group: &Group) -> Vec<Lexeme<Tokens>> {
    let mut found = Vec::new();
    push(group.stream(), &mut found);
    found
}

fn push(tokens: TokenStream, found: &mut Vec<Lexeme<Tokens>>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let place = Tokens::from(token.span());
        match token {
            TokenTree::Ident(ident) => found.push(Lexeme { kind: LexemeKind::Word(ident.to_string()), place }),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let kind = match text.starts_with(|c: char| c.is_ascii_digit()) {
                    true => LexemeKind::Number(text),
                    false => LexemeKind::Other(text),
                };
                found.push(Lexeme { kind, place });
            }
            TokenTree::Punct(punct) => {
                let mut text = punct.as_char().to_string();
                let mut place = place;
                if let (Spacing::Joint, Some(TokenTree::Punct(next))) = (punct.spacing(), tokens.peek()) {
                    let both = format!("{text}{}", next.as_char());
                    if LexemeKind::SIGNS.contains(&both.as_str()) {
                        place.last = next.span();
                        text = both;
                        tokens.next();
                    }
                }
                let sign = LexemeKind::SIGNS.into_iter().find(|sign| *sign == text);
                found.push(Lexeme { kind: sign.map_or(LexemeKind::Other(text), LexemeKind::Sign), place });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => {
                        push(group.stream(), found);
                        continue;
                    }
                    Delimiter::Bracket => {
                        found.push(Lexeme { kind: LexemeKind::Other(group.to_string()), place });
                        continue;
                    }
                };
                found.push(Lexeme { kind: LexemeKind::Sign(open), place: group.span_open().into() });
                push(group.stream(), found);
                found.push(Lexeme { kind: LexemeKind::Sign(close), place: group.span_close().into() });
            }
        }
    }
}
