//! Which rows of a product, or stored blocks of an SDDMM, are compared with the reference.

use std::fmt;
use std::str::FromStr;

use bsr_codegen::{KernelSpec, Op};
use bsr_runtime::Structure;
use bsr_runtime::schedule::BlockIndex;

/// How many rows are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowChoice {
    /// All of them.
    All,
    /// All of a small result, and of a large one as many as the reference computes in a second or so.
    #[default]
    Auto,
    /// So many.
    Number(usize),
}

impl RowChoice {
    /// At most so many: `auto` where the number is left open.
    pub(crate) fn most(self, auto: usize) -> usize {
        match self {
            Self::All => usize::MAX,
            Self::Auto => auto,
            Self::Number(rows) => rows,
        }
    }
}

impl FromStr for RowChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "auto" => Ok(Self::Auto),
            _ => match text.parse() {
                Ok(rows) if rows > 0 => Ok(Self::Number(rows)),
                _ => Err("write all, auto or a number of rows above 0".to_owned()),
            },
        }
    }
}

/// Rows of a product to compare, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Their numbers.
    pub list: Vec<usize>,
    /// Rows of the product.
    pub of: usize,
    /// What they are: rows, or stored blocks of an SDDMM.
    pub unit: &'static str,
}

impl Rows {
    /// Multiplications that the reference does in a second or so.
    const EFFORT: u64 = 1 << 33;
    /// Rows that are compared in any case.
    const LEAST: usize = 64;

    /// Chooses of the `m` rows of a product, which has `along` columns along its dense factor (rows where B is sparse).
    pub fn choose(spec: &KernelSpec, sparse: &Structure, (m, along): (usize, usize), choice: RowChoice) -> Self {
        // Rows of C that belong together: of a block, or of a tile of the dense factor.
        let group = match (spec.op, reads_columns(spec)) {
            (Op::Dds, _) => spec.bn as usize,
            (_, true) => sparse.block().1,
            (_, false) => sparse.block().0,
        };
        Self::of(m, group, (sparse.stored() as u64).saturating_mul(along as u64), choice)
    }

    /// Chooses stored stored blocks of an SDDMM over `k` elements of K: as many as make about as many rows as would be
    /// compared of a product. Where the epilogue of `spec` collects along rows they are the blocks of whole block rows.
    pub fn of_blocks(spec: &KernelSpec, stored: &Structure, k: usize, choice: RowChoice) -> Self {
        let choice = match choice {
            RowChoice::Number(rows) => RowChoice::Number(rows.div_ceil(stored.block().0)),
            other => other,
        };
        let effort = (stored.stored() as u64).saturating_mul(k as u64);
        let collects = spec.epilogue.is_some_and(|epilogue| epilogue.program().reduction().is_some());
        let list = match collects {
            true => {
                let rows = stored.block_rows();
                let choice = match choice {
                    RowChoice::Number(blocks) => {
                        RowChoice::Number((blocks * rows).div_ceil(stored.nnzb().max(1)).max(1))
                    }
                    RowChoice::Auto if rows <= Self::LEAST => RowChoice::All,
                    other => other,
                };
                let chosen = Self::of(rows, 1, effort, choice).list;
                chosen.into_iter().flat_map(|row| stored.blocks_of(row)).collect()
            }
            false => Self::of(stored.nnzb(), 1, effort, choice).list,
        };
        Self { list, of: stored.nnzb(), unit: "stored blocks" }
    }

    /// Chooses of `of` rows in groups, whose product takes `effort` multiplications.
    fn of(of: usize, group: usize, effort: u64, choice: RowChoice) -> Self {
        let count = match choice {
            RowChoice::All => of,
            RowChoice::Number(rows) => rows.min(of),
            RowChoice::Auto => {
                let affordable = u128::from(Self::EFFORT) * of as u128 / u128::from(effort.max(1));
                usize::try_from(affordable).unwrap_or(of).max(Self::LEAST).min(of)
            }
        };
        if count == of { Self::all(of) } else { Self { list: spread(of, group, count), of, unit: "rows" } }
    }

    /// All rows of a product of so many.
    pub fn all(of: usize) -> Self {
        Self { list: (0..of).collect(), of, unit: "rows" }
    }

    /// Evenly spread rows of `of`, at most so many.
    pub fn spread(of: usize, most: usize) -> Self {
        let count = most.min(of);
        let list = (0..count).map(|number| number * (of - 1) / (count - 1).max(1)).collect();
        Self { list, of, unit: "rows" }
    }

    fn are_all(&self) -> bool {
        self.list.len() == self.of
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_all() {
            write!(f, "all {} {}", self.of, self.unit)
        } else {
            write!(f, "{} of {} {}", self.list.len(), self.of, self.unit)
        }
    }
}

