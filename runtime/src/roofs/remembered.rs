//! Measured roofs in a file of the user, by GPU and driver.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bsr_codegen::Refusal;
use serde::{Deserialize, Serialize};

use super::MeasuredRoofs;
#[cfg(feature = "files")]
use crate::write::{self, WriteError};

/// The version that is written and read.
const SCHEMA: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    schema: u32,
    roofs: Vec<MeasuredRoofs>,
}

/// What is wrong with a file of roofs, which is left as it is.
fn unusable(fact: String) -> Refusal {
    Refusal::new(fact).help("delete it and run `bsr doctor --roofs`")
}

/// The file: `bsr/roofs.json` in the user's folder for data, `$XDG_DATA_HOME` or else `~/.local/share`.
pub fn place_of_file() -> Option<PathBuf> {
    place(|name| std::env::var_os(name).map(PathBuf::from))
}

fn place(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // A relative path is to be ignored (XDG Base Directory Specification).
    let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let home = || variable("HOME").filter(|path| path.is_absolute()).map(|home| home.join(".local/share"));
    Some(data.or_else(home)?.join("bsr").join("roofs.json"))
}

/// All that a file remembers; nothing where there is none.
///
/// # Errors
/// A file that cannot be read, or holds something else.
pub fn read(path: &Path) -> Result<Vec<MeasuredRoofs>, Refusal> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(Refusal::of(format_args!("cannot read {}", path.display()), error)),
    };
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let name = path.display();
    let json = |error| unusable(format!("{name} holds no roofs: {error}"));
    let Version { schema } = serde_json::from_str(&text).map_err(json)?;
    if schema != SCHEMA {
        let fact = format!("{name} has roofs of schema {schema}; this program reads schema {SCHEMA}");
        return Err(unusable(fact));
    }
    Ok(serde_json::from_str::<File>(&text).map_err(json)?.roofs)
}

/// Writes roofs in the place of older ones of the same GPU and driver.
///
/// # Errors
/// A file that holds something else, or cannot be written.
#[cfg(feature = "files")]
pub fn remember(path: &Path, measured: MeasuredRoofs) -> Result<(), Refusal> {
    let mut roofs = read(path)?;
    roofs.retain(|known| (&known.gpu, &known.driver) != (&measured.gpu, &measured.driver));
    roofs.push(measured);
    let write = || -> Result<(), WriteError> {
        let failed = |error| WriteError::io(path, error);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let text =
            serde_json::to_string_pretty(&File { schema: SCHEMA, roofs }).map_err(|error| failed(error.into()))?;
        write::file(path, true, |out| writeln!(out, "{text}").map_err(failed)).map(|_| ())
    };
    write().map_err(|error| Refusal::new(error.to_string()))
}

#[cfg(all(test, feature = "files"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tests::measured;
    use super::*;

    #[test]
    fn roofs_of_a_gpu_and_driver_replace_older_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/bsr/roofs.json");
        assert_eq!(read(&path).unwrap(), []);
        let other = MeasuredRoofs { driver: "570.1 (CUDA 12.8)".to_owned(), ..measured() };
        remember(&path, measured()).unwrap();
        remember(&path, other.clone()).unwrap();
        let again = MeasuredRoofs { hbm_read_tbs: 4.6, ..measured() };
        remember(&path, again.clone()).unwrap();
        assert_eq!(read(&path).unwrap(), [other, again]);
    }

    #[test]
    fn files_of_others_are_refused_in_words_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("roofs.json");
        for (text, words) in [("no json", "holds no roofs"), (r#"{"schema":2,"roofs":[]}"#, "schema 2")] {
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("help:"), "{error}");
            assert!(remember(&path, measured()).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn the_place_is_that_of_data_or_below_the_home() {
        let of = |data: Option<&'static str>, home: Option<&'static str>| {
            place(|name| if name == "HOME" { home.map(PathBuf::from) } else { data.map(PathBuf::from) })
        };
        assert_eq!(of(Some("/data"), Some("/home/u")), Some("/data/bsr/roofs.json".into()));
        assert_eq!(of(Some("relative"), Some("/home/u")), Some("/home/u/.local/share/bsr/roofs.json".into()));
        assert_eq!(of(None, None), None);
    }
}
