//! Solves on a GPU: a solver holds the matrix, the vectors, and the graph of some iterations.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;

use bsr_codegen::Layout;
use bsr_codegen::solver::{HISTORY, Method, Pointer, SolverKernel, SolverModule, Sum, Vector};

use super::engine::{self, Engine, resolved};
use super::error::SolveError;
use super::jacobi;
use super::request::{Options, Outcome, Preconditioner, Solution, check_lengths, kernels};
use crate::gpu::{
    Device, DeviceBsr, DeviceBuffer, DevicePtr, Function, Graph, LaunchDims, Module, NO_INPUTS, Plain, Stream,
    StreamRef, UntypedDense, launch_params,
};
use crate::launcher::Launcher;
use crate::operation::{Listed, Product};
use crate::{Bsr, Element};

/// Iterations of a graph.
const GRAPH: usize = 8;

/// A matrix on a GPU, and what a method needs to solve systems with it.
#[derive(Debug)]
pub struct Solver<T: Plain> {
    a: DeviceBsr<T>,
    product: Launcher,
    module: SolverModule,
    functions: Vec<(SolverKernel, Function)>,
    vectors: BTreeMap<Vector, DeviceBuffer<T>>,
    sums: BTreeMap<Sum, DeviceBuffer<f64>>,
    history: DeviceBuffer<f64>,
    state: DeviceBuffer<u8>,
    inverse: Option<DeviceBuffer<T>>,
    stream: Stream,
    /// [`GRAPH`] iterations. Its launches have the addresses of all buffers.
    graph: Option<Graph>,
}

impl<T: Element + Plain> Solver<T> {
    /// Copies a matrix to a GPU and loads the kernels of a method.
    ///
    /// # Errors
    /// [`SolveError::Refused`] for a matrix that is not square, has blocks beyond 8 x 8 or elements of another type than f64
    /// and f32, and for a diagonal block without an inverse; [`SolveError::Kernel`].
    pub fn new(
        device: &Device,
        a: &Bsr<T>,
        method: Method,
        preconditioner: Preconditioner,
    ) -> Result<Self, SolveError> {
        kernels::<T>(a.structure(), method, preconditioner)?;
        let inverse = match preconditioner {
            Preconditioner::BlockJacobi => Some(DeviceBuffer::from_slice(device, &jacobi::inverses(a)?)?),
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
        a: DeviceBsr<T>,
        method: Method,
        inverse: Option<DeviceBuffer<T>>,
        [r, x]: [DeviceBuffer<T>; 2],
    ) -> Result<Self, SolveError> {
        let preconditioner = if inverse.is_some() { Preconditioner::BlockJacobi } else { Preconditioner::None };
        let (plan, module) = kernels::<T>(a.structure(), method, preconditioner)?;
        check_lengths(a.rows(), r.len(), Some(x.len()))?;
        if let Some(inverse) = &inverse {
            let (side, blocks) = (a.block().0, a.structure().block_rows());
            if inverse.len() != blocks * side * side {
                let fact =
                    format!("{} elements of inverses, and {blocks} of {side} x {side} are wanted", inverse.len());
                return Err(bsr_codegen::Refusal::new(fact).help("the inverse of each diagonal block").into());
            }
        }
        let text = plan.ptx();
        let product = Launcher::load(device, &plan, text.text(), text.entry())?;
        product.prepare(&a, 1)?;
        device.check_target(module.arch().target)?;
        let loaded = Module::load(device, &module.ptx())?;
        let functions = method.kernels().map(|kernel| {
            let function = loaded.function(kernel.entry())?;
            function.prepare(dims(module, kernel, 1))?;
            Ok::<_, SolveError>((kernel, function))
        });
        let functions = functions.collect::<Result<_, _>>()?;
        let (rows, mut vectors) = (a.rows(), BTreeMap::from([(Vector::R, r), (Vector::X, x)]));
        for vector in engine::vectors(module) {
            if let Entry::Vacant(place) = vectors.entry(vector) {
                place.insert(DeviceBuffer::zeroed(device, rows)?);
            }
        }
        let ctas = module.ctas(rows as u32) as usize;
        let sums = engine::sums(module).into_iter().map(|sum| Ok((sum, DeviceBuffer::zeroed(device, ctas)?)));
        let sums = sums.collect::<Result<_, SolveError>>()?;
        let mut solver = Self {
            product,
            module,
            functions,
            vectors,
            sums,
            history: DeviceBuffer::zeroed(device, HISTORY as usize)?,
            state: DeviceBuffer::zeroed(device, method.state_bytes() as usize)?,
            inverse,
            stream: Stream::new(device)?,
            graph: None,
            a,
        };
        let record = |stream: StreamRef<'_>| (0..GRAPH).try_for_each(|_| solver.record(stream));
        solver.graph = Some(Graph::capture(&solver.stream, record)?);
        Ok(solver)
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
            if let Some(buffer) = self.vectors.get_mut(&vector) {
                buffer.upload_on(content, stream)?;
            }
        }
        let (iterations, residual, converged) = self.run(options)?;
        let x = self.vectors.get(&Vector::X).map(|x| x.to_vec_on(self.stream.handle())).transpose()?;
        Ok(Outcome { iterations, residual, converged }.with(x.unwrap_or_default()))
    }

