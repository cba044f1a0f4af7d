//! Every kind of kernel on a real GPU, against the f64 reference.
//!
//! C is filled with poison (NaN, or of integers a number that no sum is) and lies between walls of it, and so does B:
//! what a kernel leaves unwritten, writes outside or reads outside shows. Cases are rows of tables; a table is one
//! test, which runs all of its rows and then reports all failures together.
//!
//! Without a GPU the tests say SKIPPED on stderr and pass; with `BSR_REQUIRE_GPU` set they fail instead. The tests
//! named `simulated` run the kernels of the same tables on the simulator, everywhere.
#![allow(clippy::unwrap_used)]

mod agreement;
mod aliasing;
mod case;
#[path = "../device/mod.rs"]
mod device;
mod device_pairs;
mod device_pattern;
#[path = "../drawn/mod.rs"]
mod drawn;
mod fused;
mod launches;
mod refusals;
mod run;
mod sddmm;
mod simulate;
mod tables;
mod walled;
mod watchdog;

use device::{device, tell};
