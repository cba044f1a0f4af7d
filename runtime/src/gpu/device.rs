//! Opening a GPU and what is known about it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use bsr_codegen::target_runs_on;
use cudarc::driver::CudaContext;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUstream};
use serde::{Deserialize, Serialize};

use super::error::{GpuError, LOWEST_DRIVER, check, named};
use super::library;

/// One GPU, held through its primary context, which it shares with every other user of that context in
/// the process (the CUDA runtime, cuBLAS, PyTorch ...).
///
/// A clone is another handle on the same context. It may be used from any thread.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<CudaContext>,
    /// The stream of this crate's own blocking copies; never ordered with a caller's stream.
    copies: CUstream,
    info: DeviceInfo,
    /// Multiprocessors that launches leave free.
    free: AtomicU32,
}

// SAFETY: a CUstream may be used from any thread that has its context current; `Device::bind` sees to that.
unsafe impl Send for Inner {}
// SAFETY: as above; the driver serializes concurrent calls on one stream.
unsafe impl Sync for Inner {}

/// Facts about a GPU and its driver, read once when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The number it was opened by.
    pub ordinal: usize,
    /// For instance `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Bytes of L2 cache.
    pub l2_bytes: u64,
    /// Bytes of shared memory a block can opt in to.
    pub shared_bytes_per_block: u32,
    /// Bytes of device memory.
    pub total_memory: u64,
    /// The CUDA version the driver speaks, major and minor.
    pub cuda_version: (u32, u32),
    /// The version of the kernel module, for instance `580.159.03`; `None` where the system does not tell.
    pub driver_version: Option<String>,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, as `nvidia-smi -L` prints it.
    pub uuid: String,
    /// `domain:bus:device.function`.
    pub pci_bus_id: String,
}

impl DeviceInfo {
    /// The driver in a few words, for records: `580.159.03 (CUDA 13.0)`.
    pub fn driver(&self) -> String {
        let (major, minor) = self.cuda_version;
        match &self.driver_version {
            Some(version) => format!("{version} (CUDA {major}.{minor})"),
            None => format!("CUDA {major}.{minor}"),
        }
    }
}

impl Device {
    /// Opens the GPU numbered `ordinal`, from 0, and makes its primary context current on this thread.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`], [`GpuError::DriverTooOld`], [`GpuError::NoDevice`] or
    /// [`GpuError::NoSuchDevice`] where there is nothing to open ([`GpuError::is_no_device`] is true for
    /// these), [`GpuError::Driver`] where opening fails.
    pub fn open(ordinal: usize) -> Result<Self, GpuError> {
        let (count, version) = probe()?;
        if ordinal >= count {
            return Err(GpuError::NoSuchDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(named("cuDevicePrimaryCtxRetain"))?;
        let info = read_info(&context, ordinal, version)?;
        let copies =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(named("cuStreamCreate"))?;
        Ok(Self { inner: Arc::new(Inner { context, copies, info, free: AtomicU32::new(0) }) })
    }

    /// Opens the first GPU that runs code for `target`, for instance `sm_90a`: a [plan's](bsr_codegen::Plan::arch), or that
    /// of a kernel's PTX.
    ///
    /// # Errors
    /// As [`Device::open`]; [`GpuError::WrongTarget`] for the first GPU where none runs such code. For all of them
    /// [`GpuError::is_no_device`] is true, unless opening fails.
    pub fn open_for(target: &str) -> Result<Self, GpuError> {
        let (count, _) = probe()?;
        let runs = |ordinal: &usize| capability(*ordinal).is_ok_and(|found| runs_on(target, found));
        let device = Self::open((0..count).find(runs).unwrap_or(0))?;
        device.check_target(target).map(|()| device)
    }

    /// Whether both are handles on one context.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.inner.context.cu_ctx() == other.inner.context.cu_ctx()
    }

    /// Whether at least one GPU can be opened. Never panics and opens nothing.
    pub fn is_available() -> bool {
        probe().is_ok()
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// As [`Device::open`]; `Ok` is never 0.
    pub fn count() -> Result<usize, GpuError> {
        probe().map(|(count, _)| count)
    }

    /// What is known about the GPU.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Streaming multiprocessors.
    pub fn sm_count(&self) -> u32 {
        self.inner.info.sm_count
    }

    /// Has launches through this handle and its clones leave so many multiprocessors free from now on: for kernels of other
    /// streams that run at the same time, such as those of NCCL. Persistent kernels take every multiprocessor otherwise, and
    /// their last CTAs wait for what runs there.
    pub fn leave_free(&self, multiprocessors: u32) {
        self.inner.free.store(multiprocessors, Ordering::Relaxed);
    }

    /// How many multiprocessors launches leave free.
    pub fn left_free(&self) -> u32 {
        self.inner.free.load(Ordering::Relaxed)
    }

    /// The cudarc context, for code that uses cudarc beside this crate.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    /// Makes the context current on the calling thread. Every function of this module that takes a device
    /// or something made from one does so itself.
    #[inline]
    pub fn bind(&self) -> Result<(), GpuError> {
        self.inner.context.bind_to_thread().map_err(named("cuCtxSetCurrent"))
    }

    /// Waits for everything enqueued on every stream of the context.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch, if one failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.bind()?;
        result::ctx::synchronize().map_err(named("cuCtxSynchronize"))
    }

    /// Bytes of device memory, (free, total).
    pub fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.bind()?;
        result::mem_get_info().map_err(named("cuMemGetInfo"))
    }

