//! What a refusal suggests is a kernel: every suggestion for random specs is applied as a user would, and planned.
//! `BSR_SEARCH=20000` looks at so many specs.

use bsr_codegen::spec::Key;
use bsr_codegen::{KernelSpec, Plan, PlanError, PlanErrors};

use crate::random::{self, Draws};

/// A key, and what is written of it; nothing drops it.
type Change = (Key, Option<String>);

#[test]
fn every_suggestion_of_a_refusal_is_planned() {
    let mut draws = Draws::new(1);
    let (mut refused, mut tried, mut at_once, mut wrong) = (0, 0, 0, vec![]);
    for _ in 0..random::count(300) {
        let spec = draws.spec();
        if let Err(errors) = Plan::new(&spec) {
            refused += 1;
            match check(&spec, &errors) {
                Ok((of_this, good)) => (tried, at_once) = (tried + of_this, at_once + good),
                Err(why) => wrong.push(format!("{spec}\n{errors}\n-> {why}\n")),
            }
        }
    }
    println!("{tried} suggestions of {refused} refusals, {at_once} of them kernels at once");
    // The others are of specs with more wrong than one remedy says.
    assert!(
        tried > refused && 10 * at_once > 9 * tried,
        "{tried} suggestions of {refused} refusals, {at_once} kernels"
    );
    assert!(wrong.is_empty(), "{} of {refused} refusals:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
}

/// Refusals whose suggestions did not help, or left out what would.
#[test]
fn suggestions_that_failed_hold() {
    for (spec, help) in [
        ("bm = 512, bn = 128, bk = 112, consumers = 3", "leave `consumers` to the plan, or bn = 96 or 192"),
        ("bm = 128, bn = 272, bk = 64, mma = mma_sync", "bn = 256 or 288"),
        ("bm = 512, bn = 128, bk = 112, cluster = 3", "cluster = 1, 2, 4 or 8"),
        ("bm = 320, bn = 256, bk = 96, k_step = 256", "k_step = "),
        ("bm = 64, bn = 64, bk = 64, op = attention, mma = scalar", "mma = wgmma"),
    ] {
        let errors = refusal(&spec.parse().unwrap());
        check(&spec.parse().unwrap(), &errors).unwrap_or_else(|why| panic!("{spec}\n{errors}\n-> {why}"));
        assert!(errors.iter().any(|error| error.help().unwrap_or_default().contains(help)), "{spec}\n{errors}");
    }
}

fn refusal(spec: &KernelSpec) -> PlanErrors {
    Plan::new(spec).err().unwrap_or_else(|| panic!("{spec} is planned"))
}

/// Suggestions that were tried, and those of them that are kernels at once.
type Tried = (usize, usize);

/// Each suggestion ends its error: after the first suggestions of the errors before it, or on the spec as it is where these
/// have ended it already. Who follows the first suggestions, of each refusal that comes, arrives at a kernel.
fn check(spec: &KernelSpec, errors: &PlanErrors) -> Result<Tried, String> {
    let facts: Vec<_> = errors.iter().map(fact).collect();
    let (mut mended, mut tried, mut at_once) = (*spec, 0, 0);
    for (at, error) in errors.iter().enumerate() {
        let is_left = Plan::new(&mended).is_err_and(|left| left.iter().any(|left| fact(left) == facts[at]));
        let base = if is_left { mended } else { *spec };
        let suggestions = suggestions(error);
        if suggestions.is_empty() {
            let help = error.help().unwrap_or_default();
            let by_hand = PROSE.iter().any(|prose| help.contains(prose));
            return if by_hand { Ok((tried, at_once)) } else { Err(format!("`{help}` suggests nothing")) };
        }
        for changes in &suggestions {
            let changed = apply(&base, changes).ok_or_else(|| format!("{changes:?} is no spec"))?;
            let left = Plan::new(&changed).err();
            let left: Vec<_> = left.iter().flat_map(PlanErrors::iter).map(fact).collect();
            if left.contains(&facts[at]) {
                return Err(format!("{changes:?} leaves {}", error.key()));
            }
            let said = |fact| facts[if is_left { at + 1 } else { 0 }..].contains(fact);
            (tried, at_once) = (tried + 1, at_once + usize::from(left.iter().all(said)));
        }
        if let Some(first) = suggestions.first().filter(|_| is_left) {
            mended = apply(&base, first).unwrap();
        }
    }
    for _ in 0..MOST_ROUNDS {
        let Err(left) = Plan::new(&mended) else { return Ok((tried, at_once)) };
        for error in left.iter() {
            let Some(first) = suggestions(error).into_iter().next() else { return Ok((tried, at_once)) };
            mended = apply(&mended, &first).ok_or_else(|| format!("{first:?} is no spec"))?;
        }
    }
    Err(format!("first suggestions lead to no kernel, but to {mended}"))
}

/// Refusals that follow each other at most.
const MOST_ROUNDS: usize = 8;

/// Remedies that no key says: they change a closure.
const PROSE: [&str; 5] = ["fewer vectors", "end the body", "Dense<", "Bsr<", "combine them into one matrix"];

/// What a remedy suggests to change, each alternative by itself.
fn suggestions(error: &PlanError) -> Vec<Vec<Change>> {
    let parts = error.help().unwrap_or_default().split(", or ").flat_map(|part| part.split("; "));
    parts.flat_map(alternatives).collect()
}

fn alternatives(part: &str) -> Vec<Vec<Change>> {
    // The alternatives of the first change, then what is changed with any of them.
    let mut together = part.split(" and ").map(|text| (text, changes_of(text)));
    let Some((_, first)) = together.next() else { return vec![] };
    let further: Vec<Change> = together.filter_map(|(_, mut changes)| changes.drain(..).next()).collect();
    first.into_iter().map(|change| [vec![change], further.clone()].concat()).collect()
}

fn changes_of(text: &str) -> Vec<Change> {
    let quoted = text.split('`').nth(1).and_then(Key::find);
    if let Some(key) = quoted.filter(|_| text.starts_with("drop `") || text.starts_with("leave `")) {
        return vec![(key, None)];
    }
    let Some((key, values)) = text.split_once(" = ") else { return vec![] };
    let Some(key) = Key::find(key) else { return vec![] };
    if values.starts_with('(') {
        return vec![(key, values.find(')').map(|end| values[..=end].to_owned()))];
    }
    let words = values.split(" or ").flat_map(|part| part.split(", "));
    let is_value = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    words.map(|word| word.trim_end_matches(',')).take_while(is_value).map(|word| (key, Some(word.to_owned()))).collect()
}

/// The spec as a user would edit its text.
fn apply(spec: &KernelSpec, changes: &[Change]) -> Option<KernelSpec> {
    let mut written: Vec<Change> =
        Key::ALL.into_iter().filter(|key| spec.says(*key)).map(|key| (key, Some(spec.value(key)))).collect();
    for (key, value) in changes {
        let same: &[Key] = match key {
            Key::Dtype => &[Key::Dtype, Key::A, Key::B],
            Key::Epilogue | Key::Beta => &[Key::Epilogue, Key::Beta],
            Key::PackHeads => &[Key::Pack, Key::PackHeads],
            key => std::slice::from_ref(key),
        };
        written.retain(|(other, _)| !same.contains(other));
        written.push((*key, value.clone()));
    }
    let texts: Vec<String> =
        written.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?))).collect();
    texts.join(", ").parse().ok()
}

/// What is wrong, whatever the numbers.
fn fact(error: &PlanError) -> (String, String) {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    (error.key().to_owned(), first.chars().filter(|c| !c.is_ascii_digit()).collect())
}
