//! Random numbers that depend on a seed and a place, and on nothing else.
//!
//! Every place that draws (a line of a dense matrix, a stored block, a block row) owns a stream of the
//! ChaCha8 generator, so the result is the same for any number of threads and on any platform: the
//! arithmetic is IEEE 754 basic operations and the pure-Rust functions of `libm`.

use std::sync::LazyLock;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

use crate::Element;

/// The streams of one seed for one purpose.
///
/// Purposes are independent of each other: the same seed may serve the pattern of A, its values, and B.
#[derive(Clone, Copy)]
pub(crate) struct Streams {
    key: [u8; 32],
}

impl Streams {
    pub(crate) fn new(seed: u64, purpose: &[u8; 8]) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(purpose);
        Self { key }
    }

    /// The stream of one place, from its beginning.
    pub(crate) fn get(&self, place: usize) -> ChaCha8Rng {
        let mut stream = ChaCha8Rng::from_seed(self.key);
        stream.set_stream(place as u64);
        stream
    }
}

/// Fills `out` with independent draws from a normal distribution around 0 as wide as [`Element::SPREAD`], each
/// rounded to `T` once.
pub(crate) fn fill_normal<T: Element>(stream: &mut ChaCha8Rng, out: &mut [T]) {
    out.iter_mut().for_each(|slot| *slot = T::from_f64(T::SPREAD * LAYERS.draw(stream)));
}

/// Fills `out` with independent draws from N(0, 1).
pub(crate) fn fill_normal_f64(stream: &mut ChaCha8Rng, out: &mut [f64]) {
    out.iter_mut().for_each(|slot| *slot = LAYERS.draw(stream));
}

static LAYERS: LazyLock<Layers> = LazyLock::new(Layers::new);

/// The area under exp(-x^2 / 2), x >= 0, in 256 horizontal layers of equal area (Marsaglia and Tsang's
/// ziggurat): a draw from a layer's rectangle is nearly always under the curve, and costs one product.
struct Layers {
    /// The right end of each layer, bottom first; the bottom layer's rectangle has the area of its tail too.
    right: [f64; Self::COUNT + 1],
    /// The lower edge of each layer: the curve at its right end.
    low: [f64; Self::COUNT + 1],
}

impl Layers {
    const COUNT: usize = 256;
    /// Where the tail begins: the value with which the top layer ends at x = 0.
    const TAIL: f64 = 3.654_152_885_361_009;
    /// The area of a layer: `TAIL * curve(TAIL)` and the tail.
    const AREA: f64 = 0.004_928_673_233_974_65;

    fn new() -> Self {
        let mut right = [0.0; Self::COUNT + 1];
        right[0] = Self::AREA / curve(Self::TAIL);
        right[1] = Self::TAIL;
        for layer in 2..Self::COUNT {
            let low = curve(right[layer - 1]) + Self::AREA / right[layer - 1];
            right[layer] = (-2.0 * libm::log(low)).sqrt();
        }
        Self { right, low: right.map(curve) }
    }

    fn draw(&self, stream: &mut ChaCha8Rng) -> f64 {
        loop {
            let bits = stream.next_u64();
            let layer = (bits & 0xff) as usize;
            // The upper 53 bits: from [-1, 1) in steps of 2^-52.
            let x = ((bits >> 11) as f64 * f64::EPSILON - 1.0) * self.right[layer];
            if x.abs() < self.right[layer + 1] {
                return x;
            }
            if layer == 0 {
                return tail(stream).copysign(x);
            }
            let (low, high) = (self.low[layer], self.low[layer + 1]);
            if low + (high - low) * uniform(stream) < curve(x) {
                return x;
            }
        }
    }
}

/// The normal curve, 1 at its top.
fn curve(x: f64) -> f64 {
    libm::exp(-0.5 * x * x)
}

/// A draw from N(0, 1), given that it lies right of the layers.
fn tail(stream: &mut ChaCha8Rng) -> f64 {
    loop {
        let beyond = -libm::log(uniform(stream)) / Layers::TAIL;
        if -2.0 * libm::log(uniform(stream)) >= beyond * beyond {
            return Layers::TAIL + beyond;
        }
    }
}

