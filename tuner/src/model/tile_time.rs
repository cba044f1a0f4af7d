//! What one tile takes: its multiplications, its loads, and what they wait for.

use bsr_codegen::{KernelKind, Multicast, Profile, Unit};
use bsr_runtime::schedule::lanes_of_row;

use super::card::Card;
use super::footprint::Misses;
use super::prediction::both;
use super::rates::Rates;
use super::tile::Tile;
use super::tiles::Tiles;
use super::view::View;

/// How sharply the slower of the tensor cores and of shared memory decides within a WGMMA: nothing else is between them.
pub(super) const SHARED: f64 = 6.0;

/// What a row of small blocks takes longer by for each doubling or halving of the threads that serve it, from the best number:
/// 2 to 22 % were measured (`benches/LOG.md`, 69 and 85).
const GROUPS: f64 = 0.09;
/// Bytes of a block row for which the groups of an SM have as many under way as memory sends while they wait, and how sharply it
/// decides: rows of 324 to 2808 bytes took 3.2 to 1.06 times as long as memory does (`benches/LOG.md`, 69, 87 and 103).
const IN_FLIGHT: f64 = 750.0;
const IN_FLIGHT_SHARPNESS: f64 = 2.0;
/// Bytes of a block's column.
const COLUMN: f64 = 4.0;
/// What a column more of a tile costs a thread that has its sum: among tiles that all columns fit the narrowest is the fastest.
const COLUMNS: f64 = 0.01;
/// What blocks that are read together take over memory, bytes of a row of a block up to which it is no more, and what each byte more
/// costs.
const TOGETHER: f64 = 1.05;
const SHORT_ROW: f64 = 16.0;
const LONG_ROWS: f64 = 0.02;

/// Bytes of a line of L2.
const LINE: f64 = 128.0;

/// Lines of L2 in which a row of a box lies, over those that it fills: rows of blocks are `pitch` bytes apart, and a box may have
/// a piece of each.
fn lines(row: f64, pitch: f64) -> f64 {
    let (row, pitch, line) = (row as u64, pitch as u64, LINE as u64);
    let places = (0..line).flat_map(|at| (0..(pitch / row).max(1)).map(move |piece| at * pitch + piece * row));
    let (mut all, mut count) = (0, 0);
    for first in places {
        all += (first + row - 1) / line - first / line + 1;
        count += 1;
    }
    all as f64 / f64::from(count) / row.div_ceil(line) as f64
}

/// What a CTA has of the card while so many run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Of an SM's tensor cores.
    pub(super) tensor: f64,
    /// Bytes from L2 in a microsecond: of the card's, of the SM's.
    pub(super) l2: f64,
    pub(super) port: f64,
    /// Bytes of device memory in a microsecond.
    pub(super) hbm: f64,
}

impl Share {
    /// That of one of `active` CTAs.
    pub(super) fn new(active: f64, card: &Card, rates: &Rates) -> Self {
        let active = active.max(1.0);
        let of_sm = (card.sms as f64 / active).min(1.0);
        Self {
            tensor: of_sm,
            l2: rates.l2 * card.l2_tbs * 1e6 / active,
            port: rates.port * of_sm,
            hbm: rates.hbm * card.hbm_tbs * 1e6 / active,
        }
    }
}

/// What one tile takes, in microseconds of one CTA.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TileTime {
    /// Multiplications alone.
    pub(super) tensor: f64,
    /// Loads alone.
    pub(super) l2: f64,
    /// Both, and what comes from device memory, which overlap.
    pub(super) busy: f64,
    pub(super) barriers: f64,
    pub(super) latency: f64,
    /// The beginning of the tile, and a store that nothing hides.
    pub(super) ends: f64,
}

impl TileTime {
    /// The stages, from the first to the last.
    pub(super) fn stages(&self) -> f64 {
        self.busy + self.latency
    }

    pub(super) fn us(&self) -> f64 {
        self.stages() + self.ends
    }
}

/// What the time of a tile depends on beside the tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'s> {
    pub(super) profile: &'s Profile,
    pub(super) view: &'s View,
    pub(super) misses: Misses,
    pub(super) card: &'s Card,
    /// Bytes of the result that a tile has.
    pub(super) out: f64,
    /// Those of a full operand of its epilogue.
    pub(super) full: f64,
    /// As of the [tiles](Tiles), and of pairs of blocks whether they are in waves.
    sampled: bool,
    in_waves: Option<bool>,
    /// [Lines](lines) of a row of the sparse operand.
    lines: f64,
}

impl<'s> Setting<'s> {
    pub(super) fn new(profile: &'s Profile, view: &'s View, tiles: &Tiles, misses: Misses, card: &'s Card) -> Self {
        let (sampled, in_waves) = (tiles.sampled, tiles.pairs.as_ref().map(|pairs| pairs.in_waves));
        let lines = lines(f64::from(profile.copied_rows.0.max(16)), view.depth * view.bytes[0]);
        Self { profile, view, misses, card, out: tiles.out, full: tiles.full, sampled, in_waves, lines }
    }
}

