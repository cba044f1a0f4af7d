//! Where the blocks of a problem stand: its pattern, drawn again where its words are known, or one with the same features.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bsr_codegen::Plan;
use bsr_runtime::Structure;
use bsr_runtime::schedule::{BlockIndex, group_similar_rows};

use super::pairs::PairShape;
use super::similar;
use crate::TuningProblem;
use crate::second::{Factors, Second};

/// The pattern of a problem, and what several kernels ask of it.
#[derive(Debug)]
pub(super) struct Shape {
    /// None where no matrix has the sizes of the problem.
    structure: Option<Structure>,
    /// Of two sparse factors what they multiply; none where these are too many pairs to be counted.
    pairs: Option<PairShape>,
    tiles: Mutex<HashMap<Grouping, Arc<Vec<RowGroup>>>>,
    column_lists: Mutex<HashMap<Grouping, Arc<ColumnLists>>>,
    distinct: Mutex<HashMap<(bool, usize), f64>>,
}

/// Which block rows share a tile: so many neighbours, or those that the work list puts together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows {
    Neighbours(u32),
    Likest(u32),
}

/// Where the tiles of a launch meet some block columns, evenly chosen, on their way through K.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnLists {
    /// Where each list's part of `met` ends.
    ends: Vec<u32>,
    /// Which of the chosen block columns, and at which part of the list.
    met: Vec<(u32, f32)>,
    /// How many are chosen, and of how many.
    pub(super) chosen: usize,
    pub(super) of: usize,
}

impl ColumnLists {
    /// What one of them meets.
    pub(super) fn of(&self, column_list: u32) -> &[(u32, f32)] {
        let end = |column_list: usize| self.ends.get(column_list).map_or(0, |end| *end as usize);
        let first = (column_list as usize).checked_sub(1).map_or(0, end);
        &self.met[first..end(column_list as usize).max(first)]
    }

    fn new(column_lists: &[RowGroup], of: usize) -> Self {
        let read: usize = column_lists.iter().map(|column_list| column_list.at.len()).sum();
        let chosen = (MEETINGS * of / read.max(1)).clamp(LEAST, MOST).min(of);
        // The place of a block column among those that are chosen.
        let place = |column: u32| {
            let number = (u64::from(column) * chosen as u64 + chosen as u64 / 2) / of.max(1) as u64;
            let is_chosen = (number * of as u64 + of as u64 / 2) / chosen.max(1) as u64 == u64::from(column);
            (is_chosen && (number as usize) < chosen).then_some(number as u32)
        };
        let mut all = Self { chosen, of, ..Self::default() };
        for column_list in column_lists {
            let length = column_list.at.len() as f32;
            let met = |(at, column): (usize, &u32)| Some((place(*column)?, (at as f32 + 0.5) / length));
            all.met.extend(column_list.at.iter().enumerate().filter_map(met));
            all.ends.push(all.met.len() as u32);
        }
        all
    }
}

/// Block columns that are followed: as many as are met so often in all, but some.
const MEETINGS: usize = 2048;
const LEAST: usize = 8;
const MOST: usize = 64;

/// Which block rows share a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grouping {
    by_columns: bool,
    pack: u32,
    any_order: bool,
}

/// Block rows that share a tile, and the union of their block columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowGroup {
    /// Stored blocks of all of them.
    pub(super) blocks: u32,
    /// Blocks in each column of the union, in the order of the columns.
    pub(super) columns: Vec<u8>,
    /// These columns.
    at: Vec<u32>,
}

/// Patterns that are remembered: a search asks for one after the other, with hundreds of kernels each.
const REMEMBERED: usize = 4;

type Known = Vec<(TuningProblem, Arc<Shape>)>;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

