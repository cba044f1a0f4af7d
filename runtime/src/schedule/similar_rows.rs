//! Groups of similar block rows: those whose block columns have the smallest unions.

use std::cmp::Reverse;

use super::BlockIndex;

/// Rows among which each looks for others: whole groups of two and of three.
const NEIGHBOURHOOD: usize = 252;
/// Most rounds of exchanges.
const ROUNDS: usize = 16;
/// Words of column sets that are read for one pattern and order: rows beyond them are grouped in their order.
const BUDGET: usize = 1 << 26;

/// Groups of `pack` block rows, the last one perhaps of fewer, in the order of their first rows. Similar rows are looked for
/// among neighbours and among rows of about the same length, and the grouping with the shorter unions in all is taken:
/// neighbours are similar in windows and bands, the long rows of a power law are similar wherever they are.
pub fn group_similar_rows(index: &BlockIndex<'_>, pack: usize) -> Vec<Vec<usize>> {
    let rows = index.row_ptr.len().saturating_sub(1);
    let neighbours: Vec<usize> = (0..rows).collect();
    let mut by_length = neighbours.clone();
    by_length.sort_by_key(|row| Reverse(index.row_ptr[row + 1] - index.row_ptr[*row]));
    let [(near, words), (of_a_length, words_by_length)] =
        [neighbours, by_length].map(|order| groups(index, &order, pack.max(1)));
    if words_by_length < words { of_a_length } else { near }
}

/// Groups among rows that are near one another in `order`, and the words of all unions.
///
/// Rows are first put together one by one, each with those that add least to the union. Then two groups exchange a row as
/// long as that makes their unions shorter in all.
fn groups(index: &BlockIndex<'_>, order: &[usize], pack: usize) -> (Vec<Vec<usize>>, u32) {
    let mut left = BUDGET;
    let (mut groups, mut words) = (vec![], 0);
    for rows in order.chunks(NEIGHBOURHOOD) {
        let neighbourhood = Neighbourhood::new(index, rows);
        let grouped = neighbourhood.grouped(pack, &mut left);
        words += grouped.iter().map(|group| neighbourhood.length(group)).sum::<u32>();
        groups.extend(grouped.iter().map(|group| group.iter().map(|number| rows[*number]).collect::<Vec<_>>()));
    }
    (groups, words)
}

/// Some rows, and the block columns of each as a set of bits.
struct Neighbourhood<'r> {
    rows: &'r [usize],
    words: usize,
    bits: Vec<u64>,
}

impl<'r> Neighbourhood<'r> {
    fn new(index: &BlockIndex<'_>, rows: &'r [usize]) -> Self {
        let stored = |row: usize| &index.col_idx[index.row_ptr[row] as usize..index.row_ptr[row + 1] as usize];
        let columns = rows.iter().flat_map(|row| stored(*row)).max().map_or(0, |last| *last as usize + 1);
        let words = columns.div_ceil(64);
        let mut bits = vec![0; words * rows.len()];
        for (number, row) in rows.iter().enumerate() {
            for column in stored(*row) {
                bits[number * words + *column as usize / 64] |= 1 << (*column % 64);
            }
        }
        Self { rows, words, bits }
    }

    /// Groups of numbers of rows, within the budget.
    fn grouped(&self, pack: usize, left: &mut usize) -> Vec<Vec<usize>> {
        let rows = self.rows.len();
        let mut afford = |words: usize| left.checked_sub(words).map(|rest| *left = rest).is_some();
        if !afford(3 * rows * rows * self.words) {
            return (0..rows).collect::<Vec<_>>().chunks(pack).map(<[usize]>::to_vec).collect();
        }
        let mut groups = self.one_by_one(pack);
        for _ in 0..ROUNDS {
            if !afford(rows * rows * pack * self.words) || !self.exchange(&mut groups) {
                break;
            }
        }
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort_unstable();
        groups
    }

    /// Each row, in order, with those that have most columns in common with it, and with it those that come next.
    fn one_by_one(&self, pack: usize) -> Vec<Vec<usize>> {
        let mut free: Vec<usize> = (0..self.rows.len()).collect();
        let mut groups = vec![];
        while !free.is_empty() {
            let mut group = vec![free.remove(0)];
            while group.len() < pack && !free.is_empty() {
                let own = |number: usize| {
                    i64::from(self.length(&[&group[..], &[number]].concat())) - i64::from(self.length(&[number]))
                };
                // Of equal ones the first: neighbours stay together.
                let best = (0..free.len()).min_by_key(|at| own(free[*at])).unwrap_or(0);
                group.push(free.remove(best));
            }
            groups.push(group);
        }
        groups
    }

