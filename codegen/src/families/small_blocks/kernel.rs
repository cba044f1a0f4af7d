//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::{SmallBlocksPlan, fused, sides};
use crate::KernelSpec;
use crate::plan::{
    Argument, ClusterTile, KernelKind, KernelPlan, Operand, Parameter, Parameters, Problem, Profile, TileScheduler,
};

/// The `.version` that brings the eviction priorities of loads (PTX ISA, "ld": 7.4).
const VERSION: &str = "7.4";

impl KernelPlan for SmallBlocksPlan {
    fn summary(&self) -> String {
        let KernelSpec { bm, bk, bn, .. } = self.spec;
        let (groups, lanes, slots, in_flight) = (self.groups(), self.lanes, self.slots(), self.in_flight());
        format!(
            "{groups} block rows a CTA, each of {lanes} threads: {in_flight} x {slots} blocks of {bm} x {bk} at once, \
             {bn} column(s)"
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let KernelSpec { bm, bn, bk, a, b, acc, .. } = self.spec;
        let (lanes, slots, groups, threads) = (self.lanes, self.slots(), self.groups(), self.threads());
        let (block, load, in_flight) = (bm * self.row_bytes(), self.a_load * a.bytes(), self.in_flight());
        let row = |what: &str, value: String, why: String| [what.to_owned(), value, why];
        vec![
            row("sparsity block", format!("{bm} x {bk}"), format!("{a} values, {block} B a block, 4 B its column")),
            row(
                "threads of a row",
                lanes.to_string(),
                format!("{slots} = {lanes} / {} blocks at once, a row of each", SmallBlocksPlan::rows(self)),
            ),
            row("CTA", format!("{threads} threads"), format!("{groups} = {threads} / {lanes} block rows")),
            match self.is_transposed() {
                true => row("loads of A", format!("{} B", a.bytes()), format!("{bm} are a column of a block, its row")),
                false => row(
                    "loads of A",
                    format!("{load} B"),
                    format!("{} of {load} B are a row of a block", bk / self.a_load),
                ),
            },
            row("loads of B", format!("{} B", self.b_load * b.bytes()), format!("where a block is whole; {b}")),
            row(
                "in flight",
                format!("{in_flight} blocks a thread"),
                format!("{} B of values a group", in_flight * slots * block),
            ),
            row("sums", format!("{bn} a thread"), format!("fma.rn.{acc}, then shuffles over {slots} blocks")),
            row("shared memory", "0 B".to_owned(), "nothing is shared but through shuffles".to_owned()),
        ]
    }

    fn cluster_tile(&self) -> ClusterTile {
        let rows = SmallBlocksPlan::rows(self);
        ClusterTile { rows, columns: self.spec.bn, block_rows: rows, stages_per_block: (1, 1) }
    }

    fn threads(&self) -> u32 {
        self.threads()
    }

    fn shared_bytes(&self) -> u32 {
        0
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
            kind: KernelKind::SmallBlocks,
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
