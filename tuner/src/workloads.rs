//! Lists of workloads: files, and those that come with the project.

use std::path::Path;

use serde::Deserialize;

use crate::{Facts, Source, Workload};

/// The lists that come with the project.
const NAMED: [(&str, &str); 2] =
    [("public", include_str!("../workloads/public.toml")), ("held-out", include_str!("../workloads/held-out.toml"))];

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadsError {
    /// Neither a name nor a file.
    #[error("no list of workloads `{name}`: {error}\n  help: a .toml file, or one of: public, held-out")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What the system said of the file.
        error: String,
    },
    /// A file that is no list.
    #[error("{name}: {error}")]
    Toml {
        /// The file.
        name: String,
        /// What is wrong.
        error: Box<toml::de::Error>,
    },
}

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
pub fn find(name: &str) -> Result<Vec<Workload>, WorkloadsError> {
    if let Some((_, text)) = NAMED.iter().find(|(known, _)| *known == name) {
        return from_toml(name, text);
    }
    let text = std::fs::read_to_string(Path::new(name))
        .map_err(|error| WorkloadsError::Unknown { name: name.to_owned(), error: error.to_string() })?;
    from_toml(name, &text)
}

fn from_toml(name: &str, text: &str) -> Result<Vec<Workload>, WorkloadsError> {
    let file: File =
        toml::from_str(text).map_err(|error| WorkloadsError::Toml { name: name.to_owned(), error: Box::new(error) })?;
    let workloads = file.workload.into_iter().flat_map(|entry| {
        let Entry { kernel: facts, m, n, k, pattern, seed } = entry;
        let patterns = match pattern {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        };
        patterns.into_iter().map(move |words| Workload { facts, m, n, k, source: Source::Pattern(words), seed })
    });
    Ok(workloads.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use bsr_runtime::Pattern;

    use super::*;

    #[test]
    fn the_lists_are_products_that_can_be_had_and_differ() {
        let mut seen = HashSet::new();
        for (name, count) in [("public", 19), ("held-out", 10)] {
            let list = find(name).unwrap();
            assert_eq!(list.len(), count);
            for workload in list {
                let Source::Pattern(words) = &workload.source else { panic!("{workload:?}") };
                let (rows, cols) = if workload.facts.op() == bsr_codegen::Op::Sdd {
                    (workload.m, workload.n)
                } else {
                    (workload.m, workload.k)
                };
                let structure =
                    words.parse::<Pattern>().unwrap().structure(rows, cols, workload.facts.block(), workload.seed);
                assert!(structure.unwrap().nnzb() > 0);
                assert!(seen.insert(workload));
            }
        }
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
