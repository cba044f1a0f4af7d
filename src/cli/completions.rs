//! `bsr completions SHELL`: what a shell completes.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::exit::{Exit, Failure};
use super::output;

/// Print what a shell needs to complete this command.
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

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "bsr", &mut text);
    output::write(Path::new("-"), |out| Ok(out.write_all(&text)?))?;
    Ok(Exit::Done)
}
