//! The flags of every command that multiplies: what, how it is checked, and whether files are replaced.

use std::path::{Path, PathBuf};

use super::check_args::CheckArgs;
use super::exit::Failure;
use super::output::{Outputs, Replace};
use super::problem::ProblemArgs;
use super::ptx::PtxArgs;

#[derive(Debug, clap::Args)]
pub(super) struct WorkArgs {
    #[command(flatten)]
    pub(super) replace: Replace,
    #[command(flatten)]
    pub(super) ptx: PtxArgs,
    #[command(flatten)]
    pub(super) problem: ProblemArgs,
    #[command(flatten)]
    pub(super) check: CheckArgs,
}

impl WorkArgs {
    /// A problem, compared as where nothing is said of it; files are replaced.
    pub(super) fn of(problem: &ProblemArgs) -> Self {
        Self {
            replace: Replace::ALLOWED,
            ptx: PtxArgs::default(),
            problem: problem.clone(),
            check: CheckArgs::default(),
        }
    }

    /// The outputs, each with its flag, beside the files of the problem, of edited PTX and the arguments that may name a file.
    ///
    /// # Errors
    /// As [`Outputs::new`].
    pub(super) fn outputs<'a, 's>(
        &'s self,
        flags: impl IntoIterator<Item = (&'static str, Option<&'a PathBuf>)>,
        arguments: impl IntoIterator<Item = &'s str>,
    ) -> Result<Outputs<'a>, Failure> {
        let arguments = arguments.into_iter().map(Path::new);
        let inputs: Vec<&Path> = arguments.chain(self.ptx.path()).chain(self.problem.inputs()).collect();
        Outputs::new(flags, inputs, &self.replace)
    }
}
