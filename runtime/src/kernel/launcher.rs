//! The untyped launcher: what [`super::Loaded`] and the `bsr` command share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bsr_codegen::epilogue::Program;
use bsr_codegen::{Argument, LaunchShape, Operand, Plan, Problem, Walk};

use super::inputs::program_of;
use super::{KernelError, fit};
use crate::Element;
use crate::gpu::{
    self, Device, DeviceBsr, DeviceBuffer, DeviceDense, DeviceInput, DeviceInputs, DevicePtr, DeviceScales,
    Fingerprint, Function, LaunchDims, Module, Plain, StreamRef, TensorMapCache, UntypedBsr, UntypedDense,
    UntypedScales, Value, Values,
};
use crate::schedule::WorkLists;

/// A kernel on a device and the work plans of the patterns it has met.
#[derive(Debug)]
pub struct Launcher {
    plan: Plan,
    function: Function,
    device: Device,
    /// Clusters that run at the same time.
    clusters: u32,
    maps: TensorMapCache,
    work: Mutex<HashMap<(Fingerprint, usize), Arc<Work>>>,
}

/// The work of one pattern on the device.
#[derive(Debug)]
struct Work {
    grid: [u32; 2],
    heads: DeviceBuffer<u32>,
    items: DeviceBuffer<u32>,
}

/// The operands of one launch.
#[derive(Clone, Copy, Debug)]
struct Operands<'a> {
    a: UntypedBsr<'a>,
    b: UntypedDense,
    c: UntypedDense,
    scales: UntypedScales,
    inputs: &'a DeviceInputs<'a>,
}

impl Launcher {
    /// Loads `ptx`, the text of `plan`, on a device.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the driver's log if it refuses the PTX, or if the device is older than the plan's
    /// architecture or of another kind; [`KernelError::DoesNotFit`].
    pub fn load(device: &Device, plan: &Plan, ptx: &str, entry: &str) -> Result<Self, KernelError> {
        device.check_target(plan.arch().target)?;
        let function = Module::load(device, ptx)?.function(entry)?;
        let (cluster, shared_bytes) = (plan.cluster(), plan.shared_bytes());
        let dims = LaunchDims { grid: [cluster, 1], block: plan.threads(), cluster, shared_bytes };
        let clusters = function.max_active_clusters(dims)?;
        if clusters == 0 {
            return Err(KernelError::DoesNotFit { cluster, shared_bytes });
        }
        Ok(Self {
            plan: plan.clone(),
            function,
            device: device.clone(),
            clusters,
            maps: TensorMapCache::new(device),
            work: Mutex::default(),
        })
    }

    /// The plan it was loaded by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device the kernel is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Clusters that run at the same time; without clusters, CTAs: one or several for each multiprocessor.
    pub fn clusters(&self) -> u32 {
        self.clusters
    }

