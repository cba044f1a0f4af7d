//! K and V in pages on the host.

use super::super::{AttentionError, Tensor};
use super::PageShape;
use crate::Element;

/// K and V of problems of several lengths in pages: what a program has that serves a model.
#[derive(Clone, Debug)]
pub struct HostPages<T> {
    /// K: pages, heads, keys of a page, columns.
    pub keys: Tensor<T>,
    /// V, likewise; of 8 bits pages, heads, columns, keys of a page.
    pub values: Tensor<T>,
    /// The pages of each problem, row by row.
    pub table: Vec<i32>,
    /// Keys of each problem.
    pub lengths: Vec<i32>,
    /// The sizes.
    pub shape: PageShape,
}

impl<T: Element> HostPages<T> {
    /// Puts the first `lengths` keys of each problem into pages of `page` keys, in an order that is not theirs. What no key is
    /// in, of pages and of the table, has values that must not be read.
    ///
    /// Pages of a V of 8 bits are [by columns](Tensor::by_column), `[pages, heads, columns, keys of a page]`, and have zeros where no key
    /// is: kernels need finite values there.
    ///
    /// # Errors
    /// [`AttentionError::Size`] for lengths that the tensors do not have, and for pages of 8 bits of no multiple of 16 keys.
    pub fn new(k: &Tensor<T>, v: &Tensor<T>, lengths: &[usize], page: usize) -> Result<Self, AttentionError> {
        if !T::DTYPE.is_fp8() {
            return Self::filled([k, v], lengths, page, [T::POISON; 2]);
        }
        if !page.is_multiple_of(16) {
            return Err(AttentionError::size(
                format!("pages of {page} keys"),
                "keys of a column of V lie in groups of 16",
                "pages of a multiple of 16 keys",
            ));
        }
        let rows = Self::filled([k, v], lengths, page, [T::POISON, T::ZERO])?;
        Ok(Self { values: rows.values.by_column(), ..rows })
    }

    fn filled(
        [k, v]: [&Tensor<T>; 2],
        lengths: &[usize],
        page: usize,
        [of_k, of_v]: [T; 2],
    ) -> Result<Self, AttentionError> {
        let [batch, heads, keys, _] = k.sizes();
        let longest = lengths.iter().max().copied().unwrap_or(0);
        if k.sizes()[..3] != v.sizes()[..3] || lengths.len() != batch || longest > keys || page == 0 {
            return Err(AttentionError::size(
                format!("{} problems of at most {longest} keys", lengths.len()),
                format!("K is {:?}, V is {:?}, in pages of {page} keys", k.sizes(), v.sizes()),
                "a length for each problem, at most the keys of K and V",
            ));
        }
        let used: Vec<usize> = lengths.iter().map(|length| length.div_ceil(page)).collect();
        // A prime, so that any step visits every page once; some pages have no keys.
        let pages = (used.iter().sum::<usize>() + 1..).find(|pages| is_prime(*pages)).unwrap_or(1);
        let width = keys.div_ceil(page).max(1);
        let shape = PageShape { batch, width, pages, page };
        let empty = |tensor: &Tensor<T>, value: T| {
            Tensor::filled([pages, heads, page, tensor.sizes()[3]], tensor.order(), value)
        };
        let (mut in_pages, mut table, mut next) = ([empty(k, of_k), empty(v, of_v)], vec![i32::MIN; batch * width], 0);
        for (problem, length) in lengths.iter().enumerate() {
            for entry in 0..used[problem] {
                next = (next + pages / 2 + 1) % pages;
                table[problem * width + entry] = next as i32;
                for (to, from) in in_pages.iter_mut().zip([k, v]) {
                    for (head, key) in (0..heads).flat_map(|head| (0..page).map(move |key| (head, key))) {
                        if entry * page + key < *length {
                            let row = from.row([problem, head, entry * page + key]);
                            to.row_mut([next, head, key]).copy_from_slice(row);
                        }
                    }
                }
            }
        }
        let [keys, values] = in_pages;
        Ok(Self { keys, values, table, lengths: lengths.iter().map(|length| *length as i32).collect(), shape })
    }
}

fn is_prime(number: usize) -> bool {
    number > 1 && (2..).take_while(|divisor| divisor * divisor <= number).all(|divisor| !number.is_multiple_of(divisor))
}
