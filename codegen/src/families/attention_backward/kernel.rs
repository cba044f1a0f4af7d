//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::GradientPlan;
use crate::KernelSpec;
use crate::plan::{
    ClusterTile, GradientProblem, GradientTiles, KernelKind, KernelPlan, Parameters, Problem, Profile, TileScheduler,
};

impl KernelPlan for GradientPlan {
    fn summary(&self) -> String {
        let (t, m) = (&self.tiling, &self.memory);
        let own = if t.is_of_keys() { "keys" } else { "queries" };
        format!(
            "{} {own} a CTA, {} consumers of 64, steps of {} {} x {} columns, {} stages, {} buffer(s) of a tile's rows, {} B shared",
            t.rows,
            t.roles.consumers,
            t.step,
            t.other_side().0,
            t.columns_words(),
            m.stages,
            m.sets,
            m.total
        )
    }

    fn rows(&self) -> Vec<[String; 3]> {
        let (s, t, m) = (&self.spec, &self.tiling, &self.memory);
        let roles = &t.roles;
        let (own, other, [stays, passes]) = match t.is_of_keys() {
            true => ("keys", "queries", ["K and V", "Q and dO"]),
            false => ("queries", "keys", ["Q and dO", "K and V"]),
        };
        let mut rows: Vec<[String; 3]> = vec![];
        let mut row = |what: &str, value: String, why: String| rows.push([what.to_owned(), value, why]);
        row(
            "block",
            format!("{} x {}", s.bm, s.bk),
            format!("queries x keys of Q K^T, {} columns a head", t.columns_words()),
        );
        row(
            "work tile",
            format!("{} {own}", t.rows),
            match t.is_uniform() {
                true => format!("of one block; {stays} stay in shared memory"),
                false => format!("of blocks of {}; a consumer skips blocks that its {own} do not have", t.block.0),
            },
        );
        row("step", format!("{} {other}", t.step), format!("{} step(s) a block", t.block.1 / t.step));
        let product = |row: &mut dyn FnMut(&str, String, String), what: &str, n: u32, depth: u32, why: &str| {
            row(what, format!("m64n{n}k16"), format!("{} instruction(s), {why}", depth / 16));
        };
        let [first, second] = [(0, t.depth), (1, t.columns)].map(|(at, depth)| match t.held[at] {
            0 => "both operands from shared memory".to_owned(),
            held if 16 * held == depth => format!("{} from registers", t.own(at)),
            held => format!("{held} with {} from registers, the others from shared memory", t.own(at)),
        });
        if t.is_of_keys() {
            product(&mut row, "S^T = K Q^T", t.step, t.depth, &first);
            product(&mut row, "dP^T = V dO^T", t.step, t.columns, &second);
            product(&mut row, "dV += P^T dO", t.columns, t.step, "P^T from registers and dO transposed");
            product(&mut row, "dK += dS^T Q", t.depth, t.step, "dS^T from registers and Q transposed");
        } else {
            product(&mut row, "S = Q K^T", t.step, t.depth, &first);
            product(&mut row, "dP = dO V^T", t.step, t.columns, &second);
            product(&mut row, "dQ += dS K", t.depth, t.step, "dS from registers and K transposed");
        }
        row(
            "threads",
            roles.threads.to_string(),
            format!("({} consumers + 1 producer) x {}", roles.consumers, self.arch.warpgroup),
        );
        row(
            "accumulators",
            format!("{} registers", t.registers().iter().sum::<u32>()),
            format!("{}; P and dS take the place of S and dP", t.registers_words()),
        );
        row("held rows", format!("{} registers", t.held_registers()), t.held_words());
        row(
            "registers",
            format!("{} | {}", roles.producer_registers, roles.consumer_registers),
            format!("producer | consumer; {} at entry", roles.entry_registers),
        );
        row(
            stays,
            format!("{} x ({} B + {} B)", m.sets, m.fixed_bytes[0], m.fixed_bytes[1]),
            match (t.is_of_keys(), m.sets) {
                (true, 2) => "two buffers: one is loaded while dK and dV are stored from the other".to_owned(),
                (true, _) => "one buffer, from which dK and dV are stored before the next is loaded".to_owned(),
                (false, _) => format!("and {} B for O, and for dQ before it is stored", m.output_bytes),
            },
        );
        row(
            passes,
            format!("{} x ({} B + {} B)", m.stages, m.passing_bytes[0], m.passing_bytes[1]),
            format!("a ring of {} stages each, at {} and {}", m.stages, m.passing_offsets[0], m.passing_offsets[1]),
        );
        row(
            "shared memory",
            format!("{} B", m.total),
            format!("{} B left of {} B", self.arch.shared_bytes.saturating_sub(m.total), self.arch.shared_bytes),
        );
        match self.spec.score {
            Some(score) => row(
                "score",
                "s * scale".to_owned(),
                format!("in full blocks; in partial ones {}", score.program().text()),
            ),
            None => row("score", "s * scale".to_owned(), "in all blocks".to_owned()),
        }
        rows
    }

    fn cluster_tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tiling.rows,
            columns: self.tiling.depth,
            block_rows: self.tiling.block.0,
            stages_per_block: ((self.tiling.block.1 / self.tiling.step).max(1), 1),
        }
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

    fn gradient_tiles(&self) -> Option<GradientTiles> {
        Some(self.tiling.tiles())
    }

    fn gradient_parameters(&self, problem: &GradientProblem) -> Option<Parameters> {
        Some(self.arguments(problem))
    }

    /// Those of the signature: sizes of an attention are no sizes of a product.
    fn parameters(&self, _: &Problem) -> Parameters {
        self.arguments(&GradientProblem::default())
    }

    fn profile(&self) -> Profile {
        let t = &self.tiling;
        Profile {
            kind: KernelKind::Attention,
            cta_m: t.rows,
            cta_n: t.depth,
            consumers: t.roles.consumers,
            share: (t.rows / t.roles.consumers, t.depth),
            instruction_n: t.step,
            stages: self.memory.stages,
            stage_k: t.step,
            held_k: t.step,
            stages_per_block: ((t.block.1 / t.step).max(1), 1),
            ..Profile::PLAIN
        }
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
}
