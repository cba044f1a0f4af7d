//! The picture: two losses, one on top of the other.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

const SPARSE: RGBColor = RGBColor(31, 111, 180);
const MASKED: RGBColor = RGBColor(236, 151, 31);

/// Draws the losses of every step, with sparse kernels and dense and masked.
pub(crate) fn draw(path: &Path, losses: &[[f64; 2]], engine: &str) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, (900, 480)).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || losses.iter().flatten().copied();
    let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN_POSITIVE, f64::max));
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("A block-sparse linear layer, trained on {engine}"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0..losses.len(), (least * 0.8..most * 1.2).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("step")
        .y_desc("loss")
        .y_label_formatter(&|loss| format!("{loss:.3}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    let points = |which: usize| -> Vec<(usize, f64)> {
        losses.iter().enumerate().map(|(step, pair)| (step, pair[which])).collect()
    };
    chart
        .draw_series([PathElement::new(points(1), MASKED.stroke_width(6))])?
        .label("dense and masked, f32")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 22, y)], MASKED.stroke_width(6)));
    chart
        .draw_series([PathElement::new(points(0), SPARSE.stroke_width(2))])?
        .label("dds and sdd kernels, f16 factors")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 22, y)], SPARSE.stroke_width(2)));
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK.mix(0.2))
        .label_font(("sans-serif", 13))
        .draw()?;
    root.present()?;
    Ok(())
}
