//! Remedies, found by planning them: what a refusal suggests is tried before it is said.
//!
//! A step of a recipe words its remedy as a user reads it, in clauses: ``bn = 64 or 128, or drop `cluster` ``. What a clause
//! changes is read from it, every value is planned, and those that do not help are left out; `?` means the nearest
//! values that help. Where no clause is left, one is searched. Remedies of several errors hold one after the other: each is
//! planned on the spec that the first remedies of the errors before it make. Where much is wrong, of which an error hides a
//! part, a remedy ends at least its own error.

use std::sync::OnceLock;

use super::error::{PlanError, PlanErrors};
use crate::KernelSpec;
use crate::spec::{Key, Takes};

/// Plans a spec, or says why not.
pub(super) type Planner = fn(&KernelSpec) -> Result<(), PlanErrors>;

/// What `bm`, `bn`, `bk`, `d` and `k_step` are multiples of at least, and up to which they are tried.
const UNIT: u32 = 8;
const LARGEST: u32 = 512;
/// Changes that are tried to get past an error, where another one comes to light behind it.
const TRIED: usize = 4;
/// Behind `leave` and the name of a key.
const TO_THE_PLAN: &str = " to the plan";
/// Changes that one remedy has at most.
const MOST_CHANGES: usize = 3;

/// The refusal of one spec, whose remedies are found when the first is read.
pub(super) struct Remedies {
    spec: KernelSpec,
    planner: Planner,
    errors: Vec<PlanError>,
    found: OnceLock<Vec<String>>,
}

/// A key, and what is to be written of it; nothing drops it.
type Change = (Key, Option<String>);

/// Part of a remedy.
#[derive(Debug, PartialEq, Eq)]
enum Clause {
    /// One change of these, which differ in the value of one key, together with further changes, and what is said behind.
    Changes { key: Key, values: Vec<Option<String>>, further: Vec<Change>, rest: String },
    /// What no key says.
    Prose(String),
}

impl Remedies {
    pub(super) fn new(spec: KernelSpec, planner: Planner, errors: Vec<PlanError>) -> Self {
        Self { spec, planner, errors, found: OnceLock::new() }
    }

    /// The remedy of error number `at`.
    pub(super) fn of(&self, at: usize) -> &str {
        &self.found.get_or_init(|| self.find())[at]
    }

    fn find(&self) -> Vec<String> {
        let facts: Vec<_> = self.errors.iter().map(fact).collect();
        let mut mended = self.spec;
        let mut remedies = vec![];
        for (at, error) in self.errors.iter().enumerate() {
            let is_left =
                |spec| (self.planner)(spec).is_err_and(|left| left.iter().any(|left| fact(left) == facts[at]));
            // The remedy of an earlier error may mend this one as well: then its own is for the spec as it was given.
            let search = match is_left(&mended) {
                true => Search { planner: self.planner, spec: mended, allowed: &facts[at + 1..], except: None },
                false => Search { planner: self.planner, spec: self.spec, allowed: &facts, except: Some(at) },
            };
            let (text, changes) = search.remedy(error);
            if search.except.is_none() {
                mended = changed(&mended, &changes).unwrap_or(mended);
            }
            remedies.push(text);
        }
        remedies
    }
}

/// What is wrong, whatever the numbers.
fn fact(error: &PlanError) -> (&'static str, String) {
    (error.key(), error.fact.chars().filter(|c| !c.is_ascii_digit()).collect())
}

fn changed(spec: &KernelSpec, changes: &[Change]) -> Option<KernelSpec> {
    changes.iter().try_fold(*spec, |spec, (key, value)| spec.with_written(*key, value.as_deref()))
}

/// The search for one error's remedy.
struct Search<'f> {
    planner: Planner,
    spec: KernelSpec,
    /// What may be wrong still: errors with remedies of their own, all but one.
    allowed: &'f [(&'static str, String)],
    except: Option<usize>,
}

