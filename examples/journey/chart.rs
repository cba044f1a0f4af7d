//! The picture: a pair of bars for every step.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::measure::Row;

const OURS: RGBColor = RGBColor(31, 111, 180);
const REPORTED: RGBColor = RGBColor(176, 176, 176);
const DENSE: RGBColor = RGBColor(40, 40, 40);
/// Pixels of one step.
const STEP: u32 = 44;

/// Draws the rows, first on top.
pub(crate) fn draw(path: &Path, rows: &[Row], gpu: &str) -> Result<(), Box<dyn Error>> {
    let count = rows.len();
    let root = SVGBackend::new(path, (900, 150 + STEP * count as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let fastest = rows.iter().flat_map(|row| [row.tflops, row.dense.unwrap_or(0.0)]).fold(0.0, f64::max);
    let title = format!("One product, ten kernels: TFLOP/s executed on {gpu}");
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .margin_bottom(38)
        .x_label_area_size(36)
        .y_label_area_size(170)
        .build_cartesian_2d(0.0..fastest * 1.12, 0.0..count as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("TFLOP/s, 2 x stored blocks x 512 x 112 x N / time; cold L2, median")
        .x_label_formatter(&|tflops| format!("{tflops:.0}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (i, row) in rows.iter().enumerate() {
        let top = (count - i) as f64;
        let bar = |from: f64, to: f64, tflops: f64, color: RGBColor| {
            Rectangle::new([(0.0, top - from), (tflops, top - to)], color.filled())
        };
        chart.draw_series([bar(0.14, 0.56, row.tflops, OURS)])?;
        // In the bar where the library's line stands beside it: beyond that it would be the line's.
        let is_beside = row.dense.is_some_and(|dense| (row.tflops..row.tflops + fastest * 0.06).contains(&dense));
        let (side, color, at) = match is_beside {
            true => (HPos::Right, &WHITE, row.tflops - fastest * 0.008),
            false => (HPos::Left, &BLACK, row.tflops + fastest * 0.008),
        };
        let style = ("sans-serif", 13).into_text_style(&root).color(color).pos(Pos::new(side, VPos::Top));
        chart.draw_series([Text::new(format!("{:.0}", row.tflops), (at, top - 0.2), style)])?;
        if let Some(reported) = row.reported {
            chart.draw_series([bar(0.60, 0.86, reported, REPORTED)])?;
        }
        if let Some(dense) = row.dense {
            let line = [(dense, top - 0.06), (dense, top - 0.64)];
            chart.draw_series([PathElement::new(line.to_vec(), DENSE.stroke_width(2))])?;
        }
        let (x, y) = chart.backend_coord(&(0.0, top - 0.5));
        let style = ("sans-serif", 14).into_text_style(&root);
        root.draw(&Text::new(row.name, (x - 164, y - 8), style))?;
    }
    legend(&root, 136 + STEP as i32 * count as i32)?;
    root.present()?;
    Ok(())
}

/// What the colours are, along the bottom edge.
fn legend(root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, y: i32) -> Result<(), Box<dyn Error>> {
    let style = ("sans-serif", 13).into_text_style(root);
    for (x, color, words) in [
        (190, OURS, "here"),
        (260, REPORTED, "reported for an H100 (607 counted work not done)"),
        (590, DENSE, "cuBLASLt on equal work"),
    ] {
        root.draw(&Rectangle::new([(x, y - 10), (x + 12, y)], color.filled()))?;
        root.draw(&Text::new(words, (x + 18, y - 11), style.clone()))?;
    }
    Ok(())
}
