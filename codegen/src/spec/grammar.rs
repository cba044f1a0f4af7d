//! From entries to a [`KernelSpec`]: the one place where entries are interpreted, by what the table says of their keys.

use std::collections::HashMap;

use super::number::{NumberError, positive};
use super::setting::Source;
use super::{Atom, Dtype, Entry, Given, KernelSpec, Key, Op, Place, SpecError, SpecErrorKind, Switch, Value};
use crate::epilogue::{self, Epilogue};
use crate::steps;
use crate::suggest::either;
use crate::words::Vocabulary;

/// Everything a front end read before it is interpreted.
#[derive(Clone, Debug)]
pub struct Request<P> {
    /// The entries as written.
    pub entries: Vec<Entry<P>>,
    /// What a function signature states: the dtypes of its operands, as entries of the keys `a`, `b` and `out`, and by
    /// which of them are sparse the operation, as one of `op`.
    pub signature: Vec<Entry<P>>,
    /// What the body of a function is, and its place.
    pub epilogue: Option<(Epilogue, P)>,
    /// What was wrong already with the shape of the input.
    pub errors: Vec<SpecError<P>>,
    /// The place to blame for what is not there.
    pub whole: P,
}

impl<P: Place> Request<P> {
    /// The place that decides `key`: its value, else what it follows from or must agree with, else the whole.
    pub fn place_of(&self, key: &str) -> &P {
        let related: &[&str] = match key {
            "a" => &["a", "dtype", "b"],
            "b" => &["b", "dtype", "a"],
            "out" => &["out", "dtype"],
            "epilogue" => &["epilogue", "beta"],
            _ => &[key],
        };
        let entries = || self.entries.iter().chain(&self.signature);
        related
            .iter()
            .find_map(|related| entries().find(|entry| entry.key == *related))
            .map(|entry| &entry.value_place)
            .or_else(|| self.epilogue.as_ref().filter(|_| matches!(key, "epilogue" | "score")).map(|(_, place)| place))
            .unwrap_or(&self.whole)
    }
}

/// Interprets a request. Every front end comes through here.
///
/// # Errors
/// Those of the request and every unknown or duplicate key, wrong type, bad value, contradiction and missing key,
/// each on its own place. Nothing is called missing where a part of the input could not be read.
pub fn build<P: Place>(request: &Request<P>) -> Result<KernelSpec, Vec<SpecError<P>>> {
    let mut reading = Reading::of(request);
    reading.require([Key::Bm, Key::Bn, Key::Bk]);
    let mut spec = KernelSpec::DEFAULT;
    for key in [Key::Bm, Key::Bn, Key::Bk] {
        spec.read(key, &mut reading);
    }
    reading.operands(&mut spec);
    spec.op = reading.operation();
    reading.op = spec.op;
    for key in Key::ALL.into_iter().filter(|key| !reads_by_itself(*key)) {
        spec.read(key, &mut reading);
    }
    spec.epilogue = reading.results(spec.op, spec.out);
    if reading.errors.is_empty() { Ok(spec) } else { Err(reading.errors) }
}

/// The keys whose value follows from several entries, or which others follow from.
const fn reads_by_itself(key: Key) -> bool {
    use Key::{A, B, Beta, Bk, Bm, Bn, Dtype, Epilogue, Op, Out};
    matches!(key, Bm | Bn | Bk | Op | Dtype | A | B | Out | Epilogue | Beta)
}

