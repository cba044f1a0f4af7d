//! The graph under construction: names, values, calls, and what is wrong with them.

use std::collections::HashMap;

use super::error::EpilogueError;
use super::functions::Function;
use super::program::{Cmp, Given, Graph, Id, Input, InputKind, Level, Node, Program, Reduction};
use super::syntax::{Kinds, MOST_INPUTS, ParameterSyntax, kind_of};
use crate::place::Place;
use crate::steps;
use crate::suggest::{self, MOST_SHOWN};

/// What an expression is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A number.
    Float(Id),
    /// A comparison.
    Truth(Cmp, Id, Id),
    /// `row_sum(x)`.
    Collected(Reduction, Id),
    /// `(x, row_sum(y))`.
    Pair(Id, Reduction, Id),
}

/// The results of a body: that of an element, and what its row collects.
pub(super) type Outcome = (Id, Option<(Reduction, Id)>);

/// The graph so far, the names in scope, the errors.
pub(super) struct Builder<P> {
    inputs: Vec<(Input, P, bool)>,
    graph: Graph,
    kinds: Kinds,
    pub(super) scopes: Vec<HashMap<String, Id>>,
    pub(super) errors: Vec<EpilogueError<P>>,
}

/// The number that replaces what could not be parsed.
pub(super) const BROKEN: Id = 0;

impl<P: Place> Builder<P> {
    fn of_kinds(kinds: Kinds) -> Self {
        let scopes = vec![HashMap::new()];
        Self { inputs: Vec::new(), graph: Graph::default(), kinds, scopes, errors: Vec::new() }
    }

    pub(super) fn new() -> Self {
        let mut builder = Self::of_kinds(Kinds::EPILOGUE);
        let acc = builder.graph.add(Node::Acc, Level::Element);
        builder.scopes[0].insert("acc".to_owned(), acc);
        builder
    }

    /// The names of a score in place of those of an epilogue.
    pub(super) fn of_score() -> Self {
        let mut builder = Self::of_kinds(Kinds::SCORE);
        let product = builder.graph.add(Node::Acc, Level::Element);
        builder.scopes[0].insert("s".to_owned(), product);
        for (name, given) in Given::ALL {
            let id = builder.graph.add(Node::Given(given), given.level());
            builder.scopes[0].insert(name.to_owned(), id);
        }
        let infinity = builder.graph.add(Node::Literal(f32::INFINITY.to_bits()), Level::Uniform);
        builder.scopes[0].insert("inf".to_owned(), infinity);
        builder
    }

    pub(super) fn error(&mut self, place: P, fact: impl Into<String>, help: &[&str]) {
        self.errors.push(EpilogueError::new(place, fact, help));
    }

    pub(super) fn declare(&mut self, parameters: &[ParameterSyntax<P>]) {
        if let Some(first) = parameters.get(MOST_INPUTS) {
            let fact = format!("{} takes at most {MOST_INPUTS} parameters, not {}", self.kinds.one, parameters.len());
            self.error(first.name_place.clone(), fact, &["combine scalars into a vector, or fuse fewer operands"]);
        }
        for parameter in parameters.iter().take(MOST_INPUTS) {
            let name = &parameter.name;
            if self.scopes[0].contains_key(name) {
                let fact = match name.as_str() {
                    "acc" => "`acc` is the sum of an element of C and cannot be the name of a parameter".to_owned(),
                    _ if Given::ALL.iter().any(|(known, _)| known == name) || matches!(name.as_str(), "s" | "inf") => {
                        format!("`{name}` is defined in every score and cannot be the name of a parameter")
                    }
                    _ => format!("two parameters have the name `{name}`"),
                };
                self.error(parameter.name_place.clone(), fact, &["choose another name"]);
                continue;
            }
            let kind = kind_of(parameter, self.kinds).unwrap_or_else(|(fact, help)| {
                self.errors.push(EpilogueError { fact, help, place: parameter.type_place.clone() });
                InputKind::Scalar
            });
            let id = self.graph.add(Node::Input(self.inputs.len()), kind.level());
            self.inputs.push((Input::new(name, kind), parameter.name_place.clone(), false));
            self.scopes[0].insert(name.clone(), id);
        }
    }

    /// Parameters that the body does not name.
    pub(super) fn unused(&self) -> Vec<EpilogueError<P>> {
        let unused = self.inputs.iter().filter(|(.., used)| !used);
        unused
            .map(|(input, place, _)| {
                let fact = format!("the {} does not use `{}`", self.kinds.of, input.name);
                EpilogueError::new(place.clone(), fact, &["use it, or drop the parameter"])
            })
            .collect()
    }

    pub(super) fn inputs(&self) -> Vec<Input> {
        self.inputs.iter().map(|(input, ..)| input.clone()).collect()
    }

    pub(super) fn into_graph(self) -> Graph {
        self.graph
    }

