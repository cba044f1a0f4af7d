//! The forms of a report: as SARIF for CI what [`bsr_trial::sanitize`] has as text and as JSON.

use bsr_trial::sanitize::{Level, Place, Problem, Subject, classes};
use serde_json::{Value, json};

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
