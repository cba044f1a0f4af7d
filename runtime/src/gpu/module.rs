//! Loading PTX or a cubin, and the functions inside.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUjit_option, CUmodule, CUresult};

use super::cubin;
use super::device::Device;
use super::error::{GpuError, Words, check, driver_error, named};
use super::jit_log;
use super::launch::{self, LaunchDims};
use super::symbol::symbol;

/// Bytes kept of each of the JIT's two logs.
const LOG_BYTES: usize = 64 << 10;

/// How the driver compiles PTX, where it is not to its own taste.
///
/// Kernels of this crate take both from their specs: [`maxnreg`](bsr_codegen::KernelSpec::maxnreg) is a line of their PTX,
/// since what a kernel says of its threads overrides `max_registers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The most registers of a thread, of entries that say nothing of it themselves, 16 to 255.
    pub max_registers: Option<u32>,
    /// The level of optimization, 0 to 4: 4 is the driver's own.
    pub optimization_level: Option<u32>,
}

impl LoadOptions {
    /// At most so many registers a thread.
    #[must_use]
    pub const fn max_registers(self, registers: u32) -> Self {
        Self { max_registers: Some(registers), ..self }
    }

    /// At this level of optimization.
    #[must_use]
    pub const fn optimization_level(self, level: u32) -> Self {
        Self { optimization_level: Some(level), ..self }
    }

    /// What a spec says of it.
    pub fn of(spec: &bsr_codegen::KernelSpec) -> Self {
        Self { optimization_level: spec.opt_level, ..Self::default() }
    }

    /// The options in the driver's words.
    fn checked(self) -> Result<Vec<(CUjit_option, u32)>, GpuError> {
        let option = |what, option, value: Option<u32>, (least, most)| match value {
            Some(value) if !(least..=most).contains(&value) => Err(GpuError::LoadOption { what, value, least, most }),
            value => Ok(value.map(|value| (option, value))),
        };
        let registers = option("max_registers", CUjit_option::CU_JIT_MAX_REGISTERS, self.max_registers, (16, 255))?;
        let level =
            option("optimization_level", CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, self.optimization_level, (0, 4))?;
        Ok(registers.into_iter().chain(level).collect())
    }
}

/// Code on a device. A clone is another handle on it; it is unloaded with the last handle and the last
/// [`Function`] of it.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<LoadedModule>,
}

#[derive(Debug)]
struct LoadedModule {
    raw: CUmodule,
    device: Device,
    log: String,
}

// SAFETY: a CUmodule may be used from any thread that has its context current; every method binds it.
unsafe impl Send for LoadedModule {}
// SAFETY: as above; the handle is never changed.
unsafe impl Sync for LoadedModule {}

impl Module {
    /// Compiles PTX for the device and loads it.
    ///
    /// # Errors
    /// [`GpuError::WrongTarget`] if the `.target` of the text does not run here; [`GpuError::Jit`] with the
    /// compiler's log, and the PTX lines it names, if the driver refuses the text.
    pub fn load(device: &Device, ptx: &str) -> Result<Self, GpuError> {
        Self::load_with(device, ptx, LoadOptions::default())
    }

    /// The same with options of the compiler.
    ///
    /// # Errors
    /// As [`Module::load`]; [`GpuError::LoadOption`] for a value out of its range.
    pub fn load_with(device: &Device, ptx: &str, options: LoadOptions) -> Result<Self, GpuError> {
        let options = options.checked()?;
        if let Some(target) = target(ptx) {
            device.check_target(target)?;
        }
        let text =
            CString::new(ptx).map_err(|nul| GpuError::NulByte { what: "the PTX text", offset: nul.nul_position() })?;
        // SAFETY: the text is terminated by a NUL and outlives the call.
        unsafe { Self::load_image(device, text.as_ptr().cast(), ptx, &options) }
    }

