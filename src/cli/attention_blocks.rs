//! The blocks of an attention whose spec says none: those whose kernel should be the fastest for the problem, as
//! `bsr::auto::tune_attention_blocks` takes them.

use bsr::auto::of_fastest_blocks;
use bsr::spec::LocatedRequest;
use bsr::{KernelSpec, Op, Pattern};
use bsr_trial::request::Defaults;
use bsr_tuner::TuningProblem;
use bsr_tuner::pick::{Gpu, Tuner};

use super::device::DeviceChoice;
use super::exit::Failure;
use super::problem::ProblemArgs;
use super::spec;

/// A SPEC that is run on a device, with the blocks that are chosen for its card, or for the default one on the simulator.
///
/// # Errors
/// As [`filled`].
pub(super) fn filled_on(text: &str, problem: &ProblemArgs, device: DeviceChoice) -> Result<String, Failure> {
    if !leaves_blocks_open(text) {
        return Ok(text.to_owned());
    }
    match device.gpu("sm_70") {
        Ok(device) => filled(text, problem, Defaults::Gpu, device.info().into()),
        Err(_) => filled(text, problem, Defaults::Simulator, Gpu::default()),
    }
}

/// A SPEC, or the facts of a kernel, with the blocks that are chosen where they are those of an attention and left open.
///
/// # Errors
/// Bad input: a mask that is made of blocks, and what is wrong with the spec beside its blocks.
pub(super) fn filled(text: &str, problem: &ProblemArgs, defaults: Defaults, gpu: Gpu) -> Result<String, Failure> {
    if !leaves_blocks_open(text) {
        return Ok(text.to_owned());
    }
    is_of_pairs(problem)?;
    let with = |(bm, bk): (u32, u32)| format!("{text}, bm = {bm}, bk = {bk}");
    let of = |block: (u32, u32)| -> Result<_, Failure> {
        let text = with(block);
        let spec: KernelSpec = *spec::plan(&text)?.spec();
        let subject = problem.subject(defaults, &spec)?;
        let problem = TuningProblem::new(subject.workload(&spec), &subject.about(&spec)?.structure);
        let choice = Tuner::new(gpu.clone()).pick(&problem, None).map_err(Failure::bad_input)?;
        Ok((text, choice))
    };
    // The queries are those of the problem, whatever the blocks.
    let queries = problem.request().m.unwrap_or(usize::MAX);
    Ok(of_fastest_blocks(queries, of)?.0)
}

/// Whether a text is of an attention and has neither `bm` nor `bk`. A file has what it says.
fn leaves_blocks_open(text: &str) -> bool {
    if spec::is_named(text) {
        return false;
    }
    let located = LocatedRequest::from_text(text);
    let entries = &located.request().entries;
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let is_attention = |value: String| value == Op::Attention.as_str();
    entries.iter().any(|entry| entry.key == "op" && is_attention(entry.value.to_string())) && !has("bm") && !has("bk")
}

/// Makes sure that the mask is the same whatever its blocks are.
fn is_of_pairs(problem: &ProblemArgs) -> Result<(), Failure> {
    let pattern = problem.request().pattern.unwrap_or(Pattern::Random(0.25));
    match pattern {
        Pattern::Causal | Pattern::Documents { .. } => Ok(()),
        Pattern::Random(density) if density >= 1.0 => Ok(()),
        other => Err(Failure::bad_input(format!(
            "the attention has no blocks: bm and bk\n  `{other}` is drawn in blocks, so that its mask is another one in blocks of \
             another size\n  help: say bm and bk, or --pattern causal, documents:1000 or random:1, whose blocks are chosen"
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn of(words: &[&str]) -> ProblemArgs {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            problem: ProblemArgs,
        }
        <Flags as clap::Parser>::parse_from(["bsr"].iter().chain(words)).problem
    }

    fn chosen(text: &str, words: &[&str]) -> Result<String, Failure> {
        filled(text, &of(words), Defaults::Gpu, Gpu::default())
    }

    #[test]
    fn open_blocks_are_those_of_the_fastest_kernel() {
        let spec = "op = attention, bn = 128, dtype = bf16";
        let decode = ["--m", "1", "--n", "32768", "--heads", "32", "--key-heads", "4", "--batch", "8"];
        let decode: Vec<&str> = decode.into_iter().chain(["--pattern", "random:1"]).collect();
        assert_eq!(chosen(spec, &decode).unwrap(), format!("{spec}, bm = 64, bk = 128"));
        let causal = chosen(spec, &["--pattern", "causal", "--m", "4096"]).unwrap();
        assert!(causal.starts_with(&format!("{spec}, bm = 128, bk = ")), "{causal}");
    }

    #[test]
    fn blocks_that_are_said_and_other_operations_stay() {
        for text in [
            "op = attention, bm = 64, bn = 64, bk = 64",
            "bm = 64, bn = 64",
            "op = attention, bm = 64, bn = 64",
            "a.toml",
        ] {
            assert_eq!(chosen(text, &[]).unwrap(), text);
        }
    }

    #[test]
    fn a_mask_of_blocks_needs_blocks() {
        let text = chosen("op = attention, bn = 64", &[]).unwrap_err().into_report();
        assert!(text.contains("random:0.25") && text.contains("say bm and bk"), "{text}");
        let wrong = chosen("op = attention, bn = 64, stages = x", &["--pattern", "causal"]).unwrap_err().into_report();
        assert!(wrong.contains("stages"), "{wrong}");
    }
}
