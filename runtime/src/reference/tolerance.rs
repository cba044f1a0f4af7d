//! How far a right result may be from the reference.

use bsr_codegen::{Accumulate, Dtype, KernelSpec, Mma};

/// The greatest relative Frobenius error of a right result of a spec's kernel; see [`tolerance`].
pub fn tolerance_of(spec: &KernelSpec, k: usize) -> f64 {
    if spec.acc == Dtype::F64 {
        return half_ulp(spec.out) + spec_sums(spec, k);
    }
    tolerance(spec.a, spec.out, k, spec_accumulate(spec)) + half_sums(spec.acc, k) + rounded_factors(spec)
}

/// What the sums of a spec's kernel are off by in full registers.
pub(super) fn spec_sums(spec: &KernelSpec, k: usize) -> f64 {
    wide_sums(spec.a, if spec.acc == Dtype::F64 { spec.acc } else { spec.out }, k)
}

/// What of a spec decides how far a right result may be from the reference, beside its operands: the type of C, that of the sums,
/// how they are summed, and whether factors are rounded. Kernels of one problem that agree in it may be held against one [reference](super::expected).
#[doc(hidden)]
pub fn rounding(spec: &KernelSpec) -> (Dtype, Dtype, Option<Accumulate>, bool) {
    (spec.out, spec.acc, spec_accumulate(spec), spec.tf32.is_on())
}

/// How a spec's kernel sums, as far as its error goes.
pub(super) fn spec_accumulate(spec: &KernelSpec) -> Option<Accumulate> {
    match spec.mma {
        // Those that load one element at a time sum in f32, as those that add in global memory do.
        Mma::Scalar if spec.vector.unwrap_or(1) == 1 => Some(Accumulate::Atomic),
        Mma::Scalar => Some(Accumulate::Register),
        _ => spec.accumulate,
    }
}

/// The greatest relative Frobenius error ([`Comparison::relative`](super::Comparison::relative)) of a right result.
///
/// `a` is the type of the factors, `out` that of C, `k` the greatest number of products that one element of C sums (K
/// is never too small), `accumulate` as in the spec: `None` for sums in full f32 or i32 registers, and the widest bound
/// of FP8 factors.
///
/// The bound is the sum of up to three parts, each several times what values from a normal distribution lead to. Sums
/// in which nearly everything cancels have no such bound. Integer sums into i32 are exact: 0.
///
/// **Rounding of C.** Round to nearest is off by at most half an ulp of each element: `u = 2^-p` of its value, where p
/// counts the significant bits, the leading one too: 2^-53 for f64, 2^-24 for f32, 2^-11 for f16, 2^-8 for bf16, 2^-4 for e4m3. Errors
/// spread evenly over an ulp make 0.4 u in the Frobenius norm; the bound is u. ([`Accumulate::Atomic`], which
/// rounds C once a block, writes f32 only, and counts as an f32 sum.)
///
/// **f32 sums.** The partial sum of i products of unit variance is about sqrt(i); rounding it adds an error of variance
/// i * 2^-48 / 6 or less. Over k additions that is a random walk to 0.3 k * 2^-24, against a sum of sqrt(k): 0.3
/// sqrt(k) * 2^-24. Tensor cores add a dozen products at a time and cut instead of rounding, with about the same
/// result: 0.1 to 0.6 of `sqrt(k) * 2^-24` were found. The bound is `4 sqrt(k) * 2^-24`. Scales are f32 products after
/// the sum, or one more for each block's: `4 * 2^-24`.
///
/// **f64 sums** are those of products with a C of f64. The reference is summed in f64, too, in another order, and is
/// off by as much: two random walks of 0.3 sqrt(k) * 2^-53. The bound is `(4 sqrt(k) + 4) * 2^-53`.
///
/// **Sums in fewer bits.**
/// - *FP8 on tensor cores* keeps 14 bits: within an instruction all addends, 32 products and the accumulator, are cut
///   below 2^-13 of the largest (DeepSeek-V3 Technical Report, section 3.3.2). Each of the `s = ceil(k / 32)`
///   instructions adds an error of about 2^-13 of the accumulator, and cutting towards zero shrinks it a little: 0.6
///   sqrt(s) + 0.03 s of 2^-13 in a model of that sum. The bound is `(2 sqrt(s) + s / 8) * 2^-13`: 5.5e-4 for 128
///   products, 4.7e-3 for 4096. [`Accumulate::Promoted`] leaves at most 128 products to the tensor core at a time, so
///   s = 4 whatever k is.
/// - *f16 and bf16 on CUDA cores*, under [`Accumulate::Register`], may be summed two at a time in their own type, in
///   chains of 16 products of f16 or 8 of bf16, which f32 sums collect: 0.29 sqrt(n + 1) u for chains of n, that is
///   1.2 u or 0.9 u whatever k is, since the errors of chains are independent. The bound is `sqrt(n) * u`.
/// - *f16 on tensor cores*, under `acc = f16`, is added to [`tolerance`] by [`tolerance_of`]. Some products and the
///   accumulator are summed in more bits and rounded to the nearest f16 once: 4 products on a V100, more on later GPUs
///   (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021), 16 on
///   the simulator. s roundings of growing sums are a random walk to 0.28 sqrt(s) u of the last one. The bound is
///   `sqrt(s) * u` with `s = ceil(k / 4)`, u = 2^-11: 2.8e-3 for 128 products, 1.6e-2 for 4096. It has no number for
///   sums beyond 65504, the largest f16.
///
/// **Rounding of factors** to TF32, under `tf32 = on`, is added to [`tolerance`] by [`tolerance_of`]. To nearest, as `cvt.rna` and TMA
/// do it, it is off by at most u = 2^-11 of each factor, whose products have independent errors of 0.6 u in the Frobenius norm, whatever k is. The
/// bound is `2 u`: 9.8e-4, where f32 sums of 4096 products have 1.5e-5.
pub fn tolerance(a: Dtype, out: Dtype, k: usize, accumulate: Option<Accumulate>) -> f64 {
    if out.is_integer() {
        return 0.0;
    }
    half_ulp(out) + wide_sums(a, out, k) + short_sums(a, k, accumulate)
}