/// What a tile loads.
pub(super) struct Loads {
    /// Microseconds of L2.
    pub(super) from_l2: f64,
    /// Bytes that come to the SM.
    pub(super) received: f64,
    /// Microseconds of the rows of TMA's boxes.
    pub(super) boxes: f64,
}

/// What the stages of a tile take at least beside their work: of device memory, of the SM's way from L2; and what they wait for
/// other CTAs.
pub(super) struct Paces {
    pub(super) hbm: f64,
    pub(super) own: f64,
    pub(super) waits: f64,
}

impl Rates {
    pub(super) fn tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        match setting.profile.kind.unit() {
            Unit::Warpgroups => self.wgmma_tile(setting, tile, share),
            Unit::Warps => self.warp_tile(setting, tile, share),
            Unit::Threads => self.scalar_tile(setting, tile, share),
        }
    }

    /// Microseconds of the store of a cluster's last tile, which no other one hides.
    pub(super) fn last_store(&self, setting: &Setting<'_>, share: &Share) -> f64 {
        if setting.profile.kind.has_roles() && setting.profile.overlapped {
            self.store + setting.out / share.l2
        } else {
            0.0
        }
    }

    fn wgmma_tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        let &Setting { profile, view, misses, card, out, .. } = setting;
        let sms = card.sms as f64;
        let kind = match (view.bytes[0] < 2.0, view.bytes[2] >= 4.0) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        // WGMMA reads both operands from shared memory at 128 B a clock: m64nNk32B takes N / 2 clocks of the tensor
        // core, and 16 + N / 4 of shared memory.
        let n = f64::from(profile.instruction_n.max(8));
        let efficiency = n / 2.0 / both(n / 2.0, 16.0 + n / 4.0, SHARED);
        // TF32 has as many bytes of K in an instruction, and half as many elements.
        let elements = if view.bytes[0] > 2.0 { 0.5 } else { 1.0 };
        let rate = self.wgmma[kind] * elements * efficiency * card.dense_tflops / sms * 1e6 * share.tensor;
        let mut tensor = tile.flops / rate;
        if profile.consumers == 1 {
            tensor *= self.alone;
        }
        if profile.promoted {
            tensor *= self.promoted;
        }
        let Loads { from_l2, received, boxes } = self.loads(setting, tile, share);
        // What an SM takes at most, however few others ask.
        let own = (received / share.port).max(boxes);
        let fills = if profile.kind == KernelKind::SwapAb { tile.stages * self.fill } else { 0.0 };
        let filled = both(from_l2, fills, self.sharpness[0]);
        let l2 = both(both(from_l2, own, SHARED), fills, self.sharpness[0]);
        let fetched = tile.sparse * misses.sparse + tile.dense * misses.dense;
        let hbm = (fetched + out * misses.results) / share.hbm;
        let doublings = f64::from(profile.cluster.max(1) * profile.pack.max(1)).log2();
        let wait = match profile.multicast {
            Multicast::Nothing => 0.0,
            Multicast::Sparse => self.wait[0] * doublings,
            Multicast::Dense => self.wait[1] * doublings,
        };
        let blocks = match profile.kind {
            KernelKind::SwapAb => tile.blocks * self.block + tile.stages * f64::from(profile.pack) * self.turn,
            _ => 0.0,
        };
        let rounds = tile.stages * self.round + tile.lone * self.lone + blocks;
        // A stage that CTAs share is loaded again when all of them have released it.
        let waits = tile.stages * wait;
        let work = both(tensor + rounds, filled, self.sharpness[0]);
        let (busy, latency) = self.paced(setting, tile, work, Paces { hbm, own, waits });
        // Stores leave through L2, too.
        let store = if profile.overlapped { 0.0 } else { self.store + out / share.l2 };
        TileTime { tensor, l2, busy, barriers: rounds + waits, latency, ends: self.between + store }
    }

    /// What a tile loads, and what that takes.
    pub(super) fn loads(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> Loads {
        let &Setting { profile, view, misses, sampled, in_waves, lines, .. } = setting;
        let sectors = self.sectors(view);
        let dense = tile.dense * if view.dense_is_k_major { sectors } else { 1.0 };
        let sparse = tile.sparse * sectors;
        let cluster = f64::from(profile.cluster.max(1));
        let times = |which: Multicast| if profile.multicast == which { cluster } else { 1.0 };
        let received = sparse * times(Multicast::Sparse) + dense * times(Multicast::Dense);
        let abreast = match (sampled, in_waves) {
            (true, _) => self.abreast,
            (_, Some(true)) => self.in_waves,
            (_, Some(false)) => self.apart,
            _ => 1.0,
        };
        let spans = profile.copied_rows;
        // Rows of an operand that is narrower than a line of L2 come several at a time, where a box has all of each.
        let (pitch, span) = (view.dense_extent * view.bytes[1], f64::from(spans.1.max(16)));
        let of_dense = if !view.dense_is_k_major && pitch <= span.min(LINE) { LINE } else { span };
        let rows = tile.sparse / f64::from(spans.0.max(16)) * lines + tile.dense / of_dense;
        let beyond = tile.beyond * self.beyond_ns * 1e-3;
        let read = sparse * (1.0 - misses.joined[0]) + dense * (1.0 - misses.joined[1]);
        let from_l2 = read / (share.l2 * abreast) + beyond;
        Loads { from_l2, received, boxes: rows * self.row_ns * 1e-3 / share.tensor }
    }

    /// The time of a tile's stages whose multiplications and loads from L2 take `work`, and what of it a ring buffer too shallow
    /// adds.
    pub(super) fn paced(&self, setting: &Setting<'_>, tile: &Tile, work: f64, paces: Paces) -> (f64, f64) {
        let (&Setting { profile, misses, .. }, Paces { hbm, own, waits }) = (setting, paces);
        // A stage is asked for when it is free: every `stages` stages take a latency and the work on one of them.
        // It is there when the last of its boxes is.
        let miss = misses.sparse.max(misses.dense);
        let trip = self.latency[0] + miss * (self.latency[1] - self.latency[0]);
        // Panels of the dense operand come in bursts, for which all wait; the sparse one streams.
        let streams = tile.sparse * misses.sparse / (tile.sparse + tile.dense).max(1.0);
        // Between two tiles memory goes on.
        let work = work + self.between;
        let busy = both(work, hbm, self.sharpness[1] / (1.0 - streams).max(0.1)) - self.between;
        let busy = both(busy, own, SHARED) + waits;
        let bound = (tile.stages * trip + busy) / f64::from(profile.stages.max(1));
        (busy, both(busy, bound, self.sharpness[0]) - busy)
    }

    /// What L2 reads of rows of a block over what is asked for: rows that are no multiple of its sectors of 32 bytes cost
    /// it two requests where one would do (`benches/LOG.md`, 15).
    fn sectors(&self, view: &View) -> f64 {
        let pitch = (view.depth * view.bytes[0]) as u64;
        if pitch.is_multiple_of(32) { 1.0 } else { self.across }
    }

    fn scalar_tile(&self, setting: &Setting<'_>, tile: &Tile, share: &Share) -> TileTime {
        let [atomic, register, vector] = self.scalar;
        let &Setting { profile, view, misses, card, out, .. } = setting;
        let tflops = match profile.kind {
            KernelKind::Atomic => atomic,
            KernelKind::Vector => vector,
            _ => register,
        };
        let tensor = tile.flops / (tflops / card.sms as f64 * 1e6) / share.tensor;
        let form = match profile.kind {
            KernelKind::SmallBlocks => small_groups(profile, tile),
            KernelKind::SmallBlocksTogether => small_together(view),
            _ => return TileTime { tensor, busy: tensor, ends: self.between, ..TileTime::default() },
        };
        // Tiles are rows of a few blocks: as many as fit are under way, and memory is what they wait for, unless columns that the
        // product does not have are multiplied, too.
        let hbm = form
            * (1.0 + COLUMNS * (f64::from(profile.cta_n) - 1.0))
            * (tile.sparse * misses.sparse + tile.dense * misses.dense + out)
            / share.hbm;
        let l2 = (tile.sparse + tile.dense) / share.l2;
        TileTime { tensor, l2, busy: both(both(hbm, l2, SHARED), tensor, SHARED), ..TileTime::default() }
    }
}

