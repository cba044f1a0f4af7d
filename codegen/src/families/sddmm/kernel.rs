//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::{Fused, SddmmPlan, Split, WG_M};
use crate::KernelSpec;
use crate::hopper::table::{self, Row, row};
use crate::hopper::{problem_maps, wgmma_k};
use crate::plan::{
    ClusterTile, KernelKind, KernelPlan, Parameters, Problem, Profile, SddmmTiles, TensorMap, TileScheduler,
};
use crate::probes::{Roles, TileName};

impl KernelPlan for SddmmPlan {
    fn summary(&self) -> String {
        let (t, m) = (&self.tiling, &self.memory);
        format!(
            "CTA tile {} x {}, {} B panel(s) of {} columns, {} consumer(s) of 64 x {}, {} stages of {} B, {} B shared",
            t.cta_m,
            t.cta_n(),
            t.panels,
            t.panel_columns,
            t.roles.consumers,
            t.wg_n(),
            m.ring.stages,
            m.ring.stage_bytes,
            m.total
        )
    }

    fn rows(&self) -> Vec<Row> {
        let (s, t, m, e) = (&self.spec, &self.tiling, &self.memory, &self.epilogue);
        let (consumers, unit) = (t.roles.consumers, wgmma_k(s.a));
        let (stored, of) = match s.transpose.is_on() {
            true => (" of C^T = B^T A^T", "; rows and columns are those of C^T, which is stored"),
            false => (" of C = A B", ""),
        };
        let divided = match t.split {
            Split::Whole => "one has the whole tile".to_owned(),
            Split::Rows => format!("{} rows / {consumers}", t.cta_m),
            Split::Panels => format!("{} B panels / {consumers}", t.panels),
        };
        let half =
            t.half().map_or(String::new(), |half| format!("; n = {} for tiles of {half} B panel(s)", t.wg_n() / 2));
        let stage = format!("of {} of K, {} + {} B", self.k_step(), self.left.bytes(), self.right.bytes());
        let staging = (m.staging_offset, consumers * e.staging_bytes());
        let (slots, bytes) = (m.places(), self.work_tile.bytes());
        let slot_words =
            format!("at {}: {slots} of {bytes} B: one per stage, two more and the producer's", m.work_tiles_offset);
        let layout = match e.swizzle {
            0 => format!("{} in rows of {} B, no swizzle", s.out, e.line),
            span => format!("{} swizzle {span} B", s.out),
        };
        let mut rows = vec![
            table::block("stored block", s, s.out, stored),
            row("CTA tile", format!("{} x {}", t.cta_m, t.cta_n()), self.rows_words()),
            row("B panels", format!("{} x {}", t.panels, t.panel_columns), self.panel_words()),
            row("consumers", format!("{consumers} x (64 x {})", t.wg_n()), divided),
            row("WGMMA", format!("m64n{}k{unit}", t.wg_n()), format!("{} += {} x {}{half}", s.acc, s.a, s.b)),
        ];
        rows.extend(table::roles(&t.roles, (t.accumulators(), format!("64 x {} {} / 128 threads", t.wg_n(), s.acc))));
        let sides = [(&self.sides.left, &self.left), (&self.sides.right, &self.right)];
        rows.extend(sides.map(|(side, tile)| table::operand(&format!("{} tile", side.name), tile, "MN-major")));
        rows.extend([
            row("stages", m.ring.stages.to_string(), stage),
            table::staging(staging, consumers, &format!("{} units of {} B", e.staged, e.unit_bytes()), e.subtiles()),
            row("work tiles", format!("{} B", slots * bytes), slot_words),
            table::barriers(&m.ring),
            table::shared_memory(m.total, &self.arch),
            table::store_order(e.overlapped.then(|| (t.accumulators() / 2, e.subtiles()))),
        ]);
        let operand = |fused: &Fused| fused.tile.map(|(input, _)| (input, m.tile_offset));
        rows.extend(self.fused.as_ref().map(|fused| table::function(fused.program, of, operand(fused))));
        rows.push(table::store((e.unit, e.box_rows), layout));
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tiling.cta_m,
            columns: self.tiling.cta_n(),
            block_rows: self.spec.bm,
            stages_per_block: (1, 1),
        }
    }

    fn threads(&self) -> u32 {
        self.tiling.roles.threads
    }

    fn shared_bytes(&self) -> u32 {
        self.memory.total
    }

    fn stores_by_tma(&self) -> bool {
        true
    }

    fn tile_scheduler(&self) -> TileScheduler {
        TileScheduler::Sddmm
    }

    fn sddmm_tiles(&self) -> Option<SddmmTiles> {
        Some(self.tiles())
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        self.arguments(problem)
    }

    fn problem_maps(&self, problem: &Problem) -> Vec<TensorMap> {
        if self.spec.batch.is_on() { self.maps(problem).to_vec() } else { vec![] }
    }

    fn ptx_version(&self) -> Option<&'static str> {
        problem_maps::ptx_version(&self.spec)
    }

    fn profile(&self) -> Profile {
        let t = &self.tiling;
        Profile {
            kind: KernelKind::Sddmm,
            cta_m: t.cta_m,
            cta_n: t.cta_n(),
            consumers: t.roles.consumers,
            share: (WG_M, t.wg_n()),
            instruction_n: t.wg_n(),
            stages: self.memory.ring.stages,
            stage_k: self.k_step(),
            held_k: self.k_step(),
            pack: t.pack,
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        self.tiling.roles.directives()
    }

    fn body(&self) -> String {
        emit::body(self)
    }

    fn roles(&self) -> Option<Roles> {
        let t = &self.tiling;
        let tile = if self.spec.transpose.is_on() { TileName::Columns(t.cta_m) } else { TileName::Rows(t.cta_m) };
        Some(Roles { producers: &["producer"], consumers: t.roles.consumers, tile })
    }
}

impl SddmmPlan {
    /// How block rows become rows of a tile.
    fn rows_words(&self) -> String {
        let (t, bm) = (&self.tiling, self.spec.bm);
        let rows = t.pack * bm.min(t.slices * t.cta_m);
        match (t.pack, t.slices) {
            (1, 1) if rows == t.cta_m => "a block's rows".to_owned(),
            (1, slices) => {
                let covered = slices * t.cta_m;
                format!("{slices} tile(s) of rows per block; {bm} of {covered} rows are stored")
            }
            (pack, _) => {
                format!("{pack} block rows share a tile and its B panels; {rows} of {} rows are stored", t.cta_m)
            }
        }
    }

    /// How blocks become B panels.
    fn panel_words(&self) -> String {
        let (t, bk) = (&self.tiling, self.spec.bk);
        let mut words = match t.parts {
            1 => "a block's columns".to_owned(),
            parts => format!("a block of {bk} columns is {parts} B panels"),
        };
        if t.pitch > t.panel_columns {
            words.push_str(&format!("; each takes {} columns of the tile, of which the last are not stored", t.pitch));
        }
        words
    }
}
