//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::{BlockRowsPlan, Share, Split};
use crate::KernelSpec;
use crate::hopper::table::{self, Row, row};
use crate::hopper::wgmma::multiplied;
use crate::hopper::{problem_maps, wgmma_k};
use crate::plan::{
    ClusterTile, KernelKind, KernelPlan, Multicast, Parameters, Problem, Profile, SplitForm, TensorMap, TileScheduler,
};
use crate::probes::{Roles, TileName};
use crate::{Op, Pdl, Scale};

impl KernelPlan for BlockRowsPlan {
    fn summary(&self) -> String {
        let (t, m) = (&self.tiling, &self.memory);
        let cluster = match t.cluster {
            1 => String::new(),
            n => format!("cluster of {n} sharing {}, ", t.share.words()),
        };
        format!(
            "{cluster}CTA tile {} x {}, {} consumers of {} x {}, K {}, {} stages of {} B, {} B shared",
            t.cta_m,
            t.cta_n,
            t.roles.consumers,
            t.wg_m,
            t.wg_n,
            self.k_words(),
            m.ring.stages,
            m.ring.stage_bytes,
            m.total
        )
    }

    fn rows(&self) -> Vec<Row> {
        let (s, v, t, k, m, e) = (&self.spec, &self.view, &self.tiling, &self.kloop, &self.memory, &self.epilogue);
        let consumers = t.roles.consumers;
        let mut rows: Vec<Row> = table::batch(s, self.maps_of_a_problem()).into_iter().collect();
        if s.op == Op::Dds || s.op.is_of_pairs() || s.transpose.is_on() {
            rows.push(row("operation", self.operation(), self.index_words()));
        }
        let cover = match t.pack {
            1 => format!("a block is {} = {} / {} row slices", v.rows / t.cta_m, v.rows, t.cta_m),
            pack if s.op.is_of_pairs() => {
                format!("{pack} block rows of {} rows, over the union of their pairs", v.rows)
            }
            pack => format!("{pack} block rows of {} rows, over the union of their block columns", v.rows),
        };
        let shared = match t.cluster {
            1 => "no multicast".to_owned(),
            n => format!("{n} CTAs cover {} x {} and share {}", t.cluster_m(), t.cluster_n(), t.share.words()),
        };
        let divided = match t.split {
            Split::Rows => format!("{} rows / {consumers}", t.cta_m),
            Split::Columns => format!("{} columns / {consumers}", t.cta_n),
        };
        let unit = wgmma_k(s.a);
        let [sparse, dense] = [v.sparse_type, v.dense_type].map(multiplied);
        let product = format!("{} += {sparse} x {dense}, {} per {unit} of K", s.acc, t.row_groups());
        rows.extend([
            table::block("sparsity block", s, v.sparse_type, ""),
            row("CTA tile", format!("{} x {}", t.cta_m, t.cta_n), cover),
            row("cluster", t.cluster.to_string(), shared),
            row("consumers", format!("{consumers} x ({} x {})", t.wg_m, t.wg_n), divided),
            row("WGMMA", format!("m64n{}k{unit}", self.instruction_n()), product),
        ]);
        let share = format!("{} x {} {} / 128 threads", t.wg_m, t.wg_n, s.acc);
        let [threads, accumulators, registers] = table::roles(&t.roles, (self.accumulators(), share));
        rows.extend([threads, accumulators]);
        if s.a.bytes() == 1 {
            rows.push(row("sums", if self.precision.promoted { "promoted" } else { "direct" }, self.sum_words()));
        }
        let stage = format!(
            "{} x ({} + {}) B; its full barrier expects {}{} B",
            k.sub_stages,
            self.a.bytes(),
            self.b.bytes(),
            if t.pack > 1 { "at most " } else { "" },
            m.transaction_bytes
        );
        let staging = (m.staging_offset, consumers * e.staging_bytes());
        let regions = format!("{} regions of {} B", e.staged, e.region_bytes);
        rows.extend([
            registers,
            row("K of a block", self.k_words(), format!("{} = {}, {} stage(s) per block", v.keys.1, v.depth, k.steps)),
            table::operand("A tile", &self.a, "M-major"),
            table::operand("B tile", &self.b, "N-major"),
            row("stage", format!("{} B", m.ring.stage_bytes), stage),
            row("stages", m.ring.stages.to_string(), format!("at 0 .. {}", m.ring.stages * m.ring.stage_bytes)),
            table::staging(staging, consumers, &regions, e.subtiles()),
            table::barriers(&m.ring),
            table::shared_memory(m.total, &self.arch),
            table::store_order(e.overlapped.then(|| (self.copied_registers(), e.subtiles()))),
        ]);
        rows.extend(self.workspace().map(|workspace| workspace.row(s.split)));
        rows.extend(self.fused.as_ref().map(|fused| {
            let when = match fused.early_rows {
                true => "; vectors by rows are loaded when a tile begins",
                false => "; applied when a tile's products are complete",
            };
            table::function(fused.program, when, fused.tile.map(|(input, _)| (input, m.tile_offset)))
        }));
        rows.push(table::store(e.store_box, format!("{} swizzle {} B", s.out, e.span)));
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        self.tile()
    }

