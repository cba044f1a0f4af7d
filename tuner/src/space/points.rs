//! From a space and the facts of a product to its points: planned, or rejected with reasons.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use bsr_codegen::spec::{Axis, Key, LocatedRequest, Request, SpecError, build};
use bsr_codegen::{KernelSpec, Plan, PlanError, Refusal};
use rayon::prelude::*;

use super::{Part, Space, SpaceError, is_fact, open};
use crate::Facts;
use crate::problem::fact_keys;

/// Most points of a space.
pub const MOST_POINTS: usize = 100_000;

/// Everything that a space has for one product, in the order of its parts: in each the first list varies slowest, the last
/// one fastest.
#[derive(Clone, Debug)]
pub struct Points {
    /// Kernels, every one once.
    pub legal: Vec<Point>,
    /// What cannot be planned, or breaks a constraint.
    pub rejected: Vec<Rejected>,
    /// Specs that are the same kernel as an earlier point.
    pub repeated: Vec<Repeated>,
}

/// A kernel of a space.
#[derive(Clone, Debug)]
pub struct Point {
    /// What the space says.
    pub spec: KernelSpec,
    /// What the plan made of it.
    pub plan: Plan,
    /// What tells it from other kernels: [`Plan::digest`].
    pub digest: String,
    /// The number of its part.
    pub part: usize,
}

/// A point that is no kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What the space says.
    pub spec: KernelSpec,
    /// The number of its part.
    pub part: usize,
    /// Why not: never empty.
    pub reasons: Vec<Reason>,
}

/// A spec that is an earlier kernel once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// What the space says.
    pub spec: KernelSpec,
    /// The number of its part.
    pub part: usize,
    /// The number of that kernel in [`Points::legal`].
    pub of: usize,
}

/// Why a point is no kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It cannot be planned.
    Plan {
        /// The key to blame.
        key: String,
        /// The fact, with `…` for its numbers, so that points that fail alike fall together.
        kind: String,
        /// The fact with its arithmetic.
        message: String,
    },
    /// It breaks this constraint.
    Constraint(String),
}

impl Reason {
    fn of(error: &PlanError) -> Self {
        let message = error.to_string();
        let fact = message.lines().next().unwrap_or_default();
        Self::Plan { key: error.key().to_owned(), kind: without_numbers(fact), message: message.replace("\n  ", ": ") }
    }

    /// What points that fail alike have in common: `stages: … stages do not fit shared memory`.
    pub fn bin(&self) -> String {
        match self {
            Self::Plan { key, kind, .. } => format!("{key}: {kind}"),
            Self::Constraint(text) => format!("the space asks that {}", super::phrase::in_words(text)),
        }
    }
}

/// The reason with its numbers.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan { key, message, .. } => write!(f, "{key}: {message}"),
            Self::Constraint(text) => write!(f, "constraint: {text}"),
        }
    }
}

/// `…` for every number that stands alone: `e4m3` and `sm_80` are words, and N is a side of the product.
fn without_numbers(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split_inclusive(|c: char| !is_part(c));
    words
        .map(|word| {
            let end = word.trim_end_matches(|c: char| !is_part(c)).len();
            let is_number = end > 0 && word[..end].chars().all(|c| c.is_ascii_digit());
            if is_number { format!("…{}", &word[end..]) } else { word.to_owned() }
        })
        .collect()
}

