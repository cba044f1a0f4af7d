//! `bsr completions SHELL`: what a shell completes.

use std::path::Path;

use clap_complete::Shell;

use super::exit::{Exit, Failure};
use super::output;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr completions bash > ~/.local/share/bash-completion/completions/bsr
  bsr completions zsh > ~/.zfunc/_bsr
  bsr completions fish > ~/.config/fish/completions/bsr.fish")]
pub(super) struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `command`.
pub(super) fn run(args: &Args, command: &mut clap::Command) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, command, "bsr", &mut text);
    output::write(Path::new("-"), |out| Ok(out.write_all(&text)?))?;
    Ok(Exit::Done)
}