    /// Frees the work plans of all patterns met so far, after everything on the device is done. They are kept until
    /// then, some kilobytes each: an application with a stream of new patterns calls this between them. A captured
    /// graph that holds a launch of this kernel must not be launched again afterwards.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn forget(&self) -> Result<(), KernelError> {
        self.device.synchronize()?;
        self.kept().clear();
        Ok(())
    }

    /// Makes the work plan for a pattern and `n` columns ahead of the first launch.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn prepare<A: Element + Plain>(&self, a: &DeviceBsr<A>, n: usize) -> Result<(), KernelError> {
        fit::block(&self.plan, a.structure())?;
        fit::sizes(&self.plan, a.structure(), n)?;
        self.work(&a.untyped(), n).map(drop)
    }

    /// Enqueues C = A * B on `stream`; see [`super::Loaded::launch`].
    ///
    /// # Errors
    /// Shapes, blocks or layouts that do not fit the kernel, a kernel that scales, sizes beyond 32-bit coordinates, C
    /// overlapping an operand, or the driver's refusal. Nothing is launched in these cases.
    pub fn launch<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        c: &mut DeviceDense<C>,
    ) -> Result<(), KernelError> {
        let (a, b, c) = (a.untyped(), b.untyped(), c.untyped());
        let inputs = &DeviceInputs::new();
        self.enqueue(stream, &Operands { a, b, c, scales: UntypedScales::NONE, inputs })
    }

    /// Enqueues C = A * B, scaled, on `stream`; see [`super::Loaded::launch_scaled`].
    ///
    /// # Errors
    /// As [`Launcher::launch`]; scales of another kind than the kernel's, or not as many as the problem has places.
    pub fn launch_scaled<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        scales: &DeviceScales,
        c: &mut DeviceDense<C>,
    ) -> Result<(), KernelError> {
        let (a, b, c) = (a.untyped(), b.untyped(), c.untyped());
        let inputs = &DeviceInputs::new();
        self.enqueue(stream, &Operands { a, b, c, scales: scales.untyped(), inputs })
    }

    /// Enqueues the product, scaled where there are scales, with the kernel's epilogue on `stream`; see
    /// [`super::Loaded::launch_fused`].
    ///
    /// # Errors
    /// As [`Launcher::launch_scaled`]; [`KernelError::Epilogue`] for inputs that the epilogue does not take, and an
    /// overlap of C or of the second result with one of them.
    pub fn launch_fused<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        scales: Option<&DeviceScales>,
        inputs: &DeviceInputs<'_>,
        c: &mut DeviceDense<C>,
    ) -> Result<(), KernelError> {
        let (a, b, c) = (a.untyped(), b.untyped(), c.untyped());
        let scales = scales.map_or(UntypedScales::NONE, DeviceScales::untyped);
        self.enqueue(stream, &Operands { a, b, c, scales, inputs })
    }

    fn enqueue(&self, stream: StreamRef<'_>, operands: &Operands<'_>) -> Result<(), KernelError> {
        let Operands { a, b, c, .. } = operands;
        self.check(operands)?;
        self.start_second(stream, operands)?;
        if c.rows == 0 || c.cols == 0 {
            return Ok(());
        }
        let work = self.work(a, b.cols)?;
        if self.plan.walk() == Walk::Blocks {
            // SAFETY: C is what the caller borrowed mutably for this launch.
            unsafe { c.zero_on(&self.device, stream)? };
            if a.structure.nnzb() == 0 {
                return Ok(());
            }
        }
        let problem = Problem {
            m: a.structure.rows() as u64,
            n: b.cols as u64,
            k: a.structure.cols() as u64,
            nnzb: a.structure.nnzb() as u64,
            ldb: b.ld as u64,
            ldc: c.ld as u64,
            ldt: self.tile(operands).map_or(c.ld, |tile| tile.ld) as u64,
        };
        let shape = self.plan.launch(&problem, work.grid);
        let values = self.values(&shape, operands, &work)?;
        // SAFETY: the kernel is the plan's, whose parameters these are; the maps and pointers are of the matrices,
        // which the checks above have found to be of the problem's shape; the work plan was made for this
        // pattern (by fingerprint) and this number of columns.
        unsafe { gpu::launch(&self.function, &shape, &values, stream)? };
        Ok(())
    }

    fn values(&self, shape: &LaunchShape, operands: &Operands<'_>, work: &Work) -> Result<Values, KernelError> {
        let Operands { a, b, c, scales, inputs } = operands;
        let parameters = program_of(&self.plan).map_or(&[][..], Program::inputs);
        let given = |at: usize| parameters.get(at).and_then(|input| inputs.get(&input.name));
        let address = |operand: Operand| -> DevicePtr {
            match operand {
                // Without stored blocks nothing is read: any valid address serves as A and B.
                Operand::A | Operand::B if a.structure.nnzb() == 0 => c.ptr,
                Operand::A => a.values.0,
                Operand::B => b.ptr,
                Operand::C => c.ptr,
                Operand::ScaleA => scales.a.ptr,
                Operand::ScaleB => scales.b.ptr,
                Operand::Epilogue(at) => match given(at) {
                    Some(DeviceInput::Vector(vector)) => vector.ptr,
                    Some(DeviceInput::Matrix(matrix)) => matrix.ptr,
                    Some(DeviceInput::Result | DeviceInput::Scalar(_)) | None => c.ptr,
                },
                Operand::Second => inputs.second.map_or(c.ptr, |second| second.ptr),
            }
        };
        let mut values = Values::new();
        for parameter in &shape.parameters {
            values.push(match &parameter.argument {
                Argument::Map(map) => Value::Map(self.maps.get(address(map.operand), map)?),
                Argument::Pointer(operand) => Value::Pointer(address(*operand)),
                Argument::ColIdx => Value::Pointer(a.col_idx),
                Argument::WorkHead => Value::Pointer(work.heads.ptr()),
                Argument::Work => Value::Pointer(work.items.ptr()),
                Argument::Number(number) => Value::Number(*number),
                Argument::Scalar(at) => match given(*at) {
                    Some(DeviceInput::Scalar(value)) => Value::Float(value),
                    _ => Value::Float(f32::NAN),
                },
            });
        }
        Ok(values)
    }

    /// The matrix that the epilogue reads a full operand from.
    fn tile(&self, operands: &Operands<'_>) -> Option<UntypedDense> {
        let program = program_of(&self.plan)?;
        let (at, _) = program.tile()?;
        match operands.inputs.get(&program.inputs()[at].name)? {
            DeviceInput::Matrix(matrix) => Some(matrix),
            _ => None,
        }
    }

    /// Sets the second result to what its collecting begins with.
    fn start_second(&self, stream: StreamRef<'_>, operands: &Operands<'_>) -> Result<(), KernelError> {
        let reduction = program_of(&self.plan).and_then(Program::reduction);
        if let (Some(reduction), Some(second)) = (reduction, operands.inputs.second) {
            // SAFETY: the caller borrowed the vector mutably for this launch.
            unsafe { second.fill_on(&self.device, reduction.start(), stream)? };
        }
        Ok(())
    }

    /// Inputs must be what the epilogue asks for, and none may lie where results are written, but for a full operand
    /// that is C itself: a tile of it is read before the same tile is written.
    fn check_inputs(&self, operands: &Operands<'_>) -> Result<(), KernelError> {
        let Operands { a, b, c, inputs, .. } = operands;
        let second = inputs.second;
        let given = |name: &str| inputs.given(name);
        super::inputs::check(&self.plan, (c.rows, c.cols), given, inputs.names(), second.map(|second| second.len))?;
        let results = [Some(("C", c.range())), second.map(|second| ("the second result", second.range()))];
        for input in program_of(&self.plan).map_or(&[][..], Program::inputs) {
            let range = match inputs.get(&input.name) {
                Some(DeviceInput::Vector(vector)) => vector.range(),
                Some(DeviceInput::Matrix(matrix)) => matrix.range(),
                _ => continue,
            };
            for (name, result) in results.into_iter().flatten() {
                let is_c = matches!(inputs.get(&input.name), Some(DeviceInput::Matrix(matrix))
                    if name == "C" && (matrix.ptr, matrix.ld) == (c.ptr, c.ld));
                if !is_c {
                    check_overlap_of(name, &input.name, result, range)?;
                }
            }
        }
        if let Some(second) = second {
            for (name, range) in [("C", c.range()), ("B", b.range()), ("A", a.values)] {
                check_overlap_of("the second result", name, second.range(), range)?;
            }
        }
        Ok(())
    }

    /// The work plan for a pattern and `n` columns, made now or before. The lock is not held while one is made:
    /// launches of patterns that are known do not wait.
    fn work(&self, a: &UntypedBsr<'_>, n: usize) -> Result<Arc<Work>, KernelError> {
        let key = (a.fingerprint, n);
        if let Some(work) = self.kept().get(&key) {
            return Ok(Arc::clone(work));
        }
        let lists = WorkLists::new(&self.plan, a.structure, n, self.clusters);
        let made = Arc::new(Work {
            grid: lists.grid,
            heads: DeviceBuffer::from_slice(&self.device, &lists.heads)?,
            items: DeviceBuffer::from_slice(&self.device, &lists.items)?,
        });
        // Another thread may have been faster, and its launch in flight reads the plan that it made.
        Ok(Arc::clone(self.kept().entry(key).or_insert(made)))
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<(Fingerprint, usize), Arc<Work>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operands: &Operands<'_>) -> Result<(), KernelError> {
        let Operands { a, b, c, scales, .. } = operands;
        let shape = |dense: &UntypedDense| {
            let UntypedDense { dtype, layout, rows, cols, .. } = *dense;
            fit::Operand { dtype, layout, rows, cols }
        };
        fit::operands(&self.plan, (a.dtype, a.structure), &shape(b), &shape(c))?;
        fit::scales(&self.plan, a.structure, b.cols, scales.kind, [scales.a.len, scales.b.len])?;
        if self.plan.stores_by_tma() {
            check_window(c)?;
        }
        let c_range = c.range();
        check_overlap("B", c_range, b.range())?;
        check_overlap("A", c_range, a.values)?;
        check_overlap("the scales of A", c_range, scales.a.range())?;
        check_overlap("the scales of B", c_range, scales.b.range())?;
        self.check_inputs(operands)
    }
}

/// TMA writes whole 16-byte pieces: the end of a line that is no multiple of them must be C's own padding.
fn check_window(c: &UntypedDense) -> Result<(), KernelError> {
    let (line, bytes) = (c.line(), c.dtype.bytes() as usize);
    let padded = line.max(1).next_multiple_of(16 / bytes);
    if c.foreign && line != padded && c.ld != padded {
        return Err(KernelError::Window { line, bytes, ld: c.ld, padded });
    }
    Ok(())
}

fn check_overlap(operand: &'static str, c: (u64, u64), other: (u64, u64)) -> Result<(), KernelError> {
    check_overlap_of("C", operand, c, other)
}

/// No result may lie where something is read while it is written.
fn check_overlap_of(
    result: &'static str,
    operand: &'static str,
    c: (u64, u64),
    other: (u64, u64),
) -> Result<(), KernelError> {
    if c.0 < other.1 && other.0 < c.1 {
        return Err(KernelError::Overlap { result, operand, c: c.0, c_end: c.1, other: other.0, other_end: other.1 });
    }
    Ok(())
}
