//! Solves on the simulator: the kernels that a GPU is given.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use bsr_codegen::Layout;
use bsr_codegen::solver::{Method, Pointer, SolverKernel, SolverModule, Step, Sum, Vector};
use bsr_simulator::{BufferId, Finding, GlobalMemory, Launch, Module, Options as Run, Param, parse, simulate as run};

use super::engine::{self, Engine};
use super::error::SolveError;
use super::jacobi;
use super::request::{Options, Outcome, Preconditioner, Solution, check_lengths, kernels};
use crate::error::SimulatedError;
use crate::gpu::{DeviceInputs, Stored, UntypedDense};
use crate::launcher::Launcher;
use crate::machine::upload;
use crate::operation::{Listed, Product};
use crate::simulated::{Blocks, DEFAULT_CLUSTERS, Simulator};
use crate::{Bsr, Element};

/// Solves A x = b on the simulator, and says what is wrong with the launches; nothing is launched after a finding, and
/// what was found until then is no solution. The values of A may be of a narrower type than b.
///
/// # Errors
/// As [`Solver::solve`](super::Solver::solve).
pub fn simulate<V: Element, T: Element>(
    a: &Bsr<V>,
    (method, preconditioner): (Method, Preconditioner),
    (b, x0): (&[T], Option<&[T]>),
    options: &mut Options<'_>,
) -> Result<(Solution<T>, Vec<Finding>), SolveError> {
    let (plan, module) = kernels::<V, T>(a.structure(), method, preconditioner)?;
    check_lengths(a.rows(), b.len(), x0.map(<[T]>::len))?;
    let text = plan.ptx();
    let product = Launcher::read(&plan, text.text(), text.entry(), DEFAULT_CLUSTERS).map_err(SimulatedError::from)?;
    let vectors = parse(&module.ptx()).map_err(SimulatedError::from)?;
    let mut memory = GlobalMemory::new();
    let values = upload(&mut memory, V::to_bytes(a.values()));
    let matrix = Blocks::new(a.structure(), V::DTYPE, values);
    let mut addresses = BTreeMap::new();
    for pointer in module.memory() {
        let content = match pointer {
            Pointer::Vector(Vector::R) => T::to_bytes(b),
            Pointer::Vector(Vector::X) => x0.map_or_else(|| T::to_bytes(&vec![T::ZERO; a.rows()]), T::to_bytes),
            Pointer::Inverse => T::to_bytes(&jacobi::inverses::<V, T>(a)?),
            poisoned => vec![0xFF; module.bytes(poisoned, a.rows() as u32) as usize],
        };
        addresses.insert(pointer, upload(&mut memory, content));
    }
    let element = PhantomData::<T>;
    let mut simulated = Simulated { product, vectors, module, matrix, memory, addresses, findings: vec![], element };
    let outcome = engine::solve(&mut simulated, options);
    let Simulated { findings, memory, addresses, .. } = simulated;
    if !findings.is_empty() {
        let outcome = Outcome { iterations: 0, residual: f64::NAN, converged: false };
        return Ok((outcome.with(vec![]), findings));
    }
    let mut x = T::from_bytes(memory.bytes(addresses[&Pointer::Vector(Vector::X)]));
    x.truncate(a.rows());
    Ok((outcome?.with(x), findings))
}

struct Simulated<'a, T> {
    product: Launcher<Simulator>,
    vectors: Module,
    module: SolverModule,
    matrix: Blocks<'a>,
    memory: GlobalMemory,
    addresses: BTreeMap<Pointer, BufferId>,
    findings: Vec<Finding>,
    element: PhantomData<T>,
}

impl<T: Element> Simulated<'_, T> {
    fn at(&self, pointer: Pointer) -> BufferId {
        self.addresses[&self.module.resolved(pointer)]
    }

    fn dense(&self, vector: Vector) -> UntypedDense<BufferId> {
        let (rows, ptr) = (self.rows(), self.at(Pointer::Vector(vector)));
        UntypedDense {
            ptr,
            dtype: T::DTYPE,
            rows,
            cols: 1,
            layout: Layout::ColMajor,
            ld: rows,
            foreign: false,
            on: None,
        }
    }

    fn numbers(&self, pointer: Pointer) -> Vec<f64> {
        f64::from_bytes(self.memory.bytes(self.at(pointer)))
    }
}

impl<T: Element> Engine for Simulated<'_, T> {
    fn module(&self) -> SolverModule {
        self.module
    }

    fn rows(&self) -> usize {
        self.matrix.structure().rows()
    }

    fn product(&mut self, from: Vector, to: Vector) -> Result<(), SolveError> {
        if !self.findings.is_empty() {
            return Ok(());
        }
        let mut session = self.product.session(&Run::default());
        let (sparse, dense, c) = (self.matrix, self.dense(from), self.dense(to));
        std::mem::swap(&mut session.memory, &mut self.memory);
        let operands = Product { sparse, dense, c, inputs: &DeviceInputs::none(), second: None };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { self.product.enqueue(&mut session, &operands, Listed::Blocks(&sparse, 1))? };
        std::mem::swap(&mut session.memory, &mut self.memory);
        self.findings = session.report.findings;
        Ok(())
    }

    fn launch(&mut self, step: Step) -> Result<(), SolveError> {
        if !self.findings.is_empty() {
            return Ok(());
        }
        let rows = self.rows() as u32;
        let pointers = self.module.pointers(step.kernel).into_iter().map(|pointer| Param::Buffer(self.at(pointer)));
        let launch = Launch {
            grid: [self.module.grid(step, rows), 1, 1],
            cluster: [1; 3],
            block: [SolverKernel::THREADS, 1, 1],
            shared_bytes: self.module.shared_bytes(step.kernel),
            params: pointers.chain(self.module.words(step, rows).into_iter().map(Param::U32)).collect(),
        };
        let report = run(&self.vectors, step.kernel.entry(), &launch, &mut self.memory, &Run::default());
        self.findings = report.map_err(SimulatedError::from)?.findings;
        Ok(())
    }

    fn cycles(&mut self, count: usize) -> Result<(), SolveError> {
        (0..count).try_for_each(|_| engine::cycle(self))
    }

    fn zero(&mut self, vector: Vector) -> Result<(), SolveError> {
        let id = self.at(Pointer::Vector(vector));
        self.memory.bytes_mut(id).fill(0);
        Ok(())
    }

    fn set_state(&mut self, state: &[u8]) -> Result<(), SolveError> {
        let id = self.at(Pointer::State);
        self.memory.bytes_mut(id)[..state.len()].copy_from_slice(state);
        Ok(())
    }

    /// A state that cannot be trusted after a finding ends the solve.
    fn state(&mut self) -> Result<Vec<u8>, SolveError> {
        let state = self.memory.bytes(self.at(Pointer::State)).to_vec();
        Ok(if self.findings.is_empty() { state } else { vec![0xFF; state.len()] })
    }

    fn partials(&mut self, sum: Sum) -> Result<Vec<f64>, SolveError> {
        Ok(self.numbers(Pointer::Sum(sum)))
    }

    fn history(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.numbers(Pointer::History))
    }

    fn x(&mut self) -> Result<Vec<f64>, SolveError> {
        let bytes = self.memory.bytes(self.at(Pointer::Vector(Vector::X)));
        let mut x: Vec<f64> = T::from_bytes(bytes).into_iter().map(T::to_f64).collect();
        x.truncate(self.rows());
        Ok(x)
    }
}
