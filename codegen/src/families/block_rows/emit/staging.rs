//! The staging buffer: where a thread's fragments go, and what writes and reads them.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Epilogue};
use crate::Layout;
use crate::hopper::permuted::swizzle;
use crate::hopper::store::{Variant, address, variants};

/// Where a thread's fragments go in the staging buffer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StagingContext {
    /// Which of the sections addresses the buffer.
    kind: &'static str,
    bytes: u32,
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    unit_bytes: u32,
    row_permutation: u32,
    rows_per_line: u32,
    variants: Vec<Variant>,
}

/// The layout of accumulators in staging: bytes of an element of C, and C's layout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Staging {
    Row8,
    Col8,
    Row16,
    Col16,
    Row32,
    Col32,
}

impl Staging {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        match (plan.spec.out.bytes(), plan.view.out) {
            (1, Layout::RowMajor) => Self::Row8,
            (1, Layout::ColMajor) => Self::Col8,
            (2, Layout::RowMajor) => Self::Row16,
            (2, Layout::ColMajor) => Self::Col16,
            (_, Layout::RowMajor) => Self::Row32,
            (_, Layout::ColMajor) => Self::Col32,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Row8 => "8-bit row-major",
            Self::Col8 => "8-bit column-major",
            Self::Row16 => "16-bit row-major",
            Self::Col16 => "16-bit column-major",
            Self::Row32 => "32-bit row-major",
            Self::Col32 => "32-bit column-major",
        }
    }

    /// The instruction that writes fragments to the buffer.
    pub(super) fn write(self) -> &'static str {
        match self {
            Self::Row8 => "st.shared.b16",
            Self::Col8 => "st.shared.b8",
            Self::Row16 => "stmatrix.sync.aligned.m8n8.x4.shared.b16",
            Self::Col16 => "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            Self::Row32 => "st.shared.v2.b32",
            Self::Col32 => "st.shared.b32",
        }
    }

    /// The instruction that reads back what `write` writes, to the same threads.
    pub(super) fn read(self) -> &'static str {
        match self {
            Self::Row8 | Self::Col8 => "",
            Self::Row16 => "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
            Self::Col16 => "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            Self::Row32 => "ld.shared.v2.f32",
            Self::Col32 => "ld.shared.f32",
        }
    }

    pub(super) fn row_major(self) -> bool {
        matches!(self, Self::Row8 | Self::Row16 | Self::Row32)
    }

    /// Where 16 rows of columns 16 q .. 16 q + 16 of a region go.
    pub(super) fn address_16(self, e: &Epilogue, q: u32, at: u32) -> String {
        match self.row_major() {
            true => address(&format!("%r_st{q}"), at),
            false => address("%r_st0", at + q * 16 * e.span),
        }
    }

    /// Where two columns of 8 t .. 8 t + 8 of a region go.
    pub(super) fn address_32_row(self, e: &Epilogue, (t, half): (u32, u32), at: u32) -> String {
        let (unit_bytes, per_unit) = (e.region_bytes / e.stores, e.span / 32);
        address(&format!("%r_st{}", t % per_unit), at + t / per_unit * unit_bytes + half * 8 * e.span)
    }

    /// Where one of them goes.
    pub(super) fn address_32_col(self, e: &Epilogue, (t, half, column): (u32, u32, u32), at: u32) -> String {
        address(&format!("%r_st{}", 2 * half + column), at + t * 8 * e.span + column * e.span)
    }

    pub(super) fn is_16_bit(self) -> bool {
        matches!(self, Self::Row16 | Self::Col16)
    }
}

impl StagingContext {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let e = &plan.epilogue;
        let staging = Staging::new(plan);
        let (swizzle_shift, swizzle_mask) = swizzle(e.span);
        Self {
            kind: staging.words(),
            bytes: e.staging_bytes(),
            span: e.span,
            swizzle_shift,
            swizzle_mask,
            unit_bytes: e.region_bytes / e.stores,
            row_permutation: plan.a.row_permutation(),
            rows_per_line: plan.a.rows_per_line,
            variants: match staging {
                Staging::Row16 | Staging::Row32 => variants((0..e.span / 32).map(|q| q * 32)),
                Staging::Row8 => variants((0..e.span / 16).map(|q| q * 16)),
                Staging::Col8 | Staging::Col16 => vec![],
                Staging::Col32 => variants((0..4).map(|v| v / 2 * 32 + v % 2 * 16)),
            },
        }
    }
}
