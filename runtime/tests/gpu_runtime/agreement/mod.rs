//! Small PTX programs on the GPU and on the simulator: every byte of every buffer is the same afterwards.
//!
//! Numbers are small and whole, so that the sums of products are exact in whatever order they are made.

mod copies;
mod dense;
mod exits;
mod gpu;
mod program;
mod sparse;
mod starts;

use program::Program;

use crate::{device, tell};

/// Runs all of them on both machines, and tells what differs. Without a GPU the simulator runs them.
fn agree(programs: &[Program]) {
    let simulated: Vec<Vec<Vec<u8>>> = programs.iter().map(Program::simulated).collect();
    let Some((_turn, device)) = device() else {
        return;
    };
    let mut different = Vec::new();
    for (program, simulated) in programs.iter().zip(simulated) {
        let found = match gpu::run(&device, program) {
            Ok(Some(found)) => found,
            Ok(None) => {
                different.push(format!("{}: the driver refuses the tensor map", program.name));
                continue;
            }
            Err(error) => {
                different.push(format!("{}: {error}", program.name));
                break;
            }
        };
        for (buffer, (gpu, simulator)) in found.iter().zip(&simulated).enumerate() {
            let wrong: Vec<usize> = (0..gpu.len()).filter(|i| gpu[*i] != simulator[*i]).collect();
            if let [first, ..] = wrong[..] {
                let bytes =
                    |of: &[u8]| of[first / 16 * 16..].iter().take(32).map(|b| format!("{b:02x}")).collect::<String>();
                different.push(format!(
                    "{}: {} of {} bytes of buffer {buffer} differ, from byte {first} on\n    the GPU has       {}\n    the simulator has {}",
                    program.name,
                    wrong.len(),
                    gpu.len(),
                    bytes(gpu),
                    bytes(simulator)
                ));
            }
        }
    }
    tell(format_args!("{} programs, {} that differ", programs.len(), different.len()));
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn mma_of_every_type_is_the_gpus() {
    agree(&dense::warps());
}

#[test]
fn mma_with_a_sparse_matrix_is_the_gpus() {
    agree(&sparse::warps());
}

#[test]
fn wgmma_with_a_sparse_matrix_is_the_gpus() {
    agree(&sparse::warpgroups());
}

#[test]
fn loads_in_im2col_mode_are_the_gpus() {
    agree(&copies::columns());
}

#[test]
fn loads_of_tiles_are_the_gpus() {
    agree(&copies::tiles());
}

#[test]
fn reductions_are_the_gpus() {
    agree(&copies::reductions());
}

#[test]
fn stores_that_are_clipped_are_the_gpus() {
    agree(&copies::clipped_stores());
}

#[test]
fn sums_that_are_clipped_are_the_gpus() {
    agree(&copies::clipped_sums());
}
