//! The FP8 tensor core's own sum, as an option: [`Fp8Accumulate::Reduced`].

#[cfg(doc)]
use crate::machine::launch::Fp8Accumulate;

/// Bits after the leading one that survive the alignment.
const FRACTION_BITS: i32 = 13;

/// C += A * B, row-major, `n` columns.
pub(super) fn multiply(c: &mut [f32], a: &[f32], b: &[f32], n: usize, k: usize) {
    for (row, a) in c.chunks_mut(n).zip(a.chunks(k)) {
        for (j, c) in row.iter_mut().enumerate() {
            *c = sum(*c, a.iter().enumerate().map(|(i, x)| x * b[i * n + j]));
        }
    }
}

/// The same of a sparse A, whose `k` elements in each row are at these places along K.
pub(super) fn multiply_sparse(c: &mut [f32], a: &[f32], at: &[u32], b: &[f32], n: usize, k: usize) {
    for (row, (a, at)) in c.chunks_mut(n).zip(a.chunks(k).zip(at.chunks(k))) {
        for (j, c) in row.iter_mut().enumerate() {
            *c = sum(*c, a.iter().zip(at).map(|(x, place)| x * b[*place as usize * n + j]));
        }
    }
}

/// The accumulator and the products of one instruction, summed as [`Fp8Accumulate::Reduced`] says.
fn sum(accumulator: f32, products: impl Iterator<Item = f32> + Clone) -> f32 {
    let addends = products.chain([accumulator]);
    let largest = addends.clone().map(f32::abs).fold(0.0, f32::max);
    if largest == 0.0 || !addends.clone().all(f32::is_finite) {
        return addends.sum();
    }
    let unit = f64::from(largest).log2().floor() as i32 - FRACTION_BITS;
    let scale = f64::from(unit).exp2();
    let sum: f64 = addends.map(|x| (f64::from(x) / scale).trunc()).sum();
    (sum * scale) as f32
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn fourteen_bits_from_the_largest_survive() {
        let tiny = |exponent: i32| f32::powi(2.0, exponent);
        assert_eq!(sum(1.0, [tiny(-13)].into_iter()), 1.0 + tiny(-13));
        assert_eq!(sum(1.0, [tiny(-14)].into_iter()), 1.0);
        assert_eq!(sum(-1.0, [-tiny(-14), -tiny(-14)].into_iter()), -1.0, "each is cut on its own");
        assert_eq!(sum(0.0, [3.0, -3.0, 0.5].into_iter()), 0.5);
        assert_eq!(sum(0.0, [0.0, -0.0].into_iter()), 0.0);
        assert!(sum(f32::NAN, [1.0].into_iter()).is_nan());
        assert_eq!(sum(f32::INFINITY, [1.0].into_iter()), f32::INFINITY);
    }
}
