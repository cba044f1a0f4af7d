//! Findings as text, as JSON, and as SARIF for CI.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::classes::{Level, classes};
use super::findings::{Place, Problem};

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// One object.
    Json,
    /// SARIF 2.1.0, which CI services show beside the lines.
    Sarif,
}

/// What was run.
pub(super) struct Subject<'a> {
    /// The path of the text.
    pub(super) path: &'a str,
    pub(super) entry: &'a str,
    pub(super) schedules: Vec<String>,
    /// Warp instructions, over all schedules.
    pub(super) steps: u64,
    pub(super) seconds: f64,
}

/// Writes the findings for people.
pub(super) fn text(problems: &[Problem], subject: &Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    for problem in problems {
        let head = match (&problem.allowed, problem.class.level) {
            (Some(reason), _) => format!("allowed[{}] ({reason})", problem.class.name),
            (None, Level::Note) => format!("note[{}]", problem.class.name),
            (None, Level::Error) => format!("error[{}]", problem.class.name),
        };
        writeln!(out, "\n{head}: {}", problem.message)?;
        for Place { side, origin } in &problem.places {
            writeln!(out, "  --> {}:{}: {}", subject.path, side.line, side.text)?;
            writeln!(
                out,
                "      {}: block {} of its cluster, warp {}, lanes {:#010x}",
                side.does, side.cta, side.warp, side.lanes
            )?;
            if let Some(origin) = origin {
                write!(out, "      from {}:{}:{}", origin.file, origin.line, origin.column)?;
                for (file, line) in &origin.inlined {
                    write!(out, ", inlined at {file}:{line}")?;
                }
                writeln!(out)?;
            }
        }
        writeln!(out, "      seen {} times: {}", problem.times, problem.schedules.join(", "))?;
    }
    if !problems.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

fn place(place: &Place) -> Value {
    let Place { side, origin } = place;
    let origin = origin.as_ref().map(|origin| {
        let inlined: Vec<Value> =
            origin.inlined.iter().map(|(file, line)| json!({"file": file, "line": line})).collect();
        json!({"file": origin.file, "line": origin.line, "column": origin.column, "inlined": inlined})
    });
    json!({
        "line": side.line,
        "text": side.text,
        "does": side.does,
        "block": side.cta,
        "warp": side.warp,
        "lanes": side.lanes,
        "source": origin,
    })
}

/// The whole report as one object.
pub(super) fn as_json(problems: &[Problem], subject: &Subject<'_>) -> Value {
    let findings: Vec<Value> = problems
        .iter()
        .map(|problem| {
            json!({
                "class": problem.class.name,
                "level": if problem.class.level == Level::Error { "error" } else { "note" },
                "message": problem.message,
                "places": problem.places.iter().map(place).collect::<Vec<_>>(),
                "schedules": problem.schedules,
                "times": problem.times,
                "allowed": problem.allowed,
            })
        })
        .collect();
    json!({
        "ptx": subject.path,
        "entry": subject.entry,
        "schedules": subject.schedules,
        "warp_instructions": subject.steps,
        "seconds": subject.seconds,
        "findings": findings,
    })
}

/// The report as SARIF.
pub(super) fn sarif(problems: &[Problem], subject: &Subject<'_>) -> Value {
    let rules: Vec<Value> = classes()
        .map(|class| {
            json!({
                "id": class.name,
                "shortDescription": {"text": class.what},
                "defaultConfiguration": {"level": if class.level == Level::Error { "error" } else { "note" }},
            })
        })
        .collect();
    let results: Vec<Value> = problems.iter().map(|problem| result(problem, subject)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "bsr sanitize", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "results": results,
        }],
    })
}

fn result(problem: &Problem, subject: &Subject<'_>) -> Value {
    let at = |file: &str, line: u32, column: u32| {
        let region = match column {
            0 => json!({"startLine": line.max(1)}),
            column => json!({"startLine": line.max(1), "startColumn": column}),
        };
        json!({"artifactLocation": {"uri": file}, "region": region})
    };
    let text = |place: &Place| at(subject.path, place.side.line, 0);
    // The line of the source where it is known, and the PTX beside it.
    let main = problem.places.first().map(|place| match &place.origin {
        Some(origin) => at(&origin.file, origin.line, origin.column),
        None => text(place),
    });
    let related: Vec<Value> = problem
        .places
        .iter()
        .map(|place| json!({"physicalLocation": text(place), "message": {"text": format!("{}: {}", place.side.does, place.side.text)}}))
        .collect();
    let mut out = json!({
        "ruleId": problem.class.name,
        "level": if problem.class.level == Level::Error { "error" } else { "note" },
        "message": {"text": problem.message},
        "locations": [{"physicalLocation": main.unwrap_or_else(|| at(subject.path, 1, 0))}],
        "relatedLocations": related,
    });
    if let Some(reason) = &problem.allowed {
        out["suppressions"] = json!([{"kind": "external", "justification": reason}]);
    }
    out
}
