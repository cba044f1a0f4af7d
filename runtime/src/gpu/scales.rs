//! The scales of 8-bit operands in device memory.

use bsr_codegen::{Refusal, Scale};

use super::buffer::{DeviceBuffer, DevicePtr};
use super::device::Device;
use super::error::GpuError;
use super::foreign::misplaced;
use crate::Scales;

/// What the sums of a product are multiplied by, in device memory, owned or foreign: f32 factors of A and of B, in the
/// order of [`Scales`].
#[derive(Debug)]
pub struct DeviceScales {
    kind: Scale,
    a: ScaleMemory,
    b: ScaleMemory,
}

#[derive(Debug)]
enum ScaleMemory {
    Owned(DeviceBuffer<f32>),
    Foreign(Range),
}

impl DeviceScales {
    /// Copies scales to the device; done when it returns.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, host: &Scales) -> Result<Self, GpuError> {
        let factors = |values: &[f32]| DeviceBuffer::from_slice(device, values).map(ScaleMemory::Owned);
        Ok(Self { kind: host.kind(), a: factors(host.a())?, b: factors(host.b())? })
    }

    /// Views foreign device memory as scales: so many f32 from an address, for A and for B. Nothing is copied,
    /// and nothing freed when dropped. The factors must be finite, or C is not.
    ///
    /// # Errors
    /// If an address is null or no multiple of 16 bytes.
    ///
    /// # Safety
    /// For as long as the value is used in launches, both addresses must be device memory, on the device of those
    /// launches, of so many elements.
    pub unsafe fn from_raw(
        kind: Scale,
        (a, a_len): (DevicePtr, usize),
        (b, b_len): (DevicePtr, usize),
    ) -> Result<Self, Refusal> {
        for (operand, base, len) in [("A", a, a_len), ("B", b, b_len)] {
            if len > 0 && (base == 0 || !base.is_multiple_of(16)) {
                return Err(misplaced(format_args!("the scales of {operand} are"), base, 16));
            }
        }
        let foreign = |ptr, len| ScaleMemory::Foreign(Range { ptr, len });
        Ok(Self { kind, a: foreign(a, a_len), b: foreign(b, b_len) })
    }

    /// The kind, as a spec names it.
    pub fn kind(&self) -> Scale {
        self.kind
    }

    pub(crate) fn untyped(&self) -> UntypedScales {
        UntypedScales { kind: self.kind, a: self.a.range(), b: self.b.range() }
    }
}

impl ScaleMemory {
    fn range(&self) -> Range {
        match self {
            Self::Owned(buffer) => Range { ptr: buffer.ptr(), len: buffer.len() },
            Self::Foreign(range) => *range,
        }
    }
}

/// Where the scales of a launch lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntypedScales<P = DevicePtr> {
    pub(crate) kind: Scale,
    pub(crate) a: Range<P>,
    pub(crate) b: Range<P>,
}

/// So many f32 from an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<P = DevicePtr> {
    pub(crate) ptr: P,
    pub(crate) len: usize,
}

impl Range {
    /// First and last byte address (exclusive).
    pub(crate) fn range(self) -> (DevicePtr, DevicePtr) {
        (self.ptr, self.ptr + 4 * self.len as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_scales_are_taken_where_they_are_aligned() {
        // SAFETY: nothing is launched.
        let view = |a, b| unsafe { DeviceScales::from_raw(Scale::RowCol, a, b) };
        assert!(view((0x1000, 10), (0x2010, 3)).is_ok());
        // No scales need no memory.
        assert!(view((0, 0), (0x2010, 3)).is_ok());
        let error = view((0, 1), (0x2010, 3)).map(|_| ()).expect_err("a null address");
        assert!(error.to_string().contains("the scales of A are at 0x0"), "{error}");
        let error = view((0x1000, 10), (0x2004, 3)).map(|_| ()).expect_err("4 bytes past a multiple of 16");
        assert!(error.to_string().contains("scales of B") && error.to_string().contains("0x2004"), "{error}");
    }
}
