//! Counts the steps that reading a text takes, so that tests can check how they grow with its length.
//!
//! A step is a byte that a lexer consumes, a token that a parser looks at, a brace that is matched, a candidate that a wrong
//! word is compared with, or a byte that is searched for the line of an error. A count is the same on every machine; a time
//! is not. Outside this crate's tests nothing is counted.

/// Adds to the count of this thread.
#[inline]
pub(crate) fn add(steps: usize) {
    #[cfg(test)]
    count::STEPS.with(|count| count.set(count.get() + steps));
    #[cfg(not(test))]
    let _ = steps;
}

#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// What grows by more than this on eight times the input does not grow as the input does: its square grows 64 times.
    pub(crate) const LINEAR: f64 = 9.0;

    /// How many times the steps of `work` an input of eight times the size takes.
    pub(crate) fn growth(size: usize, input: impl Fn(usize) -> String, work: impl Fn(&str)) -> f64 {
        let steps = |size: usize| {
            let text = input(size);
            STEPS.set(0);
            work(&text);
            STEPS.get()
        };
        let once = steps(size);
        assert!(once >= size, "{once} steps for an input of size {size}: something is not counted");
        steps(8 * size) as f64 / once as f64
    }

    #[test]
    fn a_square_is_not_linear() {
        let input = |size: usize| "x".repeat(size);
        assert!(growth(100, input, |text| super::add(text.len() + 50)) < LINEAR);
        assert!(growth(100, input, |text| (0..text.len() / 8).for_each(|_| super::add(text.len()))) > LINEAR);
    }
}
