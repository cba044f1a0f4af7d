//! Step 2: the CTA tile and the warps that share it.

use serde::Serialize;

use super::crew::{self, Crew, PARTS};
use super::epilogue::staged_bytes;
use super::kloop::SHALLOW;
use super::units::{VECTOR_BYTES, fragment, fragment_registers};
use super::{doubles, fused, seen};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, Dtype, KernelSpec, Layout, Load, Mma, Op};

/// Registers of a thread beside accumulators and fragments: iterators, addresses, predicates.
const OVERHEAD: u32 = 60;
/// Registers of what is computed of sums, beside the accumulators of the tile.
const FUSED: u32 = 16;
/// Registers of blocks that an index lists, of a problem of a list, and of sums that other CTAs have made.
const INDEXED: u32 = 12;
const LISTED: u32 = 8;
const SHARED: u32 = 16;
/// Of the rows and columns of an SDDMM that a thread copies so many take no more than what else it does not need; what is computed of
/// its sums takes more, and fragments that are unpacked do.
const PLACES: u32 = 10;
const FUSED_BLOCKS: u32 = 8;
const UNPACKED_BLOCKS: u32 = 32;
/// Registers that a filling loop of one turn takes where fragments are unpacked.
const DISSOLVED: u32 = 48;
/// Warps of a CTA that the plan tries by itself, and accepts in a spec.
const USUAL_WARPS: u32 = 8;
const MOST_WARPS: u32 = 16;
/// Warps on one SM beyond which more hide nothing more.
const BUSY_WARPS: u32 = 16;
/// Multiply-adds of f16 that an SM does in a cycle, bytes of shared memory that it reads, and bytes that L2 gives it:
/// an H200's by measurement. What they are worth against each other hardly differs between GPUs.
const RATES: [f64; 3] = [1300.0, 128.0, 32.0];

/// The tile of one CTA, and of one warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tiling {
    pub(crate) cta_m: u32,
    pub(crate) cta_n: u32,
    /// Warps along M and along N.
    pub(crate) warps: (u32, u32),
    pub(crate) warp_m: u32,
    pub(crate) warp_n: u32,
    /// Rows and columns of one fragment; mma_sync takes two instructions side by side.
    pub(crate) fragment: (u32, u32),
    /// Fragments of the next instruction are loaded while this one runs: two sets of registers.
    pub(crate) buffered: bool,
    /// Registers that a thread is expected to need.
    pub(crate) registers: u32,
    /// CTAs that an SM should hold.
    pub(crate) resident: u32,
}

impl Tiling {
    pub(crate) fn threads(&self) -> u32 {
        self.warps.0 * self.warps.1 * 32
    }

    /// Registers of a thread's accumulators.
    pub(crate) fn accumulators(&self, spec: &KernelSpec) -> u32 {
        spec.acc.registers(self.warp_m * self.warp_n / 32)
    }

    /// Sets of fragments that a warp has.
    pub(crate) fn sets(&self) -> u32 {
        if self.buffered { 2 } else { 1 }
    }

    /// Fragments of A and of B that a warp multiplies with each other.
    pub(crate) fn fragments(&self) -> (u32, u32) {
        (self.warp_m / self.fragment.0, self.warp_n / self.fragment.1)
    }

