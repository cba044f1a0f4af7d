//! The kernels that check patterns and list their work, loaded once for a device.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrayvec::ArrayVec;
use bsr_codegen::lists::{self, ListKernel};

use crate::gpu::buffer::DevicePtr;
use crate::gpu::device::Device;
use crate::gpu::error::GpuError;
use crate::gpu::launch::{LaunchDims, launch_params};
use crate::gpu::module::{Function, Module};
use crate::gpu::stream::StreamRef;

/// Addresses and numbers of the kernel that has most.
const MOST: usize = 60;

/// All kernels of the module.
#[derive(Debug)]
pub(crate) struct ListKernels {
    device: Device,
    functions: Vec<(ListKernel, Function)>,
}

impl ListKernels {
    /// Those of a device: loaded now, or by a pattern that still lives.
    ///
    /// # Errors
    /// [`GpuError::Jit`] if the driver refuses the PTX; [`GpuError::WrongTarget`] for a device before Hopper.
    pub(crate) fn of(device: &Device) -> Result<Arc<Self>, GpuError> {
        static LOADED: Mutex<Vec<Weak<ListKernels>>> = Mutex::new(vec![]);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|kernels| kernels.strong_count() > 0);
        if let Some(kernels) = loaded.iter().filter_map(Weak::upgrade).find(|kernels| kernels.device.is(device)) {
            return Ok(kernels);
        }
        let kernels = Arc::new(Self::load(device)?);
        loaded.push(Arc::downgrade(&kernels));
        Ok(kernels)
    }

    fn load(device: &Device) -> Result<Self, GpuError> {
        let module = Module::load(device, lists::ptx())?;
        let functions = ListKernel::ALL.map(|kernel| {
            let function = module.function(kernel.entry())?;
            function.prepare(dims(kernel, 1, device.info().shared_bytes_per_block))?;
            Ok::<_, GpuError>((kernel, function))
        });
        Ok(Self { device: device.clone(), functions: functions.into_iter().collect::<Result<_, _>>()? })
    }

    /// Enqueues a kernel on `pointers` and `numbers`, in the order of its parameters. Nothing is allocated.
    ///
    /// # Errors
    /// What a launch answers.
    ///
    /// # Safety
    /// The addresses must be those that the kernel asks for ([`ListKernel::pointers`]), of device memory as large as the
    /// numbers say, alive until the kernel is done, with nothing else writing it meanwhile.
    pub(crate) unsafe fn launch(
        &self,
        kernel: ListKernel,
        (grid, shared_bytes): (u32, u32),
        pointers: &[DevicePtr],
        numbers: &[u32],
        stream: StreamRef<'_>,
    ) -> Result<(), GpuError> {
        debug_assert_eq!((pointers.len(), numbers.len()), (kernel.pointers().len(), kernel.numbers().len()));
        let Some((_, function)) = self.functions.iter().find(|(one, _)| *one == kernel) else {
            return Err(GpuError::NoSuchEntry { entry: kernel.entry().to_owned() });
        };
        let pointers = pointers.iter().map(|pointer| std::ptr::from_ref(pointer).cast_mut().cast());
        let numbers = numbers.iter().map(|number| std::ptr::from_ref(number).cast_mut().cast());
        let mut params: ArrayVec<*mut c_void, MOST> = pointers.chain(numbers).collect();
        // SAFETY: the kernel's addresses of 64 bits and numbers of 32 bits, in its order; the caller vouches for what they
        // point to.
        unsafe { launch_params(function, dims(kernel, grid, shared_bytes), &mut params, stream) }
    }
}

fn dims(kernel: ListKernel, grid: u32, shared_bytes: u32) -> LaunchDims {
    LaunchDims {
        grid: [grid, kernel.grid_rows()],
        block: kernel.threads(),
        cluster: 1,
        shared_bytes,
        is_dependent: true,
    }
}
