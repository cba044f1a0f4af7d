//! Solves on a GPU: a solver holds the matrix, the vectors, and the graph of some iterations.

use std::collections::BTreeMap;
use std::ffi::c_void;

use bsr_codegen::Layout;
use bsr_codegen::solver::{Method, Pointer, SolverKernel, SolverModule, Step, Sum, Vector};

use super::engine::{self, Engine};
use super::error::SolveError;
use super::jacobi;
use super::request::{Options, Outcome, Preconditioner, Solution, check_lengths, kernels};
use crate::gpu::{
    Device, DeviceBsr, DeviceBuffer, DevicePtr, Function, Graph, LaunchDims, Module, NO_INPUTS, Plain, Stream,
    StreamRef, UntypedDense, launch_params,
};
use crate::launcher::Launcher;
use crate::operation::{Listed, Product};
use crate::{Bsr, Element, Structure};

/// Iterations of a graph, or of one cycle if that has more.
const GRAPH: u32 = 8;

/// A matrix on a GPU, and what a method needs to solve systems with it: vectors of `T`, values of `V`.
#[derive(Debug)]
pub struct Solver<T: Plain, V: Plain = T> {
    a: DeviceBsr<V>,
    product: Launcher,
    module: SolverModule,
    functions: Vec<(SolverKernel, Function)>,
    /// Vectors and inverses.
    elements: BTreeMap<Pointer, DeviceBuffer<T>>,
    /// What is of bytes or f64 in all solves.
    others: BTreeMap<Pointer, DeviceBuffer<u8>>,
    stream: Stream,
    /// Its launches have the addresses of all buffers.
    graph: Option<Graph>,
}

impl<T: Element + Plain, V: Element + Plain> Solver<T, V> {
    /// Copies a matrix to a GPU and loads the kernels of a method. Its values are of the vectors' type or of a narrower one: f32, f16
    /// and bf16 for f64, f16 and bf16 for f32.
    ///
    /// # Errors
    /// [`SolveError::Refused`] for a matrix that is not square or has blocks beyond 8 x 8, vectors of another type than f64 and
    /// f32, values of a wider type, and a diagonal block without an inverse; [`SolveError::Kernel`].
    pub fn new(
        device: &Device,
        a: &Bsr<V>,
        method: Method,
        preconditioner: Preconditioner,
    ) -> Result<Self, SolveError> {
        kernels::<V, T>(a.structure(), method, preconditioner)?;
        let inverse = match preconditioner {
            Preconditioner::BlockJacobi => Some(DeviceBuffer::from_slice(device, &jacobi::inverses::<V, T>(a)?)?),
            Preconditioner::None => None,
        };
        let [r, x] = [(); 2].map(|()| DeviceBuffer::zeroed(device, a.rows()));
        Self::of_buffers(device, DeviceBsr::upload(device, a)?, method, inverse, [r?, x?])
    }

