//! `bsr check` of an attention: problems of many kinds in orders of many kinds, on the simulator.

use std::cmp::Reverse;
use std::io::Write;

use bsr::attention::{BlockList, HeadOrder, Mask, Shape, Sharing, SimulatedAttention};
use bsr::simulated::{Coverage, Options, Statement};
use bsr::{Dtype, KernelSpec, Plan, bf16, f16};

use super::super::check::in_parallel;
use super::super::dtypes::Number;
use super::super::exit::{Exit, Failure};
use super::super::line;
use super::super::problem::ProblemArgs;
use super::super::progress::Progress;
use super::super::simulate::{findings_in_full, order};
use super::super::spec::Planned;
use super::problem::{Defaults, Problem, tolerance};

/// CTAs that share the work.
const CTAS: [u32; 3] = [3, 1, 7];

/// The kind that does not ask for the logarithms of sums.
const WITHOUT_SUMS: &str = "no sums";
/// How much greater than one by the root of the depth the scale of some problems is.
const STEEPNESS: f32 = 24.0;
/// Steps of a long row: more than two batches of those that a producer reads at once.
const LONG: usize = 2 * 32 + 3;

/// What a check without a fault has seen.
pub(in super::super) struct Checked {
    pub(in super::super) runs: usize,
    /// The greatest relative error.
    pub(in super::super) worst: f64,
    /// The kernel's instructions with whether a problem executed them, where problems of all kinds ran.
    pub(in super::super) statements: Option<Vec<(Statement, bool)>>,
}

/// Runs the kernel of `text` on problems of every kind, or on the one that the flags ask for, and prints a line for each.
///
/// # Errors
/// Wrong: a finding or a wrong result. Bad input: a problem that cannot be had, PTX that cannot be read.
pub(in super::super) fn check(
    planned: &Planned,
    text: &str,
    args: &ProblemArgs,
    schedules: &[Options],
    out: &mut dyn Write,
) -> Result<Checked, Failure> {
    let (spec, progress) = (planned.spec(), Progress::new());
    let problems = match args.asks() {
        true => vec![("problem", Problem::new(args, spec, Defaults::SIMULATOR)?)],
        false => kinds(&planned.plan, args.seed())?,
    };
    let kernel = SimulatedAttention::new(&planned.plan, text, planned.ptx.entry())?;
    // The longest first, so that all cores have work to the end.
    let mut order: Vec<usize> = (0..problems.len()).collect();
    order.sort_by_key(|index| Reverse(problems[*index].1.flops()));
    let done = in_parallel(&order, &progress, |index| {
        let (name, problem) = &problems[index];
        let kernel = kernel.clone().with_ctas(CTAS[index % CTAS.len()]);
        let kernel = if *name == WITHOUT_SUMS { kernel.without_sums() } else { kernel };
        match spec.a {
            Dtype::BF16 => in_every_schedule::<bf16>(&kernel, spec, problem, schedules),
            _ => in_every_schedule::<f16>(&kernel, spec, problem, schedules),
        }
    });
    let (mut worst, mut coverage) = (0.0_f64, Coverage::default());
    for ((name, problem), result) in problems.iter().zip(done) {
        let words = || format!("{}; {}", problem.words(), problem.mask_words());
        let Some(result) = result else { continue };
        let (error, executed) = result.map_err(|failure| {
            let report = format!("{}\n  {name}: {}", failure.into_report(), words());
            Failure::reported(Exit::Wrong, report)
        })?;
        progress.hide(|| line(out, name, format_args!("{}: clean, relative error {error:.1e}", words())))?;
        worst = worst.max(error);
        coverage.merge(&executed);
    }
    progress.done();
    let statements = (!args.asks()).then(|| kernel.statements(&coverage));
    Ok(Checked { runs: problems.len() * schedules.len(), worst, statements })
}

