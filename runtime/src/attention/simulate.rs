//! Attention on the simulator.

use std::sync::Arc;

use bsr_codegen::lists::specification::by_length;
use bsr_codegen::{AttentionTiles, Plan};
use bsr_simulator::{BufferId, Coverage, Finding, Options, Report, Statement};

use super::operands::{self, Placed};
use super::simulate_lists::{ListedAttention, MaskArrays};
use super::{AttentionError, AttentionWork, HostPages, ListedPages, Mask, ScoreInputs, Shape, Tensor, pages};
use crate::Element;
use crate::error::SimulatedError;
use crate::launcher::Launcher;
use crate::machine::Sim;
use crate::operation::{self, Attention};
use crate::simulated::Simulator;
use crate::simulated::lists::ListKernels;

/// CTAs that share the work unless it is said otherwise.
const CTAS: u32 = 3;

/// A kernel of attention on the simulator.
#[derive(Clone, Debug)]
pub struct SimulatedAttention {
    launcher: Launcher<Simulator>,
    /// Whether LSE, the logarithm of each row's sum of exponentials, is computed.
    lse: bool,
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
        operands::check_operation(plan)?;
        let launcher = Launcher::read(plan, ptx, entry, CTAS).map_err(SimulatedError::from)?;
        Ok(Self { launcher, lse: true })
    }

    /// The same with the work divided among so many CTAs.
    #[must_use]
    pub fn with_ctas(mut self, ctas: u32) -> Self {
        self.launcher.machine_mut().clusters = ctas;
        self
    }

    /// The same with the work of undivided tiles that these kernels list, as of a mask on a GPU. What is wrong with it is found
    /// as they run, or as this kernel does.
    #[must_use]
    #[doc(hidden)]
    pub fn with_device_mask(mut self, lists: Arc<ListKernels>) -> Self {
        self.launcher.machine_mut().lists = Some(lists);
        self
    }

    /// The same without LSE: what is returned for it is NaN.
    #[must_use]
    #[doc(hidden)]
    pub fn without_lse(self) -> Self {
        Self { lse: false, ..self }
    }

    /// Whether LSE, the logarithm of each row's sum of exponentials, is computed.
    #[doc(hidden)]
    pub fn gives_lse(&self) -> bool {
        self.lse
    }

    /// The plan by which the kernel is launched.
    pub fn plan(&self) -> &Plan {
        self.launcher.plan()
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded; as
    /// [`Simulated::records`](crate::simulated::Simulated::records).
    pub fn records(&self) -> Option<Vec<u32>> {
        self.launcher.machine().records.last()
    }

    /// The instructions of the kernel, each with whether the runs that `coverage` was merged of have executed it.
    pub fn statements(&self, coverage: &Coverage) -> Vec<(Statement, bool)> {
        self.launcher.statements(coverage)
    }

    /// Computes O of Q, K and V under `mask`; `inputs` are the scale alone, as `0.125`, or with what the score reads. O lies as Q does, and is full of [`Element::POISON`] before. Where CTAs share the keys of a tile, the kernel is
    /// launched twice, and must give the same bits: the second launch finds the workspace as the first one left it.
    ///
    /// A kernel with `page` gets K and V as [`HostPages`] puts them there, of as many keys of each problem as the inputs say; the
    /// mask must have every block.
    ///
    /// # Errors
    /// Tensors, mask or numbers that do not fit the kernel.
    pub fn run<'n, T: Element>(
        &self,
        tensors: [&Tensor<T>; 3],
        mask: &Mask,
        inputs: impl Into<ScoreInputs<'n>>,
        options: &Options,
    ) -> Result<Simulation<T>, AttentionError> {
        self.run_into(tensors, mask, inputs, options)
    }

    /// The same with an O of a type of its own: 16 bits, where Q, K and V have 8. The kernel gets such a V
    /// [by columns](Tensor::by_column).
    ///
    /// # Errors
    /// As [`SimulatedAttention::run`].
    #[doc(hidden)]
    pub fn run_into<'n, T: Element, O: Element>(
        &self,
        [q, k, v]: [&Tensor<T>; 3],
        mask: &Mask,
        inputs: impl Into<ScoreInputs<'n>>,
        options: &Options,
    ) -> Result<Simulation<O>, AttentionError> {
        let rows_of_v = v;
        let by_column = self.plan().spec().a.is_fp8().then(|| v.by_column());
        let v = by_column.as_ref().unwrap_or(v);
        let (plan, simulator) = (self.plan(), self.launcher.machine());
        let tiles = operands::tiles(plan)?;
        let mut shape = operands::shape_of(plan, [q, k, v].map(Tensor::sizes), T::DTYPE)?;
        let ScoreInputs { scale, scalars, vectors, sinks, lengths, factors } = inputs.into();
        let paged = match plan.spec().page {
            Some(page) => Some(in_pages([k, rows_of_v], mask, lengths, page)?),
            None => None,
        };
        if let Some(paged) = &paged {
            shape.keys = paged.shape.keys();
        }
        let (work, findings) = match (&paged, &simulator.lists) {
            (Some(paged), kernels) => listed_by_length(&tiles, &shape, paged, kernels.as_deref(), simulator.clusters)?,
            (None, None) => (AttentionWork::new(&tiles, &shape, mask, simulator.clusters)?, vec![]),
            (None, Some(kernels)) => {
                let arrays = (mask.sharing(), &MaskArrays::by_block(mask));
                let listed = ListedAttention::new(kernels, &tiles, &shape, arrays, simulator.clusters)?;
                (listed.work, listed.findings)
            }
        };
        let mut lse = vec![f32::NAN; shape.rows()];
        let poison = Tensor::filled(shape.of_output(), q.order(), O::POISON);
        let mut sim = self.launcher.session(options);
        let [k, v] = paged.as_ref().map_or([k, v], |paged| [&paged.keys, &paged.values]);
        let (tensors, o) = ([q, k, v].map(|tensor| placed(&mut sim, tensor)), placed(&mut sim, &poison));
        let id_lse = sim.bytes(f32::to_bytes(&lse));
        for id in [o.at, id_lse] {
            sim.result(id);
        }
        let vectors: Vec<_> = vectors.iter().map(|vector| (sim.bytes(vector.to_bytes()), vector.extent())).collect();
        let given_lse = self.lse.then_some((id_lse, lse.len()));
        let sinks = sinks.map(|sinks| (sim.bytes(f32::to_bytes(sinks)), sinks.len()));
        let table = paged.as_ref().map(|paged| (sim.words(&unsigned(&paged.table)), &paged.shape));
        let (tensors, numbers) = ((tensors, T::DTYPE), (scale, scalars));
        let factors = factors
            .map(|factors| (factors.each().each_ref().map(|each| sim.bytes(f32::to_bytes(each))), factors.count()));
        let (further, results) = ((sinks, table, factors), (o, given_lse, O::DTYPE));
        let operands = operands::checked(plan, &shape, tensors, results, numbers, vectors.into_iter(), further)?;
        if work.ctas() == 0 || !findings.is_empty() {
            return Ok((poison, lse, Report { findings, ..Report::default() }));
        }
        let operands = Attention { list: work.in_parameters(plan)?, ..operands };
        let list = |sim: &mut Sim<'_>| {
            let lists = [&work.heads[..], &work.tiles, &[], &work.steps, &[]];
            Ok(([work.ctas(), 1], sim.lists(lists, work.workspace_bytes(&tiles))))
        };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { operation::launch::<_, SimulatedError>(&mut sim, plan, &operands, list)? };
        if sim.report.is_clean() && !sim.repeats {
            return Err(AttentionError::Launches);
        }
        simulator.records.keep(sim.records());
        lse.copy_from_slice(&f32::from_bytes(sim.memory.bytes(id_lse)));
        let output = Tensor::from_vec(shape.of_output(), q.order(), O::from_bytes(sim.memory.bytes(o.at)))?;
        Ok((output, lse, sim.report))
    }
}

