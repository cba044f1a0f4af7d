//! How a plan is made, one step a file.

mod block;
mod chain;
mod staging;
mod tile;

pub(crate) use staging::Staging;
pub(crate) use tile::Tile;

use crate::plan::PlanErrors;
use crate::{Accumulate, Arch, KernelSpec};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalarPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) tile: Tile,
    pub(crate) method: Method,
}

/// How products become C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Block by block, added in global memory.
    Atomic,
    /// Tile by tile, summed in registers, one element a load.
    Register(Staging),
    /// Tile by tile, 16 bytes a load.
    Vector {
        /// Shared memory.
        staging: Staging,
        /// Products of a 16-bit type that are added in that type before the sum is promoted to f32; none for f32.
        chain: Option<u32>,
    },
}

impl ScalarPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        block::check(spec, arch, &mut errors);
        errors.check()?;
        let (tile, method) = match (spec.accumulate, spec.vector.unwrap_or(1)) {
            (Some(Accumulate::Atomic), _) => (tile::strided(spec, tile::FEW)?, Method::Atomic),
            (_, 1) => {
                let tile = tile::strided(spec, tile::MANY)?;
                (tile, Method::Register(Staging::of_elements(spec, &tile)))
            }
            _ => {
                let tile = tile::blocked(spec)?;
                let staging = Staging::of_vectors(spec, &tile);
                (tile, Method::Vector { staging, chain: chain::length(spec.a) })
            }
        };
        Ok(Self { spec: *spec, arch: *arch, tile, method })
    }

    /// The stages of shared memory, where there are any.
    pub(crate) fn staging(&self) -> Option<&Staging> {
        match &self.method {
            Method::Atomic => None,
            Method::Register(staging) | Method::Vector { staging, .. } => Some(staging),
        }
    }
}
