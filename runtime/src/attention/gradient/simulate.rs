//! Kernels of a gradient on the simulator.

use bsr_codegen::{GradientSide, GradientTiles, Plan};
use bsr_simulator::{Coverage, Options, Report, Statement};

use super::operands::problem;
use super::{GradientWork, RowTerms, Saved, ScoreSums};
use crate::Element;
use crate::attention::vector::packed_strides;
use crate::attention::{AttentionError, Mask, ScoreInputs, Tensor};
use crate::error::SimulatedError;
use crate::launcher::Launcher;
use crate::machine::Sim;
use crate::operation::{self, Gradient};
use crate::simulated::Simulator;

/// CTAs that share the work unless it is said otherwise.
const CTAS: u32 = 3;

/// A kernel of a gradient on the simulator: that of dQ, or that of dK and dV.
#[derive(Clone, Debug)]
pub struct SimulatedGradient {
    launcher: Launcher<Simulator>,
    form: GradientTiles,
}

/// What a kernel computed.
#[derive(Clone, Debug)]
pub struct SimulatedGradients<T> {
    /// dQ alone, or dK and dV.
    pub gradients: Vec<Tensor<T>>,
    /// The terms of queries whose block row stores blocks, of a kernel of dQ; NaN of the others. Of a kernel of dK and dV, its
    /// argument.
    pub terms: RowTerms,
    /// The gradients of the score's parameters, of a kernel that sums some.
    pub score_sums: ScoreSums,
    /// What was found.
    pub report: Report,
}

impl SimulatedGradient {
    /// Reads the PTX of a kernel.
    ///
    /// # Errors
    /// [`AttentionError::Operation`] for a plan of another operation, and PTX that the simulator does not take.
    pub fn new(plan: &Plan, ptx: &str, entry: &str) -> Result<Self, AttentionError> {
        let form = plan.gradient_tiles().ok_or(AttentionError::Operation(plan.spec().op))?;
        let launcher = Launcher::read(plan, ptx, entry, CTAS).map_err(SimulatedError::from)?;
        Ok(Self { launcher, form })
    }

    /// The kernel of a plan.
    ///
    /// # Errors
    /// As [`SimulatedGradient::new`].
    #[doc(hidden)]
    pub fn of_plan(plan: &Plan) -> Result<Self, AttentionError> {
        let ptx = plan.ptx();
        Self::new(plan, ptx.text(), ptx.entry())
    }

    /// The same with the work divided among so many CTAs.
    #[must_use]
    pub fn with_ctas(mut self, ctas: u32) -> Self {
        self.launcher.machine_mut().clusters = ctas;
        self
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

    /// Computes dQ, or dK and dV, under `mask`. They lie as Q, K and V do, and are full of [`Element::POISON`] before. A kernel
    /// of dK and dV reads `terms`, or where there are none, those that the host computes from LSE, O and dO.
    ///
    /// # Errors
    /// Tensors or a mask that do not fit the kernel.
    pub fn run<T: Element>(
        &self,
        saved: &Saved<'_, T>,
        terms: Option<&RowTerms>,
        mask: &Mask,
        options: &Options,
    ) -> Result<SimulatedGradients<T>, AttentionError> {
        let (plan, form, simulator) = (self.plan(), &self.form, self.launcher.machine());
        let shape = saved.shape(plan)?;
        let work = GradientWork::new(form, &shape, mask, simulator.clusters)?;
        let [q, k, v] = saved.tensors;
        let is_of_keys = form.side == GradientSide::Keys;
        let poison = |of: &Tensor<T>| Tensor::filled(of.sizes(), of.order(), T::POISON);
        let mut gradients: Vec<Tensor<T>> = if is_of_keys { vec![poison(k), poison(v)] } else { vec![poison(q)] };
        let terms = match (is_of_keys, terms) {
            (true, Some(terms)) => terms.clone(),
            (true, None) => RowTerms::of(form, &shape, saved),
            (false, _) => RowTerms::poisoned(form, &shape),
        };
        let sums = vec![f32::NAN; ScoreSums::len(plan.spec(), &shape)];
        if work.ctas() == 0 {
            let score_sums = ScoreSums::of(plan.spec(), &shape, sums);
            return Ok(SimulatedGradients { gradients, terms, score_sums, report: Report::default() });
        }
        // What the other kernel writes has no slot here.
        let all = [q, k, v, saved.output, saved.output_gradient, q, k, v];
        let problem = problem(&shape, all.map(Tensor::strides));
        let mut sim = self.launcher.session(options);
        let ScoreInputs { scale, scalars, vectors, .. } = saved.inputs;
        let vectors: Vec<_> = vectors.iter().map(|vector| (sim.bytes(vector.to_bytes()), vector.extent())).collect();
        let tensors =
            [q, k, v, saved.output, saved.output_gradient].map(|tensor| sim.bytes(T::to_bytes(tensor.data())));
        let lse = sim.bytes(f32::to_bytes(saved.lse));
        let lse_gradient = saved.lse_gradient.map(|values| sim.bytes(f32::to_bytes(values)));
        let row_terms = sim.bytes(f32::to_bytes(terms.values()));
        let sums = (!sums.is_empty()).then(|| sim.bytes(f32::to_bytes(&sums)));
        let written: Vec<_> = gradients.iter().map(|tensor| sim.bytes(T::to_bytes(tensor.data()))).collect();
        let operands = Gradient {
            tensors,
            lse,
            lse_gradient,
            row_terms,
            first: written[0],
            second: written.get(1).copied(),
            score_sums: sums,
            scale,
            scalars,
            vectors: packed_strides(plan, &shape, vectors.into_iter())?,
            problem,
        };
        let list = |sim: &mut Sim<'_>| {
            let lists = [&work.heads[..], &work.tiles, &[], &work.steps, &[]];
            Ok(([work.ctas(), 1], sim.lists(lists, 0)))
        };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { operation::launch::<_, SimulatedError>(&mut sim, plan, &operands, list)? };
        simulator.records.keep(sim.records());
        let terms = terms.with_values(f32::from_bytes(sim.memory.bytes(row_terms)));
        let sums = sums.map_or_else(Vec::new, |id| f32::from_bytes(sim.memory.bytes(id)));
        for (gradient, id) in gradients.iter_mut().zip(&written) {
            *gradient = Tensor::from_vec(gradient.sizes(), gradient.order(), T::from_bytes(sim.memory.bytes(*id)))?;
        }
        let score_sums = ScoreSums::of(plan.spec(), &shape, sums);
        Ok(SimulatedGradients { gradients, terms, score_sums, report: sim.report })
    }
}
