//! What the warps do to the stages of the ring buffer, over two tiles.
//!
//! A drawing of the order, not of measured time: a multiply is as long as its K, a load takes as long as two multiplies to
//! arrive, and loads arrive one after the other. What depends on what is the plan's: a stage is loaded again when all
//! consumers have released it, and the result is stored under the next tile's stages or before them.

use super::facts::{Facts, Ring};
use super::svg::{Svg, WIDTH};

const LABEL: f64 = 178.0;
const LANE: f64 = 26.0;
const BAR: f64 = 20.0;
const TOP: f64 = 8.0;

/// In multiplies of a full stage.
const ISSUE: f64 = 0.22;
const FLIGHT: f64 = 2.0;
const STORE: f64 = 0.6;

/// One stage's worth of work, from its load to its release.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// Of the tile, and of the block within the tile.
    tile: usize,
    block: usize,
    part: usize,
    width: u32,
    issue: f64,
    full: f64,
    begin: f64,
    end: f64,
}

/// When C is stored: from, to, epilogue subtile.
type Store = (f64, f64, u32);

fn schedule(facts: &Facts, ring: &Ring) -> (Vec<Step>, Vec<Store>) {
    let widths: &[u32] = if facts.widths.is_empty() { &[1] } else { &facts.widths };
    let widest = f64::from(widths.iter().copied().max().unwrap_or(1).max(1));
    let blocks = (ring.stages as usize + 2).div_ceil(widths.len()).max(2);
    let (mut steps, mut stores): (Vec<Step>, Vec<Store>) = (vec![], vec![]);
    let mut free = 0.0;
    for tile in 0..2 {
        for (number, (block, part)) in (0..blocks).flat_map(|b| (0..widths.len()).map(move |p| (b, p))).enumerate() {
            let last = steps.last().copied();
            let released = steps.len().checked_sub(ring.stages as usize).map_or(0.0, |at| steps[at].end);
            let issue = last.map_or(0.0, |last| last.issue + ISSUE).max(released);
            let full = (issue + FLIGHT).max(last.map_or(0.0, |last| last.full + 0.8));
            let begin = full.max(free);
            let end = begin + f64::from(widths[part]) / widest;
            free = end;
            steps.push(Step { tile, block, part, width: widths[part], issue, full, begin, end });
            if facts.overlapped && tile == 1 && (number as u32) < facts.subtiles {
                stores.push((begin + 0.1, begin + 0.1 + STORE.min(end - begin - 0.1), number as u32));
            }
        }
        if !facts.overlapped {
            for subtile in 0..facts.subtiles {
                stores.push((free, free + STORE, subtile));
                free += STORE;
            }
        }
    }
    (steps, stores)
}

pub(super) fn draw(facts: &Facts, ring: &Ring) -> String {
    let (steps, stores) = schedule(facts, ring);
    let until = steps.iter().map(|step| step.end).chain(stores.iter().map(|store| store.1)).fold(1.0, f64::max);
    let x = |at: f64| LABEL + (WIDTH - LABEL - 4.0) * at / until;
    let lanes = usize::from(facts.producer.is_some()) + ring.stages as usize + facts.consumers.len() + 1;
    let mut svg = Svg::new(WIDTH, TOP + lanes as f64 * LANE + 10.0);
    let mut lane = 0;
    let mut next = |svg: &mut Svg, label: &str| {
        let y = TOP + lane as f64 * LANE;
        svg.text([LABEL - 10.0, y + 14.5], "end", label);
        svg.line([LABEL, y + LANE - 3.0, WIDTH, y + LANE - 3.0], "lane");
        lane += 1;
        y
    };
    if let Some(producer) = &facts.producer {
        let y = next(&mut svg, producer);
        for (number, step) in steps.iter().enumerate() {
            let title = format!("asks for {}, into stage {}", name(step, facts), number % ring.stages as usize);
            svg.rect([x(step.issue), y, (x(step.issue + ISSUE) - x(step.issue) - 1.0).max(2.0), BAR], "issue", &title);
        }
    }
    for stage in 0..ring.stages as usize {
        let y = next(&mut svg, &format!("stage {stage}"));
        for step in steps.iter().skip(stage).step_by(ring.stages as usize) {
            let what = name(step, facts);
            svg.rect([x(step.issue), y, x(step.full) - x(step.issue) - 1.0, BAR], "flight", &format!("{what} arrives"));
            if step.begin - step.full > 0.05 {
                let title = format!("{what} is full and waits");
                svg.rect([x(step.full), y, x(step.begin) - x(step.full) - 1.0, BAR], "full", &title);
            }
            multiply(&mut svg, [x(step.begin), x(step.end), y], step, &format!("{what} is multiplied, then released"));
        }
    }
    for consumer in &facts.consumers {
        let y = next(&mut svg, consumer);
        for step in &steps {
            let title = format!("multiplies its part of {}", name(step, facts));
            multiply(&mut svg, [x(step.begin), x(step.end), y], step, &title);
        }
    }
    let y = next(&mut svg, "stores of C");
    for (from, to, subtile) in &stores {
        let title = format!("epilogue subtile {} of {}", subtile + 1, facts.subtiles);
        svg.rect([x(*from), y, x(*to) - x(*from) - 1.0, BAR], "region staging", &title);
    }
    if let Some(second) = steps.iter().find(|step| step.tile == 1) {
        let at = x(second.begin) - 0.5;
        svg.line([at, 0.0, at, TOP + lanes as f64 * LANE], "edge");
        svg.text([at + 5.0, TOP + lanes as f64 * LANE + 5.0], "faint", "next tile");
    }
    svg.finish(&format!(
        "Order of events in a ring of {} stages over two tiles: loads by {}, multiplies by {} consumers, stores {}",
        ring.stages,
        if facts.producer.is_some() { "a producer" } else { "all warps" },
        facts.consumers.len(),
        if facts.overlapped { "under the next tile's stages" } else { "before the next tile" }
    ))
}

