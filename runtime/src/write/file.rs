//! A file that appears whole or not at all.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

use super::error::WriteProblem;

/// Where a writer writes: seekable, as archives want it.
pub(super) type Out<'f> = BufWriter<&'f mut NamedTempFile>;

/// Writes a file under another name in the folder of `path`, and renames it at the end; answers with its bytes. What was
/// there before is replaced if `overwrite` says so. On an error there is nothing new.
pub(super) fn replace(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(&mut Out<'_>) -> Result<(), WriteProblem>,
) -> Result<u64, WriteProblem> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".bsr-").suffix(".partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As of any new file: the umask takes from it what it will.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, &mut file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    let bytes = file.as_file().metadata()?.len();
    let renamed = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    match renamed {
        Ok(_) => Ok(bytes),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(WriteProblem::Exists),
        Err(error) => Err(error.error.into()),
    }
}
