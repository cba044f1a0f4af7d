//! Which kernels there are to choose from.
//!
//! A [`Space`] is a union of [parts](Part): keys of a spec, each with a value, a list or a range, and constraints. Facts of
//! the product - the block, the types - it usually leaves open; they come from a problem's [`Facts`]. Every combination is
//! a point; what cannot be planned, breaks a constraint or is the same kernel as an earlier point is data, too.
//!
//! ```
//! use bsr_tuner::{Facts, Space};
//!
//! let space = Space::from_text("bn = [64, 128], stages = 2..=9, cluster = [auto, 2]")?;
//! let points = space.points(&"bm = 128, bk = 64".parse::<Facts>()?)?;
//! assert_eq!(points.len(), 2 * 8 * 2);
//! // What is left to the plan, and how many points that makes.
//! for (reason, points) in points.reasons() {
//!     println!("{points:>4}  {reason}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod constraint;
mod error;
mod phrase;
mod points;
mod read;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;

use bsr_codegen::spec::{Axis, Entry, Key, LocatedRequest, Request, Value, build};
use bsr_codegen::{Op, Refusal, Target};

pub use constraint::PLAN_NAMES;
pub use error::SpaceError;
pub use points::{MOST_POINTS, Point, Points, Reason, Rejected, Repeated};

use crate::Facts;
use constraint::Constraint;

/// The spaces that come with the project: their names and files.
const NAMED: [(&str, &str); 11] = [
    ("hopper-f16", include_str!("../../spaces/hopper-f16.toml")),
    ("hopper-fp8", include_str!("../../spaces/hopper-fp8.toml")),
    ("hopper-f64", include_str!("../../spaces/hopper-f64.toml")),
    ("hopper-tf32", include_str!("../../spaces/hopper-tf32.toml")),
    ("hopper-pairs", include_str!("../../spaces/hopper-pairs.toml")),
    ("hopper-attention", include_str!("../../spaces/hopper-attention.toml")),
    ("hopper-attention-gradient", include_str!("../../spaces/hopper-attention-gradient.toml")),
    ("ampere-attention", include_str!("../../spaces/ampere-attention.toml")),
    ("ampere-wmma", include_str!("../../spaces/ampere-wmma.toml")),
    ("scalar", include_str!("../../spaces/scalar.toml")),
    ("quick", include_str!("../../spaces/quick.toml")),
];

/// Bytes of a file with a space.
const LONGEST: u64 = 1 << 22;

/// Kernels to choose from: a union of parts.
#[derive(Clone, Debug)]
pub struct Space {
    name: String,
    description: String,
    parts: Vec<Part>,
    /// The architecture that kernels are planned for where a part says none.
    arch: Option<Target>,
}

/// Keys with values, lists or ranges, and what their combinations must satisfy.
#[derive(Clone, Debug)]
pub struct Part {
    name: String,
    /// What it is called in errors.
    called: String,
    request: LocatedRequest,
    axes: Vec<Axis<Range<usize>>>,
    constraints: Vec<Constraint>,
}

impl Space {
    /// The names of the spaces that come with the project, and what each is for.
    ///
    /// # Errors
    /// None: a test reads them all.
    pub fn all_named() -> Result<Vec<Self>, SpaceError> {
        NAMED.iter().map(|(name, text)| read::toml(text, name)).collect()
    }

