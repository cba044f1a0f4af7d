//! The summary, the table and the launch of a plan of this family.

use super::emit;
use super::plan::{
    Crew, Epilogue, Memory, Moved, Operand, Tiling, WarpPlan, doubles, fused, k_unit, multiply_instruction, seen,
};
use crate::hopper::{BARRIER, problem_maps};
use crate::plan::{
    Argument, ClusterTile, KernelKind, KernelPlan, Operand as Side, Parameter, Parameters, Problem, ProblemRecord,
    Profile, SplitForm, TensorMap,
};
use crate::{Arch, KernelSpec, Load, Op};

impl KernelPlan for WarpPlan {
    fn summary(&self) -> String {
        let Tiling { cta_m, cta_n, warps: (warps_m, warps_n), warp_m, warp_n, .. } = self.tiling;
        let Memory { stages, stage_bytes, total, resident, .. } = self.memory;
        let loads = match self.spec.load {
            Load::Warps => String::new(),
            Load::Producer => format!(" and {} that load", self.crew().producers),
            Load::Tma => " and one that loads".to_owned(),
        };
        format!(
            "CTA tile {cta_m} x {cta_n}, {warps_m} x {warps_n} warps of {warp_m} x {warp_n}{loads}, K {}, {stages} stages of \
             {stage_bytes} B, {total} B shared, {resident} CTAs per SM",
            self.k_words()
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let KernelSpec { bm, bk, a, .. } = self.spec;
        let stored = if self.lines() { (bk, bm) } else { (bm, bk) };
        let Tiling { cta_m, cta_n, warps, warp_m, warp_n, fragment, registers, .. } = self.tiling;
        let Memory { stages, stage_bytes, staging_offset, total, resident, .. } = self.memory;
        let Epilogue { lines, length, staged, subtiles, .. } = self.epilogue;
        let Arch { shared_bytes, shared_bytes_per_sm, cp_async, .. } = self.arch;
        let (threads, parts) = (self.threads(), self.tiling.fragments());
        let (warps_of_cta, sets) = (self.crew().consumers, self.tiling.sets());
        let how = match self.spec.load {
            Load::Warps if cp_async => "cp.async",
            Load::Warps => "through registers",
            Load::Producer => "cp.async, told by mbarriers",
            Load::Tma => "TMA, told by mbarriers",
        };
        let (fragments, fragment) = (format!("{} x {}", parts.0, parts.1), format!("{} x {}", fragment.0, fragment.1));
        let accumulators = self.tiling.accumulators(&self.spec);
        let row = |what: &str, value: String, why: String| [what.to_owned(), value, why];
        let mut rows = vec![
            row(
                "sparsity block",
                format!("{} x {}", stored.0, stored.1),
                format!("{a} values, {} B a block", bm * bk * a.bytes()),
            ),
            row(
                "CTA tile",
                format!("{cta_m} x {cta_n}"),
                format!("a block is {} = {bm} / {cta_m} row slices", bm / cta_m),
            ),
            row("warps", format!("{} x {}", warps.0, warps.1), format!("{warp_m} x {warp_n} each; {threads} threads")),
            row("instruction", multiply_instruction(&self.spec), format!("{fragments} fragments of {fragment}")),
            row(
                "registers",
                format!("about {registers}"),
                format!("{accumulators} accumulators, {sets} set(s) of fragments, addresses"),
            ),
            row(
                "K of a block",
                self.k_words(),
                format!("{} = {bk}, {} stage(s) per block", if self.lines() { "bm" } else { "bk" }, self.kloop.steps),
            ),
            row("A tile", format!("{} B", self.a.bytes()), operand_words(&self.a, "M")),
            row("B tile", format!("{} B", self.b.bytes()), operand_words(&self.b, "N")),
            row("stages", format!("{stages} x {stage_bytes} B"), how.to_owned()),
            row(
                "staging",
                format!("{} B", warps_of_cta * self.epilogue.subtile_bytes()),
                match self.doubles() {
                    true => "sums go from registers to C in whole sectors of 32 B".to_owned(),
                    false => format!(
                        "at {staging_offset}: {lines} lines of {length} {staged} per warp, {subtiles} subtile(s) per tile"
                    ),
                },
            ),
            row("shared memory", format!("{total} B"), format!("{} B left of {shared_bytes} B", shared_bytes - total)),
            row(
                "CTAs per SM",
                resident.to_string(),
                format!("{} warps, {} B of {shared_bytes_per_sm} B", resident * threads / 32, resident * total),
            ),
        ];
        if self.spec.op == Op::Dds || self.lines() {
            rows.insert(0, self.operation_row());
        }
        if self.spec.batch.is_on() {
            let maps = match self.maps(&Problem::default()).len() {
                0 => String::new(),
                maps => format!(", and {maps} tensor maps"),
            };
            let why = format!(
                "addresses and sizes of each in a record of {} B{maps}, in global memory",
                ProblemRecord::BYTES
            );
            rows.insert(0, row("batch", "a list of problems".to_owned(), why));
        }
        rows.extend(self.workspace().map(|workspace| workspace.row(self.spec.split)));
        if self.spec.load.has_roles() {
            let at = rows.iter().position(|[what, ..]| what == "instruction").unwrap_or(0);
            rows.insert(at, self.roles_row());
            let (full, empty) = (self.memory.barrier_offset(), self.memory.barrier_offset() + stages * BARRIER);
            rows.push(row(
                "barriers",
                (2 * stages).to_string(),
                format!("full at {full}, empty at {empty} ({warps_of_cta} arrivals)"),
            ));
        }
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tiling.cta_m,
            columns: self.tiling.cta_n,
            block_rows: self.spec.bm,
            stages_per_block: (self.kloop.steps, self.kloop.sub_stages),
        }
    }

