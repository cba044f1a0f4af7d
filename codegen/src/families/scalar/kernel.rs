//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::{Method, ScalarPlan, Staging};
use crate::KernelSpec;
use crate::plan::{
    Argument, ClusterTile, KernelKind, KernelPlan, Operand, Parameter, Parameters, Problem, Profile, Walk,
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
        let (s, t) = (&self.spec, &self.tile);
        let mut rows: Vec<[String; 3]> = vec![];
        let mut row = |what: &str, value: String, why: String| rows.push([what.to_owned(), value, why]);
        row(
            "sparsity block",
            format!("{} x {}", s.bm, s.bk),
            format!("{} values, {} B a block", s.a, s.bm * s.bk * s.a.bytes()),
        );
        row(
            "CTA tile",
            format!("{} x {}", t.cta_m, t.cta_n),
            format!("a block is {} = {} / {} row slices", s.bm / t.cta_m, s.bm, t.cta_m),
        );
        row(
            "threads",
            t.threads().to_string(),
            format!(
                "{} x {}, of {} x {} elements; a warp is {} x {}",
                t.grid_m(),
                t.grid_n(),
                t.thread_m,
                t.thread_n,
                t.lanes_m,
                t.lanes_n
            ),
        );
        row("accumulators", format!("{} registers", t.accumulators()), format!("{} x {} f32", t.thread_m, t.thread_n));
        row("sums", self.sums(), self.instruction());
        if let Some(staging) = self.staging() {
            row(
                "K of a block",
                format!("{} x {}", staging.steps, staging.k_step),
                format!("bk = {}, {} stage(s) a block", s.bk, staging.steps),
            );
            row(
                "stage",
                format!("{} B", staging.buffer_bytes),
                format!("A {} B, B {} B", staging.b_offset, staging.buffer_bytes - staging.b_offset),
            );
        }
        row(
            "shared memory",
            format!("{} B", self.shared_bytes()),
            match self.staging() {
                Some(staging) => format!("{} stage(s) of {} B", staging.buffers, staging.buffer_bytes),
                None => "operands are read from global memory".to_owned(),
            },
        );
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

    fn walk(&self) -> Walk {
        match self.method {
            Method::Atomic => Walk::Blocks,
            Method::Register(_) | Method::Vector { .. } => Walk::Tiles,
        }
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        let mut parameters = Parameters::new();
        let mut push = |name, argument| parameters.push(Parameter { name, argument });
        push("a", Argument::Pointer(Operand::A));
        push("b", Argument::Pointer(Operand::B));
        push("c", Argument::Pointer(Operand::C));
        if self.walk() == Walk::Tiles {
            push("col_idx", Argument::ColIdx);
            push("work_head", Argument::WorkHead);
        }
        push("work", Argument::Work);
        for (name, size) in
            [("m", problem.m), ("n", problem.n), ("k", problem.k), ("ldb", problem.ldb), ("ldc", problem.ldc)]
        {
            push(name, Argument::Number(size as u32));
        }
        parameters
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
    fn sums(&self) -> String {
        match self.method {
            Method::Atomic => "atomic",
            Method::Register(_) => "register",
            Method::Vector { chain: None, .. } => "register",
            Method::Vector { chain: Some(_), .. } => "chained",
        }
        .to_owned()
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