    /// Loads a cubin, what `ptxas` writes. Nothing is compiled, so there is no log.
    ///
    /// # Errors
    /// [`GpuError::NotACubin`] if the bytes are not a whole one; [`GpuError::Jit`] if the driver refuses it,
    /// for instance because it was assembled for another architecture.
    pub fn load_cubin(device: &Device, image: &[u8]) -> Result<Self, GpuError> {
        let aligned = cubin::checked_copy(image)?;
        // SAFETY: everything the headers name lies inside of the image, which outlives the call.
        unsafe { Self::load_image(device, aligned.as_ptr().cast(), "", &[]) }
    }

    /// # Safety
    /// `image` must point to NUL-terminated PTX or to a whole cubin.
    unsafe fn load_image(
        device: &Device,
        image: *const c_void,
        ptx: &str,
        further: &[(CUjit_option, u32)],
    ) -> Result<Self, GpuError> {
        device.bind()?;
        let mut info = vec![0_u8; LOG_BYTES];
        let mut errors = vec![0_u8; LOG_BYTES];
        let mut options = vec![
            CUjit_option::CU_JIT_INFO_LOG_BUFFER,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_LOG_VERBOSE,
        ];
        // The driver takes numbers in the place of pointers, and writes the lengths it used back into them.
        let number = |value: usize| std::ptr::without_provenance_mut::<c_void>(value);
        let mut values =
            vec![info.as_mut_ptr().cast(), number(LOG_BYTES), errors.as_mut_ptr().cast(), number(LOG_BYTES), number(1)];
        for (option, value) in further {
            options.push(*option);
            values.push(number(*value as usize));
        }
        let mut raw = std::ptr::null_mut();
        // SAFETY: as many options as values, whose buffers outlive the call; the caller vouches for `image`.
        let status = unsafe {
            sys::cuModuleLoadDataEx(&mut raw, image, options.len() as u32, options.as_mut_ptr(), values.as_mut_ptr())
        };
        match status {
            CUresult::CUDA_SUCCESS => {
                let inner = LoadedModule { raw, device: device.clone(), log: text_of(&info) };
                Ok(Self { inner: Arc::new(inner) })
            }
            CUresult::CUDA_ERROR_OUT_OF_MEMORY | CUresult::CUDA_ERROR_STUB_LIBRARY => {
                Err(driver_error("cuModuleLoadDataEx", status))
            }
            CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => Err(GpuError::PtxVersion {
                version: directive(ptx, ".version").unwrap_or("of this module").to_owned(),
                cuda: device.info().cuda_version,
            }),
            _ => Err(GpuError::Jit { driver: Words(status).to_string(), log: jit_log::quoted(&text_of(&errors), ptx) }),
        }
    }

    /// What the JIT reported: registers, spills, warnings. Empty for a cubin, and where the driver took the
    /// code from its cache.
    pub fn log(&self) -> &str {
        &self.inner.log
    }

    /// The lines of [`Module::log`] that a clean kernel does not have: spills, serialized WGMMA, ignored
    /// register splits.
    pub fn warnings(&self) -> Vec<&str> {
        jit_log::warnings(self.log())
    }

    /// The device it was loaded on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The function of an entry.
    ///
    /// # Errors
    /// [`GpuError::NoSuchEntry`].
    pub fn function(&self, entry: &str) -> Result<Function, GpuError> {
        let name = CString::new(entry)
            .map_err(|nul| GpuError::NulByte { what: "the entry name", offset: nul.nul_position() })?;
        self.inner.device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is alive, the name is terminated, `raw` is a place for one handle.
        match unsafe { sys::cuModuleGetFunction(&mut raw, self.inner.raw, name.as_ptr()) } {
            CUresult::CUDA_SUCCESS => Ok(Function { raw, module: Arc::clone(&self.inner), entry: entry.into() }),
            CUresult::CUDA_ERROR_NOT_FOUND => Err(GpuError::NoSuchEntry { entry: entry.to_owned() }),
            status => Err(driver_error("cuModuleGetFunction", status)),
        }
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: loaded once, unloaded once, after the last function of it is gone.
            let _ = unsafe { result::module::unload(self.raw) };
        }
    }
}