/// How much longer than memory takes a group of threads has for a row of small blocks: groups, `pack` of them in the CTA's warps, are
/// slower the further they are from the best ones, and where a row has few bytes.
fn small_groups(profile: &Profile, tile: &Tile) -> f64 {
    let lanes = f64::from(32 * profile.consumers / profile.pack.max(1));
    let best = f64::from(lanes_of_row(profile.cta_m, tile.blocks));
    let bytes = tile.sparse + COLUMN * tile.blocks;
    both(1.0, IN_FLIGHT / bytes.max(1.0), IN_FLIGHT_SHARPNESS) * (1.0 + GROUPS * (lanes / best).log2().abs())
}

/// The same of a CTA that reads blocks together: neighbouring threads read neighbouring rows of blocks, whose lines they share the
/// less the longer those are.
fn small_together(view: &View) -> f64 {
    TOGETHER + LONG_ROWS * (view.depth * view.bytes[0] - SHORT_ROW).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn rows_across_lines_are_counted() {
        // A stage of 56 elements of f16, of rows of 112; whole lines; half a line; 112 bytes of e4m3.
        let found = [(112.0, 224.0), (128.0, 256.0), (64.0, 128.0), (112.0, 112.0), (256.0, 256.0)]
            .map(|(row, pitch)| lines(row, pitch));
        assert_eq!(found, [1.75, 1.0, 1.0, 1.75, 1.0]);
    }
}
