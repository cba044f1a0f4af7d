//! Where the library is: the path by which the crate with the kernel knows it.
//!
//! What the attribute makes names everything from `::bsr`. That is right where the dependency goes by the library's own
//! name. Where it is renamed, or `crate = path` says where it is, [`Library::in_place`] puts that path there.

use proc_macro_crate::{Error, FoundCrate};
use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Path, Token};

use crate::diagnose::Diagnostics;

/// The package that holds the library.
pub(crate) const PACKAGE: &str = "bsr-gemm";

/// What the manifest of the crate with the kernel says of [`PACKAGE`].
pub(crate) type Found = Result<FoundCrate, Error>;

/// The path of the library, where it is not `::bsr`.
#[derive(Default)]
pub(crate) struct Library(Option<TokenStream>);

impl Library {
    /// Takes `crate = path` out of the attribute's arguments; without it, the manifest says where the library is.
    pub(crate) fn read(args: TokenStream, found: &Found, diagnostics: &mut Diagnostics) -> (Self, TokenStream) {
        let mut rest = TokenStream::new();
        let mut given = None;
        for argument in split(args) {
            match argument.first() {
                Some(TokenTree::Ident(key)) if *key == "crate" => {
                    if given.is_some() {
                        diagnostics.error_on(key, "`crate` is given twice", &["give it once"]);
                    }
                    given = Some(Self::given(key, &argument, diagnostics));
                }
                _ => rest.extend(argument),
            }
        }
        (given.unwrap_or_else(|| Self::found(found, diagnostics)), rest)
    }

    /// `crate = path`.
    fn given(key: &Ident, argument: &[TokenTree], diagnostics: &mut Diagnostics) -> Self {
        let parse = |input: ParseStream<'_>| {
            input.parse::<Token![crate]>()?;
            input.parse::<Token![=]>()?;
            let path = input.call(Path::parse_mod_style)?;
            input.parse::<Option<Token![,]>>()?;
            Ok(path)
        };
        match parse.parse2(argument.iter().cloned().collect()) {
            Ok(path) => Self(Some(quote!(#path))),
            Err(_) => {
                let help = ["write `crate = sparse` or `crate = path::to::bsr`"];
                diagnostics.error_on(key, "`crate` names the path of the library", &help);
                Self::default()
            }
        }
    }

    fn found(found: &Found, diagnostics: &mut Diagnostics) -> Self {
        match found {
            // A dependency that is not renamed goes by the name of the library, not by that of the package.
            Ok(FoundCrate::Name(name)) if name != "bsr" && *name != PACKAGE.replace('-', "_") => {
                let renamed = Ident::new(name, Span::call_site());
                Self(Some(quote!(::#renamed)))
            }
            Err(Error::CrateNotFound { .. }) => {
                let fact = format!("this crate does not depend on `{PACKAGE}` itself");
                let help = "give the path of the library: `crate = path::to::bsr`";
                diagnostics.error(Span::call_site().into(), &fact, &[help.to_owned()]);
                Self::default()
            }
            // The library itself and its tests; a build without manifests, where the name is all there is.
            Ok(_) | Err(_) => Self::default(),
        }
    }

    /// The tokens with the library's path in the place of every `::bsr` that begins a path.
    pub(crate) fn in_place(&self, tokens: TokenStream) -> TokenStream {
        match &self.0 {
            Some(path) => replaced(tokens, path),
            None => tokens,
        }
    }
}

/// Arguments between commas, each with the comma behind it.
pub(crate) fn split(args: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut arguments = Vec::new();
    let mut argument = Vec::new();
    for token in args {
        let is_last = is_punct(Some(&token), ',');
        argument.push(token);
        if is_last {
            arguments.push(std::mem::take(&mut argument));
        }
    }
    arguments.push(argument);
    arguments
}

fn replaced(tokens: TokenStream, path: &TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut result = TokenStream::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if begins_with_library(&tokens[at..]) && !goes_on(&tokens[..at]) {
            result.extend(path.clone());
            at += 3;
            continue;
        }
        result.extend([match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replaced(group.stream(), path));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other.clone(),
        }]);
        at += 1;
    }
    result
}

/// `::bsr`.
fn begins_with_library(tokens: &[TokenTree]) -> bool {
    let is_library = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if *ident == "bsr");
    is_punct(tokens.first(), ':') && is_punct(tokens.get(1), ':') && tokens.get(2).is_some_and(is_library)
}

/// Whether a path that follows these tokens is the rest of one: `crate` before `::bsr`, but not `impl`.
fn goes_on(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Ident(ident)] => {
            let starts_paths = ["crate", "self", "super", "Self", "$crate"].iter().any(|word| *ident == word);
            starts_paths || !is_keyword(ident)
        }
        [.., dash, close] if is_punct(Some(close), '>') => !is_punct(Some(dash), '-'),
        _ => false,
    }
}

