//! Sums over several GPUs, by NCCL.
//!
//! ```no_run
//! use bsr_runtime::Layout;
//! use bsr_runtime::gpu::nccl::{Communicator, together};
//! use bsr_runtime::gpu::{Device, DeviceDense, Stream};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let devices = [Device::open(0)?, Device::open(1)?];
//! let streams = [Stream::new(&devices[0])?, Stream::new(&devices[1])?];
//! let ranks = Communicator::of_this_process(&devices)?;
//! let zeros = |device| DeviceDense::<f32>::zeros(device, 8, 8, Layout::RowMajor);
//! let mut parts = [zeros(&devices[0])?, zeros(&devices[1])?];
//! together(|| {
//!     ranks.iter().zip(&mut parts).zip(&streams).try_for_each(|((rank, part), stream)| rank.sum(part, stream.handle()))
//! })?;
//! # Ok(())
//! # }
//! ```

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{self, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId};
use half::{bf16, f16};

use super::{Device, DeviceDense, GpuError, Plain, StreamRef, library};

/// Why a sum over GPUs cannot be had.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// The library is not on this machine.
    #[error("libnccl.so.2 could not be loaded\n  help: install NCCL, and have its folder in LD_LIBRARY_PATH")]
    NoLibrary,
    /// No GPU, or a rank that there is not.
    #[error("rank {rank} of {ranks}\n  help: ranks count from 0")]
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// How many there are.
        ranks: usize,
    },
    /// A matrix of another GPU than the rank's.
    #[error("the matrix is on GPU {on}, and the rank on GPU {rank}\n  help: sum the part that lies on GPU {rank}")]
    OtherDevice {
        /// The number of the GPU that the matrix lies on.
        on: usize,
        /// That of the rank's GPU.
        rank: usize,
    },
    /// NCCL refused a call.
    #[error("{call} failed: {text}")]
    Call {
        /// The function.
        call: &'static str,
        /// What NCCL says of it.
        text: String,
    },
    /// The driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

bsr_codegen::message_as_debug!(NcclError);

/// An element type that NCCL adds.
pub trait Summed: Plain {
    #[doc(hidden)]
    const TYPE: ncclDataType_t;
}

impl Summed for f16 {
    const TYPE: ncclDataType_t = ncclDataType_t::ncclFloat16;
}

impl Summed for bf16 {
    const TYPE: ncclDataType_t = ncclDataType_t::ncclBfloat16;
}

impl Summed for f32 {
    const TYPE: ncclDataType_t = ncclDataType_t::ncclFloat32;
}

/// What the ranks of one group of several processes have in common: one of them makes it, and hands its bytes to the others.
#[derive(Clone, Copy)]
pub struct GroupId(ncclUniqueId);

impl GroupId {
    /// A new one.
    ///
    /// # Errors
    /// [`NcclError`].
    pub fn new() -> Result<Self, NcclError> {
        present()?;
        let mut id = ncclUniqueId { internal: [0; 128] };
        // SAFETY: the library is loaded, and `id` is a place for one.
        check("ncclGetUniqueId", unsafe { sys::ncclGetUniqueId(&mut id) })?;
        Ok(Self(id))
    }

    /// The bytes, for other processes.
    pub fn to_bytes(self) -> [u8; 128] {
        self.0.internal.map(|byte| byte as u8)
    }

    /// The one of these bytes.
    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(ncclUniqueId { internal: bytes.map(|byte| byte as _) })
    }
}

/// One rank of a group of GPUs. Left when dropped.
#[derive(Debug)]
pub struct Communicator {
    raw: ncclComm_t,
    device: Device,
    rank: usize,
    ranks: usize,
}

// SAFETY: a communicator may be used by one thread at a time, whichever it is; `&mut` is not needed since NCCL enqueues.
unsafe impl Send for Communicator {}

