//! The words of lists are what they were: a hash for each spec over several patterns, widths and numbers of clusters.

use bsr_codegen::{Op, Plan};

use super::{BatchLists, SddmmWork, WorkLists};
use crate::attention::{AttentionWork, Mask, Shape};
use crate::{Pattern, Structure};

const RECORDED: [(&str, &str); 35] = [
    ("bm = 128, bn = 256, bk = 128", "b1f880f3a1d2"),
    ("bm = 128, bn = 256, bk = 128, cluster = 2", "33f83f9fb629"),
    ("bm = 128, bn = 256, bk = 128, schedule = strided", "c6909ae5447c"),
    ("bm = 64, bn = 256, bk = 64, cluster = 4", "03ee6f5db5e3"),
    ("bm = 512, bn = 256, bk = 112", "fb10d27ee11e"),
    ("bm = 64, bn = 64, bk = 64, op = dds", "75f7c044f2d5"),
    ("bm = 64, bn = 256, bk = 64, split = auto", "d7814394c002"),
    ("bm = 64, bn = 256, bk = 64, split = long", "89ce3411e7ca"),
    ("bm = 64, bn = 128, bk = 64, split = long, cluster = 2", "29bdfefce25e"),
    ("bm = 128, bn = 128, bk = 128, split = 3", "c65842aa3e40"),
    ("bm = 64, bn = 256, bk = 64, split = auto, schedule = strided", "74af47f35a95"),
    ("bm = 32, bn = 64, bk = 32", "db81a6c76702"),
    ("bm = 32, bn = 64, bk = 32, split = 3", "6b4a0d99cd1a"),
    ("bm = 16, bn = 64, bk = 64, split = auto", "1164bad0c75a"),
    ("bm = 16, bn = 64, bk = 64, split = long", "1164bad0c75a"),
    ("bm = 64, bn = 64, bk = 64, pack = 2, swap = off", "05c7e7be805d"),
    ("bm = 64, bn = 128, bk = 64, pack = 3, swap = off, cluster = 2", "550be60b7256"),
    ("bm = 64, bn = 128, bk = 64, pack = 2, swap = off, schedule = strided", "e1b0830781cf"),
    ("bm = 64, bn = 128, bk = 64, pack = 2, swap = off, split = auto", "b7e085874710"),
    ("bm = 64, bn = 128, bk = 64, pack = 2, swap = off, split = long", "187e817e0419"),
    ("bm = 64, bn = 128, bk = 64, pack = 2, swap = off, split = 3", "3712bf619636"),
    ("op = sdd, bm = 128, bn = 128, bk = 128", "ca8bd5fca926"),
    ("op = sdd, bm = 128, bn = 128, bk = 128, schedule = strided", "3eed47c6b9f5"),
    ("op = sdd, bm = 128, bn = 128, bk = 128, schedule = balanced", "a8f5df5fd1ff"),
    ("op = sdd, bm = 64, bn = 256, bk = 64", "7640aa643173"),
    ("op = sdd, bm = 64, bn = 256, bk = 64, schedule = balanced", "e9c45632bc55"),
    ("bm = 128, bn = 64, bk = 32, batch = on", "966f2097f143"),
    ("bm = 40, bn = 64, bk = 128, transpose = on, batch = on", "e8bc7ac3f167"),
    ("bm = 128, bn = 64, bk = 32, batch = on, schedule = strided", "427ecd98ce58"),
    ("bm = 128, bn = 64, bk = 32, batch = on, split = auto", "844955a54b2d"),
    ("op = attention, bm = 128, bn = 128, bk = 128", "e4f3e57f608c"),
    ("op = attention, bm = 128, bn = 128, bk = 128, split = auto", "5fc35a8edade"),
    ("op = attention, bm = 128, bn = 128, bk = 128, split = 3", "f9cc7c2b0575"),
    ("op = attention, bm = 128, bn = 128, bk = 128, split = 9", "9c155f27b475"),
    ("op = attention, bm = 64, bn = 64, bk = 64, split = auto", "5f77ca5da628"),
];

const PATTERNS: [(&str, usize, usize); 2] = [("random:0.25", 2048, 4096), ("powerlaw:0.06", 6144, 12288)];

fn structure(word: &str, rows: usize, cols: usize, plan: &Plan) -> Structure {
    let block = (plan.spec().bm as usize, plan.spec().bk as usize);
    word.parse::<Pattern>().expect("a pattern").structure(rows, cols, block, 1).expect("a structure")
}

/// All lists of a spec, word after word.
fn lists(plan: &Plan) -> Vec<Vec<u32>> {
    let other = || structure("random:0.1", 1024, 1024, plan);
    let mut lists = vec![];
    for (word, rows, cols) in PATTERNS {
        let structure = structure(word, rows, cols, plan);
        for (n, clusters) in [(2048, 132), (300, 66), (17, 5)] {
            if plan.spec().batch.is_on() {
                let all = BatchLists::new(plan, &[(&structure, n), (&other(), 65), (&structure, 0)], clusters);
                let BatchLists { grid, heads, tiles, col_idx, block_idx, stage_metadata, workspace } = all;
                let sizes = vec![grid[0], grid[1], workspace as u32];
                lists.extend([sizes, heads, tiles, col_idx, block_idx, stage_metadata]);
                continue;
            }
            let WorkLists { grid, heads, tiles, workspace, stage_metadata } =
                WorkLists::new(plan, &structure, n, clusters);
            lists.extend([vec![grid[0], grid[1], workspace as u32], heads, tiles, stage_metadata]);
            if plan.spec().op == Op::Sdd {
                let all = [(&structure, n), (&other(), 65)];
                let work = SddmmWork::batch(plan, &all, clusters).expect("an SDDMM");
                lists.extend([work.heads(), work.words()]);
            }
        }
    }
    lists
}

fn lists_of_attention(plan: &Plan) -> Vec<Vec<u32>> {
    let tiles = plan.attention_tiles().expect("an attention");
    let block = (plan.spec().bm as usize, plan.spec().bk as usize);
    let sizes = [(2, 8, 2, 512, 4096), (1, 1, 1, 128, 16384), (1, 4, 4, 1, 8192)];
    let mut lists = vec![];
    for (batch, heads, key_heads, queries, keys) in sizes {
        let shape = Shape { batch, heads, key_heads, queries, keys, columns: tiles.columns as usize };
        for mask in [Mask::causal(queries, keys, block), Mask::random((queries, keys), block, 0.3, 3)] {
            for ctas in [132, 7] {
                let work = AttentionWork::new(&tiles, &shape, mask.as_ref().expect("a mask"), ctas).expect("work");
                lists.extend([work.heads, work.tiles, work.steps, vec![work.places]]);
            }
        }
    }
    lists
}

#[test]
fn lists_are_those_that_were_recorded() {
    let mut changed = vec![];
    for (text, recorded) in RECORDED {
        let plan = Plan::new(&text.parse().expect("a spec")).expect("a plan");
        let lists = if plan.spec().op == Op::Attention { lists_of_attention(&plan) } else { lists(&plan) };
        let mut hash = blake3::Hasher::new();
        for list in lists {
            hash.update(&(list.len() as u64).to_le_bytes());
            list.iter().for_each(|word| {
                hash.update(&word.to_le_bytes());
            });
        }
        let hash = &hash.finalize().to_hex()[..12];
        if hash != recorded {
            changed.push(format!("(\"{text}\", \"{hash}\"),"));
        }
    }
    assert!(changed.is_empty(), "lists of these changed:\n{}", changed.join("\n"));
}
