//! Edited PTX in place of what a plan emits: what `bsr check` finds right is what `bsr run` and `bsr bench` launch.

use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::input;
use super::spec::{self, Planned};

/// The option that reads PTX, in every command that launches a kernel.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct PtxArgs {
    /// Launch the PTX in this file by the SPEC's plan: an edited copy of what `bsr emit SPEC -o FILE` wrote. The first two lines
    /// and the kernel's name and parameters must be unchanged.
    #[arg(long, value_name = "FILE")]
    ptx: Option<PathBuf>,
}

impl PtxArgs {
    pub(super) fn path(&self) -> Option<&Path> {
        self.ptx.as_deref()
    }

    /// Plans a SPEC, whose kernel is the file's where there is one.
    ///
    /// # Errors
    /// Those of [`spec::plan`] and [`PtxArgs::read`].
    pub(super) fn plan(&self, spec: &str) -> Result<Planned, Failure> {
        self.read(spec::plan(spec)?)
    }

    /// The same plan with the text of the file, where there is one.
    ///
    /// # Errors
    /// Bad input: a file that cannot be read, or that is not of this plan.
    pub(super) fn read(&self, planned: Planned) -> Result<Planned, Failure> {
        let Some(path) = &self.ptx else { return Ok(planned) };
        let text = input::text(path)?;
        let name = path.display().to_string();
        is_of(&planned, &text).map_err(|why| Failure::bad_input(format!("{name}: {why}")))?;
        Ok(Planned { ptx: planned.ptx.edited(|_| text), file: Some(name), ..planned })
    }
}

/// The two lines that every kernel begins with, of its spec and of its plan.
const HEADER: usize = 2;

/// Whether a text has the header and the signature that the plan gives its kernel.
fn is_of(planned: &Planned, text: &str) -> Result<(), String> {
    let (emitted, entry) = (planned.ptx.text(), planned.ptx.entry());
    let (spec, quoted) = (planned.spec(), spec::in_quotes(&planned.spec().to_string()));
    let lines = |text: &str| text.lines().take(HEADER).map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let (found, wanted) = (lines(text), lines(emitted));
    if found.first() != wanted.first() {
        let fact = match found.first().and_then(|line| line.strip_prefix("// ")) {
            Some(other) => format!("the first line says that this is the kernel of `{other}`, and SPEC is `{spec}`"),
            None => format!("the first line does not say which kernel this is: `// {spec}`"),
        };
        return Err(format!(
            "{fact}\n  help: `bsr emit {quoted} -o FILE` writes a text to edit; keep its first two lines"
        ));
    }
    if found != wanted {
        let other = found.get(1).map_or("", String::as_str);
        return Err(format!(
            "the second line is not the plan of `{spec}`\n  the file: {other}\n  the plan: {}\n  help: a launch follows the \
             plan: change tiles and stages by keys of the SPEC, and edit the text that `bsr emit {quoted}` writes",
            wanted[1]
        ));
    }
    match (signature(text, entry), signature(emitted, entry)) {
        (None, _) => Err(format!("the text has no kernel `{entry}`\n  help: keep its name")),
        (Some(found), Some(wanted)) if found != wanted => Err(format!(
            "the kernel has other parameters than the plan passes\n  the file: {}\n  the plan: {}\n  help: keep the parameters \
             as `bsr emit {quoted}` writes them; a text with probes is written by `bsr trace {quoted} --write-ptx FILE`, and \
             read by `bsr trace` alone",
            found.join(", "),
            wanted.join(", ")
        )),
        _ => Ok(()),
    }
}

/// The parameters of a kernel, without comments and with single spaces.
fn signature(text: &str, entry: &str) -> Option<Vec<String>> {
    let (_, rest) = text.split_once(&format!(".entry {entry}("))?;
    let lines = rest.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let parameters = lines.take_while(|line| !line.starts_with(')')).collect::<Vec<_>>().join(" ");
    let words = |parameter: &str| parameter.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(parameters.split(',').map(words).filter(|parameter| !parameter.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::Plan;
    use bsr::probes::Probes;

    use super::*;

    fn planned(spec: &str) -> Planned {
        Plan::new(&spec.parse().unwrap()).unwrap().into()
    }

    #[test]
    fn a_text_of_another_kernel_is_refused_in_words() {
        let small = planned("bm = 64, bn = 64, bk = 32");
        let text = small.ptx.text();
        assert_eq!(is_of(&small, text), Ok(()));
        assert_eq!(
            is_of(&small, &text.replace("wgmma.fence", "// wgmma.fence").replace(",\n", ", // edited\n")),
            Ok(())
        );
        let refused = |text: &str| is_of(&small, text).unwrap_err();
        let other = refused(planned("bm = 64, bn = 128, bk = 32").ptx.text());
        assert!(
            other.contains("`bm = 64, bn = 128, bk = 32`") && other.contains("SPEC is `bm = 64, bn = 64"),
            "{other}"
        );
        assert!(refused(text.split_once('\n').unwrap().1).contains("SPEC is"), "the first line is gone");
        assert!(refused("").contains("does not say which kernel"));
        assert!(refused(&text.replacen("stages", "rounds", 1)).contains("the second line is not the plan"));
        assert!(refused(&text.replace(small.ptx.entry(), "mine")).contains("has no kernel `bsr_dsd"));
        assert!(refused(&text.replacen(".param .u64", ".param .u32", 1)).contains("other parameters"));
        let probed = small.probed(Probes { first: 0, ctas: 1, records: 16 }).unwrap();
        assert!(refused(probed.ptx.text()).contains("--write-ptx"));
        assert!(is_of(&probed, text).is_err() && is_of(&probed, probed.ptx.text()).is_ok());
    }
}
