//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::{Fused, GROUP, SwapAbPlan};
use crate::KernelSpec;
use crate::plan::Major;
use crate::plan::{ClusterTile, KernelKind, KernelPlan, Parameters, Problem, Profile, TensorMap, Walk};

impl SwapAbPlan {
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

impl KernelPlan for SwapAbPlan {
    fn summary(&self) -> String {
        let (t, m) = (&self.tile, &self.memory);
        format!(
            "operands swapped, CTA tile {} block row(s) of {} x {}, {} consumers of {} columns, stages of {} slab(s) of K {} and {} block(s), {} stages of {} B, {} B shared",
            t.pack,
            t.rows,
            t.cta_n,
            t.roles.consumers,
            t.groups * 64,
            m.slabs,
            self.chunk.depth,
            m.blocks,
            m.stages,
            m.stage_bytes,
            m.total
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let (s, v, t, c, m) = (&self.spec, &self.view, &self.tile, &self.chunk, &self.memory);
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
            format!("{} x {} columns", roles.consumers, t.groups * 64),
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
            format!("{} x {} {} / 128 threads", t.tile_rows(), t.groups * 64, s.acc),
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
        for (name, tile, bytes) in [("slab", &self.dense, m.slab_bytes), ("block", &self.sparse, m.block_bytes)] {
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
            format!("up to {} slab(s) of {} B and {} block(s) of {} B", m.slabs, m.slab_bytes, m.blocks, m.block_bytes),
        );
        row("stages", m.stages.to_string(), format!("at 0 .. {}", m.stages * m.stage_bytes));
        row(
            "staging",
            format!("{} B", m.notes_offset - m.staging_offset),
            format!(
                "at {}: {} consumers x {} buffer(s) x {} rows of C x 64 columns, {} pass(es) a tile",
                m.staging_offset,
                roles.consumers,
                m.buffers,
                self.store.rows,
                self.store.passes(t)
            ),
        );
        row(
            "barriers",
            (2 * m.stages).to_string(),
            format!(
                "full at {}, empty at {} ({} arrivals); notes at {}",
                m.full_offset, m.empty_offset, m.empty_arrivals, m.notes_offset
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

    fn cluster_tile(&self) -> ClusterTile {
        self.cluster_tile_of()
    }

    fn walk(&self) -> Walk {
        Walk::Packed(self.packing_of())
    }

    fn threads(&self) -> u32 {
        self.tile.roles.threads
    }

    fn shared_bytes(&self) -> u32 {
        self.memory.total
    }

    fn stores_by_tma(&self) -> bool {
        true
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        self.arguments(problem)
    }

    fn problem_maps(&self, problem: &Problem) -> Vec<TensorMap> {
        if self.spec.batch.is_on() { self.maps(problem) } else { vec![] }
    }

    /// Tensor maps in global memory are fenced, which came with PTX 8.3.
    fn ptx_version(&self) -> Option<&'static str> {
        self.spec.batch.is_on().then_some("8.3")
    }

    fn profile(&self) -> Profile {
        let (t, m) = (&self.tile, &self.memory);
        Profile {
            kind: KernelKind::Swapped,
            cta_m: t.tile_rows(),
            cta_n: t.cta_n,
            consumers: t.roles.consumers,
            share: (t.tile_rows(), t.groups * GROUP),
            instruction_n: t.rows,
            stages: m.stages,
            stage_k: m.slabs * self.chunk.depth,
            held_k: self.chunk.held * self.chunk.count,
            stages_per_block: (self.chunk.count, 1),
            pack: t.pack,
            copied_rows: (self.sparse.span, self.dense.span),
            deferred: m.buffers > 1,
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, why: String::new(), ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        vec![format!(".maxntid {}, 1, 1", self.tile.roles.threads), ".minnctapersm 1".to_owned()]
    }

    fn body(&self) -> String {
        emit::body(self)
    }
}
