//! The derivatives of a score by the product of its query and key and by its parameters, as values of the same graph.
//!
//! That by the product is taken by the product times the scale, so that it is 1 of `s * scale`: kernels multiply a gradient by the scale once,
//! when it is complete. A derivative is a product of values until it is added to another one, so that what is both multiplied
//! and divided by leaves no instruction: that of `cap * tanh(s * scale / cap)` is `1 - t * t`, t the hyperbolic tangent.

use super::functions::Function;
use super::program::{Cmp, Given, Graph, Id, InputKind, Level, Node, Program};

/// sqrt(8 / pi) and the factor of the cube, in the argument of the logistic function that `gelu` is made of.
const GELU: [f64; 2] = [1.595_769_121_605_730_7, 0.044_715];

/// A function of the product that has no derivative in the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoDerivative {
    /// The function.
    pub(crate) name: &'static str,
    /// What to write instead.
    pub(crate) instead: &'static str,
}

/// The derivative of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Slope {
    /// The value is minus infinity: its exponential is 0, and no derivative matters.
    Any,
    Zero,
    /// The product of these values, in ascending order: 1 if there are none.
    Product(Vec<Id>),
}

/// What a derivative is taken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The product times the scale.
    Product,
    /// A parameter, by its number.
    Parameter(usize),
}

impl Slope {
    /// 1, or the value has no part in anything.
    fn is_one(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Zero => false,
            Self::Product(factors) => factors.is_empty(),
        }
    }
}

impl Program {
    /// The same score with its derivative, unless that is 1 wherever the score is not minus infinity: then none.
    pub(crate) fn differentiated(&self) -> Result<Option<Self>, NoDerivative> {
        let found = self.with_derivatives(|_| false)?;
        Ok(found.is_sloped().then_some(found))
    }

    /// The same score with its derivatives by the product and by parameters of some kinds.
    pub(crate) fn with_derivatives(&self, is_wanted: fn(InputKind) -> bool) -> Result<Self, NoDerivative> {
        let mut graph = Derivatives { graph: self.graph().clone(), by: By::Product, slopes: vec![] };
        let slope = graph.of_program(self, By::Product)?;
        let slope = (!slope.is_one()).then(|| graph.value(&slope));
        let mut slopes = vec![];
        for (at, _) in self.inputs().iter().enumerate().filter(|(_, input)| is_wanted(input.kind)) {
            let by_parameter = graph.of_program(self, By::Parameter(at))?;
            if let Slope::Product(_) = by_parameter {
                slopes.push((at, graph.value(&by_parameter)));
            }
        }
        Ok(self.with_slopes(graph.graph, slope, slopes))
    }

    /// Whether the score is below infinity, and a number, for any finite values of what it reads.
    pub(crate) fn is_bounded(&self) -> bool {
        let graph = Derivatives { graph: self.graph().clone(), by: By::Product, slopes: vec![] };
        graph.is_bounded(self.result())
    }
}

/// A graph that grows by the derivatives of its values.
struct Derivatives {
    graph: Graph,
    by: By,
    /// Those of the values so far.
    slopes: Vec<Slope>,
}

impl Derivatives {
    /// That of a program's result.
    fn of_program(&mut self, program: &Program, by: By) -> Result<Slope, NoDerivative> {
        (self.by, self.slopes) = (by, vec![]);
        for id in 0..program.nodes().len() {
            let slope = if program.is_used(id) { self.of(id)? } else { Slope::Zero };
            self.slopes.push(slope);
        }
        Ok(self.slopes[program.result()].clone())
    }

