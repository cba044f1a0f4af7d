//! What the kernels make of a page table, on the simulator.

use bsr_codegen::AttentionTiles;
use bsr_codegen::lists::specification::by_length;
use bsr_codegen::lists::{ListKernel, WrongPages};
use bsr_simulator::{BufferId, Finding, GlobalMemory};

use super::super::{AttentionError, AttentionWork, Shape};
use super::{PageShape, lists};
use crate::error::SimulatedError;
use crate::gpu::CheckedIndex;
use crate::lists::{Listing, Table};
use crate::machine;
use crate::simulated::lists::{ListKernels, Stream};

/// What the kernels check and list.
#[derive(Clone, Debug)]
pub struct ListedPages {
    /// The work.
    pub work: AttentionWork,
    /// Keys of each problem that is right, 0 of the others.
    pub lengths: Vec<u32>,
    /// The first wrong problem, and what is wrong with it.
    pub wrong: Option<(u32, WrongPages, i32)>,
    /// What the simulator has found. After a finding the work means nothing.
    pub findings: Vec<Finding>,
}

impl ListedPages {
    /// Checks a page table and lists the work of an attention of `shape` for at most `ctas` CTAs, twice in the same memory: the
    /// second time is what a launch after a change finds. Table and lengths may be wrong.
    ///
    /// # Errors
    /// More than the kernels count; kernels with other parameters.
    pub fn new(
        kernels: &ListKernels,
        tiles: &AttentionTiles,
        shape: &Shape,
        (pages, table, given): (&PageShape, &[i32], &[i32]),
        ctas: u32,
    ) -> Result<Self, AttentionError> {
        let lists = lists(tiles, shape, pages, ctas)?;
        let mut global = GlobalMemory::new();
        let mut upload = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            machine::upload(&mut global, bytes)
        };
        let [table, given] =
            [table, given].map(|list| list.iter().map(|word| word.cast_unsigned()).collect::<Vec<_>>());
        let [table, given, error] = [&table[..], &given, &[u32::MAX; 2]].map(&mut upload);
        let [checked, values] = [vec![0; shape.batch], vec![0; shape.batch]].map(|words| upload(&words));
        let listing = Listing::new(Table::by_length(&lists), |words| Ok::<_, SimulatedError>(upload(&vec![0; words])))?;
        let index = CheckedIndex { rows: checked, columns: checked, blocks: checked };
        let mut stream = Stream::new(kernels, &mut global);
        let check = ListKernel::CheckPages;
        for _ in 0..2 {
            let grid = (check.grid(shape.batch as u32, 1), 0);
            let launched = stream.launch(check, grid, &[table, given, checked, error, values], &lists.check_numbers());
            launched.map_err(SimulatedError::from)?;
            listing.run(&[index], None, |kernel, grid, pointers, numbers| {
                stream.launch(kernel, grid, pointers, numbers).map_err(SimulatedError::from)
            })?;
        }
        let findings = stream.findings();
        let words = |id: BufferId| -> Vec<u32> {
            global.bytes(id).as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let ([ctas, _], made) = listing.lists(&[index]);
        let [mut heads, mut tile_words] = [made.heads, made.tiles].map(|list| list.map_or(vec![], words));
        heads.truncate(ctas as usize + 1);
        let count = heads.last().copied().unwrap_or(0) as usize;
        tile_words.truncate(count * tiles.tile_words as usize);
        let work = AttentionWork { heads, tiles: tile_words, steps: vec![], places: places(tiles, ctas) };
        let wrong = |record: &[u32]| {
            let kind = WrongPages::from_number(record[0])?;
            Some((record[1], kind, words(values)[record[1] as usize].cast_signed()))
        };
        Ok(Self { work, lengths: words(checked), wrong: wrong(&words(error)), findings })
    }
}

/// What the kernels list of problems of so many keys otherwise than their specification.
///
/// # Errors
/// As [`ListedPages::new`].
pub fn fault_of_lengths(
    kernels: &ListKernels,
    tiles: &AttentionTiles,
    shape: &Shape,
    lengths: &[usize],
    ctas: u32,
) -> Result<Option<String>, AttentionError> {
    let page = tiles.page.unwrap_or(1) as usize;
    let width = shape.keys.div_ceil(page);
    let pages = PageShape { batch: shape.batch, width, pages: shape.batch * width, page };
    let table: Vec<i32> = (0..pages.pages as i32).rev().collect();
    let given: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
    let listed = ListedPages::new(kernels, tiles, shape, (&pages, &table, &given), ctas)?;
    let expected: Vec<u32> = lengths.iter().map(|length| *length as u32).collect();
    let (heads, work) = by_length(&lists(tiles, shape, &pages, ctas)?, &expected);
    Ok(match (listed.findings.first(), listed.wrong) {
        (Some(finding), _) => Some(finding.to_string()),
        (_, Some((problem, ..))) => Some(format!("problem {problem} is said to be wrong")),
        _ if listed.lengths != expected => Some("keys of a problem are not those that are given".to_owned()),
        _ if (listed.work.heads, listed.work.tiles) != (heads, work) => {
            Some("work tiles are not those of the specification".to_owned())
        }
        _ => None,
    })
}

/// Places of the workspace of so many CTAs.
pub(in super::super) fn places(tiles: &AttentionTiles, ctas: u32) -> u32 {
    if tiles.split.is_some() { ctas } else { 0 }
}