/// A request that is being interpreted: what every key says, and what is wrong with it.
struct Reading<'r, P> {
    request: &'r Request<P>,
    /// The first entry of each key.
    written: Vec<(Key, &'r Entry<P>)>,
    /// The operation, once it is read.
    op: Op,
    /// The dtypes of the type parameters of the signature.
    bound: Vec<(&'r str, Dtype)>,
    errors: Vec<SpecError<P>>,
}

impl<P: Place> Source for Reading<'_, P> {
    /// A number; any, where a key without a default has none, which is an error already.
    fn number(&mut self, key: Key) -> Option<u32> {
        let entry = self.entry(key)?;
        let atom = self.atom(key, &entry.value, &entry.value_place);
        if atom.is_auto() && !key.is_required() {
            return None;
        }
        let expected = if key.is_required() { "a positive integer" } else { "a positive integer or `auto`" };
        self.integer(key, expected, atom, &entry.value_place)
    }

    /// Two numbers, in parentheses.
    fn pair(&mut self, key: Key) -> Option<(u32, u32)> {
        let entry = self.entry(key)?;
        let found = match &entry.value {
            Value::Tuple(elements) => match &elements[..] {
                [first, second] => {
                    let [first, second] = [first, second].map(|element| {
                        let atom = self.atom(key, &element.value, &element.place);
                        self.integer(key, "two positive integers", atom, &element.place)
                    });
                    return first.zip(second);
                }
                _ => Atom::Other(format!("a tuple of {}", elements.len())),
            },
            value => self.atom(key, value, &entry.value_place),
        };
        if found != Atom::Broken && !found.is_auto() {
            let expected = "two positive integers, `(along M, along N)`, or `auto`".into();
            self.error(SpecErrorKind::WrongType { key, expected, found }, &entry.value_place);
        }
        None
    }

    fn word<V: Vocabulary>(&mut self, key: Key) -> Option<V> {
        let entry = self.entry(key)?;
        self.word_of(key, entry)
    }

    /// A closure in a string, or the body of the function.
    fn closure(&mut self, key: Key) -> Option<Epilogue> {
        let is_score = key == Key::Score;
        // The body of a function of attention is its score.
        let takes_body = is_score == self.op.is_of_heads();
        let body = self.request.epilogue.as_ref().filter(|_| takes_body).map(|(epilogue, _)| *epilogue);
        let Some(entry) = self.entry(key) else { return body };
        let found = self.atom(key, &entry.value, &entry.value_place);
        let (kind, place) = match found {
            Atom::Broken => return None,
            Atom::Word(word) | Atom::Quoted(word) if word == "none" || word == "auto" => return body,
            Atom::Quoted(_) if body.is_some() => {
                let message = format!("the function has a body, and the attribute has an `{key}`");
                let help = Some(format!("the body is the {key}: drop the key"));
                (SpecErrorKind::Syntax { message, help }, entry.value_place.clone())
            }
            Atom::Quoted(text) => match if is_score { epilogue::read_score(&text) } else { epilogue::read(&text) } {
                Ok(program) => return Some(Epilogue::new(program)),
                Err(errors) => {
                    for error in errors {
                        let place = entry.value_place.part(error.place);
                        self.error(SpecErrorKind::Epilogue { message: error.fact, help: error.help }, &place);
                    }
                    return None;
                }
            },
            found => {
                let expected = "a closure in a string".to_owned();
                (SpecErrorKind::WrongType { key, expected, found }, entry.value_place.clone())
            }
        };
        self.error(kind, &place);
        None
    }
}

impl<'r, P: Place> Reading<'r, P> {
    fn of(request: &'r Request<P>) -> Self {
        let mut reading =
            Self { request, written: Vec::new(), op: Op::Dsd, bound: Vec::new(), errors: request.errors.clone() };
        let mut first: HashMap<&str, &Entry<P>> = HashMap::new();
        for entry in &request.entries {
            steps::add(1);
            let earlier = first.get(entry.key.as_str()).copied();
            first.entry(&entry.key).or_insert(entry);
            match (Key::find(&entry.key), earlier) {
                (_, Some(earlier)) => reading.errors.push(SpecError {
                    kind: SpecErrorKind::Duplicate { key: entry.key.clone() },
                    place: entry.key_place.clone(),
                    earlier: Some(earlier.key_place.clone()),
                }),
                (None, None) => reading.error(SpecErrorKind::UnknownKey { key: entry.key.clone() }, &entry.key_place),
                (Some(key), None) => reading.written.push((key, entry)),
            }
        }
        reading
    }

    fn error(&mut self, kind: SpecErrorKind, place: &P) {
        self.errors.push(SpecError::new(kind, place.clone()));
    }

