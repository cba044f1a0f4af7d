//! The module's text.

use std::sync::OnceLock;

use serde::Serialize;

use super::attention_context::AttentionContext;
use super::common::Common;
use super::kernels::{CHECK_WARPS, Kinds, MASK_WARPS};
use super::length_context::LengthContext;
use super::pair_context::PairContext;
use super::shared_context::SharedContext;
use super::{IndexWidth, ListKernel, Shape, SplitLists};
use crate::arch::Arch;
use crate::emit::module::{Kernel, module};
use crate::emit::templates;
use crate::{SddmmTiles, SplitForm, TileScheduler};

/// Loads that a thread of the smaller kernels has on their way at the same time.
const LOADS: u32 = 8;

/// Rows whose lengths a thread of the assigning kernel loads at the same time.
const ROWS: u32 = 4;

/// Heads of clusters that a warp of the assigning kernel writes at the same time.
const HEADS: u32 = 5;

/// The kernels of a list run in order.
const FIRST: &str =
    "    // The kernels of a list run in order: each may start while the previous one runs, and waits for it before it reads.
    griddepcontrol.wait;
    griddepcontrol.launch_dependents;
";

/// The module with every kernel of [`ListKernel`]. The same text at every call.
pub fn ptx() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let arch = Arch { target: "sm_90", ..Arch::SM_90A };
        module("The work lists of a pattern in GPU memory.", arch, ListKernel::ALL.map(kernel).into())
    })
}

fn kernel(kernel: ListKernel) -> Kernel {
    Kernel::new(kernel.entry(), comment(kernel), kernel.threads(), &body(kernel))
        .parameters(kernel.pointers(), kernel.numbers())
        .first(FIRST)
}

fn comment(kernel: ListKernel) -> &'static str {
    match kernel {
        ListKernel::Check(_) => {
            "Checks row pointers and columns; writes the first block and the number of blocks of each correct row."
        }
        ListKernel::CountColumns => "Counts blocks by column, for each CTA's block rows.",
        ListKernel::ScanColumns => "Accumulates these counts, column by column.",
        ListKernel::ScatterColumns => "Lists blocks by column: their rows and their positions in storage.",
        ListKernel::Assign => "Assigns the tiles of C to clusters with balanced loads.",
        ListKernel::AssignParts => "Assigns split-K partials, and the tiles that add them, to separate clusters.",
        ListKernel::MaskRows => "Counts the blocks of every row of a mask.",
        ListKernel::MaskColumns => "Lists the columns of every row of a mask.",
        ListKernel::SddmmRows => "Counts the tiles of an SDDMM, and distributes them to CTAs in turn.",
        ListKernel::SddmmTiles => "Lists the tiles of an SDDMM.",
        ListKernel::SharedBits => "Marks the block columns of every block row.",
        ListKernel::SharedGroups => "Groups block rows that have many block columns in common.",
        ListKernel::SharedUnions => "Lists the block columns of block rows that share tiles.",
        ListKernel::SharedTiles => "Lists the tiles that were assigned, by group of block rows and column.",
        ListKernel::SplitRows => "Divides the K of every row of tiles into parts.",
        ListKernel::SplitTiles => "Lists the split-K partials and the tiles that add them, as assigned.",
        ListKernel::AttentionSteps => "Lists the steps of every row of tiles of an attention.",
        ListKernel::AttentionTiles => "Lists the tiles of an attention that were assigned, by row and column.",
        ListKernel::CheckPages => "Checks a page table; writes the number of keys of each correct problem.",
        ListKernel::LengthTiles => "Lists the tiles of an attention by the keys of its problems, in equal shares.",
        ListKernel::PairMarks => "Marks the block columns of every block row, with the numbers of its blocks.",
        ListKernel::PairCounts => "Counts the pairs of blocks of every row of blocks of a product, and its tiles.",
        ListKernel::PairScan => "Accumulates these counts.",
        ListKernel::PairLists => "Lists the pairs of blocks of a product, and its tiles in the order of their waves.",
        ListKernel::PairSpans => "Assigns the tiles of a product of two sparse factors to lists, some waves at a time.",
        ListKernel::PairDeal => "Assigns these lists, and the last tiles, to clusters.",
        ListKernel::PairWrite => "Writes the tiles of a product of two sparse factors where they were assigned.",
        ListKernel::ProductMask => "Marks the blocks that a product of two sparse factors has.",
    }
}

