//! `fallback = on`: kernels for GPUs that do not run the Hopper kernel, embedded beside it.
//!
//! It is an argument of the attribute and no key of a spec: a spec is one kernel, and stays what it is without the word.

use bsr_codegen::{KernelSpec, Plan};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;

use crate::compile::{Compiled, emit};
use crate::diagnose::Diagnostics;
use crate::kernel::planned;
use crate::library::split;
use crate::literal::literal;

/// How every refusal begins, and what helps.
const NONE: &str = "no fallback is embedded";
const DROP: &str = "drop `fallback`";

/// Whether kernels for other GPUs are asked for, and where.
#[derive(Clone, Copy)]
pub(crate) struct Fallback(Option<Span>);

impl Fallback {
    /// Takes `fallback = on` out of the attribute's arguments.
    pub(crate) fn read(args: TokenStream, diagnostics: &mut Diagnostics) -> (Self, TokenStream) {
        let mut rest = TokenStream::new();
        let mut given: Option<Self> = None;
        for argument in split(args) {
            let Some(TokenTree::Ident(key)) = argument.first().filter(|token| token.to_string() == "fallback") else {
                rest.extend(argument);
                continue;
            };
            if given.is_some() {
                diagnostics.error_on(key, "`fallback` is given twice", &["give it once"]);
            }
            let value: String = argument[1..].iter().map(ToString::to_string).collect();
            given = Some(match value.trim_end_matches(',') {
                "=on" | "=true" => Self(Some(key.span())),
                "=off" | "=false" | "=auto" => Self(None),
                _ => {
                    diagnostics.error_on(key, "`fallback` is `on` or `off`", &["write `fallback = on`"]);
                    Self(None)
                }
            });
        }
        (given.unwrap_or(Self(None)), rest)
    }

    /// The kernels for other GPUs; what is in the way is an error on the argument.
    pub(crate) fn kernels(self, spec: &KernelSpec, diagnostics: &mut Diagnostics) -> Vec<(Plan, Compiled)> {
        let Self(Some(span)) = self else { return Vec::new() };
        match Plan::fallbacks(spec) {
            Ok(plans) => {
                let compiled = plans.iter().map(emit).collect::<Vec<_>>();
                plans.into_iter().zip(compiled).collect()
            }
            Err(errors) => {
                for error in errors.iter() {
                    diagnostics.error(span.into(), &format!("{NONE}: {error}"), &[DROP.to_owned()]);
                }
                Vec::new()
            }
        }
    }

    /// Refuses the argument beside an attention.
    pub(crate) fn refuse_attention(self, diagnostics: &mut Diagnostics) {
        self.refuse(
            &format!("{NONE}: an attention is of one kernel; mma = mma_sync is for every GPU from sm_80 on"),
            DROP,
            diagnostics,
        );
    }

    /// Refuses the argument beside a family.
    pub(crate) fn refuse_family(self, diagnostics: &mut Diagnostics) {
        let help = "drop `fallback`, and list the instructions: mma = [wgmma, mma_sync]";
        self.refuse(&format!("{NONE}: a family says itself which kernels there are"), help, diagnostics);
    }

    fn refuse(self, fact: &str, help: &str, diagnostics: &mut Diagnostics) {
        if let Self(Some(span)) = self {
            diagnostics.error(span.into(), fact, &[help.to_owned()]);
        }
    }
}

/// The kernels for other GPUs of the kernel `name`, and the constant of `bsr::Kernel` with them; nothing without any.
pub(crate) fn embedded(name: &Ident, kernels: &[(Plan, Compiled)]) -> [TokenStream; 2] {
    if kernels.is_empty() {
        return [TokenStream::new(), TokenStream::new()];
    }
    let kernels = kernels.iter().map(|(plan, Compiled { ptx, entry, .. })| {
        let spec = literal(plan.spec());
        let planned = planned(&spec);
        quote! {
            ::bsr::Fallback::new(#spec, #ptx, #entry, {
                fn plan() -> &'static ::bsr::Plan {
                    #planned
                }
                plan
            })
        }
    });
    // By another name: rustdoc prints the expression of a constant.
    let texts = quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #name {
            #[doc(hidden)]
            const __FALLBACKS: &'static [::bsr::Fallback] = &[#(#kernels),*];
        }
    };
    [texts, quote! { const FALLBACKS: &'static [::bsr::Fallback] = Self::__FALLBACKS; }]
}

/// What the documentation of the type says of them, and what they cost.
pub(crate) fn documentation(kernels: &[(Plan, Compiled)]) -> TokenStream {
    if kernels.is_empty() {
        return TokenStream::new();
    }
    let line = |(plan, Compiled { ptx, .. }): &(Plan, Compiled)| {
        let KernelSpec { mma, .. } = plan.spec();
        format!("{}: mma = {mma}, {} bytes of PTX\n  {}\n", plan.arch().target, ptx.len(), plan.summary())
    };
    let lines: String = kernels.iter().map(line).collect();
    let text =
        format!("\n# For other GPUs\n\nA GPU that is no Hopper loads the first that it runs:\n\n```text\n{lines}```");
    quote! { #[doc = #text] }
}
