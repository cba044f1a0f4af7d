//! Golden text: snapshots, and the parts of a kernel that are kept. `.ci/bless` approves them.

use std::collections::BTreeMap;

use bsr_codegen::Plan;

use crate::planning::{plan, try_plan};

/// Compares `text` with the snapshot `snapshots/{name}.snap`.
pub(crate) fn golden(name: &str, text: &str) {
    golden_in("snapshots", name, text);
}

/// Compares `text` with the snapshot `{folder}/{name}.snap`.
pub(crate) fn golden_in(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path(format!("../{folder}"));
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Specs with their summaries, and what else `more` states of their plans.
pub(crate) fn golden_plans<'s>(name: &str, specs: impl IntoIterator<Item = &'s str>, more: impl Fn(&Plan) -> String) {
    let of = |text| {
        let plan = plan(text);
        format!("{text}\n{}\n{}\n", plan.summary(), more(&plan))
    };
    golden(name, &specs.into_iter().map(of).collect::<String>());
}

/// Specs with their refusals, all of which have a remedy.
pub(crate) fn golden_refusals(folder: &str, name: &str, specs: &[&str]) {
    let of = |text: &&str| {
        let errors = try_plan(text).expect_err(text);
        assert!(errors.iter().all(|error| error.help().is_some()), "{errors}");
        format!("{text}\n\n{errors}\n\n")
    };
    golden_in(folder, name, &specs.iter().map(of).collect::<String>());
}

/// The lines of the section whose heading starts with `name`, heading included.
pub(crate) fn section<'t>(text: &'t str, name: &str) -> &'t str {
    let mark = "    // ---- ";
    let start =
        text.find(&format!("{mark}{name}")).unwrap_or_else(|| panic!("no section `{name}` in\n{}", headings(text)));
    let rest = &text[start..];
    rest[1..].find(mark).map_or(rest, |end| &rest[..end + 1])
}

/// The lines from the first comment that has `words` in it up to the next blank line.
pub(crate) fn paragraph<'t>(text: &'t str, words: &str) -> &'t str {
    let found = text
        .match_indices("    // ")
        .find(|(at, _)| text[*at..].lines().next().is_some_and(|line| line.contains(words)));
    let Some((start, _)) = found else {
        panic!("no comment with `{words}` in\n{}", headings(text));
    };
    let rest = &text[start..];
    rest.find("\n\n").map_or(rest, |end| &rest[..end + 1])
}

/// The lines of `text` that `other` does not have, or has fewer times, in their order: what makes two kernels differ.
/// Lists of registers are left out.
pub(crate) fn added(text: &str, other: &str) -> String {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for line in other.lines() {
        *known.entry(line).or_default() += 1;
    }
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(".reg "));
    let new = lines.filter(|line| match known.get_mut(line) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    });
    new.flat_map(|line| [line, "\n"]).collect()
}

fn headings(text: &str) -> String {
    let comments = text.lines().filter(|line| line.trim_start().starts_with("//"));
    comments.collect::<Vec<_>>().join("\n")
}
