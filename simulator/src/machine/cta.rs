//! A block: its shared memory, its barriers, its registers.

use std::collections::BTreeMap;

use super::mbarrier::Mbarrier;
use super::warp::NamedBarrier;
use crate::check::clock::View;
use crate::check::shadow::Stamp;

pub(crate) struct Cta {
    pub(crate) shared: Vec<u8>,
    /// One state number per byte; empty where races are not looked for.
    pub(crate) shadow: Vec<u32>,
    pub(crate) mbarriers: BTreeMap<u32, Mbarrier>,
    pub(crate) named: Vec<NamedBarrier>,
    /// Registers of the pool that are free.
    pub(crate) free_registers: u32,
    pub(crate) live_warps: u32,
    pub(crate) exited: bool,
    /// When the tensor core is free again.
    pub(crate) tensor_free: u64,
    /// When the copy engine is free again.
    pub(crate) copy_free: u64,
    pub(crate) ctaid: [u32; 3],
    /// The last arrival at one of its mbarriers by each warp of another block.
    pub(crate) remote: BTreeMap<usize, Stamp>,
    /// What its threads knew when they exited.
    pub(crate) at_exit: View,
}

impl Cta {
    pub(crate) fn new(bytes: usize, shadow: bool, warps: u32, ctaid: [u32; 3]) -> Self {
        Self {
            shared: garbage(bytes),
            shadow: if shadow { vec![0; bytes] } else { Vec::new() },
            mbarriers: BTreeMap::new(),
            named: vec![NamedBarrier::default(); 16],
            free_registers: 0,
            live_warps: warps,
            exited: false,
            tensor_free: 0,
            copy_free: 0,
            ctaid,
            remote: BTreeMap::new(),
            at_exit: View::default(),
        }
    }
}

/// What shared memory holds before anybody writes: no zeros to rely on, and NaN in most formats.
fn garbage(bytes: usize) -> Vec<u8> {
    vec![0xff; bytes]
}
