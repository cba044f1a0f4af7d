//! The layout of an operand's tile in a stage: TMA boxes, swizzles, WGMMA descriptors.
//!
//! A tile is one or several *panels*. A panel is what one TMA box column fills: rows of one swizzle span
//! (32, 64 or 128 bytes). K-major panels have rows along M or N and K inside a row; MN-major panels (row-major B)
//! have rows along K and N inside a row. A block that is read transposed has its stored layout: rows along K, M inside.
//!
//! Descriptor fields follow the PTX ISA, "Asynchronous warpgroup level matrix shared memory layout".

use crate::plan::{KLoop, Major};

/// One operand's tile within one sub-stage of a stage.
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
    /// Rows that are adjacent in one row of a TMA box. A block 32 or 16 columns wide is contiguous memory:
    /// seen as rows of 128 bytes it loads at full speed, where rows of 64 or 32 bytes would not. See
    /// [`OperandTile::row_permutation`].
    pub(crate) rows_per_line: u32,
    /// Panels, and boxes along a panel's rows, that one CTA loads.
    pub(crate) loads: (u32, u32),
    /// The tensor map has the block's K extent as a dimension of its own, so that TMA fills with zeros what the last
    /// WGMMA of a block reads beyond it. A with blocks along K is bounded anyway; without the same for B, a
    /// zero of A would be multiplied with the next elements of B, and 0 x NaN is NaN.
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

    /// Which rows of A the packed rows of a tile are: WGMMA's row `q` is A's row `q ^ ((q >> 3) & mask)`.
    ///
    /// TMA swizzles the packed rows over 128 bytes, XORing address bits 4-6 with bits 7-9; WGMMA undoes the
    /// swizzle of its own, narrower span. The bits in which the two differ are row bits: a permutation of rows
    /// within groups of 8, which the epilogue undoes.
    pub(crate) fn row_permutation(&self) -> u32 {
        self.rows_per_line - 1
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

/// Can `columns` be loaded as whole boxes of equal width, at least 16 columns?
pub(crate) fn whole_boxes(columns: u32) -> bool {
    columns == 16 || (columns > 0 && columns.is_multiple_of(32))
}

/// The widest box, up to 64 columns, of which `columns` is a whole number.
pub(crate) fn box_columns(columns: u32) -> u32 {
    [64, 32].into_iter().find(|width| columns.is_multiple_of(*width)).unwrap_or(16)
}
