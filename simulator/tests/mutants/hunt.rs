//! A hunt for mutants: each is judged, those that nothing finds are explained or missed, and a summary comes last, after a line
//! for each class of operators (`class: operator`).
//!
//! Everything runs on all cores of the machine. `BSR_MUTANTS=n` takes one mutant in n, `BSR_SHARD=i/n` the i-th of n shares
//! of them, `BSR_KERNEL` the kernels whose specs contain its words, and `BSR_OPERATOR` the mutants whose names begin with it.

use std::collections::BTreeMap;
use std::time::Instant;

use rayon::prelude::*;

/// Says something of a text, or of the name of a mutant.
type Told<'k, T> = Box<dyn Fn(&str) -> Option<T> + Send + Sync + 'k>;

/// A kernel and the mutants of it.
pub(crate) struct Prey<'k> {
    pub(crate) spec: &'k str,
    /// Name with line, and text.
    pub(crate) mutants: Vec<(String, String)>,
    /// What a check finds wrong with a text.
    pub(crate) judge: Told<'k, String>,
    /// Why the mutant of this name is equivalent, if it is known to be.
    pub(crate) why: Told<'k, &'static str>,
}

/// Mutants that were judged, those of them that are equivalent, and those that nothing was said of.
pub(crate) struct Hunt {
    pub(crate) name: String,
    pub(crate) all: usize,
    pub(crate) equivalent: usize,
    pub(crate) missed: Vec<String>,
}

/// What is known of a mutant that was judged.
enum Fate {
    Caught,
    Equivalent,
    Missed(String),
}

/// Makes the kernels ready, then judges one mutant in `one_in` of each, on all cores. `name` is the set's.
pub(crate) fn hunt<'k>(
    name: &str,
    kernels: &[&'k str],
    one_in: usize,
    prepare: impl Fn(&'k str) -> Prey<'k> + Sync,
) -> Hunt {
    let start = Instant::now();
    let only = std::env::var("BSR_KERNEL").unwrap_or_default();
    let chosen: Vec<_> = kernels.iter().enumerate().filter(|(_, spec)| spec.contains(&only)).collect();
    let preys: Vec<(usize, Prey<'k>)> =
        chosen.into_par_iter().with_max_len(1).map(|(number, spec)| (number, prepare(spec))).collect();
    let operator = std::env::var("BSR_OPERATOR").unwrap_or_default();
    let operator = operator.as_str();
    let taken: Vec<_> = preys
        .iter()
        .flat_map(|(number, prey)| {
            let asked = prey.mutants.iter().filter(move |(name, _)| name.starts_with(operator));
            asked.skip(number % one_in).step_by(one_in).map(move |mutant| (prey, mutant))
        })
        .collect();
    let taken = shard(taken);
    let fates: Vec<Fate> = taken.par_iter().with_max_len(1).map(|(prey, mutant)| fate(prey, mutant)).collect();
    let mut classes: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for ((_, (name, _)), fate) in taken.iter().zip(&fates) {
        let [mutants, equivalent, caught] = classes.entry(class(name)).or_default();
        *mutants += 1;
        *equivalent += usize::from(matches!(fate, Fate::Equivalent));
        *caught += usize::from(matches!(fate, Fate::Caught));
    }
    for (class, [mutants, equivalent, caught]) in classes {
        println!("class, {name}: {class}: {mutants} mutants, {equivalent} equivalent, {caught} caught");
    }
    let all = fates.len();
    let equivalent = fates.iter().filter(|fate| matches!(fate, Fate::Equivalent)).count();
    let missed: Vec<String> =
        fates.into_iter().filter_map(|fate| if let Fate::Missed(name) = fate { Some(name) } else { None }).collect();
    println!(
        "summary, {name}: {all} mutants, {equivalent} equivalent, {} caught, {} missed; {} kernels, {} threads, {:.0} s{}",
        all - equivalent - missed.len(),
        missed.len(),
        preys.len(),
        rayon::current_num_threads(),
        start.elapsed().as_secs_f64(),
        missed.iter().map(|name| format!("\n  missed: {name}")).collect::<String>(),
    );
    Hunt { name: name.to_owned(), all, equivalent, missed }
}

/// Prints the classes as the table of the documentation; at least 99 of 100 real mutants of each are found.
pub(crate) fn all_are_found(classes: &[Hunt]) {
    println!("| class | mutants | harmless | real | found | rate |\n|---|---|---|---|---|---|");
    for Hunt { name, all, equivalent, missed } in classes {
        let (real, found) = (all - equivalent, all - equivalent - missed.len());
        let rate = 100.0 * found as f64 / real.max(1) as f64;
        println!("| {name} | {all} | {equivalent} | {real} | {found} | {rate:.1} % |");
    }
    for Hunt { name, all, equivalent, missed } in classes {
        assert!(100 * missed.len() <= all - equivalent, "{name}: missed are {missed:#?}");
    }
}

/// The class that an operator's name begins with, if it has one.
fn class(name: &str) -> &str {
    let operator = name.split(" @ ").next().unwrap_or_default();
    operator.split_once(": ").map_or("others", |(class, _)| class)
}

fn fate(prey: &Prey<'_>, (name, text): &(String, String)) -> Fate {
    let spec = prey.spec;
    match ((prey.judge)(text), (prey.why)(name)) {
        (Some(how), None) => println!("caught {spec}: {name}: {how}"),
        // What is said to be equivalent is so somewhere else.
        (Some(how), Some(_)) => println!("CAUGHT {spec}: {name}: {how}"),
        (None, Some(why)) => {
            println!("EQUIVALENT {spec}: {name}: {why}");
            return Fate::Equivalent;
        }
        (None, None) => {
            println!("SURVIVES {spec}: {name}");
            return Fate::Missed(format!("{spec}: {name}"));
        }
    }
    Fate::Caught
}

/// What `BSR_MUTANTS` asks for.
pub(crate) fn one_in(otherwise: usize) -> usize {
    std::env::var("BSR_MUTANTS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(otherwise)
}

/// The share of a list that `BSR_SHARD=i/n`, i from 1 to n, asks for; all of it otherwise.
pub(crate) fn shard<T>(list: Vec<T>) -> Vec<T> {
    let Ok(asked) = std::env::var("BSR_SHARD") else { return list };
    let parts = asked.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    let (share, shares) = parts.filter(|(i, n)| (1..=*n).contains(i)).unwrap_or_else(|| panic!("BSR_SHARD={asked}"));
    list.into_iter().skip(share - 1).step_by(shares).collect()
}
