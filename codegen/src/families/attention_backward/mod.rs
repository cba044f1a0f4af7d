//! The gradient of block-sparse attention on Hopper, in two kernels without anything of the size of Q K^T in memory.
//!
//! Both have the shape of attention's own kernel: a tile of 128 rows of one head, 64 to each of two consumer warpgroups,
//! stays in shared memory, and rows of the other side come through a ring. Of each step a consumer computes two products,
//! those of Q K^T and of dO V^T, turns them into P and dS in registers, and multiplies these, as A operands in registers, by
//! what the ring holds. `attention_dq` has tiles of queries and sums dQ; `attention_dkv` has tiles of keys, computes both
//! products transposed, and sums dK and dV. No sum is shared by CTAs, so every launch gives the same bits.

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::GradientPlan;