fn body(kernel: ListKernel) -> String {
    match kernel {
        ListKernel::Check(width) => templates::render("lists/check.ptx", &Check::new(width)),
        ListKernel::CountColumns => templates::render("lists/count_columns.ptx", &Threads::of(kernel)),
        ListKernel::ScanColumns => templates::render("lists/scan_columns.ptx", &Threads::of(kernel)),
        ListKernel::ScatterColumns => templates::render("lists/scatter_columns.ptx", &Threads::of(kernel)),
        ListKernel::Assign => templates::render("lists/assign.ptx", &Assign::new()),
        ListKernel::AssignParts => templates::render("lists/assign_parts.ptx", &Assign::new()),
        ListKernel::MaskRows => templates::render("lists/mask_rows.ptx", &Threads::of(kernel)),
        ListKernel::MaskColumns => templates::render("lists/mask_columns.ptx", &Threads::of(kernel)),
        ListKernel::SddmmRows => templates::render("lists/sddmm_rows.ptx", &Threads::of(kernel)),
        ListKernel::SddmmTiles => templates::render("lists/sddmm_tiles.ptx", &Threads::of(kernel)),
        ListKernel::SharedBits => templates::render("lists/shared_bits.ptx", &SharedContext::of(kernel)),
        ListKernel::SharedGroups => templates::render("lists/shared_groups.ptx", &SharedContext::of(kernel)),
        ListKernel::SharedUnions => templates::render("lists/shared_unions.ptx", &SharedContext::of(kernel)),
        ListKernel::SharedTiles => templates::render("lists/shared_tiles.ptx", &SharedContext::of(kernel)),
        ListKernel::SplitRows => templates::render("lists/split_rows.ptx", &Split::of(kernel)),
        ListKernel::SplitTiles => templates::render("lists/split_tiles.ptx", &Split::of(kernel)),
        ListKernel::AttentionSteps => templates::render("lists/attention_steps.ptx", &AttentionContext::of(kernel)),
        ListKernel::AttentionTiles => templates::render("lists/attention_tiles.ptx", &AttentionContext::of(kernel)),
        ListKernel::CheckPages => templates::render("lists/check_pages.ptx", &LengthContext::of(kernel)),
        ListKernel::LengthTiles => templates::render("lists/length_tiles.ptx", &LengthContext::of(kernel)),
        ListKernel::PairMarks => templates::render("lists/pair_marks.ptx", &PairContext::of(kernel)),
        ListKernel::PairCounts => templates::render("lists/pair_counts.ptx", &PairContext::of(kernel)),
        ListKernel::PairScan => templates::render("lists/pair_scan.ptx", &PairContext::of(kernel)),
        ListKernel::PairLists => templates::render("lists/pair_lists.ptx", &PairContext::of(kernel)),
        ListKernel::PairSpans => templates::render("lists/pair_spans.ptx", &PairContext::of(kernel)),
        ListKernel::PairDeal => templates::render("lists/pair_deal.ptx", &PairContext::of(kernel)),
        ListKernel::PairWrite => templates::render("lists/pair_write.ptx", &PairContext::of(kernel)),
        ListKernel::ProductMask => templates::render("lists/product_mask.ptx", &PairContext::of(kernel)),
    }
}

#[derive(Serialize)]
struct Check {
    warps: u32,
    kinds: Kinds,
    index: Index,
    loads: Vec<Load>,
    batch: u32,
}

#[derive(Serialize)]
struct Index {
    bytes: u32,
    load: &'static str,
}

#[derive(Serialize)]
struct Load {
    number: u32,
    offset: u32,
}

impl Check {
    fn new(width: IndexWidth) -> Self {
        let load = match width {
            IndexWidth::I32 => "s32",
            IndexWidth::I64 => "s64",
        };
        Self {
            warps: CHECK_WARPS,
            kinds: Kinds::NUMBERS,
            index: Index { bytes: width.bytes(), load },
            loads: (0..ListKernel::CHECK_LOADS).map(|number| Load { number, offset: 32 * number }).collect(),
            batch: 32 * ListKernel::CHECK_LOADS,
        }
    }
}

/// What the smaller kernels name.
#[derive(Serialize)]
struct Threads {
    #[serde(flatten)]
    common: Common,
    ahead: Vec<u32>,
    /// Rows that the scattering kernel has on their way at the same time.
    batch: [u32; 4],
    /// Lines of counts that a warp of the scan has on their way at the same time, and the warps that may come before it.
    lines: [u32; 4],
    warps_before: Vec<u32>,
    /// Words of an SDDMM's tile before its columns, and a coordinate beyond all others.
    header: u32,
    outside: u32,
    /// Words of a tile that a thread writes together, and how many such vectors the header is.
    words: [u32; 4],
    header_vectors: u32,
}

impl Threads {
    fn of(kernel: ListKernel) -> Self {
        let threads = kernel.threads();
        debug_assert!(kernel != ListKernel::MaskRows || threads == 32 * MASK_WARPS);
        Self {
            common: Common::of(kernel),
            ahead: (0..LOADS).collect(),
            batch: [0, 1, 2, 3],
            lines: [0, 1, 2, 3],
            warps_before: (0..threads / 32).collect(),
            header: SddmmTiles::HEADER,
            outside: TileScheduler::OUTSIDE,
            words: [0, 1, 2, 3],
            header_vectors: SddmmTiles::HEADER / 4,
        }
    }
}

