//! `bsr space NAME`: which kernels a space has for a product, and why other points are none.

use std::io::Write;
use std::path::{Path, PathBuf};

use bsr_tuner::space::read_facts;
use bsr_tuner::{Facts, Points, Space, SpaceError};
use comfy_table::Table;
use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::line;
use super::output::{self, Outputs, Replace};
use super::table::markdown;

/// Count the kernels of a space: how many points, how many can be planned, and why the others cannot.
///
/// A space is the name of one that comes with the command, the path of a .toml file, or a spec with lists. What it leaves
/// open of the product - the block, the types - comes from `--kernel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr space
  bsr space hopper-f16 --kernel \"bm = 512, bk = 112\"
  bsr space \"bm = 128, bk = 64, bn = [128, 256], stages = 2..=9, cluster = [auto, 2]\" --list
  bsr space mine.toml --kernel \"bm = 64, bk = 64, dtype = bf16\" --json points.json

In a file:
  name = \"mine\"
  [[part]]
  name = \"wide\"
  keys = \"bn = [128, 256], stages = 2..=6, cluster = [auto, 2]\"
  constraints = [\"bn * stages <= 1024\", \"cluster == () || shared_bytes < 200000\"]

Points that cannot be planned, that break a constraint or that are the same kernel as an earlier point are counted; \
they are not errors.")]
pub(super) struct Args {
    /// A name, the path of a .toml file, or a spec with lists. Without it, the known names are listed.
    space: Option<String>,
    /// The facts of the product that the space leaves open: `bm = 512, bk = 112`, and any other.
    #[arg(long, value_name = "FACTS")]
    kernel: Option<String>,
    /// Print the spec of every kernel, one per line.
    #[arg(long)]
    list: bool,
    /// Write every point and its outcome to this file; `-` is standard output, and the table then goes to standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Some(argument) = &args.space else {
        writeln!(out, "{}", named()?)?;
        return Ok(Exit::Done);
    };
    let outputs = Outputs::new([("--json", args.json.as_ref())], [Path::new(argument)], &args.replace)?;
    let out = &mut *outputs.answers(out);
    let space = Space::find(argument)?;
    let facts = match &args.kernel {
        Some(text) => read_facts(text)?,
        None => space.facts().map_err(|error| match error {
            SpaceError::Refused(refusal) => refusal.help("--kernel \"bm = 512, bk = 112\"").into(),
            error => Failure::from(error),
        })?,
    };
    let points = space.points(&facts)?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&record(&space, &facts, &points)).map_err(Failure::wrong)?;
        output::write_text(path, &(text + "\n"))?;
    }
    if args.list {
        points.legal.iter().try_for_each(|point| writeln!(out, "{}", point.spec))?;
    } else {
        print(&space, &facts, &points, out)?;
    }
    Ok(Exit::Done)
}

/// The spaces that come with the command.
fn named() -> Result<Table, Failure> {
    let mut table = markdown(["space", "parts", "what for"], &["space", "what for"]);
    for space in Space::all_named()? {
        table.add_row([space.name().to_owned(), space.parts().len().to_string(), space.description().to_owned()]);
    }
    Ok(table)
}

fn print(space: &Space, facts: &Facts, points: &Points, out: &mut dyn Write) -> Result<(), Failure> {
    let words = match space.description() {
        "" => space.name().to_owned(),
        description => format!("{}: {description}", space.name()),
    };
    line(out, "space", words)?;
    line(out, "product", facts)?;
    let [legal, rejected, repeated] = [points.legal.len(), points.rejected.len(), points.repeated.len()];
    let sum = format!("{} = {legal} kernels + {rejected} that are none + {repeated} repeated", points.len());
    line(out, "points", sum)?;

    let mut table = markdown(["part", "points", "kernels", "keys"], &["part", "keys"]);
    for (number, part) in space.parts().iter().enumerate() {
        let of_part = |parts: &mut dyn Iterator<Item = usize>| parts.filter(|part| *part == number).count();
        let legal = of_part(&mut points.legal.iter().map(|point| point.part));
        let rejected = of_part(&mut points.rejected.iter().map(|point| point.part));
        let repeated = of_part(&mut points.repeated.iter().map(|point| point.part));
        let axes = part.axes().into_iter().map(|(key, values)| format!("{key} = [{}]", values.join(", ")));
        let settings = part.settings().into_iter().map(|(key, value)| format!("{key} = {value}"));
        let keys: Vec<String> = settings.chain(axes).collect();
        let name = if part.name().is_empty() { format!("{}", number + 1) } else { part.name().to_owned() };
        table.add_row([name, (legal + rejected + repeated).to_string(), legal.to_string(), keys.join(", ")]);
    }
    writeln!(out, "\n{table}")?;

    let reasons = points.reasons();
    if !reasons.is_empty() {
        let mut table = markdown(["points", "are none because"], &["are none because"]);
        table.add_rows(reasons.into_iter().map(|(reason, count)| [count.to_string(), reason]));
        writeln!(out, "\n{table}")?;
    }
    Ok(())
}

/// Version 1 of the schema of `bsr space --json`. Fields are added, never changed or removed, without a new version.
fn record(space: &Space, facts: &Facts, points: &Points) -> Value {
    let part = |number: usize| space.parts()[number].name();
    json!({
        "schema": 1,
        "space": space.name(),
        "facts": facts,
        "points": points.len(),
        "reasons": points.reasons().into_iter().map(|(reason, points)| json!({ "reason": reason, "points": points }))
            .collect::<Vec<_>>(),
        "legal": points.legal.iter().map(|point| json!({
            "spec": point.spec.to_string(),
            "part": part(point.part),
            "digest": point.digest,
            "plan": point.plan.summary(),
        })).collect::<Vec<_>>(),
        "rejected": points.rejected.iter().map(|point| json!({
            "spec": point.spec.to_string(),
            "part": part(point.part),
            "reasons": point.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "repeated": points.repeated.iter().map(|point| json!({
            "spec": point.spec.to_string(),
            "part": part(point.part),
            "of": points.legal[point.of].spec.to_string(),
        })).collect::<Vec<_>>(),
    })
}
