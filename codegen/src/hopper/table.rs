//! Rows of a plan's table that the families of Hopper have in common.

use super::ring::Ring;
use super::{OperandTile, Roles};
use crate::epilogue::Program;
use crate::plan::Major;
use crate::{Arch, Dtype, KernelSpec};

/// What, how much, why.
pub(crate) type Row = [String; 3];

pub(crate) fn row(what: &str, value: impl Into<String>, why: impl Into<String>) -> Row {
    [what.to_owned(), value.into(), why.into()]
}

/// The row of a kernel for a list of problems, with this many tensor maps each.
pub(crate) fn batch(spec: &KernelSpec, maps: u32) -> Option<Row> {
    let why = format!("{maps} tensor maps per problem, in global memory");
    spec.batch.is_on().then(|| row("batch", "a list of problems", why))
}

/// A block of values of a type, `of` what.
pub(crate) fn block(what: &str, spec: &KernelSpec, dtype: Dtype, of: &str) -> Row {
    let KernelSpec { bm, bk, .. } = *spec;
    row(what, format!("{bm} x {bk}"), format!("{dtype} values{of}, {} B per block", bm * bk * dtype.bytes()))
}

/// Threads and registers of the roles, and what the accumulators take of these.
pub(crate) fn roles(roles: &Roles, (accumulators, why): (u32, String)) -> [Row; 3] {
    let Roles { consumers, threads, resident, entry_registers: entry, producer_registers, consumer_registers } = *roles;
    let (producer, consumer, warpgroups) = (producer_registers, consumer_registers, consumers + 1);
    let sum = producer + consumers * consumer;
    let budget = format!("{producer} + {consumers} x {consumer} = {sum} <= {entry} x {warpgroups} at entry");
    let warpgroup = threads / warpgroups;
    let sharing = if resident > 1 { format!("; an SM holds {resident} CTAs") } else { String::new() };
    [
        row("threads", threads.to_string(), format!("({consumers} consumers + 1 producer) x {warpgroup}{sharing}")),
        row("accumulators", format!("{accumulators} registers"), why),
        row("registers", format!("{producer} | {consumer}"), format!("producer | consumer; {budget}")),
    ]
}

/// The layout of an operand in shared memory. `across` names the major order of one whose rows run along K.
pub(crate) fn operand(name: &str, tile: &OperandTile, across: &str) -> Row {
    let OperandTile { panels, rows, span, box_rows, rows_per_line, .. } = *tile;
    let major = if tile.major == Major::K { "K-major" } else { across };
    let (width, height) = (tile.span_elements() * rows_per_line, box_rows / rows_per_line);
    let layout = format!("{panels} swizzle panel(s) of {rows} rows x {span} B, {major}; TMA box {width} x {height}");
    row(name, format!("{} B", tile.bytes()), layout)
}

/// The staging of C: its position and bytes, `parts` in words of each consumer, and the subtiles of a tile.
pub(crate) fn staging((at, bytes): (u32, u32), consumers: u32, parts: &str, subtiles: u32) -> Row {
    row(
        "staging",
        format!("{bytes} B"),
        format!("at {at}: {consumers} consumers x {parts}, {subtiles} subtile(s) per tile"),
    )
}

pub(crate) fn barriers(ring: &Ring) -> Row {
    let (full, empty, arrivals) = (ring.full_offset, ring.empty_offset(), ring.empty_arrivals);
    row("barriers", (2 * ring.stages).to_string(), format!("full at {full}, empty at {empty} ({arrivals} arrivals)"))
}

pub(crate) fn shared_memory(total: u32, arch: &Arch) -> Row {
    let left = arch.shared_bytes.saturating_sub(total);
    row("shared memory", format!("{total} B"), format!("{left} B left of {} B", arch.shared_bytes))
}

/// The score of an attention, or of its gradient.
pub(crate) fn score(program: Option<&Program>) -> Row {
    let partial = program.map(|program| format!("in full blocks; in partial ones {}", program.text()));
    row("score", "s * scale", partial.unwrap_or_else(|| "in all blocks".to_owned()))
}

/// When a tile is stored: packed registers in so many stages of the next tile, or before that begins.
pub(crate) fn store_order(overlapped: Option<(u32, u32)>) -> Row {
    match overlapped {
        Some((registers, stages)) => {
            let why = format!("{registers} packed registers are stored during the next tile's first {stages} stage(s)");
            row("epilogue", "overlapped", why)
        }
        None => row("epilogue", "serial", "the tile is stored before the next one starts"),
    }
}

/// The spec's epilogue: `when` in words, and the full operand that it reads through staging, whose barriers are at an offset.
pub(crate) fn function(program: &Program, when: &str, operand: Option<(usize, u32)>) -> Row {
    let inputs = program.inputs();
    let mut why = format!("{}{when}", program.text());
    if let Some((input, at)) = operand {
        why += &format!("; `{}` is loaded into staging, its barriers at {at}", inputs[input].name);
    }
    row("function", format!("{} parameter(s)", inputs.len()), why)
}

pub(crate) fn store((inner, outer): (u32, u32), layout: String) -> Row {
    row("C store", format!("box {inner} x {outer}"), layout)
}
