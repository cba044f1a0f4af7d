//! Pairs of blocks of two patterns.

use bsr_codegen::lists::ptx;
use bsr_runtime::simulated::lists::{ListKernels, faults_of_pairs};

#[test]
fn the_pairs_are_those_of_the_host() {
    let faults: Vec<_> = faults_of_pairs(&ListKernels::own().unwrap()).map(Result::unwrap).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// Bounds that hold wrong patterns inside of their room, and steps without which lists have another order.
#[test]
fn a_change_of_the_kernels_that_list_pairs_is_found() {
    for (from, to) in [
        ("setp.le.u32 %p_room, %r_first, %r_pair_room;", "setp.ge.u32 %p_room, %r_first, 0;"),
        ("setp.le.and.u32 %p_room, %r_count, %r_t, %p_room;", "setp.ge.and.u32 %p_room, %r_count, 0, %p_room;"),
        ("min.u32 %r_end, %r_end, %r_tile_room;", "max.u32 %r_end, %r_end, 0;"),
        ("min.u32 %r_tiles, %r_tiles, %r_tile_room;", "max.u32 %r_tiles, %r_tiles, 0;"),
        ("and.b32 %r_t, %r_bits5, %r_lower;", "mov.b32 %r_t, %r_bits5;"),
        ("@%p_lead red.global.add.u32 [%rd_t + 4], %r_cost_sum;", ""),
        ("setp.lt.and.u32 %p_next, %r_wave, %r_end, %p_tile;", "setp.ne.and.u32 %p_next, 0, 0, %p_tile;"),
        ("sub.u32 %r_key, 8388607, %r_load;", "mov.u32 %r_key, %r_load;"),
        ("sub.u32 %r_cost, 2097151, %r_cost;", "mov.u32 %r_cost, 1;"),
        ("min.u32 %r_t, %r_t, 8;", "mov.u32 %r_t, 0;"),
        ("setp.lt.and.u32 %p_takes, %r_load, %r_t, %p_takes;", "setp.le.and.u32 %p_takes, %r_load, %r_t, %p_takes;"),
        ("setp.lt.and.u32 %p_takes, %r_load, %r_t, %p_takes;", "setp.ne.and.u32 %p_takes, 1, 0, %p_takes;"),
    ] {
        assert!(ptx().contains(from), "{from}");
        let kernels = ListKernels::new(&ptx().replace(from, to)).unwrap();
        assert!(faults_of_pairs(&kernels).next().is_some(), "{to} is not found");
    }
}
