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
        ("div.u64 %rd_t, %rd_t, %rd_own_tiles;", "div.u64 %rd_t, %rd_t, 1;"),
        ("not.b32 %r_cost, %r_t;", "mov.b32 %r_cost, %r_t;"),
        ("setp.lt.u32 %p_t, %r_t, %r_load;", "setp.le.u32 %p_t, %r_t, %r_load;"),
    ] {
        assert_eq!(ptx().matches(from).count(), 1, "{from}");
        let kernels = ListKernels::new(&ptx().replace(from, to)).unwrap();
        assert!(faults_of_pairs(&kernels).next().is_some(), "{to} is not found");
    }
}
