//! A trace as a picture: the launch as a whole, and a part of it from close by.
//!
//! In the whole a column of a role is divided as its time there was: slices are far narrower than a pixel. From close by they
//! are drawn one by one, around the begin of a tile.

use bsr_codegen::probes::Group;
use bsr_runtime::timeline::{Lane, Span, Trace};

use super::super::words;
use super::svg::{Svg, WIDTH};

const LABEL: f64 = 150.0;
const TOP: f64 = 6.0;
/// Pixels of a column of the whole.
const COLUMN: f64 = 4.0;
/// CTAs of the whole.
const CTAS: usize = 2;
/// Slices of a consumer from close by: before a tile begins, and after.
const BEFORE: usize = 24;
const AFTER: usize = 40;
/// Slices of one role from close by, of which a producer may have more than a consumer.
const MOST: usize = 400;

/// The class of a group's colour: `t-full`, `t-wgmma`.
fn class(group: Group) -> String {
    format!("t-{group:?}").to_lowercase()
}

/// Pixels of a text, about: no narrower than it is.
fn wide(text: &str) -> f64 {
    text.chars().map(|c| if c.is_uppercase() { 10.5 } else { 6.8 }).sum()
}

/// The picture; none of a trace without slices.
pub(in crate::report) fn draw(trace: &Trace) -> Option<Svg> {
    let spans = || trace.lanes.iter().flat_map(|lane| &lane.slices).map(|(_, span)| span);
    let until = spans().map(|span| span.to).fold(0.0, f64::max);
    if until <= 0.0 {
        return None;
    }
    let mut numbers: Vec<u64> = trace.lanes.iter().map(|lane| lane.cta).collect();
    numbers.dedup();
    let shown = &numbers[..numbers.len().min(CTAS)];
    let mut drawing = Drawing { svg: Svg::new(WIDTH, 0.0), y: TOP };
    drawing.legend(trace);
    let whole = Window { from: 0.0, to: until, unit: trace.unit() };
    let of = |cta: u64| trace.lanes.iter().filter(|lane| lane.cta == cta).collect::<Vec<_>>();
    let close_by = close_by(&of(shown[0]), &whole);
    for cta in shown {
        drawing.tiles(*cta, &of(*cta), &whole);
        for lane in of(*cta) {
            match close_by {
                Some(_) => drawing.shares(lane, &whole),
                // Few enough to be drawn one by one.
                None => drawing.slices(lane, &whole),
            }
        }
        drawing.y += 4.0;
    }
    drawing.axis(&whole);
    if let Some(window) = close_by {
        drawing.y += 12.0;
        drawing.tiles(shown[0], &of(shown[0]), &window);
        of(shown[0]).into_iter().for_each(|lane| drawing.slices(lane, &window));
        drawing.axis(&window);
    }
    drawing.svg.height = drawing.y + 2.0;
    Some(drawing.svg)
}

/// What a screen reader says of it.
pub(in crate::report) fn label(trace: &Trace) -> String {
    let until = trace.lanes.iter().flat_map(|lane| &lane.slices).map(|(_, span)| span.to).fold(0.0, f64::max);
    format!("Timeline of the roles of {} over {} {}", trace.spec, words::number(until), trace.unit())
}

/// A part of the time, over the width of the picture.
struct Window {
    from: f64,
    to: f64,
    unit: &'static str,
}

impl Window {
    fn x(&self, time: f64) -> f64 {
        let at = (time.clamp(self.from, self.to) - self.from) / (self.to - self.from);
        LABEL + (WIDTH - LABEL - 4.0) * at
    }

    fn has(&self, span: &Span) -> bool {
        span.to > self.from && span.from < self.to
    }

    /// What a pointer says of a span.
    fn title(&self, span: &Span) -> String {
        let Span { from, to, name } = span;
        let number = |time: f64| if self.unit == "us" { format!("{time:.3}") } else { format!("{time:.0}") };
        format!("{name}: {} to {} {}, {}", number(*from), number(*to), self.unit, number(to - from))
    }
}

/// Around the begin of the second tile of the first consumer; of one tile alone, the begin of all. None where that is the whole.
fn close_by(lanes: &[&Lane], whole: &Window) -> Option<Window> {
    let consumer =
        lanes.iter().max_by_key(|lane| (lane.role.starts_with("consumer"), std::cmp::Reverse(&lane.role)))?;
    let slices = &consumer.slices;
    if slices.len() <= BEFORE + AFTER {
        return None;
    }
    let second = consumer.tiles.get(1).map_or(0.0, |tile| tile.from);
    let first = slices.iter().position(|(_, span)| span.from >= second)?.saturating_sub(BEFORE);
    let last = (first + BEFORE + AFTER).min(slices.len() - 1);
    let (from, to) = (slices[first].1.from, slices[last].1.to);
    (from < to).then_some(Window { from, to, unit: whole.unit })
}

