//! The product seen from the stored result: blocks of out\[rows, columns\] = left\[rows, k\] * right\[k, columns\].
//!
//! As written, `left` is A and `right` is B. Under `transpose = on` the stored matrix is C^T = B^T A^T: the factors
//! change places, and each is read the other way round. So one kernel serves both.

use crate::plan::{Major, Operand};
use crate::{Dtype, KernelSpec, Layout};

/// One factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) operand: Operand,
    pub(crate) name: &'static str,
    pub(crate) dtype: Dtype,
    pub(crate) major: Major,
}

/// Both factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sides {
    /// Its rows are the rows of the stored blocks.
    pub(crate) left: Side,
    /// Its columns are theirs.
    pub(crate) right: Side,
}

impl Sides {
    pub(crate) fn new(spec: &KernelSpec) -> Self {
        let a = Side {
            operand: Operand::A,
            name: "A",
            dtype: spec.a,
            major: if spec.a_layout == Layout::RowMajor { Major::K } else { Major::Mn },
        };
        let b = Side {
            operand: Operand::B,
            name: "B",
            dtype: spec.b,
            major: if spec.b_layout == Layout::RowMajor { Major::Mn } else { Major::K },
        };
        if spec.transpose.is_on() { Self { left: b, right: a } } else { Self { left: a, right: b } }
    }
}

#[cfg(test)]
mod tests {
    use super::Sides;
    use crate::plan::{Major, Operand};
    use crate::{KernelSpec, Layout, Switch};

    #[test]
    fn a_transposed_result_exchanges_the_factors() {
        let spec = KernelSpec { a_layout: Layout::ColMajor, ..KernelSpec::new(64, 128, 32) };
        let Sides { left, right } = Sides::new(&spec);
        assert_eq!((left.operand, left.major), (Operand::A, Major::Mn));
        assert_eq!((right.operand, right.major), (Operand::B, Major::Mn));
        let Sides { left, right } = Sides::new(&KernelSpec { transpose: Switch::On, ..spec });
        assert_eq!((left.operand, left.major), (Operand::B, Major::Mn));
        assert_eq!((right.operand, right.major), (Operand::A, Major::Mn));
    }
}
