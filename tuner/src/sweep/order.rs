//! Which point is next.

use crate::Verdict;
use crate::sweep::SweepPoint;

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
/// Points are asked for ahead of the labs, so the latest are not measured yet. `None` is "not now" as long as points are
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

/// A list of places.
#[derive(Clone, Debug)]
struct Listed(std::vec::IntoIter<usize>);

impl Order for Listed {
    fn next(&mut self, _: &[Measured]) -> Option<usize> {
        self.0.next()
    }
}

/// All points in a random order, which a seed says.
#[derive(Clone, Debug)]
pub struct Shuffled(Listed);

impl Shuffled {
    /// An order of a list of so many points.
    pub fn new(count: usize, seed: u64) -> Self {
        let draw = |at: &usize| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&seed.to_le_bytes()).update(&(*at as u64).to_le_bytes());
            *hasher.finalize().as_bytes()
        };
        let mut places: Vec<usize> = (0..count).collect();
        places.sort_by_cached_key(draw);
        Self(Listed(places.into_iter()))
    }
}

impl Order for Shuffled {
    fn next(&mut self, measured: &[Measured]) -> Option<usize> {
        self.0.next(measured)
    }
}

/// By predicted time, the shortest first; those without a prediction last.
#[derive(Clone, Debug)]
pub struct Ranked(Listed);

impl Ranked {
    /// The order of these points.
    pub fn new(points: &[SweepPoint]) -> Self {
        let mut places: Vec<usize> = (0..points.len()).collect();
        let time = |at: &usize| points[*at].predicted_us.unwrap_or(f64::INFINITY);
        places.sort_by(|a, b| time(a).total_cmp(&time(b)));
        Self(Listed(places.into_iter()))
    }
}

impl Order for Ranked {
    fn next(&mut self, measured: &[Measured]) -> Option<usize> {
        self.0.next(measured)
    }
}
