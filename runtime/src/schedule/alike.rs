//! Which block rows go together: those whose block columns have the smallest unions.

use std::cmp::Reverse;

use super::BlockIndex;

/// Rows among which each looks for others.
const NEIGHBOURHOOD: usize = 256;
/// Most rounds of exchanges.
const ROUNDS: usize = 16;
/// Words of column sets that are read for one pattern, some 0.1 s: of patterns beyond it, rows go together as they stand.
const BUDGET: usize = 1 << 28;

/// Groups of `pack` block rows, a last one perhaps of fewer, in the order of their first rows. They are alike among
/// neighbours or among rows of about a length, whichever makes the shorter unions in all: windows and bands have neighbours
/// that are alike, the long rows of a power law are alike wherever they stand.
pub fn together(index: &BlockIndex<'_>, pack: usize) -> Vec<Vec<usize>> {
    let rows = index.row_ptr.len().saturating_sub(1);
    let neighbours: Vec<usize> = (0..rows).collect();
    let mut by_length = neighbours.clone();
    by_length.sort_by_key(|row| Reverse(index.row_ptr[row + 1] - index.row_ptr[*row]));
    let [(near, words), (alike, words_by_length)] =
        [neighbours, by_length].map(|order| groups(index, &order, pack.max(1)));
    if words_by_length < words { alike } else { near }
}

/// Rows of `order` that stand near one another look for each other; with the words of all unions.
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
                let shared =
                    |number: usize| self.length(&[number]) + self.length(&group) - self.length_with(&group, number);
                // Of equal ones the first: neighbours stay together.
                let best = (0..free.len()).rev().max_by_key(|at| shared(free[*at])).unwrap_or(0);
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

    fn length_with(&self, group: &[usize], number: usize) -> u32 {
        let word =
            |at: usize| group.iter().chain([&number]).fold(0, |word, row| word | self.bits[row * self.words + at]);
        (0..self.words).map(|at| word(at).count_ones()).sum()
    }
}