/// The most products that an element of C sums.
pub fn longest_sum(spec: &KernelSpec, sparse: &Structure) -> usize {
    let index = if reads_columns(spec) { BlockIndex::by_columns(sparse) } else { BlockIndex::from(sparse) };
    index.longest_sum()
}

/// Whether the rows of C (its columns where B is sparse) are block columns of the sparse factor as it is stored.
fn reads_columns(spec: &KernelSpec) -> bool {
    spec.transpose.is_on() != (spec.op == Op::Dds)
}

/// `count` of `of` rows, fewer than there are: the first and last of groups, as many as fit, and others evenly between.
fn spread(of: usize, group: usize, count: usize) -> Vec<usize> {
    let edges: Vec<usize> =
        (0..of.div_ceil(group)).flat_map(|row| [row * group, ((row + 1) * group).min(of) - 1]).collect();
    let mut rows: std::collections::BTreeSet<usize> = if edges.len() <= count {
        edges.into_iter().collect()
    } else {
        (0..count).map(|at| edges[at * (edges.len() - 1) / count.saturating_sub(1).max(1)]).collect()
    };
    // Multiples of the golden ratio fill an interval evenly, however many there are of them.
    let mut fraction = 0_u64;
    while rows.len() < count {
        fraction = fraction.wrapping_add(0x9E37_79B9_7F4A_7C15);
        rows.insert(((u128::from(fraction) * of as u128) >> 64) as usize);
    }
    rows.into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_runtime::Pattern;

    use super::*;

    fn choose(a: &Structure, n: usize, choice: RowChoice) -> Rows {
        Rows::of(a.rows(), a.block().0, (a.stored() * n) as u64, choice)
    }

    fn structure(rows: usize, block: usize, pattern: Pattern) -> Structure {
        pattern.structure(rows, 8192, (block, 64), 0).unwrap()
    }

    #[test]
    fn a_small_product_is_compared_whole_and_a_large_one_in_part() {
        let small = choose(&structure(1000, 128, Pattern::TopK(2)), 512, RowChoice::Auto);
        assert_eq!((small.list.len(), small.to_string().as_str()), (1000, "all 1000 rows"));
        let large = choose(&structure(8000, 128, Pattern::Random(0.5)), 8192, RowChoice::Auto);
        assert!(large.list.len() >= 64 && large.list.len() < 8000, "{large}");
        assert!(large.list.is_sorted_by(|a, b| a < b));
        for edge in [0, 127, 128, 7935, 7936, 7999] {
            assert!(large.list.contains(&edge), "{edge}");
        }
        assert_eq!(choose(&structure(8000, 128, Pattern::Random(0.5)), 8192, RowChoice::All).list.len(), 8000);
        let empty = choose(&structure(200, 64, Pattern::Random(0.0)), 8192, RowChoice::Auto);
        assert_eq!(empty.list.len(), 200);
    }

    #[test]
    fn fewer_rows_than_edges_still_hold_the_first_and_the_last() {
        let a = structure(8000, 16, Pattern::TopK(1));
        for count in [2, 3, 64, 999] {
            let rows = choose(&a, 64, RowChoice::Number(count)).list;
            assert_eq!((rows.len(), rows[0], rows[count - 1]), (count, 0, 7999));
        }
        assert_eq!(choose(&a, 64, RowChoice::Number(1)).list, [0]);
        // One row short of all: the filling ends.
        assert_eq!(choose(&a, 64, RowChoice::Number(7999)).list.len(), 7999);
    }

    #[test]
    fn the_longest_sum_is_that_of_the_fullest_row() {
        let a = Structure::new(30, 100, (16, 32), vec![0, 1, 3], vec![0, 1, 3]).unwrap();
        assert_eq!(longest_sum(&KernelSpec::new(16, 16, 32), &a), 64);
        let turned = KernelSpec::new(16, 16, 32).op(Op::Dds);
        assert_eq!(longest_sum(&turned, &a), 16);
        let full = Pattern::Random(1.0).structure(30, 100, (16, 32), 0).unwrap();
        assert_eq!(
            (
                longest_sum(&KernelSpec::new(16, 16, 32), &full),
                longest_sum(&KernelSpec::new(64, 16, 64), &structure(200, 64, Pattern::Random(0.0)))
            ),
            (100, 0)
        );
    }

    #[test]
    fn rows_are_read_strictly() {
        assert_eq!("12".parse(), Ok(RowChoice::Number(12)));
        assert!("0".parse::<RowChoice>().is_err() && "some".parse::<RowChoice>().is_err());
    }
}
