//! How a plan is made: the check of the request, and the threads that serve a block row.

mod check;
pub(super) mod fused;
pub(super) mod groups;
mod together;

use crate::plan::{PlanErrors, SparseTimesDense};
use crate::spec::Key;
use crate::{Arch, Dtype, KernelSpec, Layout, Mma};

/// Most rows and columns of a block.
const MOST_SIDE: u32 = KernelSpec::SMALL_BLOCK;
/// Most columns of B that a CTA multiplies a block with: the sums of a thread.
const MOST_COLUMNS: u32 = 16;
/// Bytes of the widest load.
const LOAD_BYTES: u32 = 16;

/// Keys that no other family has.
pub(super) const OWN: [Key; 2] = [Key::Lanes, Key::RowPtr];

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SmallBlocksPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    /// Threads that serve a block row, or [`together::LANES`].
    pub(crate) lanes: u32,
    /// Elements of a load of A's values, and of one of B.
    pub(crate) a_load: u32,
    pub(crate) b_load: u32,
}

/// Whether a spec of `mma = scalar` is planned here. Blocks of 8 x 8 with 16 columns of one type were planned as larger
/// ones are before this family was, and are where none of its keys is said.
pub(crate) fn takes(spec: &KernelSpec) -> bool {
    let is_whole = (spec.bm, spec.bn, spec.bk) == (MOST_SIDE, MOST_COLUMNS, MOST_SIDE);
    let is_of_one_type = spec.a == spec.b && spec.a != Dtype::F64;
    spec.mma == Mma::Scalar
        && (OWN.iter().any(|key| spec.says(*key)) || is_small(spec) && !(is_whole && is_of_one_type))
}

fn is_small(spec: &KernelSpec) -> bool {
    spec.bm <= MOST_SIDE && spec.bk <= MOST_SIDE && spec.bn <= MOST_COLUMNS
}

impl SmallBlocksPlan {
    pub(crate) fn new(spec: &KernelSpec, arch: &Arch) -> Result<Self, PlanErrors> {
        let mut errors = PlanErrors::default();
        check::check(spec, &mut errors);
        fused::check(spec, arch, &mut errors);
        errors.check()?;
        let (_, inner) = sides(spec);
        let along = if spec.b_layout == Layout::RowMajor { spec.bn } else { inner };
        Ok(Self {
            spec: *spec,
            arch: *arch,
            lanes: spec.lanes.unwrap_or(check::MOST_LANES),
            a_load: elements(spec.bk, spec.a),
            b_load: elements(along, spec.b),
        })
    }

    /// Whether a CTA reads the blocks of all its block rows together, and a thread adds up a row of C.
    pub(crate) fn is_together(&self) -> bool {
        self.lanes == together::LANES
    }

    /// Blocks that a group of threads multiplies at once, or a CTA where it reads them together.
    pub(crate) fn slots(&self) -> u32 {
        if self.is_together() { together::THREADS / self.rows() } else { self.lanes / self.rows() }
    }

    /// Whether the product is of A transposed, which is stored as it is without.
    pub(crate) fn is_transposed(&self) -> bool {
        self.spec.transpose.is_on()
    }

    /// Rows of a block as it is multiplied.
    pub(crate) fn rows(&self) -> u32 {
        sides(&self.spec).0
    }

    /// Columns of a block as it is multiplied.
    pub(crate) fn inner(&self) -> u32 {
        sides(&self.spec).1
    }

    /// Block rows of a CTA.
    pub(crate) fn groups(&self) -> u32 {
        if self.is_together() { self.slots() } else { groups::THREADS / self.lanes }
    }

    pub(crate) fn threads(&self) -> u32 {
        if self.is_together() { together::THREADS } else { groups::THREADS }
    }

    /// Blocks that a thread has in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.is_together() { together::in_flight(&self.spec) } else { groups::in_flight(&self.spec, self.inner()) }
    }

    /// Bytes of shared memory for the products that wait to be added up.
    pub(crate) fn shared_bytes(&self) -> u32 {
        if self.is_together() { together::shared_bytes(&self.spec) } else { 0 }
    }

    /// Bytes of a row of a block as it is stored.
    pub(crate) fn row_bytes(&self) -> u32 {
        self.spec.bk * self.spec.a.bytes()
    }

    /// CTAs of an SM that the kernel leaves registers for.
    pub(crate) fn resident(&self) -> u32 {
        let (spec, arch) = (&self.spec, &self.arch);
        if self.is_together() { together::resident(spec, arch) } else { groups::resident(spec, self.inner(), arch) }
    }
}

/// Rows and columns of a block as it is multiplied.
pub(super) fn sides(spec: &KernelSpec) -> (u32, u32) {
    let product = SparseTimesDense::new(spec);
    (product.rows, product.depth)
}

/// Elements of the widest load that divides runs of `count` elements, the first of which begins on 16 bytes.
fn elements(count: u32, dtype: Dtype) -> u32 {
    let bytes = count * dtype.bytes();
    let widest = 1 << bytes.trailing_zeros();
    LOAD_BYTES.min(widest) / dtype.bytes()
}

#[cfg(test)]
mod tests {
    use super::elements;
    use crate::Dtype;

    #[test]
    fn loads_divide_a_row_of_a_block() {
        for (count, dtype, wanted) in [
            (3, Dtype::F64, 1),
            (4, Dtype::F64, 2),
            (8, Dtype::F32, 4),
            (6, Dtype::F32, 2),
            (5, Dtype::F32, 1),
            (8, Dtype::F16, 8),
            (6, Dtype::BF16, 2),
            (7, Dtype::F16, 1),
        ] {
            assert_eq!(elements(count, dtype), wanted, "{count} of {dtype}");
        }
    }
}
