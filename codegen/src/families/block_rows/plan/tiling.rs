//! Step 3: the CTA tile, its split over consumer warpgroups, and the cluster.
//!
//! The sparsity block is a fact of the data; the CTA tile is a choice. A block of `bm` rows is covered by
//! `bm / cta_m` CTA tiles, which may share B's tile by multicast when they form a cluster.

use super::precision::Precision;
use super::{layout, packed};
use serde::Serialize;

use crate::hopper::{CONSUMER_OVERHEAD, Roles, WGMMA_M, box_columns, wgmma_k, whole_boxes};
use crate::plan::{Major, SparseTimesDense};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, Dtype, KernelSpec, Layout};

/// Accumulators beside which stages of several kinds leave a consumer too few registers.
pub(super) const FULL: u32 = 128;

/// Which operand the CTAs of a cluster load once and multicast to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Share {
    /// One CTA a cluster: nothing to share.
    Nothing,
    /// The CTAs cover consecutive row slices of one block row and share B's tile.
    B,
    /// The CTAs cover consecutive column tiles of one block row and share A's tile.
    A,
}

/// How consumer warpgroups divide the CTA tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Split {
    /// Each takes `cta_m / consumers` rows of all columns.
    Rows,
    /// Each takes all rows of `cta_n / consumers` columns.
    Columns,
}

/// The tile of one CTA and of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tiling {
    pub(crate) cta_m: u32,
    pub(crate) cta_n: u32,
    pub(crate) split: Split,
    pub(crate) wg_m: u32,
    pub(crate) wg_n: u32,
    pub(crate) roles: Roles,
    /// Registers of the sums that wait for their promotion: one row group's.
    pub(crate) partials: u32,
    pub(crate) cluster: u32,
    pub(crate) share: Share,
    /// Block rows that share the CTA tile and the columns of B; each has a consumer of its own.
    pub(crate) pack: u32,
}

impl Tiling {
    /// Registers of one consumer thread's accumulators of type `acc`.
    pub(crate) fn accumulators(&self, acc: Dtype) -> u32 {
        acc.registers(self.sums())
    }

    /// Sums of one consumer thread.
    pub(crate) fn sums(&self) -> u32 {
        self.wg_m * self.wg_n / 128
    }

    /// WGMMA row groups of one consumer.
    pub(crate) fn row_groups(&self) -> u32 {
        self.wg_m / WGMMA_M
    }

    /// Do a consumer's registers suffice?
    pub(super) fn fits(&self, acc: Dtype) -> bool {
        match self.partials {
            0 => self.roles.holds(self.accumulators(acc)),
            partials => self.roles.holds_with_partials(self.accumulators(acc), partials),
        }
    }

    /// Do they suffice for a packed copy of the tile, kept while the next one starts?
    pub(crate) fn fits_with_packed(&self, acc: Dtype) -> bool {
        self.fits_with_copy(acc, self.sums() / 2)
    }

    /// Do they suffice for a copy of so many registers?
    pub(crate) fn fits_with_copy(&self, acc: Dtype, registers: u32) -> bool {
        self.partials == 0 && self.roles.holds_with_packed(self.accumulators(acc), registers)
    }

    /// Rows of C that one cluster computes.
    pub(crate) fn cluster_m(&self) -> u32 {
        if self.share == Share::B { self.cta_m * self.cluster } else { self.cta_m }
    }

    /// Columns of C that one cluster computes.
    pub(crate) fn cluster_n(&self) -> u32 {
        if self.share == Share::A { self.cta_n * self.cluster } else { self.cta_n }
    }

    /// Multiply-adds per element that a stage loads: the larger, the less L2 traffic a FLOP costs.
    fn intensity(&self) -> f64 {
        f64::from(self.cta_m * self.cta_n) / f64::from(self.cta_m + self.cta_n)
    }

    /// Preference among legal tiles: intensity first; an epilogue that overlaps the next tile is worth some 7 %
    /// of a short row; two consumers before three before one.
    fn score(&self, acc: Dtype) -> f64 {
        let overlap = if self.fits_with_packed(acc) { 1.0 } else { 0.93 };
        let consumers = match self.roles.consumers {
            2 => 1.0,
            3 => 0.99,
            _ => 0.9,
        };
        self.intensity() * overlap * consumers
    }
}