impl Points {
    /// All points, legal or not.
    pub fn len(&self) -> usize {
        self.legal.len() + self.rejected.len() + self.repeated.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many points are not legal for which reason, the most frequent first: of several reasons the first counts, so
    /// that the numbers add up.
    pub fn reasons(&self) -> Vec<(String, usize)> {
        let mut bins: HashMap<String, usize> = HashMap::new();
        for reason in self.rejected.iter().filter_map(|rejected| rejected.reasons.first()) {
            *bins.entry(reason.bin()).or_default() += 1;
        }
        if !self.repeated.is_empty() {
            bins.insert(REPEATED.to_owned(), self.repeated.len());
        }
        let mut bins: Vec<(String, usize)> = bins.into_iter().collect();
        bins.sort_by(|x, y| y.1.cmp(&x.1).then_with(|| x.0.cmp(&y.0)));
        bins
    }
}

/// The bin of repeated points.
const REPEATED: &str = "the same kernel as an earlier point";

/// What became of one spec, before repetitions are looked for.
enum Outcome {
    Legal(Box<Point>),
    Rejected(Box<Rejected>),
}

impl Space {
    /// Plans every point for one product.
    ///
    /// # Errors
    /// Values that a spec cannot have, facts that contradict those of the product, constraints without an answer, more
    /// than [`MOST_POINTS`] points. A point that cannot be planned is no error.
    pub fn points(&self, facts: &Facts) -> Result<Points, SpaceError> {
        let mut specs: Vec<(usize, KernelSpec)> = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let found = part.specs(facts)?;
            if specs.len() + found.len() > MOST_POINTS {
                let arithmetic = format!("{} + {}", specs.len(), found.len());
                return Err(too_many(&self.name, &arithmetic, specs.len() + found.len()).into());
            }
            let planned_for =
                |spec: KernelSpec| self.arch.filter(|_| spec.arch.is_none()).map_or(spec, |a| spec.arch(a));
            specs.extend(found.into_iter().map(|spec| (number, planned_for(spec))));
        }
        let outcome = |&(part, spec): &(usize, KernelSpec)| self.parts[part].outcome(part, spec);
        let outcomes: Vec<Outcome> = specs.par_iter().map(outcome).collect::<Result<_, _>>()?;
        let mut points = Points { legal: Vec::new(), rejected: Vec::new(), repeated: Vec::new() };
        let mut seen: HashMap<String, usize> = HashMap::new();
        for outcome in outcomes {
            match outcome {
                Outcome::Rejected(rejected) => points.rejected.push(*rejected),
                Outcome::Legal(point) => match seen.get(&point.digest) {
                    Some(&of) => points.repeated.push(Repeated { spec: point.spec, part: point.part, of }),
                    None => {
                        seen.insert(point.digest.clone(), points.legal.len());
                        points.legal.push(*point);
                    }
                },
            }
        }
        Ok(points)
    }
}

impl Part {
    /// Constraints on keys alone come before planning, those on the plan after it.
    fn outcome(&self, part: usize, spec: KernelSpec) -> Result<Outcome, Refusal> {
        let broken = |plan: Option<&Plan>| -> Result<Vec<Reason>, Refusal> {
            let mut reasons = Vec::new();
            for constraint in self.constraints.iter().filter(|c| c.needs_plan() == plan.is_some()) {
                if !constraint.holds(&spec, plan, &self.called)? {
                    reasons.push(Reason::Constraint(constraint.text().to_owned()));
                }
            }
            Ok(reasons)
        };
        let rejected = |reasons: Vec<Reason>| Ok(Outcome::Rejected(Box::new(Rejected { spec, part, reasons })));
        let reasons = broken(None)?;
        if !reasons.is_empty() {
            return rejected(reasons);
        }
        let plan = match Plan::new(&spec) {
            Ok(plan) => plan,
            Err(errors) => return rejected(errors.iter().map(Reason::of).collect()),
        };
        let reasons = broken(Some(&plan))?;
        if !reasons.is_empty() {
            return rejected(reasons);
        }
        Ok(Outcome::Legal(Box::new(Point { spec, digest: plan.digest(), plan, part })))
    }

    /// The specs of the part for a product, in order.
    fn specs(&self, facts: &Facts) -> Result<Vec<KernelSpec>, SpaceError> {
        let request = self.completed(facts);
        let (stated, free): (Vec<_>, Vec<_>) = self.axes.iter().cloned().partition(|axis| is_fact(axis.key));
        self.check_count(&stated, 1)?;
        let mut errors = Vec::new();
        // Of a fact with a list only the value of the product is meant.
        let (mut meant, mut other) = (Vec::new(), None);
        for choice in choices(&stated) {
            let request = request.choose(&stated, &choice).choose(&free, &vec![0; free.len()]);
            match build(&request) {
                Ok(spec) if Facts::of(&spec) == *facts => meant.push(choice),
                Ok(spec) => other = Some(spec),
                // One of its free values may be at fault: all of them are read below.
                Err(found) => {
                    add_new(&mut errors, found);
                    meant.push(choice);
                }
            }
        }
        if meant.is_empty()
            && let Some(spec) = other
        {
            return Err(self.conflict(&spec, facts).into());
        }
        let count = self.check_count(&free, meant.len())?;
        let mut specs = Vec::with_capacity(count);
        for stated_choice in &meant {
            let request = request.choose(&stated, stated_choice);
            for choice in choices(&free) {
                match build(&request.choose(&free, &choice)) {
                    // `bn` is a fact of some operations, and a choice elsewhere.
                    Ok(spec) if Facts::has_width(spec.op) && Facts::of(&spec) != *facts => {}
                    Ok(spec) => specs.push(spec),
                    Err(found) if errors.len() < MOST_ERRORS => add_new(&mut errors, found),
                    Err(_) => {}
                }
            }
        }
        match errors.is_empty() {
            true => Ok(specs),
            false => Err(SpaceError::Spec(self.request.errors(errors))),
        }
    }