    /// The same of buffers on the GPU: the inverses of the diagonal blocks, if there is a preconditioner, and where a solve
    /// finds b and x0 and leaves the residual and x. Buffers may be foreign.
    ///
    /// # Errors
    /// As [`Solver::new`]; buffers of other lengths.
    #[doc(hidden)]
    pub fn of_buffers(
        device: &Device,
        a: DeviceBsr<V>,
        method: Method,
        inverse: Option<DeviceBuffer<T>>,
        [r, x]: [DeviceBuffer<T>; 2],
    ) -> Result<Self, SolveError> {
        let preconditioner = if inverse.is_some() { Preconditioner::BlockJacobi } else { Preconditioner::None };
        let (plan, module) = kernels::<V, T>(a.structure(), method, preconditioner)?;
        check_lengths(a.rows(), r.len(), Some(x.len()))?;
        if let Some(inverse) = &inverse {
            check_inverse(a.structure(), inverse.len())?;
        }
        let text = plan.ptx();
        let product = Launcher::load(device, &plan, text.text(), text.entry())?;
        product.prepare(&a, 1)?;
        device.check_target(module.arch().target)?;
        let loaded = Module::load(device, &module.ptx())?;
        let functions = module.method().kernels().into_iter().map(|kernel| {
            let function = loaded.function(kernel.entry())?;
            function.prepare(dims(module, Step { kernel, column: 0 }, 1))?;
            Ok::<_, SolveError>((kernel, function))
        });
        let functions = functions.collect::<Result<_, _>>()?;
        let mut elements = BTreeMap::from([(Pointer::Vector(Vector::R), r), (Pointer::Vector(Vector::X), x)]);
        elements.extend(inverse.map(|inverse| (Pointer::Inverse, inverse)));
        let mut others = BTreeMap::new();
        for pointer in module.memory().into_iter().filter(|pointer| !elements.contains_key(pointer)).collect::<Vec<_>>()
        {
            let bytes = module.bytes(pointer, a.rows() as u32) as usize;
            if matches!(pointer, Pointer::Vector(_)) {
                elements.insert(pointer, DeviceBuffer::zeroed(device, bytes / T::DTYPE.bytes() as usize)?);
            } else {
                others.insert(pointer, DeviceBuffer::zeroed(device, bytes)?);
            }
        }
        let stream = Stream::new(device)?;
        let mut solver = Self { product, module, functions, elements, others, stream, graph: None, a };
        solver.capture()?;
        Ok(solver)
    }

    fn capture(&mut self) -> Result<(), SolveError> {
        let record = |stream: StreamRef<'_>| (0..self.cycles_of_graph()).try_for_each(|_| self.record(stream));
        self.graph = Some(Graph::capture(&self.stream, record)?);
        Ok(())
    }

    /// The same solver for values elsewhere in foreign memory; the graph is captured anew if they are elsewhere.
    ///
    /// # Errors
    /// An address that is null or no multiple of 16 bytes; [`SolveError::Kernel`].
    ///
    /// # Safety
    /// As [`DeviceBsr::from_raw`].
    #[doc(hidden)]
    pub unsafe fn set_values(&mut self, values: DevicePtr) -> Result<(), SolveError> {
        if self.a.values().ptr() == values {
            return Ok(());
        }
        // SAFETY: as the caller vouches.
        unsafe { self.a.set_values(values)? };
        self.capture()
    }

    /// Sets the inverses of the diagonal blocks of a solver that has a preconditioner.
    ///
    /// # Errors
    /// Another number of them; [`SolveError::Kernel`].
    #[doc(hidden)]
    pub fn set_inverse(&mut self, inverse: &[T]) -> Result<(), SolveError> {
        check_inverse(self.a.structure(), inverse.len())?;
        match self.elements.get_mut(&Pointer::Inverse) {
            Some(buffer) => Ok(buffer.upload_on(inverse, self.stream.handle())?),
            None => Ok(()),
        }
    }

    /// Solves A x = b from x = 0.
    ///
    /// # Errors
    /// [`SolveError::Refused`] for options that no solve takes and a b of another length or not finite;
    /// [`SolveError::Breakdown`] with the iteration in which the method cannot go on; [`SolveError::Kernel`].
    pub fn solve(&mut self, b: &[T], options: &mut Options<'_>) -> Result<Solution<T>, SolveError> {
        self.solve_from(b, &vec![T::ZERO; self.a.rows()], options)
    }

    /// Solves A x = b from x = `x0`.
    ///
    /// # Errors
    /// As [`Solver::solve`].
    pub fn solve_from(&mut self, b: &[T], x0: &[T], options: &mut Options<'_>) -> Result<Solution<T>, SolveError> {
        check_lengths(self.a.rows(), b.len(), Some(x0.len()))?;
        let stream = self.stream.handle();
        for (vector, content) in [(Vector::R, b), (Vector::X, x0)] {
            if let Some(buffer) = self.elements.get_mut(&Pointer::Vector(vector)) {
                buffer.upload_on(content, stream)?;
            }
        }
        let (iterations, residual, converged) = self.run(options)?;
        Ok(Outcome { iterations, residual, converged }.with(self.solution()?))
    }