/// A uniform draw from (0, 1] in steps of 2^-53.
fn uniform(stream: &mut ChaCha8Rng) -> f64 {
    ((stream.next_u64() >> 11) + 1) as f64 * (f64::EPSILON / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, purpose: &[u8; 8], place: usize, count: usize) -> Vec<f64> {
        let mut out = vec![0.0; count];
        fill_normal_f64(&mut Streams::new(seed, purpose).get(place), &mut out);
        out
    }

    #[test]
    fn the_moments_are_those_of_a_standard_normal() {
        let x = drawn(7, b"moments.", 0, 1 << 18);
        let mean = |power: i32| x.iter().map(|v| v.powi(power)).sum::<f64>() / x.len() as f64;
        // Four standard errors of each moment's estimate.
        let within = 4.0 / (x.len() as f64).sqrt();
        assert!(mean(1).abs() < within, "mean {}", mean(1));
        assert!((mean(2) - 1.0).abs() < within * 2f64.sqrt(), "variance {}", mean(2));
        assert!(mean(3).abs() < within * 15f64.sqrt(), "third moment {}", mean(3));
        assert!((mean(4) - 3.0).abs() < within * 96f64.sqrt(), "fourth moment {}", mean(4));
    }

    #[test]
    fn as_many_draws_lie_beyond_each_point_as_should() {
        let x = drawn(8, b"tails...", 0, 1 << 20);
        // Two-sided tail probabilities of N(0, 1); 3.654 is where the layers end and the tail begins.
        let points = [
            (0.1, 0.920_344_3),
            (0.5, 0.617_075_1),
            (1.0, 0.317_310_5),
            (2.0, 0.045_500_3),
            (3.0, 0.002_699_8),
            (Layers::TAIL, 0.000_258_1),
            (4.2, 0.000_026_7),
        ];
        for (point, probability) in points {
            let expected = probability * x.len() as f64;
            let beyond = x.iter().filter(|v| v.abs() > point).count() as f64;
            assert!((beyond - expected).abs() < 4.0 * expected.sqrt(), "{beyond} beyond {point}, not {expected}");
        }
        let negative = x.iter().filter(|v| **v < 0.0).count() as f64;
        assert!((negative - 0.5 * x.len() as f64).abs() < 4.0 * (0.25 * x.len() as f64).sqrt(), "{negative} negative");
    }

    #[test]
    fn the_layers_have_one_area() {
        let Layers { right, low } = Layers::new();
        let beyond = (std::f64::consts::PI / 2.0).sqrt() * libm::erfc(Layers::TAIL / 2f64.sqrt());
        let bottom = Layers::TAIL * curve(Layers::TAIL) + beyond;
        assert!((bottom / Layers::AREA - 1.0).abs() < 1e-12, "the bottom layer has area {bottom}");
        for layer in 1..Layers::COUNT {
            let area = right[layer] * (low[layer + 1] - low[layer]);
            assert!((area / Layers::AREA - 1.0).abs() < 1e-9, "layer {layer} has area {area}");
        }
    }

    #[test]
    fn seed_purpose_and_place_each_change_the_stream() {
        let base = drawn(1, b"purposeA", 0, 8);
        assert_eq!(base, drawn(1, b"purposeA", 0, 8));
        for other in [drawn(2, b"purposeA", 0, 8), drawn(1, b"purposeB", 0, 8), drawn(1, b"purposeA", 1, 8)] {
            assert!(base.iter().zip(&other).all(|(a, b)| a != b));
        }
    }

    #[test]
    fn each_type_draws_the_same_numbers_as_wide_as_it_is() {
        fn check<T: Element>() {
            let mut out = vec![T::ZERO; 4096];
            fill_normal(&mut Streams::new(7, b"spread..").get(0), &mut out);
            let wide = drawn(7, b"spread..", 0, out.len());
            assert!(out.iter().zip(&wide).all(|(v, w)| v.to_f64() == T::from_f64(T::SPREAD * w).to_f64()));
            let rms = (out.iter().map(|v| v.to_f64().powi(2)).sum::<f64>() / out.len() as f64).sqrt();
            assert!((rms / T::SPREAD - 1.0).abs() < 0.05, "{}: {rms}", T::DTYPE);
            let distinct = out.iter().map(|v| v.to_f64().to_bits()).collect::<std::collections::BTreeSet<_>>().len();
            assert!(distinct > 64, "{}: {distinct} values", T::DTYPE);
        }
        check::<f32>();
        check::<half::f16>();
        check::<half::bf16>();
        check::<crate::e4m3>();
        check::<crate::e5m2>();
        check::<i8>();
    }

    #[test]
    fn the_draws_are_pinned() {
        let bits: Vec<u64> = drawn(42, b"pinned..", 3, 3).into_iter().map(f64::to_bits).collect();
        assert_eq!(bits, [4_589_671_457_134_911_597, 13_829_603_234_218_772_578, 13_835_350_437_870_152_702]);
    }
}
