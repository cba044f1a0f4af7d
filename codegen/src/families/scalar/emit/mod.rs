//! The family of the CUDA cores: plain loads, shared memory, multiply-adds.

mod atomic;
mod element;
mod place;
mod register;
mod store;
mod vector;

use super::plan::{Method, ScalarPlan};
use crate::emit::templates;

/// The instructions of a kernel.
pub(crate) fn body(plan: &ScalarPlan) -> String {
    match &plan.method {
        Method::Atomic => templates::render("scalar/atomic.ptx", &atomic::Context::new(plan)),
        Method::Register(staging) => templates::render("scalar/register.ptx", &register::Context::new(plan, staging)),
        Method::Vector { staging, chain } => {
            templates::render("scalar/vector.ptx", &vector::Context::new(plan, staging, *chain))
        }
    }
}

pub(crate) fn directives(plan: &ScalarPlan) -> Vec<String> {
    vec![format!(".maxntid {}, 1, 1", plan.tile.threads()), format!(".minnctapersm {}", plan.tile.resident())]
}