    fn threads(&self) -> u32 {
        self.crew().threads()
    }

    fn shared_bytes(&self) -> u32 {
        self.memory.total
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        let problem = &seen::sizes(&self.spec, problem);
        let mut all = self.operands(problem);
        all.extend([("col_idx", Argument::ColIdx), ("work_head", Argument::WorkHead), ("work", Argument::Work)]);
        if !self.spec.batch.is_on() {
            let sizes =
                [("m", problem.m), ("n", problem.n), ("k", problem.k), ("ldb", problem.ldb), ("ldc", problem.ldc)];
            all.extend(sizes.map(|(name, size)| (name, Argument::Number(size as u32))));
        }
        all.extend(self.lines().then_some(("block_idx", Argument::BlockIdx)));
        all.extend(self.spec.split.is_on().then_some(("workspace", Argument::Workspace)));
        let all = all.into_iter().map(|(name, argument)| Parameter { name, argument });
        all.chain(fused::parameters(&self.spec, problem)).collect()
    }

    fn problem_maps(&self, problem: &Problem) -> Vec<TensorMap> {
        if self.spec.batch.is_on() { self.maps(&seen::sizes(&self.spec, problem)) } else { vec![] }
    }

    fn problem_record(&self, problem: &Problem) -> Option<ProblemRecord> {
        let (a, b) = seen::factors(&self.spec);
        self.spec.batch.is_on().then(|| ProblemRecord::new([a, b], &seen::sizes(&self.spec, problem)))
    }

    fn split_form(&self) -> Option<SplitForm> {
        WarpPlan::split_form(self)
    }

    /// `mma.sync` on FP8 came with 8.4, after Hopper; waiting for the parity of an mbarrier's phase with 7.1, after Ampere.
    fn ptx_version(&self) -> Option<&'static str> {
        match self.spec.load {
            _ if self.spec.a.is_fp8() => Some("8.4"),
            Load::Tma if self.spec.batch.is_on() => problem_maps::ptx_version(&self.spec),
            Load::Warps => None,
            Load::Producer | Load::Tma => Some("7.1"),
        }
    }

    fn profile(&self) -> Profile {
        let (t, k) = (&self.tiling, &self.kloop);
        Profile {
            kind: match self.opaque() {
                opaque if self.spec.load.has_roles() && !self.doubles() => {
                    KernelKind::Fed { by_tma: self.spec.load == Load::Tma, opaque }
                }
                true => KernelKind::Wmma { asynchronous: self.arch.cp_async },
                false if self.doubles() => KernelKind::Doubles { rate: doubles::rate(&self.spec, &self.arch) },
                false => KernelKind::MmaSync,
            },
            cta_m: t.cta_m,
            cta_n: t.cta_n,
            consumers: t.warps.0 * t.warps.1,
            share: (t.warp_m, t.warp_n),
            instruction_n: t.fragment.1,
            stages: self.memory.stages,
            stage_k: k.k_step * k.sub_stages,
            held_k: (k.k_step * k.steps).max(self.spec.bk),
            stages_per_block: (k.steps, k.sub_stages),
            copied_rows: match self.spec.load {
                Load::Tma => (self.a.span(), self.b.span()),
                Load::Warps | Load::Producer => Profile::PLAIN.copied_rows,
            },
            resident: self.memory.resident,
            fragment_sets: t.sets(),
            spilled: self.spec.maxnreg.map_or(0, |most| t.registers.saturating_sub(most)),
            operand_trips: emit::operand_trips(self),
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        let plan = format!("{:?}", Self { spec, ..self.clone() });
        // The shape of its instruction is no number of the plan.
        if self.doubles() { format!("{plan} {:?}", self.spec.shape) } else { plan }
    }

    fn directives(&self) -> Vec<String> {
        vec![format!(".maxntid {}, 1, 1", self.threads()), format!(".minnctapersm {}", self.memory.resident)]
    }

    fn body(&self) -> String {
        emit::body(self)
    }
}

