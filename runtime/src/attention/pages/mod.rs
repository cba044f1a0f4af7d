//! K and V in pages: a page table lists the pages of each problem in the order of its keys, and each problem has a number of
//! keys of its own. Table and numbers are arrays that may change between launches.

mod device;
mod host;
#[cfg(feature = "simulator")]
mod simulate;

use bsr_codegen::lists::{LengthLists, LengthRequest, WrongPages};
use bsr_codegen::{AttentionTiles, Plan, Refusal};

use super::{AttentionError, Shape};
use crate::error::KernelError;

pub use device::DevicePages;
pub use host::HostPages;
#[cfg(feature = "simulator")]
pub(super) use simulate::places;
#[cfg(feature = "simulator")]
pub use simulate::{ListedPages, fault_of_lengths};

/// The sizes of a page table: what does not change with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageShape {
    /// Problems: rows of the table.
    pub batch: usize,
    /// Entries of a row: the most pages of a problem.
    pub width: usize,
    /// Pages that K and V have.
    pub pages: usize,
    /// Keys of a page.
    pub page: usize,
}

impl PageShape {
    /// The most keys of a problem.
    #[doc(hidden)]
    pub fn keys(&self) -> usize {
        self.width * self.page
    }

    /// Whether a kernel reads pages of this size for tensors of this shape, whose keys are the most of a problem.
    pub(super) fn check(&self, plan: &Plan, shape: &Shape) -> Result<(), AttentionError> {
        let Some(page) = plan.spec().page else {
            return Err(AttentionError::size(
                "the kernel reads K and V without pages",
                format!("its spec has no `page`, and the pages have {} keys", self.page),
                format!("a kernel with page = {}", self.page),
            ));
        };
        if page as usize != self.page {
            return Err(AttentionError::size(
                format!("pages of {} keys, and the kernel was compiled for {page}", self.page),
                "a page has `page` keys of the spec",
                format!("a kernel with page = {}", self.page),
            ));
        }
        match (shape.batch, shape.keys) == (self.batch, self.keys()) {
            true => Ok(()),
            false => Err(AttentionError::size(
                format!("the page table is of {} problems of at most {} keys", self.batch, self.keys()),
                format!("the attention is of {} of at most {}; a row of {} pages", shape.batch, shape.keys, self.width),
                "a page table of the attention's problems, and keys = entries of a row x keys of a page",
            )),
        }
    }
}

/// The launches that list an attention of a shape.
///
/// # Errors
/// More than the kernels count.
pub(super) fn lists(
    tiles: &AttentionTiles,
    shape: &Shape,
    pages: &PageShape,
    ctas: u32,
) -> Result<LengthLists, AttentionError> {
    shape.check_tiles(tiles)?;
    let [batch, heads, key_heads, queries] =
        [shape.batch, shape.heads, shape.key_heads, shape.queries].map(|size| size as u32);
    let [width, pages] = [pages.width, pages.pages].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
    let request = LengthRequest { tiles: *tiles, batch, heads, key_heads, queries, width, pages, ctas: ctas.max(1) };
    Ok(LengthLists::new(&request).map_err(KernelError::from)?)
}

/// A problem whose keys or pages a check has found to be wrong: the first one, and the number that is wrong.
fn wrong_problem(problem: usize, kind: WrongPages, value: i32, shape: &PageShape) -> Refusal {
    let (what, help) = match kind {
        WrongPages::Length => (
            format!("it has {value} keys, and its row of {} pages has room for 0 to {}", shape.width, shape.keys()),
            "a page table with more entries for each problem",
        ),
        WrongPages::Page => (
            format!("its keys are in page {value}, and the pages are 0 to {}", shape.pages.saturating_sub(1)),
            "entries of the table count pages, not keys",
        ),
    };
    Refusal::new(format!("problem {problem} of a page table on the GPU is wrong: {what}"))
        .why("it was computed as one without keys, and so were others that are wrong")
        .help(format!("{help}; then call `changed`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_problem_is_reported_with_its_arithmetic_and_a_remedy() {
        let shape = PageShape { batch: 3, width: 4, pages: 9, page: 16 };
        for (kind, value, expected) in [
            (WrongPages::Length, 65, "it has 65 keys, and its row of 4 pages has room for 0 to 64"),
            (WrongPages::Page, -2, "its keys are in page -2, and the pages are 0 to 8"),
        ] {
            let text = wrong_problem(1, kind, value, &shape).to_string();
            assert!(text.contains("problem 1") && text.contains(expected) && text.contains("help: "), "{text}");
        }
    }
}
