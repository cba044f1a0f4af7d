//! What is particular to a family of kernels: its plans, refusals and sections, and what ptxas makes of them.

mod attention;
mod attention_backward;
mod attention_fp8;
mod attention_warp;
mod epilogue;
mod epilogue_warp;
mod load;
mod scalar;
mod sdd;
mod small_blocks;
mod spgemm;
mod swap_ab;
mod tf32;
mod warp;
mod warp_products;
mod warp_sdd;