impl Shape {
    /// That of a problem; made once for as long as nothing else is asked for.
    pub(super) fn of(problem: &TuningProblem) -> Arc<Self> {
        let known = |all: &Known| all.iter().find(|(known, _)| known == problem).map(|(_, shape)| Arc::clone(shape));
        if let Some(shape) = known(&KNOWN.lock().unwrap_or_else(PoisonError::into_inner)) {
            return shape;
        }
        let shape = Arc::new(match problem.second() {
            Some(second) => Self::of_pairs(problem, &second),
            None => Self::new(drawn(problem).or_else(|| similar_of(problem))),
        });
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.remove(0);
        }
        all.push((problem.clone(), Arc::clone(&shape)));
        shape
    }

    pub(super) fn new(structure: Option<Structure>) -> Self {
        Self {
            structure,
            pairs: None,
            tiles: Mutex::default(),
            column_lists: Mutex::default(),
            distinct: Mutex::default(),
        }
    }

    /// That of two sparse factors: those that are at hand, or patterns with the same features.
    fn of_pairs(problem: &TuningProblem, second: &Second) -> Self {
        let like = || {
            let (a, spec) = (similar_of(problem)?, problem.workload.spec());
            let sides = (problem.workload.k, problem.workload.n);
            let b = similar::structure(&second.features, sides, (spec.bk as usize, spec.bn as usize))?;
            let c = if spec.op.stores_blocks() { Some(a.product(&b).ok()?) } else { None };
            Some(Arc::new(Factors { a, b, c }))
        };
        let factors = second.factors().cloned().or_else(like);
        let pairs = factors.as_ref().and_then(|factors| factors.pairs()).map(PairShape::new);
        Self { pairs, ..Self::new(factors.map(|factors| factors.a.clone())) }
    }

    /// Of two sparse factors what they multiply.
    pub(super) fn pairs(&self) -> Option<&PairShape> {
        self.pairs.as_ref()
    }

    /// The rows of blocks as a kernel reads them.
    pub(super) fn index(&self, plan: &Plan) -> Option<BlockIndex<'_>> {
        self.structure.as_ref().map(|structure| BlockIndex::new(plan, structure))
    }

    /// The stored matrix.
    pub(super) fn structure(&self) -> Option<&Structure> {
        self.structure.as_ref()
    }

    /// Every `pack` neighbours.
    pub(super) fn neighbours(&self, plan: &Plan, pack: u32) -> Arc<Vec<RowGroup>> {
        self.groups(plan, pack, false)
    }

    /// `pack` rows each, those that the work list puts together.
    pub(super) fn likest(&self, plan: &Plan, pack: u32) -> Arc<Vec<RowGroup>> {
        self.groups(plan, pack, true)
    }

    /// The block columns that tiles of these rows traverse.
    pub(super) fn column_lists(&self, plan: &Plan, rows: Rows) -> Arc<ColumnLists> {
        let (pack, any_order) = match rows {
            Rows::Neighbours(pack) => (pack, false),
            Rows::Likest(pack) => (pack, true),
        };
        let grouping = Grouping { by_columns: plan.reads_block_columns(), pack, any_order };
        let cols = self.index(plan).map_or(0, |index| index.cols.div_ceil(index.block.1.max(1)));
        let mut column_lists = self.column_lists.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(ColumnLists::new(&self.groups(plan, pack, any_order), cols));
        Arc::clone(column_lists.entry(grouping).or_insert_with(make))
    }

    /// Distinct block columns among so many neighbouring block rows, on average.
    pub(super) fn distinct(&self, plan: &Plan, rows: usize) -> f64 {
        let all = self.index(plan).map_or(0, |index| index.row_ptr.len().saturating_sub(1));
        let key = (plan.reads_block_columns(), rows.min(all));
        let mut distinct = self.distinct.lock().unwrap_or_else(PoisonError::into_inner);
        *distinct.entry(key).or_insert_with(|| self.index(plan).map_or(0.0, |index| columns_of(&index, key.1)))
    }

    fn groups(&self, plan: &Plan, pack: u32, any_order: bool) -> Arc<Vec<RowGroup>> {
        let grouping = Grouping { by_columns: plan.reads_block_columns(), pack, any_order };
        let mut tiles = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(self.index(plan).map(|index| grouped(&index, grouping)).unwrap_or_default());
        Arc::clone(tiles.entry(grouping).or_insert_with(make))
    }
}

/// The pattern of a workload that says how to draw it.
fn drawn(problem: &TuningProblem) -> Option<Structure> {
    let structure = problem.workload.pattern()?.ok()?;
    let features = &problem.features;
    // Whoever made up features, or took a part of a pattern, is believed.
    let is_it = structure.nnzb() == features.nnzb && structure.block_rows() == features.block_rows;
    is_it.then_some(structure)
}

/// One with the features of a problem's sparse operand.
fn similar_of(problem: &TuningProblem) -> Option<Structure> {
    similar::structure(&problem.features, problem.workload.stored_shape(), problem.workload.facts.block())
}

/// Windows of rows that are looked at.
const WINDOWS: usize = 4;

fn columns_of(index: &BlockIndex<'_>, rows: usize) -> f64 {
    let all = index.row_ptr.len().saturating_sub(1);
    let windows = if rows >= all { 1 } else { WINDOWS };
    let mut seen = vec![0_usize; index.cols.div_ceil(index.block.1.max(1))];
    let mut distinct = 0;
    for window in 1..=windows {
        let first = (all - rows) * (window - 1) / (windows - 1).max(1);
        for column in &index.col_idx[index.row_ptr[first] as usize..index.row_ptr[first + rows] as usize] {
            let seen = &mut seen[*column as usize];
            distinct += usize::from(*seen != window);
            *seen = window;
        }
    }
    distinct as f64 / windows as f64
}

fn grouped(index: &BlockIndex<'_>, grouping: Grouping) -> Vec<RowGroup> {
    let pack = grouping.pack.max(1) as usize;
    if grouping.any_order {
        return group_similar_rows(index, pack).iter().map(|rows| group(index, rows)).collect();
    }
    let rows: Vec<usize> = (0..index.row_ptr.len().saturating_sub(1)).collect();
    rows.chunks(pack).map(|rows| group(index, rows)).collect()
}

fn group(index: &BlockIndex<'_>, rows: &[usize]) -> RowGroup {
    let mut stored: Vec<i32> = rows
        .iter()
        .flat_map(|row| &index.col_idx[index.row_ptr[*row] as usize..index.row_ptr[row + 1] as usize])
        .copied()
        .collect();
    stored.sort_unstable();
    let columns = stored.chunk_by(|x, y| x == y).map(|same| (same.len().min(255) as u8, same[0] as u32));
    let (columns, at) = columns.unzip();
    RowGroup { blocks: stored.len() as u32, columns, at }
}
