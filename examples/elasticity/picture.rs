//! The beam as a grid of nodes, and the picture of it.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

/// The weight of a cube, so that Young's modulus is a million of it.
const WEIGHT: f64 = 1e-6;

const BEFORE: RGBColor = RGBColor(170, 170, 170);
const AFTER: RGBColor = RGBColor(31, 111, 180);

/// A beam of cubes, clamped at x = 0.
pub(crate) struct Beam {
    pub(crate) cells: [usize; 3],
}

impl Beam {
    pub(crate) fn new(cells: [usize; 3]) -> Self {
        Self { cells }
    }

    /// The block row of a node, unless it is clamped.
    fn row(&self, [x, y, z]: [usize; 3]) -> Option<usize> {
        let [width, depth, _] = self.cells;
        x.checked_sub(1).map(|x| x + width * (y + (depth + 1) * z))
    }

    fn nodes(&self) -> impl Iterator<Item = [usize; 3]> + '_ {
        let [width, depth, height] = self.cells;
        (0..=height).flat_map(move |z| (0..=depth).flat_map(move |y| (0..=width).map(move |x| [x, y, z])))
    }

    /// Its weight, downwards: an eighth of a cube's at each of the cube's corners.
    pub(crate) fn weight(&self) -> Vec<f64> {
        let [width, depth, height] = self.cells;
        let mut load = vec![0.0; 3 * width * (depth + 1) * (height + 1)];
        for node in self.nodes() {
            let cubes: usize =
                (0..3).map(|axis| 1 + usize::from((1..self.cells[axis]).contains(&node[axis]))).product();
            if let Some(row) = self.row(node) {
                load[3 * row + 2] = -WEIGHT * cubes as f64 / 8.0;
            }
        }
        load
    }

    /// The displacement of a node.
    fn moved(&self, x: &[f64], node: [usize; 3]) -> [f64; 3] {
        self.row(node).map_or([0.0; 3], |row| [0, 1, 2].map(|axis| x[3 * row + axis]))
    }

    /// How far the middle of the free end sinks, in sides of a cube.
    pub(crate) fn tip(&self, x: &[f64]) -> f64 {
        let [width, depth, height] = self.cells;
        -self.moved(x, [width, depth / 2, height / 2])[2]
    }

    /// The same of Euler and Bernoulli's beam, q L^4 / (8 E I), with E = 1.
    pub(crate) fn tip_of_theory(&self) -> f64 {
        let [length, depth, height] = self.cells.map(|cells| cells as f64);
        WEIGHT * depth * height * length.powi(4) / (8.0 * depth * height.powi(3) / 12.0)
    }

    /// The edges on its surface, from one node to the next along an axis, seen from the front, the right and above.
    fn edges(&self) -> Vec<[[usize; 3]; 2]> {
        let mut edges = Vec::new();
        for node in self.nodes() {
            for axis in 0..3 {
                let mut next = node;
                next[axis] += 1;
                let seen = (0..3).any(|side| {
                    let visible = if side == 1 { 0 } else { self.cells[side] };
                    side != axis && node[side] == visible
                });
                if next[axis] <= self.cells[axis] && seen {
                    edges.push([node, next]);
                }
            }
        }
        edges
    }
}

/// Where a place in space is on paper.
fn projected([x, y, z]: [f64; 3]) -> (f64, f64) {
    (x + 0.45 * y, z + 0.3 * y)
}

/// Draws the norms, and the beam before and after.
pub(crate) fn draw(path: &Path, beam: &Beam, x: &[f64], norms: &[f64]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(path, (1100, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(430);

    let (least, most) =
        norms.iter().fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), norm| (least.min(*norm), most.max(*norm)));
    let mut chart = ChartBuilder::on(&left)
        .caption("Norm of the residual", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0..norms.len().max(1), (least.max(1e-300)..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("iteration")
        .y_label_formatter(&|norm| format!("{norm:.0e}"))
        .draw()?;
    chart.draw_series([PathElement::new(
        norms.iter().copied().enumerate().collect::<Vec<_>>(),
        AFTER.stroke_width(2),
    )])?;

    // Enlarged until the free end sinks by a quarter of the beam's length.
    let enlarged = 0.25 * beam.cells[0] as f64 / beam.tip(x).max(f64::MIN_POSITIVE);
    let place = |node: [usize; 3], by: f64| {
        let moved = beam.moved(x, node);
        projected([0, 1, 2].map(|axis| node[axis] as f64 + by * moved[axis]))
    };
    let edges = beam.edges();
    let lines = |by: f64, style: ShapeStyle| {
        edges.iter().map(move |edge| PathElement::new(edge.map(|node| place(node, by)), style)).collect::<Vec<_>>()
    };
    let [width, depth, height] = beam.cells.map(|cells| cells as f64);
    let (across, up) = (width + 0.45 * depth, height + 0.3 * depth);
    let mut body = ChartBuilder::on(&right)
        .caption(format!("The beam before and after, displacements times {enlarged:.2}"), ("sans-serif", 18))
        .margin(12)
        .build_cartesian_2d(-0.5..across + 0.5, -0.3 * width..up + 0.05 * width)?;
    body.draw_series(lines(0.0, BEFORE.stroke_width(1)))?;
    body.draw_series(lines(enlarged, AFTER.stroke_width(1)))?;
    root.present()?;
    Ok(())
}