fn is_keyword(ident: &Ident) -> bool {
    syn::parse2::<Ident>(quote!(#ident)).is_err()
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The arguments that are left, where `::bsr::Plan` is, and the errors.
    fn read(args: &str, found: Found) -> (String, String, String) {
        let mut diagnostics = Diagnostics::default();
        let (library, rest) = Library::read(args.parse().unwrap(), &found, &mut diagnostics);
        let tokens = library.in_place(quote!(::bsr::Plan));
        let compact = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        (compact(rest), compact(tokens), quote!(#diagnostics).to_string())
    }

    fn named(name: &str) -> Found {
        Ok(FoundCrate::Name(name.into()))
    }

    fn absent() -> Found {
        Err(Error::CrateNotFound { crate_name: PACKAGE.into(), path: "Cargo.toml".into() })
    }

    #[test]
    fn the_library_is_where_the_manifest_has_it() {
        let place = |found| {
            let (rest, place, errors) = read("bm = 64, bn = 64", found);
            assert_eq!((&*rest, &*errors), ("bm=64,bn=64", ""));
            place
        };
        assert_eq!(place(named("sparse")), "::sparse::Plan");
        assert_eq!(place(named("bsr_gemm")), "::bsr::Plan");
        assert_eq!(place(named("bsr")), "::bsr::Plan");
        assert_eq!(place(Ok(FoundCrate::Itself)), "::bsr::Plan");
        assert_eq!(place(Err(Error::CargoManifestDirNotSet)), "::bsr::Plan");
    }

    #[test]
    fn a_path_that_is_given_counts() {
        for args in ["crate = other::bsr, bm = 64", "bm = 64, crate = other::bsr", "bm = 64, crate = other::bsr,"] {
            let (rest, place, errors) = read(args, absent());
            assert_eq!((rest.trim_end_matches(','), &*place, &*errors), ("bm=64", "other::bsr::Plan", ""), "{args}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |args: &str, found| read(args, found).2;
        assert!(error("bm = 64", absent()).contains("does not depend on `bsr-gemm` itself"));
        assert!(error("crate = 3, bm = 64", named("bsr")).contains("`crate` names the path of the library"));
        assert!(error("crate: other", named("bsr")).contains("`crate` names the path of the library"));
        assert!(error("crate = a, crate = b", named("bsr")).contains("`crate` is given twice"));
    }

    #[test]
    fn only_a_path_that_begins_with_the_library_is_replaced() {
        let library = Library(Some(quote!(::sparse)));
        let tokens = quote! {
            impl ::bsr::Kernel for ::other::bsr::Kernel {
                fn of(x: crate::bsr::Bsr<::bsr::f16>) -> ::bsr::Plan { <Self as ::bsr::Kernel>::bsr::plan() }
            }
        };
        let wanted = quote! {
            impl ::sparse::Kernel for ::other::bsr::Kernel {
                fn of(x: crate::bsr::Bsr<::sparse::f16>) -> ::sparse::Plan { <Self as ::sparse::Kernel>::bsr::plan() }
            }
        };
        assert_eq!(library.in_place(tokens).to_string(), wanted.to_string());
    }
}
