//! Block-sparse attention on Hopper: O = softmax(scale * Q K^T) V, where Q K^T is computed in its stored blocks alone.
//!
//! A CTA has 128 queries of one head, 64 to each of two consumer warpgroups. Q stays in shared memory; K and V come through
//! rings of their own, some keys of a stored block at a time. A consumer computes S = Q K^T by WGMMA, turns it into
//! probabilities in registers against a running maximum, and multiplies these by V, the A operand in registers. The S of a
//! block is issued before the product with V of the block before it, and the consumers take turns with the tensor cores,
//! so that the exponentials of one run under the products of the other.

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::AttentionPlan;
