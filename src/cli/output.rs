//! The one writer of every output: files that appear whole or not at all, and standard output for `-`.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bsr::write::FileId;

use super::escape::Escaped;
use super::exit::Failure;

/// Where an output goes that is called `-`.
const STDOUT: &str = "-";

/// Whether outputs replace existing files.
#[derive(Debug, clap::Args)]
pub(super) struct Replace {
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

impl Replace {
    /// Outputs that are added to, and those that are asked about elsewhere.
    pub(super) const ALLOWED: Self = Self { force: true };
}

/// The outputs of one call: flags and the files that they name.
pub(super) struct Outputs<'a>(Vec<(&'static str, &'a Path)>);

impl<'a> Outputs<'a> {
    /// The outputs that are asked for, each with its flag, beside every argument that may name a file which the call reads:
    /// one that names none is passed over. Standard input counts as read by every call.
    ///
    /// # Errors
    /// Bad input: an output that is an input, by whatever name or link, that is another output, or that is a file which
    /// may not be replaced.
    pub(super) fn new<'i>(
        flags: impl IntoIterator<Item = (&'static str, Option<&'a PathBuf>)>,
        inputs: impl IntoIterator<Item = &'i Path>,
        replace: &Replace,
    ) -> Result<Self, Failure> {
        let outputs: Vec<(&'static str, &'a Path)> =
            flags.into_iter().filter_map(|(flag, path)| Some((flag, path?.as_path()))).collect();
        let named = inputs.into_iter().filter_map(|path| Some((path.display().to_string(), FileId::of(path)?)));
        let stdin = FileId::of_stdin().map(|id| ("the file behind standard input".to_owned(), id));
        let inputs: Vec<(String, FileId)> = named.chain(stdin).collect();
        let mut seen: Vec<(&str, Place)> = Vec::new();
        for (flag, path) in &outputs {
            let Some(place) = Place::of(path) else { continue };
            if let Some((input, _)) = inputs.iter().find(|(_, input)| place == Place::File(input.clone())) {
                let fact = format!("{flag} would replace {input}, which is read");
                return Err(Failure::bad_input(format!("{fact}\n  help: another name behind {flag}")));
            }
            if let Some((other, _)) = seen.iter().find(|(_, other)| *other == place) {
                let fact = format!("{other} and {flag} would both write {}", path.display());
                return Err(Failure::bad_input(format!("{fact}\n  help: a name of its own for each")));
            }
            if !replace.force && place != Place::Stdout && path.is_file() {
                let fact = format!("{}: the file is there, and is kept", path.display());
                return Err(Failure::bad_input(format!("{fact}\n  help: --force, or another name behind {flag}")));
            }
            seen.push((flag, place));
        }
        Ok(Self(outputs))
    }

    /// Where everything else goes that the call says: standard error, if an output takes standard output.
    pub(super) fn answers<'o>(&self, out: &'o mut dyn Write) -> Box<dyn Write + 'o> {
        match self.0.iter().any(|(_, path)| is_stdout(path)) {
            true => Box::new(Escaped::new(io::stderr())),
            false => Box::new(out),
        }
    }
}

/// Whether an output goes to standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// The database, and the files that SQLite keeps beside it.
pub(super) fn database(path: &Path) -> Vec<PathBuf> {
    // SQLite follows a link before it names them.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = |end: &str| {
        let mut name = real.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    ["", "-wal", "-shm", "-journal"].map(beside).into()
}

/// Writes an output; tells its bytes. The file appears when it is whole, in place of what was there: on an error, and
/// when the process is ended, what was there stays.
///
/// # Errors
/// Those of `write`; bad input where the file cannot be written.
pub(super) fn write(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<u64, Failure> {
    if is_stdout(path) {
        let mut out = Counted { out: BufWriter::new(io::stdout().lock()), bytes: 0 };
        write(&mut out)?;
        out.flush()?;
        return Ok(out.bytes);
    }
    bsr::write::file(path, true, write)
}

/// Writes a text; as [`write`].
pub(super) fn write_text(path: &Path, text: &str) -> Result<u64, Failure> {
    write(path, |out| Ok(out.write_all(text.as_bytes())?))
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Where an output goes.
#[derive(PartialEq)]
enum Place {
    Stdout,
    File(FileId),
}

impl Place {
    /// None of a device or a pipe: what is written there replaces nothing.
    fn of(path: &Path) -> Option<Self> {
        if is_stdout(path) { Some(Self::Stdout) } else { FileId::of_output(path).map(Self::File) }
    }
}