impl Search<'_> {
    /// The remedy in words, and the first change that it suggests.
    fn remedy(&self, error: &PlanError) -> (String, Vec<Change>) {
        let clauses = clauses(&error.help);
        if clauses.iter().all(|clause| matches!(clause, Clause::Prose(_))) {
            return (error.help.clone(), vec![]);
        }
        let of_clauses = |helps: &dyn Fn(&[Change]) -> bool| {
            let settled: Vec<_> = clauses.iter().filter_map(|clause| self.settled(clause, helps)).collect();
            let first = settled.iter().map(|(_, changes)| changes).find(|changes| !changes.is_empty()).cloned();
            let texts: Vec<String> = settled.into_iter().map(|(text, _)| text).collect();
            (texts.join(", or "), first)
        };
        if let (text, Some(first)) = of_clauses(&|changes| self.helps(changes)) {
            return (text, first);
        }
        if let Some(found) = self.search(&self.spec, error, MOST_CHANGES) {
            return (words(&found), found);
        }
        if let (text, Some(first)) = of_clauses(&|changes| self.ends(&self.spec, error, changes)) {
            return (text, first);
        }
        // Everything that the plan can decide.
        let choices = Key::ALL.into_iter().filter(|key| !key.is_fact() && *key != Key::Mma);
        let all: Vec<Change> = choices.flat_map(|key| dropped(&self.spec, key)).flatten().collect();
        if self.helps(&all) { (words(&all), all) } else { (error.help.clone(), vec![]) }
    }

    /// What of a clause helps, in words, and its first change.
    fn settled(&self, clause: &Clause, helps: &dyn Fn(&[Change]) -> bool) -> Option<(String, Vec<Change>)> {
        let (key, values, further, rest) = match clause {
            Clause::Prose(text) => return Some((text.clone(), vec![])),
            Clause::Changes { key, values, further, rest } => (*key, values, further, rest),
        };
        let with = |value: &Option<String>| -> Vec<Change> {
            std::iter::once((key, value.clone())).chain(further.iter().cloned()).collect()
        };
        let named: Vec<_> = values.iter().filter(|value| value.as_deref() != Some("?")).collect();
        let holding: Vec<_> = named.iter().filter(|value| helps(&with(value))).collect();
        if let Some(value) = holding.first() {
            let first = with(value);
            let text = match value {
                None if rest == TO_THE_PLAN => format!("leave `{key}`"),
                None => words(&first),
                Some(_) => {
                    let texts: Vec<&str> = holding.iter().filter_map(|value| value.as_deref()).collect();
                    let rest_of: String = further.iter().map(|change| format!(" and {}", word(change))).collect();
                    format!("{key} = {}{rest_of}", list(&texts))
                }
            };
            return Some((text + rest, first));
        }
        if values.contains(&None) {
            return None;
        }
        let nearest = self.nearest(&self.spec, key, helps);
        let first = nearest.first()?.clone();
        let texts: Vec<&str> = nearest.iter().filter_map(|changes| changes[0].1.as_deref()).collect();
        Some((format!("{key} = {}{rest}", list(&texts)), first))
    }

    /// Is nothing wrong after these changes but what has remedies of its own?
    fn helps(&self, changes: &[Change]) -> bool {
        changed(&self.spec, changes).is_some_and(|spec| self.plans(&spec))
    }

    /// Do these changes end the error, though they bring others to light?
    fn ends(&self, spec: &KernelSpec, error: &PlanError, changes: &[Change]) -> bool {
        let left = changed(spec, changes).filter(|changed| changed != spec).map(|spec| (self.planner)(&spec));
        left.is_some_and(|left| left.map_or_else(|left| left.iter().all(|left| fact(left) != fact(error)), |()| true))
    }

    fn plans(&self, spec: &KernelSpec) -> bool {
        let allowed = |error: &PlanError| {
            let fact = fact(error);
            self.allowed.iter().enumerate().any(|(at, known)| Some(at) != self.except && *known == fact)
        };
        *spec != self.spec && (self.planner)(spec).map_or_else(|left| left.iter().all(allowed), |()| true)
    }

    /// The nearest smaller number that helps, and the nearest larger one; where there is none so far, the largest.
    fn nearest(&self, spec: &KernelSpec, key: Key, helps: &dyn Fn(&[Change]) -> bool) -> Vec<Vec<Change>> {
        let Some(numbers) = numbers(key) else { return vec![] };
        let now = spec.value(key).parse().unwrap_or(u32::MAX);
        let change = |number: &u32| vec![(key, Some(number.to_string()))];
        let below = numbers.iter().rev().filter(|number| **number < now).map(change).find(|changes| helps(changes));
        let above = numbers.iter().filter(|number| **number > now).map(change).find(|changes| helps(changes));
        below.into_iter().chain(above).collect()
    }

    /// Changes that help: of the key that is blamed, of another one, or of several.
    fn search(&self, spec: &KernelSpec, error: &PlanError, most: usize) -> Option<Vec<Change>> {
        let blamed = Key::find(spec.type_key(error.key()))?;
        let plans = |changes: &[Change]| changed(spec, changes).is_some_and(|spec| self.plans(&spec));
        let choices = || Key::ALL.into_iter().filter(|key| !key.is_fact() && spec.says(*key));
        let others = || choices().chain([Key::Bn]).filter(|key| *key != blamed);
        let single = std::iter::once(blamed).chain(others()).find_map(|key| {
            let near = self.nearest(spec, key, &plans).into_iter();
            near.chain(of_words(key)).chain(dropped(spec, key)).find(|changes| plans(changes))
        });
        let any = || Key::ALL.into_iter().filter_map(|key| dropped(spec, key)).find(|changes| plans(changes));
        let single = single.or_else(any);
        if single.is_some() || most <= 1 {
            return single;
        }
        // A change that ends this error and brings others to light, together with what ends those.
        let is_past = |changes: &[Change]| self.ends(spec, error, changes);
        let written = clauses(&error.help).into_iter().flat_map(Clause::changes);
        let ways =
            written.chain(self.nearest(spec, blamed, &is_past)).chain(of_words(blamed)).chain(dropped(spec, blamed));
        ways.filter(|changes| is_past(changes)).take(TRIED).find_map(|changes| {
            let spec = changed(spec, &changes)?;
            let next = (self.planner)(&spec).err()?;
            let further = self.search(&spec, next.iter().next()?, most - 1)?;
            Some([changes, further].concat())
        })
    }
}

