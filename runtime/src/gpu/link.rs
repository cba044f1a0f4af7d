//! PTX to a cubin, by the driver's linker: as its loader compiles, but the result is kept.

use std::ffi::{CString, c_void};

use cudarc::driver::sys::{self, CUjit_option, CUjitInputType, CUlinkState, CUresult};

use super::device::Device;
use super::error::{GpuError, Words, check};
use super::jit_log;
use super::module::text_of;

/// Bytes kept of the error log.
const LOG_BYTES: usize = 16 << 10;

/// Compiles PTX for the architecture of the device.
pub(super) fn compile(device: &Device, ptx: &str) -> Result<Vec<u8>, GpuError> {
    let text =
        CString::new(ptx).map_err(|nul| GpuError::NulByte { what: "the PTX text", offset: nul.nul_position() })?;
    device.bind()?;
    let linker = Linker::new()?;
    linker.add(&text, ptx)?;
    linker.complete(ptx)
}

/// The driver's linker, which writes to its log as long as it lives.
struct Linker {
    raw: CUlinkState,
    errors: Box<[u8]>,
}

impl Linker {
    fn new() -> Result<Self, GpuError> {
        let mut errors = vec![0_u8; LOG_BYTES].into_boxed_slice();
        let mut options = [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values: [*mut c_void; 2] =
            [errors.as_mut_ptr().cast(), std::ptr::without_provenance_mut::<c_void>(LOG_BYTES)];
        let mut raw = std::ptr::null_mut();
        // SAFETY: two options and two values; the log's buffer lives as long as the linker.
        let status =
            unsafe { sys::cuLinkCreate_v2(options.len() as u32, options.as_mut_ptr(), values.as_mut_ptr(), &mut raw) };
        check("cuLinkCreate", status)?;
        Ok(Self { raw, errors })
    }

    fn add(&self, text: &CString, ptx: &str) -> Result<(), GpuError> {
        let bytes = text.as_bytes_with_nul();
        // SAFETY: the text is terminated by a NUL, its size counts it, and the driver copies it.
        let status = unsafe {
            sys::cuLinkAddData_v2(
                self.raw,
                CUjitInputType::CU_JIT_INPUT_PTX,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                c"kernel.ptx".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        self.judge("cuLinkAddData", status, ptx)
    }

    fn complete(&self, ptx: &str) -> Result<Vec<u8>, GpuError> {
        let (mut image, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: places for one pointer and one size.
        let status = unsafe { sys::cuLinkComplete(self.raw, &mut image, &mut size) };
        self.judge("cuLinkComplete", status, ptx)?;
        // SAFETY: the linker owns `size` bytes there until it is destroyed.
        Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size) }.to_vec())
    }

    fn judge(&self, call: &'static str, status: CUresult, ptx: &str) -> Result<(), GpuError> {
        match status {
            CUresult::CUDA_SUCCESS => Ok(()),
            CUresult::CUDA_ERROR_INVALID_PTX
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => Err(GpuError::Jit {
                driver: Words(status).to_string(),
                log: jit_log::quoted(&text_of(&self.errors), ptx),
            }),
            other => check(call, other),
        }
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cuLinkDestroy(self.raw) };
    }
}
