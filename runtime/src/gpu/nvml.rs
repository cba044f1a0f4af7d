//! What the driver's management library (NVML) tells of a GPU: power and clocks. It is loaded when it is first asked, only
//! read from, and its absence is no error.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use libloading::Library;

use super::device::Device;

/// A GPU as NVML knows it.
#[derive(Clone, Copy)]
pub(crate) struct Managed {
    calls: &'static Calls,
    handle: Handle,
}

/// `nvmlDevice_t`: valid until the library is shut down, which never happens here.
type Handle = *mut c_void;
/// `nvmlReturn_t`: 0 is success.
type Status = c_int;
type Number = unsafe extern "C" fn(Handle, *mut c_uint) -> Status;
type LongNumber = unsafe extern "C" fn(Handle, *mut c_ulonglong) -> Status;
type ClockOf = unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Status;
type ByText = unsafe extern "C" fn(*const c_char, *mut Handle) -> Status;

// SAFETY: NVML's functions may be called from any thread (NVML API reference, "Thread safety").
unsafe impl Send for Managed {}

/// `nvmlClockType_t`.
const SM_CLOCK: c_uint = 1;
const MEMORY_CLOCK: c_uint = 2;

/// The functions that are called; those that a library lacks are none.
struct Calls {
    by_uuid: ByText,
    power: Option<Number>,
    limit: Option<Number>,
    energy: Option<LongNumber>,
    clock: Option<ClockOf>,
    reasons: Option<LongNumber>,
    /// Keeps the functions where they are.
    _library: Library,
}

/// One look at a GPU. None of what the driver does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Look {
    pub(crate) milliwatts: Option<u32>,
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) memory_mhz: Option<u32>,
    /// Why the clock is below its highest: `nvmlClocksEventReasons`.
    pub(crate) reasons: Option<u64>,
}

impl Managed {
    /// That of a device; none without the library, or where it does not know the device.
    pub(crate) fn of(device: &Device) -> Option<Self> {
        static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
        let calls = CALLS.get_or_init(load).as_ref()?;
        let uuid = CString::new(device.info().uuid.as_str()).ok()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is initialized, the text ends with a zero, `handle` is a place for one handle.
        let status = unsafe { (calls.by_uuid)(uuid.as_ptr(), &mut handle) };
        (status == 0 && !handle.is_null()).then_some(Self { calls, handle })
    }

    /// What it does now.
    pub(crate) fn look(self) -> Look {
        let clock = |which| {
            let call = self.calls.clock?;
            let mut value = 0;
            // SAFETY: the handle is NVML's, `value` is a place for one number.
            (unsafe { call(self.handle, which, &mut value) } == 0).then_some(value)
        };
        Look {
            milliwatts: self.number(self.calls.power),
            sm_mhz: clock(SM_CLOCK),
            memory_mhz: clock(MEMORY_CLOCK),
            reasons: self.long(self.calls.reasons),
        }
    }

    /// The power that it may draw, in milliwatts.
    pub(crate) fn limit(self) -> Option<u32> {
        self.number(self.calls.limit)
    }

    /// Millijoules since the driver was loaded.
    pub(crate) fn energy(self) -> Option<u64> {
        self.long(self.calls.energy)
    }

    fn number(self, call: Option<Number>) -> Option<u32> {
        let mut value = 0;
        // SAFETY: the handle is NVML's, `value` is a place for one number.
        (unsafe { call?(self.handle, &mut value) } == 0).then_some(value)
    }

    fn long(self, call: Option<LongNumber>) -> Option<u64> {
        let mut value = 0;
        // SAFETY: the handle is NVML's, `value` is a place for one number.
        (unsafe { call?(self.handle, &mut value) } == 0).then_some(value)
    }
}

/// Loads and initializes the library.
fn load() -> Option<Calls> {
    // SAFETY: loading the library runs only its own initializers.
    let library = ["libnvidia-ml.so.1", "libnvidia-ml.so", "nvml.dll"]
        .iter()
        .find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: the signatures are those of nvml.h, whose functions keep them; `_v2` names newer ones.
    unsafe {
        let init: unsafe extern "C" fn() -> Status = *library.get(b"nvmlInit_v2\0").ok()?;
        if init() != 0 {
            return None;
        }
        let by_uuid: ByText = *library.get(b"nvmlDeviceGetHandleByUUID\0").ok()?;
        let found = |name: &[u8]| library.get::<Number>(name).ok().map(|call| *call);
        let found_long = |name: &[u8]| library.get::<LongNumber>(name).ok().map(|call| *call);
        Some(Calls {
            by_uuid,
            power: found(b"nvmlDeviceGetPowerUsage\0"),
            limit: found(b"nvmlDeviceGetEnforcedPowerLimit\0"),
            energy: found_long(b"nvmlDeviceGetTotalEnergyConsumption\0"),
            clock: library.get::<ClockOf>(b"nvmlDeviceGetClockInfo\0").ok().map(|call| *call),
            reasons: found_long(b"nvmlDeviceGetCurrentClocksThrottleReasons\0"),
            _library: library,
        })
    }
}
