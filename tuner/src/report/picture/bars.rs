//! Block sizes beside each other: for each product a bar for each size, as long as its time.

use super::super::blocks::{BlockRow, BlockSizes};
use super::svg::{Svg, WIDTH};

const LABEL: f64 = 90.0;
/// Pixels of a bar with the space below it, and of a heading.
const ROW: f64 = 20.0;
const HEADING: f64 = 26.0;
/// Pixels to the right of the longest bar, for its words.
const WORDS: f64 = 430.0;

/// The picture of all products, one below the other. Bars of one product are to one scale.
pub(in crate::report) fn draw(products: &[BlockSizes]) -> Svg {
    let height = products.iter().map(|product| HEADING + ROW * product.rows.len() as f64).sum::<f64>() + 8.0;
    let mut svg = Svg::new(WIDTH, height);
    let mut y = 0.0;
    for product in products {
        y += HEADING;
        svg.text([0.0, y - 8.0], "title", &product.product);
        let times = || product.rows.iter().map(|row| row.us);
        let (longest, shortest) = (times().fold(f64::MIN_POSITIVE, f64::max), times().fold(f64::INFINITY, f64::min));
        for row in &product.rows {
            let width = (WIDTH - LABEL - WORDS) * row.us / longest;
            let class = if row.us <= shortest { "odd" } else { "even" };
            svg.text([LABEL - 8.0, y + 12.0], "end", &row.cells[0]);
            svg.rect([LABEL, y, width, ROW - 5.0], class, &row.cells[6]);
            svg.text([LABEL + width + 8.0, y + 12.0], "", &words(product, row));
            y += ROW;
        }
    }
    svg
}

/// `44.1 us, 391 TFLOP/s, 0.670 of the dense library, 3.8x cuSPARSE`
fn words(product: &BlockSizes, row: &BlockRow) -> String {
    let [_, _, us, tflops, ratio, cusparse, _] = &row.cells;
    let known = |cell: &str, words: &str| if cell == "-" { String::new() } else { format!(", {cell} {words}") };
    let unit = product.head[2];
    format!(
        "{us} {unit}{}{}{}",
        known(tflops, "TFLOP/s"),
        known(ratio, "of the dense library"),
        known(cusparse, "cuSPARSE")
    )
}
