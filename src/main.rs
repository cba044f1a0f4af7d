//! The `bsr` command.

fn main() -> std::process::ExitCode {
    bsr::cli::run(Vec::new(), std::env::args_os().skip(1).collect())
}
