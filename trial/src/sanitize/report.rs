//! Findings as text and as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::classes::Level;
use super::findings::{Place, Problem};

/// What was run.
pub struct Subject<'a> {
    /// The path of the text.
    pub path: &'a str,
    /// The kernel.
    pub entry: &'a str,
    /// In words.
    pub schedules: Vec<String>,
    /// Warp instructions, over all schedules.
    pub steps: u64,
    /// Of wall time.
    pub seconds: f64,
}

/// Writes the findings for people.
///
/// # Errors
/// Those of `out`.
pub fn text(problems: &[Problem], subject: &Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
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
        let also = match problem.also.len() {
            0 => String::new(),
            1 => "; 1 more instruction is from the same places of the source".into(),
            more => format!("; {more} more instructions are from the same places of the source"),
        };
        writeln!(out, "      seen {} times: {}{also}", problem.times, problem.schedules.join(", "))?;
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
pub fn as_json(problems: &[Problem], subject: &Subject<'_>) -> Value {
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
                "also": problem.also,
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

/// Whether the kernel passes, and what the runs took, in a line.
pub fn verdict(problems: &[Problem], subject: &Subject<'_>) -> String {
    let count = problems.iter().filter(|problem| problem.counts()).count();
    let others = problems.len() - count;
    let rest = if others == 0 { String::new() } else { format!(", {others} allowed or noted") };
    let work = format!("{} warp instructions in {:.1} s", subject.steps, subject.seconds);
    match count {
        0 => format!("passes: no finding{rest}; {work}"),
        1 => format!("FAILS: 1 finding{rest}; {work}"),
        many => format!("FAILS: {many} findings{rest}; {work}"),
    }
}
