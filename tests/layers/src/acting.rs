//! Where an operation is told from others above the compiler.

use std::path::Path;

use crate::source::{self, File};

/// The crates above the compiler.
const CRATES: [&str; 8] = ["bsr-macros", "simulator", "runtime", "trial", "tuner", "burn-bsr", "python", "."];

/// An operation: the variants that stand for it, what tells it from others, and words that its own modules have in their names.
struct Told {
    variants: &'static [&'static str],
    members: &'static [&'static str],
    own: &'static [&'static str],
}

const ATTENTION: Told = Told {
    variants: &[
        "Op::Attention",
        "Op::AttentionDq",
        "Op::AttentionDkv",
        "TileScheduler::Attention",
        "KernelKind::Attention",
    ],
    members: &["is_of_heads", "is_gradient", "attention_tiles", "gradient_tiles"],
    own: &["attention", "gradient"],
};

const SDDMM: Told = Told {
    variants: &["Op::Sdd", "TileScheduler::Sddmm", "KernelKind::Sddmm"],
    members: &["sddmm_tiles"],
    own: &["sddmm"],
};

const SPGEMM: Told = Told { variants: &["Op::Dss", "Op::Sss"], members: &["is_of_pairs"], own: &["spgemm", "pairs"] };

/// The most files in which an operation acts, besides modules of its own.
const MOST: usize = 10;

impl Told {
    fn acts_in(&self, file: &File) -> bool {
        let is_own = file.module.iter().any(|module| self.own.iter().any(|word| module.contains(word)));
        let by_path = file.code.paths.iter().any(|path| self.variants.contains(&path.join("::").as_str()));
        let by_member = self.members.iter().any(|member| file.code.members.contains(*member));
        !is_own && (by_path || by_member)
    }

    fn files(&self, crates: &[(&str, Vec<File>)]) -> Vec<String> {
        let of = |(folder, files): &(&str, Vec<File>)| {
            let acting = files.iter().filter(|file| self.acts_in(file));
            acting.map(|file| format!("{folder}: {}", file.module.join("::"))).collect::<Vec<_>>()
        };
        crates.iter().flat_map(of).collect()
    }
}

#[test]
fn an_operation_acts_in_few_files() {
    let root = |folder: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("src/lib.rs");
    let crates = CRATES.map(|folder| (folder, source::read(&root(folder))));
    for told in [ATTENTION, SDDMM, SPGEMM] {
        let files = told.files(&crates);
        assert!((4..=MOST).contains(&files.len()), "{} files:\n{}", files.len(), files.join("\n"));
    }
}

#[test]
fn an_operation_is_seen_wherever_it_is_written() {
    let acts = |code: &str| SDDMM.acts_in(&File::parse(vec!["of".to_owned()], code).0);
    assert!(acts("fn f(op: Op) -> bool { matches!(op, Op::Sdd) }"));
    assert!(acts("fn f(plan: &Plan) -> bool { plan.sddmm_tiles().is_some() }"));
    assert!(!acts("fn f(op: Op) -> bool { op == Op::Dsd }"));
    assert!(!acts("#[cfg(test)] mod tests { fn f() -> Op { Op::Sdd } }"));
    assert!(!SDDMM.acts_in(&File::parse(vec!["sddmm".to_owned()], "const OP: Op = Op::Sdd;").0));
}
