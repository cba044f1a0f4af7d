//! What of a plan is drawn, read from the rows of its table: [`Plan::rows`] is what a plan tells to everyone.
//!
//! Every region is held against the total of shared memory: what no row tells of is drawn as `other`, and a table that does
//! not add up is not drawn.

use bsr_codegen::Plan;

/// Bytes of one mbarrier.
const BARRIER: u32 = 8;

/// What is drawn of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::report) struct Facts {
    pub(super) ring: Option<Ring>,
    /// Everything behind the ring buffer: offset, bytes, what.
    behind: Vec<(u32, u32, Kind, String)>,
    pub(super) total: u32,
    /// What a CTA can have.
    pub(super) capacity: u32,
    pub(super) consumers: Vec<String>,
    /// None where all warps load for themselves.
    pub(super) producer: Option<String>,
    /// Elements of K that the stages of one block hold, one after the other.
    pub(super) widths: Vec<u32>,
    /// What a stage holds, where it is not one part of one block.
    pub(super) holds: Option<String>,
    /// Epilogue subtiles: rounds of staging that a tile's result takes.
    pub(super) subtiles: u32,
    /// The epilogue is overlapped: the result is stored under the next tile's stages.
    pub(super) overlapped: bool,
}

/// The ring buffer of stages at the start of shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    pub(super) stages: u32,
    pub(super) bytes: u32,
    /// What lies in a stage, in order.
    parts: Vec<(Kind, String, u32)>,
}

/// What a region holds: its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Kind {
    First,
    Second,
    Staging,
    Control,
    Other,
    Free,
}

impl Kind {
    pub(in crate::report) fn class(self) -> &'static str {
        match self {
            Self::First => "a",
            Self::Second => "b",
            Self::Staging => "staging",
            Self::Control => "control",
            Self::Other => "other",
            Self::Free => "free",
        }
    }
}

/// Bytes of shared memory with one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::report) struct Region {
    pub(in crate::report) at: u32,
    pub(in crate::report) bytes: u32,
    pub(in crate::report) kind: Kind,
    pub(in crate::report) what: String,
    /// The stage that it is a part of.
    pub(in crate::report) stage: Option<u32>,
}

impl Facts {
    /// None of a plan without shared memory, or whose table does not add up.
    pub(in crate::report) fn of(plan: &Plan) -> Option<Self> {
        let rows = Rows(plan.rows());
        let total = rows.first("shared memory").filter(|total| *total > 0)?;
        let ring = ring(&rows);
        let facts = Self {
            behind: behind(&rows, ring.as_ref().map_or(0, |ring| ring.stages)),
            ring,
            total,
            capacity: plan.arch().shared_bytes,
            consumers: consumers(&rows),
            producer: producer(&rows),
            widths: widths(&rows),
            holds: holds(&rows),
            subtiles: subtiles(&rows),
            overlapped: rows.get("epilogue").is_some_and(|(value, _)| value == "overlapped"),
        };
        facts.adds_up().then_some(facts)
    }

    fn adds_up(&self) -> bool {
        let fits = self.ring.as_ref().is_none_or(|ring| {
            ring.parts.iter().map(|part| part.2).sum::<u32>() <= ring.bytes && ring.stages * ring.bytes <= self.total
        });
        fits && self.total <= self.capacity && self.behind.iter().all(|(at, bytes, ..)| at + bytes <= self.total)
    }