impl Clause {
    /// Its changes, one for each value.
    fn changes(self) -> Vec<Vec<Change>> {
        match self {
            Self::Changes { key, values, further, .. } => {
                let named = values.into_iter().filter(|value| value.as_deref() != Some("?"));
                named.map(|value| [vec![(key, value)], further.clone()].concat()).collect()
            }
            Self::Prose(_) => vec![],
        }
    }
}

/// A change of a word for each one that the key takes.
fn of_words(key: Key) -> impl Iterator<Item = Vec<Change>> {
    let words = match key.takes() {
        Takes::Words(words) => words,
        _ => vec![],
    };
    words.into_iter().filter(|word| !word.is_alias).map(move |word| vec![(key, Some(word.text.to_owned()))])
}

fn dropped(spec: &KernelSpec, key: Key) -> Option<Vec<Change>> {
    (spec.says(key) && !key.is_required()).then(|| vec![(key, None)])
}

/// The numbers that are tried of a key.
fn numbers(key: Key) -> Option<Vec<u32>> {
    Some(match key {
        Key::Bm | Key::Bn | Key::Bk | Key::D | Key::KStep => (1..=LARGEST / UNIT).map(|i| i * UNIT).collect(),
        Key::Stages | Key::Pack | Key::PackHeads => (1..=16).chain([32, 64]).collect(),
        Key::CtaM => (1..=LARGEST / UNIT).map(|i| i * UNIT).collect(),
        Key::Consumers => vec![1, 2, 3],
        Key::Cluster | Key::Vector => vec![1, 2, 4, 8],
        Key::Swizzle => vec![32, 64, 128],
        Key::Page => vec![16, 32, 64, 128, 256],
        Key::WorkList => vec![256, 1024, 4096, 8192, 30_720],
        _ => return None,
    })
}