/// Products of one FP8 instruction.
const FP8_DEPTH: usize = 32;
/// Products that the tensor core sums before they are promoted.
const PROMOTED: usize = 128;

/// Products that a tensor core sums, at least, before it rounds a sum to f16.
const HALF_DEPTH: usize = 4;

/// Half an ulp, relative: 2^-p with p significant bits.
pub(crate) fn half_ulp(dtype: Dtype) -> f64 {
    let bits = match dtype {
        Dtype::F32 => 24,
        Dtype::F64 => 53,
        Dtype::F16 => 11,
        Dtype::BF16 => 8,
        Dtype::E4M3 => 4,
        Dtype::E5M2 => 3,
        Dtype::I8 | Dtype::I32 => return 0.0,
    };
    f64::powi(2.0, -bits)
}

/// What sums in full registers are off by: of f64 where C is f64, else of f32.
fn wide_sums(a: Dtype, out: Dtype, k: usize) -> f64 {
    match out {
        Dtype::F64 => (4.0 * (k as f64).sqrt() + 4.0) * half_ulp(Dtype::F64),
        _ => f32_sums(a, k),
    }
}

pub(crate) fn f32_sums(a: Dtype, k: usize) -> f64 {
    let sums = if a.is_integer() { 0.0 } else { 4.0 * (k as f64).sqrt() };
    (sums + 4.0) * half_ulp(Dtype::F32)
}