/// The best legal tile, or why there is none.
pub(crate) fn choose(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    precision: &Precision,
    arch: &Arch,
) -> Result<Tiling, PlanErrors> {
    layout::check(spec, view)?;
    if let Some(pack) = spec.pack {
        return packed::tiling(spec, view, pack, arch);
    }
    let said = layout::consumers(spec).map(|(m, n)| m * n);
    let counts: Vec<u32> = match said.or(spec.consumers) {
        Some(n) if (1..=3).contains(&n) => vec![n],
        Some(n) => {
            return Err(PlanError::new(
                "consumers",
                format!("{n} consumer warpgroups are not supported"),
                format!(
                    "{n} + 1 producer = {} threads; with more than 3 consumers a thread has at most {} registers, too few for WGMMA",
                    (n.saturating_add(1)).saturating_mul(arch.warpgroup),
                    arch.registers / (5 * arch.warpgroup) / 8 * 8
                ),
                "consumers = 1, 2 or 3",
            )
            .into());
        }
        None => vec![2, 3, 1],
    };
    let tiles: Vec<Tiling> = tiles(spec, view, precision, &counts, arch).collect();
    let mut best: Option<Tiling> = None;
    for tiling in tiles.iter().copied().filter(|tiling| tiling.fits(spec.acc)) {
        if best.is_none_or(|b| tiling.score(spec.acc) > b.score(spec.acc)) {
            best = Some(tiling);
        }
    }
    best.ok_or_else(|| {
        let tightest = tiles.iter().copied().min_by_key(|tiling| tiling.accumulators(spec.acc) + tiling.partials);
        let narrower = [256, 128, 64, 32, 16].into_iter().filter(|bn| *bn < spec.bn).find(|&bn| {
            self::tiles(&KernelSpec { bn, ..*spec }, view, precision, &counts, arch).any(|tiling| tiling.fits(spec.acc))
        });
        no_tile(spec, view, tightest, narrower).into()
    })
}

/// The tiles that each number of consumers divides, those included that do not fit the registers.
fn tiles(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    precision: &Precision,
    counts: &[u32],
    arch: &Arch,
) -> impl Iterator<Item = Tiling> {
    let heights = layout::heights(spec, view);
    counts.iter().flat_map(move |&consumers| {
        heights.clone().into_iter().flat_map(move |cta_m| splits(spec, view, precision, cta_m, consumers, arch))
    })
}

/// The legal ways to divide a CTA tile over the consumers, the preferred one first: rows, then columns.
fn splits(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    precision: &Precision,
    cta_m: u32,
    consumers: u32,
    arch: &Arch,
) -> impl Iterator<Item = Tiling> {
    let busy_producer = precision.scales_blocks() && !view.depth.is_multiple_of(wgmma_k(spec.a));
    let roles = Roles::new(consumers, busy_producer, arch);
    let rows = cta_m.is_multiple_of(WGMMA_M * consumers).then_some((Split::Rows, cta_m / consumers, spec.bn));
    let columns = spec.bn.is_multiple_of(consumers).then_some((Split::Columns, cta_m, spec.bn / consumers));
    let said = layout::consumers(spec);
    let rows = rows.filter(|_| said.is_none_or(|(_, along_n)| along_n == 1));
    // A lone consumer has nothing to divide. Columns are the way out where rows do not do: they double the number of
    // WGMMAs that read the same A.
    let columns = columns.filter(|_| match said {
        Some((along_m, _)) => along_m == 1 && rows.is_none(),
        None => rows.is_none() || (precision.promoted && consumers > 1),
    });
    let promoted = precision.promoted;
    let (cta_n, widest) = (spec.bn, arch.wgmma_n);
    rows.into_iter().chain(columns).filter_map(move |(split, wg_m, wg_n)| {
        // Four row groups of promoted sums are more code than ptxas keeps in registers.
        let few_groups = !promoted || wg_m <= 2 * WGMMA_M;
        (whole_boxes(wg_n) && wg_n <= widest && roles.compiles(spec.acc.registers(wg_n / 2)) && few_groups).then_some(
            Tiling {
                cta_m,
                cta_n,
                split,
                wg_m,
                wg_n,
                roles,
                partials: if promoted { wg_n / 2 } else { 0 },
                cluster: 1,
                share: Share::Nothing,
                pack: 1,
            },
        )
    })
}

