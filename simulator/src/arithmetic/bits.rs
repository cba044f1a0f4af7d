//! Instructions on the bits and bytes of a word: `fns`, `szext`, `bmsk`, the modes of `prmt`.

use crate::program::op::Permute;
use crate::program::types::{mask, sign_extend};

/// `fns`: the place of the n-th bit that is set, from `base` on upwards, or downwards where n is negative; all ones if there is none.
pub(super) fn find_nth(word: u32, base: u32, n: u32) -> u64 {
    let n = n.cast_signed();
    let is_set = |at: &i64| (0..32).contains(at) && word >> at & 1 == 1;
    let (base, step) = (i64::from(base), if n < 0 { -1 } else { 1 });
    let mut found = (0..32).map(|i| base + step * i).take_while(|at| (0..32).contains(at)).filter(is_set);
    let place = match n {
        0 => Some(base).filter(is_set),
        _ => found.nth(n.unsigned_abs() as usize - 1),
    };
    place.map_or(mask(32), |at| at as u64)
}

/// `szext`: extends the low `bits` of a word.
pub(super) fn szext(word: u64, bits: u64, wrap: bool, signed: bool) -> u64 {
    match if wrap { bits & 31 } else { (bits & mask(32)).min(32) } as u32 {
        0 => 0,
        n if signed => sign_extend(word & mask(n), n) as u64 & mask(32),
        n => word & mask(n),
    }
}

/// `bmsk`: ones from a place on, so many.
pub(super) fn bmsk(place: u64, count: u64, wrap: bool) -> u64 {
    let (from, ones) = (place & 31, count & 31);
    let beyond = !wrap && place > 31;
    let end = if from + ones > 31 || (!wrap && count > 31) { 32 } else { from + ones };
    if beyond { 0 } else { mask(end as u32) & !mask(from as u32) }
}

/// `prmt` in a mode: the places of the four bytes among eight, from the lowest on.
pub(super) fn permute(mode: Permute, bytes: u64, selector: u64) -> u64 {
    let s = selector;
    let place = |i: u64| match mode {
        Permute::F4e => s + i,
        Permute::B4e => (s + 8 - i) & 7,
        Permute::Rc8 => s,
        Permute::Ecl => s.max(i),
        Permute::Ecr => s.min(i),
        Permute::Rc16 => (s & 1) * 2 + (i & 1),
    };
    (0..4).fold(0, |out, i| out | (bytes >> (8 * place(i)) & 0xff) << (8 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_upwards_and_downwards() {
        let word = 0b1011_0010;
        for (base, n, found) in [(0, 1_i32, 1), (0, 2, 4), (2, 1, 4), (7, -1, 7), (7, -2, 5), (6, -1, 5), (5, 0, 5)] {
            assert_eq!(find_nth(word, base, n.cast_unsigned()), found, "from {base}, {n}");
        }
        for (base, n) in [(0, 5_i32), (0, -1), (6, 0), (40, 1)] {
            assert_eq!(find_nth(word, base, n.cast_unsigned()), mask(32), "from {base}, {n}");
        }
    }

    #[test]
    fn fields_are_extended_and_masks_made() {
        assert_eq!((szext(0xff, 8, false, true), szext(0xff, 8, false, false)), (mask(32), 0xff));
        assert_eq!(
            (szext(0xff, 40, false, true), szext(0xff, 40, true, true), szext(9, 0, true, true)),
            (0xff, mask(32), 0)
        );
        assert_eq!((bmsk(4, 8, false), bmsk(28, 8, false), bmsk(0, 0, true)), (0xff0, 0xf000_0000, 0));
        assert_eq!(
            (bmsk(40, 4, false), bmsk(40, 4, true), bmsk(4, 32, false), bmsk(4, 32, true)),
            (0, 0xf00, 0xffff_fff0, 0)
        );
    }

    #[test]
    fn bytes_are_chosen_by_the_table_of_each_mode() {
        let bytes = 0x7766_5544_3322_1100;
        for (mode, by_selector) in [
            (Permute::F4e, [0x3322_1100, 0x4433_2211, 0x5544_3322, 0x6655_4433]),
            (Permute::B4e, [0x5566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2233]),
            (Permute::Rc8, [0x0000_0000, 0x1111_1111, 0x2222_2222, 0x3333_3333]),
            (Permute::Ecl, [0x3322_1100, 0x3322_1111, 0x3322_2222, 0x3333_3333]),
            (Permute::Ecr, [0x0000_0000, 0x1111_1100, 0x2222_1100, 0x3322_1100]),
            (Permute::Rc16, [0x1100_1100, 0x3322_3322, 0x1100_1100, 0x3322_3322]),
        ] {
            for (selector, word) in by_selector.into_iter().enumerate() {
                assert_eq!(permute(mode, bytes, selector as u64), word, "{mode:?} {selector}");
            }
        }
    }
}