    /// That of a value, by those of what it is made of.
    fn of(&mut self, id: Id) -> Result<Slope, NoDerivative> {
        let node = self.graph.nodes()[id];
        let slopes = node.operands().iter().map(|id| self.slopes[*id].clone()).collect::<Vec<_>>();
        Ok(match (node, &slopes[..]) {
            (Node::Acc, _) if self.by == By::Product => {
                let scale = self.graph.made_of(Node::Given(Given::Scale));
                Slope::Product(vec![self.apply(Function::Reciprocal, scale)])
            }
            (Node::Literal(bits), _) if f32::from_bits(bits) == f32::NEG_INFINITY => Slope::Any,
            (Node::Input(at), _) if self.by == By::Parameter(at) => Slope::Product(vec![]),
            (Node::Acc | Node::Input(_) | Node::Given(_) | Node::Literal(_), _) => Slope::Zero,
            (Node::Neg(_), [a]) => self.negative(a),
            (Node::Add(..), [a, b]) => self.sum(a, b),
            (Node::Sub(..), [a, b]) => {
                let b = self.negative(b);
                self.sum(a, &b)
            }
            (Node::Mul(x, y), [a, b]) => self.of_product((x, a), (y, b)),
            (Node::Fma(x, y, _), [a, b, c]) => {
                let product = self.of_product((x, a), (y, b));
                self.sum(&product, c)
            }
            // (x / y)' = (x' - (x / y) y') / y
            (Node::Div(_, y), [a, b]) => {
                let by = self.apply(Function::Reciprocal, y);
                let of_divisor = self.times(b, &[id]);
                let of_divisor = self.negative(&of_divisor);
                let sum = self.sum(a, &of_divisor);
                self.times(&sum, &[by])
            }
            (Node::Min(x, y), [a, b]) => self.choice((Cmp::Lt, x, y), a, b),
            (Node::Max(x, y), [a, b]) => self.choice((Cmp::Gt, x, y), a, b),
            // What is compared only chooses.
            (Node::Select(cmp, x, y, ..), [.., a, b]) => self.choice((cmp, x, y), a, b),
            // As a cast in PyTorch: a number is changed in its last digits, and its derivative is not.
            (Node::Round(..), [a]) => a.clone(),
            (Node::Apply(..), [Slope::Zero]) => Slope::Zero,
            (Node::Apply(function, x), [a]) => match self.of_function(function, x, id)? {
                Some(factors) => self.times(a, &factors),
                None => Slope::Zero,
            },
            _ => Slope::Zero,
        })
    }

    /// The factors of the derivative of a function at `x`, where its value is `y`; none of steps without a slope between them.
    fn of_function(&mut self, function: Function, x: Id, y: Id) -> Result<Option<Vec<Id>>, NoDerivative> {
        let one = self.literal(1.0);
        let minus_one = self.literal(-1.0);
        Ok(Some(match function {
            Function::Floor => return Ok(None),
            Function::Abs => {
                let zero = self.literal(0.0);
                let not_above = self.graph.made_of(Node::Select(Cmp::Lt, x, zero, minus_one, zero));
                vec![self.graph.made_of(Node::Select(Cmp::Gt, x, zero, one, not_above))]
            }
            Function::Reciprocal => vec![minus_one, y, y],
            Function::Exp => vec![y],
            Function::Log => vec![self.apply(Function::Reciprocal, x)],
            Function::Sqrt => vec![self.literal(0.5), self.apply(Function::Reciprocal, y)],
            Function::Rsqrt => vec![self.literal(-0.5), y, y, y],
            Function::Sin => vec![self.apply(Function::Cos, x)],
            Function::Cos => vec![minus_one, self.apply(Function::Sin, x)],
            Function::Tanh => {
                let negative = self.graph.made_of(Node::Neg(y));
                vec![self.graph.made_of(Node::Fma(negative, y, one))]
            }
            Function::Sigmoid => vec![y, self.graph.made_of(Node::Sub(one, y))],
            // y = x f, with the logistic function f: f + y (1 - f) w, where w is the derivative of its argument.
            Function::Silu => {
                let logistic = self.apply(Function::Sigmoid, x);
                let rest = self.graph.made_of(Node::Sub(one, logistic));
                vec![self.graph.made_of(Node::Fma(y, rest, logistic))]
            }
            Function::Gelu => {
                let square = self.graph.made_of(Node::Mul(x, x));
                let linear = self.literal(GELU[0]);
                let [cube, of_cube] = [1.0, 3.0].map(|times| self.literal(times * GELU[0] * GELU[1]));
                let by_x = self.graph.made_of(Node::Fma(square, cube, linear));
                let argument = self.graph.made_of(Node::Mul(x, by_x));
                let logistic = self.apply(Function::Sigmoid, argument);
                let rest = self.graph.made_of(Node::Sub(one, logistic));
                let of_argument = self.graph.made_of(Node::Fma(square, of_cube, linear));
                let of_logistic = self.graph.made_of(Node::Mul(rest, of_argument));
                vec![self.graph.made_of(Node::Fma(y, of_logistic, logistic))]
            }
            Function::GeluErf => return Err(NoDerivative { name: "gelu_erf", instead: "gelu" }),
        }))
    }