/// `narrower`: the most columns, fewer than the spec's, with which a tile fits.
fn no_tile(spec: &KernelSpec, view: &SparseTimesDense, tightest: Option<Tiling>, narrower: Option<u32>) -> PlanError {
    match tightest {
        Some(t) => PlanError::new(
            "bn",
            "accumulators do not fit the register file",
            format!(
                "{} x {} {} over {} consumer warpgroup(s) = {} registers per thread{}, and {} more for addresses; a consumer has {}",
                t.cta_m,
                t.cta_n,
                spec.acc,
                t.roles.consumers,
                t.accumulators(spec.acc),
                match t.partials {
                    0 => String::new(),
                    partials => format!(", {partials} for sums before promotion"),
                },
                CONSUMER_OVERHEAD,
                t.roles.consumer_registers
            ),
            match narrower {
                Some(bn) => format!("bn = {bn}, or leave `consumers` to the plan"),
                None => "leave `consumers` to the plan".to_owned(),
            },
        ),
        None => {
            let consumers = spec.consumers.or(layout::consumers(spec).map(|(m, n)| m * n)).unwrap_or(2);
            let key = match (spec.warps, spec.consumers, spec.cta_m) {
                (Some(_), _, _) => "warps",
                (None, Some(_), _) => "consumers",
                (None, None, Some(_)) => "cta_m",
                (None, None, None) => "bn",
            };
            let rows = spec.cta_m.unwrap_or(view.rows);
            PlanError::new(
                key,
                format!("{consumers} consumer warpgroups cannot divide a {rows} x {} tile", spec.bn),
                format!(
                    "a consumer needs a multiple of 64 rows, or else 16 or a multiple of 32 (up to {}) columns: {rows} / {consumers} rows, {} / {consumers} columns",
                    if consumers == 3 { 192 } else { 256 },
                    spec.bn
                ),
                match key {
                    "warps" | "cta_m" => format!("leave `{key}` to the plan, or bn = ?"),
                    _ => "leave `consumers` to the plan, or bn = ?".to_owned(),
                },
            )
        }
    }
}

/// Adds the cluster to a chosen tile.
pub(crate) fn form_cluster(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    mut tiling: Tiling,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> Tiling {
    let slices = view.rows / tiling.cta_m;
    // Sharing B over row slices saves L2 reads and costs a wait for the slowest CTA; measured on an H200 the two
    // cancel. Sharing A over column tiles wins a few per cent when N is wide and wastes CTAs when it is not. So a
    // cluster is that of the spec.
    let cluster = spec.cluster.unwrap_or(1);
    if cluster == 0 || cluster > arch.cluster || !cluster.is_power_of_two() {
        errors.push(PlanError::new(
            "cluster",
            format!("a cluster of {cluster} CTAs is not supported"),
            format!("a portable cluster has 1, 2, 4 or {} CTAs", arch.cluster),
            "cluster = 1, 2, 4 or 8",
        ));
        return tiling;
    }
    if cluster == 1 {
        return tiling;
    }
    tiling.cluster = cluster;
    let shares_b = tiling.pack == 1 && slices.is_multiple_of(cluster);
    tiling.share = if shares_b { Share::B } else { Share::A };
    if tiling.share == Share::B && !divides_b(view, &tiling, cluster) {
        errors.push(PlanError::new(
            "cluster",
            format!("{cluster} CTAs cannot each load an equal part of B's tile"),
            format!(
                "bn = {} columns / {cluster} CTAs = {}; a TMA box is 16, 32 or 64 columns wide",
                spec.bn,
                spec.bn / cluster
            ),
            format!("bn = {}, or cluster = 1", 64 * cluster),
        ));
    }
    if tiling.share == Share::A && view.sparse == Major::Mn && !(tiling.cta_m / WGMMA_M).is_multiple_of(cluster) {
        errors.push(PlanError::new(
            "cluster",
            format!("{cluster} CTAs cannot each load an equal part of the transposed tile"),
            format!("{} rows / {cluster} CTAs = {}; a TMA box is 64 rows wide", tiling.cta_m, tiling.cta_m / cluster),
            "cluster = 1",
        ));
    }
    tiling
}

/// Can B's tile be loaded in `cluster` equal parts?
fn divides_b(view: &SparseTimesDense, tiling: &Tiling, cluster: u32) -> bool {
    match view.dense {
        Layout::RowMajor => (tiling.cta_n / box_columns(tiling.wg_n)).is_multiple_of(cluster),
        Layout::ColMajor => tiling.cta_n.is_multiple_of(8 * cluster),
    }
}