/// A remedy as it is read: clauses between `, or ` and `; `.
fn clauses(help: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = vec![];
    for text in help.split(", or ").flat_map(|part| part.split("; ")).filter(|text| !text.is_empty()) {
        match (text, clauses.last_mut()) {
            ("fewer", Some(Clause::Changes { rest, .. })) => rest.push_str(", or fewer"),
            _ => clauses.push(clause(text).unwrap_or_else(|| Clause::Prose(text.to_owned()))),
        }
    }
    clauses
}

fn clause(text: &str) -> Option<Clause> {
    for before in ["drop `", "leave `"] {
        if let Some((name, rest)) = text.strip_prefix(before).and_then(|text| text.split_once('`')) {
            let (key, rest) = (Key::find(name)?, rest.to_owned());
            return Some(Clause::Changes { key, values: vec![None], further: vec![], rest });
        }
    }
    let (key, text) = text.split_once(" = ")?;
    let (first, mut rest) = value(text);
    let (key, mut values, mut further) = (Key::find(key)?, vec![Some(first?.to_owned())], vec![]);
    while let Some(text) = rest.strip_prefix(" or ").or_else(|| rest.strip_prefix(", ")) {
        let (Some(next), behind) = value(text) else { break };
        // `, and transpose B once` is no value.
        if !key.takes().words().is_empty() && !key.takes().words().iter().any(|word| word.text == next) {
            break;
        }
        if numbers(key).is_some() && next.parse::<u32>().is_err() {
            break;
        }
        values.push(Some(next.to_owned()));
        rest = behind;
    }
    while let Some((name, text)) = rest.strip_prefix(" and ").and_then(|text| text.split_once(" = ")) {
        let (Some(next), behind) = value(text) else { break };
        further.push((Key::find(name)?, Some(next.to_owned())));
        rest = behind;
    }
    Some(Clause::Changes { key, values, further, rest: rest.to_owned() })
}

/// The word, number or pair that a text begins with, and what follows.
fn value(text: &str) -> (Option<&str>, &str) {
    let end = match text.strip_prefix('(') {
        Some(pair) => pair.find(')').map_or(0, |end| end + 2),
        None => text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '?').unwrap_or(text.len()),
    };
    (Some(&text[..end]).filter(|value| !value.is_empty()), &text[end..])
}

/// `64, 128 or 256`.
fn list(values: &[&str]) -> String {
    match values {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => values.concat(),
    }
}

fn words(changes: &[Change]) -> String {
    changes.iter().map(word).collect::<Vec<_>>().join(" and ")
}

fn word((key, value): &Change) -> String {
    match value {
        Some(value) => format!("{key} = {value}"),
        None => format!("drop `{key}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Clause, clauses};
    use crate::spec::Key;

    fn changes(key: Key, values: &[&str], rest: &str) -> Clause {
        let values = values.iter().map(|value| Some((*value).to_owned())).collect();
        Clause::Changes { key, values, further: vec![], rest: rest.to_owned() }
    }

    #[test]
    fn remedies_are_read_as_they_are_worded() {
        let dropped = |key| Clause::Changes { key, values: vec![None], further: vec![], rest: String::new() };
        assert_eq!(
            clauses("bn = 32, 64 or 128, or drop `cluster`, or fewer vectors"),
            [
                changes(Key::Bn, &["32", "64", "128"], ""),
                dropped(Key::Cluster),
                Clause::Prose("fewer vectors".to_owned())
            ]
        );
        assert_eq!(clauses("stages = 4, or fewer"), [changes(Key::Stages, &["4"], ", or fewer")]);
        assert_eq!(
            clauses("b_layout = col, and transpose B once: `Dense::to_layout`"),
            [changes(Key::BLayout, &["col"], ", and transpose B once: `Dense::to_layout`")]
        );
        assert_eq!(
            clauses("out = f32, f16 or bf16, or warps = (2, 4)"),
            [changes(Key::Out, &["f32", "f16", "bf16"], ""), changes(Key::Warps, &["(2, 4)"], "")]
        );
        let both = Clause::Changes {
            key: Key::Op,
            values: vec![Some("dsd".to_owned())],
            further: vec![(Key::Transpose, Some("off".to_owned()))],
            rest: String::new(),
        };
        assert_eq!(clauses("op = dsd and transpose = off; drop `pack`"), [both, dropped(Key::Pack)]);
    }
}