    fn literal(&mut self, value: f64) -> Id {
        self.graph.made_of(Node::Literal((value as f32).to_bits()))
    }

    fn apply(&mut self, function: Function, x: Id) -> Id {
        self.graph.made_of(Node::Apply(function, x))
    }

    fn negative(&mut self, a: &Slope) -> Slope {
        let minus_one = self.literal(-1.0);
        self.times(a, &[minus_one])
    }

    /// (x y)' = x' y + y' x
    fn of_product(&mut self, (x, a): (Id, &Slope), (y, b): (Id, &Slope)) -> Slope {
        let [a, b] = [self.times(a, &[y]), self.times(b, &[x])];
        self.sum(&a, &b)
    }

    fn times(&mut self, a: &Slope, factors: &[Id]) -> Slope {
        let Slope::Product(of_a) = a else { return a.clone() };
        let mut product = of_a.clone();
        for factor in factors {
            self.multiply(&mut product, *factor);
        }
        if product.iter().any(|id| self.number(*id) == Some(0.0)) {
            return Slope::Zero;
        }
        product.sort_unstable();
        Slope::Product(product)
    }

    /// Adds a factor: its own factors, where they are computed less often than an element; numbers as one, and none that a
    /// reciprocal among them makes 1.
    fn multiply(&mut self, product: &mut Vec<Id>, factor: Id) {
        if let Some(mut all) = self.number(factor) {
            let others = product.iter().filter_map(|id| self.number(*id));
            others.for_each(|other| all *= other);
            product.retain(|id| self.number(*id).is_none());
            if all != 1.0 {
                product.push(self.literal(f64::from(all)));
            }
            return;
        }
        let node = self.graph.nodes()[factor];
        match node {
            Node::Neg(a) => {
                let minus_one = self.literal(-1.0);
                self.multiply(product, minus_one);
                self.multiply(product, a);
            }
            Node::Mul(a, b) if self.graph.level(factor) != Level::Element => {
                self.multiply(product, a);
                self.multiply(product, b);
            }
            Node::Div(a, b) if self.graph.level(factor) != Level::Element => {
                let by = self.apply(Function::Reciprocal, b);
                self.multiply(product, a);
                self.multiply(product, by);
            }
            _ => {
                let is_inverse = |id: Id| match (node, self.graph.nodes()[id]) {
                    (Node::Apply(Function::Reciprocal, of), _) if of == id => true,
                    (_, Node::Apply(Function::Reciprocal, of)) => of == factor,
                    _ => false,
                };
                match product.iter().position(|id| is_inverse(*id)) {
                    Some(at) => drop(product.remove(at)),
                    None => product.push(factor),
                }
            }
        }
    }

    /// What a value is that depends on nothing: a literal, or the reciprocal that a division by one is.
    fn number(&self, id: Id) -> Option<f32> {
        match self.graph.nodes()[id] {
            Node::Literal(bits) => Some(f32::from_bits(bits)),
            Node::Apply(Function::Reciprocal, of) => self.number(of).map(f32::recip),
            _ => None,
        }
    }