/// One kernel of a [`Module`], which it keeps loaded.
#[derive(Clone, Debug)]
pub struct Function {
    raw: CUfunction,
    module: Arc<LoadedModule>,
    entry: Arc<str>,
}

// SAFETY: a CUfunction may be used from any thread that has its context current; every use binds it.
unsafe impl Send for Function {}
// SAFETY: as above; the driver serializes changes of its attributes.
unsafe impl Sync for Function {}

/// What the compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionAttributes {
    /// Registers a thread at entry, before any `setmaxnreg`.
    pub registers: u32,
    /// Bytes of local memory a thread; spills are here.
    pub local_bytes: u32,
    /// Bytes of static shared memory a block.
    pub static_shared_bytes: u32,
    /// Bytes of dynamic shared memory a block may be launched with, as set so far.
    pub max_dynamic_shared_bytes: u32,
    /// Threads a block may have.
    pub max_threads: u32,
    /// Architecture of the machine code, for instance 90.
    pub binary_version: u32,
}

impl Function {
    /// The entry's name.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.module.device
    }

    /// Registers, local memory, shared memory.
    pub fn attributes(&self) -> Result<FunctionAttributes, GpuError> {
        Ok(FunctionAttributes {
            registers: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared_bytes: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_dynamic_shared_bytes: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
            max_threads: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            binary_version: self.attribute(Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        })
    }

    /// Allows the function what a launch of these dimensions needs, its dynamic shared memory and clusters of
    /// more than 8 blocks, and has the driver load the code, which it otherwise puts off to the first launch.
    /// To be called once before the first launch of that shape; launching does not.
    ///
    /// # Errors
    /// [`GpuError::SharedMemory`] if a block cannot have that much.
    pub fn prepare(&self, dims: impl Into<LaunchDims>) -> Result<(), GpuError> {
        let dims = dims.into();
        let info = self.device().info();
        let fixed = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let limit = info.shared_bytes_per_block;
        if u64::from(dims.shared_bytes) + u64::from(fixed) > u64::from(limit) {
            return Err(GpuError::SharedMemory {
                entry: self.entry.to_string(),
                dynamic: dims.shared_bytes,
                fixed,
                device: info.name.clone(),
                limit,
            });
        }
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        if dims.shared_bytes > self.attribute(most)? {
            self.set_attribute(most, dims.shared_bytes)?;
        }
        if dims.cluster > 8 {
            self.set_attribute(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
        }
        if self.device().driver_at_least((12, 4)) {
            // SAFETY: the module is loaded by the driver; the signature is that of the CUDA 12.4 headers.
            if let Some(load) = unsafe { symbol::<unsafe extern "C" fn(CUfunction) -> CUresult>(c"cuFuncLoad", 12_040) }
            {
                // SAFETY: the function is alive as long as its module, which `self` holds.
                check("cuFuncLoad", unsafe { load(self.raw) })?;
            }
        }
        Ok(())
    }

    /// How many clusters of this shape run at the same time on the whole device: the grid of a persistent
    /// kernel. `dims.grid` does not matter. Prepares the function for the shape.
    ///
    /// Clusters of 2 or more do not fill the device evenly (66 of 2, but 30 of 4 on 132 SMs with one block
    /// an SM), which is why this is asked and not computed.
    ///
    /// # Errors
    /// [`GpuError::SharedMemory`] as [`Function::prepare`].
    pub fn max_active_clusters(&self, dims: impl Into<LaunchDims>) -> Result<u32, GpuError> {
        let dims: LaunchDims = dims.into();
        let dims = LaunchDims { grid: [dims.cluster, 1], ..dims };
        launch::validate(dims)?;
        self.prepare(dims)?;
        self.device().bind()?;
        let mut count = 0;
        if dims.cluster == 1 {
            let shared = dims.shared_bytes as usize;
            // SAFETY: the function is alive, `count` is a place for one int.
            check("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
                sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut count, self.raw, dims.block as i32, shared)
            })?;
            return Ok(u32::try_from(count).unwrap_or(0) * self.device().sm_count());
        }
        let mut attributes = launch::attributes(LaunchDims { is_dependent: false, ..dims });
        let config = launch::config(dims, std::ptr::null_mut(), &mut attributes);
        // SAFETY: the function is alive, `config` and the attributes it points to outlive the call.
        check("cuOccupancyMaxActiveClusters", unsafe {
            sys::cuOccupancyMaxActiveClusters(&mut count, self.raw, &config)
        })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    pub(crate) fn raw(&self) -> CUfunction {
        self.raw
    }

    fn attribute(&self, which: Attribute) -> Result<u32, GpuError> {
        self.device().bind()?;
        // SAFETY: the function is alive as long as its module, which `self` holds.
        let value = unsafe { result::function::get_function_attribute(self.raw, which) };
        Ok(u32::try_from(value.map_err(named("cuFuncGetAttribute"))?).unwrap_or(0))
    }

    fn set_attribute(&self, which: Attribute, value: u32) -> Result<(), GpuError> {
        self.device().bind()?;
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        // SAFETY: the function is alive as long as its module, which `self` holds.
        unsafe { result::function::set_function_attribute(self.raw, which, value) }.map_err(named("cuFuncSetAttribute"))
    }
}

