//! What registers are called, and lists of them.

use serde::Serialize;

use super::super::plan::SmallBlocksPlan;
use crate::{Dtype, KernelSpec};

/// The register class of an element as it is multiplied.
pub(super) fn class(dtype: Dtype) -> &'static str {
    if dtype == Dtype::F64 { "d" } else { "f" }
}

/// A value of block `block` of a thread in column `k` of its row.
pub(super) fn value(spec: &KernelSpec, block: u32, k: u32) -> String {
    format!("%{}_a{block}_{k}", class(spec.acc))
}

/// The sum of a column.
pub(super) fn sum(spec: &KernelSpec, column: u32) -> String {
    format!("%{}_sum{column}", class(spec.acc))
}

/// What is stored of the sum of a column: itself, or what it is rounded to where C is narrower than the sums.
pub(super) fn narrow_sum(spec: &KernelSpec, column: u32) -> String {
    if spec.out == spec.acc { sum(spec, column) } else { format!("%{}_out{column}", class(spec.out)) }
}

/// Zero of a type of sums.
pub(super) fn zero(dtype: Dtype) -> &'static str {
    if dtype == Dtype::F64 { "0d0000000000000000" } else { "0f00000000" }
}

/// What the products of a column of a block are added to: the sum of the column, or a sum of the block's own that others add up.
pub(super) fn part(plan: &SmallBlocksPlan, block: u32, column: u32) -> String {
    if plan.is_together() { format!("%{}_part{block}_{column}", class(plan.spec.acc)) } else { sum(&plan.spec, column) }
}

/// The predicate that guards the loads of a block: a group's first is there wherever the loop is.
pub(super) fn guard(plan: &SmallBlocksPlan, block: u32) -> String {
    if block == 0 && !plan.is_together() { String::new() } else { format!("@%p_block{block} ") }
}

/// The predicate that guards its products: where blocks are read together, those of a block that is not there are never added.
pub(super) fn guard_of_products(plan: &SmallBlocksPlan, block: u32) -> String {
    if plan.is_together() { String::new() } else { guard(plan, block) }
}

/// The types and the registers of a load: `v2.f64 { %d_0, %d_1 }`, or `f64 %d_0`.
#[derive(Serialize)]
pub(super) struct Wide {
    kind: String,
    registers: String,
}

impl Wide {
    pub(super) fn new(kind: &str, registers: &[String]) -> Self {
        match registers {
            [register] => Self { kind: kind.to_owned(), registers: register.clone() },
            several => {
                Self { kind: format!("v{}.{kind}", several.len()), registers: format!("{{ {} }}", several.join(", ")) }
            }
        }
    }
}