/// The greatest relative error, and what was executed.
fn in_every_schedule<T: Number>(
    kernel: &SimulatedAttention,
    spec: &KernelSpec,
    problem: &Problem,
    schedules: &[Options],
) -> Result<(f64, Coverage), Failure> {
    let tensors = problem.tensors::<T>();
    let wanted = problem.wanted(spec, &tensors, usize::MAX);
    let (mut worst, mut coverage) = (0.0_f64, Coverage::default());
    for options in schedules {
        let (output, sums, report) = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), options)?;
        if !report.is_clean() {
            let text = format!("schedule {}{}", order(options), findings_in_full(&report.findings));
            return Err(Failure::new(Exit::Wrong, text));
        }
        coverage.merge(&report.coverage);
        let sums = if kernel.gives_sums() { &sums[..] } else { &[] };
        worst = worst.max(wanted.judge(&output, sums, tolerance(T::DTYPE))?);
    }
    Ok((worst, coverage))
}

/// Problems of every kind, in sizes of the kernel's blocks.
fn kinds(plan: &Plan, seed: u64) -> Result<Vec<(&'static str, Problem)>, Failure> {
    let spec = plan.spec();
    let (bm, bk) = (spec.bm as usize, spec.bk as usize);
    let rows = (256_usize.div_ceil(bm)).max(2);
    let columns = (384_usize.div_ceil(bk)).max(3);
    let of = |(queries, keys): (usize, usize),
              [batch, heads, key_heads]: [usize; 3],
              pattern: &str,
              stored: &dyn Fn(usize, usize) -> bool| {
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        for row in 0..queries.div_ceil(bm) {
            for column in (0..keys.div_ceil(bk)).filter(|column| stored(row, *column)) {
                list.indices.push(column as u32);
                // Any block may be partial: the score is right in all of them.
                list.partial.push(spec.score.is_some() && (2 * row + column) % 3 != 2);
            }
            list.indptr.push(list.indices.len() as u32);
        }
        let shape = Shape { batch, heads, key_heads, queries, keys, columns: spec.bn as usize };
        let mask = Mask::new((queries, keys), (bm, bk), Sharing::All, vec![list])?;
        let problem = Problem::of_mask(spec, shape, mask, pattern.to_owned());
        Ok::<Problem, Failure>(Problem { seed, ..problem })
    };
    let (queries, keys) = (rows * bm, columns * bk);
    let ragged = (queries - bm / 2 - 3, keys - bk / 2 - 5);
    let rows_first = Problem { order: HeadOrder::RowsFirst, ..of(ragged, [2, 4, 2], "all", &|_, _| true)? };
    // Scores so far apart that the reference of the exponentials moves in most steps.
    let steep = |problem: Problem| Problem { scale: STEEPNESS * problem.scale, ..problem };
    let (step, tile) = plan.attention_tiles().map_or((bk, bm), |tiles| (tiles.step as usize, tiles.rows as usize));
    // Short rows, so many that tiles begin and end at every stage of the rings.
    let short = 3 * plan.profile().stages as usize * tile;
    let long = (LONG * step).next_multiple_of(bk);
    Ok(vec![
        ("whole", of((queries, keys), [1, 1, 1], "all", &|_, _| true)?),
        ("ragged", of(ragged, [1, 2, 2], "all", &|_, _| true)?),
        ("heads", rows_first),
        (
            "uneven",
            of((2 * queries, 2 * keys), [1, 1, 1], "rows of different lengths", &|row, column| {
                if row % 3 == 0 { true } else { (row * 7 + column * 5) % 4 == 0 }
            })?,
        ),
        (
            "empty",
            of((2 * queries, keys), [1, 1, 1], "rows without blocks", &|row, column| {
                row % 4 > 1 && column % 2 == row % 2
            })?,
        ),
        // Rows of one tile that share no block: their consumers pass each other's steps on.
        (
            "apart",
            of((tile, 24 * bk), [1, 1, 1], "rows that share no block", &|row, column| column % 3 == (row + 1) % 3)?,
        ),
        ("nothing", of(ragged, [1, 1, 1], "no blocks", &|_, _| false)?),
        ("long", steep(of((rows * bm, long), [1, 1, 1], "a long row", &|row, column| row == 0 || column == row)?)),
        (
            "short",
            steep(of((short, keys), [1, 1, 1], "many short rows", &|row, column| (row * row + 5 * column) % 7 < 2)?),
        ),
        (WITHOUT_SUMS, of(ragged, [1, 1, 1], "all", &|_, _| true)?),
        ("single", of((1, 1), [1, 1, 1], "one query, one key", &|_, _| true)?),
    ])
}
