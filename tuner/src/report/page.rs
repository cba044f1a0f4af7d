//! The page: what the template is given.

use std::collections::BTreeSet;

use bsr_codegen::{Plan, Refusal};
use plotly::Plot;
use serde::Serialize;
use tera::{Context, Tera};

use super::axes::axes;
use super::blocks::blocks_of;
use super::cards::cards_of;
use super::island::Island;
use super::lesson::{Budget, Lesson, lessons};
use super::picture::{self, Pictures};
use super::summary::{Summary, roof_words};
use super::terminal::attribute_line;
use super::{ReportData, words};
use crate::groups::{Group, groups, shown};
use crate::{DeviceKind, Record, Traced, Verdict};

const TEMPLATE: &str = include_str!("../../templates/report/page.html.tera");
const STYLE: &str =
    concat!(include_str!("../../templates/report/style.css"), include_str!("../../templates/report/timeline.css"));
/// In the order in which they run.
const SCRIPTS: [&str; 4] = [
    include_str!("../../templates/report/theme.js"),
    include_str!("../../templates/report/table.js"),
    include_str!("../../templates/report/plots.js"),
    include_str!("../../templates/report/page.js"),
];
/// What plotly.js begins with.
const PLOTLY: &str = "plotly.js v";

/// The page that shows `data`: one HTML document with everything in it.
///
/// # Errors
/// None that data could cause.
pub fn render(data: &ReportData) -> Result<String, Refusal> {
    let mut groups = groups(&data.records, &data.rejected);
    groups.iter_mut().for_each(|group| group.hold_against(&data.roofs));
    let mut facts = facts(data, &groups);
    let (groups, [products, kernels]) = shown(groups);
    if products + kernels > 0 {
        let words =
            format!("{products} products and {kernels} kernels, of so many that no browser would open the page");
        facts.push(["left out".to_owned(), words]);
    }
    let budget = Budget::new(groups.len());
    let island = Island::of(&groups, budget).to_text();
    let island = island.map_err(|error| Refusal::of("the page's data cannot be written", error))?;
    let title = if data.title.is_empty() { "Block-sparse kernels" } else { &data.title };
    let mut context = Context::new();
    context.insert("title", title);
    // Only scripts that carry it run. It needs no secrecy: whoever writes the records does not know it before they are in.
    context.insert("nonce", &blake3::hash(island.as_bytes()).to_hex()[..32]);
    context.insert("style", STYLE);
    context.insert("plotly", plotly()?);
    context.insert("scripts", &SCRIPTS.join("\n"));
    context.insert("island", &island);
    context.insert("facts", &facts);
    context.insert("blocks", &blocks_of(&groups));
    context.insert("cards", &cards_of(&groups));
    context.insert("kinds", &kinds(&groups));
    context.insert(
        "products",
        &groups.iter().enumerate().map(|group| product(group, budget, &data.traces)).collect::<Vec<_>>(),
    );
    let mut tera = Tera::new();
    // A name that ends in .html escapes what it is given.
    let rendered = tera.add_raw_template("page.html", TEMPLATE).and_then(|()| tera.render("page.html", &context));
    rendered.map_err(|error| Refusal::of("the page cannot be rendered", error))
}

/// plotly.js from the crate's bundle, without the formula renderer that comes with it.
fn plotly() -> Result<&'static str, Refusal> {
    static BUNDLE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let bundle = BUNDLE.get_or_init(Plot::offline_js_sources);
    let mut scripts = bundle.split("<script").skip(1).filter_map(|script| {
        let (_, body) = script.split_once('>')?;
        Some(body.split_once("</script>")?.0)
    });
    let found = scripts.find(|script| script.chars().take(200).collect::<String>().contains(PLOTLY));
    found.ok_or_else(|| {
        let scripts = bundle.matches("</script>").count();
        Refusal::new("the plotly crate brings no plotly.js")
            .why(format!("its bundle has {scripts} scripts, none of which names itself so"))
            .help("take plotly 0.14")
    })
}

