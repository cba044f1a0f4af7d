//! The launches of a plan: its tile, its threads, its parameters.

use super::attention::{AttentionProblem, AttentionTiles};
use super::attention_backward::{GradientProblem, GradientTiles};
use super::launch::{
    Argument, ClusterTile, LaunchShape, Parameter, Parameters, Problem, SddmmTiles, SplitForm, TileScheduler,
};
use super::sparse_times_dense::SparseTimesDense;
use super::{Plan, ProblemRecord, TensorMap};
use crate::words::{Mma, Pdl, Scale, SplitK};

impl Plan {
    /// The output tile of one cluster.
    pub fn cluster_tile(&self) -> ClusterTile {
        self.kernel().cluster_tile()
    }

    /// Does the kernel read the sparse operand by block columns, which its transposed index lists, instead of by block
    /// rows?
    pub fn reads_block_columns(&self) -> bool {
        SparseTimesDense::new(self.spec()).reads_block_columns()
    }

    /// How CTAs find their work.
    pub fn tile_scheduler(&self) -> TileScheduler {
        self.kernel().tile_scheduler()
    }

    /// The tiles of an SDDMM; `None` for another operation.
    pub fn sddmm_tiles(&self) -> Option<SddmmTiles> {
        self.kernel().sddmm_tiles()
    }

    /// How the K of a tile is divided among clusters; `None` for a kernel without `split`, and for an SDDMM, whose tiles
    /// say it.
    pub fn split_form(&self) -> Option<SplitForm> {
        self.kernel().split_form()
    }

    /// Bytes of the sums of a part of a tile, where clusters share the K of one; 0 where they do not.
    pub fn partial_bytes(&self) -> u32 {
        let of_split = self.split_form().map(|form| form.partial_bytes);
        of_split.or(self.sddmm_tiles().map(|form| form.partial_bytes)).unwrap_or(0)
    }

    /// Why the host alone lists the work, with a remedy; none where kernels list it, too, for a matrix whose pattern is on the
    /// GPU.
    pub fn listed_by_host(&self) -> Option<(String, &'static str)> {
        let (spec, scheduler) = (self.spec(), self.tile_scheduler());
        let shares_rows = matches!(scheduler, TileScheduler::SharedColumns(_)) && self.reads_block_columns();
        let reasons = [
            matches!(scheduler, TileScheduler::SharedPairs(_)).then_some("the kernel's tiles have several blocks of C"),
            (spec.mma != Mma::Wgmma)
                .then_some("only kernels of mma = wgmma have been tried on lists that are made there"),
            shares_rows.then_some("the kernel's tiles are block columns of the sparse operand that share its rows"),
            scheduler.listed_by_host(),
            spec.batch.is_on().then_some("the kernel computes several products a launch"),
        ];
        if let Some(why) = reasons.into_iter().flatten().next() {
            let help = "mma = wgmma, bm (of op = dds, bk) a multiple of 64, one block row a tile, batch = off";
            return Some((why.to_owned(), help));
        }
        if let Some(tiles) = self.sddmm_tiles().filter(|tiles| tiles.pack > 1) {
            let why = format!("the kernel's tiles have {} block rows", tiles.pack);
            return Some((why, "pack = 1, or bm = 64 or more"));
        }
        if spec.op.is_of_pairs() && spec.split != SplitK::Off {
            return Some(("the kernel divides the pairs of a tile".to_owned(), "split = off"));
        }
        if spec.scale == Scale::Block {
            return Some(("the kernel scales by block".to_owned(), "scale = tensor or row_col"));
        }
        let why = "a kernel with pdl = early reads its lists while the kernels that make them may still run";
        (spec.pdl == Pdl::Early).then(|| (why.to_owned(), "pdl = on"))
    }

    /// The tensor maps of one problem of a batch, in the order in which the kernel finds them; none of a kernel that
    /// computes one product a launch.
    pub fn problem_maps(&self, problem: &Problem) -> Vec<TensorMap> {
        self.kernel().problem_maps(problem)
    }

    /// The record of one problem of a batch; none of a kernel that finds its operands by tensor maps alone, or computes one
    /// product a launch.
    #[doc(hidden)]
    pub fn problem_record(&self, problem: &Problem) -> Option<ProblemRecord> {
        self.kernel().problem_record(problem)
    }

    /// Elements of K in a block as the kernel reads it.
    pub fn block_depth(&self) -> u32 {
        SparseTimesDense::new(self.spec()).depth
    }

    /// CTAs of a cluster.
    pub fn cluster(&self) -> u32 {
        self.kernel().cluster()
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        self.kernel().threads()
    }

    /// Dynamic shared memory of a CTA in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.kernel().shared_bytes()
    }

    /// True where C is written by TMA, in whole vectors of 16 bytes.
    pub fn stores_by_tma(&self) -> bool {
        self.kernel().stores_by_tma()
    }

    /// The launch of a kernel on `problem`. `grid` is the number of clusters and 1 for a persistent grid, and the numbers
    /// of work tiles and of column tiles for one CTA a block.
    pub fn launch(&self, problem: &Problem, grid: [u32; 2]) -> LaunchShape {
        LaunchShape {
            grid: [grid[0] * self.cluster(), grid[1]],
            block: self.threads(),
            cluster: self.cluster(),
            shared_bytes: self.shared_bytes(),
            is_dependent: self.spec().pdl.is_on(),
            parameters: self.parameters(problem),
        }
    }

    /// How an attention divides its work; `None` for another operation.
    pub fn attention_tiles(&self) -> Option<AttentionTiles> {
        self.kernel().attention_tiles()
    }

    /// The launch of an attention with a grid of so many clusters, without clusters CTAs; `None` for another operation.
    pub fn attention_launch(&self, problem: &AttentionProblem, clusters: u32) -> Option<LaunchShape> {
        Some(self.launch_of_heads(self.kernel().attention_parameters(problem)?, clusters))
    }

    /// How a part of an attention's gradient divides its work; `None` for another operation.
    pub fn gradient_tiles(&self) -> Option<GradientTiles> {
        self.kernel().gradient_tiles()
    }

    /// The launch of a part of an attention's gradient with a grid of `ctas`; `None` for another operation.
    pub fn gradient_launch(&self, problem: &GradientProblem, ctas: u32) -> Option<LaunchShape> {
        Some(self.launch_of_heads(self.kernel().gradient_parameters(problem)?, ctas))
    }

    fn launch_of_heads(&self, parameters: Parameters, clusters: u32) -> LaunchShape {
        LaunchShape {
            grid: [clusters * self.cluster(), 1],
            block: self.threads(),
            cluster: self.cluster(),
            shared_bytes: self.shared_bytes(),
            is_dependent: self.spec().pdl.is_on(),
            parameters: self.with_probes(parameters),
        }
    }

    /// The parameters of a product's kernel.
    pub(crate) fn parameters(&self, problem: &Problem) -> Parameters {
        self.with_probes(self.kernel().parameters(problem))
    }

    /// A kernel's own parameters, and that of its probes.
    pub(super) fn with_probes(&self, mut parameters: Parameters) -> Parameters {
        if self.probes.is_some() {
            parameters.push(Parameter { name: "probes", argument: Argument::Probes });
        }
        parameters
    }
}
