//! Fault injection: kernels that are broken on purpose, for a test of the sweep on a real GPU.

use bsr_codegen::emit::Ptx;
use bsr_tuner::Verdict;
use bsr_tuner::backend::Script;

/// What a script says of a kernel, done to its text.
pub(in super::super) fn inject(script: &Script, subject: &str, ptx: Ptx) -> Ptx {
    let Some(fault) = script.fault(subject) else { return ptx };
    ptx.edited(|text| match fault {
        // A ring buffer whose stages are never released.
        Verdict::Hang => lines(text, |line| !line.contains("mbarrier.arrive.shared")),
        Verdict::Fault => first(
            text,
            "    .reg .b64 %rd_nowhere;\n    mov.b64 %rd_nowhere, 16;\n    st.global.u32 [%rd_nowhere], 0;\n",
        ),
        // Leaves the poison in C.
        _ => first(text, "    ret;\n"),
    })
}

fn lines(text: &str, keep: impl Fn(&str) -> bool) -> String {
    text.split_inclusive('\n').filter(|line| keep(line)).collect()
}

/// Puts an instruction before all others.
fn first(text: &str, instruction: &str) -> String {
    match text.find("\n{\n") {
        Some(at) => format!("{}{instruction}{}", &text[..at + 3], &text[at + 3..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::Plan;

    use super::*;

    #[test]
    fn each_doom_changes_the_text_of_its_kernel_alone() {
        let script: Script = "bn = 64 -> hang; bn = 128 -> fault; bn = 192 -> wrong".parse().unwrap();
        let injected = |bn: u32| {
            let plan = Plan::new(&format!("bm = 64, bn = {bn}, bk = 64").parse().unwrap()).unwrap();
            (plan.ptx().text().to_owned(), inject(&script, &plan.spec().to_string(), plan.ptx()).text().to_owned())
        };
        let (whole, hangs) = injected(64);
        assert!(hangs.len() < whole.len() && !hangs.contains("mbarrier.arrive.shared"));
        for (bn, instruction) in [(128, "st.global.u32 [%rd_nowhere], 0;\n"), (192, "{\n    ret;\n")] {
            assert!(injected(bn).1.contains(instruction));
        }
        let (whole, same) = injected(256);
        assert_eq!(whole, same);
    }
}
