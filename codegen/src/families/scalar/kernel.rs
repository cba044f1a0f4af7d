//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::{Method, ScalarPlan, Staging, Tile};
use crate::KernelSpec;
use crate::plan::{
    Argument, ClusterTile, KernelKind, KernelPlan, Operand, Parameter, Parameters, Problem, Profile, TileScheduler,
};

impl KernelPlan for ScalarPlan {
    fn summary(&self) -> String {
        let t = &self.tile;
        let tile = format!("{} threads of {} x {}", t.threads(), t.thread_m, t.thread_n);
        let how = match &self.method {
            Method::Atomic => "each block added to C in global memory".to_owned(),
            Method::Register(staging) => format!("{}, elements", stage_words(staging)),
            Method::Vector { staging, chain: None } => format!("{}, vectors of 16 B", stage_words(staging)),
            Method::Vector { staging, chain: Some(chain) } => {
                format!("{}, vectors of 16 B, {chain} products in {}", stage_words(staging), self.spec.a)
            }
        };
        format!("CTA tile {} x {}, {tile}, {how}", t.cta_m, t.cta_n)
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let KernelSpec { bm, bk, a, .. } = self.spec;
        let Tile { cta_m, cta_n, thread_m, thread_n, lanes_m, lanes_n } = self.tile;
        let (threads, grid_m, grid_n) = (self.threads(), self.tile.grid_m(), self.tile.grid_n());
        let row = |what: &str, value: String, why: String| [what.to_owned(), value, why];
        let mut rows = vec![
            row("sparsity block", format!("{bm} x {bk}"), format!("{a} values, {} B a block", bm * bk * a.bytes())),
            row(
                "CTA tile",
                format!("{cta_m} x {cta_n}"),
                format!("a block is {} = {bm} / {cta_m} row slices", bm / cta_m),
            ),
            row(
                "threads",
                threads.to_string(),
                format!("{grid_m} x {grid_n}, of {thread_m} x {thread_n} elements; a warp is {lanes_m} x {lanes_n}"),
            ),
            row(
                "accumulators",
                format!("{} registers", self.tile.accumulators()),
                format!("{thread_m} x {thread_n} f32"),
            ),
            row("sums", self.sums().to_owned(), self.instruction()),
        ];
        let Some(Staging { k_step, steps, b_offset, buffer_bytes, buffers, .. }) = self.staging() else {
            rows.push(row("shared memory", "0 B".to_owned(), "operands are read from global memory".to_owned()));
            return rows;
        };
        rows.extend([
            row("K of a block", format!("{steps} x {k_step}"), format!("bk = {bk}, {steps} stage(s) per block")),
            row("stage", format!("{buffer_bytes} B"), format!("A {b_offset} B, B {} B", buffer_bytes - b_offset)),
            row(
                "shared memory",
                format!("{} B", self.shared_bytes()),
                format!("{buffers} stage(s) of {buffer_bytes} B"),
            ),
        ]);
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tile.cta_m,
            columns: self.tile.cta_n,
            block_rows: self.spec.bm,
            stages_per_block: (self.staging().map_or(1, |staging| staging.steps), 1),
        }
    }

    fn threads(&self) -> u32 {
        self.tile.threads()
    }

    fn shared_bytes(&self) -> u32 {
        self.staging().map_or(0, Staging::total)
    }

    fn tile_scheduler(&self) -> TileScheduler {
        match self.method {
            Method::Atomic => TileScheduler::CtaPerBlock,
            Method::Register(_) | Method::Vector { .. } => TileScheduler::Static,
        }
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        let tiles = self.tile_scheduler() == TileScheduler::Static;
        [
            Some(("a", Argument::Pointer(Operand::A))),
            Some(("b", Argument::Pointer(Operand::B))),
            Some(("c", Argument::Pointer(Operand::C))),
            tiles.then_some(("col_idx", Argument::ColIdx)),
            tiles.then_some(("work_head", Argument::WorkHead)),
            Some(("work", Argument::Work)),
            Some(("m", Argument::Number(problem.m as u32))),
            Some(("n", Argument::Number(problem.n as u32))),
            Some(("k", Argument::Number(problem.k as u32))),
            Some(("ldb", Argument::Number(problem.ldb as u32))),
            Some(("ldc", Argument::Number(problem.ldc as u32))),
        ]
        .into_iter()
        .flatten()
        .map(|(name, argument)| Parameter { name, argument })
        .collect()
    }

    fn profile(&self) -> Profile {
        let (kind, staging) = match &self.method {
            Method::Atomic => (KernelKind::Atomic, None),
            Method::Register(staging) => (KernelKind::Register, Some(staging)),
            Method::Vector { staging, .. } => (KernelKind::Vector, Some(staging)),
        };
        let tile = &self.tile;
        let (steps, step) = staging.map_or((1, self.spec.bk), |staging| (staging.steps, staging.k_step));
        Profile {
            kind,
            cta_m: tile.cta_m,
            cta_n: tile.cta_n,
            consumers: tile.threads() / 32,
            share: (tile.thread_m * tile.lanes_m, tile.thread_n * tile.lanes_n),
            instruction_n: 1,
            stages: 1,
            stage_k: step,
            held_k: steps * step,
            stages_per_block: (steps, 1),
            resident: tile.resident(),
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        vec![format!(".maxntid {}, 1, 1", self.threads()), format!(".minnctapersm {}", self.tile.resident())]
    }

    fn body(&self) -> String {
        emit::body(self)
    }
}

impl ScalarPlan {
    fn sums(&self) -> &'static str {
        match self.method {
            Method::Atomic => "atomic",
            Method::Register(_) | Method::Vector { chain: None, .. } => "register",
            Method::Vector { chain: Some(_), .. } => "chained",
        }
    }

    fn instruction(&self) -> String {
        match self.method {
            Method::Atomic => "fma.rn.f32 over a block, then red.global.add.f32".to_owned(),
            Method::Register(_) | Method::Vector { chain: None, .. } => {
                "fma.rn.f32 over all blocks of a row".to_owned()
            }
            Method::Vector { chain: Some(chain), .. } => {
                format!("fma.rn.{}x2 over {chain} of K, then added in f32", self.spec.a)
            }
        }
    }
}

fn stage_words(staging: &Staging) -> String {
    format!("K {} x {}, {} B shared", staging.steps, staging.k_step, staging.total())
}
