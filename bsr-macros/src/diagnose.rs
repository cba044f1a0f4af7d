//! Errors as compile errors on the guilty tokens.

use bsr_codegen::PlanError;
use bsr_codegen::spec::{SpecError, SpecErrorKind};
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;

use crate::args::Tokens;

/// Everything wrong with one use of the attribute.
#[derive(Default)]
pub(crate) struct Diagnostics(Vec<syn::Error>);

impl Diagnostics {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An error on some tokens: the fact, then the remedies, one a line.
    pub(crate) fn error(&mut self, place: Tokens, fact: &str, help: &[String]) {
        let mut message = fact.to_string();
        for line in help {
            message.push_str("\nhelp: ");
            message.push_str(line);
        }
        self.0.push(syn::Error::new_spanned(place, message));
    }

    /// As [`Diagnostics::error`], on the tokens of a syntax node.
    pub(crate) fn error_on(&mut self, node: impl ToTokens, fact: &str, help: &[&str]) {
        let help: Vec<String> = help.iter().map(|line| (*line).into()).collect();
        let mut message = vec![fact.to_string()];
        message.extend(help.iter().map(|line| format!("help: {line}")));
        self.0.push(syn::Error::new_spanned(node, message.join("\n")));
    }

    /// A reason why a kernel cannot be planned, between words of the whole it belongs to.
    pub(crate) fn plan(&mut self, place: Tokens, error: &PlanError, before: &str, after: &str) {
        let help: Vec<String> = error.help().map(Into::into).into_iter().collect();
        self.error(place, &format!("{before}{error}{after}"), &help);
    }

    /// An error of the grammar; what it disagrees with is pointed at as well.
    pub(crate) fn spec(&mut self, error: &SpecError<Tokens>) {
        self.spec_with(error, &[]);
    }

    /// As [`Diagnostics::spec`], with one more remedy or several.
    pub(crate) fn spec_with(&mut self, error: &SpecError<Tokens>, more: &[String]) {
        let help: Vec<String> = error.help().iter().chain(more).cloned().collect();
        self.error(error.place, &error.to_string(), &help);
        let Some(earlier) = error.earlier else { return };
        match &error.kind {
            SpecErrorKind::Duplicate { key } => self.error(earlier, &format!("`{key}` is given here first"), &[]),
            SpecErrorKind::Repeated { value, .. } => {
                self.error(earlier, &format!("`{value}` is listed here first"), &[])
            }
            _ => {}
        }
    }
}

impl From<syn::Error> for Diagnostics {
    fn from(error: syn::Error) -> Self {
        Self(vec![error])
    }
}

/// The errors as `compile_error!` invocations.
impl ToTokens for Diagnostics {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.iter().map(syn::Error::to_compile_error));
    }
}

/// The first and the last token of a place.
impl ToTokens for Tokens {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        Ident::new("first", self.first).to_tokens(tokens);
        Ident::new("last", self.last).to_tokens(tokens);
    }
}
