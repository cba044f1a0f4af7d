//! Step 3: how both factors lie in a stage: TMA boxes, swizzles, WGMMA descriptors.
//!
//! K-major panels have rows along M or N and 128 bytes of K in a row; slots lie one below another, which the swizzle
//! allows since it repeats every 8 rows. MN-major panels have rows along K, and a span of M or N in a row: a slot is
//! one or several of them, so that the slots of a tile are one operand of one WGMMA wherever in memory they are from.
//!
//! Descriptor fields follow the PTX ISA, "Asynchronous warpgroup level matrix shared memory layout".

use super::sides::Sides;
use super::tiling::{Tiling, WG_M, panel_columns};
use crate::plan::Major;

/// Bytes of K in a stage, and of the widest swizzle span.
pub(crate) const SPAN: u32 = 128;

/// One factor's tile within a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) major: Major,
    /// Bytes of an element.
    pub(crate) element: u32,
    /// Swizzle span in bytes; a panel's row.
    pub(crate) span: u32,
    /// Rows of a panel.
    pub(crate) rows: u32,
    /// Panels of the tile.
    pub(crate) panels: u32,
    /// TMA box: elements of a row, rows.
    pub(crate) load: (u32, u32),
    /// Boxes of a slot (of the whole tile, for the rows' factor).
    pub(crate) boxes: u32,
}

impl Tile {
    /// The factor whose rows are those of the blocks: `cta_m` rows.
    pub(crate) fn left(sides: &Sides, tiling: &Tiling) -> Self {
        let element = sides.left.dtype.bytes();
        let depth = SPAN / element;
        match sides.left.major {
            Major::K => Self {
                major: Major::K,
                element,
                span: SPAN,
                rows: tiling.cta_m,
                panels: 1,
                load: (depth, tiling.cta_m),
                boxes: 1,
            },
            Major::Mn => {
                let panels = tiling.cta_m / WG_M;
                Self { major: Major::Mn, element, span: SPAN, rows: depth, panels, load: (WG_M, depth), boxes: panels }
            }
        }
    }

    /// The factor whose columns are those of the blocks: slots of `pitch` columns.
    pub(crate) fn right(sides: &Sides, tiling: &Tiling) -> Self {
        let element = sides.right.dtype.bytes();
        let (depth, pitch) = (SPAN / element, tiling.pitch);
        match sides.right.major {
            Major::K => Self {
                major: Major::K,
                element,
                span: SPAN,
                rows: tiling.cta_n(),
                panels: 1,
                load: (depth, pitch),
                boxes: 1,
            },
            Major::Mn => {
                let columns = panel_columns(pitch, element);
                let span = columns * element;
                Self {
                    major: Major::Mn,
                    element,
                    span,
                    rows: depth,
                    panels: tiling.cta_n() / columns,
                    load: (columns, depth),
                    boxes: pitch / columns,
                }
            }
        }
    }

    /// Bytes of one panel.
    pub(crate) fn panel_bytes(&self) -> u32 {
        self.rows * self.span
    }

    /// Bytes of the tile.
    pub(crate) fn bytes(&self) -> u32 {
        self.panels * self.panel_bytes()
    }

    /// Byte offset of element `k` of the stage's K.
    pub(crate) fn k_offset(&self, k: u32) -> u32 {
        match self.major {
            Major::K => k * self.element,
            Major::Mn => k * self.span,
        }
    }

    /// Byte offset of row or column `mn` of the tile, which begins a panel or 8 rows.
    pub(crate) fn mn_offset(&self, mn: u32) -> u32 {
        match self.major {
            Major::K => mn * self.span,
            Major::Mn => mn / (self.span / self.element) * self.panel_bytes(),
        }
    }

    /// The constant part of the WGMMA matrix descriptor: offsets and swizzle, without the start address. The stride
    /// offset is 8 rows of a span; the leading offset is from panel to panel where M or N is contiguous.
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
