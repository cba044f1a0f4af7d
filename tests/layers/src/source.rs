//! Reads a crate: its files along `mod` lines, the names each one declares and imports, the paths that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

use crate::tokens::Scan;

pub(crate) type ModulePath = Vec<String>;

/// A source file without what is compiled for tests only.
#[derive(Default)]
pub(crate) struct File {
    pub(crate) module: ModulePath,
    /// What its `use` items bring in: the local name and the path as written.
    pub(crate) imports: BTreeMap<String, Import>,
    /// The modules whose names it takes by `*`.
    pub(crate) globs: Vec<ModulePath>,
    /// The items it declares.
    pub(crate) items: BTreeSet<String>,
    /// The modules that it declares in files of their own.
    pub(crate) children: BTreeSet<String>,
    /// Paths and words of its code outside of `use` items.
    pub(crate) code: Scan,
    /// All of its items.
    pub(crate) syntax: Vec<Item>,
}

pub(crate) struct Import {
    pub(crate) path: ModulePath,
    pub(crate) is_export: bool,
}

/// The files of the crate with this root, in the order of their `mod` lines.
pub(crate) fn read(root: &Path) -> Vec<File> {
    let mut files = vec![];
    follow(root, vec![], &mut files);
    files
}

fn follow(path: &Path, module: ModulePath, files: &mut Vec<File>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (file, below) = File::parse(module.clone(), &text);
    files.push(file);
    for declared in below {
        follow(&file_of(path, &declared), [&module[..], &[declared.ident.to_string()]].concat(), files);
    }
}

impl File {
    /// A file by its text, and the modules that it declares in files of their own.
    pub(crate) fn parse(module: ModulePath, text: &str) -> (Self, Vec<ItemMod>) {
        let mut file = Self { module, ..Self::default() };
        let mut below = vec![];
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", file.module.join("::")));
        for item in parsed.items.into_iter().filter(|item| !is_test(item)) {
            file.syntax.push(item.clone());
            match item {
                Item::Mod(declared) if declared.content.is_none() => {
                    file.children.insert(declared.ident.to_string());
                    below.push(declared);
                }
                Item::Use(item) => {
                    let is_export = !matches!(item.vis, Visibility::Inherited);
                    file.import(&item.tree, &mut vec![], is_export);
                }
                item => {
                    file.items.extend(name(&item));
                    file.code.read(item.into_token_stream());
                }
            }
        }
        (file, below)
    }

    fn import(&mut self, tree: &UseTree, before: &mut ModulePath, is_export: bool) {
        let mut named = |name: String, path: ModulePath| self.imports.insert(name, Import { path, is_export });
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, is_export);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before, is_export)),
            UseTree::Glob(_) => self.globs.push(before.clone()),
            UseTree::Name(name) if name.ident == "self" => {
                named(before.last().unwrap().clone(), before.clone());
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                named(name.clone(), [&before[..], &[name]].concat());
            }
            UseTree::Rename(renamed) => {
                let path = [&before[..], &[renamed.ident.to_string()]].concat();
                named(renamed.rename.to_string(), path);
            }
        }
    }
}

/// Where the file of `mod name;` is: beside the file that declares it, or in the folder of that file's name.
fn file_of(parent: &Path, declared: &ItemMod) -> PathBuf {
    let folder = parent.parent().unwrap();
    let quoted =
        |attribute: &Attribute| attribute.meta.to_token_stream().to_string().split('"').nth(1).map(str::to_owned);
    if let Some(path) = declared.attrs.iter().find(|attribute| attribute.path().is_ident("path")).and_then(quoted) {
        return folder.join(path);
    }
    let stem = parent.file_stem().unwrap();
    let folder = match stem.to_str() {
        Some("mod" | "lib") => folder.to_owned(),
        _ => folder.join(stem),
    };
    let name = declared.ident.to_string();
    let alone = folder.join(format!("{name}.rs"));
    if alone.exists() { alone } else { folder.join(name).join("mod.rs") }
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_test(item: &Item) -> bool {
    attributes(item).iter().any(|attribute| {
        let condition = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("cfg") && condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
    })
}

pub(crate) fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
