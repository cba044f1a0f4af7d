//! The summary, the table and the launch of an SDDMM.

use super::emit;
use super::plan::fused;
use super::plan::groups::Groups;
use super::plan::sampled::SampledPlan;
use crate::plan::{
    Argument, ClusterTile, KernelPlan, Operand, Parameter, Parameters, Problem, ProblemRecord, Profile, SddmmTiles,
    TensorMap, TileScheduler,
};
use crate::{Dtype, KernelSpec, Load};

impl KernelPlan for SampledPlan {
    fn summary(&self) -> String {
        format!("{}, {}", self.0.summary(), self.groups_words())
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let KernelSpec { bm, bk, out, .. } = self.0.spec;
        let (left, right) = self.factors();
        let row = |what: &str, value: String, why: String| [what.to_owned(), value, why];
        let names = |side: Operand| if side == Operand::A { "A tile" } else { "B tile" };
        let of = if left == Operand::A { " of C = A B" } else { " of C^T = B^T A^T" };
        let mut rows = vec![];
        for [what, value, why] in self.0.rows() {
            match what.as_str() {
                "operation" => {}
                "sparsity block" => rows.push(row(
                    "stored block",
                    format!("{bm} x {bk}"),
                    format!("{out} values, {} B a block{of}", bm * bk * out.bytes()),
                )),
                "K of a block" => {
                    rows.push(row(
                        "columns",
                        self.groups_words(),
                        "each group is of a block of the same block row".into(),
                    ));
                    rows.push(row("K", value, "both factors are dense: all of it is multiplied".into()));
                }
                "A tile" => rows.push(row(names(left), value, why)),
                "B tile" => rows.push(row(names(right), value, why)),
                _ => rows.push([what, value, why]),
            }
        }
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        self.0.cluster_tile()
    }

    fn threads(&self) -> u32 {
        self.0.threads()
    }

    fn shared_bytes(&self) -> u32 {
        self.0.shared_bytes()
    }

    fn tile_scheduler(&self) -> TileScheduler {
        TileScheduler::Sddmm
    }

    fn sddmm_tiles(&self) -> Option<SddmmTiles> {
        Some(self.tiles())
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        let sizes = self.sizes(problem);
        let mut all = self.operands(problem);
        all.extend([("work_head", Argument::WorkHead), ("work", Argument::Work)]);
        if !self.0.spec.batch.is_on() {
            let Problem { m, n, k, lda, ldb, .. } = sizes;
            let numbers = [("m", m), ("n", n), ("k", k), ("lda", lda), ("ldb", ldb)];
            all.extend(numbers.map(|(name, size)| (name, Argument::Number(size as u32))));
        }
        all.extend(self.0.spec.split.is_on().then_some(("workspace", Argument::Workspace)));
        let all = all.into_iter().map(|(name, argument)| Parameter { name, argument });
        all.chain(fused::parameters(&self.0.spec, &sizes)).collect()
    }

    fn problem_maps(&self, problem: &Problem) -> Vec<TensorMap> {
        let listed = self.0.spec.batch.is_on() && self.0.spec.load == Load::Tma;
        if listed { self.maps(problem).to_vec() } else { vec![] }
    }

    fn problem_record(&self, problem: &Problem) -> Option<ProblemRecord> {
        let (left, right) = self.factors();
        self.0.spec.batch.is_on().then(|| ProblemRecord::new([left, right], &self.sizes(problem)))
    }

    fn ptx_version(&self) -> Option<&'static str> {
        self.0.ptx_version()
    }

    fn profile(&self) -> Profile {
        Profile { held_k: self.0.kloop.k_step, ..self.0.profile() }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?} {}", self.tiles(), self.0.numbers(spec))
    }

    fn directives(&self) -> Vec<String> {
        self.0.directives()
    }

    fn body(&self) -> String {
        emit::sampled::body(self)
    }
}

impl SampledPlan {
    /// `2 groups of 64 columns`.
    fn groups_words(&self) -> String {
        let Groups { columns, count, .. } = self.groups();
        format!("{count} group(s) of {columns} columns")
    }

    /// Where a launch has the operands.
    fn operands(&self, problem: &Problem) -> Vec<(&'static str, Argument)> {
        let is_boxed = self.0.spec.load == Load::Tma;
        if self.0.spec.batch.is_on() {
            let maps = is_boxed.then_some(("maps", Argument::Maps));
            return std::iter::once(("problems", Argument::Problems)).chain(maps).collect();
        }
        let (left, right) = self.factors();
        let [a, b] = match is_boxed {
            false => [("a", Argument::Pointer(left)), ("b", Argument::Pointer(right))],
            true => {
                let [left, right] = self.maps(problem);
                [("map_a", Argument::Map(left)), ("map_b", Argument::Map(right))]
            }
        };
        vec![a, b, ("c", Argument::Pointer(Operand::C))]
    }

    /// The tensor maps of both factors, whose zeros are beyond their extents.
    fn maps(&self, problem: &Problem) -> [TensorMap; 2] {
        let (plan, groups) = (&self.0, self.groups());
        let Problem { m, n, k, lda, ldb, .. } = self.sizes(problem);
        let (left, right) = self.factors();
        let of = |(side, dtype, operand): (Operand, Dtype, &super::plan::Operand), extent: u64, ld: u64, lines: u32| {
            let (dims, lines) = match operand.along_k {
                true => ([k, extent], lines),
                false => ([extent, k], plan.kloop.k_step),
            };
            TensorMap::matrix(
                (side, dtype),
                dims.map(|dim| dim.max(1)),
                (ld * u64::from(dtype.bytes())).max(16),
                [operand.span() / dtype.bytes(), operand.box_lines(lines, &plan.arch)],
                operand.span(),
            )
        };
        [
            of((left, plan.spec.a, &plan.a), m, lda, plan.tiling.cta_m),
            of((right, plan.spec.b, &plan.b), n, ldb, groups.columns),
        ]
    }
}
