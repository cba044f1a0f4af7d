//! What needs no kernel: matrices, files, the reference, orders of rows, roofs.

#![allow(clippy::unwrap_used)]

mod bsr;
#[path = "../device/mod.rs"]
mod device;
mod files;
mod readers;
mod reference;
mod reorder;
mod roofs;
