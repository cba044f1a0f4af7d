//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::{WarpPlan, k_unit, multiply_instruction};
use crate::KernelSpec;
use crate::plan::{ClusterTile, KernelKind, KernelPlan, Parameters, Problem, Profile, View};

impl KernelPlan for WarpPlan {
    fn summary(&self) -> String {
        let (t, m) = (&self.tiling, &self.memory);
        format!(
            "CTA tile {} x {}, {} x {} warps of {} x {}, K {}, {} stages of {} B, {} B shared, {} CTAs an SM",
            t.cta_m,
            t.cta_n,
            t.warps.0,
            t.warps.1,
            t.warp_m,
            t.warp_n,
            self.k_words(),
            m.stages,
            m.stage_bytes,
            m.total,
            m.resident
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let (s, t, m, e) = (&self.spec, &self.tiling, &self.memory, &self.epilogue);
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
            "warps",
            format!("{} x {}", t.warps.0, t.warps.1),
            format!("{} x {} each; {} threads", t.warp_m, t.warp_n, t.threads()),
        );
        row(
            "instruction",
            multiply_instruction(s),
            format!("{} x {} fragments of {} x {}", t.fragments().0, t.fragments().1, t.fragment.0, t.fragment.1),
        );
        row(
            "registers",
            format!("about {}", t.registers),
            format!(
                "{} accumulators, {} set(s) of fragments, addresses",
                t.accumulators(),
                if t.buffered { 2 } else { 1 }
            ),
        );
        row("K of a block", self.k_words(), format!("bk = {}, {} stage(s) a block", s.bk, self.kloop.steps));
        for (name, operand) in [("A", &self.a), ("B", &self.b)] {
            row(
                &format!("{name} tile"),
                format!("{} B", operand.bytes()),
                format!(
                    "{} rows of {} pieces along {}, {} B apart, {}; {} copies a thread",
                    operand.rows,
                    operand.pieces,
                    if operand.along_k { "K" } else { "N" },
                    operand.pitch,
                    match operand.group {
                        1 => "padded".to_owned(),
                        group => format!("swizzled by {group}"),
                    },
                    operand.copies()
                ),
            );
        }
        row(
            "stages",
            format!("{} x {} B", m.stages, m.stage_bytes),
            if self.arch.cp_async { "cp.async" } else { "through registers" }.to_owned(),
        );
        row(
            "staging",
            format!("{} B", t.threads() / 32 * e.slab_bytes()),
            format!(
                "at {}: {} lines of {} {} a warp, {} slabs a tile",
                m.staging_offset, e.lines, e.length, e.staged, e.slabs
            ),
        );
        row(
            "shared memory",
            format!("{} B", m.total),
            format!("{} B left of {} B", self.arch.shared_bytes - m.total, self.arch.shared_bytes),
        );
        row(
            "CTAs an SM",
            m.resident.to_string(),
            format!(
                "{} warps, {} B of {} B",
                m.resident * t.threads() / 32,
                m.resident * m.total,
                self.arch.shared_bytes_per_sm
            ),
        );
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        self.tile()
    }

    fn threads(&self) -> u32 {
        self.tiling.threads()
    }

    fn shared_bytes(&self) -> u32 {
        self.memory.total
    }

    fn parameters(&self, problem: &Problem) -> Parameters {
        self.arguments(problem)
    }

    /// `mma.sync` on FP8 came with 8.4, after Hopper.
    fn ptx_version(&self) -> Option<&'static str> {
        (self.spec.a.is_fp8() && self.arch.compute_capability > (8, 9)).then_some("8.4")
    }

    fn profile(&self) -> Profile {
        let (t, k) = (&self.tiling, &self.kloop);
        let view = View::new(&self.spec);
        Profile {
            kind: match self.opaque() {
                true => KernelKind::Wmma { asynchronous: self.arch.cp_async },
                false => KernelKind::MmaSync,
            },
            cta_m: t.cta_m,
            cta_n: t.cta_n,
            consumers: t.warps.0 * t.warps.1,
            share: (t.warp_m, t.warp_n),
            instruction_n: t.fragment.1,
            stages: self.memory.stages,
            stage_k: k.k_step * k.slots,
            held_k: (k.k_step * k.steps).max(view.depth),
            stages_per_block: (k.steps, k.slots),
            resident: self.memory.resident,
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

impl WarpPlan {
    /// How a block's K extent becomes stages: `64 + 48`, `2 blocks of 32`.
    fn k_words(&self) -> String {
        let k = &self.kloop;
        let padded = match k.last % k_unit(&self.spec) {
            0 => "",
            _ => ", padded",
        };
        match (k.slots, k.steps) {
            (1, 1) => format!("{} a stage{padded}", k.last),
            (1, n) if k.distinct() == 1 => format!("{n} x {}", k.k_step),
            (1, 2) => format!("{} + {}{padded}", k.k_step, k.last),
            (1, n) => format!("{} x {} + {}{padded}", n - 1, k.k_step, k.last),
            (slots, _) => format!("{slots} blocks of {} a stage{padded}", k.k_step),
        }
    }
}
