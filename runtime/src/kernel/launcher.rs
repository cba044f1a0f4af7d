//! The untyped launcher: what [`super::Loaded`] and the `bsr` command share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bsr_codegen::{LaunchShape, Plan, Problem};

use super::{KernelError, fit};
use crate::gpu::{
    self, Device, DeviceBsr, DeviceBuffer, DeviceDense, DevicePtr, Fingerprint, Function, LaunchDims, Module, Plain,
    StreamRef, TensorMapCache,
};
use crate::schedule::WorkPlan;
use crate::{Dense, Element, Layout};

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

/// A work plan on the device.
#[derive(Debug)]
struct Work {
    clusters: u32,
    heads: DeviceBuffer<u32>,
    items: DeviceBuffer<u32>,
}

impl Launcher {
    /// Loads `ptx`, the text of `plan`, on a device.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the driver's log if it refuses the PTX, or if the device is of another
    /// architecture than the plan's; [`KernelError::DoesNotFit`].
    pub fn load(device: &Device, plan: &Plan, ptx: &str, entry: &str) -> Result<Self, KernelError> {
        device.check_target(plan.arch().target)?;
        let function = Module::load(device, ptx)?.function(entry)?;
        let dims = LaunchDims {
            grid: plan.cluster(),
            block: plan.threads(),
            cluster: plan.cluster(),
            shared_bytes: plan.shared_bytes(),
        };
        let clusters = function.max_active_clusters(dims)?;
        if clusters == 0 {
            return Err(KernelError::DoesNotFit { cluster: plan.cluster(), shared_bytes: plan.shared_bytes() });
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

    /// The device the kernel is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Clusters that run at the same time.
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
        fit::sizes(a.structure(), n)?;
        self.work(a, n).map(drop)
    }

    /// Enqueues C = A * B on `stream`; see [`super::Loaded::launch`].
    ///
    /// # Errors
    /// Shapes, blocks or layouts that do not fit the kernel, sizes beyond 32-bit coordinates, C overlapping an
    /// operand, or the driver's refusal. Nothing is launched in these cases.
    pub fn launch<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        c: &mut DeviceDense<C>,
    ) -> Result<(), KernelError> {
        self.check(a, b, c)?;
        if c.rows() == 0 || c.cols() == 0 {
            return Ok(());
        }
        let work = self.work(a, b.cols())?;
        let problem = Problem {
            m: a.rows() as u64,
            n: b.cols() as u64,
            k: a.cols() as u64,
            nnzb: a.nnzb() as u64,
            ldb: b.ld() as u64,
            ldc: c.ld() as u64,
        };
        let shape = self.plan.launch(&problem, work.clusters);
        // Without stored blocks nothing is read: any valid address serves as A and B.
        let bases = if a.nnzb() == 0 { [c.ptr(); 3] } else { [a.values().ptr(), b.ptr(), c.ptr()] };
        let maps = self.maps(&shape, bases)?;
        let pointers = [a.col_idx().ptr(), work.heads.ptr(), work.items.ptr()];
        // SAFETY: the kernel is the plan's, whose six parameters these are; the maps describe the matrices,
        // which the checks above have found to be of the problem's shape; the work plan was made for this
        // pattern (by fingerprint) and this number of columns.
        unsafe { gpu::launch(&self.function, &shape, maps.each_ref(), pointers, stream)? };
        Ok(())
    }

    fn maps(&self, shape: &LaunchShape, bases: [DevicePtr; 3]) -> Result<[gpu::CUtensorMap; 3], KernelError> {
        let [a, b, c] = &shape.maps;
        Ok([self.maps.get(bases[0], a)?, self.maps.get(bases[1], b)?, self.maps.get(bases[2], c)?])
    }

    /// The work plan for a pattern and `n` columns, made now or before. The lock is not held while one is made:
    /// launches of patterns that are known do not wait.
    fn work<A: Element + Plain>(&self, a: &DeviceBsr<A>, n: usize) -> Result<Arc<Work>, KernelError> {
        let key = (a.fingerprint(), n);
        if let Some(work) = self.kept().get(&key) {
            return Ok(Arc::clone(work));
        }
        let plan = WorkPlan::new(&self.plan, a.structure(), n, self.clusters);
        let made = Arc::new(Work {
            clusters: plan.clusters(),
            heads: DeviceBuffer::from_slice(&self.device, &plan.heads(a.structure()))?,
            items: DeviceBuffer::from_slice(&self.device, &plan.words())?,
        });
        // Another thread may have been faster, and its launch in flight reads the plan that it made.
        Ok(Arc::clone(self.kept().entry(key).or_insert(made)))
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<(Fingerprint, usize), Arc<Work>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check<A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        c: &DeviceDense<C>,
    ) -> Result<(), KernelError> {
        let right = fit::Operand { dtype: B::DTYPE, layout: b.layout(), rows: b.rows(), cols: b.cols() };
        let product = fit::Operand { dtype: C::DTYPE, layout: c.layout(), rows: c.rows(), cols: c.cols() };
        fit::operands(&self.plan, (A::DTYPE, a.structure()), &right, &product)?;
        check_window(c)?;
        let c_range = range(c);
        check_overlap("B", c_range, range(b))?;
        let values = a.values();
        check_overlap("A", c_range, (values.ptr(), values.ptr() + values.bytes() as u64))
    }
}

/// TMA writes whole 16-byte pieces: the end of a line that is no multiple of them must be C's own padding.
fn check_window<T: Element + Plain>(c: &DeviceDense<T>) -> Result<(), KernelError> {
    let line = if c.layout() == Layout::RowMajor { c.cols() } else { c.rows() };
    let padded = Dense::<T>::padded_ld(line);
    if c.is_foreign() && line != padded && c.ld() != padded {
        return Err(KernelError::Window { line, bytes: size_of::<T>(), ld: c.ld(), padded });
    }
    Ok(())
}

/// First and last byte address (exclusive) of a dense matrix.
fn range<T: Element + Plain>(dense: &DeviceDense<T>) -> (u64, u64) {
    let lines = if dense.layout() == Layout::RowMajor { dense.rows() } else { dense.cols() };
    (dense.ptr(), dense.ptr() + (lines * dense.ld() * size_of::<T>()) as u64)
}

fn check_overlap(operand: &'static str, c: (u64, u64), other: (u64, u64)) -> Result<(), KernelError> {
    if c.0 < other.1 && other.0 < c.1 {
        return Err(KernelError::Overlap { operand, c: c.0, c_end: c.1, other: other.0, other_end: other.1 });
    }
    Ok(())
}