    fn new(spec: &KernelSpec, cta_m: u32, warps: (u32, u32), arch: &Arch) -> Option<Self> {
        let fragment = fragment(spec);
        let divides = |whole: u32, parts: u32, unit: u32| parts > 0 && whole.is_multiple_of(parts.saturating_mul(unit));
        if !divides(cta_m, warps.0, fragment.0) || !divides(spec.bn, warps.1, fragment.1) {
            return None;
        }
        let mut tiling = Self {
            cta_m,
            cta_n: spec.bn,
            warps,
            warp_m: cta_m / warps.0,
            warp_n: spec.bn / warps.1,
            fragment,
            buffered: true,
            registers: 0,
            resident: 1,
        };
        let (parts_m, parts_n) = tiling.fragments();
        // Opaque f16 fragments name every element twice or more often, as Volta held them; later GPUs hold it once.
        let (a, b) = match spec.mma {
            Mma::Wmma if arch.cp_async => (fragment.0 / 4, fragment.1 / 4),
            _ => fragment_registers(spec),
        };
        let set = parts_m * a + parts_n * b;
        // Without asynchronous copies a stage passes through registers.
        let copied = if arch.cp_async { 0 } else { tiling.copied_registers(spec) };
        // Hopper has no FP8 mma.sync: its compiler turns a set of fragments into f16, which takes twice as many.
        let unpacked = if spec.a.is_fp8() { 2 * set } else { 0 };
        // Of two stages one is filled ahead, here with one block: the loop that fills has one turn, which the compiler dissolves, so that it keeps
        // addresses of copies beside fragments that it unpacks.
        let is_alone = spec.bk * spec.a.bytes() > SHALLOW;
        let dissolves = spec.a.is_fp8() && spec.stages == Some(2) && is_alone && arch.compute_capability == (9, 0);
        let dissolved = if dissolves && !spec.load.has_roles() { DISSOLVED } else { 0 };
        // Fragments of f64 are aligned groups of up to 16 registers, between which some stay unused.
        let unused = if doubles::takes(spec) { 16 } else { 0 };
        let overhead = if spec.load.has_roles() { crew::overhead(spec) } else { OVERHEAD };
        let fused = if fused::is_on(spec) { FUSED } else { 0 };
        let rest = tiling.accumulators(spec)
            + set
            + unpacked
            + dissolved
            + fused
            + copied
            + unused
            + overhead
            + further(spec)
            + tiling.places(spec);
        // Two sets leave fewer places for aligned groups.
        tiling.registers = rest + set + unused / 2;
        tiling.buffered = tiling.registers <= tiling.most_registers(spec, 1, arch);
        tiling.registers = if tiling.buffered { rest + set } else { rest };
        tiling.resident = tiling.residency(spec, arch);
        Some(tiling)
    }

    /// Registers that a shallow stage passes through.
    fn copied_registers(&self, spec: &KernelSpec) -> u32 {
        let bytes = (self.cta_m + self.cta_n) * SHALLOW.min(spec.bk * spec.a.bytes());
        bytes.div_ceil(self.threads() * 4)
    }

    /// Registers of what an SDDMM needs beside: the place of each copy, 128 bytes along K, and of results in blocks.
    fn places(&self, spec: &KernelSpec) -> u32 {
        let copies = (self.cta_m + self.cta_n) * 8 / self.threads();
        match (spec.op == Op::Sdd, spec.load.has_roles()) {
            (false, _) => 0,
            (true, true) => fused_blocks(spec),
            (true, false) if spec.a.is_fp8() => copies + UNPACKED_BLOCKS,
            (true, false) => copies.saturating_sub(PLACES) + fused_blocks(spec),
        }
    }

    /// The crew of such a tile, `resident` CTAs sharing an SM.
    pub(crate) fn crew(&self, spec: &KernelSpec, resident: u32, arch: &Arch) -> Crew {
        Crew::new(spec, self.warps.0 * self.warps.1, self.registers, resident, arch)
    }

    /// Threads that copy a stage by `cp.async`, or through registers.
    pub(crate) fn copying_threads(&self, load: Load) -> u32 {
        if load.has_roles() { Crew::copying_threads(load) } else { self.threads() }
    }

    fn fits(&self, spec: &KernelSpec, arch: &Arch) -> bool {
        let most = self.most_registers(spec, 1, arch);
        self.registers <= most && (spec.load.has_roles() || self.threads() / 32 <= warps_of(self.registers, arch))
    }

    /// Registers that a thread that multiplies may have, `resident` CTAs sharing an SM.
    fn most_registers(&self, spec: &KernelSpec, resident: u32, arch: &Arch) -> u32 {
        if spec.load.has_roles() { self.crew(spec, resident, arch).most() } else { arch.registers_per_thread }
    }

    /// CTAs of an SM: as many as registers and threads allow and latencies need, and three shallow stages of each.
    fn residency(&self, spec: &KernelSpec, arch: &Arch) -> u32 {
        let most = (BUSY_WARPS * 32 / self.threads()).max(1);
        let by_registers = match spec.load.has_roles() {
            true => (1..=most).rev().find(|resident| self.registers <= self.most_registers(spec, *resident, arch)),
            false => Some(warps_of(spec.maxnreg.unwrap_or(self.registers), arch) * 32 / self.threads()),
        };
        let subtiles = self.threads() / 32 * 16 * self.warp_n * staged_bytes(spec);
        let ring = 3 * (self.cta_m + self.cta_n) * SHALLOW;
        let by_memory = arch.shared_bytes_per_sm / (ring + subtiles + arch.shared_bytes_reserved);
        by_registers.unwrap_or(1).min(arch.threads_per_sm / self.threads()).min(by_memory).clamp(1, most)
    }