    /// Solves with what the buffers hold: iterations, the norm of the residual, and whether that is small enough. Done when it
    /// returns. An x in foreign memory is seen there, and `watch` is shown nothing of it.
    ///
    /// # Errors
    /// As [`Solver::solve`].
    #[doc(hidden)]
    pub fn run(&mut self, options: &mut Options<'_>) -> Result<(usize, f64, bool), SolveError> {
        let Outcome { iterations, residual, converged } = engine::solve(self, options)?;
        self.stream.synchronize()?;
        Ok((iterations, residual, converged))
    }

    /// Bytes that an iteration reads and writes at least, if nothing of it stays in L2: values, block columns and row pointers of
    /// every product once, and each vector of a kernel once.
    pub fn bytes_of_iteration(&self) -> u64 {
        let (rows, bytes) = (self.a.rows() as u64, u64::from(T::DTYPE.bytes()));
        let structure = self.a.structure();
        let values = structure.stored() as u64 * u64::from(V::DTYPE.bytes());
        let matrix = values + 4 * (structure.nnzb() + structure.block_rows() + 1) as u64;
        let method = self.module.method();
        let of = |step: Step| {
            let product = method.product_before(step.kernel).map_or(0, |_| matrix + 2 * rows * bytes);
            product + self.module.bytes_moved(step, rows)
        };
        method.cycle().into_iter().map(of).sum::<u64>() / u64::from(method.iterations_of_cycle())
    }

    fn cycles_of_graph(&self) -> usize {
        GRAPH.div_ceil(self.module.method().iterations_of_cycle()) as usize
    }

    fn at(&self, pointer: Pointer) -> DevicePtr {
        let pointer = self.module.resolved(pointer);
        let of_element = self.elements.get(&pointer).map(DeviceBuffer::ptr);
        of_element.or_else(|| self.others.get(&pointer).map(DeviceBuffer::ptr)).unwrap_or(0)
    }

    fn read(&self, pointer: Pointer) -> Result<Vec<u8>, SolveError> {
        let bytes = self.others.get(&pointer).map(|buffer| buffer.to_vec_on(self.stream.handle())).transpose()?;
        Ok(bytes.unwrap_or_default())
    }

    fn solution(&self) -> Result<Vec<T>, SolveError> {
        let x = self.elements.get(&Pointer::Vector(Vector::X));
        Ok(x.map(|x| x.to_vec_on(self.stream.handle())).transpose()?.unwrap_or_default())
    }

    fn dense(&self, vector: Vector) -> UntypedDense {
        let (rows, ptr) = (self.a.rows(), self.at(Pointer::Vector(vector)));
        let on = Some(self.product.device().info().ordinal);
        UntypedDense { ptr, dtype: T::DTYPE, rows, cols: 1, layout: Layout::ColMajor, ld: rows, foreign: false, on }
    }

    fn enqueue_product(&self, stream: StreamRef<'_>, from: Vector, to: Vector) -> Result<(), SolveError> {
        let a = self.a.untyped();
        let operands =
            Product { sparse: a, dense: self.dense(from), c: self.dense(to), inputs: &NO_INPUTS, second: None };
        // SAFETY: the vectors have as many elements as the matrix has rows and columns, and live as long as the solver, which
        // waits for its stream before it returns to its caller or frees them; they are two of them, and its own.
        unsafe { self.product.enqueue(&mut self.product.machine().on(stream), &operands, Listed::Blocks(&a, 1))? };
        Ok(())
    }

