//! Every value of every key that kernels of some kind take: checked on the problems that take the least, or on all of them.
#![allow(clippy::unwrap_used)]

#[path = "../../../runtime/tests/drawn/mod.rs"]
mod values;

use bsr::KernelSpec;
use clap::Parser;
use rayon::prelude::*;
use values::{ATTENTIONS, ATTENTIONS_OF_WARPS, PRODUCTS, covering, missing};

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
    let (kernel, lists) = (SimulatedKernel::new(&planned).unwrap(), lists(None).unwrap());
    let all = problems(&args, &planned).unwrap();
    let chosen: Vec<&dyn Trial> = match which {
        Which::All => all.iter().map(|trial| &**trial).collect(),
        Which::Least => {
            let least =
                |listed| all.iter().filter(move |trial| trial.is_listed() == listed && trial.has_several_blocks());
            let chosen =
                [false, true].into_iter().filter_map(|listed| least(listed).min_by_key(|trial| trial.effort()));
            chosen.map(|trial| &**trial).collect()
        }
    };
    assert!(!chosen.is_empty());
    chosen.into_iter().find_map(|trial| {
        let done =
            bsr_trial::check::check(&kernel, &lists, trial, schedules).unwrap_or_else(|failure| panic!("{failure}"));
        done.fault.map(|fault| format!("{text}\n  {}: {}, {:?}", fault.problem, fault.kinds(), fault.wrong))
    })
}

fn check(which: Which) {
    let specs = [covering(&PRODUCTS), covering(&ATTENTIONS), covering(&ATTENTIONS_OF_WARPS)].concat();
    let bases = [&PRODUCTS[..], &ATTENTIONS, &ATTENTIONS_OF_WARPS].concat();
    assert_eq!(missing(&bases, specs.iter().copied()), Vec::<String>::new());
    // A debug build takes one kernel in three.
    let every = !cfg!(debug_assertions) || std::env::var_os("BSR_EVERY_KERNEL").is_some();
    let specs: Vec<_> = specs.into_iter().step_by(if every { 1 } else { 3 }).collect();
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
