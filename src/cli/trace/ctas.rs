//! Which CTAs of a grid are asked for.

use std::str::FromStr;

/// Neighbouring CTAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ctas {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl FromStr for Ctas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let range = match text.split_once("..") {
            None => number(text).map(|one| (one, one.checked_add(1))),
            Some((from, to)) => match to.strip_prefix('=') {
                Some(last) => number(from).zip(number(last)).map(|(from, last)| (from, last.checked_add(1))),
                None => number(from).zip(number(to)).map(|(from, end)| (from, Some(end))),
            },
        };
        let count = range.and_then(|(first, end)| Some((first, end?.checked_sub(first)?)));
        match count {
            Some((first, count)) if count > 0 => Ok(Self { first, count }),
            _ => Err("write 5 (one CTA), 0..4 (four of them) or 0..=3".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ctas;

    #[test]
    fn ctas_are_a_number_or_a_range_as_in_rust() {
        for (text, first, count) in [("5", 5, 1), ("0..4", 0, 4), ("2..=3", 2, 2), (" 1 .. 2 ", 1, 1)] {
            assert_eq!(text.parse(), Ok(Ctas { first, count }), "{text}");
        }
        for wrong in ["", "4..4", "4..2", "a", "0..", "..3", "-1", "0..4294967296", "4294967295"] {
            assert!(wrong.parse::<Ctas>().is_err(), "{wrong}");
        }
    }
}