impl Communicator {
    /// A group of GPUs of this process: a communicator for each, in their order.
    ///
    /// # Errors
    /// [`NcclError`].
    pub fn of_this_process(devices: &[Device]) -> Result<Vec<Self>, NcclError> {
        present()?;
        let numbers: Vec<c_int> = devices.iter().map(|device| device.info().ordinal as c_int).collect();
        let mut raw: Vec<ncclComm_t> = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: as many places as there are devices, and the library is loaded.
        let status = unsafe { sys::ncclCommInitAll(raw.as_mut_ptr(), numbers.len() as c_int, numbers.as_ptr()) };
        check("ncclCommInitAll", status)?;
        let ranks = devices.len();
        let made = raw.into_iter().zip(devices).enumerate();
        Ok(made.map(|(rank, (raw, device))| Self { raw, device: device.clone(), rank, ranks }).collect())
    }

    /// Joins a group of several processes, which all call this.
    ///
    /// # Errors
    /// [`NcclError`].
    pub fn join(device: &Device, id: GroupId, rank: usize, ranks: usize) -> Result<Self, NcclError> {
        present()?;
        if rank >= ranks {
            return Err(NcclError::NoSuchRank { rank, ranks });
        }
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for one communicator; the context of this rank's device is current.
        let status = unsafe { sys::ncclCommInitRank(&mut raw, ranks as c_int, id.0, rank as c_int) };
        check("ncclCommInitRank", status)?;
        Ok(Self { raw, device: device.clone(), rank, ranks })
    }

    /// Whether the library can be loaded. Never panics.
    pub fn is_available() -> bool {
        static PRESENT: OnceLock<bool> = OnceLock::new();
        *PRESENT.get_or_init(|| library::is_present(library::on_the_path!(cudarc::nccl::sys), &["libnccl.so.2"]))
    }

    /// This rank's number.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks the group has.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// This rank's GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Enqueues the sum of a matrix over all ranks, in its place: every rank calls this with a matrix of one shape and layout.
    /// One thread that has several ranks calls it for all of them [`together`].
    ///
    /// # Errors
    /// [`NcclError::OtherDevice`], [`NcclError::Call`].
    pub fn sum<T: Summed>(&self, matrix: &mut DeviceDense<T>, stream: StreamRef<'_>) -> Result<(), NcclError> {
        let rank = self.device.info().ordinal;
        if let Some(on) = matrix.on().filter(|&on| on != rank) {
            return Err(NcclError::OtherDevice { on, rank });
        }
        let (ptr, count) = (matrix.ptr() as *mut c_void, matrix.extent());
        self.device.bind()?;
        // SAFETY: `count` elements lie at `ptr`, which is borrowed mutably; the stream is alive; padding may be added.
        check("ncclAllReduce", unsafe {
            sys::ncclAllReduce(ptr, ptr, count, T::TYPE, ncclRedOp_t::ncclSum, self.raw, stream.raw().cast())
        })
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: made in `of_this_process` or `join`, destroyed once.
            let _ = unsafe { sys::ncclCommDestroy(self.raw) };
        }
    }
}

/// Enqueues calls of several ranks as one, which a thread that has several must do: they wait for each other.
///
/// # Errors
/// Those of the calls; [`NcclError::Call`].
pub fn together<R>(calls: impl FnOnce() -> Result<R, NcclError>) -> Result<R, NcclError> {
    present()?;
    // SAFETY: the library is loaded.
    check("ncclGroupStart", unsafe { sys::ncclGroupStart() })?;
    let result = calls();
    // SAFETY: as above; ended whatever became of the calls.
    check("ncclGroupEnd", unsafe { sys::ncclGroupEnd() })?;
    result
}

fn present() -> Result<(), NcclError> {
    if Communicator::is_available() { Ok(()) } else { Err(NcclError::NoLibrary) }
}

fn check(call: &'static str, status: ncclResult_t) -> Result<(), NcclError> {
    if status == ncclResult_t::ncclSuccess {
        return Ok(());
    }
    // SAFETY: the library is loaded; the string is static.
    let text = unsafe { CStr::from_ptr(sys::ncclGetErrorString(status)) }.to_string_lossy().into_owned();
    Err(NcclError::Call { call, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_it_is_said_so() {
        if Communicator::is_available() {
            return;
        }
        assert!(matches!(GroupId::new(), Err(NcclError::NoLibrary)));
        assert!(matches!(together(|| Ok(())), Err(NcclError::NoLibrary)));
        let refused = Communicator::of_this_process(&[]);
        assert!(refused.is_err_and(|error| error.to_string().contains("LD_LIBRARY_PATH")));
    }
}
