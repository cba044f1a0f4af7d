//! Machine code on disk, by what it was made of: PTX, architecture, driver.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bsr_codegen::Ptx;

use super::{Device, GpuError, Module, cubin};

/// A folder of cubins. Several processes may use it at a time: a file appears whole or not at all.
#[derive(Clone, Debug)]
pub struct CubinCache {
    folder: PathBuf,
}

/// A cubin of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The file.
    pub path: PathBuf,
    /// How long the driver compiled; none where the file was there.
    pub compiled: Option<Duration>,
}

impl CubinCache {
    /// A cache in this folder, which is made when something is put into it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The cubin of this PTX for this device: from the folder, or compiled and put there. A damaged file is compiled anew.
    ///
    /// # Errors
    /// As [`Module::compile`]; [`GpuError::CubinCache`] if the folder cannot be written.
    pub fn get(&self, device: &Device, ptx: &Ptx) -> Result<Cubin, GpuError> {
        let info = device.info();
        let path = self.path(ptx.fingerprint(), info.compute_capability, &info.driver());
        if std::fs::read(&path).is_ok_and(|image| cubin::checked_copy(&image).is_ok()) {
            return Ok(Cubin { path, compiled: None });
        }
        let begun = Instant::now();
        let image = Module::compile(device, ptx.text())?;
        let compiled = Some(begun.elapsed());
        self.put(&path, &image)
            .map_err(|error| GpuError::CubinCache { path: path.clone(), error: error.to_string() })?;
        Ok(Cubin { path, compiled })
    }

    fn path(&self, fingerprint: &str, (major, minor): (u32, u32), driver: &str) -> PathBuf {
        let driver = blake3::hash(driver.as_bytes()).to_hex();
        self.folder.join(format!("{fingerprint}.sm_{major}{minor}.{}.cubin", &driver[..8]))
    }

    fn put(&self, path: &Path, image: &[u8]) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(image)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn another_kernel_card_or_driver_is_another_file() {
        let cache = CubinCache::new("/c");
        let path = |ptx: &str, capability, driver: &str| cache.path(ptx, capability, driver);
        let one = path("ab", (9, 0), "580.159 (CUDA 13.0)");
        assert_eq!(one, path("ab", (9, 0), "580.159 (CUDA 13.0)"));
        for other in [
            path("ac", (9, 0), "580.159 (CUDA 13.0)"),
            path("ab", (8, 0), "580.159 (CUDA 13.0)"),
            path("ab", (9, 0), "570"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn what_is_put_is_whole_and_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::new(folder.path().join("deep").join("er"));
        let path = cache.path("ab", (9, 0), "580");
        cache.put(&path, b"one").unwrap();
        cache.put(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
