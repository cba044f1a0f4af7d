//! Which point is next.

use crate::Verdict;
use crate::search::Search;

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Its place in the list of points.
    pub point: usize,
    /// What became of it; [`Verdict::Refused`] if it is no kernel.
    pub verdict: Verdict,
    /// Its time, where it has one.
    pub median_us: Option<f64>,
}

/// Says which point is next.
///
/// Points are asked for ahead of the backends, so the latest are not measured yet. `None` is "not now" as long as points are
/// on their way, and is asked again after each of them; with nothing on its way it ends the sweep. A point that was
/// named before is passed over.
pub trait Order: Send {
    /// The place of the next point, knowing what became of others.
    fn next(&mut self, measured: &[Measured]) -> Option<usize>;
}

/// One after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct InOrder {
    next: usize,
    count: usize,
}

impl InOrder {
    /// The order of a list of so many points.
    pub fn new(count: usize) -> Self {
        Self { next: 0, count }
    }
}

impl Order for InOrder {
    fn next(&mut self, _: &[Measured]) -> Option<usize> {
        let at = self.next;
        self.next += 1;
        (at < self.count).then_some(at)
    }
}

/// What a search says, which learns from what was measured.
pub struct Searched {
    search: Box<dyn Search + Send>,
    /// How many of the measurements were reported to it.
    reported: usize,
}

impl Searched {
    /// The order of a search over the same points.
    pub fn new(search: Box<dyn Search + Send>) -> Self {
        Self { search, reported: 0 }
    }
}

impl Order for Searched {
    fn next(&mut self, measured: &[Measured]) -> Option<usize> {
        for Measured { point, median_us, .. } in measured.iter().skip(self.reported) {
            if let Some(us) = median_us {
                self.search.observe(*point, *us);
            }
        }
        self.reported = measured.len();
        self.search.next()
    }
}
