//! A file that appears whole or not at all.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::error::{WriteError, WriteProblem};

/// Where a writer writes: seekable, as archives want it.
pub(super) type Out<'f> = BufWriter<&'f mut File>;

const PREFIX: &str = ".bsr-";
const SUFFIX: &str = ".partial";
/// A partial file that nobody holds is removed once it is this old: by then its writer would have locked it.
const OWNED_AFTER: Duration = Duration::from_secs(1);

/// The partial files of this process.
static PARTIAL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Writes a file under another name in the folder of `path`, and renames it at the end; answers with its bytes. What was
/// there before is replaced if `overwrite` says so, and keeps its permissions. On an error there is nothing new, and what
/// was there is as it was. A symbolic link is followed. What is no regular file (`/dev/null`, a pipe) is written directly.
///
/// # Errors
/// Those of `write`; and when the file is there and is not to be replaced, or cannot be written.
pub fn file<E: From<WriteError>>(
    path: impl AsRef<Path>,
    overwrite: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<u64, E> {
    let path = path.as_ref();
    let problem = |problem| E::from(WriteError::new(path, problem));
    if let Ok(there) = fs::metadata(path)
        && !there.is_file()
    {
        if there.is_dir() {
            return Err(problem(io::Error::from(io::ErrorKind::IsADirectory).into()));
        }
        let device = OpenOptions::new().write(true).open(path).map_err(|error| problem(error.into()))?;
        let mut out = Watched::new(BufWriter::new(device));
        let written = write(&mut out).and_then(|()| out.flush().map_err(|error| problem(error.into())));
        let bytes = out.bytes;
        return match (out.failed, written) {
            (Some(error), Err(_)) => Err(problem(error.into())),
            (_, written) => written.map(|()| bytes),
        };
    }
    let mut failed = None;
    let replaced = replace(path, overwrite, |file| {
        let mut out = Watched::new(file);
        let written = write(&mut out);
        match (out.failed, written) {
            (Some(error), Err(_)) => Err(error.into()),
            (_, Err(error)) => {
                // Not a problem of the file: answered with below, whatever stands here.
                failed = Some(error);
                Err(WriteProblem::Exists)
            }
            (_, Ok(())) => Ok(()),
        }
    });
    match failed {
        Some(error) => Err(error),
        None => replaced.map_err(problem),
    }
}

/// Removes the partial files of this process. For a handler of signals, which ends the process without unwinding.
pub fn remove_partial_files() {
    for path in PARTIAL.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = fs::remove_file(path);
    }
}

/// As [`file`], with what an archive needs of its file.
pub(super) fn replace(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut Out<'_>) -> Result<(), WriteProblem>,
) -> Result<u64, WriteProblem> {
    let target = resolved(path);
    let there = fs::metadata(&target).ok();
    if there.is_some() {
        if !overwrite {
            return Err(WriteProblem::Exists);
        }
        // A file that may not be written is not replaced either.
        OpenOptions::new().append(true).open(&target)?;
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    remove_abandoned(folder);
    let mut partial = Partial::new(folder)?;
    // The file itself: errors of a `NamedTempFile` name the partial file, which nobody has asked for.
    let mut out = BufWriter::with_capacity(1 << 20, partial.file.as_file_mut());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    let file = partial.file.as_file();
    if let Some(there) = there {
        file.set_permissions(there.permissions())?;
    }
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    partial.persist(&target, overwrite)?;
    Ok(bytes)
}

/// The file that a symbolic link leads to; else the path itself.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    match fs::read_link(path) {
        Ok(to) => path.parent().unwrap_or(Path::new("")).join(to),
        Err(_) => path.to_owned(),
    }
}

/// A file that is being written. It is locked until it has its name, so that others can tell that its writer lives.
struct Partial {
    file: NamedTempFile,
}

impl Partial {
    fn new(folder: &Path) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // As of any new file: the umask takes from it what it will.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        // Without the name of the partial file, which nobody has asked for.
        let plain = |error: io::Error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error);
        let file = builder.tempfile_in(folder).map_err(plain)?;
        // Where files cannot be locked, what a killed process leaves is not removed: nothing else is lost.
        let _ = file.as_file().lock();
        PARTIAL.lock().unwrap_or_else(PoisonError::into_inner).push(file.path().to_owned());
        Ok(Self { file })
    }

    fn persist(self, target: &Path, overwrite: bool) -> Result<(), WriteProblem> {
        let Self { file } = self;
        let name = file.path().to_owned();
        let renamed = if overwrite { file.persist(target) } else { file.persist_noclobber(target) };
        forget(&name);
        match renamed {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(WriteProblem::Exists),
            Err(error) => Err(error.error.into()),
        }
    }
}

/// The partial file has its name, or is gone.
fn forget(name: &Path) {
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| path != name);
}

/// Removes the partial files of processes that were killed: those that nobody has locked.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_partial = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    for entry in entries.flatten().filter(|entry| is_partial(&entry.file_name())) {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age < OWNED_AFTER) {
            continue;
        }
        let is_abandoned = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_abandoned {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A writer that remembers why it failed, whatever becomes of the error.
struct Watched<W> {
    out: W,
    bytes: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Watched<W> {
    fn new(out: W) -> Self {
        Self { out, bytes: 0, failed: None }
    }

    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                let same = error.raw_os_error().map(io::Error::from_raw_os_error);
                self.failed.get_or_insert(same.unwrap_or_else(|| error.kind().into()));
            }
        })
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        let count = self.watch(written)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.watch(flushed)
    }
}