    /// Every byte that a CTA can have, from the first to the last.
    pub(in crate::report) fn regions(&self) -> Vec<Region> {
        let mut regions: Vec<Region> = vec![];
        let end = |regions: &[Region]| regions.last().map_or(0, |last| last.at + last.bytes);
        if let Some(ring) = &self.ring {
            for stage in 0..ring.stages {
                let mut at = stage * ring.bytes;
                let next = at + ring.bytes;
                for (kind, what, bytes) in &ring.parts {
                    regions.push(Region { at, bytes: *bytes, kind: *kind, what: what.clone(), stage: Some(stage) });
                    at += bytes;
                }
                if at < next {
                    let what = "to the next multiple of 1024".to_owned();
                    regions.push(Region { at, bytes: next - at, kind: Kind::Other, what, stage: Some(stage) });
                }
            }
        }
        let mut behind = self.behind.clone();
        behind.sort_by_key(|region| region.0);
        for (at, bytes, kind, what) in behind {
            let from = end(&regions);
            if at > from {
                regions.push(Region {
                    at: from,
                    bytes: at - from,
                    kind: Kind::Other,
                    what: "other".into(),
                    stage: None,
                });
            }
            if at >= end(&regions) && bytes > 0 {
                regions.push(Region { at, bytes, kind, what, stage: None });
            }
        }
        for (until, kind, what) in [(self.total, Kind::Other, "other"), (self.capacity, Kind::Free, "free")] {
            let at = end(&regions);
            if until > at {
                regions.push(Region { at, bytes: until - at, kind, what: what.to_owned(), stage: None });
            }
        }
        regions
    }
}

/// The table of a plan.
struct Rows(Vec<[String; 3]>);

impl Rows {
    /// Value and reason.
    fn get(&self, what: &str) -> Option<(&str, &str)> {
        self.0.iter().find(|row| row[0] == what).map(|row| (row[1].as_str(), row[2].as_str()))
    }

    /// The first number of the value.
    fn first(&self, what: &str) -> Option<u32> {
        numbers(self.get(what)?.0).first().copied()
    }

    /// The number behind a word of the reason.
    fn behind(&self, what: &str, word: &str) -> Option<u32> {
        let (_, rest) = self.get(what)?.1.split_once(word)?;
        numbers(rest).first().copied()
    }

    /// Rows of operands' tiles: `A tile`, `B panel`, `block`.
    fn tiles(&self) -> Vec<(String, u32)> {
        let names = self.0.iter().filter(|row| {
            let what = row[0].as_str();
            (what.ends_with(" tile") && what != "CTA tile") || matches!(what, "B panel" | "block")
        });
        names
            .filter_map(|row| Some((row[0].trim_end_matches(" tile").to_owned(), *numbers(&row[1]).first()?)))
            .collect()
    }
}

/// The numbers in a text, in order.
fn numbers(text: &str) -> Vec<u32> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

fn ring(rows: &Rows) -> Option<Ring> {
    let tiles = rows.tiles();
    let reason = |what: &str| rows.get(what).map_or(vec![], |(_, why)| numbers(why));
    let (stages, bytes, counts) = match (rows.get("stage"), rows.get("stages")) {
        // Hopper's families: a stage of `up to 4 B panel(s) of X B and 6 block(s) of Y B`, or of `1 x (A + B) B`.
        (Some((bytes, why)), Some((stages, _))) => {
            let found = reason("stage");
            let counts = match why.contains("B panel(s)") {
                true => [*found.first()?, *found.get(2)?],
                false => [*found.first()?; 2],
            };
            (*numbers(stages).first()?, *numbers(bytes).first()?, counts)
        }
        // CUDA cores: a stage of `A X B, B Y B`, and `2 stage(s)` of shared memory.
        (Some((bytes, _)), None) => {
            let bytes = *numbers(bytes).first()?;
            let [a, b] = reason("stage")[..] else { return None };
            let parts = vec![(Kind::First, "A".to_owned(), a), (Kind::Second, "B".to_owned(), b)];
            return Some(Ring { stages: *reason("shared memory").first()?, bytes, parts });
        }
        // `3 x 16384 B` of warps, or `4` of SDDMM, whose stages are their two tiles.
        (None, Some((stages, _))) => match numbers(stages)[..] {
            [stages, bytes] => (stages, bytes, [1; 2]),
            [stages] => (stages, tiles.iter().map(|tile| tile.1).sum(), [1; 2]),
            _ => return None,
        },
        (None, None) => return None,
    };
    let parts = tiles.into_iter().zip([Kind::First, Kind::Second]).zip(counts).map(|(((name, bytes), kind), count)| {
        let what = if count > 1 { format!("{count} x {name}") } else { name };
        (kind, what, count * bytes)
    });
    Some(Ring { stages, bytes, parts: parts.collect() })
}