/// A picture that grows downwards.
struct Drawing {
    svg: Svg,
    y: f64,
}

impl Drawing {
    /// The groups that there are.
    fn legend(&mut self, trace: &Trace) {
        let mut x = LABEL;
        for group in Group::ALL {
            if trace.lanes.iter().any(|lane| lane.slices.iter().any(|(found, _)| *found == group)) {
                self.svg.rect([x, self.y, 12.0, 12.0], &class(group), group.words());
                self.svg.text([x + 17.0, self.y + 10.5], "", group.words());
                x += 38.0 + wide(group.words());
            }
        }
        self.y += 24.0;
    }

    /// The tiles of a CTA's first consumer, as a strip.
    fn tiles(&mut self, cta: u64, lanes: &[&Lane], window: &Window) {
        self.svg.text([LABEL - 10.0, self.y + 9.0], "end", &format!("CTA {cta}, tiles"));
        let lane = lanes.iter().find(|lane| lane.role.starts_with("consumer"));
        let tiles = lane.map_or(&[][..], |lane| &lane.tiles);
        for (at, tile) in tiles.iter().enumerate().filter(|(_, tile)| window.has(tile)) {
            let (from, to) = (window.x(tile.from), window.x(tile.to));
            let parity = if at % 2 == 0 { "even" } else { "odd" };
            self.svg.rect([from, self.y, (to - from - 0.5).max(0.5), 10.0], parity, &window.title(tile));
        }
        self.y += 14.0;
    }

    /// A role over all of the time: columns that are divided as its time was.
    fn shares(&mut self, lane: &Lane, window: &Window) {
        const HEIGHT: f64 = 18.0;
        self.svg.text([LABEL - 10.0, self.y + 13.0], "end", &lane.role);
        let columns = ((WIDTH - LABEL - 4.0) / COLUMN) as usize;
        let each = (window.to - window.from) / columns as f64;
        let mut shares = vec![[0.0; Group::ALL.len()]; columns];
        for (group, span) in &lane.slices {
            let last = ((span.to / each) as usize).min(columns - 1);
            for (at, column) in shares.iter_mut().enumerate().take(last + 1).skip((span.from / each) as usize) {
                let (from, to) = (span.from.max(at as f64 * each), span.to.min((at + 1) as f64 * each));
                column[*group as usize] += (to - from).max(0.0) / each;
            }
        }
        for group in Group::ALL {
            let mut path = String::new();
            for (at, column) in shares.iter().enumerate() {
                let below: f64 = column[..group as usize].iter().sum();
                let height = HEIGHT * column[group as usize];
                if height >= 0.05 {
                    let (x, y) = (LABEL + at as f64 * COLUMN, self.y + HEIGHT * (1.0 - below) - height);
                    path.push_str(&format!("M{x:.0} {y:.1}h{COLUMN:.0}v{height:.1}h-{COLUMN:.0}z"));
                }
            }
            if !path.is_empty() {
                self.svg.path(&path, &class(group), &format!("{}: {}", lane.role, group.words()));
            }
        }
        self.y += HEIGHT + 4.0;
    }

    /// A role's slices, one by one.
    fn slices(&mut self, lane: &Lane, window: &Window) {
        const HEIGHT: f64 = 22.0;
        self.svg.text([LABEL - 10.0, self.y + 15.0], "end", &lane.role);
        for (group, span) in lane.slices.iter().filter(|(_, span)| window.has(span)).take(MOST) {
            let (from, to) = (window.x(span.from), window.x(span.to));
            self.svg.rect([from, self.y, (to - from).max(0.4), HEIGHT], &class(*group), &window.title(span));
            if to - from > wide(&span.name) + 6.0 {
                self.svg.text([f64::midpoint(from, to), self.y + 15.0], "middle inside", &span.name);
            }
        }
        self.y += HEIGHT + 4.0;
    }