    /// Checks that code for `target` (`sm_90a`, `sm_90`, `sm_100f` ...) runs here: a plain target on any
    /// device of at least that capability, `a` on exactly that capability, `f` on later ones of its major.
    /// A target not of that form passes; the driver decides.
    ///
    /// # Errors
    /// [`GpuError::WrongTarget`].
    pub fn check_target(&self, target: &str) -> Result<(), GpuError> {
        let info = self.info();
        if runs_on(target, info.compute_capability) {
            return Ok(());
        }
        Err(GpuError::WrongTarget {
            target: target.to_owned(),
            device: info.name.clone(),
            capability: info.compute_capability,
        })
    }

    pub(crate) fn copies(&self) -> CUstream {
        self.inner.copies
    }

    /// Waits for what this crate itself enqueued on the stream of its copies.
    pub(crate) fn finish_copies(&self) -> Result<(), GpuError> {
        self.bind()?;
        // SAFETY: the stream lives as long as the device.
        unsafe { result::stream::synchronize(self.inner.copies) }.map_err(named("cuStreamSynchronize"))
    }

    pub(crate) fn driver_at_least(&self, version: (u32, u32)) -> bool {
        self.info().cuda_version >= version
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.inner.context == other.inner.context
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.inner.info.ordinal).field(&self.inner.info.name).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the stream was created in `Device::open` and nothing else holds it.
            let _ = unsafe { result::stream::destroy(self.copies) };
        }
    }
}

/// Whether libcuda can be loaded. cudarc panics on the first call where it cannot.
fn driver_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(library::on_the_path!(cudarc::driver::sys))
}

/// Initializes the driver; the number of devices (not 0) and the driver's version.
fn probe() -> Result<(usize, u32), GpuError> {
    if !driver_present() {
        return Err(GpuError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: the library is present and `version` is a valid place for one int.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    let version = u32::try_from(version).unwrap_or(0);
    if version < LOWEST_DRIVER {
        return Err(GpuError::DriverTooOld { found: version });
    }
    result::init().map_err(named("cuInit"))?;
    let count = result::device::get_count().map_err(named("cuDeviceGetCount"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok((count, version)),
        _ => Err(GpuError::NoDevice),
    }
}

/// The compute capability of a GPU, which is not opened.
fn capability(ordinal: usize) -> Result<(u32, u32), GpuError> {
    let device = result::device::get(ordinal as i32).map_err(named("cuDeviceGet"))?;
    let attribute = |which| -> Result<u32, GpuError> {
        // SAFETY: the device was just named by the driver.
        let value = unsafe { result::device::get_attribute(device, which) }.map_err(named("cuDeviceGetAttribute"))?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    Ok((
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    ))
}

fn read_info(context: &CudaContext, ordinal: usize, version: u32) -> Result<DeviceInfo, GpuError> {
    let attribute = |which: Attribute| -> Result<u32, GpuError> {
        let value = context.attribute(which).map_err(named("cuDeviceGetAttribute"))?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    Ok(DeviceInfo {
        ordinal,
        name: context.name().map_err(named("cuDeviceGetName"))?,
        compute_capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sm_count: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        shared_bytes_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        total_memory: context.total_mem().map_err(named("cuDeviceTotalMem"))? as u64,
        cuda_version: (version / 1000, version % 1000 / 10),
        driver_version: driver_version(),
        uuid: uuid_text(context.uuid().map_err(named("cuDeviceGetUuid"))?.bytes),
        pci_bus_id: format!(
            "{:08x}:{:02x}:{:02x}.0",
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
        ),
    })
}

/// The version of the loaded kernel module, where Linux tells it.
fn driver_version() -> Option<String> {
    if let Ok(version) = std::fs::read_to_string("/sys/module/nvidia/version") {
        return Some(version.trim().to_owned());
    }
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    version_word(&text).map(str::to_owned)
}

/// The first word of the shape `580.159.03`.
fn version_word(text: &str) -> Option<&str> {
    text.split_whitespace().find(|word| {
        let mut parts = word.split('.');
        let numbers = parts.clone().count();
        (2..=3).contains(&numbers)
            && parts.next().is_some_and(|major| major.len() == 3)
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn uuid_text(bytes: [std::ffi::c_char; 16]) -> String {
    let mut text = String::from("GPU-");
    for (position, byte) in bytes.into_iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", byte as u8));
    }
    text
}

/// Whether code for a target runs on a capability, as far as its name says.
fn runs_on(target: &str, capability: (u32, u32)) -> bool {
    target_runs_on(target, capability).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_version_is_found_in_the_kernel_module_text() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\nGCC version: gcc version 12.2.0";
        assert_eq!(version_word(text), Some("580.159.03"));
        assert_eq!(version_word("gcc version 12.2.0"), None);
    }

    #[test]
    fn a_uuid_has_the_usual_groups() {
        let bytes = std::array::from_fn(|i| i as std::ffi::c_char);
        assert_eq!(uuid_text(bytes), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn opening_without_a_gpu_is_an_error_in_words_and_no_panic() {
        match Device::open(0) {
            Ok(device) => {
                assert!(Device::is_available());
                assert!(device.sm_count() > 0);
            }
            Err(error) => {
                assert!(!Device::is_available());
                assert!(error.is_no_device(), "{error}");
                assert!(error.to_string().contains("help:"), "{error}");
            }
        }
        assert!(Device::open(usize::MAX).is_err());
        assert!(Device::open_for("sm_9999").is_err_and(|nowhere| nowhere.is_no_device()));
    }
}
