//! What the epilogue of an SDDMM reads.

use bsr_codegen::{Epilogue, KernelSpec};
use bsr_runtime::{Inputs, Structure};

/// Random inputs of the epilogue of an SDDMM.
pub(super) fn block_inputs(spec: &KernelSpec, structure: &Structure, seed: u64) -> Inputs {
    let drawn = |epilogue: Epilogue| Inputs::random_blocks(epilogue.program(), structure, seed);
    spec.epilogue.map(drawn).unwrap_or_default()
}
