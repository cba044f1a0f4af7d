//! `bsr check` of an attention: problems of many kinds in orders of many kinds, on the simulator.

use std::io::Write;
use std::time::Instant;

use bsr::attention::{BlockList, HeadOrder, Mask, Shape, Sharing, SimulatedAttention};
use bsr::simulated::Options;
use bsr::{Dtype, KernelSpec, bf16, f16};

use super::super::dtypes::Number;
use super::super::exit::{Exit, Failure};
use super::super::line;
use super::super::problem::ProblemArgs;
use super::super::simulate::{findings_in_full, order};
use super::super::spec::Planned;
use super::problem::{Defaults, Problem, tolerance};

/// CTAs that share the work.
const CTAS: [u32; 3] = [3, 1, 7];

/// Runs the kernel of `text` on problems of every kind, or on the one that the flags ask for.
///
/// # Errors
/// Wrong: a finding or a wrong result. Bad input: a problem that cannot be had, PTX that cannot be read.
pub(in super::super) fn check(
    planned: &Planned,
    text: &str,
    args: &ProblemArgs,
    schedules: &[Options],
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let spec = planned.spec();
    let problems = match args.asks() {
        true => vec![("problem", Problem::new(args, spec, Defaults::SIMULATOR)?)],
        false => kinds(spec, args.seed())?,
    };
    let start = Instant::now();
    let (mut worst, mut runs) = (0.0_f64, 0);
    for (number, (name, problem)) in problems.iter().enumerate() {
        let kernel = SimulatedAttention::new(&planned.plan, text, planned.ptx.entry())?.with_ctas(CTAS[number % 3]);
        let error = match spec.a {
            Dtype::BF16 => in_every_schedule::<bf16>(&kernel, spec, problem, schedules),
            _ => in_every_schedule::<f16>(&kernel, spec, problem, schedules),
        };
        let error = error.map_err(|failure| {
            let words = format!("{}\n  {name}: {}; {}", failure.into_report(), problem.words(), problem.mask_words());
            Failure::reported(Exit::Wrong, words)
        })?;
        line(
            out,
            name,
            format_args!("{}; {}: clean, relative error {error:.1e}", problem.words(), problem.mask_words()),
        )?;
        worst = worst.max(error);
        runs += schedules.len();
    }
    let seconds = start.elapsed().as_secs_f64();
    let words = format!("{runs} runs without a finding, relative error at most {worst:.1e}; {seconds:.1} s");
    line(out, "verdict", format_args!("passes: {words}"))?;
    Ok(Exit::Done)
}

fn in_every_schedule<T: Number>(
    kernel: &SimulatedAttention,
    spec: &KernelSpec,
    problem: &Problem,
    schedules: &[Options],
) -> Result<f64, Failure> {
    let tensors = problem.tensors::<T>();
    let wanted = problem.wanted(spec, &tensors, usize::MAX);
    let mut worst = 0.0_f64;
    for options in schedules {
        let (output, sums, report) = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), options)?;
        if !report.is_clean() {
            let text = format!("schedule {}{}", order(options), findings_in_full(&report.findings));
            return Err(Failure::new(Exit::Wrong, text));
        }
        worst = worst.max(wanted.judge(&output, &sums, tolerance(T::DTYPE))?);
    }
    Ok(worst)
}

/// Problems of every kind, in sizes of the kernel's blocks.
fn kinds(spec: &KernelSpec, seed: u64) -> Result<Vec<(&'static str, Problem)>, Failure> {
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
                list.partial.push(spec.score.is_some() && (row + column).is_multiple_of(2));
            }
            list.indptr.push(list.indices.len() as u32);
        }
        let shape = Shape { batch, heads, key_heads, queries, keys, columns: spec.bn as usize };
        let mask = Mask::new((queries, keys), (bm, bk), Sharing::All, vec![list])?;
        let problem = Problem { seed, ..Problem::of_mask(spec, shape, mask, pattern.to_owned()) };
        Ok::<Problem, Failure>(problem)
    };
    let (queries, keys) = (rows * bm, columns * bk);
    let ragged = (queries - bm / 2 - 3, keys - bk / 2 - 5);
    let rows_first = Problem { order: HeadOrder::RowsFirst, ..of(ragged, [2, 4, 2], "all", &|_, _| true)? };
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
        ("nothing", of(ragged, [1, 1, 1], "no blocks", &|_, _| false)?),
        ("single", of((1, 1), [1, 1, 1], "one query, one key", &|_, _| true)?),
    ])
}
