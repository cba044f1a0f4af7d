//! The layers of the crates named below, read from their source: a module uses only those below it, and no cycle joins more
//! than two files. A path within code counts as a `use` does, and what is re-exported counts where it is declared.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

mod acting;
mod graph;
mod source;
mod surface;
mod tokens;

use std::collections::BTreeSet;

use graph::Crate;

/// Checks the order of a crate. `layers` are the modules of its root, or of `at` within it, the lowest first.
fn check_order(tree: &Crate, at: &str, layers: &[&str]) {
    let at: Vec<String> = at.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let modules = tree.children(&at);
    assert_eq!(modules, layers.iter().copied().collect::<BTreeSet<_>>(), "each module has one layer");
    let layer = |path: &[String]| {
        let name = path.strip_prefix(&at[..])?.first()?;
        layers.iter().position(|layer| layer == name)
    };
    let mut wrong = BTreeSet::new();
    for (file, path, declares) in tree.uses() {
        let Some(own) = layer(file) else { continue };
        // What `at` itself declares is above its modules.
        if layer(declares).is_some_and(|used| used > own) || declares == at {
            wrong.insert(format!("  {} uses {}", file.join("::"), path.join("::")));
        }
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "these point upward; the order is {layers:?}:\n{}", wrong.join("\n"));
}

/// The same, and that no cycle joins more than two files.
fn check(tree: &Crate, at: &str, layers: &[&str]) {
    check_order(tree, at, layers);
    let cycles = tree.cycles();
    assert!(cycles.is_empty(), "{}", cycles.join("\n"));
}

#[test]
fn codegen() {
    let tree = Crate::read("codegen");
    let layers = [
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
        "scores",
        "hopper",
        "roofs",
        "solver",
        "families",
    ];
    check(&tree, "", &layers);
    let families = tree.uses().filter(|(file, _, _)| file.len() > 1 && file[0] == "families");
    for (file, path, declares) in families {
        let is_other = declares.first().is_some_and(|top| top == "families") && declares.get(1) != file.get(1);
        assert!(!is_other, "a family knows no other: {} uses {}", file.join("::"), path.join("::"));
        let is_text = declares[0] == "emit" || declares.get(2).is_some_and(|part| part == "emit");
        let is_plan = file.get(2).is_some_and(|part| part == "plan");
        assert!(!(is_plan && is_text), "a plan knows no text: {} uses {}", file.join("::"), path.join("::"));
    }
}

#[test]
fn macros() {
    let layers = [
        "surroundings",
        "literal",
        "compile",
        "args",
        "diagnose",
        "library",
        "types",
        "epilogue",
        "signature",
        "item",
        "call",
        "kernel",
        "fallback",
        "inputs",
        "attention",
        "family",
        "expand",
    ];
    check(&Crate::read("bsr-macros"), "", &layers);
}

#[test]
fn simulator() {
    let layers = [
        "address",
        "parse",
        "program",
        "signature",
        "arithmetic",
        "check",
        "schedule",
        "trace",
        "coverage",
        "machine",
        "asyncs",
        "exec",
        "deadlock",
        "run",
        "clusters",
        "report",
    ];
    check(&Crate::read("simulator"), "", &layers);
}

#[test]
fn tuner() {
    let layers = [
        "second",
        "operation",
        "problem",
        "workloads",
        "record",
        "space",
        "model",
        "traced",
        "store",
        "search",
        "compile",
        "backend",
        "sweep",
        "groups",
        "pick",
        "advise",
        "report",
    ];
    check(&Crate::read("tuner"), "", &layers);
}

#[test]
fn runtime() {
    let layers = [
        "memory",
        "element",
        "random",
        "dense",
        "bsr",
        "features",
        "extents",
        "permutation",
        "generate",
        "read",
        "write",
        "prune",
        "reorder",
        "scales",
        "quantise",
        "epilogue",
        "reference",
        "print",
        "gpu",
        "error",
        "interop",
        "schedule",
        "timeline",
        "machine",
        "bind",
        "operation",
        "lists",
        "call",
        "launcher",
        "simulated",
        "solve",
        "kernel",
        "attention",
        "typed",
        "shard",
        "roofs",
        "bench",
    ];
    check(&Crate::read("runtime"), "", &layers);
}

