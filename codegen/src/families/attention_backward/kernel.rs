//! What a plan of this family tells: the line, the table, the launch.

use super::emit;
use super::plan::{GradientPlan, Tiling};
use crate::KernelSpec;
use crate::hopper::heads;
use crate::hopper::table::{self, Row, row};
use crate::plan::{
    ClusterTile, GradientProblem, GradientTiles, KernelPlan, Parameters, Problem, Profile, TileScheduler,
};
use crate::probes::{Roles, TileName};

/// A product: its name, the columns of an instruction, its K, and where the operands are.
type ProductWords = (&'static str, u32, u32, String);

impl GradientPlan {
    fn products(&self) -> Vec<ProductWords> {
        let t = &self.tiling;
        let of_own = |at: usize, depth: u32| match t.held[at] {
            0 => "both operands from shared memory".to_owned(),
            held if 16 * held == depth => format!("{} from registers", t.own(at)),
            held => format!("{held} with {} from registers, the others from shared memory", t.own(at)),
        };
        let [scores, slopes] = [of_own(0, t.depth), of_own(1, t.columns)];
        let of_step = |from: &str, other: &str| format!("{from} from registers and {other} transposed");
        match t.is_of_keys() {
            true => vec![
                ("S^T = K Q^T", t.step, t.depth, scores),
                ("dP^T = V dO^T", t.step, t.columns, slopes),
                ("dV += P^T dO", t.columns, t.step, of_step("P^T", "dO")),
                ("dK += dS^T Q", t.depth, t.step, of_step("dS^T", "Q")),
            ],
            false => vec![
                ("S = Q K^T", t.step, t.depth, scores),
                ("dP = dO V^T", t.step, t.columns, slopes),
                ("dQ += dS K", t.depth, t.step, of_step("dS", "K")),
            ],
        }
    }
}

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

    fn rows(&self) -> Vec<Row> {
        let (s, t, m) = (&self.spec, &self.tiling, &self.memory);
        let (own, other, [stays, passes]) = match t.is_of_keys() {
            true => ("keys", "queries", ["K and V", "Q and dO"]),
            false => ("queries", "keys", ["Q and dO", "K and V"]),
        };
        let of_tile = match t.is_uniform() {
            true => format!("of one block; {stays} stay in shared memory"),
            false => format!("of blocks of {}; a consumer skips blocks that its {own} do not have", t.block.0),
        };
        let of_block = format!("queries x keys of Q K^T, {} columns a head", t.columns_words());
        let mut rows = vec![
            row("block", format!("{} x {}", s.bm, s.bk), of_block),
            row("work tile", format!("{} {own}", t.rows), of_tile),
            row("step", format!("{} {other}", t.step), format!("{} step(s) a block", t.block.1 / t.step)),
        ];
        rows.extend(self.products().into_iter().map(|(what, n, depth, operands)| {
            row(what, format!("m64n{n}k16"), format!("{} instruction(s), {operands}", depth / 16))
        }));
        let sums = format!("{}; P and dS take the place of S and dP", t.registers_words());
        rows.extend(table::roles(&t.roles, (t.registers().iter().sum(), sums)));
        let of_stays = match (t.is_of_keys(), m.sets) {
            (true, 2) => "two buffers: one is loaded while dK and dV are stored from the other".to_owned(),
            (true, _) => "one buffer, from which dK and dV are stored before the next is loaded".to_owned(),
            (false, _) => format!("and {} B for O, and for dQ before it is stored", m.output_bytes),
        };
        let [first, second] = m.passing_offsets;
        let of_ring = format!("a ring of {} stages each, at {first} and {second}", m.stages);
        let pair = |count: u32, [first, second]: [u32; 2]| format!("{count} x ({first} B + {second} B)");
        rows.extend([
            row("held rows", format!("{} registers", t.held_registers()), t.held_words()),
            row(stays, pair(m.sets, m.fixed_bytes), of_stays),
            row(passes, pair(m.stages, m.passing_bytes), of_ring),
            table::shared_memory(m.total, &self.arch),
            table::score(s.score.map(|score| score.program())),
        ]);
        if t.sums > 0 {
            let name = |at: &usize| s.score.map_or("", |score| &score.program().inputs()[*at].name);
            let names = s.score_sums().iter().map(name).collect::<Vec<_>>().join(", ");
            let of_step = format!("of each row, by {names}; pairs are computed once S and dP are complete");
            rows.push(row("score sums", t.sums.to_string(), of_step));
        } else if t.has_derivative {
            let of_step = match t.is_of_keys() {
                true => "P and dS of a pair together, once S and dP are complete",
                false => "P times it takes the place of S, while dP is computed",
            };
            rows.push(row("derivative", "by s * scale", of_step));
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
        let (t, stages) = (&self.tiling, self.memory.stages);
        heads::profile((t.rows, t.depth), t.roles.consumers, (t.step, stages), t.block.1)
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

    fn roles(&self) -> Option<Roles> {
        let Tiling { rows, roles, .. } = self.tiling;
        let tile = if self.tiling.is_of_keys() { TileName::Keys(rows) } else { TileName::Queries(rows) };
        Some(Roles { producers: &["producer"], consumers: roles.consumers, tile })
    }
}
