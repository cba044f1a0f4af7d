//! The #[bsr_kernel] attribute of bsr.
