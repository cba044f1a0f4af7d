//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::AttentionPlan;
use crate::KernelSpec;
use crate::plan::{
    AttentionProblem, AttentionTiles, ClusterTile, KernelKind, KernelPlan, Parameters, Problem, Profile, TileScheduler,
};
use crate::probes::{Roles, TileName};

impl KernelPlan for AttentionPlan {
    fn summary(&self) -> String {
        let (t, m) = (&self.tiling, &self.memory);
        let queries = match t.pack {
            1 => format!("{} queries", t.rows),
            heads => format!("{} queries of {heads} heads", t.rows / heads),
        };
        format!(
            "{queries} a CTA, {} consumers of 64, steps of {} keys x {} columns, {} stages of {}, {} of Q of {} B, {} B shared",
            t.roles.consumers,
            t.step,
            t.columns_words(),
            m.stages,
            m.stage_words(),
            m.query_stages,
            m.query_bytes,
            m.total
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let (s, t, m) = (&self.spec, &self.tiling, &self.memory);
        let roles = &t.roles;
        let [of_s, of_o, of_p] = t.registers();
        let mut rows: Vec<[String; 3]> = vec![];
        let mut row = |what: &str, value: String, why: String| rows.push([what.to_owned(), value, why]);
        row(
            "block",
            format!("{} x {}", s.bm, s.bk),
            format!("queries x keys of Q K^T, {} columns a head", t.columns_words()),
        );
        row(
            "work tile",
            format!("{} queries", t.rows / t.pack),
            match t.uniform {
                true if t.turns() => "of one row of blocks; the consumers take turns with the tensor cores".to_owned(),
                true => "of one row of blocks".to_owned(),
                false => format!(
                    "{} of {} queries a row of blocks; a consumer skips blocks that its queries do not have",
                    t.rows / t.pack,
                    s.bm
                ),
            },
        );
        row(
            "step",
            format!("{} keys", t.step),
            match t.blocks {
                1 => format!("{} step(s) a block", s.bk / t.step),
                blocks => format!("{blocks} blocks of a row, neighbours or not"),
            },
        );
        row(
            "S = Q K^T",
            format!("m64n{}k16", t.step),
            format!("{} instruction(s), Q and K from shared memory", t.depth / 16),
        );
        row(
            "O += P V",
            format!("m64n{}k16", t.columns),
            format!("{} instruction(s), P from registers and V transposed", t.step / 16),
        );
        row(
            "threads",
            roles.threads.to_string(),
            format!("({} consumers + 1 producer) x {}", roles.consumers, self.arch.warpgroup),
        );
        row(
            "accumulators",
            format!("{} registers", of_s + of_o + of_p),
            format!("{of_s} of S + {of_o} of O + {of_p} of P in {}", s.b),
        );
        row(
            "registers",
            format!("{} | {}", roles.producer_registers, roles.consumer_registers),
            format!("producer | consumer; {} at entry", roles.entry_registers),
        );
        if t.score > 0 {
            row(
                "score registers",
                t.score.to_string(),
                "what it keeps of its queries and its head, addresses and elements of vectors by key".to_owned(),
            );
        }
        row(
            "Q",
            format!("{} x {} B", m.query_stages, m.query_bytes),
            match m.releases_late() {
                true => "two buffers: one is loaded while O is stored from the other".to_owned(),
                false => "one buffer, from which O is stored before the next Q is loaded".to_owned(),
            },
        );
        row(
            "K and V",
            match m.key_bytes == m.value_bytes {
                true => format!("2 x {} x {} B", m.stages, m.key_bytes),
                false => format!("{} x ({})", m.stages, m.stage_words()),
            },
            format!("a ring of {} stages each, at {} and {}", m.stages, m.keys_offset, m.values_offset),
        );
        row(
            "barriers",
            (2 * m.query_stages + 4 * m.stages).to_string(),
            format!("at {}: full and empty of Q, K and V", m.barriers_offset),
        );
        row(
            "shared memory",
            format!("{} B", m.total),
            format!("{} B left of {} B", self.arch.shared_bytes.saturating_sub(m.total), self.arch.shared_bytes),
        );
        if t.pack > 1 {
            let why = format!("heads of Q with one head of K share a tile of {} queries of each", t.rows / t.pack);
            row("pack_heads", format!("{} heads", t.pack), why);
        }
        if let Some(workspace) = &self.workspace {
            row(
                "split",
                s.split.to_string(),
                format!("a part of a tile's keys leaves f32 sums of {} B in the workspace", workspace.places_bytes),
            );
        }
        match self.score() {
            Some(program) => {
                row("score", "s * scale".to_owned(), format!("in full blocks; in partial ones {}", program.text()))
            }
            None => row("score", "s * scale".to_owned(), "in all blocks".to_owned()),
        }
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tiling.rows,
            columns: self.tiling.columns,
            block_rows: self.spec.bm,
            stages_per_block: ((self.spec.bk / self.tiling.step).max(1), 1),
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
        TileScheduler::Attention
    }

    fn attention_tiles(&self) -> Option<AttentionTiles> {
        Some(self.tiles())
    }

    fn attention_parameters(&self, problem: &AttentionProblem) -> Option<Parameters> {
        Some(self.arguments(problem))
    }

    /// Those of the signature: sizes of an attention are no sizes of a product.
    fn parameters(&self, _: &Problem) -> Parameters {
        self.arguments(&AttentionProblem::default())
    }

    fn profile(&self) -> Profile {
        let t = &self.tiling;
        Profile {
            kind: KernelKind::Attention,
            cta_m: t.rows,
            cta_n: t.columns,
            consumers: t.roles.consumers,
            share: (t.rows / t.roles.consumers, t.columns),
            instruction_n: t.step,
            stages: self.memory.stages,
            stage_k: t.step,
            held_k: t.step,
            stages_per_block: ((self.spec.bk / t.step).max(1), 1),
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
        let tile = TileName::Queries(t.rows / t.pack);
        Some(Roles { producers: &["producer"], consumers: t.roles.consumers, tile })
    }
}
