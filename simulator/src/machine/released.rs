//! What threads and clusters have released at places in memory, and what others have found there.

use std::collections::{BTreeMap, HashMap};

use super::watched::Watched;
use crate::check::clock::View;
use crate::check::shadow::Stamp;
use crate::program::op::Scope;

/// What clusters that run together share beside the memory itself.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// By place: what each cluster has released there.
    pub(super) released: HashMap<u64, BTreeMap<u32, View>>,
    /// By place: the cluster and the access that has written it last.
    pub(super) written: HashMap<u64, (u32, Stamp)>,
    /// Bytes that are watched, in a second run.
    pub(super) watched: Watched,
}

impl Exchange {
    /// At the start of a run that watches some bytes.
    pub(crate) fn watching(watched: Watched) -> Self {
        Self { watched, ..Self::default() }
    }
}

/// What the threads of one block have published at a place, by releases or fences of one scope.
#[derive(Clone, Debug)]
pub(crate) struct Released {
    pub(super) cta: usize,
    pub(super) scope: Scope,
    pub(super) view: View,
}

/// A fence that a warp has executed: its lanes, its scope, and what they knew.
#[derive(Clone, Debug)]
pub(crate) struct Fenced {
    pub(crate) mask: u32,
    pub(crate) scope: Scope,
    pub(crate) view: View,
}

/// What relaxed reads have found released: acquired by the next fence, if its scope reaches.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(super) mask: u32,
    /// Whether the block that released is the reader's own, so that every scope reaches it.
    pub(super) own: bool,
    pub(super) place: (u64, u64),
    pub(super) view: View,
}
