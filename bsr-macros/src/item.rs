//! The item under the attribute: a function, whose body is the epilogue, or a unit struct.
//!
//! The function of a family may be generic over the element types that its lists name.

use bsr_codegen::Epilogue;
use proc_macro2::{TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Fields, Ident, ItemStruct, Signature, Token, Visibility};

use crate::args::Tokens;
use crate::diagnose::Diagnostics;
use crate::epilogue;
use crate::signature::{self, Operands};

/// What the kernel is called, who sees it, and what its operands are.
pub(crate) struct Item {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    /// How many arguments the item has, where it is a function.
    pub(crate) arguments: Option<usize>,
    /// The operand types, where the item is a function.
    pub(crate) operands: Operands,
    /// The body of the function.
    pub(crate) epilogue: Option<(Epilogue, Tokens)>,
}

const FORMS: &str = "write `fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;` or `struct Spmm;`";

impl Item {
    /// Reads the item; what is wrong with it goes to the diagnostics.
    ///
    /// # Errors
    /// Where it is neither a function nor a struct, so that no kernel can be named after it.
    pub(crate) fn read(item: TokenStream, is_family: bool, diagnostics: &mut Diagnostics) -> syn::Result<Self> {
        match syn::parse2::<Form>(item)? {
            Form::Struct(item) => {
                if !matches!(item.fields, Fields::Unit) {
                    diagnostics.error_on(&item.fields, "a kernel struct has no fields", &[FORMS]);
                }
                if !item.generics.params.is_empty() {
                    diagnostics.error_on(&item.generics, "a kernel has no generics", &[FORMS]);
                }
                Ok(Self {
                    attributes: item.attrs,
                    visibility: item.vis,
                    name: item.ident,
                    arguments: None,
                    operands: Operands::default(),
                    epilogue: None,
                })
            }
            Form::Function { attributes, visibility, signature, body } => {
                let operands = signature::read(&signature, is_family, diagnostics);
                let second = operands.second.as_ref();
                let samples = operands.operation.is_some_and(|(op, _)| signature::matrices(op)[2] == "Bsr");
                let epilogue = epilogue::read(body.as_ref(), &operands.further, second, samples, diagnostics);
                let arguments = Some(signature.inputs.len());
                Ok(Self { attributes, visibility, operands, epilogue, name: signature.ident, arguments })
            }
        }
    }
}

/// A struct, or a function and its body.
pub(crate) enum Form {
    Struct(ItemStruct),
    Function { attributes: Vec<Attribute>, visibility: Visibility, signature: Box<Signature>, body: Option<TokenTree> },
}

impl Parse for Form {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if input.peek(Token![struct]) {
            let mut item: ItemStruct = input.parse()?;
            item.attrs = attributes;
            item.vis = visibility;
            return Ok(Self::Struct(item));
        }
        let Ok(signature) = input.parse() else {
            let fact = "a kernel is a function without a body or a unit struct";
            return Err(input.error(format!("{fact}\nhelp: {FORMS}")));
        };
        let body = match input.parse::<Option<Token![;]>>()? {
            Some(_) => None,
            None => Some(input.parse()?),
        };
        Ok(Self::Function { attributes, visibility, signature: Box::new(signature), body })
    }
}
