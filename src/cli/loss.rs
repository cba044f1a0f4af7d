//! `bsr loss DB`: what a tuner would have lost on problems of which many kernels were measured.

use std::io::Write;
use std::path::PathBuf;

use bsr_tuner::pick::{Chosen, Sorted, Table, efficiency_losses};

use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::table::{fitted, markdown};
use super::{database, input, line};

/// Compare a tuner's choices with the best kernels of a database: how much slower they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr sweep --workloads held-out --strategy exhaustive --db held-out.db
  bsr loss held-out.db
  bsr loss held-out.db --table tuned.jsonl --json loss.jsonl

The database should contain a sweep of every kernel that may be chosen. The tuner knows only the table. `tuned` \
measures the kernels that are predicted to be the fastest if a problem is not in the table, `unmeasured` never \
measures, and `predicted` never measures and has no table. A loss of 3.0 % means that the chosen kernel takes 3 % \
longer than the best kernel in the same rounds. `likeliest` is the measured kernel with the best prediction. \
`sorted` is the rank correlation of predicted and measured times over all kernels, 1 if both have the same order: \
first for today's predictions, then for those made when the kernels were measured.")]
pub(super) struct Args {
    /// The database.
    db: PathBuf,
    /// What the tuner knows: a file of `bsr export --tuned`. [default: the table that comes with the project]
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Write one line of JSON per problem to this file; `-` is standard output, and the table then goes to standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

const HEADER: [&str; 9] =
    ["problem", "measured", "tuned", "known by", "unmeasured", "predicted", "likeliest", "sorted", "best"];

/// Two digits of a rank correlation.
fn correlation(of: Option<f64>) -> String {
    of.map_or("unknown".to_owned(), |of| format!("{of:.2}"))
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let inputs = output::database(&args.db);
    let inputs = inputs.iter().map(PathBuf::as_path).chain(args.table.as_deref());
    let outputs = Outputs::new([("--json", args.json.as_ref())], inputs, &args.replace)?;
    let out = &mut *outputs.answers(out);
    let (_, records) = database::read(&args.db)?;
    let table = match &args.table {
        None => Table::shipped().clone(),
        Some(path) => {
            let name = path.display();
            let text = input::text(path)?;
            Table::from_lines(&text).map_err(|error| Failure::bad_input(format!("{name}: {error}")))?
        }
    };
    let losses = efficiency_losses(&records, &table, (9, 0)).map_err(Failure::bad_input)?;
    let mut rows = markdown(HEADER, &["problem", "best"]);
    let percent =
        |chosen: &Chosen| chosen.loss.map_or("not measured".to_owned(), |loss| format!("{:.1} %", 100.0 * loss));
    for problem in &losses {
        rows.add_row([
            problem.problem.clone(),
            problem.measured.to_string(),
            percent(&problem.tuned),
            problem.unmeasured.how.to_owned(),
            percent(&problem.unmeasured),
            percent(&problem.predicted),
            percent(&problem.sorted.likeliest),
            format!("{}, then {}", correlation(problem.sorted.now), correlation(problem.sorted.then)),
            problem.best.clone(),
        ]);
    }
    if !losses.is_empty() {
        writeln!(out, "{}\n", fitted(rows))?;
    }
    let worst = |of: &dyn Fn(&bsr_tuner::pick::EfficiencyLoss) -> Option<f64>| {
        let of_problems: Vec<f64> = losses.iter().filter_map(of).collect();
        if of_problems.is_empty() {
            return format!("unknown: of {} problems no choice was measured", losses.len());
        }
        let most = of_problems.iter().copied().fold(0.0, f64::max);
        format!("at most {:.1} % over {} of {} problems", 100.0 * most, of_problems.len(), losses.len())
    };
    database::left_out(&records, out)?;
    line(out, "tuned", worst(&|problem| problem.tuned.loss))?;
    line(out, "unmeasured", worst(&|problem| problem.unmeasured.loss))?;
    line(out, "predicted", worst(&|problem| problem.predicted.loss))?;
    line(out, "likeliest", worst(&|problem| problem.sorted.likeliest.loss))?;
    let least =
        |of: &dyn Fn(&Sorted) -> Option<f64>| losses.iter().filter_map(|p| of(&p.sorted)).min_by(f64::total_cmp);
    let (now, then) = (least(&|sorted| sorted.now), least(&|sorted| sorted.then));
    line(out, "sorted", format_args!("at least {} now, {} when measured", correlation(now), correlation(then)))?;
    if let Some(path) = &args.json {
        let lines: Result<String, serde_json::Error> =
            losses.iter().map(|problem| Ok(serde_json::to_string(problem)? + "\n")).collect();
        let lines = lines.map_err(Failure::wrong)?;
        output::write_text(path, &lines)?;
    }
    Ok(Exit::Done)
}