    /// Solves with what the buffers hold: iterations, the norm of the residual, and whether that is small enough. Done when it
    /// returns.
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
        let matrix = structure.stored() as u64 * bytes + 4 * (structure.nnzb() + structure.block_rows() + 1) as u64;
        let block = self.module.block().map(u64::from);
        let method = self.module.method();
        let of = |kernel: &SolverKernel| {
            let product = method.product_before(*kernel).map_or(0, |_| matrix + 2 * rows * bytes);
            product + kernel.bytes_moved(rows, bytes, block)
        };
        method.iteration().iter().map(of).sum()
    }

    fn at(&self, pointer: Pointer) -> DevicePtr {
        match pointer {
            Pointer::State => self.state.ptr(),
            Pointer::History => self.history.ptr(),
            Pointer::Inverse => self.inverse.as_ref().map_or(0, DeviceBuffer::ptr),
            Pointer::Sum(sum) => self.sums.get(&sum).map_or(0, DeviceBuffer::ptr),
            Pointer::Vector(vector) => self.vectors.get(&resolved(self.module, vector)).map_or(0, DeviceBuffer::ptr),
        }
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

    fn enqueue(&self, stream: StreamRef<'_>, kernel: SolverKernel) -> Result<(), SolveError> {
        let Some((_, function)) = self.functions.iter().find(|(one, _)| *one == kernel) else { return Ok(()) };
        let rows = self.a.rows() as u32;
        let pointers: Vec<DevicePtr> =
            self.module.pointers(kernel).into_iter().map(|pointer| self.at(pointer)).collect();
        let mut params: Vec<*mut c_void> =
            pointers.iter().map(|pointer| std::ptr::from_ref(pointer).cast_mut().cast()).collect();
        params.push(std::ptr::from_ref(&rows).cast_mut().cast());
        // SAFETY: the addresses that the kernel asks for, in its order, and the number of rows, that all vectors have; the sums
        // have an element for each CTA. All of them live as long as the solver, which alone uses them.
        unsafe { launch_params(function, dims(self.module, kernel, rows), &mut params, stream)? };
        Ok(())
    }

    fn record(&self, stream: StreamRef<'_>) -> Result<(), SolveError> {
        let method = self.module.method();
        method.iteration().iter().try_for_each(|kernel| {
            if let Some((from, to)) = method.product_before(*kernel) {
                self.enqueue_product(stream, from, to)?;
            }
            self.enqueue(stream, *kernel)
        })
    }
}

fn dims(module: SolverModule, kernel: SolverKernel, rows: u32) -> LaunchDims {
    LaunchDims {
        grid: [module.ctas(rows), 1],
        block: SolverKernel::THREADS,
        cluster: 1,
        shared_bytes: module.shared_bytes(kernel),
        is_dependent: false,
    }
}

impl<T: Element + Plain> Engine for Solver<T> {
    fn module(&self) -> SolverModule {
        self.module
    }

    fn rows(&self) -> usize {
        self.a.rows()
    }

    fn product(&mut self, from: Vector, to: Vector) -> Result<(), SolveError> {
        self.enqueue_product(self.stream.handle(), from, to)
    }

    fn launch(&mut self, kernel: SolverKernel) -> Result<(), SolveError> {
        self.enqueue(self.stream.handle(), kernel)
    }

    /// Whole graphs: what is beyond the last iteration does nothing but products.
    fn iterate(&mut self, count: usize) -> Result<(), SolveError> {
        if let Some(graph) = &mut self.graph {
            for _ in 0..count.div_ceil(GRAPH) {
                // SAFETY: the graph has the addresses of this solver's buffers, which alone uses them.
                unsafe { graph.launch(self.stream.handle())? };
            }
        }
        Ok(())
    }

    fn zero(&mut self, vector: Vector) -> Result<(), SolveError> {
        let stream = self.stream.handle();
        match self.vectors.get_mut(&resolved(self.module, vector)) {
            Some(buffer) => Ok(buffer.fill_bytes_on(0, stream)?),
            None => Ok(()),
        }
    }

    fn set_state(&mut self, state: &[u8]) -> Result<(), SolveError> {
        Ok(self.state.upload_on(state, self.stream.handle())?)
    }

    fn state(&mut self) -> Result<Vec<u8>, SolveError> {
        Ok(self.state.to_vec_on(self.stream.handle())?)
    }

    fn partials(&mut self, sum: Sum) -> Result<Vec<f64>, SolveError> {
        match self.sums.get(&sum) {
            Some(partials) => Ok(partials.to_vec_on(self.stream.handle())?),
            None => Ok(vec![]),
        }
    }

    fn history(&mut self) -> Result<Vec<f64>, SolveError> {
        Ok(self.history.to_vec_on(self.stream.handle())?)
    }
}
