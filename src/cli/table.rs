//! Tables in Markdown, in the width of the terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Narrower than this no table is made.
const LEAST: u16 = 40;

/// A table with this heading. The columns of these titles are text; all others are numbers, flush right.
pub(super) fn markdown<T: AsRef<str>>(head: impl IntoIterator<Item = T>, text: &[&str]) -> Table {
    let head: Vec<T> = head.into_iter().collect();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(head.iter().map(T::as_ref));
    for (column, title) in table.column_iter_mut().zip(&head) {
        if !text.contains(&title.as_ref()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A fraction as a cell: `12.5 %`.
pub(super) fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

/// A cell, which may be empty.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

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
