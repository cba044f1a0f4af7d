//! The kernels, their parameters and the numbers of their launches.

use super::render;
use crate::Dtype;
use crate::arch::Arch;
use crate::hopper::wgmma;

/// A kernel that measures one roof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoofKernel {
    /// Reads a buffer of tiles of [`RoofKernel::TILE_BYTES`]; sets a bit if any of it is not zero.
    Read,
    /// Copies such a buffer to another one.
    Copy,
    /// Fills a ring in shared memory from a buffer that L2 holds; stores the sum of the first words of all chunks.
    L2,
    /// Multiplies two tiles in shared memory over and over with WGMMA; stores each thread's sum of its results.
    Tensor(Dtype),
    /// Nothing.
    Empty,
}

impl RoofKernel {
    /// Every kernel.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Copy,
        Self::L2,
        Self::Tensor(Dtype::F16),
        Self::Tensor(Dtype::BF16),
        Self::Tensor(Dtype::E4M3),
        Self::Tensor(Dtype::I8),
        Self::Empty,
    ];

    /// Loads of 16 bytes that a thread has on their way at the same time.
    pub(super) const LOADS: u32 = 8;
    const STREAM_THREADS: u32 = 512;
    /// What a CTA reads or copies at once: 8 loads of 16 bytes for each of 512 threads.
    pub const TILE_BYTES: u32 = Self::LOADS * 16 * Self::STREAM_THREADS;

    /// Bytes of one bulk copy from L2.
    pub const CHUNK_BYTES: u32 = 16 << 10;
    /// Bulk copies that a CTA has on their way at the same time.
    pub const CHUNKS: u32 = 12;

    /// Rows and columns of a CTA's product, and the bytes of K of one of its slabs and how many slabs there are.
    pub(super) const ROWS: u32 = 128;
    pub(super) const COLUMNS: u32 = 256;
    pub(super) const SLAB_K_BYTES: u32 = 128;
    pub(super) const SLABS: u32 = 4;
    /// Bytes of A and of B in shared memory, one after the other.
    pub const OPERAND_BYTES: [u32; 2] =
        [Self::ROWS * Self::SLAB_K_BYTES * Self::SLABS, Self::COLUMNS * Self::SLAB_K_BYTES * Self::SLABS];

    /// Its name in its module.
    pub fn entry(self) -> String {
        match self {
            Self::Read => "bsr_roof_read".to_owned(),
            Self::Copy => "bsr_roof_copy".to_owned(),
            Self::L2 => "bsr_roof_l2".to_owned(),
            Self::Tensor(dtype) => format!("bsr_roof_tensor_{dtype}"),
            Self::Empty => "bsr_roof_empty".to_owned(),
        }
    }

    /// The oldest architecture that runs it.
    pub fn arch(self) -> Arch {
        match self {
            Self::Read | Self::Copy | Self::Empty => Arch::SM_70,
            Self::L2 => Arch { target: "sm_90", ..Arch::SM_90A },
            Self::Tensor(_) => Arch::SM_90A,
        }
    }

    /// Its module's text.
    pub fn ptx(self) -> String {
        render::ptx(self)
    }

    /// Threads of a CTA.
    pub fn threads(self) -> u32 {
        match self {
            Self::Read | Self::Copy => Self::STREAM_THREADS,
            Self::L2 => 32,
            Self::Tensor(_) => Self::ROWS / wgmma::WGMMA_M * 128,
            Self::Empty => 128,
        }
    }

    /// Bytes of dynamic shared memory.
    pub fn shared_bytes(self) -> u32 {
        match self {
            Self::Read | Self::Copy | Self::Empty => 0,
            Self::L2 => Self::CHUNKS * (Self::CHUNK_BYTES + 8),
            Self::Tensor(_) => Self::OPERAND_BYTES[0] + Self::OPERAND_BYTES[1],
        }
    }

    /// The addresses that it is given, which are its first parameters.
    pub fn pointers(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["from", "seen"],
            Self::Copy => &["from", "to"],
            Self::L2 | Self::Tensor(_) => &["from", "sums"],
            Self::Empty => &[],
        }
    }

    /// The 32-bit numbers that it is given, which follow: tiles of the buffer; chunks of the buffer less one, of a power of
    /// two, and chunks that each CTA copies; rounds of the product.
    pub fn numbers(self) -> &'static [&'static str] {
        match self {
            Self::Read | Self::Copy => &["tiles"],
            Self::L2 => &["mask", "steps"],
            Self::Tensor(_) => &["rounds"],
            Self::Empty => &[],
        }
    }

    /// Operations of one CTA in a round of [`RoofKernel::Tensor`].
    pub fn flops_a_round(dtype: Dtype) -> u64 {
        let k = Self::SLABS * Self::SLAB_K_BYTES / dtype.bytes();
        2 * u64::from(Self::ROWS) * u64::from(Self::COLUMNS) * u64::from(k)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_fits_its_architecture() {
        for kernel in RoofKernel::ALL {
            let arch = kernel.arch();
            assert!(
                kernel.shared_bytes() <= arch.shared_bytes && kernel.threads() <= arch.threads_per_cta,
                "{kernel:?}"
            );
        }
        assert_eq!(RoofKernel::flops_a_round(Dtype::F16), 2 * 128 * 256 * 256);
        assert_eq!(RoofKernel::flops_a_round(Dtype::E4M3), 2 * 128 * 256 * 512);
    }
}