/// The product of two rows, and the sum of the squares of its terms, by which [`f32_sums`] bounds its error.
pub(crate) fn product_and_squares(a: &[f64], b: &[f64]) -> [f64; 2] {
    let ((a_pairs, a_rest), (b_pairs, b_rest)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
    // Two sums of each, which do not wait for one another.
    let (mut even, mut odd, mut even_squares, mut odd_squares) = (0.0, 0.0, 0.0, 0.0);
    for (&[a0, a1], &[b0, b1]) in a_pairs.iter().zip(b_pairs) {
        let (first, second) = (a0 * b0, a1 * b1);
        even += first;
        odd += second;
        even_squares += first * first;
        odd_squares += second * second;
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        even += a * b;
        even_squares += (a * b) * (a * b);
    }
    [even + odd, even_squares + odd_squares]
}

/// What a spec's sums are off by for their number of bits.
pub(super) fn spec_short_sums(spec: &KernelSpec, k: usize) -> f64 {
    short_sums(spec.a, k, spec_accumulate(spec)) + half_sums(spec.acc, k) + rounded_factors(spec)
}

/// What rounding both factors of a product to TF32 adds, 11 significant bits.
fn rounded_factors(spec: &KernelSpec) -> f64 {
    if spec.tf32.is_on() { 2.0 * f64::powi(2.0, -11) } else { 0.0 }
}

/// What rounding sums to f16 adds, of accumulators of that type.
fn half_sums(acc: Dtype, k: usize) -> f64 {
    if acc == Dtype::F16 { (k.div_ceil(HALF_DEPTH) as f64).sqrt() * half_ulp(acc) } else { 0.0 }
}

pub(crate) fn short_sums(a: Dtype, k: usize, accumulate: Option<Accumulate>) -> f64 {
    let chain = |length: f64| if accumulate == Some(Accumulate::Register) { length.sqrt() * half_ulp(a) } else { 0.0 };
    match a {
        Dtype::E4M3 | Dtype::E5M2 => {
            let products = if accumulate == Some(Accumulate::Promoted) { k.min(PROMOTED) } else { k };
            let steps = products.div_ceil(FP8_DEPTH) as f64;
            (2.0 * steps.sqrt() + steps / 8.0) * f64::powi(2.0, -13)
        }
        Dtype::F16 => chain(16.0),
        Dtype::BF16 => chain(8.0),
        Dtype::F64 | Dtype::F32 | Dtype::I8 | Dtype::I32 => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::reference::relative_error;
    use crate::{Dense, Element, Layout, e4m3, e5m2};

    /// Sums of products as some hardware forms them, against exact ones.
    fn error_of<T: Element, C: Element>(k: usize, sum: impl Fn(&[f64]) -> f64) -> f64 {
        const SUMS: usize = 128;
        let [a, b] = [1, 2].map(|seed| Dense::<T>::normal(SUMS, k, Layout::RowMajor, seed).to_f64());
        let products: Vec<f64> = a.iter().zip(b).map(|(a, b)| a * b).collect();
        let want: Vec<f64> = products.chunks(k).map(|of_one| of_one.iter().sum()).collect();
        let got: Vec<f64> = products.chunks(k).map(|of_one| C::from_f64(sum(of_one)).to_f64()).collect();
        relative_error(&got, &want)
    }

    /// One instruction that cuts all addends `bits` below the leading bit of the largest.
    fn cut(accumulator: f64, products: &[f64], bits: i32) -> f64 {
        let addends = || products.iter().copied().chain([accumulator]);
        let largest = addends().fold(0.0_f64, |most, x| x.abs().max(most));
        let unit = f64::powi(2.0, largest.max(f64::MIN_POSITIVE).log2().floor() as i32 - bits);
        f64::from((addends().map(|x| (x / unit).trunc()).sum::<f64>() * unit) as f32)
    }

    fn cut_sum(products: &[f64], depth: usize, bits: i32) -> f64 {
        products.chunks(depth).fold(0.0, |sum, products| cut(sum, products, bits))
    }

    /// Each addition rounded to `T`.
    fn chain<T: Element>(products: &[f64]) -> f64 {
        products.iter().fold(0.0, |sum, product| T::from_f64(sum + product).to_f64())
    }

    /// The bound holds, and it is no more than `slack` times too wide.
    fn holds(error: f64, bound: f64, slack: f64, what: &str) {
        assert!(error <= bound && error * slack >= bound, "{what}: error {error:.2e}, bound {bound:.2e}");
    }

    const LENGTHS: [usize; 3] = [32, 256, 2048];

    /// Chains of f16 are off by more than sums in f32: neither is held against the bound of the other.
    #[test]
    fn kernels_of_other_sums_have_another_reference() {
        let of = |more: &str| rounding(&format!("bm = 16, bn = 128, bk = 16{more}").parse().expect("a spec"));
        let scalar = of(", mma = scalar, accumulate = register");
        assert_ne!(scalar, of(", mma = scalar, accumulate = register, vector = 8"));
        assert_ne!(of(""), of(", out = f32"));
        assert_ne!(of(""), of(", acc = f16"));
        assert_eq!(of(""), of(", mma = mma_sync"));
    }

    #[test]
    fn f32_sums_keep_within_the_bound_however_they_are_formed() {
        for k in LENGTHS {
            let bound = tolerance(Dtype::F16, Dtype::F32, k, None);
            holds(error_of::<f16, f32>(k, |products| cut_sum(products, 16, 23)), bound, 30.0, "tensor core");
            holds(error_of::<f16, f32>(k, chain::<f32>), bound, 30.0, "one by one");
            let bound = tolerance(Dtype::F32, Dtype::F32, k, None);
            holds(error_of::<f32, f32>(k, chain::<f32>), bound, 30.0, "f32");
        }
    }

    #[test]
    fn f64_sums_keep_within_the_bound_of_a_reference_that_is_summed_in_f64() {
        for k in LENGTHS {
            let bound = tolerance(Dtype::F64, Dtype::F64, k, None);
            let backwards = |products: &[f64]| products.iter().rev().sum();
            holds(error_of::<f64, f64>(k, backwards), bound, 30.0, "in another order");
            assert!(error_of::<f64, f64>(k, chain::<f32>) > 1e6 * bound);
            assert_eq!(bound, tolerance(Dtype::F16, Dtype::F64, k, None));
        }
    }

    #[test]
    fn the_rounding_of_c_keeps_within_the_bound() {
        let exact = |products: &[f64]| -> f64 { products.iter().sum() };
        for k in LENGTHS {
            let bound = |out| tolerance(Dtype::F16, out, k, None);
            holds(error_of::<f16, f16>(k, exact), bound(Dtype::F16), 4.0, "f16");
            holds(error_of::<f16, bf16>(k, exact), bound(Dtype::BF16), 4.0, "bf16");
        }
        holds(error_of::<f16, e4m3>(256, exact), tolerance(Dtype::F16, Dtype::E4M3, 256, None), 4.0, "e4m3");
        // i8 sums are exact, and f32 holds them up to 2^24.
        let bound = tolerance(Dtype::I8, Dtype::F16, 256, None);
        holds(error_of::<i8, f16>(256, exact), bound, 4.0, "i8");
        assert_eq!(tolerance(Dtype::I8, Dtype::I32, 1 << 20, None), 0.0);
    }

    #[test]
    fn fp8_sums_of_14_bits_keep_within_the_bound() {
        for k in LENGTHS {
            let fast = tolerance(Dtype::E4M3, Dtype::F32, k, Some(Accumulate::Fast));
            holds(error_of::<e4m3, f32>(k, |products| cut_sum(products, 32, 13)), fast, 15.0, "e4m3");
            holds(error_of::<e5m2, f32>(k, |products| cut_sum(products, 32, 13)), fast, 25.0, "e5m2");
            assert_eq!(fast, tolerance(Dtype::E4M3, Dtype::F32, k, None));
            let promoted = tolerance(Dtype::E4M3, Dtype::F32, k, Some(Accumulate::Promoted));
            let in_parts = |products: &[f64]| {
                let parts: Vec<f64> = products.chunks(128).map(|part| cut_sum(part, 32, 13)).collect();
                chain::<f32>(&parts)
            };
            holds(error_of::<e4m3, f32>(k, in_parts), promoted, 10.0, "promoted");
        }
        // A fast sum of many products is no promoted one.
        let error = error_of::<e4m3, f32>(4096, |products| cut_sum(products, 32, 13));
        assert!(error > tolerance(Dtype::E4M3, Dtype::F32, 4096, Some(Accumulate::Promoted)));
    }

    #[test]
    fn short_chains_in_half_precision_keep_within_the_bound() {
        fn in_chains<T: Element>(length: usize) -> impl Fn(&[f64]) -> f64 {
            move |products| products.chunks(length).map(chain::<T>).sum()
        }
        for k in LENGTHS {
            let bound = |a| tolerance(a, Dtype::F32, k, Some(Accumulate::Register));
            holds(error_of::<f16, f32>(k, in_chains::<f16>(16)), bound(Dtype::F16), 8.0, "f16");
            holds(error_of::<bf16, f32>(k, in_chains::<bf16>(8)), bound(Dtype::BF16), 8.0, "bf16");
        }
    }

    /// As tensor cores do it that round after 4 products, and after 16; f32 sums keep far within the bound.
    #[test]
    fn sums_of_f16_keep_within_the_bound() {
        let spec: KernelSpec = "bm = 64, bn = 64, bk = 64, acc = f16".parse().expect("a spec");
        let rounded_every = |depth: usize| {
            move |products: &[f64]| {
                let add = |sum: f64, products: &[f64]| f16::from_f64(sum + products.iter().sum::<f64>()).to_f64();
                products.chunks(depth).fold(0.0, add)
            }
        };
        for k in LENGTHS {
            let bound = tolerance_of(&spec, k);
            holds(error_of::<f16, f16>(k, rounded_every(4)), bound, 6.0, "4 products");
            holds(error_of::<f16, f16>(k, rounded_every(16)), bound, 12.0, "16 products");
            assert!(bound > tolerance(Dtype::F16, Dtype::F16, k, None));
        }
    }

    #[test]
    fn a_spec_gets_the_bound_of_its_sums() {
        let of = |text: &str| tolerance_of(&text.parse().expect("a spec"), 1024);
        let block = "bm = 64, bn = 64, bk = 64";
        let f32_sums = tolerance(Dtype::F16, Dtype::F16, 1024, None);
        assert_eq!(of(block), f32_sums);
        assert_eq!(of(&format!("{block}, mma = scalar")), f32_sums);
        assert_eq!(
            of(&format!("{block}, mma = scalar, vector = 8")),
            tolerance(Dtype::F16, Dtype::F16, 1024, Some(Accumulate::Register))
        );
        let fast = of(&format!("{block}, dtype = e4m3, out = f32"));
        let promoted = of(&format!("{block}, dtype = e4m3, out = f32, accumulate = promoted"));
        assert!(fast == of(&format!("{block}, dtype = e4m3, out = f32, accumulate = fast")) && fast > 2.0 * promoted);
        assert_eq!(of(&format!("{block}, dtype = i8")), 0.0);
        let in_f32 = tolerance(Dtype::F32, Dtype::F32, 1024, None);
        assert_eq!(of(&format!("{block}, mma = mma_sync, dtype = f32, tf32 = on")), in_f32 + f64::powi(2.0, -10));
    }
}