    /// One round of exchanges between all pairs of groups; false if none helped.
    fn exchange(&self, groups: &mut [Vec<usize>]) -> bool {
        let mut helped = false;
        for second in 1..groups.len() {
            let (before, rest) = groups.split_at_mut(second);
            let there = &mut rest[0];
            for here in before {
                helped |= self.exchange_between(here, there);
            }
        }
        helped
    }

    fn exchange_between(&self, here: &mut [usize], there: &mut [usize]) -> bool {
        let mut least = self.length(here) + self.length(there);
        let mut helped = false;
        for i in 0..here.len() {
            for j in 0..there.len() {
                std::mem::swap(&mut here[i], &mut there[j]);
                let length = self.length(here) + self.length(there);
                if length < least {
                    (least, helped) = (length, true);
                } else {
                    std::mem::swap(&mut here[i], &mut there[j]);
                }
            }
        }
        helped
    }

    /// Columns of a union.
    fn length(&self, group: &[usize]) -> u32 {
        let word = |at: usize| group.iter().fold(0, |word, number| word | self.bits[number * self.words + at]);
        (0..self.words).map(|at| word(at).count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `stored` of `columns` columns each, at random.
    fn drawn(rows: usize, columns: usize, stored: usize) -> (Vec<i64>, Vec<i32>) {
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut col_idx = vec![];
        for _ in 0..rows {
            let mut all: Vec<i32> = (0..columns as i32).collect();
            let mut row: Vec<i32> = (0..stored).map(|_| all.swap_remove(draw(all.len()))).collect();
            row.sort_unstable();
            col_idx.extend(row);
        }
        ((0..=rows).map(|row| (row * stored) as i64).collect(), col_idx)
    }

    fn index<'a>(row_ptr: &'a [i64], col_idx: &'a [i32], columns: usize) -> BlockIndex<'a> {
        let rows = 64 * (row_ptr.len() - 1);
        BlockIndex { rows, cols: 64 * columns, block: (64, 64), row_ptr, col_idx, block_idx: None }
    }

    /// Columns of a union, on average.
    fn mean(index: &BlockIndex<'_>, groups: &[Vec<usize>]) -> f64 {
        let all: Vec<usize> = (0..index.row_ptr.len() - 1).collect();
        let rows = Neighbourhood::new(index, &all);
        groups.iter().map(|group| f64::from(rows.length(group))).sum::<f64>() / groups.len() as f64
    }

    fn each_once(groups: &[Vec<usize>], rows: usize, pack: usize) {
        let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
        all.sort_unstable();
        assert_eq!(all, (0..rows).collect::<Vec<_>>());
        assert!(groups.iter().all(|group| group.len() <= pack) && groups.len() == rows.div_ceil(pack), "{groups:?}");
    }

    #[test]
    fn random_rows_find_those_with_most_columns_in_common() {
        // Two rows of 16 of 64 columns have 28 in their union if they are taken as they stand.
        let (row_ptr, col_idx) = drawn(64, 64, 16);
        let index = index(&row_ptr, &col_idx, 64);
        let as_they_stand: Vec<Vec<usize>> = (0..64).collect::<Vec<_>>().chunks(2).map(<[usize]>::to_vec).collect();
        let alike = group_similar_rows(&index, 2);
        each_once(&alike, 64, 2);
        let (before, now) = (mean(&index, &as_they_stand), mean(&index, &alike));
        assert!((27.0..29.0).contains(&before) && now < 26.0, "{before} {now}");
    }

    #[test]
    fn every_row_is_in_one_group() {
        for (rows, pack) in [(0, 2), (1, 3), (5, 2), (7, 3), (300, 3), (513, 2)] {
            let (row_ptr, col_idx) = drawn(rows, 40, 7);
            each_once(&group_similar_rows(&index(&row_ptr, &col_idx, 40), pack), rows, pack);
        }
    }

    #[test]
    fn similar_neighbours_stay_in_one_group() {
        // Bands: row i stores columns i / 2 and the next three.
        let row_ptr: Vec<i64> = (0..=32).map(|row| 4 * row).collect();
        let col_idx: Vec<i32> = (0..32).flat_map(|row| row / 2..row / 2 + 4).collect();
        let groups = group_similar_rows(&index(&row_ptr, &col_idx, 20), 2);
        assert_eq!(groups, (0..16).map(|pair| vec![2 * pair, 2 * pair + 1]).collect::<Vec<_>>());
    }

    #[test]
    fn rows_beyond_the_budget_are_grouped_in_their_order() {
        let (row_ptr, col_idx) = drawn(300, 200_000, 3);
        let groups = group_similar_rows(&index(&row_ptr, &col_idx, 200_000), 2);
        each_once(&groups, 300, 2);
        assert!(groups.contains(&vec![0, 1]), "{:?}", groups[0]);
    }
}