/// What was measured, in a few numbers.
fn facts(data: &ReportData, groups: &[Group<'_>]) -> Vec<[String; 2]> {
    let distinct = |of: &dyn Fn(&Record) -> String| {
        data.records.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ")
    };
    let kernels: usize = groups.iter().map(|group| group.kernels.len()).sum();
    let with_time = |is_of: &dyn Fn(DeviceKind) -> bool| -> usize {
        let groups = groups.iter().filter(|group| is_of(group.device.kind));
        groups.map(|group| group.count(Verdict::Timed) + group.count(Verdict::Slow)).sum()
    };
    let timed = with_time(&|kind| kind != DeviceKind::Sim);
    let predicted = match with_time(&|kind| kind == DeviceKind::Sim) {
        0 => String::new(),
        count => format!(", {count} right and their times predicted"),
    };
    let points = |unseen: bool| -> usize {
        data.rejected.iter().filter(|reason| reason.is_unseen() == unseen).map(|reason| reason.points).sum()
    };
    let timed = if timed == 0 && !predicted.is_empty() { String::new() } else { format!(", {timed} right and timed") };
    let mut facts = vec![
        ["kernels".to_owned(), format!("{kernels}{timed}{predicted}")],
        ["no kernels".to_owned(), format!("{} points of the space", points(false))],
        ["not looked at".to_owned(), format!("{} points of the space", points(true))],
        ["devices".to_owned(), distinct(&|record| words::device(&record.device))],
        ["bsr".to_owned(), distinct(&|record| record.version.clone())],
    ];
    let first = data.records.iter().map(|record| record.at).min();
    let last = data.records.iter().map(|record| record.at).max();
    if let Some((first, last)) = first.zip(last) {
        let day = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
        facts.push([
            "taken".to_owned(),
            if first == last { day(first) } else { format!("{} to {}", day(first), day(last)) },
        ]);
    }
    let replaced: usize = groups.iter().map(|group| group.replaced).sum();
    if replaced > 0 {
        facts.push(["replaced".to_owned(), format!("{replaced} older measurements of the same kernels are not shown")]);
    }
    facts
}

/// All groups on one kind of device.
#[derive(Debug, Serialize)]
struct Kind {
    name: String,
    heading: &'static str,
    warning: Option<&'static str>,
    rows: Vec<Best>,
    /// Pixels of its plot.
    height: usize,
}

/// A row of the overview.
#[derive(Debug, Serialize)]
struct Best {
    index: usize,
    product: String,
    particulars: String,
    device: String,
    kernel: String,
    tflops: String,
    ratio: String,
    roof: String,
    of_roof: String,
    advice: String,
    class: &'static str,
}

fn kinds(groups: &[Group<'_>]) -> Vec<Kind> {
    let of = |kind: DeviceKind| {
        let members = groups.iter().enumerate().filter(|(_, group)| group.device.kind == kind);
        let rows: Vec<Best> = members.map(best).collect();
        (!rows.is_empty()).then(|| Kind {
            name: format!("{kind:?}").to_lowercase(),
            heading: words::kind(kind),
            warning: words::warning(kind),
            height: 110 + 34 * rows.len(),
            rows,
        })
    };
    [DeviceKind::Gpu, DeviceKind::Sim, DeviceKind::Fake].into_iter().filter_map(of).collect()
}

fn best((index, group): (usize, &Group<'_>)) -> Best {
    let summary = Summary::of(group);
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    Best {
        index,
        product: words::product(group.problem),
        particulars: words::particulars(group.problem),
        device: group.device.name.clone(),
        kernel: or_dash(summary.winner.map(|point| point.record.subject.clone())),
        tflops: or_dash(summary.tflops.map(words::number)),
        ratio: or_dash(summary.ratio.map(words::ratio)),
        roof: or_dash(summary.roof.as_ref().map(roof_words)),
        of_roof: or_dash(summary.of_roof().map(|part| format!("{:.0} %", 100.0 * part))),
        advice: summary.advice.text().to_owned(),
        class: summary.advice.class(),
    }
}

/// What of a group the page shows without scripts.
#[derive(Debug, Serialize)]
struct Product {
    index: usize,
    title: String,
    kind: &'static str,
    warning: Option<&'static str>,
    facts: Vec<[String; 2]>,
    verdicts: Vec<Count>,
    rejected: Vec<Count>,
    winner: Option<Winner>,
    /// Of the best kernels, the winner's first.
    lessons: Vec<Lesson>,
}

/// A bar with a word.
#[derive(Debug, Serialize)]
struct Count {
    what: String,
    count: usize,
    /// Percent of the longest bar.
    length: f64,
}

/// The best kernel and its plan.
#[derive(Debug, Serialize)]
struct Winner {
    attribute: Option<String>,
    headline: String,
    rows: Vec<[String; 3]>,
    memory: Option<String>,
    pipeline: Option<String>,
    regions: Vec<[String; 4]>,
    /// Why there is no plan, or what to know about it.
    note: Option<String>,
}

fn product((index, group): (usize, &Group<'_>), budget: Budget, traces: &[Traced]) -> Product {
    let verdicts = Verdict::ALL.map(|verdict| (verdict.word(group.device.kind).to_owned(), group.count(verdict)));
    let rejected = group.rejected.iter().map(|(reason, count)| ((*reason).to_owned(), *count));
    Product {
        index,
        title: words::product(group.problem),
        kind: words::kind(group.device.kind),
        warning: words::warning(group.device.kind),
        facts: about(group),
        verdicts: counts(verdicts.into_iter().filter(|verdict| verdict.1 > 0)),
        rejected: counts(rejected),
        winner: winner(group),
        lessons: lessons(group, &axes(group.specs()), budget.lessons(index), traces),
    }
}

fn counts(found: impl Iterator<Item = (String, usize)>) -> Vec<Count> {
    let found: Vec<(String, usize)> = found.collect();
    let most = found.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let length = |count: usize| (100.0 * count as f64 / most as f64).max(0.5);
    found.into_iter().map(|(what, count)| Count { what, count, length: length(count) }).collect()
}

fn about(group: &Group<'_>) -> Vec<[String; 2]> {
    let (workload, features) = (&group.problem.workload, &group.problem.features);
    let row = |what: &str, value: String| [what.to_owned(), value];
    vec![
        row("product", format!("C[{}, {}] summed over {}; {}", workload.m, workload.n, workload.k, workload.facts)),
        row(
            "pattern",
            format!(
                "{}, seed {}: {} of {} x {} blocks ({:.2} %), longest row {}, spread {:.2}, column reuse {:.2}",
                workload.source,
                workload.seed,
                features.nnzb,
                features.block_rows,
                features.block_cols,
                100.0 * features.density(),
                features.longest_row,
                features.row_spread,
                features.reuse
            ),
        ),
        row("work", format!("{} GFLOP on stored blocks", words::number(group.problem.executed_flops() as f64 / 1e9))),
        row("device", words::device(group.device)),
    ]
}

fn winner(group: &Group<'_>) -> Option<Winner> {
    let summary = Summary::of(group);
    let point = summary.winner?;
    let timing = point.record.timing.as_ref()?;
    let mut headline = vec![format!("{} us", words::number(timing.median_us))];
    headline.extend(timing.relative_ci.map(|ci| format!("+- {:.1} %", 100.0 * ci)));
    headline.extend(summary.tflops.map(|rate| format!("{} TFLOP/s", words::number(rate))));
    headline.extend(summary.ratio.map(|ratio| format!("{} of the dense library", words::ratio(ratio))));
    headline.extend(summary.of_roof().map(|part| format!("{:.0} % of the roof", 100.0 * part)));
    let power = words::power(point.record);
    let planned = point.spec.as_ref().map(|spec| Plan::new(spec).map_err(|errors| errors.to_string()));
    let version = env!("CARGO_PKG_VERSION");
    let (plan, note) = match planned {
        None => {
            (None, Some(format!("bsr {version} cannot read this spec: it was measured by {}", point.record.version)))
        }
        Some(Err(errors)) => (None, Some(format!("bsr {version} does not plan this spec: {errors}"))),
        Some(Ok(plan)) if point.record.version != version => {
            let note = format!("planned by bsr {version}; it was measured by {}", point.record.version);
            (Some(plan), Some(note))
        }
        Some(Ok(plan)) => (Some(plan), None),
    };
    let pictures = plan.as_ref().and_then(picture::draw);
    Some(Winner {
        attribute: point.spec.as_ref().map(attribute_line),
        headline: [headline.join(", ")].into_iter().chain(power).collect::<Vec<_>>().join("; "),
        rows: plan.as_ref().map_or(vec![], Plan::rows),
        regions: pictures.as_ref().map_or(vec![], regions),
        memory: pictures.as_ref().map(|pictures| pictures.memory.clone()),
        pipeline: pictures.and_then(|pictures| pictures.pipeline),
        note,
    })
}

/// Offset, bytes, what, class: the stages in one row each part, everything behind them as it lies.
fn regions(pictures: &Pictures) -> Vec<[String; 4]> {
    let rows = pictures.regions.iter().map(|region| {
        let stage = region.stage.map_or(String::new(), |stage| format!("stage {stage}: "));
        [
            region.at.to_string(),
            region.bytes.to_string(),
            format!("{stage}{}", region.what),
            region.kind.class().to_owned(),
        ]
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn the_bundle_has_plotly_and_nothing_that_ends_a_script() {
        let plotly = super::plotly().unwrap();
        assert!(plotly.len() > 1 << 20 && !plotly.contains("</script") && !plotly.contains("MathJax.js"));
        for script in super::SCRIPTS {
            assert!(!script.contains("</script"));
        }
    }
}