/// Public items of the library at most.
const PUBLIC_ITEMS: usize = 1_361;

#[test]
fn the_library_has_few_public_items() {
    let counts = surface::items();
    let all: usize = counts.values().sum();
    let most = PUBLIC_ITEMS;
    assert!(all <= most, "{all} public items > {most}; what only other crates need is hidden: {counts:#?}");
}

#[test]
fn trial() {
    let layers = [
        "failure", "memory", "planned", "request", "workload", "verify", "writers", "reasons", "problem", "simulate",
        "sanitize", "gpu", "kinds", "check", "subject",
    ];
    check(&Crate::read("trial"), "", &layers);
}

#[test]
fn command() {
    let tree = Crate::read(".");
    check_order(&tree, "", &["call", "documentation", "auto", "family", "cli"]);
    let commands = [
        "escape",
        "print",
        "unquoted",
        "exit",
        "interrupt",
        "invocation",
        "progress",
        "table",
        "block_sizes",
        "input",
        "output",
        "toolkit",
        "device",
        "report",
        "dense",
        "spec",
        "ptx",
        "ptxas",
        "check_args",
        "problem",
        "work_args",
        "weights",
        "attention",
        "attention_blocks",
        "roofs",
        "database",
        "parallel",
        "simulate",
        "trace",
        "backend",
        "sweep",
        "advise",
        "bench",
        "calibrate",
        "check",
        "completions",
        "convert",
        "doctor",
        "emit",
        "explain",
        "export",
        "loss",
        "merge",
        "plan",
        "profile",
        "report_page",
        "run",
        "sanitize",
        "serve",
        "space",
    ];
    check(&tree, "cli", &commands);
}

/// A crate of these files, each with its module path.
fn written(files: &[(&str, &str)]) -> Crate {
    let parse = |(module, text): &(&str, &str)| {
        let module = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        source::File::parse(module, text).0
    };
    Crate::of(files.iter().map(parse).collect())
}

#[test]
fn uses_are_seen_wherever_they_are_written() {
    let files = [
        ("", "mod low; mod high; pub use high::Thing;"),
        ("high", "pub struct Thing; pub fn make() {} pub const MOST: u32 = 1;"),
    ];
    let seen = |code: &str| {
        let tree = written(&[files[0], files[1], ("low", code)]);
        let uses = tree.uses().filter(|(file, _, _)| file[..] == ["low".to_owned()]);
        uses.map(|(_, path, _)| path.join("::")).collect::<Vec<_>>()
    };
    assert_eq!(seen("use crate::{high::{Thing as Other, make}};"), ["high::Thing", "high::make"]);
    assert_eq!(seen("fn f() { super::high::make(); }"), ["high::make"]);
    assert_eq!(seen("const A: [u32; crate::high::MOST as usize] = [];"), ["high::MOST"]);
    assert_eq!(seen("fn f() { assert!(vec![super::high::MOST].is_empty()) }"), ["high::MOST"]);
    assert_eq!(seen("use super::high; fn f() { high::make() }"), ["high::make"]);
    assert_eq!(seen("fn f(x: &crate::Thing) {}"), ["high::Thing"]);
    assert_eq!(seen("pub use super::high::*;"), ["high"]);
    assert!(seen("use std::high; mod high2 {} fn f(x: X) { x.high(); other::high::make() }").is_empty());
    assert!(seen("#[cfg(test)] mod tests { use super::super::high::make; }").is_empty());
}

#[test]
fn a_use_upward_is_refused() {
    let files = [("", "mod low; mod high;"), ("low", "fn f() { super::high::g() }"), ("high", "pub fn g() {}")];
    let refused = std::panic::catch_unwind(|| check(&written(&files), "", &["low", "high"]));
    assert!(refused.unwrap_err().downcast_ref::<String>().unwrap().contains("low uses high::g"));
    check(&written(&files), "", &["high", "low"]);
}

#[test]
fn a_cycle_of_three_files_is_refused_and_one_of_two_is_not() {
    let of = |c: &str| written(&[("", ""), ("a", "use crate::b::B;"), ("b", "use crate::c::C;"), ("c", c)]);
    assert_eq!(of("use super::a::A;").cycles().len(), 1);
    assert!(of("use super::b::B;").cycles().is_empty());
}
