//! Lists of workloads: files, and those that come with the project.

use std::path::Path;

use bsr_codegen::Refusal;
use bsr_runtime::Pattern;
use bsr_runtime::read::LONGEST_SIDE;
use serde::Deserialize;

use crate::{Facts, Source, Workload};

/// The lists that come with the project.
const NAMED: [(&str, &str); 4] = [
    ("public", include_str!("../workloads/public.toml")),
    ("held-out", include_str!("../workloads/held-out.toml")),
    ("blocks", include_str!("../workloads/blocks.toml")),
    ("calibrate", include_str!("../workloads/calibrate.toml")),
];

/// Bytes of a file with a list.
const LONGEST: u64 = 1 << 22;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: Vec<Entry>,
}

/// One table: each of its patterns is a workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kernel: Facts,
    #[serde(default = "side")]
    m: usize,
    #[serde(default = "side")]
    n: usize,
    #[serde(default = "side")]
    k: usize,
    pattern: OneOrMore,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// A side of which nothing is said.
fn side() -> usize {
    8192
}

/// Reads the list of this name: one that comes with the project, or else a file.
///
/// # Errors
/// Neither is there, or the file is no list.
pub fn find(name: &str) -> Result<Vec<Workload>, Refusal> {
    if let Some((_, text)) = NAMED.iter().find(|(known, _)| *known == name) {
        return from_toml(name, text);
    }
    let text = bsr_runtime::read::text(Path::new(name), LONGEST)
        .map_err(|error| Refusal::of(format_args!("no list of workloads `{name}`"), error))
        .map_err(|refusal| refusal.help("a .toml file, or one of: public, held-out, blocks, calibrate"))?;
    from_toml(name, &text)
}

fn from_toml(name: &str, text: &str) -> Result<Vec<Workload>, Refusal> {
    let file: File = toml::from_str(text).map_err(|error| Refusal::of(name, error))?;
    let mut workloads = Vec::new();
    for (at, entry) in file.workload.into_iter().enumerate() {
        let wrong = |what| Refusal::of(format_args!("{name}, workload {}", at + 1), what);
        workloads.extend(entry.workloads().map_err(wrong)?);
    }
    if workloads.is_empty() {
        let refusal = Refusal::of(name, "no workload is in it");
        return Err(refusal.help("a table [[workload]] with kernel and pattern"));
    }
    Ok(workloads)
}

impl Entry {
    /// Its workloads, as the flags of a command would have them.
    ///
    /// # Errors
    /// A side that no matrix has, or words that are no pattern.
    fn workloads(self) -> Result<Vec<Workload>, String> {
        let Self { kernel: facts, m, n, k, pattern, seed } = self;
        for (side, length) in [("m", m), ("n", n), ("k", k)] {
            if !(1..=LONGEST_SIDE).contains(&length) {
                return Err(format!("{side} = {length}\n  help: at least 1 and at most {LONGEST_SIDE}"));
            }
        }
        let patterns = match pattern {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        };
        let workload = |words: String| match words.parse::<Pattern>() {
            Ok(_) => Ok(Workload { facts, m, n, k, source: Source::Pattern(words), seed }),
            Err(error) => Err(format!("pattern = \"{words}\": {error}")),
        };
        patterns.into_iter().map(workload).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_lists_are_products_that_can_be_had_and_differ() {
        // Those of `blocks` differ in nothing but the block: one of them is public, too.
        let mut tuned = HashSet::new();
        let mut blocks = HashSet::new();
        for (name, count) in [("public", 28), ("held-out", 10), ("blocks", 24)] {
            let list = find(name).unwrap();
            assert_eq!(list.len(), count);
            for workload in list {
                let Source::Pattern(words) = &workload.source else { panic!("{workload:?}") };
                let (rows, cols) = workload.stored_shape();
                let structure =
                    words.parse::<Pattern>().unwrap().structure(rows, cols, workload.facts.block(), workload.seed);
                assert!(structure.unwrap().nnzb() > 0);
                let seen = if name == "blocks" { &mut blocks } else { &mut tuned };
                assert!(seen.insert(workload));
            }
        }
    }

    #[test]
    fn a_file_is_checked_as_flags_are() {
        let error = |more: &str| {
            let text = format!(
                "[[workload]]\nkernel = 'bm = 64, bk = 64'\npattern = 'causal'\n\n[[workload]]\nkernel = 'bm = 64, bk = 64'\n{more}"
            );
            from_toml("a.toml", &text).unwrap_err().to_string()
        };
        for (more, words) in [
            ("pattern = 'causal'\nm = 0", "a.toml, workload 2: m = 0\n  help: at least 1 and at most 134217728"),
            ("pattern = 'causal'\nn = 4611686018427387904", "n = 4611686018427387904"),
            ("pattern = ['topk:2', 'random:2']", "pattern = \"random:2\""),
        ] {
            assert!(error(more).contains(words), "{}", error(more));
        }
        assert!(from_toml("a.toml", "workload = []").unwrap_err().to_string().contains("no workload"));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let unknown = find("nowhere.toml").unwrap_err().to_string();
        assert!(unknown.contains("`nowhere.toml`") && unknown.contains("public"), "{unknown}");
        let wrong =
            from_toml("a.toml", "[[workload]]\nkernel = 'bm = 64'\npattern = 'causal'\n").unwrap_err().to_string();
        assert!(wrong.starts_with("a.toml: ") && wrong.contains("bk"), "{wrong}");
    }
}
