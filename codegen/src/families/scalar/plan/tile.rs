//! Step 2: the CTA tile, and how threads divide it.

use serde::Serialize;

use crate::KernelSpec;
use crate::plan::PlanError;

/// Accumulators of a thread that adds them to C in global memory.
pub(crate) const FEW: u32 = 32;
/// Accumulators of a thread that keeps them over all blocks of a row.
pub(crate) const MANY: u32 = 64;

/// Threads of a CTA that loads element by element.
const STRIDED_THREADS: u32 = 256;
/// Threads of a CTA that loads vectors: with an 8 x 8 tile each, all registers of an SM.
const BLOCKED_THREADS: u32 = 512;
/// Threads of an SM with 168 registers each.
const FEWER_THREADS: u32 = 384;
/// Columns of a thread of the vector kernel: 16 bytes of a 16-bit type.
const BLOCKED_COLUMNS: u32 = 8;
/// Most rows of a CTA tile: a stage of A and one of B are then about equally large.
const BLOCKED_ROWS: u32 = 256;
/// Rows from which threads take 8 rows each. Fewer rows mean fewer threads to load B, with more of it in flight in
/// registers of each, which leaves them no room for 64 accumulators.
const ROWS_FOR_EIGHT: u32 = 64;
const WARP: u32 = 32;

/// A row slice of a block under `bn` columns, and its threads: a grid of `grid_m` x `grid_n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tile {
    pub(crate) cta_m: u32,
    pub(crate) cta_n: u32,
    /// Rows and columns of one thread.
    pub(crate) thread_m: u32,
    pub(crate) thread_n: u32,
    /// Rows and columns of threads in a warp.
    pub(crate) lanes_m: u32,
    pub(crate) lanes_n: u32,
}

impl Tile {
    /// Rows of threads.
    pub(crate) fn grid_m(&self) -> u32 {
        self.cta_m / self.thread_m
    }

    /// Columns of threads.
    pub(crate) fn grid_n(&self) -> u32 {
        self.cta_n / self.thread_n
    }

    pub(crate) fn threads(&self) -> u32 {
        self.grid_m() * self.grid_n()
    }

    pub(crate) fn accumulators(&self) -> u32 {
        self.thread_m * self.thread_n
    }

    /// CTAs of an SM that the kernel leaves registers for: with 128 a thread, or 168 where a thread has several loads
    /// of an operand in flight beside 64 sums.
    pub(crate) fn resident(&self) -> u32 {
        let loads = (2 * self.cta_m.max(self.cta_n)).div_ceil(self.threads());
        let threads = if loads > 1 && self.accumulators() == MANY { FEWER_THREADS } else { BLOCKED_THREADS };
        (threads / self.threads()).max(1)
    }
}

/// Threads with rows `grid_m` apart and columns `grid_n` apart: a warp reads and writes whole lines. The largest tile
/// whose accumulators suffice; there is one for every legal block, with one row a thread.
pub(crate) fn strided(spec: &KernelSpec, accumulators: u32) -> Result<Tile, PlanError> {
    let find = |spec: &KernelSpec| find_strided(spec, accumulators);
    find(spec).ok_or_else(|| {
        let rows = spec.cta_m.unwrap_or(spec.bm);
        let sums = (u64::from(rows) * u64::from(spec.bn)).div_ceil(u64::from(STRIDED_THREADS));
        let why = format!(
            "{rows} x {} sums over up to {STRIDED_THREADS} threads are {sums} or more a thread, which keeps at most {accumulators}",
            spec.bn
        );
        rows_asked(spec, rows, find, why)
    })
}

fn find_strided(spec: &KernelSpec, accumulators: u32) -> Option<Tile> {
    let lanes_n = if spec.bn.is_multiple_of(WARP) { WARP } else { WARP / 2 };
    let thread_n = spec.bn / lanes_n;
    let tiles = slices(spec, spec.bm).flat_map(|cta_m| {
        let grids = (1..=(STRIDED_THREADS / lanes_n).min(cta_m)).rev();
        grids.map(move |grid_m| (cta_m, grid_m))
    });
    let fits = |(cta_m, grid_m): &(u32, u32)| {
        cta_m.is_multiple_of(*grid_m)
            && (grid_m * lanes_n).is_multiple_of(WARP)
            && cta_m / grid_m * thread_n <= accumulators
    };
    let (cta_m, grid_m) = tiles.into_iter().find(fits)?;
    Some(Tile { cta_m, cta_n: spec.bn, thread_m: cta_m / grid_m, thread_n, lanes_m: WARP / lanes_n, lanes_n })
}

