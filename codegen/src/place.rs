//! Places in the inputs of front ends.

use std::ops::Range;

/// A place in the input of a front end.
pub trait Place: Clone {
    /// The place from the start of `self` to the end of `last`.
    #[must_use]
    fn through(&self, last: &Self) -> Self;

    /// The place of some bytes within the string at this place, or else the whole place.
    #[must_use]
    fn part(&self, _bytes: Range<usize>) -> Self {
        self.clone()
    }
}

impl Place for Range<usize> {
    fn through(&self, last: &Self) -> Self {
        self.start..last.end
    }

    fn part(&self, bytes: Range<usize>) -> Self {
        // Behind the quotation mark, where nothing is escaped.
        let within = |at: usize| (self.start + 1 + at).min(self.end);
        within(bytes.start)..within(bytes.end)
    }
}