fn multiply(svg: &mut Svg, [from, to, y]: [f64; 3], step: &Step, title: &str) {
    let class = if step.block.is_multiple_of(2) { "multiply even" } else { "multiply odd" };
    svg.rect([from, y, to - from - 1.0, BAR], class, title);
    let words = step.width.to_string();
    if to - from > 7.0 * words.len() as f64 + 4.0 {
        svg.text([(from + to) / 2.0, y + 14.5], "middle inside", &words);
    }
}

/// `tile 0, block 2, part 1 of 2: 64 of K`.
fn name(step: &Step, facts: &Facts) -> String {
    let part = match facts.widths.len() {
        0 | 1 => String::new(),
        parts => format!(", part {} of {parts}", step.part + 1),
    };
    match &facts.holds {
        None => format!("tile {}, block {}{part}: {} of K", step.tile, step.block, step.width),
        Some(words) => format!("tile {}, step {}: {words}", step.tile, step.block),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::Plan;

    use super::*;

    fn of(spec: &str) -> (Facts, Ring) {
        let facts = Facts::of(&Plan::new(&spec.parse().unwrap()).unwrap()).unwrap();
        let ring = facts.ring.clone().unwrap();
        (facts, ring)
    }

    #[test]
    fn a_stage_is_loaded_again_only_when_it_was_released() {
        for spec in [
            "bm = 512, bn = 128, bk = 112",
            "bm = 16, bn = 256, bk = 16",
            "bm = 128, bn = 128, bk = 64, mma = wmma",
            "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma",
        ] {
            let (facts, ring) = of(spec);
            let (steps, _) = schedule(&facts, &ring);
            for (at, step) in steps.iter().enumerate() {
                assert!(step.issue < step.full && step.full <= step.begin && step.begin < step.end);
                if let Some(before) = at.checked_sub(ring.stages as usize) {
                    assert!(step.issue >= steps[before].end, "{spec}: {step:?}");
                }
            }
            assert!(steps.windows(2).all(|pair| pair[1].begin >= pair[0].end), "{spec}");
        }
    }

    #[test]
    fn overlapped_stores_lie_under_the_next_tile_and_others_before_it() {
        let (facts, ring) = of("bm = 512, bn = 128, bk = 112");
        let (steps, stores) = schedule(&facts, &ring);
        let next = steps.iter().find(|step| step.tile == 1).unwrap().begin;
        assert!(facts.overlapped && stores.len() == facts.subtiles as usize);
        assert!(stores.iter().all(|store| store.0 >= next));

        let (facts, ring) = of("bm = 128, bn = 256, bk = 64, out = f32");
        let (steps, stores) = schedule(&facts, &ring);
        let next = steps.iter().find(|step| step.tile == 1).unwrap().begin;
        assert!(!facts.overlapped && stores[..facts.subtiles as usize].iter().all(|store| store.1 <= next));
    }
}