/// The error of rows that no tile has, with the nearest that one has; `why` where they divide a block.
fn rows_asked(spec: &KernelSpec, rows: u32, find: impl Fn(&KernelSpec) -> Option<Tile>, why: String) -> PlanError {
    let open = KernelSpec { cta_m: None, ..*spec };
    let legal = slices(&open, spec.bm).filter(|rows| find(&KernelSpec { cta_m: Some(*rows), ..*spec }).is_some());
    let error = PlanError::tile_rows(rows, spec.bm, legal, "a tile has a multiple of 8 rows");
    if slices(&open, spec.bm).any(|legal| legal == rows) {
        let fact = format!("a tile of {rows} x {} is not divided among the threads of a CTA", spec.bn);
        return PlanError::new("cta_m", fact, why, error.help().unwrap_or_default());
    }
    error
}

/// Threads with rows side by side and columns in runs of 16 bytes, for loads of 16 bytes from shared memory.
pub(crate) fn blocked(spec: &KernelSpec) -> Result<Tile, PlanError> {
    find_blocked(spec).ok_or_else(|| {
        if let Some(rows) = spec.cta_m
            && find_blocked(&KernelSpec { cta_m: None, ..*spec }).is_some()
        {
            let why = format!("a tile has at most {BLOCKED_ROWS} rows, and {BLOCKED_THREADS} threads of up to 8 x 8 sums");
            return rows_asked(spec, rows, find_blocked, why);
        }
        let fits = |bn: &u32| find_blocked(&KernelSpec { bn: *bn, ..*spec }).is_some();
        let nearest = (1..=32).map(|i| i * 16).filter(fits).min_by_key(|bn| bn.abs_diff(spec.bn));
        PlanError::new(
            "bn",
            format!("a tile of {} columns cannot be divided among warps for blocks of {} rows", spec.bn, spec.bm),
            format!(
                "a warp is r x c = {WARP} threads of 1, 2, 4 or 8 rows x {BLOCKED_COLUMNS} columns: \
                 {BLOCKED_COLUMNS} x c must divide {}, the rows of r threads must divide a slice of {}'s, and a CTA has \
                 at most {BLOCKED_THREADS} threads",
                spec.bn, spec.bm
            ),
            nearest.map_or("vector = 1".to_owned(), |bn| format!("bn = {bn}, or vector = 1")),
        )
    })
}

fn find_blocked(spec: &KernelSpec) -> Option<Tile> {
    // Of B a row of threads loads whole lines; a load has 16 bytes, which for f32 takes two rows of threads.
    let even = spec.a.bytes() == 4;
    let candidates = slices(spec, BLOCKED_ROWS).flat_map(|cta_m| {
        let rows = [8, 4, 2, 1].into_iter().filter(move |rows| *rows < 8 || cta_m >= ROWS_FOR_EIGHT);
        rows.flat_map(move |thread_m| [4, 2, 8, 1, 16].map(|lanes_m| (cta_m, thread_m, lanes_m)))
    });
    candidates
        .filter(|(cta_m, thread_m, lanes_m)| cta_m.is_multiple_of(thread_m * lanes_m))
        .map(|(cta_m, thread_m, lanes_m)| Tile {
            cta_m,
            cta_n: spec.bn,
            thread_m,
            thread_n: BLOCKED_COLUMNS,
            lanes_m,
            lanes_n: WARP / lanes_m,
        })
        .find(|tile| {
            spec.bn.is_multiple_of(BLOCKED_COLUMNS * tile.lanes_n)
                && tile.threads() <= BLOCKED_THREADS
                && !(even && tile.grid_m() % 2 == 1)
        })
}

/// Row slices that a block can be cut into, the largest first, or the one that the spec asks for.
fn slices(spec: &KernelSpec, most: u32) -> impl Iterator<Item = u32> {
    let KernelSpec { bm, cta_m, .. } = *spec;
    let legal = move |rows: &u32| *rows <= most && bm.is_multiple_of(*rows) && cta_m.is_none_or(|asked| asked == *rows);
    (1..=bm / 8).rev().map(|i| i * 8).filter(legal)
}
