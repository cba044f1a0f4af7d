//! A launch as the model simulates it: when clusters compute their tiles, the first that ends above and the last below.

use super::super::picture::{Svg, WIDTH};
use super::super::words;

const LABEL: f64 = 96.0;
const LANE: f64 = 12.0;
const BAR: f64 = 10.0;
const TOP: f64 = 6.0;
/// Clusters that are drawn, and tiles of each: beyond that several are one bar.
const LANES: usize = 16;
const TILES: usize = 24;

/// The picture; none of nothing.
pub(super) fn draw(clusters: &[Vec<[f64; 2]>]) -> Option<String> {
    let end = |list: &[[f64; 2]]| list.last().map_or(0.0, |span| span[1]);
    let mut order: Vec<(usize, &Vec<[f64; 2]>)> = clusters.iter().enumerate().collect();
    order.sort_by(|x, y| end(x.1).total_cmp(&end(y.1)).then(x.0.cmp(&y.0)));
    let (first, last) = (order.first()?, order.last()?);
    let until = end(last.1);
    if until <= 0.0 {
        return None;
    }
    let x = |us: f64| LABEL + (WIDTH - LABEL - 2.0) * us / until;
    let lanes = order.len().min(LANES);
    let height = TOP + lanes as f64 * LANE + 24.0;
    let mut svg = Svg::new(WIDTH, height);
    for lane in 0..lanes {
        // The first and the last, and as many between them as there is room for.
        let (number, list) = order[if lanes > 1 { lane * (order.len() - 1) / (lanes - 1) } else { 0 }];
        let y = TOP + lane as f64 * LANE;
        if lane == 0 || lane + 1 == lanes || lane % 5 == 0 {
            svg.text([LABEL - 8.0, y + 9.5], "end faint", &format!("cluster {number}"));
        }
        let together = list.len().div_ceil(TILES).max(1);
        for (at, tiles) in list.chunks(together).enumerate() {
            let (from, to) = (tiles[0][0], end(tiles));
            let what = if tiles.len() == 1 { "tile".to_owned() } else { format!("{} tiles", tiles.len()) };
            let title = format!("cluster {number}, {what}: {} to {} us", words::number(from), words::number(to));
            let class = if at % 2 == 0 { "multiply even" } else { "multiply odd" };
            svg.rect([x(from), y, (x(to) - x(from) - 0.5).max(0.8), BAR], class, &title);
        }
    }
    let below = TOP + lanes as f64 * LANE;
    for (us, class) in [(0.0, "faint"), (end(first.1), "end faint"), (until, "end faint")] {
        svg.line([x(us), TOP, x(us), below + 4.0], "tick");
        let words = if us > 0.0 { format!("{} us", words::number(us)) } else { "0".to_owned() };
        // The first end is told unless it stands where the last one does.
        if us == 0.0 || us == until || x(until) - x(us) > 70.0 {
            svg.text([x(us), below + 17.0], class, &words);
        }
    }
    Some(svg.finish(&format!(
        "Simulated timeline of {} of {} clusters: the first has done after {} microseconds, the last after {}",
        lanes,
        order.len(),
        words::number(end(first.1)),
        words::number(until)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_cluster_are_there_and_many_tiles_are_few_bars() {
        let list =
            |count: usize, us: f64| (0..count).map(|at| [at as f64 * us, (at + 1) as f64 * us]).collect::<Vec<_>>();
        let clusters: Vec<_> = (1..=40).map(|n| list(100, f64::from(n))).collect();
        let svg = draw(&clusters).unwrap_or_default();
        assert!(
            svg.contains("16 of 40 clusters") && svg.contains("after 100 microseconds, the last after 4000"),
            "{svg}"
        );
        assert!(svg.contains("cluster 0, 5 tiles") && svg.contains("cluster 39, 5 tiles"));
        assert!(svg.matches("<rect").count() <= LANES * TILES);
        assert_eq!((draw(&[]), draw(&[vec![]])), (None, None));
    }
}
