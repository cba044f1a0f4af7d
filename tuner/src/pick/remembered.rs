//! What was measured at the first use of a product: kept in a file for later programs, and told to whoever asks for it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bsr_codegen::{KernelSpec, Refusal};

use super::{FirstUse, Table, Tuned, Tuner};
use crate::TuningProblem;

/// A file of tuned results, that may be large.
const LARGEST: u64 = 1 << 28;

/// What is done with measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    /// Where they are added.
    file: Option<PathBuf>,
    /// Whether they are told on stderr.
    is_told: bool,
    /// What the environment says that cannot be done.
    refused: Option<Refusal>,
}

impl Tuner {
    /// Uses the results of a file, a line of JSON each as `bsr export --tuned` writes them, and adds to it what is
    /// [measured](FirstUse::Measure) from now on. A file that is not there begins with the first measurement.
    ///
    /// # Errors
    /// A file that cannot be read, or a line that is no result.
    pub fn remembering(mut self, path: impl Into<PathBuf>) -> Result<Self, Refusal> {
        self.keep_in(path.into())?;
        Ok(self)
    }

    fn keep_in(&mut self, path: PathBuf) -> Result<(), Refusal> {
        if path.exists() {
            let about = |error: &dyn std::fmt::Display| Refusal::of(path.display(), error);
            let text = bsr_runtime::read::text(&path, LARGEST).map_err(|error| about(&error))?;
            self.table.extend(Table::from_lines(&text).map_err(|error| about(&error))?);
        }
        self.remembered.file = Some(path);
        Ok(())
    }

    /// Tells every measurement on stderr: each kernel, its time and its rate, and which is the best.
    #[must_use]
    pub fn told(mut self) -> Self {
        self.remembered.is_told = true;
        self
    }

    /// As the user says without a change of the program: `BSR_TUNING` is the [`FirstUse`], `BSR_TUNED` the file that
    /// [remembers](Tuner::remembering), and `BSR_LOG=tuning` [tells](Tuner::told). What cannot be done is the answer to the first
    /// choice.
    #[must_use]
    pub fn by_environment(self) -> Self {
        self.by_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    pub(super) fn by_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        if variable("BSR_LOG").is_some_and(|topics| topics.split(',').any(|topic| topic.trim() == "tuning")) {
            self = self.told();
        }
        match variable("BSR_TUNING").map(|word| word.parse::<FirstUse>()) {
            Some(Ok(first_use)) => self.first_use = first_use,
            Some(Err(error)) => self.remembered.refused = Some(Refusal::of("BSR_TUNING", error)),
            None => {}
        }
        if let Some(Err(refusal)) = variable("BSR_TUNED").map(|path| self.keep_in(path.into())) {
            self.remembered.refused = Some(Refusal::of("BSR_TUNED", refusal));
        }
        self
    }

    pub(super) fn check_environment(&self) -> Result<(), Refusal> {
        self.remembered.refused.clone().map_or(Ok(()), Err)
    }

    /// Tells and keeps what was measured.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn remember(
        &self,
        problem: &TuningProblem,
        specs: &[KernelSpec],
        times: &[Result<f64, String>],
    ) -> Result<(), Refusal> {
        if self.remembered.is_told {
            // Nobody may be there to read it.
            let _ = std::io::stderr().write_all(told(problem, specs, times).as_bytes());
        }
        let timed: Vec<_> =
            specs.iter().zip(times).filter_map(|(spec, us)| Some((*spec, *us.as_ref().ok()?))).collect();
        let (Some(file), Some(tuned)) = (&self.remembered.file, Tuned::measured(problem, &self.gpu, &timed)) else {
            return Ok(());
        };
        append(file, &tuned).map_err(|error| Refusal::of(file.display(), error).help("BSR_TUNED names the file"))
    }
}