    /// What a multiply-add costs: tensor cores, shared memory and L2 overlap in part, and few warps hide little.
    fn cost(&self, spec: &KernelSpec, arch: &Arch) -> f64 {
        let bytes = f64::from(spec.a.bytes());
        let warps = self.warps.0 * self.warps.1;
        let loaded = f64::from(self.cta_m + self.cta_n) * bytes;
        let read = f64::from(warps * (self.warp_m + self.warp_n)) * bytes;
        let products = f64::from(self.cta_m * self.cta_n);
        let [tensor, shared, l2] = RATES;
        let tensor = match spec.a {
            Dtype::F64 => f64::from(doubles::rate(spec, arch)),
            Dtype::F32 => tensor / 2.0,
            _ => tensor,
        };
        // Some 60 instructions a warp and stage beside the products, at four a cycle.
        let issue = f64::from(warps) * 60.0 / 4.0 / f64::from(spec.bk.min(64));
        let time = products / tensor + 0.4 * (loaded + read) / shared + 0.4 * loaded / l2 + 0.5 * issue;
        let idle = f64::from(8u32.saturating_sub(warps * self.resident));
        let stalls = if self.buffered { 1.0 } else { 1.1 };
        time / products * (1.0 + 0.06 * idle) * stalls
    }
}

fn fused_blocks(spec: &KernelSpec) -> u32 {
    if fused::is_on(spec) { FUSED_BLOCKS } else { 0 }
}

/// Registers of what some products do beside loading and multiplying. Warps that only load have their own.
fn further(spec: &KernelSpec) -> u32 {
    let of = |is_on: bool, registers: u32| if is_on { registers } else { 0 };
    let loads = !spec.load.has_roles();
    of(loads && seen::is_along_m(spec), INDEXED)
        + of(loads && spec.batch.is_on(), LISTED)
        + of(spec.split.is_on(), SHARED)
}

/// Warps of so many registers a thread that an SM holds. Each of its four parts has warps and registers of its own.
fn warps_of(registers: u32, arch: &Arch) -> u32 {
    let registers = registers.min(arch.registers_per_thread).next_multiple_of(arch.register_unit);
    arch.registers / (PARTS * 32) / registers * PARTS
}

/// The legal tiles, the cheapest first, or why there is none.
pub(crate) fn choices(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Tiling>, PlanErrors> {
    let (unit_m, unit_n) = fragment(spec);
    let counts: Vec<(u32, u32)> = match spec.warps {
        Some(warps) => vec![warps],
        None => (1..=USUAL_WARPS).flat_map(|m| (1..=USUAL_WARPS / m).map(move |n| (m, n))).collect(),
    };
    if let Some((m, n)) = spec.warps
        && m.saturating_mul(n) > MOST_WARPS
    {
        return Err(too_many_warps(m, n, arch).into());
    }
    let rows = rows(spec, unit_m)?.into_iter();
    let all: Vec<Tiling> =
        rows.flat_map(|rows| counts.iter().filter_map(move |warps| Tiling::new(spec, rows, *warps, arch))).collect();
    let mut legal: Vec<Tiling> =
        all.iter().filter(|tiling| tiling.fits(spec, arch) && whole_vectors(spec, tiling)).copied().collect();
    legal.sort_by(|a, b| a.cost(spec, arch).total_cmp(&b.cost(spec, arch)));
    match all.iter().min_by_key(|tiling| tiling.registers) {
        _ if !legal.is_empty() => Ok(legal),
        Some(tiling) if !tiling.fits(spec, arch) => Err(no_registers(spec, tiling, arch).into()),
        _ => Err(indivisible(spec, unit_m, unit_n).into()),
    }
}

/// The rows that a tile may have: as the spec says, or up to 256 that divide a block.
fn rows(spec: &KernelSpec, unit: u32) -> Result<Vec<u32>, PlanError> {
    let divides = |rows: &u32| spec.bm.is_multiple_of(*rows);
    let all = |most: u32| (1..=most / unit).map(|i| i * unit).filter(divides);
    let Some(rows) = spec.cta_m else { return Ok(all(256).collect()) };
    if all(spec.bm).any(|legal| legal == rows) {
        return Ok(vec![rows]);
    }
    Err(PlanError::tile_rows(rows, spec.bm, all(spec.bm), &format!("an instruction has {unit} rows")))
}

/// The key that decides a tile, where the spec has one.
fn tile_key(spec: &KernelSpec) -> &'static str {
    match (spec.warps, spec.cta_m) {
        (Some(_), _) => "warps",
        (None, Some(_)) => "cta_m",
        (None, None) => "bn",
    }
}

