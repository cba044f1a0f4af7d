//! A kernel on a GPU, of any operation.

use bsr_codegen::Plan;

use crate::error::KernelError;
use crate::gpu::{Device, DevicePtr, Function, GpuError, LaunchDims, Module, StreamRef, TensorMapCache};
use crate::machine::Gpu;
use crate::timeline::Rings;

/// A kernel that was loaded by its plan.
#[derive(Debug)]
pub(crate) struct OnGpu {
    pub(crate) plan: Plan,
    pub(crate) function: Function,
    pub(crate) device: Device,
    /// Clusters that run at the same time.
    pub(crate) clusters: u32,
    pub(crate) maps: TensorMapCache,
    /// Of a probed kernel.
    rings: Option<Rings>,
}

impl OnGpu {
    /// Loads `ptx`, the text of `plan`.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] and [`KernelError::DoesNotFit`].
    pub(crate) fn text(device: &Device, plan: &Plan, ptx: &str, entry: &str) -> Result<Self, KernelError> {
        Self::new(device, plan, entry, || Module::load(device, ptx))
    }

    /// Loads the machine code that ptxas made of the text of `plan`.
    ///
    /// # Errors
    /// As [`OnGpu::text`].
    pub(crate) fn cubin(device: &Device, plan: &Plan, cubin: &[u8], entry: &str) -> Result<Self, KernelError> {
        Self::new(device, plan, entry, || Module::load_cubin(device, cubin))
    }

    fn new(
        device: &Device,
        plan: &Plan,
        entry: &str,
        load: impl FnOnce() -> Result<Module, GpuError>,
    ) -> Result<Self, KernelError> {
        device.check_target(plan.arch().target)?;
        let function = load()?.function(entry)?;
        let (cluster, shared_bytes) = (plan.cluster(), plan.shared_bytes());
        let dims = LaunchDims { grid: [cluster, 1], block: plan.threads(), cluster, shared_bytes, is_dependent: false };
        let clusters = function.max_active_clusters(dims)?;
        if clusters == 0 {
            return Err(KernelError::DoesNotFit { cluster, shared_bytes });
        }
        let (maps, rings) = (TensorMapCache::new(device), Rings::new(device, plan)?);
        Ok(Self { plan: plan.clone(), function, device: device.clone(), clusters, maps, rings })
    }

    /// The GPU with this kernel and one stream.
    pub(crate) fn machine<'l>(&'l self, stream: StreamRef<'l>) -> Gpu<'l> {
        Gpu { device: &self.device, function: &self.function, maps: &self.maps, stream }
    }

    /// Where the rings of a probed kernel are.
    pub(crate) fn rings(&self) -> Option<DevicePtr> {
        self.rings.as_ref().map(Rings::ptr)
    }

    /// What the last launch of a probed kernel recorded, after everything on the device is done.
    ///
    /// # Errors
    /// The error of an earlier launch, if one failed.
    pub(crate) fn records(&self) -> Result<Option<Vec<u32>>, GpuError> {
        self.rings.as_ref().map(Rings::words).transpose()
    }
}
