//! Programs of the CUDA toolkit: where they are.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folders of [`find`] in words.
pub(super) const PLACES: &str =
    "on the PATH, in $CUDA_HOME/bin, in /usr/local/cuda/bin or in an active Python environment";

/// The first program of this name: in the folder of another one where that is known, else on the PATH, in the toolkit, or in a
/// Python environment.
pub(super) fn find(name: &str, beside: Option<&Path>) -> Option<PathBuf> {
    let folders = beside.and_then(Path::parent).map(Path::to_owned).into_iter().chain(places(variable));
    folders.map(|folder| folder.join(format!("{name}{EXE_SUFFIX}"))).find(|path| path.is_file())
}

/// A variable of the environment; an empty one is none.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The folders to search, in order.
fn places(env: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = env("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(&env).map(PathBuf::from);
    places.extend(homes.chain(["/usr/local/cuda".into()]).map(|home| home.join("bin")));
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&env) {
        // lib/python3.12/site-packages/nvidia/cu13/bin, or nvidia/cuda_nvcc/bin in the wheels of CUDA 12.
        for python in folders(&Path::new(&root).join("lib"), "python") {
            places.extend(folders(&python.join("site-packages/nvidia"), "cu").map(|package| package.join("bin")));
        }
    }
    places
}

/// The folders in `parent` whose name begins with `start`, the greatest name first.
fn folders(parent: &Path, start: &'static str) -> impl Iterator<Item = PathBuf> + use<> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(parent)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)));
    found.sort();
    found.into_iter().rev()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_places_follow_the_environment_in_order() {
        let root = tempfile::tempdir().unwrap();
        let wheel = root.path().join("lib/python3.12/site-packages/nvidia/cu13/bin");
        std::fs::create_dir_all(&wheel).unwrap();
        let env = |name: &str| match name {
            "PATH" => std::env::join_paths(["/one", "/two"]).ok(),
            "CUDA_HOME" => Some("/cuda".into()),
            "VIRTUAL_ENV" => Some(root.path().into()),
            _ => None,
        };
        let expected: Vec<PathBuf> = ["/one", "/two", "/cuda/bin", "/usr/local/cuda/bin"].map(Into::into).into();
        let found = places(env);
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [wheel]);
        assert_eq!(places(|_| None), [PathBuf::from("/usr/local/cuda/bin")]);
    }

    #[test]
    fn a_program_beside_another_one_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(format!("nvdisasm{EXE_SUFFIX}"));
        std::fs::write(&program, "").unwrap();
        assert_eq!(find("nvdisasm", Some(&folder.path().join("ptxas"))), Some(program));
        assert_eq!(find("no_such_program_of_the_toolkit", Some(&folder.path().join("ptxas"))), None);
    }
}
