//! What a plan of this family tells in words: the line and the table.

use super::plan::{Fused, Memory, SwapAbPlan, Tile};
use crate::hopper::ring::Ring;
use crate::hopper::{OperandTile, Roles};
use crate::plan::Major;

/// What, how much, why.
type Row = [String; 3];

fn row(what: &str, value: impl Into<String>, why: impl Into<String>) -> Row {
    [what.to_owned(), value.into(), why.into()]
}

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
        let (tile, memory) = (&self.tile, &self.memory);
        let mut rows = self.product_rows();
        rows.extend(self.cta_tile_rows());
        rows.extend(roles_rows(&tile.roles, self.accumulator_row()));
        rows.push(self.k_row());
        rows.push(operand_row("B panel", &self.dense));
        rows.push(operand_row("block", &self.sparse));
        rows.extend(self.memory_rows());
        rows.push(row(
            "shared memory",
            format!("{} B", memory.total),
            format!("{} B left of {} B", self.arch.shared_bytes - memory.total, self.arch.shared_bytes),
        ));
        rows.extend(self.workspace().map(|workspace| workspace.row(self.spec.split)));
        rows.extend(self.epilogue_rows());
        rows
    }

    fn product_rows(&self) -> Vec<Row> {
        let (spec, values) = (&self.spec, self.view.sparse_type);
        let maps = format!("{} tensor maps a problem, in global memory", self.maps_of_a_problem());
        let batch = spec.batch.is_on().then(|| row("batch", "a list of problems", maps));
        let bytes = format!("{values} values, {} B a block", spec.bm * spec.bk * values.bytes());
        let block = row("sparsity block", format!("{} x {}", spec.bm, spec.bk), bytes);
        batch.into_iter().chain([block, row("operands", "swap-AB", self.why.clone())]).collect()
    }

    fn cta_tile_rows(&self) -> [Row; 3] {
        let Tile { pack, rows, slices, cta_n, groups, .. } = self.tile;
        let (consumers, unit) = (self.tile.roles.consumers, self.unit());
        let cover = match slices {
            1 => format!("{pack} block row(s) of {rows} that share B panels of the dense operand"),
            n => format!("a block is {n} = {} / {rows} row slices", self.view.rows),
        };
        let products = format!("{} += dense columns x block rows, {groups} a {unit} of K and block", self.spec.acc);
        let columns = format!("{consumers} x {} columns", self.tile.columns());
        [
            row("CTA tile", format!("{} x {cta_n}", self.tile.tile_rows()), cover),
            row("consumers", columns, format!("{cta_n} columns / {consumers}")),
            row("WGMMA", format!("m64n{rows}k{unit}"), products),
        ]
    }

    fn accumulator_row(&self) -> Row {
        let (rows, columns) = (self.tile.tile_rows(), self.tile.columns());
        let why = format!("{rows} x {columns} {} / 128 threads", self.spec.acc);
        row("accumulators", format!("{} registers", self.tile.accumulators()), why)
    }

    fn k_row(&self) -> Row {
        let (k, depth) = (&self.k_slice, self.view.depth);
        let slices = match k.count {
            1 => format!("{} a B panel", k.depth),
            n => format!("{n} x {}", k.depth),
        };
        let why = match k.by_block {
            true => format!("{} held: whole WGMMAs, zeros beyond the block's {depth}", k.held),
            false => format!("{depth} of K in {} B panel(s)", k.count),
        };
        row("K of a block", slices, why)
    }

    fn memory_rows(&self) -> [Row; 4] {
        let Memory { b_panels, blocks, b_panel_bytes, block_bytes, ring, .. } = self.memory;
        let Ring { stages, stage_bytes, .. } = ring;
        let Memory { ring, staging_offset, metadata_offset, .. } = self.memory;
        let (full, empty, arrivals) = (ring.full_offset, ring.empty_offset(), ring.empty_arrivals);
        let (consumers, buffers, rows) = (self.tile.roles.consumers, self.memory.buffers, self.store.rows);
        let stage =
            format!("up to {b_panels} B panel(s) of {b_panel_bytes} B and {blocks} block(s) of {block_bytes} B");
        let staging = format!(
            "at {staging_offset}: {consumers} consumers x {buffers} buffer(s) x {rows} rows of C x 64 columns, {} subtile(s) a tile",
            self.store.subtiles(&self.tile)
        );
        let barriers = format!("full at {full}, empty at {empty} ({arrivals} arrivals); metadata at {metadata_offset}");
        [
            row("stage", format!("{stage_bytes} B"), stage),
            row("stages", stages.to_string(), format!("at 0 .. {}", stages * stage_bytes)),
            row("staging", format!("{} B", metadata_offset - staging_offset), staging),
            row("barriers", (2 * stages).to_string(), barriers),
        ]
    }

    fn epilogue_rows(&self) -> Vec<Row> {
        let (inner, outer) = self.store.store_box;
        let function = self.fused.as_ref().map(|fused| {
            row("function", format!("{} parameter(s)", fused.program.inputs().len()), self.fused_words(fused))
        });
        let swizzle = format!("{} swizzle {} B", self.spec.out, self.store.span);
        let store = row("C store", format!("box {inner} x {outer}"), swizzle);
        let order = row("epilogue", "serial", "the tile is stored before the next one starts");
        [Some(order), function, Some(store)].into_iter().flatten().collect()
    }

    /// When the spec's epilogue has what it reads.
    fn fused_words(&self, fused: &Fused) -> String {
        let text = fused.program.text();
        let Some((input, _)) = fused.tile else {
            return format!("{text}; what 64 dense columns determine is kept while they are stored");
        };
        let (name, at) = (&fused.program.inputs()[input].name, self.memory.tile_offset);
        let barriers = self.memory.buffers * self.tile.roles.consumers;
        format!("{text}; `{name}` through staging, {barriers} barrier(s) at {at}")
    }
}

/// Threads and registers of the roles, with what the accumulators take of these.
fn roles_rows(roles: &Roles, accumulators: Row) -> [Row; 3] {
    let Roles { consumers, threads, entry_registers: entry, producer_registers, consumer_registers } = *roles;
    let (producer, consumer, warpgroups) = (producer_registers, consumer_registers, consumers + 1);
    let sum = producer + consumers * consumer;
    let warpgroup = threads / warpgroups;
    [
        row("threads", threads.to_string(), format!("({consumers} consumers + 1 producer) x {warpgroup}")),
        accumulators,
        row(
            "registers",
            format!("{producer} | {consumer}"),
            format!(
                "producer | consumer; {producer} + {consumers} x {consumer} = {sum} <= {entry} x {warpgroups} at entry"
            ),
        ),
    ]
}

/// How an operand lies in shared memory.
fn operand_row(name: &str, tile: &OperandTile) -> Row {
    let OperandTile { panels, rows, span, box_rows, .. } = *tile;
    let (major, width) = (if tile.major == Major::K { "K-major" } else { "MN-major" }, tile.span_elements());
    let lies = format!("{panels} panel(s) of {rows} rows x {span} B, {major}; TMA box {width} x {box_rows}");
    row(name, format!("{} B", tile.bytes()), lies)
}
