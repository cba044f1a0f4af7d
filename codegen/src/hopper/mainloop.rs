//! The mainloop: in which order a consumer multiplies the stages of a tile.
//!
//! A tile's first stages have code of their own, the *prologue*: its first WGMMA overwrites the sums, and where the
//! epilogue is overlapped, a subtile of the previous tile's store runs under the WGMMAs of each of its stages. The *steady
//! state* is a loop. A tile that is shorter than the prologue branches to the *tails*, which store what is left.

use serde::Serialize;

use super::wgmma::Wgmma;

/// The mainloop over a tile's stages; `P` is a subtile of the store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mainloop<P> {
    label: String,
    done: String,
    shape: String,
    modifiers: String,
    release: Release,
    /// A stage is released one stage late, so that WGMMAs are always in flight: a lone consumer has nobody to fill its
    /// gaps.
    lag: bool,
    /// A stage may be held at the end, as of [`Quadrants`].
    holds: bool,
    prologue: Vec<Entry<P>>,
    steady: Vec<Entry<P>>,
    tails: Vec<Tail<P>>,
}

/// How a stage is given back to its producers.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Release {
    base: &'static str,
    arrive: &'static str,
}

impl Release {
    /// Whether the release goes to every CTA of a cluster.
    pub(crate) fn new(in_cluster: bool) -> Self {
        match in_cluster {
            false => Self { base: "%r_empty", arrive: "mbarrier.arrive.shared::cta.b64" },
            true => Self { base: "%r_empty_remote", arrive: "mbarrier.arrive.shared::cluster.b64" },
        }
    }
}

/// A stage in a tile's order: is there one more, what to multiply, what to store meanwhile, what to release.
#[derive(Clone, Debug, Serialize)]
struct Entry<P> {
    check: bool,
    tail: String,
    stage: Stage,
    subtiles: Vec<P>,
    /// The subtile whose part of the epilogue's full operand is requested.
    request: Option<P>,
    release: &'static str,
}

/// One stage's worth of WGMMAs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stage {
    /// Where consumers wait for it; none of a stage that is known to be full.
    pub(crate) label: Option<String>,
    pub(crate) comment: String,
    /// Factors of the stage's blocks, read from shared memory before the stage is released.
    pub(crate) factors: Option<StageFactors>,
    /// Whether the stage has anything for this consumer is known when it is full.
    pub(crate) guard: Option<Guard>,
    /// Each group is multiplied or not.
    pub(crate) quadrants: Option<Quadrants>,
    /// WGMMAs that are committed together.
    pub(crate) groups: Vec<Group>,
}

/// A stage that some consumers skip.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Guard {
    /// Where one goes on that has nothing to multiply.
    pub(crate) skip: String,
    /// Where both meet, if there is a subtile to be stored.
    pub(crate) join: String,
    /// The lane that releases the stage to this CTA's own producer, and its predicate: it reads what that one writes.
    pub(crate) reader: (&'static str, &'static str),
}

/// The factors of a stage's blocks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StageFactors {
    /// Bytes of a stage's factors.
    pub(crate) bytes: u32,
    pub(crate) registers: Vec<String>,
}

/// WGMMAs that are committed together, and what is done with their sums.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) wgmmas: Vec<Wgmma>,
    pub(crate) promotions: Vec<Promotion>,
    pub(crate) guard: Option<GroupGuard>,
}

/// A stage whose groups are multiplied or not. It is released as soon as they are complete: one stage late while the next one is
/// full, so that WGMMAs are in flight.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Quadrants {
    /// The lane that reads what a full stage has, and its predicate, as of [`Guard`].
    pub(crate) reader: (&'static str, &'static str),
    /// Bits of this consumer's block rows, and of all block columns.
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    /// Where one goes on when the stage is full, when it waits for all WGMMAs, and when the stage is done.
    pub(crate) ready: String,
    pub(crate) drain: String,
    pub(crate) next: String,
}

/// WGMMAs on one block of either factor, either of which a stage may lack.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GroupGuard {
    /// Bits of the blocks in what says which ones a stage has: among this consumer's block rows, and among all.
    pub(crate) row: u32,
    pub(crate) column: u32,
    pub(crate) skip: String,
}

/// A partial sum that joins one of the tile's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Promotion {
    pub(crate) sum: String,
    pub(crate) partial: String,
    /// What it is multiplied by, if blocks have factors.
    pub(crate) factor: Option<String>,
    /// It is the tile's first.
    pub(crate) overwrites: bool,
}

/// Where a tile that ends early stores what is left of the one before it.
#[derive(Clone, Debug, Serialize)]
struct Tail<P> {
    label: String,
    subtile: P,
}

/// What decides the order.
pub(crate) struct Order {
    /// What labels end in, where a kernel has several mainloops.
    pub(crate) suffix: &'static str,
    /// Subtiles of the previous tile's store that run under the prologue; 0 under a serial epilogue.
    pub(crate) overlapped: u32,
    /// Stages of a block that have code of their own.
    pub(crate) distinct: u32,
    pub(crate) lag: bool,
    pub(crate) release: Release,
    /// The epilogue's full operand is requested during the first stage.
    pub(crate) requests: bool,
}

impl<P: Clone> Mainloop<P> {
    /// `stage` makes the code of a block's stage of this number, under this label, and says whether it begins the tile.
    pub(crate) fn new(
        order: &Order,
        (shape, modifiers): (String, String),
        subtiles: &[P],
        stage: impl Fn(u32, String, bool) -> Stage,
    ) -> Self {
        let Order { suffix, overlapped, distinct, lag, release, requests } = *order;
        let length = overlapped.max(1);
        let tail = |i: u32| format!("$store_tail{suffix}_{i}");
        let prologue = |i: u32| Entry {
            check: i > 0 && i.is_multiple_of(distinct),
            tail: tail(i),
            stage: stage(i % distinct, format!("$full_prologue{suffix}_{i}"), i == 0),
            subtiles: if overlapped > 0 { vec![subtiles[i as usize].clone()] } else { vec![] },
            request: subtiles.first().filter(|_| requests && i == 0).cloned(),
            release: match (lag, i) {
                (false, _) => "current",
                (true, 0) => "none",
                (true, _) => "previous",
            },
        };
        let steady = |i: u32| {
            let index = (length + i) % distinct;
            Entry {
                check: index == 0,
                tail: String::new(),
                stage: stage(index, format!("$full_steady{suffix}_{index}"), false),
                subtiles: vec![],
                request: None,
                release: if lag { "previous" } else { "current" },
            }
        };
        // One label for every check in the prologue; each falls through to the next.
        let first = (1..length).find(|i| i.is_multiple_of(distinct)).unwrap_or(length);
        let steady: Vec<_> = (0..distinct).map(steady).collect();
        Self {
            holds: steady.iter().any(|entry| entry.stage.quadrants.is_some()),
            label: format!("$mainloop{suffix}"),
            done: format!("$mainloop_done{suffix}"),
            shape,
            modifiers,
            release,
            lag,
            prologue: (0..length).map(prologue).collect(),
            steady,
            tails: (first..length).map(|i| Tail { label: tail(i), subtile: subtiles[i as usize].clone() }).collect(),
        }
    }
}
