//! `bsr report`: measurements as a page, and the best of them in the terminal.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};

use bsr_tuner::report::{
    Cards, MOST_PRODUCTS, ReportData, Top, block_size_picture, by_block_size, render, side_by_side, top,
};
use bsr_tuner::store::{Rejection, RunRow};
use bsr_tuner::{Record, Store, TraceOf, Traced};

use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::table::{fitted, markdown};
use super::{block_sizes, database, input, line, roofs, say, trace};

/// Show measurements: the best ones in a table, and all of them on a self-contained page.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr report h200.db
  bsr report h200.db -o report.html --title \"H200, f16\"
  bsr report records.jsonl -o report.html
  bsr report h200.db -o report.html --traces flagship.json small.json

FILE is a database of `bsr sweep`, or a file of `bsr export --json`. The page is self-contained and loads nothing \
from the network. Times of a model are marked as such and never mixed with those of a GPU.")]
pub(super) struct Args {
    /// Databases, or files with one record per line, in JSON; `-` reads lines from standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the page to this file; `-` is standard output, and the tables then go to standard error.
    #[arg(short, long, value_name = "HTML")]
    output: Option<PathBuf>,
    /// Show timelines on the page, each with its kernel: files that `bsr trace SPEC PROBLEM -o FILE` wrote.
    #[arg(long, num_args = 1.., value_name = "FILE", requires = "output")]
    traces: Vec<PathBuf>,
    /// Draw the block sizes of each product that was measured in several to this file, an SVG for a document.
    #[arg(long, value_name = "SVG")]
    blocks: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    /// The page's heading.
    #[arg(long, default_value = "Block-sparse kernels")]
    title: String,
    /// Rows of each table in the terminal.
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let databases = args.files.iter().flat_map(|file| output::database(file)).collect::<Vec<_>>();
    let inputs = databases.iter().chain(&args.traces).map(PathBuf::as_path);
    let outputs =
        Outputs::new([("-o", args.output.as_ref()), ("--blocks", args.blocks.as_ref())], inputs, &args.replace)?;
    let out = &mut *outputs.answers(out);
    let (mut records, mut rejected) = (vec![], vec![]);
    for file in &args.files {
        match is_database(file) {
            true => {
                let (store, read) = database::read(file)?;
                records.extend(read);
                rejected.extend(rejections(&store)?);
            }
            false => records.extend(read(file)?),
        }
    }
    if records.is_empty() {
        say("warning: there is no record to show");
    }
    let products = top(&records, args.top);
    products.iter().take(MOST_PRODUCTS).try_for_each(|top| print(top, out))?;
    side_by_side(&records).iter().take(MOST_PRODUCTS).try_for_each(|cards| print_cards(cards, out))?;
    by_block_size(&records).iter().take(MOST_PRODUCTS).try_for_each(|sizes| block_sizes::print(sizes, out))?;
    if let Some(path) = &args.blocks {
        let picture = block_size_picture(&records).ok_or_else(|| {
            let help = "help: `bsr sweep --blocks 32x32,64x64` measures several";
            Failure::bad_input(format!("no product here was measured in blocks of several sizes\n  {help}"))
        })?;
        output::write_text(path, &picture)?;
    }
    if products.len() > MOST_PRODUCTS {
        let fact = format!("{} of {} products", products.len() - MOST_PRODUCTS, products.len());
        line(out, "left out", format_args!("{fact}: `bsr export` writes all of them"))?;
    }
    if let Some(path) = &args.output {
        let count = records.len();
        let roofs = roofs::remembered().unwrap_or_default();
        let traces = traces(&args.traces, &records)?;
        let data = ReportData { title: args.title.clone(), records, rejected, roofs, traces };
        let page = render(&data).map_err(Failure::wrong)?;
        output::write_text(path, &page)?;
        line(out, "page", format_args!("{}, {count} records", path.display()))?;
    }
    Ok(Exit::Done)
}

