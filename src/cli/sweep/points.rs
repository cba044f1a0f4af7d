//! `--space` and `--kernel`: the points.

use std::path::Path;

use bsr::KernelSpec;
use bsr::spec::LocatedFamily;

use super::super::exit::{Exit, Failure};

/// The kernels of a space: lists, or a file of them. `kernel` is what all have in common.
///
/// # Errors
/// Bad input: everything wrong with the text, under the guilty word.
pub(super) fn read(space: &str, kernel: Option<&str>) -> Result<Vec<KernelSpec>, Failure> {
    let is_file = Path::new(space).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let (family, name) = if is_file {
        if kernel.is_some() {
            let message = "--kernel beside a file: the file says the whole kernel\n  help: drop --kernel";
            return Err(Failure::new(Exit::BadInput, message));
        }
        let text = std::fs::read_to_string(space)
            .map_err(|error| Failure::new(Exit::BadInput, format!("cannot read {space}: {error}")))?;
        (LocatedFamily::from_toml(&text), space)
    } else if space.contains('=') {
        let text = kernel.map_or(space.to_owned(), |kernel| format!("{kernel}, {space}"));
        (LocatedFamily::from_text(&text), "space")
    } else {
        let message = format!(
            "`{space}` is no list of keys and no .toml file\n  help: --space \"bm = 512, bn = [128, 256], bk = 112, stages = \
             2..=5\""
        );
        return Err(Failure::new(Exit::BadInput, message));
    };
    match family {
        Ok(family) => Ok(family.family().members().iter().map(|member| member.spec).collect()),
        Err(errors) => Err(Failure::reported(Exit::BadInput, errors.named(name).to_string())),
    }
}
