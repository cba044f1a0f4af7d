//! `bsr trace --compare A B`: two traces, each of a file or taken now on the problem of both.

use std::io::Write;
use std::path::Path;

use bsr::timeline::{Summary, beside, compare};
use bsr_trial::subject;
use bsr_tuner::{TraceOf, Workload};
use serde_json::Value;

use super::super::exit::{Exit, Failure};
use super::super::spec::{self, Planned};
use super::super::{line, output, say};
use super::side::{self, Side};
use super::{Args, record as recording};

/// Prints what each role's time went to in both, and writes both into one file where that is asked for.
///
/// # Errors
/// Wrong: a wrong result of a kernel. Bad input: a file that cannot be read or is no trace, specs of different operations.
pub(super) fn run(args: &Args, names: [&str; 2], out: &mut dyn Write) -> Result<Exit, Failure> {
    let sides = names.map(Side::of);
    let outputs = args.work.outputs([("-o", args.output.as_ref())], names)?;
    let out = &mut *outputs.answers(out);
    let mut traces: [Option<Value>; 2] = [None, None];
    let mut kernels: [Option<Planned>; 2] = [None, None];
    for (at, side) in sides.iter().enumerate() {
        match side {
            Side::File(path) => traces[at] = Some(side::read(path)?),
            Side::Spec(text) => kernels[at] = Some(spec::plan_named(text, ["A", "B"][at])?),
        }
    }
    // What is wrong with a file is told before anything runs.
    for (trace, name) in traces.iter().zip(names) {
        if let Some(trace) = trace {
            let read = Summary::of_trace(trace).and_then(|_| TraceOf::checked(trace));
            read.map_err(|error| side::unreadable(Path::new(name), &error))?;
        }
    }
    let of_file = traces.iter().flatten().find_map(TraceOf::read).map(|of| of.workload);
    record(args, &kernels, of_file.as_ref(), &mut traces, out)?;
    let [Some(a), Some(b)] = traces else { return Ok(Exit::Done) };
    if let Some(path) = &args.output {
        let text = beside(&a, &b)?.to_string();
        output::write_text(path, &text)?;
        let what = format!("{} B written to {}, for ui.perfetto.dev", text.len(), path.display());
        line(out, "trace", format_args!("{what}: A and B in turns"))?;
    }
    for (name, trace) in [("A", &a), ("B", &b)] {
        if let Some(words) = side::words(trace) {
            line(out, name, words)?;
        }
    }
    if let Some((a, b)) = TraceOf::read(&a).zip(TraceOf::read(&b))
        && problem(&a.workload) != problem(&b.workload)
    {
        let [a, b] = [a, b].map(|of| side::problem_words(&of.workload));
        say(format_args!("note: A and B are of different problems, {a} and {b}"));
    }
    writeln!(out, "\n{}", compare(&Summary::of_trace(&a)?, &Summary::of_trace(&b)?))?;
    Ok(Exit::Done)
}

/// Traces the kernels on one problem: that of the file, where there is one and the flags ask for no other.
fn record(
    args: &Args,
    kernels: &[Option<Planned>; 2],
    of_file: Option<&Workload>,
    traces: &mut [Option<Value>; 2],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(first) = kernels.iter().flatten().next() else { return Ok(()) };
    let ops = kernels.iter().flatten().map(|planned| planned.spec().op);
    let ops: Vec<_> = of_file.iter().map(|workload| workload.facts.op()).chain(ops).collect();
    if let Some(other) = ops.iter().find(|op| **op != ops[0]) {
        let fact = format!("one is of op = {}, the other of op = {other}: no problem is one of both", ops[0]);
        return Err(Failure::bad_input(format!("{fact}\n  help: two kernels of one operation")));
    }
    let opened = recording::open(args.device, first)?;
    let subject = match of_file.filter(|_| !args.work.problem.is_any()) {
        Some(workload) => subject::of_workload(workload)?,
        None => recording::requested(&args.work, first, &opened)?,
    };
    for (planned, trace) in kernels.iter().zip(traces) {
        if let Some(planned) = planned {
            let probed = planned.probed(args.probes())?;
            let check = args.work.check.verification();
            *trace = Some(recording::record(&subject, check, (planned.clone(), probed), &opened, out)?);
        }
    }
    Ok(())
}

/// What two kernels that are compared should have in common.
fn problem(workload: &Workload) -> impl PartialEq + use<> {
    let Workload { m, n, k, source, seed, .. } = workload;
    (workload.facts.op(), [*m, *n, *k], source.clone(), *seed)
}
