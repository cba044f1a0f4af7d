//! The nearest right spelling of a wrong word.

use crate::steps;

/// Names that other libraries use for what we call by another.
const FOREIGN: &[(&str, &str)] = &[
    ("bfloat16", "bf16"),
    ("block_k", "bk"),
    ("block_m", "bm"),
    ("block_n", "bn"),
    ("cluster_size", "cluster"),
    ("column", "col"),
    ("column_major", "col"),
    ("e4m3fn", "e4m3"),
    ("float", "f32"),
    ("float16", "f16"),
    ("float32", "f32"),
    ("fma", "scalar"),
    ("fp16", "f16"),
    ("fp32", "f32"),
    ("fp8", "e4m3"),
    ("gelu_tanh", "gelu"),
    ("half", "f16"),
    ("accumulator", "acc"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("swish", "silu"),
    ("int32", "i32"),
    ("int8", "i8"),
    ("kstep", "k_step"),
    ("layout_b", "b_layout"),
    ("layout_c", "c_layout"),
    ("loader", "load"),
    ("num_stages", "stages"),
    ("num_warps", "warps"),
    ("pipeline", "load"),
    ("pipeline", "stages"),
    ("producers", "load"),
    ("warp_roles", "load"),
    ("warp_specialization", "load"),
    ("warp_specialized", "load"),
    ("per_tensor", "tensor"),
    ("s32", "i32"),
    ("s8", "i8"),
    ("scales", "scale"),
    ("sddmm", "sdd"),
    ("simt", "scalar"),
    ("sm90", "sm_90a"),
    ("sm_90", "sm_90a"),
    ("spmm", "dsd"),
    ("target", "arch"),
    ("threads", "consumers"),
    ("threads", "warps"),
    ("block_rows", "bm"),
    ("maxrregcount", "maxnreg"),
    ("max_registers", "maxnreg"),
    ("opt", "opt_level"),
    ("tile_m", "cta_m"),
    ("warp_layout", "warps"),
    ("tile_n", "bn"),
    ("type", "dtype"),
    ("warpgroups", "consumers"),
    ("wm", "warps"),
    ("wn", "warps"),
];

/// Bytes of the longest word that is compared: nothing of ours is near to a longer one.
const LONGEST: usize = 64;

/// The candidates nearest to `word`: usually one, several where they are equally near, none where nothing is near.
///
/// Case and the difference between `-` and `_` do not count; otherwise a candidate is near when no more than
/// a third of its letters (at least one) must be inserted, deleted, replaced or swapped.
pub(crate) fn nearest<'c>(word: &str, candidates: &[&'c str]) -> Vec<&'c str> {
    if word.len() > LONGEST {
        return Vec::new();
    }
    steps::add(candidates.len());
    let word = word.to_lowercase().replace('-', "_");
    let meant = FOREIGN.iter().filter(|(foreign, _)| *foreign == word);
    let meant: Vec<&'c str> =
        meant.flat_map(|(_, ours)| candidates.iter().filter(move |ours_| *ours_ == ours)).copied().collect();
    if !meant.is_empty() {
        return meant;
    }
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, candidate);
    let near = |candidate: &&&'c str| {
        let letters = candidate.chars().count();
        distance(candidate) <= (letters / 3).max(1) && distance(candidate) < letters
    };
    let best = candidates.iter().filter(near).map(|c| distance(c)).min();
    candidates.iter().filter(near).filter(|c| Some(distance(c)) == best).copied().collect()
}

/// `a`, `b` or `c`.
pub(crate) fn either(words: &[&str]) -> String {
    list(words, "or")
}

/// The words in backquotes, joined as a sentence would, with `last` before the last one.
pub(crate) fn list(words: &[&str], last: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}

/// Most errors that are printed; the rest are counted.
pub(crate) const MOST_SHOWN: usize = 10;

/// What is printed in place of so many errors.
pub(crate) fn more_errors(count: usize) -> String {
    if count == 1 { "1 more error is not shown".into() } else { format!("{count} more errors are not shown") }
}

#[cfg(test)]
mod tests {
    use super::{either, list, nearest};
    use crate::spec::Key;

    fn key(word: &str) -> Vec<&'static str> {
        nearest(word, &Key::ALL.map(Key::as_str))
    }

    #[test]
    fn a_slip_of_the_pen_finds_its_key() {
        assert_eq!(key("stage"), ["stages"]);
        assert_eq!(key("satges"), ["stages"]);
        assert_eq!(key("BM"), ["bm"]);
        assert_eq!(key("k-step"), ["k_step"]);
        assert_eq!(key("swizle"), ["swizzle"]);
        assert_eq!(key("c_layuot"), ["c_layout"]);
    }

    #[test]
    fn names_from_elsewhere_find_ours() {
        assert_eq!(key("block_m"), ["bm"]);
        assert_eq!(key("num_stages"), ["stages"]);
        assert_eq!((key("wm"), key("wn")), (vec!["warps"], vec!["warps"]));
        assert_eq!((key("warp_specialization"), key("pipeline")), (vec!["load"], vec!["load", "stages"]));
        assert_eq!(key("threads"), ["consumers", "warps"]);
        assert_eq!((key("warp_layout"), key("maxrregcount")), (vec!["warps"], vec!["maxnreg"]));
        assert_eq!((key("tile_m"), key("tile_n")), (vec!["cta_m"], vec!["bn"]));
        let ops = crate::Op::ALL.map(crate::Op::as_str);
        assert_eq!((nearest("spmm", &ops), nearest("SDDMM", &ops)), (vec!["dsd"], vec!["sdd"]));
        assert_eq!(nearest("half", &["f16", "bf16"]), ["f16"]);
        assert_eq!(nearest("sm_90", &["sm_80", "sm_90a"]), ["sm_90a"]);
    }

    #[test]
    fn equally_near_keys_are_all_named_and_far_ones_are_not() {
        assert_eq!(key("bx"), ["bm", "bn", "bk"]);
        assert_eq!(key("frobnicate"), [""; 0]);
        assert_eq!(key(""), [""; 0]);
        assert_eq!(key("z"), [""; 0]);
    }

    #[test]
    fn words_join_as_in_a_sentence() {
        assert_eq!(either(&[]), "");
        assert_eq!(either(&["a"]), "`a`");
        assert_eq!(either(&["a", "b"]), "`a` or `b`");
        assert_eq!(list(&["a", "b", "c"], "and"), "`a`, `b` and `c`");
    }
}