    fn sum(&mut self, a: &Slope, b: &Slope) -> Slope {
        let (x, y) = match (a, b) {
            (Slope::Any, _) | (_, Slope::Any) => return Slope::Any,
            (Slope::Zero, other) | (other, Slope::Zero) => return other.clone(),
            (Slope::Product(x), Slope::Product(y)) => (x.clone(), y.clone()),
        };
        // What both have in common is multiplied by once.
        let (mut common, mut x, mut of_y) = (vec![], x, y);
        x.retain(|id| match of_y.iter().position(|other| other == id) {
            Some(at) => {
                common.push(of_y.remove(at));
                false
            }
            None => true,
        });
        let [x, y] = [x, of_y].map(|factors| self.value(&Slope::Product(factors)));
        let sum = self.graph.made_of(Node::Add(x, y));
        self.times(&Slope::Product(common), &[sum])
    }

    /// The derivative of what a comparison chooses.
    fn choice(&mut self, (cmp, x, y): (Cmp, Id, Id), a: &Slope, b: &Slope) -> Slope {
        match (a, b) {
            (Slope::Any, slope) | (slope, Slope::Any) if self.is_finite(slope) => slope.clone(),
            (a, b) if a == b => a.clone(),
            (a, b) => {
                let [a, b] = [self.value(a), self.value(b)];
                Slope::Product(vec![self.graph.made_of(Node::Select(cmp, x, y, a, b))])
            }
        }
    }

    /// Whether a derivative is a number for any finite values, so that its product with an exponential that is 0 is 0.
    fn is_finite(&self, slope: &Slope) -> bool {
        match slope {
            Slope::Any | Slope::Zero => true,
            Slope::Product(factors) => factors.iter().all(|id| self.is_number(*id)),
        }
    }

    /// Whether a score is a number or minus infinity for any finite values.
    fn is_bounded(&self, id: Id) -> bool {
        match self.graph.nodes()[id] {
            Node::Literal(bits) if f32::from_bits(bits) == f32::NEG_INFINITY => true,
            Node::Select(.., x, y) => self.is_bounded(x) && self.is_bounded(y),
            _ => self.is_number(id),
        }
    }

    fn is_number(&self, id: Id) -> bool {
        let node = self.graph.nodes()[id];
        let is_bounded = match node {
            Node::Literal(bits) => f32::from_bits(bits).is_finite(),
            Node::Div(..) => false,
            Node::Apply(function, of) => match function {
                // A number of the launch by which nothing can be divided is no number in the score either.
                Function::Reciprocal => self.graph.level(of) == Level::Uniform,
                Function::Exp | Function::Log | Function::Sqrt | Function::Rsqrt => false,
                _ => true,
            },
            _ => true,
        };
        is_bounded && node.operands().iter().all(|id| self.is_number(*id))
    }

