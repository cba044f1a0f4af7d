//! How a score depends on the product of its query and key.

use super::functions::Function;
use super::program::{Given, Id, Node, Program};

/// The derivative of a value by the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slope {
    /// The value is minus infinity: its exponential is 0, and no derivative matters.
    Any,
    Zero,
    One,
    Scale,
}

impl Program {
    /// Whether the derivative of the score by the product is `scale` wherever the score is not minus infinity: a mask, or terms
    /// that are added to `s * scale`.
    pub(crate) fn adds_to_scaled_product(&self) -> bool {
        let mut slopes: Vec<Option<Slope>> = Vec::with_capacity(self.nodes().len());
        for node in self.nodes() {
            slopes.push(self.slope(*node, &slopes));
        }
        matches!(slopes[self.result()], Some(Slope::Scale | Slope::Any))
    }

    /// That of a value made of values whose derivatives are known; none where it is another one.
    fn slope(&self, node: Node, slopes: &[Option<Slope>]) -> Option<Slope> {
        let of = |id: Id| slopes[id];
        match node {
            Node::Acc => Some(Slope::One),
            Node::Literal(bits) if f32::from_bits(bits) == f32::NEG_INFINITY => Some(Slope::Any),
            Node::Input(_) | Node::Given(_) | Node::Literal(_) => Some(Slope::Zero),
            Node::Add(a, b) => sum(of(a)?, of(b)?),
            Node::Sub(a, b) if of(b)? == Slope::Zero => of(a),
            Node::Mul(a, b) => self.product((a, of(a)?), (b, of(b)?)),
            Node::Fma(a, b, c) => sum(self.product((a, of(a)?), (b, of(b)?))?, of(c)?),
            // It has steps, and no slope between them.
            Node::Apply(Function::Floor, _) => Some(Slope::Zero),
            // What is compared only chooses.
            Node::Select(_, _, _, x, y) => match (of(x)?, of(y)?) {
                (Slope::Any, slope) | (slope, Slope::Any) => Some(slope),
                (x, y) => (x == y).then_some(x),
            },
            // Whatever else it is, it does not depend on the product if nothing in it does.
            _ => node.operands().iter().all(|id| of(*id) == Some(Slope::Zero)).then_some(Slope::Zero),
        }
    }

    fn product(&self, (a, of_a): (Id, Slope), (b, of_b): (Id, Slope)) -> Option<Slope> {
        let is_scale = |id: Id| self.nodes()[id] == Node::Given(Given::Scale);
        match (of_a, of_b) {
            (Slope::Zero, Slope::Zero) => Some(Slope::Zero),
            (Slope::One, Slope::Zero) if is_scale(b) => Some(Slope::Scale),
            (Slope::Zero, Slope::One) if is_scale(a) => Some(Slope::Scale),
            _ => None,
        }
    }
}

fn sum(a: Slope, b: Slope) -> Option<Slope> {
    match (a, b) {
        (Slope::Any, _) | (_, Slope::Any) => Some(Slope::Any),
        (Slope::Zero, slope) | (slope, Slope::Zero) => Some(slope),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::epilogue::read_score;

    #[test]
    fn masks_and_biases_have_the_derivative_of_the_scaled_product() {
        for (score, adds) in [
            ("|| s * scale", true),
            ("|| scale * s", true),
            ("|| if i >= j { s * scale } else { -inf }", true),
            ("|before: f32| if i < j { -inf } else if i - j > before { -inf } else { s * scale }", true),
            ("|slope: f32| s * scale - slope * abs(i - j)", true),
            ("|bias: f32| fma(s, scale, bias * exp(j))", true),
            ("|| -inf", true),
            ("|| if s < 0 { s * scale + 1 } else { s * scale }", true),
            ("|| s * scale + floor(s) + sin(i - j)", true),
            ("|| s", false),
            ("|| s * scale + sin(s)", false),
            ("|| floor(s * scale)", false),
            ("|| s * scale * 2", false),
            ("|| i - j", false),
            ("|| i - s * scale", false),
            ("|cap: f32| cap * tanh(s * scale / cap)", false),
            ("|| if i >= j { s * scale } else { s }", false),
            ("|| max(s * scale, 0)", false),
            ("|| (s * scale) as bf16", false),
        ] {
            assert_eq!(read_score(score).unwrap().adds_to_scaled_product(), adds, "{score}");
        }
    }
}
