//! Mutants of emitted kernels, which the problems of `bsr check` must find out; specs that must pass them; and their speed.
#![allow(clippy::unwrap_used)]

mod attention;
mod classes;
mod families;
mod heldout;
mod hunt;
mod lists;
mod operators;
mod speed;
mod trial;
