//! A plan of this family as the frame sees it: its launch, its text.

use super::plan::{SmallBlocksPlan, fused, sides};
use super::{emit, table};
use crate::KernelSpec;
use crate::plan::{
    Argument, ClusterTile, KernelKind, KernelPlan, Operand, Parameter, Parameters, Problem, Profile, TileScheduler,
};

/// The `.version` that brings the eviction priorities of loads (PTX ISA, "ld": 7.4).
const VERSION: &str = "7.4";

impl KernelPlan for SmallBlocksPlan {
    fn summary(&self) -> String {
        table::summary(self)
    }

    fn rows(&self) -> Vec<[String; 3]> {
        table::rows(self)
    }

    fn cluster_tile(&self) -> ClusterTile {
        let rows = SmallBlocksPlan::rows(self);
        ClusterTile { rows, columns: self.spec.bn, block_rows: rows, stages_per_block: (1, 1) }
    }

    fn threads(&self) -> u32 {
        self.threads()
    }

    fn shared_bytes(&self) -> u32 {
        self.shared_bytes()
    }

    fn tile_scheduler(&self) -> TileScheduler {
        TileScheduler::BlockRows { rows: self.groups() }
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        parameters(&self.spec, problem)
    }

    fn profile(&self) -> Profile {
        let (rows, inner, bn) = (SmallBlocksPlan::rows(self), self.inner(), self.spec.bn);
        Profile {
            kind: if self.is_together() { KernelKind::SmallBlocksTogether } else { KernelKind::SmallBlocks },
            cta_m: rows,
            cta_n: bn,
            consumers: self.threads() / 32,
            share: (rows, bn),
            instruction_n: 1,
            stages: 1,
            stage_k: inner,
            held_k: inner,
            pack: self.groups(),
            resident: self.resident(),
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        vec![format!(".maxntid {}, 1, 1", self.threads()), format!(".minnctapersm {}", self.resident())]
    }

    fn body(&self) -> String {
        emit::body(self)
    }

    fn ptx_version(&self) -> Option<&'static str> {
        Some(VERSION)
    }
}

/// What a launch passes.
fn parameters(spec: &KernelSpec, problem: &Problem) -> Parameters {
    let numbers = spec.transpose.is_on().then_some(("block_idx", Argument::BlockIdx));
    let lists = [("row_ptr", Argument::RowPtr), ("col_idx", Argument::ColIdx)];
    let factors = [
        ("a", Argument::Pointer(Operand::A)),
        ("b", Argument::Pointer(Operand::B)),
        ("c", Argument::Pointer(Operand::C)),
    ];
    let sizes = [
        ("block_rows", problem.m.div_ceil(sides(spec).0.into())),
        ("m", problem.m),
        ("n", problem.n),
        ("k", problem.k),
        ("ldb", problem.ldb),
        ("ldc", problem.ldc),
    ];
    let sizes = sizes.into_iter().map(|(name, size)| (name, Argument::Number(size as u32)));
    let all = factors.into_iter().chain(lists).chain(numbers).chain(sizes);
    let all = all.map(|(name, argument)| Parameter { name, argument });
    all.chain(fused::parameters(spec, problem)).collect()
}
