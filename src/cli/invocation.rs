//! How the command was started: as a program of its own, or from within another one.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

static INVOCATION: OnceLock<Invocation> = OnceLock::new();

/// What starts the command, and what it was told.
#[derive(Debug)]
struct Invocation {
    program: Vec<OsString>,
    args: Vec<OsString>,
}

/// Remembers how the command was started. The first call in a process counts.
pub(super) fn remember(program: Vec<OsString>, args: Vec<OsString>) {
    let _ = INVOCATION.set(Invocation { program, args });
}

/// The arguments, without the program.
pub(super) fn args() -> impl Iterator<Item = &'static OsString> {
    INVOCATION.get().into_iter().flat_map(|invocation| &invocation.args)
}

/// What starts this command once more, without arguments.
///
/// # Errors
/// Where the operating system does not tell the path of this program.
pub(super) fn again() -> std::io::Result<impl Fn() -> Command + Clone + Send + 'static> {
    let mut program = INVOCATION.get().map(|invocation| invocation.program.clone()).unwrap_or_default();
    if program.is_empty() {
        program.push(std::env::current_exe()?.into());
    }
    Ok(move || {
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]);
        command
    })
}
