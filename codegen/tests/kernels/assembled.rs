//! What ptxas has accepted: `assembled.txt` has a line for each group of kernels, with a fingerprint of all its texts and the
//! ptxas that assembled them. ptxas answers equal texts alike, and takes minutes for all groups, so that of a group as
//! recorded only a sample is assembled again. `BSR_BLESS=1` writes the lines of groups that were assembled.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bsr_codegen::emit::fingerprint;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/assembled.txt");

/// Held while a test reads the file and writes it.
static FILE: Mutex<()> = Mutex::new(());

/// Kernels that one test assembles, as `assembled.txt` has them.
pub(crate) struct Group {
    name: String,
    line: String,
}

impl Group {
    /// The group of the texts with these fingerprints, each behind the targets that it is assembled for.
    pub(crate) fn of<'t>(name: &str, ptxas: &str, texts: impl Iterator<Item = (&'t [&'static str], &'t str)>) -> Group {
        let each: Vec<String> = texts.map(|(targets, text)| targets.join(" ") + text).collect();
        let line = format!("{} {} {ptxas}", each.len(), fingerprint(&each.join("\n")));
        Group { name: name.to_owned(), line }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.is_in(&read())
    }

    fn is_in(&self, record: &BTreeMap<String, String>) -> bool {
        record.get(&self.name) == Some(&self.line)
    }

    /// Writes the group, if that was asked for: call it once ptxas has accepted all of its texts.
    pub(crate) fn record(self) {
        if std::env::var_os("BSR_BLESS").is_some() {
            let _held = FILE.lock();
            let mut record = read();
            record.insert(self.name, self.line);
            let lines = record.iter().map(|(name, line)| format!("{name}: {line}\n"));
            std::fs::write(PATH, lines.collect::<String>()).unwrap();
        }
    }
}

/// The lines of the file by name.
fn read() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(PATH).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, line)| (name.to_owned(), line.to_owned())).collect()
}

#[test]
fn a_group_is_recorded_by_its_texts_targets_and_assembler() {
    let of = |ptxas: &str, texts: &[(&[&'static str], &str)]| Group::of("some", ptxas, texts.iter().copied());
    let group = of("13.0", &[(&["sm_90a"], "a"), (&["sm_80", "sm_90a"], "b")]);
    let record = BTreeMap::from([(group.name.clone(), group.line.clone())]);
    assert!(group.is_in(&record));
    for other in [
        of("13.1", &[(&["sm_90a"], "a"), (&["sm_80", "sm_90a"], "b")]),
        of("13.0", &[(&["sm_90a"], "a"), (&["sm_80", "sm_90a"], "c")]),
        of("13.0", &[(&["sm_90a"], "a"), (&["sm_90a"], "b")]),
        of("13.0", &[(&["sm_90a"], "a")]),
    ] {
        assert!(!other.is_in(&record), "{}", other.line);
    }
}
