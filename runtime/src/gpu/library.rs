//! Finding a library of CUDA: on the loader's path, or where CUDA is usually installed.

use std::path::PathBuf;

use libloading::Library;

/// Whether cudarc's bindings in a module, `cudarc::driver::sys`, can load their library by its bare name.
///
/// The bindings answer that where they load libraries, and not where another crate of the build has asked cudarc to link them:
/// then the program would not have started without them. The name in the block's glob import, if it is there, hides the one
/// outside.
macro_rules! on_the_path {
    ($($bindings:ident)::+) => {{
        #[allow(dead_code)]
        unsafe fn is_culib_present() -> bool {
            true
        }
        || {
            #[allow(unused_imports)]
            use $($bindings)::+::*;
            // SAFETY: loading the library runs only its own initializers.
            unsafe { is_culib_present() }
        }
    }};
}

pub(super) use on_the_path;

/// Whether a library can be loaded. `on_the_path` asks the loader for it by its bare name; `names` are those of its files,
/// the newest first. cudarc panics on the first call where it cannot be.
pub(super) fn is_present(on_the_path: impl Fn() -> bool, names: &[&str]) -> bool {
    on_the_path() || (load_installed(names) && on_the_path())
}

/// Loads the library from a CUDA installation, for good. A library in memory is found by its bare name.
fn load_installed(names: &[&str]) -> bool {
    folders(|name| std::env::var_os(name).map(PathBuf::from)).into_iter().any(|folder| {
        names.iter().any(|name| {
            let path = folder.join(name);
            // SAFETY: loading the library runs only its own initializers.
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

    #[test]
    fn what_the_bindings_answer_counts_and_what_is_linked_is_there() {
        mod loaded {
            pub(super) unsafe fn is_culib_present() -> bool {
                false
            }
        }
        mod linked {}
        assert!(!on_the_path!(loaded)());
        assert!(on_the_path!(linked)());
    }

    #[test]
    fn what_is_on_the_path_is_there() {
        assert!(is_present(|| true, &[]));
        assert!(!is_present(|| false, &["libnothing.so.1"]));
    }
}