    fn enqueue(&self, stream: StreamRef<'_>, step: Step) -> Result<(), SolveError> {
        let Some((_, function)) = self.functions.iter().find(|(one, _)| *one == step.kernel) else { return Ok(()) };
        let rows = self.a.rows() as u32;
        let pointers: Vec<DevicePtr> =
            self.module.pointers(step.kernel).into_iter().map(|pointer| self.at(pointer)).collect();
        let words = self.module.words(step, rows);
        let mut params: Vec<*mut c_void> =
            pointers.iter().map(|pointer| std::ptr::from_ref(pointer).cast_mut().cast()).collect();
        params.extend(words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast::<c_void>()));
        // SAFETY: the addresses that the kernel asks for, of as many bytes as the module says, then its words. All of them live as
        // long as the solver, which alone uses them.
        unsafe { launch_params(function, dims(self.module, step, rows), &mut params, stream)? };
        Ok(())
    }

    /// One cycle.
    fn record(&self, stream: StreamRef<'_>) -> Result<(), SolveError> {
        let method = self.module.method();
        method.cycle().into_iter().try_for_each(|step| {
            if let Some((from, to)) = method.product_before(step.kernel) {
                self.enqueue_product(stream, from, to)?;
            }
            self.enqueue(stream, step)
        })
    }
}

/// Whether there is an inverse for each diagonal block.
fn check_inverse(structure: &Structure, len: usize) -> Result<(), SolveError> {
    let (side, blocks) = (structure.block().0, structure.block_rows());
    if len == blocks * side * side {
        return Ok(());
    }
    let fact = format!("{len} elements of inverses, and {blocks} of {side} x {side} are wanted");
    Err(bsr_codegen::Refusal::new(fact).help("the inverse of each diagonal block").into())
}

fn dims(module: SolverModule, step: Step, rows: u32) -> LaunchDims {
    LaunchDims {
        grid: [module.grid(step, rows), 1],
        block: SolverKernel::THREADS,
        cluster: 1,
        shared_bytes: module.shared_bytes(step.kernel),
        is_dependent: false,
    }
}

impl<T: Element + Plain, V: Element + Plain> Engine for Solver<T, V> {
    fn module(&self) -> SolverModule {
        self.module
    }

    fn rows(&self) -> usize {
        self.a.rows()
    }

    fn product(&mut self, from: Vector, to: Vector) -> Result<(), SolveError> {
        self.enqueue_product(self.stream.handle(), from, to)
    }

    fn launch(&mut self, step: Step) -> Result<(), SolveError> {
        self.enqueue(self.stream.handle(), step)
    }

    /// Whole graphs, and cycles that are too few for one.
    fn cycles(&mut self, count: usize) -> Result<(), SolveError> {
        let of_graph = self.cycles_of_graph();
        if let Some(graph) = &mut self.graph {
            for _ in 0..count / of_graph {
                // SAFETY: the graph has the addresses of this solver's buffers, which alone uses them.
                unsafe { graph.launch(self.stream.handle())? };
            }
        }
        (0..count % of_graph).try_for_each(|_| self.record(self.stream.handle()))
    }

    fn zero(&mut self, vector: Vector) -> Result<(), SolveError> {
        let stream = self.stream.handle();
        match self.elements.get_mut(&self.module.resolved(Pointer::Vector(vector))) {
            Some(buffer) => Ok(buffer.fill_bytes_on(0, stream)?),
            None => Ok(()),
        }
    }

    fn set_state(&mut self, state: &[u8]) -> Result<(), SolveError> {
        let stream = self.stream.handle();
        match self.others.get_mut(&Pointer::State) {
            Some(buffer) => Ok(buffer.upload_on(state, stream)?),
            None => Ok(()),
        }
    }

    fn state(&mut self) -> Result<Vec<u8>, SolveError> {
        self.read(Pointer::State)
    }

    fn partials(&mut self, sum: Sum) -> Result<Vec<f64>, SolveError> {
        Ok(f64::from_bytes(&self.read(Pointer::Sum(sum))?))
    }

    fn history(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(f64::from_bytes(&self.read(Pointer::History)?))
    }

    fn x(&mut self) -> Result<Vec<f64>, SolveError> {
        let x = self.elements.get(&Pointer::Vector(Vector::X));
        if x.is_some_and(DeviceBuffer::is_foreign) {
            return Ok(vec![]);
        }
        Ok(self.solution()?.into_iter().map(T::to_f64).collect())
    }
}
