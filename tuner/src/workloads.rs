//! Lists of workloads: files, and those that come with the project.

use std::path::Path;

use bsr_codegen::Refusal;
use bsr_runtime::Pattern;
use bsr_runtime::read::LONGEST_SIDE;
use serde::Deserialize;

use crate::{Facts, Heads, Source, Workload};

/// The lists that come with the project.
const NAMED: [(&str, &str); 5] = [
    ("public", include_str!("../workloads/public.toml")),
    ("held-out", include_str!("../workloads/held-out.toml")),
    ("blocks", include_str!("../workloads/blocks.toml")),
    ("attention", include_str!("../workloads/attention.toml")),
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
    /// As many as M of an attention, whose keys these are.
    n: Option<usize>,
    /// Of an attention the columns of Q and K, which its kernel says.
    k: Option<usize>,
    heads: Option<usize>,
    key_heads: Option<usize>,
    batch: Option<usize>,
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

/// Heads of which nothing is said.
const HEADS: usize = 16;

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
        .map_err(|refusal| refusal.help("a .toml file, or one of: public, held-out, blocks, attention, calibrate"))?;
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
    /// A side that no matrix has, heads of a product, or words that are no pattern.
    fn workloads(self) -> Result<Vec<Workload>, String> {
        let (m, n, k, heads) = self.sides()?;
        let Self { kernel: facts, pattern, seed, .. } = self;
        let patterns = match pattern {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        };
        let source = |words| match heads {
            Some(heads) => Source::Mask { pattern: words, heads },
            None => Source::Pattern(words),
        };
        let workload = |words: String| match words.parse::<Pattern>() {
            Ok(_) => Ok(Workload { facts, m, n, k, source: source(words), seed }),
            Err(error) => Err(format!("pattern = \"{words}\": {error}")),
        };
        patterns.into_iter().map(workload).collect()
    }

    /// M, N and K, and the heads of an attention.
    fn sides(&self) -> Result<(usize, usize, usize, Option<Heads>), String> {
        let of_heads = [("heads", self.heads), ("key_heads", self.key_heads), ("batch", self.batch)];
        let of_heads = of_heads.into_iter().filter_map(|(name, size)| Some((name, size?)));
        let is_attention = self.kernel.has_heads();
        if let Some((name, _)) = of_heads.clone().next().filter(|_| !is_attention) {
            return Err(format!("{name} is of attentions\n  help: `op = attention` in the kernel, or drop it"));
        }
        let depth = self.kernel.spec(0).score_depth() as usize;
        let (n, k) = match is_attention {
            true => (self.n.unwrap_or(self.m), depth),
            false => (self.n.unwrap_or_else(side), self.k.unwrap_or_else(side)),
        };
        if is_attention && self.k.is_some_and(|k| k != depth) {
            return Err(format!("k = {:?}, and the kernel has {depth} columns of Q and K\n  help: drop k", self.k));
        }
        for (side, length) in [("m", self.m), ("n", n), ("k", k)].into_iter().chain(of_heads) {
            if !(1..=LONGEST_SIDE).contains(&length) {
                return Err(format!("{side} = {length}\n  help: at least 1 and at most {LONGEST_SIDE}"));
            }
        }
        let heads = self.heads.unwrap_or(HEADS);
        let of = Heads { batch: self.batch.unwrap_or(1), heads, key_heads: self.key_heads.unwrap_or(heads) };
        Ok((self.m, n, k, is_attention.then_some(of)))
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
    fn attentions_have_heads() {
        let list = find("attention").unwrap();
        assert!(list.len() >= 17);
        for workload in &list {
            let Source::Mask { heads, .. } = &workload.source else { panic!("{workload:?}") };
            assert_eq!(workload.shape().unwrap().heads, heads.heads);
            assert_eq!(workload.k, workload.spec().score_depth() as usize);
            assert!(workload.pattern().unwrap().unwrap().nnzb() > 0);
        }
        let depths = list.iter().map(|workload| (workload.k, workload.spec().bn));
        let depths: HashSet<(usize, u32)> = depths.collect();
        assert!([(64, 64), (96, 96), (192, 128), (256, 256)].iter().all(|of| depths.contains(of)), "{depths:?}");
        let error = |kernel: &str, more: &str| {
            let text = format!("[[workload]]\nkernel = '{kernel}'\npattern = 'causal'\n{more}");
            from_toml("a.toml", &text).unwrap_err().to_string()
        };
        assert!(error("bm = 64, bk = 64", "heads = 3").contains("heads is of attentions"));
        let attention = "op = attention, bm = 64, bn = 64, bk = 64";
        assert!(error(attention, "batch = 0").contains("batch = 0\n  help: at least 1"));
        assert!(error(attention, "k = 65").contains("64 columns of Q and K"));
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
