//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::{Fused, SddmmPlan, Split, WG_M};
use crate::KernelSpec;
use crate::hopper::{problem_maps, wgmma_k};
use crate::plan::{
    ClusterTile, KernelKind, KernelPlan, Major, Parameters, Problem, Profile, SddmmTiles, TensorMap, TileScheduler,
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

    fn rows(&self) -> Vec<[String; 3]> {
        let (s, t, m, e) = (&self.spec, &self.tiling, &self.memory, &self.epilogue);
        let roles = &t.roles;
        let mut rows: Vec<[String; 3]> = vec![];
        let mut row = |what: &str, value: String, why: String| rows.push([what.to_owned(), value, why]);
        let stored = if s.transpose.is_on() { "C^T = B^T A^T" } else { "C = A B" };
        row(
            "stored block",
            format!("{} x {}", s.bm, s.bk),
            format!("{} values of {stored}, {} B a block", s.out, s.bm * s.bk * s.out.bytes()),
        );
        row("CTA tile", format!("{} x {}", t.cta_m, t.cta_n()), self.rows_words());
        row("B panels", format!("{} x {}", t.panels, t.panel_columns), self.panel_words());
        row(
            "consumers",
            format!("{} x (64 x {})", roles.consumers, t.wg_n()),
            match t.split {
                Split::Whole => "one has the whole tile".to_owned(),
                Split::Rows => format!("{} rows / {}", t.cta_m, roles.consumers),
                Split::Panels => format!("{} B panels / {}", t.panels, roles.consumers),
            },
        );
        let unit = wgmma_k(s.a);
        row(
            "WGMMA",
            format!("m64n{}k{unit}", t.wg_n()),
            match t.half() {
                Some(half) => {
                    format!("{} += {} x {}; n = {} for tiles of {half} B panel(s)", s.acc, s.a, s.b, t.wg_n() / 2)
                }
                None => format!("{} += {} x {}", s.acc, s.a, s.b),
            },
        );
        row(
            "threads",
            roles.threads.to_string(),
            format!("({} consumers + 1 producer) x {}", roles.consumers, self.arch.warpgroup),
        );
        row(
            "accumulators",
            format!("{} registers", t.accumulators()),
            format!("64 x {} {} / 128 threads", t.wg_n(), s.acc),
        );
        row(
            "registers",
            format!("{} | {}", roles.producer_registers, roles.consumer_registers),
            format!("producer | consumer; {} at entry", roles.entry_registers),
        );
        for (side, tile) in [(&self.sides.left, &self.left), (&self.sides.right, &self.right)] {
            row(
                &format!("{} tile", side.name),
                format!("{} B", tile.bytes()),
                format!(
                    "{} swizzle panel(s) of {} rows x {} B, {}; TMA box {} x {}",
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
            "stages",
            m.ring.stages.to_string(),
            format!("of {} of K, {} + {} B", self.k_step(), self.left.bytes(), self.right.bytes()),
        );
        row(
            "staging",
            format!("{} B", roles.consumers * e.staging_bytes()),
            format!(
                "at {}: {} consumers x {} units of {} B, {} subtile(s) a tile",
                m.staging_offset,
                roles.consumers,
                e.staged,
                e.unit_bytes(),
                e.subtiles()
            ),
        );
        row(
            "work tiles",
            format!("{} B", m.places() * self.work_tile.bytes()),
            format!(
                "at {}: {} of {} B, one a stage, two more and the producer's",
                m.work_tiles_offset,
                m.places(),
                self.work_tile.bytes()
            ),
        );
        row(
            "barriers",
            (2 * m.ring.stages).to_string(),
            format!(
                "full at {}, empty at {} ({} arrivals)",
                m.ring.full_offset,
                m.ring.empty_offset(),
                m.ring.empty_arrivals
            ),
        );
        row(
            "shared memory",
            format!("{} B", m.total),
            format!("{} B left of {} B", self.arch.shared_bytes.saturating_sub(m.total), self.arch.shared_bytes),
        );
        row(
            "epilogue",
            if e.overlapped { "overlapped" } else { "serial" }.to_owned(),
            if e.overlapped {
                format!(
                    "{} packed registers are stored under the next tile's first {} stage(s)",
                    t.accumulators() / 2,
                    e.subtiles()
                )
            } else {
                "the tile is stored before the next one starts".to_owned()
            },
        );
        if let Some(fused) = &self.fused {
            row("function", format!("{} parameter(s)", fused.program.inputs().len()), self.fused_words(fused));
        }
        row(
            "C store",
            format!("box {} x {}", e.unit, e.box_rows),
            match e.swizzle {
                0 => format!("{} in rows of {} B, no swizzle", s.out, e.line),
                span => format!("{} swizzle {span} B", s.out),
            },
        );
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
                format!("{slices} tile(s) of rows a block; {bm} of {covered} rows are stored")
            }
            (pack, _) => {
                format!("{pack} block rows share a tile and its B panels; {rows} of {} rows are stored", t.cta_m)
            }
        }
    }

    /// When the spec's epilogue is applied, and what it is said of.
    fn fused_words(&self, fused: &Fused) -> String {
        let of = if self.spec.transpose.is_on() { "; rows and columns are those of C^T, which is stored" } else { "" };
        match fused.tile {
            None => format!("{}{of}", fused.program.text()),
            Some((input, _)) => format!(
                "{}{of}; `{}` comes through staging, its barriers at {}",
                fused.program.text(),
                fused.program.inputs()[input].name,
                self.memory.tile_offset
            ),
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