/// A line of a warp's part of C is stored in whole vectors of 16 bytes.
fn whole_vectors(spec: &KernelSpec, tiling: &Tiling) -> bool {
    let line = match spec.c_layout {
        Layout::RowMajor => tiling.warp_n,
        Layout::ColMajor => tiling.warp_m,
    };
    (line * spec.out.bytes()).is_multiple_of(VECTOR_BYTES)
}

fn too_many_warps(m: u32, n: u32, arch: &Arch) -> PlanError {
    PlanError::new(
        "warps",
        format!("{m} x {n} warps are too many for a CTA"),
        format!(
            "{} threads have {} registers each; a CTA of this family has up to {MOST_WARPS} warps",
            u64::from(m) * u64::from(n) * 32,
            u64::from(arch.registers) / (u64::from(m) * u64::from(n) * 32)
        ),
        "warps = (2, 4), or leave `warps` to the plan",
    )
}

fn no_registers(spec: &KernelSpec, tiling: &Tiling, arch: &Arch) -> PlanError {
    let limit = match spec.load.has_roles() {
        true => tiling.most_registers(spec, 1, arch),
        false => (arch.registers / tiling.threads()).min(arch.registers_per_thread),
    };
    let (m, n) = tiling.warps;
    PlanError::new(
        tile_key(spec),
        "accumulators do not fit the register file",
        format!(
            "{} x {} {} over {m} x {n} warps = {} x {} per warp = {} registers per thread, and {} more for fragments and \
             addresses; a thread has {limit}",
            tiling.cta_m,
            tiling.cta_n,
            spec.acc,
            tiling.warp_m,
            tiling.warp_n,
            tiling.accumulators(spec),
            tiling.registers - tiling.accumulators(spec),
        ),
        match (spec.warps, more_warps(spec, tiling, arch)) {
            (Some(_), Some(n)) => format!("warps = ({m}, {n}), or leave `warps` to the plan"),
            (Some(_), None) => "leave `warps` to the plan".to_owned(),
            (None, _) if spec.cta_m.is_some() => {
                format!("leave `cta_m` to the plan, or bn = {}", (spec.bn / 2).max(16))
            }
            (None, _) => format!("bn = {}", (spec.bn / 2).max(16)),
        },
    )
}

/// Warps along N between which the registers suffice.
fn more_warps(spec: &KernelSpec, tiling: &Tiling, arch: &Arch) -> Option<u32> {
    let (m, n) = tiling.warps;
    (n + 1..=MOST_WARPS / m)
        .find(|n| Tiling::new(spec, tiling.cta_m, (m, *n), arch).is_some_and(|t| t.fits(spec, arch)))
}

fn indivisible(spec: &KernelSpec, unit_m: u32, unit_n: u32) -> PlanError {
    let (m, n) = spec.warps.unwrap_or((1, 1));
    let (fragment, rows) = (format!("{unit_m} x {unit_n}"), spec.cta_m.unwrap_or(spec.bm));
    PlanError::new(
        tile_key(spec),
        format!("{m} x {n} warps cannot divide a tile of {rows} x {}", spec.bn),
        format!(
            "each warp computes whole fragments of {fragment} and stores C in whole 16-byte vectors: {rows} / {m} rows = {:.1}, \
             {} / {n} columns = {:.1}",
            f64::from(rows) / f64::from(m.max(1)),
            spec.bn,
            f64::from(spec.bn) / f64::from(n.max(1))
        ),
        if spec.warps.is_some() {
            let fewer =
                |most: u32, whole: u32, unit: u32| (1..=most).rev().find(|parts| whole.is_multiple_of(parts * unit));
            match (fewer(m, rows, unit_m), fewer(n, spec.bn, unit_n)) {
                (Some(m), Some(n)) => format!("warps = ({m}, {n}), or leave `warps` to the plan"),
                _ => "leave `warps` to the plan".to_owned(),
            }
        } else {
            "out = f16 or f32, or leave `shape` to the plan".to_owned()
        },
    )
}