/// What the kernels that divide K name.
#[derive(Serialize)]
struct Split {
    threads: u32,
    numbers: &'static [&'static str],
    contributes: u32,
    outside: u32,
    tile_bytes: u32,
}

impl Split {
    fn of(kernel: ListKernel) -> Self {
        Self {
            threads: kernel.threads(),
            numbers: kernel.numbers(),
            contributes: SplitForm::CONTRIBUTES,
            outside: TileScheduler::OUTSIDE,
            tile_bytes: SplitLists::TILE_BYTES,
        }
    }
}

#[derive(Serialize)]
struct Assign {
    pointers: &'static [&'static str],
    numbers: &'static [&'static str],
    threads: u32,
    warps: u32,
    /// Clusters whose heads a warp has on their way at the same time.
    ahead: Vec<u32>,
    /// Rows whose lengths a thread has on their way at the same time.
    rows_ahead: Vec<u32>,
    /// What the busiest cluster's cost times all clusters counts, and what the cost of all.
    level_of: [u32; 2],
    fine_tiles: u32,
    paired_turns: u32,
    uneven: u32,
    share_of_left: u32,
    share_of_left_shift: u32,
    cluster_bits: u32,
    cluster_mask: u32,
    most_load: u32,
    buckets: u32,
    bucket_stride: u32,
    bucket_zeros: u32,
    bucket_bits: u32,
    bucket_at: u32,
    cluster_shift: u32,
    recent: u32,
    recent_bits: u32,
    recent_mask: u32,
    recent_bytes: u32,
    swaps: u32,
    pairs_of_a_warp_bits: u32,
    pairs_at_once: u32,
    most_gap: u32,
    /// More than any tile costs: the cost of a missing tile.
    no_tile: u32,
    tiles_bits: u32,
    takes: Vec<u32>,
    take_halves: Vec<Four>,
    distances: Vec<u32>,
    /// Keys that a lane compares with at the same time.
    keys_at_once: Vec<u32>,
    fours: Vec<Four>,
}

/// Four words that are loaded together.
#[derive(Serialize)]
struct Four {
    first: u32,
    offset: u32,
}

impl Four {
    fn all(words: u32) -> Vec<Self> {
        (0..words).step_by(4).map(|first| Self { first, offset: 4 * first }).collect()
    }
}

impl Assign {
    fn new() -> Self {
        let threads = ListKernel::Assign.threads();
        let recent_bits = Shape::RECENT.trailing_zeros();
        let bucket_bits = Shape::BUCKETS.trailing_zeros();
        Self {
            pointers: ListKernel::Assign.pointers(),
            numbers: ListKernel::Assign.numbers(),
            threads,
            warps: threads / 32,
            ahead: (0..HEADS).collect(),
            rows_ahead: (0..ROWS).collect(),
            level_of: [Shape::LEVEL.1, Shape::LEVEL.0],
            fine_tiles: Shape::FINE_TILES,
            paired_turns: Shape::PAIRED_TURNS,
            uneven: Shape::UNEVEN,
            share_of_left: Shape::SHARE_OF_LEFT,
            share_of_left_shift: Shape::SHARE_OF_LEFT.trailing_zeros(),
            cluster_bits: Shape::CLUSTER_BITS,
            cluster_mask: (1 << Shape::CLUSTER_BITS) - 1,
            most_load: Shape::MOST_LOAD,
            buckets: Shape::BUCKETS,
            bucket_stride: Shape::BUCKET_STRIDE,
            bucket_zeros: 32 - bucket_bits,
            bucket_bits,
            bucket_at: Shape::PLACE_BITS,
            cluster_shift: Shape::PLACE_BITS + bucket_bits,
            recent: Shape::RECENT,
            recent_bits,
            recent_mask: Shape::RECENT - 1,
            recent_bytes: 4 * Shape::RECENT,
            swaps: Shape::SWAPS,
            pairs_of_a_warp_bits: 5 - recent_bits,
            pairs_at_once: threads / Shape::RECENT,
            most_gap: Shape::MOST_GAP,
            no_tile: 1 << 28,
            tiles_bits: 2 * recent_bits,
            takes: (0..Shape::RECENT).collect(),
            take_halves: Four::all(Shape::RECENT),
            distances: (0..recent_bits).map(|bit| 1 << bit).collect(),
            keys_at_once: (0..Shape::KEYS_AT_ONCE).collect(),
            fours: Four::all(Shape::KEYS_AT_ONCE),
        }
    }
}