    fn entry(&self, key: Key) -> Option<&'r Entry<P>> {
        let found = self.written.iter().find(|(written, _)| *written == key);
        found.map(|(_, entry)| *entry)
    }

    fn require(&mut self, keys: [Key; 3]) {
        let keys: Vec<Key> = keys.into_iter().filter(|key| self.entry(*key).is_none()).collect();
        if !keys.is_empty() && self.request.errors.is_empty() {
            self.error(SpecErrorKind::Missing { keys }, &self.request.whole);
        }
    }

    /// The element types of the operands, and what follows from them where it is not written.
    fn operands(&mut self, spec: &mut KernelSpec) {
        let dtype = self.word(Key::Dtype);
        spec.a = self.operand(Key::A, dtype).unwrap_or(Dtype::F16);
        self.bind(Key::A, spec.a);
        spec.b = self.operand(Key::B, dtype).unwrap_or(Dtype::F16);
        self.bind(Key::B, spec.b);
        // `dtype` says what C is only where that type is one of results, too.
        let out = self.operand(Key::Out, None).or(dtype.map(Dtype::default_out));
        spec.out = out.unwrap_or(spec.a.default_out_with(spec.b));
        spec.acc = spec.a.accumulator_with(spec.b);
        spec.b_layout = spec.b.default_b_layout();
    }

    /// The one literal or word that a value is. A list is an error, here and not later.
    fn atom(&mut self, key: Key, value: &Value<P>, place: &P) -> Atom {
        match value {
            Value::Atom(atom) => atom.clone(),
            Value::Tuple(_) => Atom::Other("a tuple".into()),
            Value::List(elements) => {
                let first = elements.first().map(|element| element.value.to_string()).unwrap_or_default();
                self.error(SpecErrorKind::OneValue { key, first }, place);
                Atom::Broken
            }
            Value::Parameter(name) => Atom::Word(name.clone()),
        }
    }

    fn integer(&mut self, key: Key, expected: &str, found: Atom, place: &P) -> Option<u32> {
        let kind = match &found {
            Atom::Broken => return None,
            Atom::Number(text) => match positive(text) {
                Ok(value) => return Some(value),
                Err(NumberError::OutOfRange) => SpecErrorKind::OutOfRange { key, text: text.clone() },
                Err(NumberError::NotAnInteger) => SpecErrorKind::WrongType { key, expected: expected.into(), found },
            },
            _ => SpecErrorKind::WrongType { key, expected: expected.into(), found },
        };
        self.error(kind, place);
        None
    }

    fn word_of<V: Vocabulary>(&mut self, key: Key, entry: &Entry<P>) -> Option<V> {
        let accepted: Vec<_> = key.takes().words().iter().map(|word| word.text).collect();
        let kind = match self.atom(key, &entry.value, &entry.value_place) {
            Atom::Broken => return None,
            Atom::Number(found) if !accepted.contains(&found.as_str()) => {
                SpecErrorKind::WrongType { key, expected: either(&accepted), found: Atom::Number(found) }
            }
            Atom::Word(found) | Atom::Quoted(found) | Atom::Number(found) => {
                if accepted.contains(&found.as_str())
                    && let Some((_, value)) = V::WORDS.iter().find(|(word, _)| *word == found)
                {
                    return Some(*value);
                }
                if found == "auto" {
                    return None;
                }
                if V::RESERVED.contains(&found.as_str()) {
                    SpecErrorKind::NotYet { key, found, accepted }
                } else {
                    SpecErrorKind::NotAccepted { key, found, accepted }
                }
            }
            found @ Atom::Other(_) => SpecErrorKind::WrongType { key, expected: either(&accepted), found },
        };
        self.error(kind, &entry.value_place);
        None
    }

    /// The operation, from its key and from the types in the signature, which must agree.
    fn operation(&mut self) -> Op {
        let written = self.word::<Op>(Key::Op);
        let request = self.request;
        let Some(typed) = request.signature.iter().find(|entry| entry.key == Key::Op.as_str()) else {
            return written.unwrap_or(Op::Dsd);
        };
        let given = self.word_of::<Op>(Key::Op, typed).unwrap_or(Op::Dsd);
        if let (Some(found), Some(entry)) = (written, self.entry(Key::Op))
            && found != given
        {
            let source = (found.as_str(), entry, Given::Key(Key::Op));
            self.contradiction(Key::Op, source, (given.as_str(), typed, Given::Type));
        }
        given
    }

    /// The epilogue that is written, or the one that `beta = on` means.
    fn results(&mut self, op: Op, out: Dtype) -> Option<Epilogue> {
        let epilogue = self.closure(Key::Epilogue);
        if !self.word::<Switch>(Key::Beta).unwrap_or_default().is_on() {
            return epilogue;
        }
        if epilogue.is_some() {
            let message = "`beta = on` is an epilogue, and the spec has another one".to_owned();
            let c = if op.stores_blocks() { "Bsr" } else { "Dense" };
            let help = Some(format!("drop `beta`, and let the epilogue add `beta * c` of `c: {c}<{out}>, beta: f32`"));
            if let Some(entry) = self.entry(Key::Beta) {
                self.error(SpecErrorKind::Syntax { message, help }, &entry.value_place);
            }
        }
        Some(Epilogue::accumulate_of(op, out))
    }

    /// Binds the type parameter of an operand, if it has one, to `dtype`.
    fn bind(&mut self, key: Key, dtype: Dtype) {
        let entry = self.request.signature.iter().find(|entry| entry.key == key.as_str());
        if let Some(Entry { value: Value::Parameter(name), .. }) = entry
            && self.binding(name).is_none()
        {
            self.bound.push((name, dtype));
        }
    }

    fn binding(&self, parameter: &str) -> Option<Dtype> {
        self.bound.iter().find(|(name, _)| *name == parameter).map(|(_, dtype)| *dtype)
    }

    /// The dtype that the signature gives an operand. A parameter that has stood nowhere yet leaves it to the keys.
    fn typed(&mut self, key: Key, entry: &Entry<P>) -> Option<Dtype> {
        let Value::Parameter(name) = &entry.value else {
            return self.word_of(key, entry);
        };
        let value = Value::word(self.binding(name)?.as_str());
        self.word_of(key, &Entry { value, ..entry.clone() })
    }

    /// The dtype of one operand, from its type in the signature, its own key and `dtype`, which must agree.
    fn operand(&mut self, key: Key, dtype: Option<Dtype>) -> Option<Dtype> {
        let request = self.request;
        let typed = request.signature.iter().find(|e| e.key == key.as_str());
        let written = self.entry(key);
        let mut sources = Vec::new();
        if let Some(entry) = typed {
            let found = self.typed(key, entry);
            sources.push((found, entry, Given::Type));
        }
        if let Some(entry) = written {
            let found = self.word_of(key, entry);
            sources.push((found, entry, Given::Key(key)));
        }
        if let Some(entry) = self.entry(Key::Dtype) {
            let source = (dtype, entry, Given::Key(Key::Dtype));
            let is_first = |entry: &Entry<P>| {
                let position = |key: &str| request.entries.iter().position(|e| e.key == key);
                typed.is_none() && position("dtype") < position(&entry.key)
            };
            let at = if written.is_some_and(is_first) { 0 } else { sources.len() };
            sources.insert(at, source);
        }
        sources.retain(|(found, ..)| found.is_some());
        let (first, first_entry, by) = *sources.first()?;
        for (found, entry, given) in &sources[1..] {
            if let (Some(found), Some(first), true) = (*found, first, *found != first) {
                self.contradiction(key, (found.as_str(), entry, *given), (first.as_str(), first_entry, by));
            }
        }
        first
    }

    fn contradiction(
        &mut self,
        operand: Key,
        (found, entry, source): (&str, &Entry<P>, Given),
        (first, earlier, by): (&str, &Entry<P>, Given),
    ) {
        let key = match source {
            Given::Key(key) => key,
            Given::Type => operand,
        };
        let same_key = |error: &SpecError<P>| matches!(&error.kind, SpecErrorKind::Contradiction { key: known, .. } if *known == key);
        if self.errors.iter().any(same_key) {
            return;
        }
        self.errors.push(SpecError {
            kind: SpecErrorKind::Contradiction { key, found: found.to_string(), operand, by, given: first.to_string() },
            place: entry.key_place.through(&entry.value_place),
            earlier: Some(match by {
                Given::Type => earlier.value_place.clone(),
                Given::Key(_) => earlier.key_place.through(&earlier.value_place),
            }),
        });
    }
}
