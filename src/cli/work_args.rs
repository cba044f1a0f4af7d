//! The flags of every command that multiplies: what, how it is checked, and whether files are replaced.

use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::output::{Outputs, Replace};
use super::problem::ProblemArgs;
use super::spec;
use super::verdict::CheckArgs;

#[derive(Debug, clap::Args)]
pub(super) struct WorkArgs {
    #[command(flatten)]
    pub(super) replace: Replace,
    #[command(flatten)]
    pub(super) problem: ProblemArgs,
    #[command(flatten)]
    pub(super) check: CheckArgs,
}

impl WorkArgs {
    /// A problem, compared as where nothing is said of it; files are replaced.
    pub(super) fn of(problem: &ProblemArgs) -> Self {
        Self { replace: Replace::ALLOWED, problem: problem.clone(), check: CheckArgs::default() }
    }

    /// The outputs, each with its flag, beside the files of the problem and of the SPEC arguments.
    ///
    /// # Errors
    /// As [`Outputs::new`].
    pub(super) fn outputs<'a, 's>(
        &self,
        flags: impl IntoIterator<Item = (&'static str, Option<&'a PathBuf>)>,
        specs: impl IntoIterator<Item = &'s str>,
    ) -> Result<Outputs<'a>, Failure> {
        let specs: Vec<&Path> = specs.into_iter().filter_map(spec::file).collect();
        Outputs::new(flags, specs.into_iter().chain(self.problem.inputs()), &self.replace)
    }
}
