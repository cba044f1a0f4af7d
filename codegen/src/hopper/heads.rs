//! Tensors of heads: how rows of a head lie in shared memory, which boxes fill them, and how a consumer stages its sums there
//! before TMA stores them.

use serde::Serialize;

use super::OperandTile;
use crate::plan::{KernelKind, Major, Operand, Profile, StridedMap, TensorStrides};
use crate::{Dtype, KernelSpec};

/// Bytes of the widest swizzle span that divides rows of so many bytes.
pub(crate) fn span(lines: impl IntoIterator<Item = u32> + Clone) -> u32 {
    let divides = |span: &u32| lines.clone().into_iter().all(|line| line.is_multiple_of(*span));
    [128, 64].into_iter().find(divides).unwrap_or(32)
}

/// A tile of `rows` rows of a head, `line` bytes each, in panels of `span` bytes; a box has `box_rows` of them.
pub(crate) fn tile(dtype: Dtype, major: Major, (rows, box_rows): (u32, u32), line: u32, span: u32) -> OperandTile {
    OperandTile {
        major,
        element: dtype.bytes(),
        span,
        rows,
        panels: line / span,
        box_rows,
        rows_per_line: 1,
        loads: (line / span, 1),
        by_block: false,
    }
}

/// What the cost model reads of a kernel: tiles of so many rows and columns, and a ring of steps, of which a block of `block`
/// rows on the other side takes several.
pub(crate) fn profile((rows, columns): (u32, u32), consumers: u32, (step, stages): (u32, u32), block: u32) -> Profile {
    Profile {
        kind: KernelKind::Attention,
        cta_m: rows,
        cta_n: columns,
        consumers,
        share: (rows / consumers, columns),
        instruction_n: step,
        stages,
        stage_k: step,
        held_k: step,
        stages_per_block: ((block / step).max(1), 1),
        ..Profile::PLAIN
    }
}

/// The tensor map of an operand of `columns` columns: rows, heads and problems are `sizes`.
pub(crate) fn map(
    spec: &KernelSpec,
    (operand, columns): (Operand, u64),
    tile: &OperandTile,
    sizes: [u64; 3],
    TensorStrides { row, head, batch }: TensorStrides,
) -> StridedMap {
    let [rows, heads, problems] = sizes.map(|size| size.max(1));
    let dtype = if operand == Operand::C { spec.out } else { spec.a };
    StridedMap {
        operand,
        dtype,
        dims: [columns, rows, heads, problems],
        strides_bytes: [row, head, batch].map(|stride| (stride * u64::from(dtype.bytes())).max(16)),
        box_dims: [tile.span_elements(), tile.box_rows, 1, 1],
        swizzle_bytes: tile.span,
    }
}

/// The boxes of one load, and its bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Boxes {
    pub(crate) bytes: u32,
    panels: Vec<Panel>,
}

#[derive(Clone, Debug, Serialize)]
struct Panel {
    column: u32,
    /// Which run of rows it is, as the end of a register's name.
    run: String,
    offset: u32,
}

/// The boxes of all rows, run by run; `name` is what ends the name of a run's register.
pub(crate) fn boxes(tile: &OperandTile, name: impl Fn(u32) -> String) -> Boxes {
    let panel = |run: u32, number: u32| Panel {
        column: number * tile.span_elements(),
        run: name(run),
        offset: number * tile.panel_bytes() + run * tile.box_rows * tile.span,
    };
    let places = (0..tile.rows / tile.box_rows).flat_map(|run| (0..tile.panels).map(move |number| (run, number)));
    Boxes { bytes: tile.bytes(), panels: places.map(|(run, number)| panel(run, number)).collect() }
}

/// The boxes of a tile whose columns are those of so many runs, one after the other: all rows of a panel in each.
pub(crate) fn boxes_of_runs(tile: &OperandTile, runs: u32) -> Boxes {
    let of_run = tile.panels / runs;
    let panel = |number: u32| Panel {
        column: number % of_run * tile.span_elements(),
        run: (number / of_run).to_string(),
        offset: number * tile.panel_bytes(),
    };
    Boxes { bytes: tile.bytes(), panels: (0..tile.panels).map(panel).collect() }
}

/// 16 columns of a result that `stmatrix` writes at once.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Write {
    /// What becomes of the sums: register, upper and lower half.
    packs: Vec<[String; 3]>,
    registers: String,
    /// The address of the swizzled vector within a panel, and bytes to the panel.
    at: String,
    panel: u32,
}

/// An address register, and the bits by which its vector differs from the first one's.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Variant {
    register: String,
    flip: u32,
}

/// A box that is stored: columns from the first, bytes from the start of the consumer's part.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Store {
    column: u32,
    offset: u32,
}

/// Each 16 columns of a result, whose sums are in registers `sum`, through registers of packed pairs.
pub(crate) fn writes(tile: &OperandTile, sum: impl Fn(u32) -> String) -> Vec<Write> {
    let per_panel = tile.span / 32;
    let write = |chunk: u32| {
        let pack = |i: u32| [packed(i), sum(8 * chunk + 2 * i + 1), sum(8 * chunk + 2 * i)];
        Write {
            packs: (0..4).map(pack).collect(),
            registers: format!("{{ {} }}", (0..4).map(packed).collect::<Vec<_>>().join(", ")),
            at: variant(chunk % per_panel),
            panel: chunk / per_panel * tile.panel_bytes(),
        }
    };
    (0..tile.panels * per_panel).map(write).collect()
}

pub(crate) fn variants(tile: &OperandTile) -> Vec<Variant> {
    (0..tile.span / 32).map(|number| Variant { register: variant(number), flip: 32 * number }).collect()
}

pub(crate) fn stores(tile: &OperandTile) -> Vec<Store> {
    let panel = |number: u32| Store { column: number * tile.span_elements(), offset: number * tile.panel_bytes() };
    (0..tile.panels).map(panel).collect()
}

fn packed(i: u32) -> String {
    format!("%r_pack{i}")
}

fn variant(number: u32) -> String {
    format!("%r_st{number}")
}
