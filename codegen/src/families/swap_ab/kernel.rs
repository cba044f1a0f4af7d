//! The launch and the profile of a plan of this family.

use super::emit;
use super::plan::SwapAbPlan;
use crate::KernelSpec;
use crate::hopper::problem_maps;
use crate::plan::{
    ClusterTile, KernelKind, KernelPlan, Parameters, Problem, Profile, SplitForm, StagePacking, TensorMap,
    TileScheduler,
};
use crate::probes::{Roles, TileName};

impl KernelPlan for SwapAbPlan {
    fn summary(&self) -> String {
        self.line()
    }

    fn rows(&self) -> Vec<[String; 3]> {
        self.table()
    }

    fn cluster_tile(&self) -> ClusterTile {
        ClusterTile {
            rows: self.tile.tile_rows(),
            columns: self.tile.cta_n,
            block_rows: self.view.rows,
            stages_per_block: (1, 1),
        }
    }

    fn tile_scheduler(&self) -> TileScheduler {
        let (tile, k_slice, memory) = (&self.tile, &self.k_slice, &self.memory);
        TileScheduler::StageMetadata(StagePacking {
            pack: tile.pack,
            rows: tile.rows,
            slices: tile.slices,
            b_panels: memory.b_panels,
            blocks: memory.blocks,
            k_slice: k_slice.depth,
            k_slices: k_slice.count,
            depth: self.view.depth,
            by_block: k_slice.by_block,
            b_panel_bytes: memory.b_panel_bytes,
            block_bytes: memory.block_bytes,
        })
    }

    fn split_form(&self) -> Option<SplitForm> {
        Self::split_form(self)
    }

    fn threads(&self) -> u32 {
        self.tile.roles.threads
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
        let (t, m) = (&self.tile, &self.memory);
        Profile {
            kind: KernelKind::SwapAb,
            cta_m: t.tile_rows(),
            cta_n: t.cta_n,
            consumers: t.roles.consumers,
            share: (t.tile_rows(), t.columns()),
            instruction_n: t.rows,
            stages: m.ring.stages,
            stage_k: m.b_panels * self.k_slice.depth,
            held_k: self.k_slice.held * self.k_slice.count,
            stages_per_block: (self.k_slice.count, 1),
            pack: t.pack,
            copied_rows: (self.sparse.span, self.dense.span),
            overlapped: m.buffers > 1,
            ..Profile::PLAIN
        }
    }

    fn numbers(&self, spec: KernelSpec) -> String {
        format!("{:?}", Self { spec, why: String::new(), ..self.clone() })
    }

    fn directives(&self) -> Vec<String> {
        self.tile.roles.directives()
    }

    fn body(&self) -> String {
        emit::body(self)
    }

    fn roles(&self) -> Option<Roles> {
        let t = &self.tile;
        let tile = TileName::of_view(&self.spec, t.tile_rows(), t.columns());
        Some(Roles { producers: &["producer of B", "producer of blocks"], consumers: t.roles.consumers, tile })
    }
}