/// A tensor in the memory of the simulator.
fn placed<T: Element>(sim: &mut Sim<'_>, tensor: &Tensor<T>) -> Placed<BufferId> {
    let at = sim.bytes(T::to_bytes(tensor.data()));
    Placed { at, sizes: tensor.sizes(), strides: tensor.strides() }
}

/// K and V in pages.
///
/// # Errors
/// A mask without some block, and lengths that the tensors do not have.
fn in_pages<T: Element>(
    [k, v]: [&Tensor<T>; 2],
    mask: &Mask,
    lengths: Option<&[usize]>,
    page: u32,
) -> Result<HostPages<T>, AttentionError> {
    let ((rows, columns), [batch, _, keys, _]) = (mask.blocks(), k.sizes());
    if mask.stored() != rows * columns * mask.lists().len() {
        let fact = format!("{} of {} blocks are stored", mask.stored(), rows * columns * mask.lists().len());
        return Err(AttentionError::mask(fact, "every block, for a kernel whose K and V are in pages"));
    }
    let all = vec![keys; batch];
    HostPages::new(k, v, lengths.unwrap_or(&all), page as usize)
}

/// The work by the keys of each problem: of the specification, or as kernels list it.
fn listed_by_length<T>(
    tiles: &AttentionTiles,
    shape: &Shape,
    paged: &HostPages<T>,
    kernels: Option<&ListKernels>,
    ctas: u32,
) -> Result<(AttentionWork, Vec<Finding>), AttentionError> {
    let HostPages { table, lengths, shape: pages, .. } = paged;
    if shape.rows() == 0 {
        return Ok((AttentionWork::default(), vec![]));
    }
    if let Some(kernels) = kernels {
        let listed = ListedPages::new(kernels, tiles, shape, (pages, table, lengths), ctas)?;
        return Ok((listed.work, listed.findings));
    }
    let lists = pages::lists(tiles, shape, pages, ctas)?;
    let (heads, work) = by_length(&lists, &unsigned(lengths));
    Ok((AttentionWork { heads, tiles: work, steps: vec![], places: pages::places(tiles, ctas) }, vec![]))
}

fn unsigned(words: &[i32]) -> Vec<u32> {
    words.iter().map(|word| word.cast_unsigned()).collect()
}
