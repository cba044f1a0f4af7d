//! Expansions and errors as text.

#![allow(clippy::unwrap_used)]

use syn::{File, ImplItem, Item, parse_quote};

use crate::expand::expand;

const FUNCTION: &str = "fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;";
const TILE: &str = "bm = 128, bn = 128, bk = 64";

fn expansion(args: &str, item: &str) -> File {
    let tokens = expand(args.parse().unwrap(), item.parse().unwrap());
    syn::parse2(tokens).unwrap()
}

/// The expansion as formatted source. What planning and emission made of the spec is not its business.
fn source(args: &str, item: &str) -> String {
    let mut file = expansion(args, item);
    for item in &mut file.items {
        match item {
            Item::Struct(item) => {
                let is_plan = |attribute: &syn::Attribute| {
                    matches!(&attribute.meta, syn::Meta::NameValue(doc)
                        if matches!(&doc.value, syn::Expr::Lit(text)
                            if quote::quote!(#text).to_string().contains("# The plan")))
                };
                item.attrs.retain(|attribute| !is_plan(attribute));
            }
            Item::Impl(item) => item.items.iter_mut().for_each(|member| match member {
                ImplItem::Const(made) if made.ident != "SPEC" && item.trait_.is_none() => {
                    made.expr = parse_quote!("...");
                }
                _ => {}
            }),
            _ => {}
        }
    }
    prettyplease::unparse(&file)
}

/// The messages of the compile errors in the expansion.
fn errors(args: &str, item: &str) -> Vec<String> {
    let message = |item: &Item| match item {
        Item::Macro(item) => {
            let text = item.mac.parse_body::<syn::LitStr>();
            text.ok().map(|text| text.value())
        }
        _ => None,
    };
    let file = expansion(args, item);
    file.items.iter().filter_map(message).collect()
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

#[test]
fn a_function_becomes_a_type() {
    let item = format!("/// Sparse times dense.\n#[deprecated] pub(crate) {FUNCTION}");
    snapshot("function", &source(TILE, &item));
}

#[test]
fn a_unit_struct_stays_one() {
    let args = "bm = 128, bn = 128, bk = 64, dtype = bf16, out = f32, b_layout = col, stages = 3, schedule = strided";
    snapshot("struct", &source(args, "#[derive(Debug)] pub struct Spmm;"));
}

#[test]
fn an_invalid_spec_leaves_a_skeleton_with_its_dtypes() {
    let item = "fn spmm(a: Bsr<bf16>, b: Dense<bf16>) -> Dense<f32>;";
    snapshot("skeleton", &source("bm = 128, bn = 128, stage = 3", item));
}

#[test]
fn an_item_that_cannot_be_a_kernel_is_kept() {
    snapshot("enum", &source(TILE, "pub enum Color { Red }"));
}

#[test]
fn errors_of_items() {
    let items = [
        "fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> { relu(a * b) }",
        "fn spmm(a: Dense<f16>, b: Bsr<f16>) -> Dense<f16>;",
        "fn spmm(a: Bsr<f16>, b: Bsr<f16>) -> Dense<f16>;",
        "fn spmm(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;",
        "fn spmm(a: &Bsr<f16>, b: Dense) -> Dense<f16, 3>;",
        "fn spmm(a: Bsr<f16>) -> Dense<f16>;",
        "fn spmm();",
        "fn spmm(a: Bsr<f16>, b: Dense<f16>, c: Dense<f16>);",
        "fn spmm(a: Bsr<half>, b: Dense<e4m3>) -> Dense<f64>;",
        "fn spmm(&self, a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;",
        "const unsafe extern \"C\" fn spmm<T>(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> where T: Copy;",
        "async fn spmm(a: bsr::Bsr<half::f16>, b: Dense<f16>) -> Dense<f16>;",
        "struct Spmm { tile: u32 }",
        "struct Spmm<T>;",
        "enum Spmm { A }",
        "const SPMM: u32 = 3;",
    ];
    let report = |item: &str| format!("## {item}\n{}\n", errors(TILE, item).join("\n"));
    snapshot("items", &items.map(report).join("\n"));
}

#[test]
fn errors_of_arguments() {
    let arguments = [
        "",
        "bm = 128, bn = 128, bk = 64, stage = 3, bm = 64",
        "bm = 128, bn = 128, bk = 64, dtype = bf16",
        "bm = 128, bn = 128, bk = 64, b = bf16, out = f32",
        "bm = 128, bn = 128, bk = 64, dtype = f16, out = f16",
        "bm = 8 * 16, bn 128, mma = scalar",
    ];
    let report = |args: &str| format!("## {args}\n{}\n", errors(args, FUNCTION).join("\n"));
    snapshot("arguments", &arguments.map(report).join("\n"));
}
