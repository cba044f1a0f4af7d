//! Expansions and errors as text.

#![allow(clippy::unwrap_used)]

use proc_macro_crate::FoundCrate;
use syn::{File, ImplItem, Item, parse_quote};

use crate::expand::expand;

const FUNCTION: &str = "fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;";
const TILE: &str = "bm = 128, bn = 128, bk = 64";

fn expansion(args: &str, item: &str) -> File {
    let tokens = expand(args.parse().unwrap(), item.parse().unwrap(), &Ok(FoundCrate::Itself));
    syn::parse2(tokens).unwrap()
}

/// The expansion as formatted source. What planning and emission made of the spec is not its business.
fn source(args: &str, item: &str) -> String {
    let mut file = expansion(args, item);
    forget_plans(&mut file.items);
    prettyplease::unparse(&file)
}

fn forget_plans(items: &mut [Item]) {
    let is_plan = |attribute: &syn::Attribute| {
        matches!(&attribute.meta, syn::Meta::NameValue(doc)
            if matches!(&doc.value, syn::Expr::Lit(text)
                if ["```text", "```ptx"].iter().any(|block| quote::quote!(#text).to_string().contains(block))))
    };
    for item in items {
        match item {
            Item::Struct(item) => item.attrs.retain(|attribute| !is_plan(attribute)),
            Item::Impl(item) => item.items.iter_mut().for_each(|member| match member {
                ImplItem::Const(made)
                    if item.trait_.is_none()
                        && ["__PTX", "PTX", "ENTRY", "FINGERPRINT"].iter().any(|name| made.ident == name) =>
                {
                    made.expr = parse_quote!("...");
                    made.attrs.retain(|attribute| !is_plan(attribute));
                }
                _ => {}
            }),
            Item::Mod(item) => forget_plans(&mut item.content.as_mut().unwrap().1),
            _ => {}
        }
    }
}

/// What the documentation of the type says, a line each.
fn documentation(args: &str, item: &str) -> String {
    let file = expansion(args, item);
    let Some(Item::Struct(item)) = file.items.iter().find(|item| matches!(item, Item::Struct(_))) else {
        return String::new();
    };
    let text = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::NameValue(doc) => match &doc.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    };
    item.attrs.iter().filter_map(text).collect()
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
        "fn spmm(a: Bsr<half>, b: Dense<e4m3>) -> Dense<f128>;",
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

/// The kernels for other GPUs, with what each adds to the program.
#[test]
fn fallbacks_are_documented() {
    let args = "bm = 512, bn = 128, bk = 112, fallback = on";
    let text = documentation(args, FUNCTION);
    let (_, kernels) = text.split_once("# For other GPUs").unwrap();
    let of = |line: &str| kernels.find(line).unwrap_or_else(|| panic!("{line}: {kernels}"));
    assert!(
        of("sm_80: mma = mma_sync, ") < of("sm_70: mma = wmma, ") && kernels.contains(" bytes of PTX"),
        "{kernels}"
    );
    for args in ["bm = 512, bn = 128, bk = 112", "bm = 512, bn = 128, bk = 112, fallback = off"] {
        assert!(!documentation(args, FUNCTION).contains("other GPUs"), "{args}");
    }
}

#[test]
fn errors_of_fallbacks() {
    let paired = "fn paired(a: Bsr<f16>, b: Bsr<f16>) -> Dense<f16>;";
    let attend = "fn attend(q: Dense<f16>, k: Dense<f16>, v: Dense<f16>, scale: f32) -> Dense<f16>;";
    let cases = [
        (TILE, paired),
        ("bm = 128, bn = 128, bk = 64, permute = on", FUNCTION),
        ("bm = 128, bn = 128, bk = 64, mma = mma_sync", FUNCTION),
        ("bm = 64, bn = 64, bk = 64, op = attention", attend),
        ("bm = 128, bn = [128, 256], bk = 64", "struct Spmm;"),
        ("bm = 128, bn = 128, bk = 64, fallback = on", FUNCTION),
        ("bm = 100, bn = 128, bk = 64", FUNCTION),
    ];
    let of = |args: &str, item: &str| format!("## {args}\n{item}\n{}\n", errors(args, item).join("\n"));
    let mut report: Vec<String> = cases.map(|(args, item)| of(&format!("{args}, fallback = on"), item)).into();
    report.push(of(&format!("{TILE}, fallback = mma_sync"), FUNCTION));
    snapshot("fallbacks", &report.join("\n"));
}

#[test]
fn a_list_makes_a_family() {
    let item = "/// Sparse times dense.\npub fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<f32>;";
    snapshot("family", &source("bm = 128, bn = 128, bk = 64, dtype = [f16, bf16]", item));
}

#[test]
fn a_family_is_documented_with_what_is_left_out() {
    let args = "bm = 128, bn = [128, 256], bk = 64, stages = 3..=6, cluster = [auto, 3]";
    snapshot("family_documentation", &documentation(args, "pub struct TallSpmm;"));
    let names: Vec<String> = expansion(args, "pub struct TallSpmm;")
        .items
        .iter()
        .find_map(|item| match item {
            Item::Mod(item) => Some((item.ident.to_string(), item.content.clone().unwrap().1)),
            _ => None,
        })
        .map(|(name, items)| {
            let types = items.iter().filter_map(|item| match item {
                Item::Struct(item) => Some(item.ident.to_string()),
                _ => None,
            });
            std::iter::once(name).chain(types).collect()
        })
        .unwrap();
    assert_eq!(names[..3], ["tall_spmm_members", "bn128_stages3_cluster_auto", "bn128_stages4_cluster_auto"]);
    assert!(names.iter().all(|name| !name.contains("cluster3")), "{names:?}");
}

#[test]
fn errors_of_families() {
    let generic = "fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;";
    let cases = [
        ("bm = 128, bn = [], bk = 64", "struct Spmm;"),
        ("bm = 128, bn = [128, 0x80], bk = 64", "struct Spmm;"),
        ("bm = 128, bn = [100, 128, 128], bk = [60, 64], stages = 2..=40", "struct Spmm;"),
        ("bm = 100, bn = [64, 128], bk = [60, 62]", "struct Spmm;"),
        ("bm = 100, bn = [64], bk = 64", "struct Spmm;"),
        (
            "bm = 64, bn = 64, bk = [32, 64], stages = [2, 3, 4], k_step = 32, schedule = [auto, strided, balanced], \
          c_layout = [row, col], swizzle = [32, 64]",
            "struct Spmm;",
        ),
        ("bm = 128, bn = [64, 128], bk = 64, dtype = [f16, bf16]", FUNCTION),
        ("bm = 128, bn = [64, 128], bk = 64", generic),
        ("bm = 128, bn = 128, bk = 64, dtype = bf16", generic),
        ("bm = 128, bn = 128, bk = 64, dtype = [f16, e5m2]", generic),
        ("bm = 128, bn = 128, bk = 64, dtype = [f16, bf16], out = bf16", generic),
        (
            "bm = 128, bn = [64, 128], bk = 64",
            "fn spmm<'a, const N: u32, T: Copy, U>(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> where U: Copy;",
        ),
    ];
    let report = |(args, item): (&str, &str)| format!("## {args}\n{item}\n{}\n", errors(args, item).join("\n"));
    snapshot("families", &cases.map(report).join("\n"));
}

#[test]
fn wrong_families_keep_their_members() {
    let members = |args: &str| {
        let file = expansion(args, "struct Spmm;");
        let content = file.items.iter().find_map(|item| match item {
            Item::Mod(item) => item.content.clone(),
            _ => None,
        });
        content.unwrap().1.iter().filter(|item| matches!(item, Item::Struct(_))).count()
    };
    assert_eq!(members("bm = 100, bn = [64, 128], bk = 64"), 2);
    assert_eq!(members("bm = 128, bn = [64, 128, 100], bk = 64"), 2);
    assert_eq!(members("bm = 128, bn = [64, 64], bk = 64"), 0);
}
