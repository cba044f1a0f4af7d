//! Functions of the driver that not every version of CUDA's headers declares under one name.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUdriverProcAddressQueryResult, CUresult};

/// The driver's function as the headers of CUDA `since` (12040 for 12.4) declare it, if the driver has it.
///
/// # Safety
/// The driver is initialized, and `F` is the function's pointer type in those headers.
pub(super) unsafe fn symbol<F: Copy>(name: &CStr, since: i32) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut ()>()) };
    let mut address = std::ptr::null_mut();
    let mut found = CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    // SAFETY: a C string, and places for one address and one word.
    let status = unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, since, 0, &mut found) };
    let is_there = status == CUresult::CUDA_SUCCESS && !address.is_null();
    // SAFETY: a pointer of the same size, to the function that the caller vouches for.
    is_there.then(|| unsafe { std::mem::transmute_copy(&address) })
}
