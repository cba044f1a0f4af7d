//! Tables in the width of the terminal.

use comfy_table::{ContentArrangement, Table};

/// Narrower than this no table is made.
const LEAST: u16 = 40;

/// The table with its long cells in several lines, where a terminal shows it; in a file or a pipe a row is a line.
pub(super) fn fitted(mut table: Table) -> Table {
    if let Some(width) = columns() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(LEAST));
    }
    table
}

/// What `COLUMNS` says, or the terminal.
pub(super) fn columns() -> Option<u16> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    said.or_else(|| Some(terminal_size::terminal_size_of(std::io::stdout())?.0.0))
}