/// The text before the first NUL of a log buffer.
fn text_of(buffer: &[u8]) -> String {
    let text = buffer.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The architecture of the `.target` directive.
fn target(ptx: &str) -> Option<&str> {
    directive(ptx, ".target")?.split(',').map(str::trim).find(|word| word.starts_with("sm_"))
}

/// What follows a directive on its line.
fn directive<'p>(ptx: &'p str, name: &str) -> Option<&'p str> {
    let line = ptx.lines().map(str::trim).find_map(|line| line.strip_prefix(name))?;
    line.split("//").next().map(str::trim)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_target_is_read_from_its_directive() {
        assert_eq!(target("// x\n.version 8.0\n.target sm_90a // Hopper\n"), Some("sm_90a"));
        assert_eq!(target(".target sm_90, texmode_independent\n"), Some("sm_90"));
        assert_eq!(target("// .target is missing\n"), None);
        assert_eq!(directive("// x\n.version 8.4 // FP8\n", ".version"), Some("8.4"));
    }

    #[test]
    fn options_out_of_range_are_refused_with_the_range() {
        let given = LoadOptions::default().max_registers(64).optimization_level(1);
        let words = [(CUjit_option::CU_JIT_MAX_REGISTERS, 64), (CUjit_option::CU_JIT_OPTIMIZATION_LEVEL, 1)];
        assert_eq!(given.checked().unwrap(), words);
        assert!(LoadOptions::default().checked().unwrap().is_empty());
        let error = |options: LoadOptions| options.checked().unwrap_err().to_string();
        assert!(error(given.max_registers(256)).contains("`max_registers` of 256 is out of range: 16 to 255"));
        assert!(error(given.optimization_level(5)).contains("`optimization_level` of 5 is out of range: 0 to 4"));
        let spec: bsr_codegen::KernelSpec = "bm = 64, bn = 64, bk = 64, opt_level = 2".parse().unwrap();
        assert_eq!(LoadOptions::of(&spec), LoadOptions::default().optimization_level(2));
    }

    #[test]
    fn a_log_ends_at_its_first_nul() {
        assert_eq!(text_of(b"ptxas info\0\0\0junk"), "ptxas info");
        assert_eq!(text_of(b"\0"), "");
    }
}
