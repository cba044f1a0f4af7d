//! Step 5: how A's and B's tiles lie in a stage: TMA boxes, swizzles, WGMMA descriptors.
//!
//! A tile is one or several *panels*. A panel is what one TMA box column fills: rows of one swizzle span
//! (32, 64 or 128 bytes). K-major panels have rows along M or N and K inside a row; MN-major panels (row-major B)
//! have rows along K and N inside a row. A block that is read transposed lies as it is stored: rows along K, M inside.
//!
//! Descriptor fields follow the PTX ISA, "Asynchronous warpgroup level matrix shared memory layout".

use super::block::{WGMMA_M, box_columns, wgmma_k};
use super::tiling::{Share, Tiling};
use crate::plan::error::{PlanError, PlanErrors};
use crate::plan::kloop::KLoop;
use crate::plan::view::{Major, View};
use crate::{Arch, KernelSpec, Layout};

/// Bytes of K that one WGMMA consumes.
const SPAN_OF_WGMMA: u32 = 32;

/// One operand's tile within one slot of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperandTile {
    pub(crate) major: Major,
    /// Bytes of an element.
    pub(crate) element: u32,
    /// Swizzle span in bytes; a panel's row.
    pub(crate) span: u32,
    /// Rows of a panel.
    pub(crate) rows: u32,
    /// Panels of the tile.
    pub(crate) panels: u32,
    /// Rows of the TMA box (a box is one span wide).
    pub(crate) box_rows: u32,
    /// Rows that lie side by side in one row of a TMA box. A block 32 or 16 columns wide is contiguous memory:
    /// seen as rows of 128 bytes it loads at full speed, where rows of 64 or 32 bytes would not. See
    /// [`OperandTile::row_permutation`].
    pub(crate) fold: u32,
    /// Panels, and boxes along a panel's rows, that one CTA loads.
    pub(crate) loads: (u32, u32),
    /// The tensor map has the block's K extent as a dimension of its own, so that TMA fills with zeros what the last
    /// WGMMA of a block reads beyond it. A whose blocks lie along K is bounded so anyway; without the same for B, a
    /// zero of A would meet whatever lies next in B, and 0 x NaN is NaN.
    pub(crate) by_block: bool,
}

impl OperandTile {
    /// Elements of a span.
    pub(crate) fn span_elements(&self) -> u32 {
        self.span / self.element
    }

    /// Bytes of one panel.
    pub(crate) fn panel_bytes(&self) -> u32 {
        self.rows * self.span
    }

    /// Bytes of the tile.
    pub(crate) fn bytes(&self) -> u32 {
        self.panels * self.panel_bytes()
    }

    /// Boxes along a panel's rows that the stage of `width` elements of K needs.
    pub(crate) fn parts(&self, width: u32) -> u32 {
        match self.major {
            Major::K => self.loads.1,
            Major::Mn => width.div_ceil(self.box_rows),
        }
    }

    /// Bytes that the last stage of a block does not load.
    pub(crate) fn unloaded_bytes(&self, kloop: &KLoop) -> u32 {
        match self.major {
            Major::K => 0,
            Major::Mn => {
                let parts = self.parts(kloop.k_step) - self.parts(kloop.last);
                parts * self.box_rows * self.span * self.panels
            }
        }
    }

    /// Which rows of A a folded tile's rows are: WGMMA's row `q` is A's row `q ^ ((q >> 3) & mask)`.
    ///
    /// TMA swizzles the folded rows over 128 bytes, XORing address bits 4-6 with bits 7-9; WGMMA undoes the
    /// swizzle of its own, narrower span. The bits in which the two differ are row bits: a permutation of rows
    /// within groups of 8, which the epilogue undoes.
    pub(crate) fn row_permutation(&self) -> u32 {
        self.fold - 1
    }

    /// Byte offset of element `k` of the K extent.
    pub(crate) fn k_offset(&self, k: u32) -> u32 {
        match self.major {
            Major::K => k / self.span_elements() * self.panel_bytes() + k % self.span_elements() * self.element,
            Major::Mn => k * self.span,
        }
    }

    /// Byte offset of row or column `mn` of the tile.
    pub(crate) fn mn_offset(&self, mn: u32) -> u32 {
        match self.major {
            Major::K => mn * self.span,
            Major::Mn => mn / self.span_elements() * self.panel_bytes(),
        }
    }