    pub(super) fn bind(&mut self, name: &str, value: Id, place: &P) {
        if name == "acc" {
            self.error(
                place.clone(),
                "`acc` is the sum of an element of C and keeps its name",
                &["choose another name"],
            );
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), value);
        }
    }

    pub(super) fn node(&mut self, node: Node) -> Id {
        self.graph.made_of(node)
    }

    pub(super) fn literal(&mut self, value: f32) -> Id {
        self.node(Node::Literal(value.to_bits()))
    }

    /// A value that must be a number.
    pub(super) fn float(&mut self, value: Value, place: &P) -> Id {
        let fact = match value {
            Value::Float(id) => return id,
            Value::Truth(..) => "a comparison is not a number",
            Value::Collected(..) | Value::Pair(..) => {
                "a sum or maximum of a row is a result and cannot be used in an expression"
            }
        };
        let help = match value {
            Value::Truth(..) => "write `if a < b { x } else { y }`",
            _ => "the body ends in `(x, row_sum(y))`",
        };
        self.error(place.clone(), fact, &[help]);
        BROKEN
    }

    pub(super) fn outcome(&mut self, value: Value, place: &P) -> Outcome {
        match value {
            Value::Pair(first, reduction, second) => (first, Some((reduction, second))),
            value => (self.float(value, place), None),
        }
    }

    pub(super) fn lookup(&mut self, name: &str, place: &P) -> Id {
        steps::add(self.scopes.len());
        let found = self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied();
        if let Some(id) = found {
            return id;
        }
        let fact = format!("there is no `{name}` here");
        if self.errors.len() >= MOST_SHOWN {
            // Nobody sees the remedies, and there may be many names to look through.
            self.error(place.clone(), fact, &[]);
            return BROKEN;
        }
        steps::add(self.scopes.iter().map(HashMap::len).sum());
        let mut names: Vec<String> = self.scopes.iter().flat_map(HashMap::keys).cloned().collect();
        names.sort_unstable();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let near = suggest::nearest(name, &names);
        let mut help: Vec<String> = Vec::new();
        if matches!(name, "a" | "b") {
            help.push("`acc` is the sum of the products of A and B".to_owned());
        } else if Program::FUNCTIONS.iter().any(|(known, ..)| *known == name) {
            help.push(format!("`{name}` is a function: `{name}(acc)`"));
        } else if !near.is_empty() {
            help.push(format!("did you mean {}?", suggest::either(&near)));
        }
        help.push(match names[..] {
            [_] => "`acc` is the only name: others are parameters and `let`".to_owned(),
            _ => format!("the names are {}", suggest::list(&names, "and")),
        });
        self.errors.push(EpilogueError { fact, help, place: place.clone() });
        BROKEN
    }

    pub(super) fn mark_used(&mut self, id: Id) {
        if let Node::Input(input) = self.graph.nodes()[id] {
            self.inputs[input].2 = true;
        }
    }

    pub(super) fn call(&mut self, name: &str, place: &P, arguments: &[(Value, P)]) -> Value {
        let Some((_, takes, ..)) = Program::FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
            let names = Program::FUNCTIONS.map(|(name, ..)| name);
            let near = suggest::nearest(name, &names);
            let mut help = vec![format!("the functions are {}", names.join(", "))];
            if !near.is_empty() {
                help.insert(0, format!("did you mean {}?", suggest::either(&near)));
            }
            self.errors.push(EpilogueError {
                fact: format!("there is no function `{name}`"),
                help,
                place: place.clone(),
            });
            return Value::Float(BROKEN);
        };
        let wanted = takes.split(", ").count();
        if arguments.len() != wanted {
            let fact = format!("`{name}` takes {wanted} argument(s), not {}", arguments.len());
            self.error(place.clone(), fact, &[&format!("write `{name}({takes})`")]);
            return Value::Float(BROKEN);
        }
        if name == "select" {
            let Value::Truth(cmp, a, b) = arguments[0].0 else {
                self.error(
                    arguments[0].1.clone(),
                    "`select` takes a comparison first",
                    &["write `select(a < b, x, y)`"],
                );
                return Value::Float(BROKEN);
            };
            let [x, y] = [1, 2].map(|at: usize| self.float(arguments[at].0, &arguments[at].1));
            return Value::Float(self.node(Node::Select(cmp, a, b, x, y)));
        }
        let x: Vec<Id> = arguments.iter().map(|(value, place)| self.float(*value, place)).collect();
        let node = match name {
            "row_sum" => return Value::Collected(Reduction::Sum, x[0]),
            "row_max" => return Value::Collected(Reduction::Max, x[0]),
            "fma" => Node::Fma(x[0], x[1], x[2]),
            "min" => Node::Min(x[0], x[1]),
            "max" => Node::Max(x[0], x[1]),
            "clamp" => Node::Min(self.node(Node::Max(x[0], x[1])), x[2]),
            "relu" => Node::Max(x[0], self.literal(0.0)),
            _ => match Function::find(name) {
                Some(function) => Node::Apply(function, x[0]),
                None => Node::Neg(x[0]),
            },
        };
        Value::Float(self.node(node))
    }
}
