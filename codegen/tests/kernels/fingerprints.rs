//! The gate of every change that is not meant to change a kernel: the text and the launch of each plan of the rendering
//! matrix has the fingerprint that `fingerprints.txt` records. `BSR_BLESS=1` writes the file anew. A text that is new has no
//! instruction that does nothing: those that are recorded were looked at when they were, and of them a sample is again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use bsr_codegen::emit::fingerprint;
use bsr_codegen::{Argument, AttentionProblem, Plan, Problem, TensorStrides};

use crate::matrix::everything;
use crate::rendered::fingerprint_of;
use crate::rendering::useless_lines;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fingerprints.txt");

/// Of the recorded texts, one in so many is searched again for instructions that do nothing.
const SAMPLE: usize = 16;

/// Changed plans that are shown.
const SHOWN: usize = 24;

#[test]
fn every_kernel_of_the_matrix_is_as_recorded() {
    let plans = everything::plans();
    assert!(plans.len() >= 3000, "{} plans", plans.len());
    let recorded = std::fs::read_to_string(PATH).unwrap();
    let made = lines(&plans, &recorded);
    if std::env::var_os("BSR_BLESS").is_some() {
        std::fs::write(PATH, made.join("")).unwrap();
    }
    let recorded = std::fs::read_to_string(PATH).unwrap();
    let by_spec = |text: &str| -> BTreeMap<String, String> {
        let entries = text.lines().filter_map(|line| line.split_once("  "));
        entries.map(|(prints, spec)| (spec.to_owned(), prints.to_owned())).collect()
    };
    let (now, then) = (by_spec(&made.join("")), by_spec(&recorded));
    let changed: Vec<String> = now
        .iter()
        .filter(|(spec, prints)| then.get(*spec) != Some(prints))
        .map(|(spec, _)| if then.contains_key(spec) { format!("changed: {spec}") } else { format!("new: {spec}") })
        .chain(then.keys().filter(|spec| !now.contains_key(*spec)).map(|spec| format!("no longer planned: {spec}")))
        .collect();
    assert!(
        changed.is_empty(),
        "{} of {} kernels are not as recorded in tests/fingerprints.txt (BSR_BLESS=1 writes it):\n{}",
        changed.len(),
        now.len(),
        changed[..changed.len().min(SHOWN)].join("\n")
    );
}

/// One line a plan: the fingerprints of its text and of its launch, and its spec.
///
/// # Panics
/// When a text that was not recorded, or one of the sample, has an instruction that does nothing.
fn lines(plans: &[Plan], recorded: &str) -> Vec<String> {
    let known: BTreeSet<&str> = recorded.lines().filter_map(|line| line.split(' ').next()).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = vec![];
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(at) else { return made };
            let (launch, text) = (fingerprint(&launch(plan)), fingerprint_of(plan));
            if at.is_multiple_of(SAMPLE) || !known.contains(text.as_str()) {
                assert_eq!(useless_lines(plan.ptx().text()), [""; 0], "{}", plan.spec());
            }
            made.push((at, format!("{text} {launch}  {}\n", plan.spec())));
        }
    };
    let mut made: Vec<(usize, String)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    made.sort();
    made.into_iter().map(|(_, line)| line).collect()
}

/// The numbers that go to the driver for a ragged problem, and to the schedule.
fn launch(plan: &Plan) -> String {
    let problem = Problem { m: 1000, n: 999, k: 1001, nnzb: 17, lda: 1008, ldb: 1016, ldc: 1024, ldt: 1032 };
    let shape = plan.launch(&problem, [60, 2]);
    let mut text =
        format!("{:?} {} {} {} {}\n", shape.grid, shape.block, shape.cluster, shape.shared_bytes, shape.is_dependent);
    for parameter in &shape.parameters {
        let argument = match parameter.argument {
            Argument::Map(map) => numbers(&format!("{map:?}")),
            // Of the signature alone: the launch of an attention follows.
            Argument::Strided(_) => String::new(),
            Argument::Number(number) => number.to_string(),
            _ => String::new(),
        };
        writeln!(text, "{} {argument}", parameter.name).unwrap();
    }
    for map in plan.problem_maps(&problem) {
        writeln!(text, "{}", numbers(&format!("{map:?}"))).unwrap();
    }
    let strides = TensorStrides { row: 512, head: 128, batch: 1 << 20 };
    let problem = AttentionProblem {
        batch: 3,
        heads: 8,
        key_heads: 4,
        queries: 1000,
        keys: 777,
        pages: 0,
        strides: [strides; 4],
        factors: [1, 4],
    };
    for parameter in plan.attention_launch(&problem, 132).iter().flat_map(|launch| &launch.parameters) {
        match parameter.argument {
            Argument::Strided(map) => writeln!(text, "{}", numbers(&format!("{map:?}"))).unwrap(),
            Argument::Number(number) => writeln!(text, "{number}").unwrap(),
            _ => {}
        }
    }
    let of_schedule = format!("{:?} {:?} {:?}", plan.cluster_tile(), plan.tile_scheduler(), plan.sddmm_tiles());
    writeln!(text, "{}", numbers(&of_schedule)).unwrap();
    if let Some(tiles) = plan.attention_tiles() {
        writeln!(text, "{}", numbers(&format!("{tiles:?}"))).unwrap();
    }
    text
}

/// The numbers in `text`, whatever the fields that hold them are called.
fn numbers(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let numbers = words.filter(|word| word.bytes().all(|b| b.is_ascii_digit()) || *word == "true" || *word == "false");
    numbers.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
