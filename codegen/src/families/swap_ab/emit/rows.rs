//! Rows of C in an order of the launch.

/// Threads of a warpgroup.
const THREADS: u32 = 128;
/// Bytes that one of them moves at a time.
const PIECE: u32 = 16;

/// How lines of C lie in staging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    /// Bytes of a line of one unit.
    pub(crate) span: u32,
    /// The swizzle: pieces of a line are XORed with these bits of its number.
    pub(crate) shift: u32,
    pub(crate) mask: u32,
    /// Lines of a unit.
    pub(crate) rows: u32,
    /// Bytes of an element.
    pub(crate) bytes: u32,
}

impl Staged {
    /// The lines before the first unit of a pass: which pieces of a line are this thread's.
    pub(crate) fn begin(&self) -> Vec<String> {
        let pieces = self.span / PIECE;
        [
            "ld.param.u32 %r_m, [m]".to_owned(),
            "ld.param.u32 %r_n, [n]".to_owned(),
            "ld.param.u32 %r_c_line, [c_line]".to_owned(),
            "ld.param.u64 %rd_c, [c]".to_owned(),
            "ld.param.u64 %rd_order, [order]".to_owned(),
            "cvta.to.global.u64 %rd_c, %rd_c".to_owned(),
            "cvta.to.global.u64 %rd_order, %rd_order".to_owned(),
            "and.b32 %r_piece, %r_tid, 127".to_owned(),
            format!("shr.u32 %r_piece_row, %r_piece, {}", pieces.trailing_zeros()),
            format!("and.b32 %r_piece, %r_piece, {}", pieces - 1),
            format!("mad.lo.u32 %r_piece_col, %r_piece, {}, %r_out_col", PIECE / self.bytes),
            format!("shr.u32 %r_t, %r_piece_row, {}", self.shift),
            format!("and.b32 %r_t, %r_t, {}", self.mask),
            "xor.b32 %r_t, %r_t, %r_piece".to_owned(),
            format!("mad.lo.u32 %r_piece_at, %r_t, {PIECE}, %r_staging"),
            format!("mad.lo.u32 %r_piece_at, %r_piece_row, {}, %r_piece_at", self.span),
        ]
        .to_vec()
    }

    /// A unit that is staged from byte `offset` on: lines of C from `row` of the tile on, and columns from `column` on.
    pub(crate) fn unit(&self, offset: u32, (row, column): (u32, u32)) -> Vec<String> {
        let mut lines = vec![
            format!("add.u32 %r_to_col, %r_piece_col, {column}"),
            "setp.lt.u32 %p_col, %r_to_col, %r_n".to_owned(),
        ];
        // As many lines at a time: a multiple of the 8 after which a swizzle repeats.
        let together = THREADS * PIECE / self.span;
        for first in (0..self.rows).step_by(together as usize) {
            lines.push("add.u32 %r_to_row, %r_out_row, %r_piece_row".to_owned());
            lines.push(format!("add.u32 %r_to_row, %r_to_row, {}", row + first));
            lines.push("setp.lt.and.u32 %p_t, %r_to_row, %r_m, %p_col".to_owned());
            if first + together > self.rows {
                lines.push(format!("setp.lt.and.u32 %p_t, %r_piece_row, {}, %p_t", self.rows - first));
            }
            lines.push("mad.wide.u32 %rd_t, %r_to_row, 4, %rd_order".to_owned());
            lines.push("@%p_t ld.global.nc.u32 %r_to_row, [%rd_t]".to_owned());
            let words = "{ %r_word0, %r_word1, %r_word2, %r_word3 }";
            let at = offset + first * self.span;
            lines.push(format!("@%p_t ld.shared.v4.u32 {words}, [%r_piece_at + {at}]"));
            lines.push("mul.wide.u32 %rd_t, %r_to_row, %r_c_line".to_owned());
            lines.push(format!("shl.b64 %rd_t, %rd_t, {}", PIECE.trailing_zeros()));
            lines.push("add.s64 %rd_t, %rd_t, %rd_c".to_owned());
            lines.push(format!("mad.wide.u32 %rd_t, %r_to_col, {}, %rd_t", self.bytes));
            lines.push(format!("@%p_t st.global.v4.u32 [%rd_t], {words}"));
        }
        lines
    }
}
