//! The native half of the Python package `bsr_gemm`: patterns, products, kernels, launches.
//!
//! Everything here takes plain numbers, strings and addresses. The Python half looks at arrays and tensors, keeps them
//! alive for the call, and is what people import.

mod array;
mod attention;
mod choice;
mod command;
mod cpu;
mod errors;
mod field;
mod gpu;
mod memory;
mod pattern;
mod plan;
mod sanitize;
mod shard;
mod simulate;
mod simulate_pairs;
mod solve;
mod threads;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::attention::{AttentionMask, GradientForm, attend, choose_attention, gradient_work, simulate_attention};
    #[pymodule_export]
    use crate::choice::{card, check_table, explain, explain_pairs};
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::cpu::{multiply, multiply_sddmm};
    #[pymodule_export]
    use crate::errors::Error;
    #[pymodule_export]
    use crate::field::field;
    #[pymodule_export]
    use crate::gpu::{
        AttentionWork, Batch, DeviceMask, DevicePages, DevicePattern, Gpu, GradientWork, Loaded, LoadedAttention,
        LoadedGradient, Ready, ReadyAttention, ReadyGradient, ReadyPairs, Sparse,
    };
    #[pymodule_export]
    use crate::memory::ask_for;
    #[pymodule_export]
    use crate::pattern::Pattern;
    #[pymodule_export]
    use crate::plan::{Kernel, gradient_kernels, plan};
    #[pymodule_export]
    use crate::sanitize::Foreign;
    #[pymodule_export]
    use crate::shard::balanced;
    #[pymodule_export]
    use crate::simulate::simulate;
    #[pymodule_export]
    use crate::simulate_pairs::simulate_pairs;
    #[pymodule_export]
    use crate::solve::{Solver, solve_on_host};

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