/// Whether a file is called a database, or begins as SQLite's do ("Database File Format", 1.3); what follows is for the store
/// to judge.
fn is_database(file: &Path) -> bool {
    if file.extension().is_some_and(|end| end.eq_ignore_ascii_case("db") || end.eq_ignore_ascii_case("sqlite")) {
        return true;
    }
    let mut magic = [0; 16];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"SQLite format 3\0"
}

/// Points that are no kernels. A sweep that was run again has seen the same ones: of several runs the largest count. Of
/// points that a run did not come to, those of the last run of its space that ended.
fn rejections(store: &Store) -> Result<Vec<Rejection>, Failure> {
    let (mut largest, mut last) = (BTreeMap::<(String, String), usize>::new(), BTreeMap::new());
    for RunRow { run, ended, rejections, .. } in store.runs()? {
        let (unseen, reasons): (Vec<_>, Vec<_>) = rejections.into_iter().partition(Rejection::is_unseen);
        if ended.is_some() {
            last.insert(run.space_digest, unseen);
        }
        for Rejection { problem, reason, points } in reasons {
            let count = largest.entry((problem, reason)).or_default();
            *count = points.max(*count);
        }
    }
    for Rejection { problem, reason, points } in last.into_values().flatten() {
        *largest.entry((problem, reason)).or_default() += points;
    }
    Ok(largest.into_iter().map(|((problem, reason), points)| Rejection { problem, reason, points }).collect())
}

fn read(file: &Path) -> Result<Vec<Record>, Failure> {
    let (name, text) = (file.display(), input::text(file)?);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let records = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let number = number + 1;
            let help = "help: `bsr export DB --json FILE` writes a record a line";
            Failure::bad_input(format!("{name}, line {number}, is no record: {error}\n  {help}"))
        })
    });
    records.collect()
}

/// Timelines; says which of them are of no kernel here.
fn traces(files: &[PathBuf], records: &[Record]) -> Result<Vec<Traced>, Failure> {
    let mut traces = vec![];
    for file in files {
        let traced = Traced::read(&trace::read(file)?).map_err(|error| trace::unreadable(file, &error))?;
        if !records.iter().any(|record| traced.is_of(record)) {
            let TraceOf { workload, device, .. } = &traced.of;
            let [problem, spec] = [trace::problem_words(workload), traced.trace.spec.clone()];
            say(format_args!(
                "note: {} is left out: there is no record of `{spec}` on {problem}, {}",
                file.display(),
                device.name
            ));
        }
        traces.push(traced);
    }
    Ok(traces)
}

fn print(top: &Top, out: &mut dyn Write) -> std::io::Result<()> {
    line(out, "product", &top.product)?;
    line(out, "device", &top.device_words)?;
    if let Some(warning) = top.warning {
        line(out, "warning", warning)?;
    }
    if top.rows.is_empty() {
        return writeln!(out, "no kernel was right and timed\n");
    }
    let mut table = markdown(top.head, &["kernel"]);
    table.add_rows(top.rows.iter().map(|row| row.as_slice()));
    writeln!(out, "\n{}\n", fitted(table))?;
    if let Some(power) = &top.power {
        line(out, "power", format_args!("{power}, of the best\n"))?;
    }
    if let Some(attribute) = &top.attribute {
        writeln!(out, "{attribute}\n")?;
    }
    Ok(())
}

/// One product on several cards.
fn print_cards(cards: &Cards, out: &mut dyn Write) -> std::io::Result<()> {
    line(out, "several cards", &cards.product)?;
    let head = std::iter::once("kernel").chain(cards.cards.iter().map(String::as_str));
    let mut table = markdown(head, &["kernel"]);
    table.add_rows(cards.rows.iter().map(|row| [row.kernel.clone()].into_iter().chain(row.cells.iter().cloned())));
    writeln!(out, "\n{}\n", fitted(table))
}