    fn axis(&mut self, window: &Window) {
        let length = window.to - window.from;
        let power = 10_f64.powf((length / 8.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| length / step <= 8.0);
        let step = step.unwrap_or(length);
        self.svg.line([LABEL, self.y, WIDTH - 4.0, self.y], "tick");
        let first = (window.from / step).ceil();
        // Counted, since a far time plus a small step may be the same time.
        for at in (0..=8).map(|tick| (first + f64::from(tick)) * step).take_while(|at| *at <= window.to) {
            let x = window.x(at);
            self.svg.line([x, self.y, x, self.y + 4.0], "tick");
            let decimals = if step < 1.0 { (-step.log10().floor()) as usize } else { 0 };
            let class = if x > WIDTH - 40.0 { "end" } else { "middle" };
            self.svg.text([x, self.y + 16.0], class, &format!("{at:.decimals$}"));
        }
        self.svg.text([LABEL - 10.0, self.y + 16.0], "end", window.unit);
        self.y += 22.0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::timeline::Clock;

    use super::*;

    fn span(from: f64, to: f64, name: &str) -> Span {
        Span { from, to, name: name.to_owned() }
    }

    /// A producer, and a consumer that waits for a quarter of its time.
    fn trace(stages: usize) -> Trace {
        let turn = |at: usize| {
            let from = at as f64 * 4.0;
            [(Group::Full, span(from, from + 1.0, "wait")), (Group::Wgmma, span(from + 1.0, from + 4.0, "WGMMA"))]
        };
        let lane = |role: &str, slices: Vec<(Group, Span)>| Lane {
            cta: 0,
            role: role.to_owned(),
            records: 1,
            kept: 1,
            tiles: vec![
                span(0.0, 2.0 * stages as f64, "tile <1>"),
                span(2.0 * stages as f64, 4.0 * stages as f64, "tile 2"),
            ],
            slices,
        };
        let loads = vec![(Group::Loads, span(0.0, 4.0 * stages as f64, "load A and B"))];
        let lanes = vec![lane("producer", loads), lane("consumer 0", (0..stages).flat_map(turn).collect())];
        Trace { spec: "bm = 64".to_owned(), clock: Clock::Gpu, lanes }
    }

    #[test]
    fn a_column_is_divided_as_the_time_was() {
        let svg = draw(&trace(1000)).unwrap().finish("");
        // 18 pixels, a quarter of them waiting, above them the products.
        let path = |class: &str| svg.split("<path ").skip(1).find(|path| path.contains(class)).unwrap().to_owned();
        let heights = |class: &str| -> Vec<f64> {
            let path = path(class);
            path.split('v').skip(1).filter_map(|rest| rest.split_once('h')?.0.parse().ok()).collect()
        };
        let (full, wgmma) = (heights("t-full"), heights("t-wgmma"));
        assert!(full.len() > 200 && full.len() == wgmma.len());
        for (full, wgmma) in full.iter().zip(&wgmma) {
            assert!((full + wgmma - 18.0).abs() < 0.15 && (full - 4.5).abs() < 1.5, "{full} and {wgmma}");
        }
        let mean = full.iter().sum::<f64>() / full.len() as f64;
        assert!((mean - 4.5).abs() < 0.05, "{mean}");
    }

    #[test]
    fn close_by_slices_stand_around_the_second_tile() {
        let svg = draw(&trace(1000)).unwrap().finish("");
        let slices = svg.matches("class=\"t-full\"><title>wait: ").count();
        assert!((30..=34).contains(&slices), "{slices}");
        assert!(svg.contains("tile &lt;1&gt;: 0.000 to 2000.000 us") && svg.contains(">WGMMA</text>"), "{svg}");
        let few = draw(&trace(10)).unwrap().finish("");
        assert_eq!((few.matches("<title>wait: ").count(), few.matches("<path ").count()), (10, 0));
        assert!(draw(&Trace { lanes: vec![], ..trace(1) }).is_none());
    }

    /// A file may say anything: whatever its times are, there is a picture of some size.
    #[test]
    fn times_that_make_no_sense_are_drawn_all_the_same() {
        for (from, to) in [(1e17, 1e17 + 64.0), (5.0, -5.0), (-1e300, 1e300), (0.0, 1e-300), (1e308, 1e308)] {
            let mut odd = trace(200);
            for lane in &mut odd.lanes {
                lane.slices.iter_mut().skip(50).for_each(|(_, span)| (span.from, span.to) = (from, to));
                lane.tiles.iter_mut().for_each(|tile| tile.from = from);
            }
            let svg = draw(&odd).unwrap().finish("");
            assert!(svg.len() < 1 << 20, "{from} to {to}: {} bytes", svg.len());
        }
    }
}