    /// A derivative as one value. What is computed least often is multiplied first.
    fn value(&mut self, slope: &Slope) -> Id {
        let Slope::Product(factors) = slope else { return self.literal(0.0) };
        let mut factors = factors.clone();
        factors.sort_by_key(|id| (self.graph.level(*id), *id));
        let first = factors.first().copied();
        let product = first.map(|first| {
            factors[1..].iter().fold(first, |product, factor| self.graph.made_of(Node::Mul(product, *factor)))
        });
        product.unwrap_or_else(|| self.literal(1.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::epilogue::program::{Level, Program};
    use crate::epilogue::{Pair, read_score};

    fn score(text: &str) -> Program {
        read_score(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
    }

    /// Scores whose derivative is the scale wherever they are not minus infinity have none of their own.
    #[test]
    fn masks_and_biases_have_the_derivative_of_the_scaled_product() {
        for (text, is_scale) in [
            ("|| s * scale", true),
            ("|| scale * s", true),
            ("|| if i >= j { s * scale } else { -inf }", true),
            ("|before: f32| if i < j { -inf } else if i - j > before { -inf } else { s * scale }", true),
            ("|slope: f32| s * scale - slope * abs(i - j)", true),
            ("|bias: f32| fma(s, scale, bias * exp(j))", true),
            ("|| -inf", true),
            ("|| if s < 0 { s * scale + 1 } else { s * scale }", true),
            ("|| s * scale + floor(s) + sin(i - j)", true),
            ("|| (s * scale) as bf16", true),
            ("|| max(s * scale, -inf)", true),
            ("|cap: f32| cap * (s * scale / cap)", true),
            ("|| s", false),
            ("|| s * scale + sin(s)", false),
            ("|| floor(s * scale)", false),
            ("|| s * scale * 2", false),
            ("|| i - j", false),
            ("|| i - s * scale", false),
            ("|cap: f32| cap * tanh(s * scale / cap)", false),
            ("|| if i >= j { s * scale } else { s }", false),
            ("|| max(s * scale, 0)", false),
        ] {
            assert_eq!(score(text).differentiated().unwrap().is_none(), is_scale, "{text}");
        }
    }

    /// One fused operation, whatever a soft cap is written like, and under a mask too.
    #[test]
    fn the_derivative_of_a_soft_cap_is_one_instruction() {
        for text in [
            "|cap: f32| cap * tanh(s * scale / cap)",
            "|cap: f32| tanh(scale / cap * s) * cap",
            "|| 20 * tanh(s * scale / 20)",
            "|cap: Heads<f32>| if i >= j { cap * tanh(s * scale / cap) } else { -inf }",
            "|cap: f32, bias: Cols<f32>| cap * tanh(s * scale / cap) + bias",
        ] {
            let (plain, sloped) = (score(text), score(text).differentiated().unwrap().unwrap());
            let count = |program: &Program, level| {
                (0..program.nodes().len()).filter(|id| program.is_used(*id) && program.level(*id) == level).count()
            };
            // A minus and the operation that takes it.
            assert_eq!(count(&sloped, Level::Element), count(&plain, Level::Element) + 2, "{text}");
        }
    }

    #[test]
    fn what_the_language_cannot_say_has_no_derivative() {
        let none = score("|| gelu_erf(s * scale)").differentiated().unwrap_err();
        assert_eq!((none.name, none.instead), ("gelu_erf", "gelu"));
        assert!(score("|| s * scale + gelu_erf(i - j)").differentiated().unwrap().is_none());
    }

    /// The expression, derivatives beside values, and differences of the score agree.
    #[test]
    fn derivatives_are_those_of_f64_and_of_differences() {
        for text in [
            "|x: f32, y: f32| x * tanh(s * scale / x) + y",
            "|x: f32, y: f32| s * s * x - scale / (1 + exp(s * y))",
            "|x: f32, y: f32| (s + x) / (s * s + y * y) * (i + 1)",
            "|x: f32, y: f32| log(s * s + x) + sqrt(s * s + y) - rsqrt(1 + exp(s))",
            "|x: f32, y: f32| sin(s * x) * cos(s * y) + abs(s) * floor(s)",
            "|x: f32, y: f32| silu(s * x) + sigmoid(-s) * gelu(s + y)",
            "|x: f32, y: f32| max(s, x) * min(s * y, 1) + relu(s) + clamp(s, -y, x)",
            "|x: f32, y: f32| fma(s, s, x) - fma(x, -s, s * j) / -y",
            "|x: f32, y: f32| if s * x < y { s * s } else { y - tanh(s) }",
            "|x: f32, y: f32| { let t = exp(-s * s / x); t * t / (t + y) + (2 - t) / 3 }",
            "|x: f32, y: f32| 1 / s + y / (s * x) - s / x",
        ] {
            let (plain, sloped) = (score(text), score(text).differentiated().unwrap().unwrap());
            for at in 0..40 {
                let product = -2.9 + 0.147 * f64::from(at);
                let pair =
                    |product| Pair { product, query: 3, key: 2, head: 1, batch: 0, scale: 0.25, inputs: &[1.25, 0.75] };
                let (value, right) = plain.score_and_slope(&pair(product));
                assert_eq!(value, plain.score(&pair(product)), "{text} at {product}");
                let [less, more] = [-1e-6, 1e-6].map(|by| plain.score(&pair(product + by)));
                let [found, difference] =
                    [0.25 * sloped.values(&pair(product))[sloped.slope().unwrap()], (more - less) / 2e-6];
                for (way, slope) in [("expression", found), ("differences", difference)] {
                    let is_near = (slope - right).abs() < 2e-6 * (1.0 + right.abs());
                    assert!(is_near, "{text} at {product}, by its {way}: {slope}, not {right}");
                }
            }
        }
    }
}
