#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use super::*;
use crate::Pattern;

fn work(spec: &str, (rows, cols, k): (usize, usize, usize), pattern: &str, ctas: u32) -> (SddmmWork, Structure) {
    let plan = Plan::new(&spec.parse().unwrap()).unwrap();
    let block = (plan.spec().bm as usize, plan.spec().bk as usize);
    let pattern: Pattern = pattern.parse().unwrap();
    let structure = pattern.structure(rows, cols, block, 1).unwrap();
    (SddmmWork::new(&plan, &structure, k, ctas).unwrap(), structure)
}

/// Stages by block, first row within it and first column within it.
type Covered = HashMap<(u32, u32, u32), Vec<(u32, u32)>>;

fn covered(work: &SddmmWork) -> Covered {
    let mut covered = Covered::new();
    for tile in work.lists.iter().flatten() {
        for group in &tile.groups {
            for block in group.blocks.iter().filter(|block| **block != TileScheduler::OUTSIDE) {
                covered.entry((*block, tile.in_block, group.in_block)).or_default().push((tile.first, tile.stages));
            }
        }
    }
    covered
}

#[test]
fn every_stored_block_is_computed_once_over_all_of_k() {
    for (spec, shape) in [
        ("op = sdd, bm = 128, bn = 256, bk = 128, schedule = balanced", (2000, 3000, 4096)),
        ("op = sdd, bm = 512, bn = 256, bk = 112, schedule = balanced", (2000, 2000, 2000)),
        ("op = sdd, bm = 24, bn = 256, bk = 40, dtype = bf16, schedule = balanced", (500, 700, 900)),
        ("op = sdd, bm = 64, bn = 256, bk = 512, schedule = balanced", (500, 2700, 900)),
        ("op = sdd, bm = 128, bn = 256, bk = 128, schedule = strided", (2000, 3000, 4096)),
    ] {
        for pattern in ["random:0.05", "random:0.3", "powerlaw:0.2", "topk:1", "random:0"] {
            for ctas in [1, 3, 16, 132] {
                let (work, structure) = work(spec, shape, pattern, ctas);
                let stages = shape.2.div_ceil(64) as u32;
                let covered = covered(&work);
                let form = work.form;
                let each = (form.slices * form.groups_per_block) as usize;
                assert_eq!(covered.len(), structure.nnzb() * each, "{spec}, {pattern}, {ctas}");
                for (at, mut parts) in covered {
                    parts.sort_unstable();
                    let ends = parts.iter().try_fold(0, |at, part| (part.0 == at && part.1 > 0).then_some(at + part.1));
                    assert_eq!(ends, Some(stages), "{spec}, {pattern}, {ctas}, {at:?}: {parts:?}");
                }
                assert!(work.ctas() <= ctas && work.lists.iter().all(|list| !list.is_empty() || structure.nnzb() == 0));
                assert_eq!(work.words().len() % form.tile_words as usize, 0);
            }
        }
    }
}

#[test]
fn parts_are_read_from_places_that_lower_numbers_write_first() {
    let mut split = 0;
    for (pattern, ctas) in [("random:0.05", 132), ("random:0.25", 132), ("powerlaw:0.1", 100), ("random:0.3", 7)] {
        let (work, _) =
            work("op = sdd, bm = 128, bn = 256, bk = 128, schedule = balanced", (8192, 8192, 4096), pattern, ctas);
        let mut filled: HashMap<u32, usize> = HashMap::new();
        for (cta, list) in work.lists.iter().enumerate() {
            let mut whole = false;
            for tile in list {
                match tile.role {
                    Role::Contributes { place } => {
                        assert!(!whole, "a part behind a tile");
                        assert_eq!(filled.insert(place, cta), None);
                    }
                    Role::Collects { parts, place } => {
                        whole = true;
                        for place in place..place + parts {
                            assert!(filled.remove(&place).is_some_and(|from| from < cta), "place {place}");
                            split += 1;
                        }
                    }
                    Role::Whole => whole = true,
                }
            }
        }
        assert!(filled.is_empty());
        assert_eq!(work.workspace() % work.form.partial_bytes as usize, 0);
    }
    assert!(split > 50, "{split}");
}

/// Where a CTA has one tile or none, passing a part on costs as much as it gains: 205 blocks on 132 CTAs stay as they are.
#[test]
fn ctas_finish_together_where_it_is_worth_the_exchange() {
    let latest = |work: &SddmmWork| {
        work.lists.iter().map(|list| list.iter().map(Divisible::cost).sum::<u64>()).max().unwrap_or(0)
    };
    for (pattern, gain) in [("random:0.05", 1.0), ("random:0.1", 0.91), ("random:0.25", 1.0), ("topk:5", 0.8)] {
        let spec = "op = sdd, bm = 128, bn = 256, bk = 128";
        let split_spec = format!("{spec}, schedule = balanced");
        let (split, _) = work(&split_spec, (8192, 8192, 4096), pattern, 132);
        let (whole, _) = work(&format!("{spec}, schedule = strided"), (8192, 8192, 4096), pattern, 132);
        let (split, whole) = (latest(&split), latest(&whole));
        assert!(split as f64 <= gain * whole as f64, "{pattern}: {split} of {whole}");
    }
    let spec = "op = sdd, bm = 128, bn = 256, bk = 128, schedule = balanced";
    assert_eq!(work(spec, (8192, 8192, 4096), "random:0.05", 132).0.workspace(), 0);
}
