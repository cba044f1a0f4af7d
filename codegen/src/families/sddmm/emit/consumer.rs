//! The consumers' multiply steps, and the steps on the sums of a tile before they are stored.

use serde::Serialize;

use super::super::plan::{SddmmPlan, Split};
use super::fused::ColumnBatch;
use super::store::{self, Subtile, WHOLE};
use crate::Dtype;
use crate::hopper::mainloop::{Group, Mainloop, Order, Release, Stage};
use crate::hopper::split_k::Exchange;
use crate::hopper::store::Pack;
use crate::hopper::wgmma::{At, Descriptors, Sums, Wgmma, modifiers, shape};
use crate::hopper::wgmma_k;

/// The consumer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Consumer {
    descriptors: Descriptors,
    row_stride: u32,
    /// Bytes from one consumer's B panels to the next one's in a work tile.
    stores_stride: u32,
    /// Bytes from a work tile's start to what the stores of the first B panel need.
    stores: u32,
    /// The mainloop over a tile of all B panels, then that over one of half of them, where there are such tiles.
    widths: Vec<Width>,
}

/// The code of tiles of one width.
#[derive(Clone, Debug, Serialize)]
struct Width {
    /// What its labels end in, where they are not those of the mainloop.
    name: &'static str,
    mainloop: Mainloop<Subtile>,
    /// Sums to clear where there are tiles of two widths.
    cleared: Vec<String>,
    /// How its sums go to the workspace and come from it.
    exchange: Exchange,
    /// Integer sums that become f32.
    conversions: Vec<Conversion>,
    /// The spec's epilogue on them, where it reads no full operand.
    column_batches: Vec<ColumnBatch>,
    packs: Vec<Pack>,
    /// Its stores, where they follow at once.
    subtiles: Vec<Subtile>,
}

/// An integer sum, and the f32 that it becomes.
#[derive(Clone, Debug, Serialize)]
struct Conversion {
    from: String,
    to: String,
}

/// Tiles of one width: what their names end in, what the names of their accumulators begin with, their columns.
///
/// Tiles of half the width have accumulators of their own names, and sums that are cleared first, although the first
/// WGMMA overwrites them: so no sum of one kind of tile is alive in the other kind. Where they shared names, ptxas 13.0
/// kept some elsewhere and serialized WGMMA to move them (its diagnostic C7511).
struct Kind {
    name: &'static str,
    suffix: &'static str,
    stem: &'static str,
    columns: u32,
}

impl Consumer {
    pub(super) fn new(plan: &SddmmPlan, subtiles: &[Subtile]) -> Self {
        let t = &plan.tiling;
        let (row_stride, columns) = match t.split {
            Split::Whole => (0, 0),
            Split::Rows => (64, 0),
            Split::Panels => (0, t.wg_n()),
        };
        let panels = if t.split == Split::Panels { t.wg_panels() } else { 0 };
        let whole = Kind { name: "tile", suffix: "", stem: WHOLE, columns: t.wg_n() };
        let half = Kind { name: "half", suffix: "_half", stem: "half", columns: t.wg_n() / 2 };
        let kinds = [whole, half].into_iter().take(if t.half().is_some() { 2 } else { 1 });
        Self {
            descriptors: Descriptors::new((&plan.left, &plan.right), (row_stride, columns)),
            row_stride,
            stores_stride: plan.work_tile.stores(panels) - plan.work_tile.stores(0),
            stores: plan.work_tile.stores(0),
            widths: kinds.map(|kind| Width::new(plan, &kind, subtiles)).collect(),
        }
    }
}

impl Width {
    fn new(plan: &SddmmPlan, kind: &Kind, subtiles: &[Subtile]) -> Self {
        let (sums, count) = (sums(plan, kind.stem), kind.columns / 2);
        let overlapped = plan.epilogue.overlapped;
        let own = store::subtiles(plan, kind.stem, plan.epilogue.units * kind.columns / plan.tiling.wg_n());
        let converted = plan.spec.a.is_integer() && plan.spec.out != Dtype::I32;
        let conversion = |i| Conversion { from: sums.name(i), to: format!("%f_{}{i}", kind.stem) };
        Self {
            name: kind.name,
            mainloop: mainloop(plan, kind, if overlapped { subtiles } else { &own }),
            cleared: match plan.tiling.half() {
                Some(_) => (0..count).map(|i| sums.name(i)).collect(),
                None => vec![],
            },
            exchange: Exchange::new(kind.name, "%p_store_lead", sums, count, plan.arch.warpgroup),
            conversions: (0..count).filter(|_| converted).map(conversion).collect(),
            column_batches: store::column_batches(plan, kind.stem, own.iter().map(|subtile| subtile.units).sum()),
            packs: store::packs(plan, kind.stem, count),
            subtiles: if overlapped { vec![] } else { own },
        }
    }
}

/// The order of a tile's stages. Subtiles are those of the tile before: under an overlapped epilogue a whole one's.
fn mainloop(plan: &SddmmPlan, kind: &Kind, subtiles: &[Subtile]) -> Mainloop<Subtile> {
    let order = Order {
        suffix: kind.suffix,
        overlapped: if plan.epilogue.overlapped { subtiles.len() as u32 } else { 0 },
        distinct: 1,
        lag: plan.tiling.roles.consumers == 1,
        release: Release::new(false),
        requests: plan.epilogue.has_tile,
    };
    let sides = &plan.sides;
    let instruction = (
        shape(kind.columns, plan.spec.acc, (sides.left.dtype, sides.right.dtype)),
        modifiers(plan.spec.a, (plan.left.major, plan.right.major)),
    );
    Mainloop::new(&order, instruction, subtiles, |_, label, first| {
        // The work tile came with the first stage, and was waited for.
        let (label, what) = match first {
            true => (None, "the first stage of a tile is full, and overwrites the accumulators"),
            false => (Some(label), "the next stage"),
        };
        let comment = format!("{} columns: {what}.", kind.columns);
        Stage { label, comment, factors: None, guard: None, quadrants: None, groups: vec![group(plan, kind, first)] }
    })
}

/// The WGMMAs of a stage.
fn group(plan: &SddmmPlan, kind: &Kind, first: bool) -> Group {
    let wgmma = |k: u32| {
        let at = At { a: plan.left.k_offset(k), b: plan.right.k_offset(k) };
        Wgmma::new(sums(plan, kind.stem).list(0..kind.columns / 2), at, first && k == 0)
    };
    let slices = (0..plan.k_step()).step_by(wgmma_k(plan.spec.a) as usize);
    Group { wgmmas: slices.map(wgmma).collect(), promotions: vec![], guard: None }
}

/// The accumulators whose names begin with `stem`.
fn sums(plan: &SddmmPlan, stem: &'static str) -> Sums {
    Sums { stem, dtype: plan.spec.acc }
}