    /// The constant part of the WGMMA matrix descriptor: offsets and swizzle, without the start address.
    ///
    /// Stride offset: 8 rows of one span. Leading offset: from panel to panel for MN-major operands; unused by
    /// swizzled K-major ones, whose K extent of one instruction (32 bytes) never leaves a span.
    pub(crate) fn descriptor(&self) -> u64 {
        let leading = match self.major {
            Major::K => 1,
            Major::Mn => self.panel_bytes() >> 4,
        };
        let stride = (8 * self.span) >> 4;
        let swizzle: u64 = match self.span {
            128 => 1,
            64 => 2,
            _ => 3,
        };
        u64::from(leading) << 16 | u64::from(stride) << 32 | swizzle << 62
    }
}

/// A's tile, `cta_m` rows: K-major, or MN-major where blocks are read transposed.
pub(crate) fn plan_a(
    spec: &KernelSpec,
    view: &View,
    tiling: &Tiling,
    kloop: &KLoop,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> OperandTile {
    let parts = if tiling.share == Share::A { tiling.cluster } else { 1 };
    let element = view.sparse_type.bytes();
    if view.sparse == Major::Mn {
        let span = span(spec, WGMMA_M * element, errors);
        return along_mn((span, element), tiling.cta_m, parts, kloop, true, arch);
    }
    let span = span(spec, kloop.k_step * element, errors);
    let panels = (kloop.k_step * element).div_ceil(span);
    // The epilogue undoes the row permutation where it addresses rows one by one: in 16-bit row-major staging.
    let folds =
        spec.swizzle.is_none() && view.depth * element == span && view.out == Layout::RowMajor && spec.out.bytes() == 2;
    OperandTile {
        major: Major::K,
        element,
        span,
        rows: tiling.cta_m,
        panels,
        box_rows: tiling.cta_m / parts,
        fold: if folds { 128 / span } else { 1 },
        loads: (panels, 1),
        by_block: false,
    }
}

/// B's tile: MN-major when B is row-major, K-major when it is column-major.
pub(crate) fn plan_b(
    spec: &KernelSpec,
    view: &View,
    tiling: &Tiling,
    kloop: &KLoop,
    arch: &Arch,
    errors: &mut PlanErrors,
) -> OperandTile {
    let parts = if tiling.share == Share::B { tiling.cluster } else { 1 };
    let element = view.dense_type.bytes();
    let by_block = kloop.padded(wgmma_k(spec.a));
    match view.dense {
        Layout::RowMajor => {
            let span = span(spec, box_columns(tiling.wg_n) * element, errors);
            along_mn((span, element), tiling.cta_n, parts, kloop, by_block, arch)
        }
        Layout::ColMajor => {
            let span = span(spec, kloop.k_step * element, errors);
            let panels = (kloop.k_step * element).div_ceil(span);
            let rows = tiling.cta_n / parts;
            let boxes = rows.div_ceil(arch.tma_box);
            let box_rows = rows / boxes;
            OperandTile {
                major: Major::K,
                element,
                span,
                rows: tiling.cta_n,
                panels,
                box_rows,
                fold: 1,
                loads: (panels, boxes),
                by_block,
            }
        }
    }
}

/// An MN-major tile of `extent` rows or columns, of which a CTA loads one of `parts`.
fn along_mn(
    (span, element): (u32, u32),
    extent: u32,
    parts: u32,
    kloop: &KLoop,
    by_block: bool,
    arch: &Arch,
) -> OperandTile {
    let panels = extent / (span / element);
    // Whole WGMMAs along K.
    let rows = kloop.pitch(SPAN_OF_WGMMA / element);
    // One box for a stage where TMA knows the end of a block; else boxes of which both a full stage and a block's last,
    // shorter one take whole numbers.
    let mut box_rows = if by_block { rows } else { gcd(rows, kloop.last) };
    while box_rows > arch.tma_box {
        box_rows /= 2;
    }
    OperandTile {
        major: Major::Mn,
        element,
        span,
        rows,
        panels,
        box_rows,
        fold: 1,
        loads: ((panels / parts).max(1), rows / box_rows),
        by_block,
    }
}

/// The widest swizzle span that `bytes` contiguous bytes fill, or the one that the spec asks for.
fn span(spec: &KernelSpec, bytes: u32, errors: &mut PlanErrors) -> u32 {
    let widest = bytes.next_power_of_two().clamp(32, 128);
    match spec.swizzle {
        None => widest,
        Some(s @ (32 | 64 | 128)) => s.min(widest),
        Some(other) => {
            let help = "swizzle = 128";
            let already = errors.iter().any(|e| e.key() == "swizzle");
            if !already {
                errors.push(PlanError::new(
                    "swizzle",
                    format!("a swizzle of {other} bytes does not exist"),
                    "TMA and WGMMA agree on spans of 32, 64 and 128 bytes",
                    help,
                ));
            }
            widest
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
