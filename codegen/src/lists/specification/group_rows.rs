//! The kernel that groups block rows.

use std::collections::BTreeSet;

use super::super::SharedLists;

/// The groups of `pack` block rows each, where row `i` has the columns `columns[i]`. Rows beyond the last one are left out.
pub fn group_rows(lists: &SharedLists, pack: usize, columns: &[BTreeSet<u32>]) -> Vec<Vec<usize>> {
    let near = lists.near_rows() as usize;
    let mut all = vec![];
    for first in (0..columns.len().max(1)).step_by(near) {
        let mut groups: Vec<Vec<usize>> =
            (0..near / pack).map(|group| (0..pack).map(|member| group * pack + member).collect()).collect();
        let overlap = |one: usize, other: usize| match (columns.get(first + one), columns.get(first + other)) {
            (Some(one), Some(other)) => one.intersection(other).count() as i64,
            _ => 0,
        };
        let overlaps: Vec<Vec<i64>> =
            (0..near).map(|one| (0..near).map(|other| overlap(one, other)).collect()).collect();
        tournament(&mut groups, &overlaps);
        let rows = groups.into_iter().map(|group| group.into_iter().map(|row| first + row));
        all.extend(rows.map(|rows| rows.filter(|row| *row < columns.len()).collect::<Vec<_>>()));
    }
    all.truncate(lists.groups() as usize);
    all
}

/// Each group meets every other one once.
fn tournament(groups: &mut [Vec<usize>], overlaps: &[Vec<i64>]) {
    let half = groups.len() / 2;
    let mut circle: Vec<usize> = (0..groups.len()).collect();
    for _ in 1..groups.len() {
        for lane in 0..half {
            let (here, there) = (circle[lane], circle[circle.len() - 1 - lane]);
            let (mut one, mut other) = (groups[here].clone(), groups[there].clone());
            meet(&mut one, &mut other, overlaps);
            (groups[here], groups[there]) = (one, other);
        }
        circle[1..].rotate_right(1);
    }
}

/// Exchanges the two rows whose exchange gains most columns in common; of those that gain as many, the first.
fn meet(here: &mut [usize], there: &mut [usize], overlaps: &[Vec<i64>]) {
    let common = |group: &[usize]| -> i64 {
        group
            .iter()
            .flat_map(|one| group.iter().map(move |other| if one < other { overlaps[*one][*other] } else { 0 }))
            .sum()
    };
    let before = common(here) + common(there);
    let mut best = (0, 0, 0);
    for i in 0..here.len() {
        for j in 0..there.len() {
            std::mem::swap(&mut here[i], &mut there[j]);
            let gain = common(here) + common(there) - before;
            std::mem::swap(&mut here[i], &mut there[j]);
            if gain > best.0 {
                best = (gain, i, j);
            }
        }
    }
    let (gain, i, j) = best;
    if gain > 0 {
        std::mem::swap(&mut here[i], &mut there[j]);
    }
}
