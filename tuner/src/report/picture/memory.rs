//! Shared memory as a bar, to scale, from its first byte to the last that a CTA can have.

use super::facts::{Facts, Region};
use super::svg::{Svg, WIDTH};

const BAR: [f64; 2] = [26.0, 64.0];
const HEIGHT: f64 = 128.0;
/// Pixels of a letter, about.
const LETTER: f64 = 6.6;

pub(super) fn draw(facts: &Facts) -> String {
    let regions = facts.regions();
    let mut svg = Svg::new(WIDTH, HEIGHT);
    let scale = (WIDTH - 2.0) / f64::from(facts.capacity.max(1));
    let x = |byte: u32| 1.0 + f64::from(byte) * scale;
    let [top, height] = BAR;
    for region in &regions {
        // What is too small to be seen is still there.
        let width = (f64::from(region.bytes) * scale).max(1.5);
        let class = format!("region {}", region.kind.class());
        svg.rect([x(region.at), top, width, height], &class, &words(region));
        let name = if region.stage.is_some() { region.what.as_str() } else { first_word(&region.what) };
        let centre = x(region.at) + width / 2.0;
        if width > LETTER * name.len() as f64 + 6.0 {
            svg.text([centre, top + 28.0], "middle", name);
        }
        let size = kib(region.bytes);
        if width > LETTER * size.len() as f64 + 6.0 {
            svg.text([centre, top + 46.0], "middle on", &size);
        }
    }
    if let Some(ring) = &facts.ring {
        for stage in 0..ring.stages {
            let (from, to) = (x(stage * ring.bytes), x((stage + 1) * ring.bytes));
            svg.line([from, 16.0, from, top + height], "edge");
            let words = if to - from > LETTER * 9.0 { format!("stage {stage}") } else { stage.to_string() };
            svg.text([(from + to) / 2.0, 18.0], "middle", &words);
        }
        let end = x(ring.stages * ring.bytes);
        svg.line([end, 16.0, end, top + height], "edge");
    }
    let below = top + height;
    for tick in (0..=facts.capacity).step_by(32 << 10) {
        svg.line([x(tick), below, x(tick), below + 5.0], "tick");
        let class = match x(tick) {
            at if at < 30.0 => "faint",
            at if at > WIDTH - 30.0 => "end faint",
            _ => "middle faint",
        };
        svg.text([x(tick), below + 19.0], class, &format!("{} KiB", tick >> 10));
    }
    svg.finish(&format!(
        "Shared memory to scale: {} of {} bytes are used; the table below lists every region",
        facts.total, facts.capacity
    ))
}

fn words(region: &Region) -> String {
    let stage = region.stage.map_or(String::new(), |stage| format!("stage {stage}, "));
    format!("{stage}{}: {} B at {}", region.what, region.bytes, region.at)
}

fn first_word(words: &str) -> &str {
    words.split(' ').next().unwrap_or(words)
}

/// `32 KiB`, `49.5 KiB`, `320 B`.
fn kib(bytes: u32) -> String {
    match bytes {
        small if small < 1024 => format!("{small} B"),
        whole if whole.is_multiple_of(1024) => format!("{} KiB", whole >> 10),
        other => format!("{:.1} KiB", f64::from(other) / 1024.0),
    }
}
