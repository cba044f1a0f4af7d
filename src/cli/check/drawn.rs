//! Every value of every key that kernels of some kind take: checked on the problems that take the least, or on all of them.
#![allow(clippy::unwrap_used)]

#[path = "../../../runtime/tests/drawn/mod.rs"]
mod values;

use bsr::KernelSpec;
use bsr::attention::{SimulatedAttention, trials};
use clap::Parser;
use rayon::prelude::*;
use values::{ATTENTIONS, PRODUCTS, covering, missing};

use super::super::trials::Trial;
use super::fault::Fault;
use super::*;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

/// Which problems a kernel is checked on.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    /// The one that takes the least of those with several tiles, and of those whose work kernels list.
    Least,
    All,
}

/// What is wrong with the kernel of a spec, in one of the schedules in turn, or in all of them.
fn fault(number: usize, spec: &KernelSpec, which: Which) -> Option<String> {
    let text = spec.to_string();
    let args = Command::try_parse_from(["check", &text]).unwrap().args;
    let planned = args.ptx.plan(&text).unwrap_or_else(|failure| panic!("{text}: {}", failure.into_report()));
    let all: Vec<Options> = (0..3).map(|number| schedule(0, number)).collect();
    let schedules = if which == Which::All { &all[..] } else { &all[number % all.len()..][..1] };
    let done = if spec.op == Op::Attention {
        attention_fault(&planned, schedules, which)
    } else {
        product_fault(&args, &planned, schedules, which)
    };
    done.err().map(|fault| format!("{text}\n  {fault}"))
}

fn product_fault(args: &Args, planned: &Planned, schedules: &[Options], which: Which) -> Result<(), String> {
    let told = |failure: Failure| failure.into_report();
    let (kernel, lists) = (loaded(planned).map_err(told)?, lists(None).map_err(told)?);
    let problems = Problems::new(args, planned).map_err(told)?;
    let all: Vec<Trial> = (0..problems.count()).map(|index| problems.trial(index).unwrap()).collect();
    let several = |trial: &&Trial| trial.members[0].structure.nnzb() > 1 && !trial.far && trial.members[0].n > 1;
    let chosen: Vec<&Trial> = match which {
        Which::All => all.iter().collect(),
        Which::Least => {
            let least = |listed| all.iter().filter(several).filter(move |trial| trial.listed == listed);
            [false, true].into_iter().filter_map(|listed| least(listed).min_by_key(|trial| trial.effort)).collect()
        }
    };
    assert!(!chosen.is_empty());
    chosen.into_iter().try_for_each(|trial| {
        let done = checked(&kernel, &lists, (&problems, trial), schedules).map_err(told)?;
        let words = |fault: Fault| format!("{}: {}, {:?}", fault.problem, fault.kinds(), fault.wrong);
        done.fault.map_or(Ok(()), |fault| Err(words(fault)))
    })
}

fn attention_fault(planned: &Planned, schedules: &[Options], which: Which) -> Result<(), String> {
    let plan = &planned.plan;
    let kernel = SimulatedAttention::new(plan, planned.ptx.text(), planned.ptx.entry()).unwrap();
    let lists = lists(None).unwrap();
    let mut all = trials(plan, 0, 0).unwrap();
    if which == Which::Least {
        // That of one query and one key has no second step.
        let least = |listed| {
            let several = all.iter().filter(|trial| trial.problem.mask.stored() > 1 && trial.listed == listed);
            several.min_by_key(|trial| trial.all_effort(plan, schedules)).cloned()
        };
        all = [false, true].into_iter().filter_map(least).collect();
    }
    all.iter().try_for_each(|trial| {
        let done = super::super::attention::checked(&kernel, &lists, trial, schedules);
        done.map(drop).map_err(|failure| format!("{}: {}", trial.name, failure.into_report()))
    })
}

fn check(which: Which) {
    let specs = [covering(&PRODUCTS), covering(&ATTENTIONS)].concat();
    let bases = [&PRODUCTS[..], &ATTENTIONS[..]].concat();
    assert_eq!(missing(&bases, specs.iter().copied()), Vec::<String>::new());
    let faults: Vec<String> =
        specs.par_iter().enumerate().filter_map(|(number, spec)| fault(number, spec, which)).collect();
    assert!(faults.is_empty(), "{} of {} kernels:\n{}", faults.len(), specs.len(), faults.join("\n"));
}

#[test]
fn every_value_of_every_key_passes_on_the_problems_that_take_the_least() {
    check(Which::Least);
}

#[test]
#[ignore = "takes long"]
fn every_value_of_every_key_passes_on_all_problems() {
    check(Which::All);
}
