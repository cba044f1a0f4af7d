//! Matrices, devices, launches and measurements for bsr kernels.
