//! Of kernels whose Q, K and V have 8 bits: the loads of V, and the factors of the three.

use serde::Serialize;

use super::super::plan::AttentionPlan;
use crate::hopper::heads::{Boxes, boxes_of_runs};

/// The factors of Q, K and V of a tile.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Factors {
    /// Registers: of Q times K, and of V.
    products: &'static str,
    values: &'static str,
}

const PRODUCTS: &str = "%f_of_products";
const VALUES: &str = "%f_of_values";

impl Factors {
    pub(super) fn new(plan: &AttentionPlan) -> Option<Self> {
        plan.has_factors().then_some(Self { products: PRODUCTS, values: VALUES })
    }

    /// By what products are multiplied before a score reads them.
    pub(super) fn of_products(plan: &AttentionPlan) -> Option<&'static str> {
        plan.has_factors().then_some(PRODUCTS)
    }

    /// By what O is multiplied; nothing without factors.
    pub(super) fn of_values(plan: &AttentionPlan) -> &'static str {
        if plan.has_factors() { VALUES } else { "" }
    }
}

/// The boxes of V of a step: all columns of some keys of a run.
pub(super) fn values(plan: &AttentionPlan) -> Boxes {
    boxes_of_runs(&plan.values, plan.tiling.blocks)
}