    /// One of the spaces that come with the project.
    ///
    /// # Errors
    /// When there is no space of that name.
    pub fn named(name: &str) -> Result<Self, SpaceError> {
        match NAMED.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => read::toml(text, name),
            None => {
                let known: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
                let help = format!("{}, the path of a .toml file, or a spec with lists", known.join(", "));
                Err(Refusal::new(format!("there is no space `{name}`")).help(help).into())
            }
        }
    }

    /// What a command line calls a space: the name of one, the path of a TOML file, or a spec with lists.
    ///
    /// # Errors
    /// As [`Space::named`], [`Space::from_file`] and [`Space::from_text`].
    pub fn find(argument: &str) -> Result<Self, SpaceError> {
        let is_file = Path::new(argument).extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
        match argument {
            _ if is_file => Self::from_file(Path::new(argument)),
            _ if argument.contains('=') => Self::from_text(argument),
            _ => Self::named(argument.trim()),
        }
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// A file that cannot be read; as [`Space::from_toml`].
    pub fn from_file(path: &Path) -> Result<Self, SpaceError> {
        let text = bsr_runtime::read::text(path, LONGEST)
            .map_err(|error| Refusal::of(format_args!("cannot read {}", path.display()), error))?;
        read::toml(&text, &path.display().to_string())
    }

    /// Reads TOML: `name`, `description`, and for every part a table `[[part]]` with `keys`, a string or a table, and
    /// perhaps `name` and `constraints`. A file without parts is a spec with lists, of one part.
    ///
    /// # Errors
    /// Everything that is wrong with the file, a key, a value or a constraint, with its place.
    pub fn from_toml(text: &str) -> Result<Self, SpaceError> {
        read::toml(text, "toml")
    }

    /// Reads a spec with lists: a space of one part.
    ///
    /// # Errors
    /// Everything that is wrong with the text, each error on its own place.
    pub fn from_text(text: &str) -> Result<Self, SpaceError> {
        let request = LocatedRequest::from_text(text).named("space");
        let part = Part::new(String::new(), "the space", request, Vec::new())?;
        Ok(Self { name: "given".to_owned(), description: String::new(), parts: vec![part], arch: None })
    }

    /// The same space with kernels planned for an architecture, within its limits, where no part says another.
    #[must_use]
    #[doc(hidden)]
    pub fn on(self, arch: Target) -> Self {
        Self { arch: Some(arch), ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The facts of the product that the space itself states.
    ///
    /// # Errors
    /// When it leaves the block open, or is of several products.
    pub fn facts(&self) -> Result<Facts, SpaceError> {
        let mut found: Option<Facts> = None;
        for part in &self.parts {
            for facts in part.facts()? {
                match &found {
                    Some(first) if *first != facts => {
                        let fact = format!("{} is of several products: `{first}` and `{facts}`", self.name);
                        return Err(Refusal::new(fact).help("say of the problem which one is meant").into());
                    }
                    _ => found = Some(facts),
                }
            }
        }
        found.ok_or_else(|| open(&self.name, "part"))
    }
}

impl Part {
    fn new(
        name: String,
        called: &str,
        request: LocatedRequest,
        constraints: Vec<Constraint>,
    ) -> Result<Self, SpaceError> {
        let errors = &request.request().errors;
        if !errors.is_empty() {
            return Err(SpaceError::Spec(request.errors(errors.clone())));
        }
        let axes = request.request().axes();
        Ok(Self { name, called: called.to_owned(), request, axes, constraints })
    }

    /// Its name; empty where it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The keys with lists, in order of writing, and the values of each as they are written.
    pub fn axes(&self) -> Vec<(Key, Vec<String>)> {
        let values = |axis: &Axis<Range<usize>>| axis.values.iter().map(|element| element.value.to_string()).collect();
        self.axes.iter().map(|axis| (axis.key, values(axis))).collect()
    }

    /// What is the same for all its points, as it is written: `mma = mma_sync`.
    pub fn settings(&self) -> Vec<(String, String)> {
        let entries = self.request().entries.iter();
        let single = entries.filter(|entry| self.axes.iter().all(|axis| axis.key.as_str() != entry.key));
        single.map(|entry| (entry.key.clone(), entry.value.to_string())).collect()
    }

    /// Its constraints, as they are written.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        self.constraints.iter().map(Constraint::text)
    }

    fn request(&self) -> &Request<Range<usize>> {
        self.request.request()
    }

    fn says(&self, key: Key) -> bool {
        self.request().entries.iter().any(|entry| entry.key == key.as_str())
    }
}

/// Reads the facts of a product: `bm = 512, bk = 112, dtype = bf16`.
///
/// # Errors
/// Everything that is wrong with the text, each error on its own place; a key that is a choice.
pub fn read_facts(text: &str) -> Result<Facts, SpaceError> {
    let located = LocatedRequest::from_text(text).named("kernel");
    let mut request = located.request().clone();
    // The columns of an attention's V, and of a sparse B's blocks, are a fact and must be said.
    let entry = request.entries.iter().find(|entry| entry.key == Key::Op.as_str()).map(|entry| entry.value.to_string());
    let op = Op::ALL.into_iter().find(|op| entry.as_deref() == Some(op.as_str()));
    let has_width = op.is_some_and(Facts::has_width);
    for key in request.entries.iter().filter_map(|entry| Key::find(&entry.key)) {
        let is_said = is_fact(key) || has_width && key == Key::Bn;
        if !is_said {
            let fact = format!("`{key}` is no fact of the product but a choice: {}", key.meaning());
            return Err(Refusal::new(fact).help("leave it out here; a space, or a spec with lists, says it").into());
        }
    }
    // What no spec can be without; no fact.
    let place = request.whole.clone();
    let (key, value) = (Key::Bn.to_string(), Value::number(64));
    if !has_width {
        request.entries.push(Entry { key, key_place: place.clone(), value, value_place: place });
    }
    match build(&request) {
        Ok(spec) => Ok(Facts::of(&spec)),
        Err(errors) => Err(SpaceError::Spec(located.errors(errors))),
    }
}

/// A space that leaves open what is multiplied.
fn open(name: &str, missing: &str) -> SpaceError {
    let fact = format!("{name} leaves open what is multiplied: it has no {missing}");
    Refusal::new(fact).help("say so of the problem: \"bm = 512, bk = 112\"").into()
}

/// Keys that say something of the product. `accumulate` does where it is `promoted`.
fn is_fact(key: Key) -> bool {
    key.is_fact() || key == Key::Accumulate
}