    /// How many points `axes` make of each of so many.
    fn check_count(&self, axes: &[Axis<Range<usize>>], each: usize) -> Result<usize, Refusal> {
        let points = axes.iter().fold(each, |count, axis| count.saturating_mul(axis.values.len()));
        if points <= MOST_POINTS {
            return Ok(points);
        }
        let lengths: Vec<String> = axes.iter().map(|axis| axis.values.len().to_string()).collect();
        Err(too_many(&self.called, &lengths.join(" x "), points))
    }

    /// The products that the part itself states.
    pub(super) fn facts(&self) -> Result<Vec<Facts>, SpaceError> {
        let missing: Vec<&str> =
            [Key::Bm, Key::Bk].into_iter().filter(|key| !self.says(*key)).map(Key::as_str).collect();
        if !missing.is_empty() {
            return Err(open(&self.called, &missing.join(" and no ")));
        }
        let (stated, free): (Vec<_>, Vec<_>) = self.axes.iter().cloned().partition(|axis| is_fact(axis.key));
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for choice in choices(&stated).take(MOST_ERRORS) {
            let request = self.request().choose(&stated, &choice).choose(&free, &vec![0; free.len()]);
            match build(&request) {
                Ok(spec) => found.push(Facts::of(&spec)),
                Err(wrong) => add_new(&mut errors, wrong),
            }
        }
        match errors.is_empty() {
            true => Ok(found),
            false => Err(SpaceError::Spec(self.request.errors(errors))),
        }
    }

    /// The request with what it leaves open of the product.
    fn completed(&self, facts: &Facts) -> Request<Range<usize>> {
        let given = LocatedRequest::from_text(&facts.to_string());
        let mut request = self.request().clone();
        let whole = request.whole.clone();
        for entry in &given.request().entries {
            if !request.entries.iter().any(|known| known.key == entry.key) {
                let mut entry = entry.clone();
                (entry.key_place, entry.value_place) = (whole.clone(), whole.clone());
                request.entries.push(entry);
            }
        }
        request
    }

    fn conflict(&self, spec: &KernelSpec, facts: &Facts) -> Refusal {
        let problem = facts.spec(spec.bn);
        let differs = |key: &Key| Facts::of(spec).spec(spec.bn).value(*key) != problem.value(*key);
        let keys = fact_keys().chain([Key::Bn, Key::Accumulate]);
        // What the part says comes before what follows from it.
        let key = keys.clone().find(|key| self.says(*key) && differs(key)).or_else(|| keys.clone().find(differs));
        let key = key.unwrap_or(Key::Accumulate);
        let space = match self.axes.iter().find(|axis| axis.key == key) {
            Some(axis) => axis.values.iter().map(|value| value.value.to_string()).collect::<Vec<_>>().join(" or "),
            None => spec.value(key),
        };
        let (name, problem) = (&self.called, problem.value(key));
        let help = "another space, or a problem with what this one is for; a space that leaves";
        Refusal::new(format!("{name} is for `{key} = {space}`, and the problem says `{key} = {problem}`"))
            .help(format!("{help} `{key}` open takes any"))
    }
}

/// More points than anyone would measure.
fn too_many(name: &str, arithmetic: &str, points: usize) -> Refusal {
    Refusal::new(format!("{name} has {arithmetic} = {points} points, of at most {MOST_POINTS}"))
        .help("shorter lists, or several spaces")
}

/// Errors that are told of one part.
const MOST_ERRORS: usize = 256;

/// Every combination of values, as the number of each on its axis: the first axis varies slowest.
fn choices(axes: &[Axis<Range<usize>>]) -> impl Iterator<Item = Vec<usize>> {
    let lengths: Vec<usize> = axes.iter().map(|axis| axis.values.len()).collect();
    let count = lengths.iter().fold(1_usize, |count, length| count.saturating_mul(*length));
    (0..count).map(move |mut number| {
        let mut choice = vec![0; lengths.len()];
        for (digit, length) in choice.iter_mut().zip(&lengths).rev() {
            (*digit, number) = (number % length, number / length);
        }
        choice
    })
}

fn add_new(errors: &mut Vec<SpecError<Range<usize>>>, found: Vec<SpecError<Range<usize>>>) {
    for error in found {
        if errors.iter().all(|known| known.kind != error.kind) {
            errors.push(error);
        }
    }
}
