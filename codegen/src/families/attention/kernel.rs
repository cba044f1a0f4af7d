//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::AttentionPlan;
use crate::KernelSpec;
use crate::hopper::table::{self, Row, row};
use crate::hopper::{heads, wgmma_k};
use crate::plan::{
    AttentionProblem, AttentionTiles, ClusterTile, KernelPlan, Parameters, Problem, Profile, TileScheduler,
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
            "{queries} per CTA, {} consumers of 64, steps of {} keys x {} columns, {} stages of {}, {} of Q of {} B, {} B shared",
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

    fn rows(&self) -> Vec<Row> {
        let (s, t, m) = (&self.spec, &self.tiling, &self.memory);
        let unit = wgmma_k(s.a);
        let [of_s, of_o, of_p] = t.registers(unit);
        let queries = t.rows / t.pack;
        let of_rows = match t.uniform {
            true if t.turns() => "of one row of blocks; the consumers alternate on the tensor cores".to_owned(),
            true => "of one row of blocks".to_owned(),
            false => format!(
                "{queries} of the {} queries of a row of blocks; a consumer skips blocks that its queries do not have",
                s.bm
            ),
        };
        let of_step = match t.blocks {
            1 => format!("{} step(s) per block", s.bk / t.step),
            blocks => format!("{blocks} blocks of a row, adjacent or not"),
        };
        let of_queries = match t.held {
            0 => "Q and K from shared memory".to_owned(),
            held if unit * held == t.depth => "Q from registers and K from shared memory".to_owned(),
            held => format!("{held} with Q from registers, the others from shared memory"),
        };
        let scores = format!("{} instruction(s), {of_queries}", t.depth / unit);
        let of_values =
            if self.is_fp8() { "in e4m3 from registers, and V by columns" } else { "from registers and V transposed" };
        let values = format!("{} instruction(s), P {of_values}", t.step / unit);
        let of_block = format!("queries x keys of Q K^T, {} columns per head", t.columns_words());
        let mut rows = vec![
            row("block", format!("{} x {}", s.bm, s.bk), of_block),
            row("work tile", format!("{queries} queries"), of_rows),
            row("step", format!("{} keys", t.step), of_step),
            row("S = Q K^T", format!("m64n{}k{}", t.step, unit), scores),
            row("O += P V", format!("m64n{}k{}", t.columns, unit), values),
        ];
        let share = format!("{of_s} of S + {of_o} of O + {of_p} of P in {}", s.b);
        rows.extend(table::roles(&t.roles, (of_s + of_o + of_p, share)));
        if t.score > 0 {
            let why = "values of its queries and its head, addresses and elements of vectors by key";
            rows.push(row("score registers", t.score.to_string(), why));
        }
        let of_queries = match m.releases_late() {
            true => "two buffers: one is loaded while O is stored from the other",
            false => "one buffer, from which O is stored before the next Q is loaded",
        };
        let stages = match m.key_bytes == m.value_bytes {
            true => format!("2 x {} x {} B", m.stages, m.key_bytes),
            false => format!("{} x ({})", m.stages, m.stage_words()),
        };
        let rings = format!("a ring of {} stages each, at {} and {}", m.stages, m.keys_offset, m.values_offset);
        let number = 2 * m.query_stages + 4 * m.stages;
        let barriers = match self.cuts_pages() {
            false => (number, format!("at {}: full and empty of Q, K and V", m.barriers_offset)),
            true => (
                number + 1,
                format!(
                    "at {}: full and empty of Q, K and V; at {}: of the last page of V",
                    m.barriers_offset, m.tail_offset
                ),
            ),
        };
        rows.extend([
            row("Q", format!("{} x {} B", m.query_stages, m.query_bytes), of_queries),
            row("K and V", stages, rings),
            row("barriers", barriers.0.to_string(), barriers.1),
            table::shared_memory(m.total, &self.arch),
        ]);
        if t.pack > 1 {
            let why = format!("heads of Q with one head of K share a tile of {queries} queries of each");
            rows.push(row("pack_heads", format!("{} heads", t.pack), why));
        }
        rows.extend(self.workspace.as_ref().map(|workspace| {
            let why =
                format!("each part of a tile's keys has partials of {} B in the workspace", workspace.places_bytes);
            row("split", s.split.to_string(), why)
        }));
        rows.extend(self.slices().map(|slices| {
            let why = format!(
                "each CTA has a slice of a tile's steps and stores {} columns of O; {} B come from the others, {}",
                slices.columns,
                slices.arriving(),
                if slices.in_queries { "over Q" } else { "beside Q" }
            );
            row("cluster", format!("{} CTAs", slices.size), why)
        }));
        rows.extend(s.work_list.map(|bytes| row("work list", format!("{bytes} B"), "in the parameters of a launch")));
        if let Some(page) = s.page {
            let boxes = (t.step / page).max(1);
            rows.push(row("page", format!("{page} keys"), format!("a step has keys of {boxes} page(s) of K and of V")));
        }
        if self.has_factors() {
            let why = "one of Q, of K and of V, of the tensor or of each head of K: the first two multiply scores, the third O";
            rows.push(row("factors", "3 a head", why));
        }
        if self.has_block_factors() {
            let why = "one of each block of queries of a head, and of K and of V of each block of keys; V's is part of the exponents";
            rows.push(row("factors", "of blocks", why));
        }
        if s.sinks.is_on() {
            rows.push(row("sinks", "1 a head", "a term of each row's sum of exponentials, added before O is stored"));
        }
        rows.push(table::score(self.score()));
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

    fn cluster(&self) -> u32 {
        self.spec.cluster.unwrap_or(1)
    }

    fn ptx_version(&self) -> Option<&'static str> {
        self.ptx_version()
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
        let (t, stages) = (&self.tiling, self.memory.stages);
        let profile = heads::profile((t.rows, t.columns), t.roles.consumers, (t.step, stages), self.spec.bk);
        Profile { resident: t.roles.resident, ..profile }
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
