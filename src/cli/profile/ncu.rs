//! Nsight Compute's command: where it is, and what it is asked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::super::exit::Failure;
use super::super::toolkit::{self, PLACES};
use super::super::{cannot_write, invocation};

/// The profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ncu {
    path: PathBuf,
}

/// A report in a folder that goes with it.
#[derive(Debug)]
pub(super) struct Report {
    ncu: PathBuf,
    folder: tempfile::TempDir,
}

/// Groups of counters: time and clocks, pipes, instructions, memory, stalls, samples of every instruction.
const SECTIONS: [&str; 6] = [
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "InstructionStats",
    "MemoryWorkloadAnalysis",
    "WarpStateStats",
    "SourceCounters",
];
/// Counters that no group has by these names in every version.
const METRICS: &str = "gpu__time_duration.sum,sm__cycles_elapsed.avg.per_second,dram__cycles_elapsed.avg.per_second,\
                       dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum";
/// What ncu says where the driver keeps the counters from users.
const NO_RIGHTS: &str = "ERR_NVGPUCTRPERM";
/// Why there is no report.
#[derive(Debug)]
pub(super) enum NoReport {
    /// There are no counters here: in one sentence.
    NoCounters(String),
    /// Something else went wrong.
    Failed(Failure),
}

impl From<Failure> for NoReport {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What there is without counters.
const INSTEAD: &str = "what the kernel's own probes tell follows, as of `bsr trace SPEC PROBLEM`";

impl Ncu {
    /// The file that is named, or the first in the usual places.
    ///
    /// # Errors
    /// No counters: there is none. Bad input: there is none where it was named.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, NoReport> {
        match named {
            Some(path) if path.is_file() => Ok(Self { path: path.to_owned() }),
            Some(path) => {
                let message = format!("there is no ncu at {}, where --ncu says\n  help: correct --ncu", path.display());
                Err(Failure::bad_input(message).into())
            }
            None => toolkit::find("ncu", None).map(|path| Self { path }).ok_or_else(|| {
                NoReport::NoCounters(format!("no ncu (Nsight Compute) {PLACES}, and --ncu names none: {INSTEAD}"))
            }),
        }
    }

    /// Runs this very command under the profiler, which takes the second launch of the kernel: the first one is for the check.
    /// Where there is machine code with lines, that is what is launched.
    ///
    /// # Errors
    /// No counters: it is not allowed. Wrong: the command fails under it.
    pub(super) fn profile(&self, entry: &str, cubin: Option<&[u8]>) -> Result<Report, NoReport> {
        let folder = tempfile::tempdir().map_err(|error| cannot_write(&std::env::temp_dir(), &error))?;
        let report = Report { ncu: self.path.clone(), folder };
        let again = invocation::again()
            .map_err(|error| Failure::wrong(format!("cannot find this program to profile it: {error}")))?(
        );
        let mut command = Command::new(&self.path);
        command.args(arguments(entry, &report.file())).arg(again.get_program()).args(again.get_args());
        command.args(invocation::args()).arg("--launch-only");
        if let Some(cubin) = cubin {
            let path = report.folder.path().join("kernel.cubin");
            std::fs::write(&path, cubin).map_err(|error| cannot_write(&path, &error))?;
            command.arg("--cubin").arg(path);
        }
        let output = started(&self.path, &mut command)?;
        match trouble(&said(&output), output.status.success() && report.file().is_file()) {
            None => Ok(report),
            Some(why) => Err(why),
        }
    }
}

impl Report {
    fn file(&self) -> PathBuf {
        self.folder.path().join("report.ncu-rep")
    }

    /// A page as CSV.
    ///
    /// # Errors
    /// Wrong: ncu does not print it.
    pub(super) fn page(&self, page: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new(&self.ncu);
        command.arg("--import").arg(self.file()).args(["--csv", "--print-units", "base", "--page"]).args(page);
        let output = started(&self.ncu, &mut command)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Failure::wrong(format!("ncu does not print its report\n{}", said(&output).trim()))),
        }
    }
}

fn arguments(entry: &str, report: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![];
    for section in SECTIONS {
        arguments.extend(["--section".into(), section.into()]);
    }
    let flags = ["--metrics", METRICS, "--clock-control", "none", "--kernel-name", entry];
    arguments.extend(flags.map(OsString::from));
    arguments
        .extend(["--launch-skip", "1", "--launch-count", "1", "--force-overwrite", "--export"].map(OsString::from));
    arguments.push(report.into());
    arguments
}

/// What to make of what ncu said; nothing of a report that is there.
fn trouble(said: &str, is_there: bool) -> Option<NoReport> {
    if said.contains(NO_RIGHTS) {
        return Some(NoReport::NoCounters(format!(
            "ncu may not read the counters of this GPU ({NO_RIGHTS}; an administrator allows it): {INSTEAD}"
        )));
    }
    (!is_there).then(|| Failure::wrong(format!("ncu made no report\n{}", said.trim())).into())
}

fn started(path: &Path, command: &mut Command) -> Result<Output, Failure> {
    let output = command.output();
    output.map_err(|error| Failure::bad_input(format!("cannot start {}: {error}", path.display())))
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn without_rights_there_is_one_sentence_and_probes_follow() {
        let said = "==PROF== Connected to process 7\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access \
                    NVIDIA GPU Performance Counters on the target device 0.\n";
        let Some(NoReport::NoCounters(sentence)) = trouble(said, false) else { panic!("counters") };
        assert!(
            sentence.contains(NO_RIGHTS) && sentence.contains("bsr trace SPEC PROBLEM") && !sentence.contains('\n')
        );
        assert!(trouble("==PROF== Report: report.ncu-rep", true).is_none());
        let Some(NoReport::Failed(failure)) = trouble("==WARNING== No kernels were profiled.", false) else {
            panic!("no report")
        };
        assert!(failure.into_report().contains("No kernels"));
    }

    #[test]
    fn clocks_are_left_as_they_are_and_one_launch_is_taken() {
        let words: Vec<String> =
            arguments("bsr_x", Path::new("r")).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let behind = |flag: &str| words[words.iter().position(|word| word == flag).unwrap() + 1].clone();
        assert_eq!([behind("--clock-control"), behind("--launch-count"), behind("--launch-skip")], ["none", "1", "1"]);
        assert_eq!((behind("--kernel-name"), behind("--export")), ("bsr_x".to_owned(), "r".to_owned()));
    }

    #[test]
    fn a_profiler_that_is_not_where_it_was_named_is_bad_input() {
        let Err(NoReport::Failed(failure)) = Ncu::find(Some(Path::new("/nowhere/ncu"))) else { panic!("found") };
        assert!(failure.into_report().contains("help: correct --ncu"));
    }
}