fn behind(rows: &Rows, stages: u32) -> Vec<(u32, u32, Kind, String)> {
    let mut found = vec![];
    let mut push = |at: Option<u32>, bytes: Option<u32>, kind, what: &str| {
        if let (Some(at), Some(bytes)) = (at, bytes) {
            found.push((at, bytes, kind, what.to_owned()));
        }
    };
    push(rows.behind("staging", "at "), rows.first("staging"), Kind::Staging, "staging of C");
    push(rows.behind("work tiles", "at "), rows.first("work tiles"), Kind::Control, "work tiles");
    let ring = Some(stages * BARRIER);
    let full = rows.behind("barriers", "full at ");
    let metadata = rows.behind("barriers", "metadata at ");
    push(
        metadata,
        full.zip(metadata).map(|(full, metadata)| full.saturating_sub(metadata)),
        Kind::Control,
        "stage metadata",
    );
    push(full, ring, Kind::Control, "full barriers");
    push(rows.behind("barriers", "empty at "), ring, Kind::Control, "empty barriers");
    found
}

fn consumers(rows: &Rows) -> Vec<String> {
    let registers = rows.get("registers").map_or(vec![], |(value, _)| numbers(value));
    match rows.first("consumers") {
        Some(count) => {
            let with = registers.get(1).map_or(String::new(), |count| format!(", {count} registers"));
            (0..count).map(|number| format!("consumer {number}{with}")).collect()
        }
        None => match rows.get("roles").map(|(value, _)| numbers(value)).as_deref() {
            Some([_, multiply]) => vec![format!("{multiply} warps")],
            _ => vec!["all warps".to_owned()],
        },
    }
}

fn producer(rows: &Rows) -> Option<String> {
    // Of kernels whose warps multiply.
    if rows.get("roles").is_some_and(|(value, _)| value.ends_with(" warps")) {
        return Some("producer".to_owned());
    }
    rows.get("consumers")?;
    let registers = rows.first("registers").map_or(String::new(), |count| format!(", {count} registers"));
    Some(format!("producer{registers}"))
}

/// `64 + 48`, `3 x 32`, `2 x 64 + 16`, `112 per stage`, `2 blocks of 32 per stage`; of SDDMM `of 64 of K`.
fn widths(rows: &Rows) -> Vec<u32> {
    let Some((words, _)) = rows.get("K of a block") else {
        return rows.behind("stages", "of ").into_iter().collect();
    };
    let found = numbers(words);
    match (words.contains("blocks of"), words.contains(" x "), &found[..]) {
        (true, _, [_, width]) => vec![*width],
        // A stage takes B panels as they come, of whichever block.
        _ if rows.get("B panel").is_some() => found.last().copied().into_iter().collect(),
        (_, true, [count, width, rest @ ..]) => {
            let same = (0..*count).map(|_| *width);
            same.chain(rest.iter().copied()).collect()
        }
        _ => found,
    }
}

/// `2 blocks of 32`, `up to 3 B panel(s) of 16 of K and 12 block(s)`, `64 of K` of SDDMM.
fn holds(rows: &Rows) -> Option<String> {
    let Some((words, _)) = rows.get("K of a block") else {
        return Some(format!("{} of K", rows.behind("stages", "of ")?));
    };
    if rows.get("B panel").is_some() {
        let (panels, blocks) = (rows.behind("stage", "up to ")?, rows.behind("stage", " and ")?);
        return Some(format!("up to {panels} B panel(s) of {} of K and {blocks} block(s)", numbers(words).last()?));
    }
    words.contains("blocks of").then(|| words.trim_end_matches(" per stage").to_owned())
}

