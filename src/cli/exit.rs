//! How the command ends: five exit codes, and the failures that lead to them.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use bsr::KernelError;
use bsr::Refusal;
use bsr::gpu::GpuError;
use bsr::read::ReadError;
use bsr::simulated::SimulatedError;
use bsr::write::{WriteError, WriteProblem};
use bsr_trial::FailureKind;
use bsr_tuner::SpaceError;

use super::print::say;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Everything was done.
    Done = 0,
    /// A wrong result, a failed check, or a device that failed.
    Wrong = 1,
    /// Something in the command line or a file it names. clap exits with the same code.
    BadInput = 2,
    /// No GPU that runs these kernels.
    NoDevice = 3,
    /// Ctrl-C: 128 and the number of the signal.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why the command could not do what it was asked, and the exit code that says so.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    report: String,
}

impl Failure {
    /// A failure in a line, or in several: fact, arithmetic, remedy.
    pub(super) fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, report: format!("error: {message}") }
    }

    /// What the command line or a file that it names makes impossible.
    pub(super) fn bad_input(message: impl Display) -> Self {
        Self::new(Exit::BadInput, message)
    }

    /// A wrong result, or what failed although it was asked for rightly.
    pub(super) fn wrong(message: impl Display) -> Self {
        Self::new(Exit::Wrong, message)
    }

    /// A failure whose report has its final form.
    pub(super) fn reported(exit: Exit, report: impl Into<String>) -> Self {
        Self { exit, report: report.into() }
    }

    /// The failure in a line, without the word `error`.
    pub(super) fn first_line(&self) -> &str {
        let line = self.report.lines().next().unwrap_or_default();
        line.strip_prefix("error: ").unwrap_or(line)
    }

    /// The whole report.
    pub(super) fn into_report(self) -> String {
        self.report
    }

    /// The exit code.
    pub(super) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints the failure; a report of nothing is not printed.
    pub(super) fn report(self) -> Exit {
        if !self.report.is_empty() {
            say(self.report);
        }
        self.exit
    }
}

/// Standard output. A reader that has seen enough (`bsr emit ... | head`) is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::reported(Exit::Done, "")
        } else {
            Self::new(Exit::Wrong, format!("cannot write the output: {error}"))
        }
    }
}

impl From<bsr_trial::Failure> for Failure {
    fn from(failure: bsr_trial::Failure) -> Self {
        let exit = match failure.kind() {
            FailureKind::Wrong => Exit::Wrong,
            FailureKind::BadInput => Exit::BadInput,
            FailureKind::NoDevice => Exit::NoDevice,
        };
        Self::new(exit, failure)
    }
}

/// Errors that a trial ends with as well.
macro_rules! fails_as_a_trial {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                bsr_trial::Failure::from(error).into()
            }
        }
    )+};
}

fails_as_a_trial!(GpuError, KernelError, ReadError, Refusal, SimulatedError);

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error.problem() {
            WriteProblem::Io(why) => cannot_write(error.file(), why),
            _ => Self::bad_input(error),
        }
    }
}

/// Errors of a spec have their final form.
impl From<SpaceError> for Failure {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Spec(errors) => Self::reported(Exit::BadInput, errors.to_string()),
            SpaceError::Refused(refusal) => refusal.into(),
        }
    }
}

/// A file that could not be written.
pub(super) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::bad_input(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_device_and_a_failing_one_exit_differently() {
        assert_eq!(Failure::from(GpuError::NoDevice).exit(), Exit::NoDevice);
        assert_eq!(Failure::from(KernelError::Gpu(GpuError::NoDriver)).exit(), Exit::NoDevice);
        let jit = GpuError::Jit { driver: String::new(), log: String::new() };
        assert_eq!(Failure::from(jit).exit(), Exit::Wrong);
    }

    #[test]
    fn a_closed_pipe_is_a_silent_success() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((closed.exit(), closed.first_line()), (Exit::Done, ""));
    }

    #[test]
    fn the_first_line_is_the_fact_alone() {
        let failure = Failure::from(GpuError::NoDevice);
        assert!(!failure.first_line().contains("error:") && !failure.first_line().contains("help"));
    }
}
