//! What a plan of this family tells in words: the line and the table.

use super::plan::{Fused, SwapAbPlan};
use crate::plan::Major;

impl SwapAbPlan {
    /// The plan in one line.
    pub(super) fn line(&self) -> String {
        let (t, m) = (&self.tile, &self.memory);
        format!(
            "operands swapped, CTA tile {} block row(s) of {} x {}, {} consumers of {} columns, stages of {} slab(s) of K {} and {} block(s), {} stages of {} B, {} B shared",
            t.pack,
            t.rows,
            t.cta_n,
            t.roles.consumers,
            t.columns(),
            m.b_panels,
            self.k_slice.depth,
            m.blocks,
            m.stages,
            m.stage_bytes,
            m.total
        )
    }

    /// What, how much, why.
    pub(super) fn table(&self) -> Vec<[String; 3]> {
        let (s, v, t, c, m) = (&self.spec, &self.view, &self.tile, &self.k_slice, &self.memory);
        let roles = &t.roles;
        let mut rows: Vec<[String; 3]> = vec![];
        let mut row = |what: &str, value: String, why: String| rows.push([what.to_owned(), value, why]);
        if s.batch.is_on() {
            let words = format!("{} tensor maps a problem, in global memory", self.maps_of_a_problem());
            row("batch", "a list of problems".to_owned(), words);
        }
        row(
            "sparsity block",
            format!("{} x {}", s.bm, s.bk),
            format!("{} values, {} B a block", v.sparse_type, s.bm * s.bk * v.sparse_type.bytes()),
        );
        row("operands", "swapped".to_owned(), self.why.clone());
        row(
            "CTA tile",
            format!("{} x {}", t.tile_rows(), t.cta_n),
            match t.slices {
                1 => format!("{} block row(s) of {} that share slabs of the dense operand", t.pack, t.rows),
                n => format!("a block is {n} = {} / {} row slices", v.rows, t.rows),
            },
        );
        row(
            "consumers",
            format!("{} x {} columns", roles.consumers, t.columns()),
            format!("{} columns / {}", t.cta_n, roles.consumers),
        );
        row(
            "WGMMA",
            format!("m64n{}k{}", t.rows, self.unit()),
            format!("{} += dense columns x block rows, {} a {} of K and block", s.acc, t.groups, self.unit()),
        );
        row(
            "threads",
            roles.threads.to_string(),
            format!("({} consumers + 1 producer) x {}", roles.consumers, self.arch.warpgroup),
        );
        row(
            "accumulators",
            format!("{} registers", t.accumulators()),
            format!("{} x {} {} / 128 threads", t.tile_rows(), t.columns(), s.acc),
        );
        row(
            "registers",
            format!("{} | {}", roles.producer_registers, roles.consumer_registers),
            format!(
                "producer | consumer; {} + {} x {} = {} <= {} x {} at entry",
                roles.producer_registers,
                roles.consumers,
                roles.consumer_registers,
                roles.producer_registers + roles.consumers * roles.consumer_registers,
                roles.entry_registers,
                roles.consumers + 1
            ),
        );
        row(
            "K of a block",
            match c.count {
                1 => format!("{} a slab", c.depth),
                n => format!("{n} x {}", c.depth),
            },
            match c.by_block {
                true => format!("{} held: whole WGMMAs, zeros beyond the block's {}", c.held, v.depth),
                false => format!("{} of K in {} slab(s)", v.depth, c.count),
            },
        );
        for (name, tile, bytes) in [("slab", &self.dense, m.b_panel_bytes), ("block", &self.sparse, m.block_bytes)] {
            row(
                name,
                format!("{bytes} B"),
                format!(
                    "{} panel(s) of {} rows x {} B, {}; TMA box {} x {}",
                    tile.panels,
                    tile.rows,
                    tile.span,
                    if tile.major == Major::K { "K-major" } else { "MN-major" },
                    tile.span_elements(),
                    tile.box_rows
                ),
            );
        }
        row(
            "stage",
            format!("{} B", m.stage_bytes),
            format!(
                "up to {} slab(s) of {} B and {} block(s) of {} B",
                m.b_panels, m.b_panel_bytes, m.blocks, m.block_bytes
            ),
        );
        row("stages", m.stages.to_string(), format!("at 0 .. {}", m.stages * m.stage_bytes));
        row(
            "staging",
            format!("{} B", m.metadata_offset - m.staging_offset),
            format!(
                "at {}: {} consumers x {} buffer(s) x {} rows of C x 64 columns, {} pass(es) a tile",
                m.staging_offset,
                roles.consumers,
                m.buffers,
                self.store.rows,
                self.store.subtiles(t)
            ),
        );
        row(
            "barriers",
            (2 * m.stages).to_string(),
            format!(
                "full at {}, empty at {} ({} arrivals); notes at {}",
                m.full_offset, m.empty_offset, m.empty_arrivals, m.metadata_offset
            ),
        );
        row(
            "shared memory",
            format!("{} B", m.total),
            format!("{} B left of {} B", self.arch.shared_bytes - m.total, self.arch.shared_bytes),
        );
        row("epilogue", "immediate".to_owned(), "the tile is stored before the next one starts".to_owned());
        if let Some(fused) = &self.fused {
            row("function", format!("{} parameter(s)", fused.program.inputs().len()), self.fused_words(fused));
        }
        row(
            "C store",
            format!("box {} x {}", self.store.store_box.0, self.store.store_box.1),
            format!("{} swizzle {} B", s.out, self.store.span),
        );
        rows
    }

    /// When the spec's epilogue has what it reads.
    fn fused_words(&self, fused: &Fused) -> String {
        let text = fused.program.text();
        match fused.tile {
            None => format!("{text}; what 64 dense columns determine is kept while they are stored"),
            Some((input, _)) => format!(
                "{text}; `{}` through staging, {} barrier(s) at {}",
                fused.program.inputs()[input].name,
                self.memory.buffers * self.tile.roles.consumers,
                self.memory.tile_offset
            ),
        }
    }
}