/// One write of one line, so that programs that share a file do not mix theirs.
fn append(file: &Path, tuned: &Tuned) -> std::io::Result<()> {
    let line = serde_json::to_string(tuned)? + "\n";
    std::fs::OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

/// Each kernel with its time and rate, and the best.
fn told(problem: &TuningProblem, specs: &[KernelSpec], times: &[Result<f64, String>]) -> String {
    let (workload, mut text) = (&problem.workload, String::new());
    let _ = writeln!(text, "tuning   {}; {} x {} x {}", workload.facts, workload.m, workload.n, workload.k);
    let rate = |us: f64| bsr_runtime::bench::tflops(problem.executed_flops(), us);
    let mut best: Option<(&KernelSpec, f64)> = None;
    for (spec, us) in specs.iter().zip(times) {
        let _ = match us {
            Ok(us) => writeln!(text, "variant  {:9.4} ms  {:7.1} TFLOP/s  {spec}", us / 1e3, rate(*us)),
            Err(why) => writeln!(text, "variant  failed: {}  {spec}", why.lines().next().unwrap_or_default()),
        };
        if let Ok(us) = us
            && best.is_none_or(|(_, least)| *us < least)
        {
            best = Some((spec, *us));
        }
    }
    if let Some((spec, us)) = best {
        let _ = writeln!(text, "best     {:9.4} ms  {:7.1} TFLOP/s  {spec}", us / 1e3, rate(us));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tests::{gpu, square};
    use super::*;
    use crate::pick::Why;

    fn timed(specs: &[KernelSpec]) -> Vec<Result<f64, String>> {
        specs.iter().enumerate().map(|(at, _)| if at == 1 { Ok(5.0) } else { Ok(9.0 + at as f64) }).collect()
    }

    #[test]
    fn what_one_program_measures_the_next_one_knows() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuned.jsonl");
        let measuring = || Tuner::new(gpu()).first_use(FirstUse::Measure).remembering(&file).unwrap();
        let choice = measuring().pick(&square(), Some(&mut timed)).unwrap();
        assert!(matches!(choice.why, Why::Measured { us: 5.0, .. }), "{choice}");
        let known = measuring().pick(&square(), Some(&mut |_| panic!("it is known"))).unwrap();
        assert_eq!(known.spec, choice.spec);
        let Why::Exact(tuned) = known.why else { panic!("{known}") };
        assert_eq!((tuned.us, tuned.device.name, tuned.others.len()), (5.0, gpu().name, super::super::MEASURED - 1));
    }

    #[test]
    fn a_file_that_holds_something_else_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuned.jsonl");
        std::fs::write(&file, "{}\n").unwrap();
        let refused = Tuner::new(gpu()).remembering(&file).unwrap_err().to_string();
        assert!(refused.contains("tuned.jsonl") && refused.contains("line 1 is no tuned result"), "{refused}");
        let tuner = Tuner::new(gpu()).by_variables(|name| (name == "BSR_TUNED").then(|| file.display().to_string()));
        assert!(tuner.pick(&square(), None).unwrap_err().to_string().contains("line 1 is no tuned result"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{}\n");
        let tuner = Tuner::new(gpu()).by_variables(|name| (name == "BSR_TUNING").then(|| "guess".to_owned()));
        let said = tuner.pick(&square(), None).unwrap_err().to_string();
        assert!(said.contains("BSR_TUNING") && said.contains("`predict` or `measure`, not `guess`"), "{said}");
    }

    #[test]
    fn measurements_are_told_in_lines() {
        let specs = ["bm = 64, bn = 64, bk = 64", "bm = 64, bn = 128, bk = 64"].map(|text| text.parse().unwrap());
        let lines = told(&square(), &specs, &[Err("does not fit\nthe device".to_owned()), Ok(31.25)]);
        let rate = bsr_runtime::bench::tflops(square().executed_flops(), 31.25);
        assert_eq!(
            lines,
            format!(
                "tuning   bm = 64, bk = 64; 2048 x 2048 x 2048\n\
                 variant  failed: does not fit  bm = 64, bn = 64, bk = 64\n\
                 variant     0.0312 ms  {rate:7.1} TFLOP/s  bm = 64, bn = 128, bk = 64\n\
                 best        0.0312 ms  {rate:7.1} TFLOP/s  bm = 64, bn = 128, bk = 64\n"
            )
        );
    }
}