impl WarpPlan {
    /// Where a launch has the operands: at addresses, described by tensor maps, or those of a list in records and maps of its
    /// problems.
    fn operands(&self, problem: &Problem) -> Vec<(&'static str, Argument)> {
        let is_boxed = self.spec.load == Load::Tma;
        if self.spec.batch.is_on() {
            let maps = is_boxed.then_some(("maps", Argument::Maps));
            return std::iter::once(("problems", Argument::Problems)).chain(maps).collect();
        }
        let (a, b) = seen::factors(&self.spec);
        let [a, b] = match is_boxed {
            false => [("a", Argument::Pointer(a)), ("b", Argument::Pointer(b))],
            true => [("map_a", Argument::Map(self.map_a(problem))), ("map_b", Argument::Map(self.map_b(problem)))],
        };
        vec![a, b, ("c", Argument::Pointer(Side::C))]
    }

    /// What is computed, as sparse x dense, and how the blocks of a row of the sparse factor are found.
    fn operation_row(&self) -> [String; 3] {
        let product = match (self.spec.op, self.lines()) {
            (Op::Dds, true) => "C^T = B^T A^T",
            (Op::Dds, false) => "C^T = B A^T",
            (_, true) => "C = A^T B",
            (_, false) => "C = A B",
        };
        let index = match self.lines() {
            true => "the sparse factor's rows are block columns as stored: read by its transposed index",
            false => "the sparse factor's rows are block rows as stored",
        };
        ["operation", product, index].map(str::to_owned)
    }

    /// The warps that only load, and what registers they leave the others.
    fn roles_row(&self) -> [String; 3] {
        let Crew { consumers, producers, entry_registers, moved } = self.crew();
        let registers = match moved {
            None => format!("{entry_registers} registers a thread"),
            Some(Moved { producer, consumer }) => {
                format!("{entry_registers} registers a thread; then {producer} and {consumer}")
            }
        };
        ["roles".to_owned(), format!("{producers} + {consumers} warps"), format!("load, and multiply; {registers}")]
    }

    /// How a block's K extent becomes stages: `64 + 48`, `2 blocks of 32`.
    fn k_words(&self) -> String {
        let k = &self.kloop;
        let padded = match k.last % k_unit(&self.spec) {
            0 => "",
            _ => ", padded",
        };
        match (k.sub_stages, k.steps) {
            (1, 1) => format!("{} a stage{padded}", k.last),
            (1, n) if k.distinct() == 1 => format!("{n} x {}", k.k_step),
            (1, 2) => format!("{} + {}{padded}", k.k_step, k.last),
            (1, n) => format!("{} x {} + {}{padded}", n - 1, k.k_step, k.last),
            (sub_stages, _) => format!("{sub_stages} blocks of {} per stage{padded}", k.k_step),
        }
    }
}

/// The layout of an operand in a stage, and its copies.
fn operand_words(operand: &Operand, across: &str) -> String {
    let Operand { rows, vectors, pitch, .. } = operand;
    let along = if operand.along_k { "K" } else { across };
    let banks = match operand.group {
        1 => "padded".to_owned(),
        group => format!("swizzled by {group}"),
    };
    let copied = match operand.is_boxed() {
        true => "in boxes of TMA".to_owned(),
        false => format!("{} copies per thread", operand.copies()),
    };
    format!("{rows} rows of {vectors} vectors along {along}, {pitch} B apart, {banks}; {copied}")
}
