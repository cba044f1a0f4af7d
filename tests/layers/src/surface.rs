//! The public items of the library: what a program can name through the crate `bsr`, documented as its own.
//!
//! Counted are types, traits, functions, methods, constants, macros and modules, each once, wherever they are declared.
//! Fields and variants belong to their type. What is `#[doc(hidden)]`, and what macros write, does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

use crate::source::{self, File, ModulePath};

/// An item or a module by its crate, its module and its name.
type Definition = (usize, ModulePath, Option<String>);

/// Crates by the names under which Rust knows them, the library first, and their folders.
const CRATES: [(&str, &str); 6] = [
    ("bsr", ""),
    ("bsr_codegen", "codegen"),
    ("bsr_macros", "bsr-macros"),
    ("bsr_runtime", "runtime"),
    ("bsr_simulator", "simulator"),
    ("bsr_tuner", "tuner"),
];

struct Library {
    crates: Vec<BTreeMap<ModulePath, File>>,
    public: BTreeSet<Definition>,
}

/// How many public items each module of the library has, by its crate.
pub(crate) fn items() -> BTreeMap<String, usize> {
    let read = |(_, folder): &(&str, &str)| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("src/lib.rs");
        source::read(&root).into_iter().map(|file| (file.module.clone(), file)).collect()
    };
    let mut library = Library { crates: CRATES.iter().map(read).collect(), public: BTreeSet::new() };
    library.visit((0, vec![], None));
    let mut counts = BTreeMap::new();
    let module = |(of, module, _): &Definition| {
        [&[CRATES[*of].0.to_owned()], &module[..module.len().min(1)]].concat().join("::")
    };
    for definition in &library.public {
        *counts.entry(module(definition)).or_default() += 1 + library.members(definition);
    }
    for (of, path, methods) in library.methods() {
        *counts.entry(module(&(of, path, None))).or_default() += methods;
    }
    counts
}

impl Library {
    /// Adds a definition, and of a module what it shows.
    fn visit(&mut self, definition: Definition) {
        let (of, module, name) = definition.clone();
        if !self.public.insert(definition) || name.is_some() {
            return;
        }
        let mut shown = vec![];
        for item in &self.crates[of][&module].syntax {
            let (visibility, attributes) = head(item);
            if !matches!(visibility, Some(Visibility::Public(_))) || is_hidden(attributes) {
                continue;
            }
            match item {
                Item::Mod(child) if child.content.is_none() => {
                    shown.push((of, [&module[..], &[child.ident.to_string()]].concat(), None));
                }
                Item::Mod(_) => {}
                Item::Use(item) => {
                    for path in leaves(&item.tree) {
                        shown.extend(self.resolve(of, &module, &path));
                    }
                }
                item => shown.extend(source::name(item).map(|name| (of, module.clone(), Some(name)))),
            }
        }
        shown.into_iter().for_each(|definition| self.visit(definition));
    }

    /// What a path names, where it is in one of the crates.
    fn resolve(&self, of: usize, module: &[String], path: &[String]) -> Option<Definition> {
        let children = &self.crates[of][module].children;
        let named = |name: &str| CRATES.iter().position(|(known, _)| *known == name && !children.contains(name));
        let (mut at, mut rest) = match path[0].as_str() {
            "crate" => ((of, vec![]), &path[1..]),
            "self" => ((of, module.to_vec()), &path[1..]),
            "super" => ((of, module[..module.len() - 1].to_vec()), &path[1..]),
            name => match named(name) {
                Some(other) => ((other, vec![]), &path[1..]),
                None => ((of, module.to_vec()), path),
            },
        };
        while let Some((name, behind)) = rest.split_first() {
            let file = &self.crates[at.0][&at.1];
            if name == "super" {
                at.1.pop();
            } else if file.children.contains(name) {
                at.1.push(name.clone());
            } else if file.items.contains(name) {
                return Some((at.0, at.1, Some(name.clone())));
            } else {
                let import = file.imports.get(name).filter(|import| import.path[0] != *name)?;
                match self.resolve(at.0, &at.1, &import.path)? {
                    (of, module, None) => at = (of, module),
                    item => return Some(item),
                }
            }
            rest = behind;
        }
        Some((at.0, at.1, None))
    }

    /// Methods of a trait.
    fn members(&self, (of, module, name): &Definition) -> usize {
        let Some(name) = name else { return 0 };
        let traits = self.crates[*of][module].syntax.iter().filter_map(|item| match item {
            Item::Trait(item) if item.ident == name => Some(item),
            _ => None,
        });
        let shown = |item: &&TraitItem| matches!(item, TraitItem::Fn(item) if !is_hidden(&item.attrs));
        traits.map(|item| item.items.iter().filter(shown).count()).sum()
    }

    /// Methods and constants of public types, by the crate and module in which they are declared.
    fn methods(&self) -> Vec<(usize, ModulePath, usize)> {
        let mut found = vec![];
        for (of, files) in self.crates.iter().enumerate() {
            for (module, file) in files {
                for item in &file.syntax {
                    let Item::Impl(item) = item else { continue };
                    let (None, Type::Path(path), false) = (&item.trait_, &*item.self_ty, is_hidden(&item.attrs)) else {
                        continue;
                    };
                    let path: Vec<String> = path.path.segments.iter().map(|part| part.ident.to_string()).collect();
                    if self.resolve(of, module, &path).is_some_and(|definition| self.public.contains(&definition)) {
                        let shown = |item: &&ImplItem| match item {
                            ImplItem::Fn(item) => matches!(item.vis, Visibility::Public(_)) && !is_hidden(&item.attrs),
                            ImplItem::Const(item) => {
                                matches!(item.vis, Visibility::Public(_)) && !is_hidden(&item.attrs)
                            }
                            _ => false,
                        };
                        found.push((of, module.clone(), item.items.iter().filter(shown).count()));
                    }
                }
            }
        }
        found
    }
}

fn head(item: &Item) -> (Option<&Visibility>, &[Attribute]) {
    let visibility = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Use(item) => &item.vis,
        _ => return (None, &[]),
    };
    (Some(visibility), source::attributes(item))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc") && attribute.meta.to_token_stream().to_string().contains("hidden")
    })
}

/// The paths of a `use` item.
fn leaves(tree: &UseTree) -> Vec<ModulePath> {
    let below = |first: String, tree: &UseTree| {
        leaves(tree).into_iter().map(|path| [std::slice::from_ref(&first), &path[..]].concat()).collect()
    };
    match tree {
        UseTree::Path(path) => below(path.ident.to_string(), &path.tree),
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Name(name) if name.ident == "self" => vec![vec![]],
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(renamed) if renamed.ident == "self" => vec![vec![]],
        UseTree::Rename(renamed) => vec![vec![renamed.ident.to_string()]],
        UseTree::Glob(_) => vec![vec![]],
    }
}
