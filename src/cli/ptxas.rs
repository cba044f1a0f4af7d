//! ptxas: where it is, and what it says of a kernel.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bsr::{Plan, Ptx};

use super::exit::Failure;
use super::toolkit::{self, PLACES};
use super::{cannot_write, output};

/// NVIDIA's assembler from PTX to machine code.
#[derive(Clone, Debug)]
pub(super) struct Ptxas {
    path: PathBuf,
}

impl Ptxas {
    /// Finds ptxas: the file $PTXAS names, else the first of the [toolkit](toolkit::find).
    ///
    /// # Errors
    /// Bad input, with the places searched.
    pub(super) fn find() -> Result<Self, Failure> {
        if let Some(path) = toolkit::variable("PTXAS") {
            let path = PathBuf::from(path);
            return match path.is_file() {
                true => Ok(Self { path }),
                false => Err(Failure::bad_input(format!(
                    "there is no ptxas at {}, where $PTXAS says\n  help: correct or unset $PTXAS",
                    path.display()
                ))),
            };
        }
        toolkit::find("ptxas", None).map(|path| Self { path }).ok_or_else(|| {
            let message = format!(
                "no ptxas: not in $PTXAS, {PLACES}\n  help: install the CUDA toolkit, or `pip install nvidia-cuda-nvcc` in a \
                 virtual environment"
            );
            Failure::bad_input(message)
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, for instance `13.0`; `None` if it does not say.
    pub(super) fn version(&self) -> Option<String> {
        let output = Command::new(&self.path).arg("--version").output().ok()?;
        release(&String::from_utf8_lossy(&output.stdout))
    }

    /// Assembles the kernel of a plan as its spec says, into `cubin` or only to see whether it can be.
    ///
    /// # Errors
    /// Wrong: ptxas refuses the PTX, with what it says. Bad input: it cannot be started, or the file not written.
    pub(super) fn assemble(&self, ptx: &Ptx, plan: &Plan, cubin: Option<&Path>) -> Result<Assembled, Failure> {
        let level = plan.spec().opt_level.map(|level| format!("--opt-level={level}"));
        let flags: Vec<&str> = ["--verbose"].into_iter().chain(level.as_deref()).collect();
        let (said, code) = self.built(ptx, plan.arch().target, &flags)?;
        if let Some(cubin) = cubin {
            output::write(cubin, |out| Ok(out.write_all(&code)?))?;
        }
        Ok(Assembled::read(&said))
    }

    /// The machine code of a kernel, the same as without them, with the lines of the PTX that instructions come from.
    ///
    /// # Errors
    /// As [`Ptxas::assemble`].
    pub(super) fn with_lines(&self, ptx: &Ptx, target: &str) -> Result<Vec<u8>, Failure> {
        self.built(ptx, target, &["--generate-line-info"]).map(|(_, code)| code)
    }

    /// What ptxas says and the cubin that it writes.
    fn built(&self, ptx: &Ptx, target: &str, flags: &[&str]) -> Result<(String, Vec<u8>), Failure> {
        let scratch = tempfile::tempdir().map_err(|error| cannot_write(&std::env::temp_dir(), &error))?;
        let (source, built) = (scratch.path().join("kernel.ptx"), scratch.path().join("kernel.cubin"));
        std::fs::write(&source, ptx.text()).map_err(|error| cannot_write(&source, &error))?;
        let output = Command::new(&self.path)
            .args(flags)
            .arg(format!("--gpu-name={target}"))
            .arg("--output-file")
            .args([&built, &source])
            .output()
            .map_err(|error| Failure::bad_input(format!("cannot start {}: {error}", self.path.display())))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let said = said.replace(&*source.to_string_lossy(), "the PTX");
            return Err(Failure::wrong(format!("ptxas refuses the PTX ({})\n{}", output.status, said.trim())));
        }
        let code = std::fs::read(&built).map_err(|error| cannot_write(&built, &error))?;
        Ok((said.into_owned(), code))
    }
}

fn release(text: &str) -> Option<String> {
    let after = text.split_once("release ")?.1;
    Some(after.split([',', '\n']).next()?.trim().to_owned())
}

/// What ptxas says of a kernel it has assembled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assembled {
    registers: Option<u32>,
    spill_bytes: u32,
    warnings: Vec<String>,
}

impl Assembled {
    /// Reads the messages of `ptxas --verbose`. What costs speed is said there as `info` with a number, `(C7510)`:
    /// these count as warnings.
    fn read(said: &str) -> Self {
        let mut assembled = Self::default();
        for line in said.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let before = |word: &str| {
                let at = words.windows(2).position(|pair| pair[1].trim_end_matches(',') == word)?;
                words[at].parse::<u32>().ok()
            };
            assembled.registers = before("registers").or(assembled.registers);
            for pair in words.windows(4) {
                if matches!(pair, [_, "bytes", "spill", _]) {
                    assembled.spill_bytes += pair[0].parse::<u32>().unwrap_or(0);
                }
            }
            if line.contains("(C") || line.starts_with("ptxas warning") {
                let message = line.split_once(": ").map_or(line, |(_, message)| message);
                assembled.warnings.push(message.trim().to_owned());
            }
        }
        if assembled.spill_bytes > 0 {
            assembled.warnings.push(format!("{} B of registers are spilled to memory", assembled.spill_bytes));
        }
        assembled
    }

    /// What costs speed: spills, and numbered diagnostics such as serialized WGMMAs.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl fmt::Display for Assembled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(registers) = self.registers {
            write!(f, "{registers} registers, ")?;
        }
        write!(f, "{} B of spills, {} warnings", self.spill_bytes, self.warnings.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn registers_spills_and_numbered_diagnostics_are_read() {
        let clean = "ptxas info    : 0 bytes gmem\n\
                     ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
                     ptxas info    : Function properties for k\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                     ptxas info    : Used 168 registers, used 1 barriers\n";
        let read = Assembled::read(clean);
        assert_eq!(read.to_string(), "168 registers, 0 B of spills, 0 warnings");

        let bad = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n\
                       16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 90 registers\n";
        let read = Assembled::read(bad);
        assert_eq!((read.registers, read.spill_bytes), (Some(90), 32));
        assert!(read.warnings()[0].starts_with("(C7510) Potential"), "{:?}", read.warnings());
        assert_eq!(read.warnings().len(), 2);
        assert_eq!(Assembled::read("").to_string(), "0 B of spills, 0 warnings");
    }

    #[test]
    fn the_version_is_the_release() {
        let text = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(release(text).as_deref(), Some("13.0"));
        assert_eq!(release("something else"), None);
    }
}