/// `.., 2 subtile(s) per tile`.
fn subtiles(rows: &Rows) -> u32 {
    let why = rows.get("staging").map_or("", |(_, why)| why);
    let last = why.rsplit(", ").next().unwrap_or_default();
    numbers(last).first().copied().filter(|_| last.ends_with("per tile")).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn facts(spec: &str) -> Facts {
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        Facts::of(&plan).unwrap_or_else(|| panic!("{spec}:\n{plan}"))
    }

    /// One of every family, and what each of its ways to lay memory out adds.
    const KERNELS: [&str; 17] = [
        "bm = 512, bn = 128, bk = 112",
        "bm = 512, bn = 256, bk = 112",
        "bm = 128, bn = 256, bk = 128, cluster = 2",
        "bm = 64, bn = 256, bk = 32",
        "bm = 128, bn = 256, bk = 128, dtype = e4m3, scale = block",
        "bm = 128, bn = 256, bk = 64, out = f32",
        "bm = 32, bn = 256, bk = 32, pack = 4",
        "bm = 16, bn = 256, bk = 16",
        "bm = 96, bn = 128, bk = 80",
        "bm = 128, bn = 256, bk = 128, op = sdd",
        "bm = 128, bn = 256, bk = 128, op = dds",
        "bm = 128, bn = 128, bk = 64, mma = mma_sync",
        "bm = 64, bn = 64, bk = 32, mma = wmma",
        "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma",
        "bm = 64, bn = 64, bk = 32, mma = wmma, load = producer",
        "bm = 64, bn = 64, bk = 32, mma = scalar, vector = 1",
        "bm = 128, bn = 128, bk = 128, mma = scalar, vector = 8",
    ];

    #[test]
    fn every_familys_regions_tile_shared_memory() {
        for spec in KERNELS {
            let plan = Plan::new(&spec.parse().unwrap()).unwrap_or_else(|errors| panic!("{spec}: {errors}"));
            let Some(facts) = Facts::of(&plan) else {
                assert_eq!(shared(&plan), 0, "{spec}:\n{plan}");
                continue;
            };
            assert_eq!(facts.total, shared(&plan), "{spec}");
            let mut end = 0;
            for region in facts.regions() {
                assert_eq!(region.at, end, "{spec}: {region:?}");
                end += region.bytes;
            }
            assert_eq!(end, plan.arch().shared_bytes, "{spec}");
            // What no row tells of is barriers of an epilogue and factors of stages: little.
            let other: u32 = facts.regions().iter().filter(|r| r.kind == Kind::Other).map(|r| r.bytes).sum();
            assert!(other <= 1024 * facts.ring.as_ref().map_or(1, |ring| ring.stages), "{spec}: {other} B");
        }
    }

    fn shared(plan: &Plan) -> u32 {
        let [m, n, k, nnzb, lda, ldb, ldc, ldt] = [1024; 8];
        let problem = bsr_codegen::Problem { m, n, k, nnzb, lda, ldb, ldc, ldt };
        plan.launch(&problem, [1, 1]).shared_bytes
    }

    #[test]
    fn the_flagships_pipeline_is_read_from_its_plan() {
        let facts = facts("bm = 512, bn = 128, bk = 112");
        assert_eq!((facts.widths.as_slice(), facts.holds), (&[64, 48][..], None));
        assert_eq!((facts.subtiles, facts.overlapped), (2, true));
        assert_eq!(facts.consumers, ["consumer 0, 232 registers", "consumer 1, 232 registers"]);
        assert_eq!(facts.producer.as_deref(), Some("producer, 40 registers"));
        let ring = facts.ring.unwrap();
        assert_eq!((ring.stages, ring.bytes), (4, 49152));
        assert_eq!(ring.parts, [(Kind::First, "A".to_owned(), 32768), (Kind::Second, "B".to_owned(), 16384)]);
    }

    #[test]
    fn what_a_stage_holds_is_said_where_it_is_no_part_of_a_block() {
        for (spec, width, words) in [
            ("bm = 64, bn = 256, bk = 32", 32, "2 blocks of 32"),
            ("bm = 16, bn = 256, bk = 16", 16, "up to 8 B panel(s) of 16 of K and 23 block(s)"),
            ("bm = 128, bn = 256, bk = 128, op = sdd", 64, "64 of K"),
        ] {
            let facts = facts(spec);
            assert_eq!((facts.widths.as_slice(), facts.holds.as_deref()), (&[width][..], Some(words)), "{spec}");
        }
    }
}