    fn tile_scheduler(&self) -> TileScheduler {
        match (self.shared_pairs(), self.tiling.pack) {
            (Some(pairs), _) => TileScheduler::SharedPairs(pairs),
            (None, 1) => TileScheduler::Static,
            (None, _) => TileScheduler::SharedColumns(self.shared_columns()),
        }
    }

    fn split_form(&self) -> Option<SplitForm> {
        BlockRowsPlan::split_form(self)
    }

    fn cluster(&self) -> u32 {
        self.tiling.cluster
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

    fn parameters(&self, problem: &Problem) -> Parameters {
        self.arguments(problem)
    }

    fn problem_maps(&self, problem: &Problem) -> Vec<TensorMap> {
        if self.spec.batch.is_on() { self.maps(problem) } else { vec![] }
    }

    fn ptx_version(&self) -> Option<&'static str> {
        problem_maps::ptx_version(&self.spec)
    }

    fn profile(&self) -> Profile {
        let (t, k) = (&self.tiling, &self.kloop);
        Profile {
            kind: KernelKind::Wgmma,
            cta_m: t.cta_m,
            cta_n: t.cta_n,
            consumers: t.roles.consumers,
            share: (t.wg_m, t.wg_n),
            instruction_n: self.instruction_n(),
            stages: self.memory.ring.stages,
            stage_k: k.k_step * k.sub_stages,
            held_k: k.k_step * k.steps,
            stages_per_block: (k.steps, k.sub_stages),
            multicast: match t.share {
                Share::Nothing => Multicast::Nothing,
                Share::A => Multicast::Sparse,
                Share::B => Multicast::Dense,
            },
            cluster: t.cluster,
            copied_rows: (self.a.span * self.a.rows_per_line, self.b.span * self.b.rows_per_line),
            overlapped: self.epilogue.overlapped,
            promoted: self.precision.promoted,
            pack: t.pack,
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        emit::directives(self)
    }

    fn body(&self) -> String {
        emit::body(self)
    }

    fn roles(&self) -> Option<Roles> {
        let t = &self.tiling;
        let producers: &[&str] =
            if self.spec.pdl == Pdl::Early { &["producer of A", "producer of B"] } else { &["producer"] };
        let tile = TileName::of_view(&self.spec, t.wg_m, t.wg_n);
        Some(Roles { producers, consumers: t.roles.consumers, tile })
    }
}

impl BlockRowsPlan {
    /// What is computed, as sparse x dense.
    fn operation(&self) -> &'static str {
        match (self.view.transposed, self.spec.transpose.is_on()) {
            (false, false) => "C = A B",
            (false, true) => "C = A^T B",
            (true, false) => "C^T = B^T A^T",
            (true, true) => "C^T = B A^T",
        }
    }

    /// How the blocks of a row of the sparse factor are found.
    fn index_words(&self) -> String {
        match self.view.reads_block_columns() {
            _ if self.spec.op.is_of_pairs() => {
                let KernelSpec { bm, bn, bk, .. } = self.spec;
                format!(
                    "a block of C sums pairs of stored blocks, {bm} x {bk} of A and {bk} x {bn} of B, that a list has"
                )
            }
            true => "the sparse factor's rows are block columns as stored: read by its transposed index".to_owned(),
            false => "the sparse factor's rows are block rows as stored".to_owned(),
        }
    }

    /// How a block's K extent becomes stages: `64 + 48`, `2 blocks of 32`.
    fn k_words(&self) -> String {
        let k = &self.kloop;
        match (k.sub_stages, k.steps) {
            (1, 1) => format!("{} per stage", k.last),
            (1, 2) => format!("{} + {}", k.k_step, k.last),
            (1, n) if k.uniform() => format!("{n} x {}", k.k_step),
            (1, n) => format!("{} x {} + {}", n - 1, k.k_step, k.last),
            (sub_stages, _) => format!("{sub_stages} blocks of {} per stage", k.k_step),
        }
    }

    /// How sums are kept and scaled.
    fn sum_words(&self) -> String {
        let stage = self.kloop.k_step * self.kloop.sub_stages;
        let sums = match (self.precision.promoted, self.spec.a.is_fp8()) {
            (true, _) => format!("promoted: f32 registers add the tensor core's sums over {stage} of K"),
            (false, true) => "fast: in the tensor core's reduced FP8 precision".to_owned(),
            (false, false) => format!("in {}", self.precision.accumulator),
        };
        let scales = match self.precision.scale {
            Scale::Unscaled => return sums,
            Scale::Tensor => "one factor per matrix",
            Scale::RowCol => "factors of A's rows and B's columns",
            Scale::Block => "factors of A's blocks and of bk x 128 of B",
        };
        format!("{sums}; {scales}")
    }
}
