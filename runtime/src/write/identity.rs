//! What distinguishes files, whatever they are called.

use std::fs;
use std::path::{Path, PathBuf};

/// A regular file, whatever its name: two paths that lead to one file, by symbolic or hard links, have the same identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileId(Id);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    /// Device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// The resolved path: of a file that does not exist yet, or on a system without inodes.
    Path(PathBuf),
}

impl FileId {
    /// The file that a path names; `None` where there is none, and for a folder, a device or a pipe, which nothing replaces.
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let metadata = fs::metadata(path).ok()?;
        #[cfg(unix)]
        return Self::of_metadata(&metadata);
        #[cfg(not(unix))]
        return metadata.is_file().then(|| fs::canonicalize(path).ok().map(Id::Path).map(Self)).flatten();
    }

    /// As [`of`](Self::of); a file that does not exist yet is identified by its folder and its name.
    pub fn of_output(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        if path.exists() {
            return Self::of(path);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        Some(Self(Id::Path(folder.join(path.file_name()?))))
    }

    /// The file behind standard input; `None` where that is a terminal or a pipe, or the system does not say.
    pub fn of_stdin() -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::fd::AsFd as _;
            let file = fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
            Self::of_metadata(&file.metadata().ok()?)
        }
        #[cfg(not(unix))]
        None
    }

    #[cfg(unix)]
    fn of_metadata(metadata: &fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        metadata.is_file().then(|| Self(Id::Inode(metadata.dev(), metadata.ino())))
    }
}
