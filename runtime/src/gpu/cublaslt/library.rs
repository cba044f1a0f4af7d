//! Finding the library: on the loader's path, or where CUDA is usually installed.

use std::path::PathBuf;
use std::sync::OnceLock;

use cudarc::cublaslt::sys;
use libloading::Library;

/// Whether the library can be loaded. cudarc panics on the first call where it cannot.
pub(super) fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| on_the_path() || (load_installed() && on_the_path()))
}

fn on_the_path() -> bool {
    // SAFETY: loading the library runs only its own initializers.
    unsafe { sys::is_culib_present() }
}

/// Loads the library from a CUDA installation, for good. A library in memory is found by its bare name.
fn load_installed() -> bool {
    folders(|name| std::env::var_os(name).map(PathBuf::from)).into_iter().any(|folder| {
        ["libcublasLt.so.13", "libcublasLt.so.12"].iter().any(|name| {
            let path = folder.join(name);
            // SAFETY: as in `on_the_path`.
            path.is_file() && unsafe { Library::new(path) }.map(std::mem::forget).is_ok()
        })
    })
}

/// Where to look, in order: the installation that the environment names, then the usual place.
fn folders(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable);
    named.chain([PathBuf::from("/usr/local/cuda")]).map(|root| root.join("lib64")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_installation_the_environment_names_comes_first() {
        let found = folders(|name| (name == "CUDA_PATH").then(|| "/opt/cuda".into()));
        assert_eq!(found, [PathBuf::from("/opt/cuda/lib64"), "/usr/local/cuda/lib64".into()]);
    }
}
