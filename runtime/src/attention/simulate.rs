//! Attention on the simulator.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_simulator::{BufferId, Coverage, Module, Options, Report, Statement, parse};

use super::simulate_lists::{ListedAttention, MaskArrays};
use super::vector::packed_strides;
use super::{AttentionError, AttentionWork, HostVector, Mask, ScoreInputs, Tensor};
use crate::Element;
use crate::error::SimulatedError;
use crate::machine::Lists;
use crate::machine::Sim;
use crate::operation::{Attention, launch_bound};
use crate::simulated::lists::ListKernels;
use crate::timeline::Records;

/// CTAs that share the work unless it is said otherwise.
const CTAS: u32 = 3;

/// A kernel of attention on the simulator.
#[derive(Clone, Debug)]
pub struct SimulatedAttention {
    plan: Plan,
    module: Module,
    entry: String,
    ctas: u32,
    /// Whether LSE, the logarithm of each row's sum of exponentials, is computed.
    lse: bool,
    records: Records,
    /// What lists the work, where the host does not.
    lists: Option<Arc<ListKernels>>,
}

/// What a simulated attention computed: O, LSE (the logarithm of each row's sum of exponentials), what was found.
pub type Simulation<T> = (Tensor<T>, Vec<f32>, Report);

/// Runs the kernel of `plan` once; see [`SimulatedAttention::run`].
///
/// # Errors
/// As [`SimulatedAttention::new`] and [`SimulatedAttention::run`].
pub fn simulate<'n, T: Element>(
    plan: &Plan,
    tensors: [&Tensor<T>; 3],
    mask: &Mask,
    inputs: impl Into<ScoreInputs<'n>>,
    options: &Options,
) -> Result<Simulation<T>, AttentionError> {
    let ptx = plan.ptx();
    SimulatedAttention::new(plan, ptx.text(), ptx.entry())?.run(tensors, mask, inputs, options)
}

impl SimulatedAttention {
    /// Reads the PTX of a kernel.
    ///
    /// # Errors
    /// [`AttentionError::Operation`] for a plan of another operation, and PTX that the simulator does not take.
    pub fn new(plan: &Plan, ptx: &str, entry: &str) -> Result<Self, AttentionError> {
        if plan.attention_tiles().is_none() {
            return Err(AttentionError::Operation(plan.spec().op));
        }
        let module = parse(ptx).map_err(SimulatedError::from)?;
        Ok(Self {
            plan: plan.clone(),
            module,
            entry: entry.to_owned(),
            ctas: CTAS,
            lse: true,
            records: Records::default(),
            lists: None,
        })
    }

    /// The same with the work divided among so many CTAs.
    #[must_use]
    pub fn with_ctas(self, ctas: u32) -> Self {
        Self { ctas, ..self }
    }

    /// The same with the work of undivided tiles that these kernels list, as of a mask on a GPU. What is wrong with it is found
    /// as they run, or as this kernel does.
    #[must_use]
    pub fn with_device_mask(self, lists: Arc<ListKernels>) -> Self {
        Self { lists: Some(lists), ..self }
    }

    /// The same without LSE: what is returned for it is NaN.
    #[must_use]
    pub fn without_lse(self) -> Self {
        Self { lse: false, ..self }
    }

    /// Whether LSE, the logarithm of each row's sum of exponentials, is computed.
    pub fn gives_lse(&self) -> bool {
        self.lse
    }

    /// The plan by which the kernel is launched.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded; as
    /// [`Simulated::records`](crate::simulated::Simulated::records).
    pub fn records(&self) -> Option<Vec<u32>> {
        self.records.last()
    }

    /// The instructions of the kernel, each with whether the runs that `coverage` was merged of have executed it.
    pub fn statements(&self, coverage: &Coverage) -> Vec<(Statement, bool)> {
        self.module.statements(&self.entry, coverage)
    }

    /// Computes O of Q, K and V under `mask`; `inputs` are the scale alone, as `0.125`, or with what the score reads. O lies as Q does, and is full of [`Element::POISON`] before. Where CTAs share the keys of a tile, the kernel is
    /// launched twice, and must give the same bits: the second launch finds the workspace as the first one left it.
    ///
    /// # Errors
    /// Tensors, mask or numbers that do not fit the kernel.
    pub fn run<'n, T: Element>(
        &self,
        [q, k, v]: [&Tensor<T>; 3],
        mask: &Mask,
        inputs: impl Into<ScoreInputs<'n>>,
        options: &Options,
    ) -> Result<Simulation<T>, AttentionError> {
        let Some(tiles) = self.plan.attention_tiles() else {
            return Err(AttentionError::Operation(self.plan.spec().op));
        };
        let shape = super::launcher::shape_of(&self.plan, [q, k, v].map(Tensor::sizes), T::DTYPE)?;
        let ScoreInputs { scale, scalars, vectors } = inputs.into();
        super::launcher::check_numbers(&self.plan, scale, scalars)?;
        let strides = packed_strides(&self.plan, &shape, vectors.iter().map(HostVector::extent))?;
        let (work, findings) = match &self.lists {
            None => (AttentionWork::new(&tiles, &shape, mask, self.ctas)?, vec![]),
            Some(kernels) => {
                let arrays = (mask.sharing(), &MaskArrays::by_block(mask));
                let listed = ListedAttention::new(kernels, &tiles, &shape, arrays, self.ctas)?;
                (listed.work, listed.findings)
            }
        };
        let mut lse = vec![f32::NAN; shape.rows()];
        let sizes = [shape.batch, shape.heads, shape.queries, shape.columns];
        let poison = Tensor::filled(sizes, q.order(), T::POISON);
        if work.ctas() == 0 || !findings.is_empty() {
            return Ok((poison, lse, Report { findings, ..Report::default() }));
        }
        let mut sim = Sim::new((&self.module, &self.entry), &self.plan, options.clone());
        let [id_q, id_k, id_v, id_o] = [q, k, v, &poison].map(|tensor| sim.bytes(T::to_bytes(tensor.data())));
        let id_lse = sim.bytes(f32::to_bytes(&lse));
        for id in [id_o, id_lse] {
            sim.result(id);
        }
        let vectors: Vec<BufferId> = vectors.iter().map(|vector| sim.bytes(vector.to_bytes())).collect();
        let lists = Lists {
            heads: Some(sim.words(&work.heads)),
            tiles: Some(sim.words(&work.tiles)),
            columns: Some(sim.words(&work.steps)),
            workspace: Some(sim.workspace(work.workspace_bytes(&tiles))),
            probes: sim.rings,
            ..Lists::default()
        };
        let operands = Attention {
            q: id_q,
            k: id_k,
            v: id_v,
            o: id_o,
            lse: self.lse.then_some(id_lse),
            scale,
            scalars,
            strides: &strides,
        };
        let problem = shape.problem([q.strides(), k.strides(), v.strides(), poison.strides()]);
        let launch = self.plan.attention_launch(&problem, work.ctas());
        let launch = launch.ok_or(AttentionError::Operation(self.plan.spec().op))?;
        let slots = operands.slots(&self.plan, vectors.into_iter());
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { launch_bound(&mut sim, &launch, &slots, &lists)? };
        if sim.report.is_clean() && !sim.repeats {
            return Err(AttentionError::Launches);
        }
        self.records.keep(sim.records());
        lse.copy_from_slice(&f32::from_bytes(sim.memory.bytes(id_lse)));
        let output = Tensor::from_vec(sizes, q.order(), T::from_bytes(sim.memory.bytes(id_o)))?;
        Ok((output, lse, sim.report))
    }
}
