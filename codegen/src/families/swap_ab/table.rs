//! The summary and the table of a plan of this family.

use super::plan::{Fused, Memory, SwapAbPlan, Tile};
use crate::hopper::ring::Ring;
use crate::hopper::table::{self, Row, row};

impl SwapAbPlan {
    /// The plan in one line.
    pub(super) fn line(&self) -> String {
        let Tile { pack, rows, cta_n, .. } = self.tile;
        let Memory { b_panels, blocks, ring: Ring { stages, stage_bytes, .. }, total, .. } = self.memory;
        let (consumers, columns, depth) = (self.tile.roles.consumers, self.tile.columns(), self.k_slice.depth);
        format!(
            "swap-AB, CTA tile {pack} block row(s) of {rows} x {cta_n}, {consumers} consumers of {columns} columns, stages of {b_panels} B panel(s) of K {depth} and {blocks} block(s), {stages} stages of {stage_bytes} B, {total} B shared"
        )
    }

    /// The table.
    pub(super) fn table(&self) -> Vec<Row> {
        let (spec, tile, memory) = (&self.spec, &self.tile, &self.memory);
        let mut rows: Vec<Row> = table::batch(spec, self.maps_of_a_problem()).into_iter().collect();
        rows.push(table::block("sparsity block", spec, self.view.sparse_type, ""));
        rows.push(row("operands", "swap-AB", self.why.clone()));
        rows.extend(self.cta_tile_rows());
        let share = format!("{} x {} {} / 128 threads", tile.tile_rows(), tile.columns(), spec.acc);
        rows.extend(table::roles(&tile.roles, (tile.accumulators(spec.acc), share)));
        rows.push(self.k_row());
        rows.push(table::operand("B panel", &self.dense, "MN-major"));
        rows.push(table::operand("block", &self.sparse, "MN-major"));
        rows.extend(self.memory_rows());
        rows.push(table::shared_memory(memory.total, &self.arch));
        rows.extend(self.workspace().map(|workspace| workspace.row(spec.split)));
        rows.push(table::store_order(None));
        rows.extend(self.fused.as_ref().map(|fused| self.function(fused)));
        rows.push(table::store(self.store.store_box, format!("{} swizzle {} B", spec.out, self.store.span)));
        rows
    }

    fn cta_tile_rows(&self) -> [Row; 3] {
        let Tile { pack, rows, slices, cta_n, groups, .. } = self.tile;
        let (consumers, unit) = (self.tile.roles.consumers, self.unit());
        let cover = match slices {
            1 => format!("{pack} block row(s) of {rows} that share B panels of the dense operand"),
            n => format!("a block is {n} = {} / {rows} row slices", self.view.rows),
        };
        let products = format!("{} += dense columns x block rows, {groups} per {unit} of K and block", self.spec.acc);
        let columns = format!("{consumers} x {} columns", self.tile.columns());
        [
            row("CTA tile", format!("{} x {cta_n}", self.tile.tile_rows()), cover),
            row("consumers", columns, format!("{cta_n} columns / {consumers}")),
            row("WGMMA", format!("m64n{rows}k{unit}"), products),
        ]
    }

    fn k_row(&self) -> Row {
        let (k, depth) = (&self.k_slice, self.view.depth);
        let slices = match k.count {
            1 => format!("{} a B panel", k.depth),
            n => format!("{n} x {}", k.depth),
        };
        let why = match k.by_block {
            true => format!("{} in shared memory: whole WGMMAs, zeros beyond the block's {depth}", k.held),
            false => format!("{depth} of K in {} B panel(s)", k.count),
        };
        row("K of a block", slices, why)
    }

    fn memory_rows(&self) -> [Row; 4] {
        let Memory { b_panels, blocks, b_panel_bytes, block_bytes, ring, staging_offset, metadata_offset, .. } =
            self.memory;
        let Ring { stages, stage_bytes, .. } = ring;
        let (consumers, buffers, rows) = (self.tile.roles.consumers, self.memory.buffers, self.store.rows);
        let stage =
            format!("up to {b_panels} B panel(s) of {b_panel_bytes} B and {blocks} block(s) of {block_bytes} B");
        let staging = (staging_offset, metadata_offset - staging_offset);
        let parts = format!("{buffers} buffer(s) x {rows} rows of C x 64 columns");
        let mut barriers = table::barriers(&ring);
        barriers[2] += &format!("; metadata at {metadata_offset}");
        [
            row("stage", format!("{stage_bytes} B"), stage),
            row("stages", stages.to_string(), format!("at 0 .. {}", stages * stage_bytes)),
            table::staging(staging, consumers, &parts, self.store.subtiles(&self.tile)),
            barriers,
        ]
    }

    /// The spec's epilogue. A consumer has a barrier of the full operand for each of its buffers.
    fn function(&self, fused: &Fused) -> Row {
        let when = "; values that depend on 64 dense columns are cached while these are stored";
        let operand = fused.tile.map(|(input, _)| (input, self.memory.tile_offset));
        table::function(fused.program, if operand.is_some() { "" } else { when }, operand)
    }
}
