//! Attention on the simulator.

use bsr_codegen::{Argument, Operand, Plan, TensorMapError};
use bsr_simulator::{BufferId, Coverage, GlobalMemory, Launch, Module, Options, Param, Report, Statement, parse};

use super::vector::{self, packed_strides, place};
use super::{AttentionError, AttentionWork, HostVector, Mask, ScoreInputs, Tensor};
use crate::Element;
use crate::simulated::{SimulatedError, describe};
use crate::timeline::{self, Records};

/// Alignment of every buffer in bytes, as `cudaMalloc` gives it.
const ALIGN: u64 = 256;
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
    /// The work, where it is not that of the mask as the host lists it.
    work: Option<AttentionWork>,
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
            work: None,
        })
    }

    /// The same with the work divided among so many CTAs.
    #[must_use]
    pub fn with_ctas(self, ctas: u32) -> Self {
        Self { ctas, ..self }
    }

    /// The same with work that was listed elsewhere, of undivided tiles. What is wrong with it is found as the kernel runs.
    #[must_use]
    pub fn with_work(self, work: AttentionWork) -> Self {
        Self { work: Some(work), ..self }
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
        let work = match &self.work {
            Some(work) => work.clone(),
            None => AttentionWork::new(&tiles, &shape, mask, self.ctas)?,
        };
        let mut lse = vec![f32::NAN; shape.rows()];
        let sizes = [shape.batch, shape.heads, shape.queries, shape.columns];
        let poison = Tensor::filled(sizes, q.order(), T::POISON);
        if work.ctas() == 0 {
            return Ok((poison, lse, Report::default()));
        }
        let mut memory = GlobalMemory::new();
        let mut upload = |bytes: Vec<u8>| match bytes.is_empty() {
            true => memory.alloc(16, ALIGN),
            false => memory.upload(bytes, ALIGN),
        };
        let [id_q, id_k, id_v, id_o] = [q, k, v, &poison].map(|tensor| upload(T::to_bytes(tensor.data())));
        let id_lse = upload(f32::to_bytes(&lse));
        let of_score: Vec<BufferId> = vectors.iter().map(|vector| upload(vector.to_bytes())).collect();
        let parameters = vector::inputs(&self.plan);
        let mut words = |words: &[u32]| upload(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        let [heads, of_tiles, steps] = [&work.heads, &work.tiles, &work.steps].map(|list| words(list));
        let workspace = words(&vec![0; work.workspace_bytes(&tiles) / 4]);
        let buffer = |operand| match operand {
            Operand::A => id_q,
            Operand::B => id_k,
            Operand::V => id_v,
            Operand::Second => id_lse,
            Operand::Epilogue(at) => of_score[place(parameters, at)],
            _ => id_o,
        };
        let rings = timeline::rings(&self.plan, &mut memory);
        let problem = shape.problem([q.strides(), k.strides(), v.strides(), poison.strides()]);
        let launch = self.plan.attention_launch(&problem, work.ctas());
        let launch = launch.ok_or(AttentionError::Operation(self.plan.spec().op))?;
        let param = |argument: &Argument| {
            Ok(match argument {
                Argument::Strided(map) => Param::TensorMap(describe(map.tiled()?, 0, buffer(map.operand))?),
                Argument::Pointer(Operand::Second) if !self.lse => Param::U64(0),
                Argument::Pointer(operand) => Param::Buffer(buffer(*operand)),
                Argument::WorkHead => Param::Buffer(heads),
                Argument::Work => Param::Buffer(of_tiles),
                Argument::ColIdx => Param::Buffer(steps),
                Argument::Workspace => Param::Buffer(workspace),
                Argument::Probes => rings.map_or(Param::U64(0), Param::Buffer),
                Argument::Number(number) => Param::U32(*number),
                Argument::Scale => Param::F32(scale),
                Argument::Scalar(at) => Param::F32(scalars[place(parameters, *at)]),
                Argument::VectorStrides(at) => Param::U64(strides[place(parameters, *at)]),
                _ => Param::U64(0),
            })
        };
        let params: Result<Vec<Param>, TensorMapError> =
            launch.parameters.iter().map(|parameter| param(&parameter.argument)).collect();
        let launch = Launch {
            grid: [launch.grid[0], launch.grid[1], 1],
            cluster: [1; 3],
            block: [launch.block, 1, 1],
            shared_bytes: launch.shared_bytes,
            params: params.map_err(SimulatedError::from)?,
        };
        let run = |memory: &mut GlobalMemory| {
            bsr_simulator::simulate(&self.module, &self.entry, &launch, memory, options).map_err(SimulatedError::from)
        };
        let mut report = run(&mut memory)?;
        if work.places > 0 && report.is_clean() {
            // The second launch finds the workspace as the first one left it: flags at zero, sums that mean nothing.
            memory.bytes_mut(workspace).iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = 0xFF);
            let first: Vec<Vec<u8>> = [id_o, id_lse].map(|id| memory.bytes(id).to_vec()).into();
            memory.bytes_mut(id_o).copy_from_slice(&T::to_bytes(poison.data()));
            memory.bytes_mut(id_lse).copy_from_slice(&f32::to_bytes(&lse));
            let coverage = report.coverage;
            report = run(&mut memory)?;
            report.coverage.merge(&coverage);
            if report.is_clean() && [id_o, id_lse].iter().zip(&first).any(|(id, bytes)| memory.bytes(*id) != bytes) {
                return Err(AttentionError::Launches);
            }
        }
        self.records.keep(rings.map(|id| memory.bytes(id)));
        lse.copy_from_slice(&f32::from_bytes(memory.bytes(id_lse)));
        let output = Tensor::from_vec(sizes, q.order(), T::from_bytes(memory.bytes(id_o)))?;
        Ok((output, lse, report))
    }
}
