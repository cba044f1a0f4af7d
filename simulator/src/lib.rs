//! Runs Hopper PTX text on the CPU and checks its asynchronous protocol.
