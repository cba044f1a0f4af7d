//! What the compiler makes of specs: plans, refusals, texts and launches. One executable holds these tests, because each one
//! links the compiler.
#![allow(clippy::unwrap_used)]

mod assembled;
mod families;
mod fingerprints;
mod golden;
mod launchable;
mod matrix;
mod permute;
mod plan_properties;
mod planning;
mod probes;
mod ptxas;
mod random;
mod remedies;
mod rendered;
mod rendering;
mod snapshots;
mod values;
