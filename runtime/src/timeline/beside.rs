//! Two traces in one file: each CTA of the first has the same one of the second below it.

use bsr_codegen::Refusal;
use serde_json::{Value, json};

use super::perfetto::TRACKS;
use super::read::Trace;

/// Both traces in one file, for ui.perfetto.dev or chrome://tracing: their processes in turns, called A and B.
///
/// # Errors
/// JSON that is no trace of a kernel's roles.
pub fn beside(a: &Value, b: &Value) -> Result<Value, Refusal> {
    // No process, thread or flow of one is one of the other.
    let last = |key: &str| events_of(a).filter_map(|event| event[key].as_u64()).max().unwrap_or_default();
    let more = [("pid", last("pid")), ("tid", last("pid").saturating_mul(TRACKS)), ("id", last("id"))];
    let mut events = vec![];
    for (trace, name, place) in [(a, "A", 0), (b, "B", 1)] {
        Trace::read(trace)?;
        for event in events_of(trace) {
            let mut event = event.clone();
            let process = event["pid"].as_u64().unwrap_or_default();
            for (key, more) in more {
                if let Some(number) = event[key].as_u64() {
                    event[key] = json!(number.saturating_add(place * more));
                }
            }
            if event["name"] == "process_name" {
                let words = event["args"]["name"].as_str().unwrap_or_default();
                event["args"]["name"] = json!(format!("{name}: {words}"));
                let order = json!({ "sort_index": process.saturating_mul(2).saturating_add(place) });
                events.push(json!({ "name": "process_sort_index", "ph": "M", "pid": event["pid"], "args": order }));
            }
            events.push(event);
        }
    }
    Ok(json!({
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": { "A": a["otherData"], "B": b["otherData"] },
    }))
}

fn events_of(trace: &Value) -> impl Iterator<Item = &Value> {
    trace["traceEvents"].as_array().into_iter().flatten()
}
