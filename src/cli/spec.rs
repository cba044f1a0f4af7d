//! The SPEC argument: text or the path of a TOML file, read and planned, with every error on its own place.

use std::path::Path;

use bsr::Plan;
use bsr::spec::LocatedSpec;
pub(super) use bsr_trial::Planned;

use super::exit::{Exit, Failure};
use super::input;

/// Bytes of a file with a spec: thousands of times what one takes.
const LONGEST: u64 = 1 << 20;

/// Stands for a SPEC that comes by standard input.
const STDIN: &str = "-";

/// Reads and plans one SPEC argument.
///
/// # Errors
/// Bad input: everything wrong with the text, or every reason why it cannot be planned, under the offending word.
pub(super) fn plan(argument: &str) -> Result<Planned, Failure> {
    plan_named(argument, "spec")
}

/// Reads and plans one of several SPEC arguments; text is reported under `name`.
///
/// # Errors
/// As [`plan`].
pub(super) fn plan_named(argument: &str, name: &str) -> Result<Planned, Failure> {
    let located = locate(argument, name)?;
    let plan = Plan::new(&located.spec()).map_err(|errors| {
        let reports: Vec<String> = errors
            .iter()
            .map(|error| {
                let help: Vec<String> = error.help().map(Into::into).into_iter().collect();
                located.blame(error.key(), &error.to_string(), &help)
            })
            .collect();
        Failure::reported(Exit::BadInput, reports.join("\n\n"))
    })?;
    Ok(plan.into())
}

fn locate(argument: &str, name: &str) -> Result<LocatedSpec, Failure> {
    let (read, name) = if is_file(argument) {
        let text = input::at_most(Path::new(argument), LONGEST)?;
        (LocatedSpec::from_toml(&text), argument)
    } else if argument == STDIN {
        let text = input::at_most(Path::new(argument), LONGEST)?;
        // Several lines are a file's; a line is a command's argument.
        match text.trim().contains('\n') {
            true => (LocatedSpec::from_toml(&text), "standard input"),
            false => (LocatedSpec::from_text(text.trim_end()), "standard input"),
        }
    } else {
        (LocatedSpec::from_text(argument), name)
    };
    match read {
        Ok(located) => Ok(located.named(name)),
        Err(errors) => Err(Failure::reported(Exit::BadInput, errors.named(name).to_string())),
    }
}

/// Whether an argument is a SPEC by its name: a .toml file, or standard input.
pub(super) fn is_named(argument: &str) -> bool {
    is_file(argument) || argument == STDIN
}

/// A spec as one argument of a shell: an epilogue in it is in quotation marks of its own.
pub(super) fn in_quotes(spec: &str) -> String {
    if spec.contains('"') { format!("'{spec}'") } else { format!("\"{spec}\"") }
}

/// No text of the grammar ends in `.toml`: a value is a number or one of a few words.
fn is_file(argument: &str) -> bool {
    Path::new(argument).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_text_by_its_end() {
        assert!(is_file("kernels/flagship.toml"));
        assert!(is_file("A.TOML"));
        assert!(!is_file("bm = 512, bn = 128, bk = 112"));
        assert!(!is_file("toml"));
    }
}
