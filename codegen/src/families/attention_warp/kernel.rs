//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::{AttentionWarpPlan, Lines, Memory};
use crate::KernelSpec;
use crate::hopper::table::{self, Row, row};
use crate::plan::{
    AttentionProblem, AttentionTiles, ClusterTile, KernelKind, KernelPlan, Parameters, Problem, Profile, TileScheduler,
};

impl KernelPlan for AttentionWarpPlan {
    fn summary(&self) -> String {
        let (t, Memory { stages, key_bytes, value_bytes, total, resident, .. }) = (&self.tiling, self.memory);
        format!(
            "{} queries per CTA, {} warps of 16, steps of {} keys x {} columns, {stages} stages of {key_bytes} + {value_bytes} B, \
             {total} B shared, {resident} CTAs per SM",
            t.rows,
            t.warps(),
            t.step,
            t.columns,
        )
    }

    fn rows(&self) -> Vec<Row> {
        let (s, t, m) = (&self.spec, &self.tiling, &self.memory);
        let [of_o, of_s, of_q] = t.registers();
        let of_score = if t.score > 0 { format!(" + {} of the score", t.score) } else { String::new() };
        let columns = match t.depth == t.columns {
            true => t.columns.to_string(),
            false => format!("{} and {}", t.depth, t.columns),
        };
        let multiplied = |what: &str| format!("m16n8k16, {what}");
        let mut rows = vec![
            row(
                "block",
                format!("{} x {}", s.bm, s.bk),
                format!("queries x keys of Q K^T, {columns} columns per head"),
            ),
            row("work tile", format!("{} queries", t.rows), format!("{} tile(s) per row of blocks", s.bm / t.rows)),
            row("warps", t.warps().to_string(), format!("16 queries each; {} threads", t.threads())),
            row("step", format!("{} keys", t.step), format!("{} step(s) per block", s.bk / t.step)),
            row(
                "S = Q K^T",
                format!("{} instructions", t.depth / 16 * t.step / 8),
                multiplied("Q from registers and K by ldmatrix"),
            ),
            row(
                "O += P V",
                format!("{} instructions", t.step / 16 * t.columns / 8),
                multiplied("P from registers and V by ldmatrix.trans"),
            ),
            row(
                "registers",
                format!("about {}", t.needed()),
                format!("{of_o} of O + {of_s} of S + {of_q} of Q{of_score}, fragments, addresses"),
            ),
            row("K", format!("{} B", m.key_bytes), lines_words(&self.keys)),
            row("V", format!("{} B", m.value_bytes), lines_words(&self.values)),
            row("stages", format!("{} x {} B", m.stages, m.key_bytes + m.value_bytes), "cp.async"),
            row(
                "Q",
                format!("{} B", t.warps() * m.warp_bytes),
                format!("at {}: {} B for each warp, where it also stages O", m.queries_offset, m.warp_bytes),
            ),
            table::shared_memory(m.total, &self.arch),
            row(
                "CTAs per SM",
                m.resident.to_string(),
                format!(
                    "{} warps, {} B of {} B",
                    m.resident * t.warps(),
                    m.resident * m.total,
                    self.arch.shared_bytes_per_sm
                ),
            ),
        ];
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
            stages_per_block: (self.spec.bk / self.tiling.step, 1),
        }
    }

    fn threads(&self) -> u32 {
        self.tiling.threads()
    }

    fn shared_bytes(&self) -> u32 {
        self.memory.total
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

    /// Conversions from bf16 in a score came with 7.1, after Ampere.
    fn ptx_version(&self) -> Option<&'static str> {
        self.score().map(|_| "7.1")
    }

    fn profile(&self) -> Profile {
        let (t, m) = (&self.tiling, &self.memory);
        Profile {
            kind: KernelKind::AttentionWarps,
            cta_m: t.rows,
            cta_n: t.columns,
            consumers: t.warps(),
            share: (t.rows / t.warps(), t.columns),
            instruction_n: t.step,
            stages: m.stages,
            stage_k: t.step,
            held_k: t.step,
            stages_per_block: (self.spec.bk / t.step, 1),
            resident: m.resident,
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        vec![format!(".maxntid {}, 1, 1", self.tiling.threads()), format!(".minnctapersm {}", self.memory.resident)]
    }

    fn body(&self) -> String {
        emit::body(self)
    }
}

/// The layout of K or V in a stage, and its copies.
fn lines_words(lines: &Lines) -> String {
    format!(
        "{} rows of {} vectors, swizzled by {}; {} copies per thread",
        lines.rows,
        lines.vectors,
        lines.group,
        lines.passes().count() * lines.groups().count()
    )
}
