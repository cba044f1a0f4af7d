//! Block sizes of one product beside each other, as `bsr sweep` and `bsr report` print them.

use std::io::Write;

use bsr_tuner::report::BlockSizes;

use super::line;
use super::table::{fitted, markdown};

/// One product in blocks of several sizes.
pub(super) fn print(sizes: &BlockSizes, out: &mut dyn Write) -> std::io::Result<()> {
    line(out, "blocks", &sizes.product)?;
    line(out, "device", &sizes.device)?;
    if let Some(warning) = sizes.warning {
        line(out, "warning", warning)?;
    }
    let mut table = markdown(sizes.head, &["best kernel"]);
    table.add_rows(sizes.rows.iter().map(|row| row.cells.as_slice()));
    writeln!(out, "\n{}\n", fitted(table))?;
    line(out, "fastest", &sizes.verdict)
}
