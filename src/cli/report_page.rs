//! `bsr report`: measurements as a page, and the best of them in the terminal.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write, stdin};
use std::path::{Path, PathBuf};

use bsr_tuner::report::{ReportData, Top, render, top};
use bsr_tuner::store::Rejection;
use bsr_tuner::{Record, Store};
use comfy_table::{CellAlignment, Table, presets};

use super::exit::{Exit, Failure};
use super::{cannot_write, line};

/// Show measurements: the best in a table, and all of them on one self-contained page.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr report h200.db
  bsr report h200.db -o report.html --title \"H200, f16\"
  bsr report records.jsonl -o report.html

FILE is a database of bsr sweep, or lines of JSON that bsr export wrote. The page needs no network, and asks for none: it can be sent around. Times of a \
model are marked as such, and never beside those of a GPU.")]
pub(super) struct Args {
    /// Databases, or files of records, a line of JSON each; `-` is standard input, of lines.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the page to this file, in place of what is there.
    #[arg(short, long, value_name = "HTML")]
    output: Option<PathBuf>,
    /// The page's heading.
    #[arg(long, default_value = "Block-sparse kernels")]
    title: String,
    /// Rows of each table in the terminal.
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(output) = &args.output {
        is_no_input(output, &args.files)?;
    }
    let (mut records, mut rejected) = (vec![], vec![]);
    for file in &args.files {
        match is_database(file) {
            true => {
                let store = Store::existing(file)?;
                records.extend(store.records()?);
                rejected.extend(rejections(&store)?);
            }
            false => records.extend(read(file)?),
        }
    }
    for top in top(&records, args.top) {
        print(&top, out)?;
    }
    if let Some(output) = &args.output {
        let count = records.len();
        let data = ReportData { title: args.title.clone(), records, rejected };
        let page = render(&data).map_err(|error| Failure::new(Exit::Wrong, error))?;
        fs::write(output, page).map_err(|error| cannot_write(output, &error))?;
        line(out, "page", format_args!("{}, {count} records", output.display()))?;
    }
    Ok(Exit::Done)
}

/// Whether a file begins as SQLite's do ("Database File Format", 1.3); what follows is for the store to judge.
fn is_database(file: &Path) -> bool {
    let mut magic = [0; 16];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"SQLite format 3\0"
}

/// Points that are no kernels. A sweep that was run again has seen the same ones: of several runs the largest count.
fn rejections(store: &Store) -> Result<Vec<Rejection>, Failure> {
    let mut largest: BTreeMap<(String, String), usize> = BTreeMap::new();
    for Rejection { problem, reason, points } in store.runs()?.into_iter().flat_map(|run| run.rejections) {
        let count = largest.entry((problem, reason)).or_default();
        *count = points.max(*count);
    }
    Ok(largest.into_iter().map(|((problem, reason), points)| Rejection { problem, reason, points }).collect())
}

/// A page written over the measurements would lose them.
fn is_no_input(output: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    let Ok(place) = output.canonicalize() else { return Ok(()) };
    match files.iter().find(|file| file.canonicalize().is_ok_and(|file| file == place)) {
        None => Ok(()),
        Some(file) => Err(Failure::new(
            Exit::BadInput,
            format!("the page would replace {}, which is read\n  help: another name behind -o", file.display()),
        )),
    }
}

fn read(file: &Path) -> Result<Vec<Record>, Failure> {
    let name = file.display();
    let text = if file == Path::new("-") {
        let mut text = String::new();
        stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::new(Exit::BadInput, format!("cannot read {name}: {error}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let records = lines.map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let number = number + 1;
            let help = "help: `bsr export DB --json FILE` writes a record a line";
            Failure::new(Exit::BadInput, format!("{name}, line {number}, is no record: {error}\n  {help}"))
        })
    });
    records.collect()
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
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(top.head);
    table.add_rows(top.rows.iter().map(|row| row.as_slice()));
    let numbers = top.head.len() - 1;
    for column in table.column_iter_mut().take(numbers) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "\n{table}\n")?;
    if let Some(attribute) = &top.attribute {
        writeln!(out, "{attribute}\n")?;
    }
    Ok(())
}
