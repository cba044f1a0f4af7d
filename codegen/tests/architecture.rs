//! The compiler's layers, held by reading the `use` lines of its source: every module names only what lies below it, a
//! kernel family names no other family, a plan names no emitter, and no cycle joins more than two files.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The top-level modules, the lowest first: a module uses those before it, and never those after it.
const LAYERS: [&str; 16] = [
    "steps",
    "message",
    "fingerprint",
    "place",
    "suggest",
    "words",
    "arch",
    "epilogue",
    "spec",
    "probes",
    "plan",
    "emit",
    "lists",
    "hopper",
    "roofs",
    "families",
];

/// A file of the crate: its module path, the module paths that its code names, and what it only hands on.
struct File {
    module: Vec<String>,
    uses: BTreeSet<Vec<String>>,
    /// A name that the file re-exports, with the path that it is from.
    exports: BTreeMap<String, Vec<String>>,
}

#[test]
fn modules_use_only_the_layers_below_them() {
    let mut wrong = vec![];
    for file in files() {
        let Some(own) = file.module.first().and_then(|name| layer(name)) else { continue };
        for used in &file.uses {
            if layer(&used[0]).is_some_and(|layer| layer > own) {
                wrong.push(format!("{} uses {}", file.module.join("::"), used.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "these point upward; the order is {LAYERS:?}:\n{}", wrong.join("\n"));
}

#[test]
fn every_top_level_module_has_a_layer() {
    let modules: BTreeSet<String> = files().into_iter().filter_map(|file| file.module.first().cloned()).collect();
    assert_eq!(modules, LAYERS.map(str::to_owned).into());
}

#[test]
fn families_do_not_know_each_other() {
    let mut wrong = vec![];
    for file in files().iter().filter(|file| file.module.len() > 1 && file.module[0] == "families") {
        for used in file.uses.iter().filter(|used| used.len() > 1 && used[0] == "families") {
            if used[1] != file.module[1] {
                wrong.push(format!("{} uses {}", file.module.join("::"), used.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn plans_of_families_do_not_know_how_text_is_made() {
    let mut wrong = vec![];
    for file in files().iter().filter(|file| file.module.get(2).is_some_and(|part| part == "plan")) {
        let emits = |used: &&Vec<String>| used[0] == "emit" || used.get(2).is_some_and(|part| part == "emit");
        wrong.extend(file.uses.iter().filter(emits).map(|used| format!("{} uses {used:?}", file.module.join("::"))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_cycle_joins_more_than_two_files() {
    let files = files();
    let modules: Vec<&[String]> = files.iter().map(|file| &file.module[..]).collect();
    // The file that defines a path is the one with the longest module path that the path begins with.
    let file_of = |path: &[String]| {
        let defines = |at: &usize| path.starts_with(modules[*at]);
        (0..modules.len()).filter(defines).max_by_key(|at| modules[*at].len())
    };
    let edges: Vec<BTreeSet<usize>> = files
        .iter()
        .enumerate()
        .map(|(at, file)| file.uses.iter().filter_map(|used| file_of(used)).filter(|to| *to != at).collect())
        .collect();
    let reach = |from: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(edges[at].iter().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(reach).collect();
    let mut cycles = BTreeSet::new();
    for at in 0..files.len() {
        let together: Vec<String> = (0..files.len())
            .filter(|other| reached[at].contains(other) && reached[*other].contains(&at))
            .map(|other| modules[other].join("::"))
            .collect();
        if together.len() > 2 {
            cycles.insert(together.join(", "));
        }
    }
    assert!(cycles.is_empty(), "files that use each other:\n{}", cycles.into_iter().collect::<Vec<_>>().join("\n"));
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|name| *name == module)
}

/// Every file but the crate's root, which only lists modules and names what is public.
fn files() -> Vec<File> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = vec![];
    collect(&source, &mut paths);
    let read = |path: &PathBuf| {
        let module = module(path.strip_prefix(&source).unwrap());
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        let absolute = |exported: bool| {
            let paths = use_paths(&code).into_iter().filter(move |(is_export, _)| *is_export == exported);
            paths.filter_map(|(_, path)| absolute(path, &module, &code)).collect::<Vec<_>>()
        };
        let mut uses: BTreeSet<Vec<String>> = absolute(false).into_iter().collect();
        uses.extend(inline_uses(&code, &module));
        let exports = absolute(true).into_iter().filter_map(|path| Some((path.last()?.clone(), path))).collect();
        File { module, uses, exports }
    };
    let mut files: Vec<File> = paths.iter().map(read).collect();
    let exports: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>> =
        files.iter().map(|file| (file.module.clone(), file.exports.clone())).collect();
    for file in &mut files {
        file.uses = file.uses.iter().map(|path| resolved(path.clone(), &exports)).collect();
    }
    files.retain(|file| !file.module.is_empty());
    files
}

/// The path of what a re-exported name stands for.
fn resolved(mut path: Vec<String>, exports: &BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>) -> Vec<String> {
    for _ in 0..8 {
        let Some((name, module)) = path.split_last() else { break };
        match exports.get(module).and_then(|names| names.get(name)) {
            Some(target) if *target != path => path = target.clone(),
            _ => break,
        }
    }
    path
}

/// Modules of the file that its code names by path, as `tiling::choose(..)` does.
fn inline_uses(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = vec![];
    for child in children(code) {
        let needle = format!("{child}::");
        let is_use = |line: &&str| line.trim_start().starts_with("use ") || line.trim_start().starts_with("pub");
        let named = |line: &str| {
            line.match_indices(&needle).any(|(at, _)| {
                line[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
            })
        };
        if code.lines().filter(|line| !is_use(line)).any(named) {
            found.push([module, &[child.to_owned()]].concat());
        }
    }
    found
}

fn children(code: &str) -> Vec<&str> {
    let declared = |line: &'_ str| -> Option<usize> { line.find("mod ").filter(|_| line.ends_with(';')) };
    code.lines().filter_map(|line| declared(line).map(|at| line[at + 4..].trim_end_matches(';'))).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn module(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        path.with_extension("").components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// The module path of what a `use` in `module` names; none of what other crates have.
fn absolute(path: Vec<String>, module: &[String], code: &str) -> Option<Vec<String>> {
    let base: Vec<String> = match path[0].as_str() {
        "crate" => vec![],
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            module[..module.len().saturating_sub(up)].to_vec()
        }
        "self" => module.to_vec(),
        child if children(code).contains(&child) => module.to_vec(),
        _ => return None,
    };
    let rest = path.into_iter().skip_while(|part| matches!(part.as_str(), "crate" | "super" | "self"));
    let full: Vec<String> = base.into_iter().chain(rest).collect();
    (!full.is_empty()).then_some(full)
}

/// The paths of all `use` items, groups taken apart, and whether they are re-exports:
/// `use crate::{a, b::{c, d}};` is `crate::a`, `crate::b::c`, `crate::b::d`.
fn use_paths(code: &str) -> Vec<(bool, Vec<String>)> {
    let mut paths = vec![];
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let line = rest[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_export = line.starts_with("pub");
        rest = &rest[at + 4..];
        let Some(end) = rest.find(';') else { break };
        let item = &rest[..end];
        if (line.is_empty() || is_export) && item.chars().all(|c| c.is_alphanumeric() || "_:{},* \n".contains(c)) {
            let mut found = vec![];
            expand(item.trim(), &[], &mut found);
            paths.extend(found.into_iter().map(|path| (is_export, path)));
        }
    }
    paths
}

fn expand(item: &str, before: &[String], paths: &mut Vec<Vec<String>>) {
    let item = item.trim();
    let segments = |text: &str| -> Vec<String> {
        let parts = text.split("::").map(|part| part.split(" as ").next().unwrap_or_default().trim().to_owned());
        parts.filter(|part| !part.is_empty() && part != "self" || part == "self" && before.is_empty()).collect()
    };
    let Some(open) = item.find('{') else {
        if !item.is_empty() {
            paths.push([before, &segments(item)].concat());
        }
        return;
    };
    let prefix = [before, &segments(&item[..open])].concat();
    let (mut depth, mut start) = (0, open + 1);
    for (at, c) in item.char_indices().skip_while(|(at, _)| *at <= open) {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                expand(&item[start..at], &prefix, paths);
                return;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&item[start..at], &prefix, paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

#[test]
fn groups_of_uses_are_taken_apart() {
    let code = "use crate::{Dtype, plan::{Plan, View as Seen}};\npub(crate) use super::tile::Tile;\nuse std::fmt;\n";
    let paths: Vec<String> = use_paths(code).iter().map(|(_, path)| path.join("::")).collect();
    assert_eq!(paths, ["crate::Dtype", "crate::plan::Plan", "crate::plan::View", "super::tile::Tile", "std::fmt"]);
}
