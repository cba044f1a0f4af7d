//! How long the dense library takes: measured for a grid of sizes, interpolated between.
//!
//! A roofline of operations and device memory says most of it. The logarithm of measured over that is interpolated in the logarithms
//! of M, N and K by kriging (the regression of a Gaussian process), which goes through the measured times but for their noise
//! and returns to the roofline's mean far from all of them. What it is worth is in the output of its test:
//! `cargo test -p bsr-tuner --lib model::dense -- --nocapture`.

use std::collections::HashMap;

use bsr_codegen::Dtype;
use serde::Deserialize;

use super::card::Card;
use super::prediction::both;
use crate::{TuningProblem, Workload, operation};

/// Times as the file of a card has them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DenseFile {
    /// Version of cuBLASLt, driver and day of the measurement: said in the file, read by people.
    #[serde(rename = "cublaslt")]
    _cublaslt: String,
    #[serde(rename = "driver")]
    _driver: String,
    #[serde(rename = "date")]
    _date: String,
    /// By type of A and B: `MxNxK microseconds`, any number in a line.
    pub(super) us: HashMap<Dtype, String>,
    /// The same of sizes that are not interpolated from.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares with them"))]
    pub(super) held_out: HashMap<Dtype, String>,
}

/// Times of the dense library on one card.
#[derive(Debug, PartialEq)]
pub(super) struct DenseTimes {
    /// TFLOP/s of the library in f16, of this card.
    tflops: f64,
    /// By type.
    surfaces: Vec<(Dtype, Surface)>,
}

pub(super) type Sizes = [usize; 3];

impl Card {
    /// The time of the dense library for the whole of a problem's matrices, in microseconds; none of an attention, which it has
    /// no product for.
    pub fn dense_us_of(&self, problem: &TuningProblem) -> Option<f64> {
        let Workload { facts, m, n, k, .. } = problem.workload;
        let spec = facts.spec(64);
        // TF32 is half as fast as f16, and its operands are twice as large.
        let us = |sizes| match spec.tf32.is_on() {
            true => 2.0 * self.dense_us(sizes, Dtype::F16),
            false => self.dense_us(sizes, spec.a),
        };
        operation::of(facts.op()).has_dense_product().then(|| us([m, n, k]))
    }

    /// Microseconds that the dense library takes from cold caches for C\[m, n\] = A\[m, k\] B\[k, n\] of `[m, n, k]`, with
    /// the fastest of the algorithms that it proposes. Sizes that are no multiples of 16 bytes count as if they were padded
    /// to these: as they are the library takes up to five times as long.
    ///
    /// `operands` is the type of A and B. Times of bf16 are those of f16, of e5m2 those of e4m3, and of f64 those of f32 where bytes
    /// allow them; i32 is not multiplied.
    pub fn dense_us(&self, sizes: Sizes, operands: Dtype) -> f64 {
        let dtype = match operands {
            Dtype::E4M3 | Dtype::E5M2 => Dtype::E4M3,
            Dtype::I8 | Dtype::F32 => operands,
            Dtype::F64 => Dtype::F32,
            Dtype::F16 | Dtype::BF16 | Dtype::I32 => Dtype::F16,
        };
        let DenseTimes { tflops, surfaces } = self.dense;
        let found = surfaces.iter().find(|(of, _)| *of == dtype).or_else(|| surfaces.first());
        let unit = 16 / operands.bytes() as usize;
        let padded = sizes.map(|side| side.next_multiple_of(unit));
        let us = found.map_or(f64::INFINITY, |(_, surface)| surface.us(padded, self.dense_tflops / tflops));
        let [m, n, k] = padded.map(|side| side as f64);
        // f64 takes the times of f32, but not less than its bytes do.
        let bytes = if operands == Dtype::F64 { 8.0 * (m * k + k * n + m * n) } else { 0.0 };
        us.max(bytes / (self.hbm_tbs * 1e6))
    }
}

impl DenseTimes {
    /// Those of a card that in f16 has so many TFLOP/s in the library, TB/s of device memory, and microseconds of a launch.
    pub(super) fn new(file: &DenseFile, tflops: f64, hbm_tbs: f64, launch_us: f64) -> Self {
        let of = |(dtype, text): (&Dtype, &String)| {
            let roof = Roof { tflops: 0.0, hbm_tbs, launch_us, bytes: f64::from(dtype.bytes()) };
            (*dtype, Surface::new(roof, &parsed(text)))
        };
        let mut surfaces: Vec<(Dtype, Surface)> = file.us.iter().map(of).collect();
        // f16 first: it stands in for what was not measured.
        surfaces.sort_by_key(|(dtype, _)| *dtype != Dtype::F16);
        Self { tflops, surfaces }
    }
}

/// `MxNxK microseconds`, over and over.
pub(super) fn parsed(text: &str) -> Vec<(Sizes, f64)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let point = |pair: &[&str]| {
        let sizes: Vec<usize> = pair[0].split('x').filter_map(|side| side.parse().ok()).collect();
        Some((sizes.try_into().ok()?, pair.get(1)?.parse().ok()?))
    };
    words.chunks(2).filter_map(point).collect()
}

/// Times of one type: the roofline, and what measured times are beside it.
#[derive(Debug, PartialEq)]
struct Surface {
    roof: Roof,
    at: Vec<[f64; 3]>,
    /// The mean of the logarithms of measured over roofline.
    mean: f64,
    weights: Vec<f64>,
}

/// Octaves over which the library's times change their relation to the roofline.
const REACH: f64 = 8.0;
/// How sharply the slower of operations and memory decides.
const SHARPNESS: f64 = 2.0;
/// Variance of what is noise, or changes from one size to the next, over that of the rest.
const NOISE: f64 = 0.01;

impl Surface {
    /// The surface through these times; the roof of `roof` for operations is their highest rate.
    fn new(roof: Roof, times: &[(Sizes, f64)]) -> Self {
        let rate = |(sizes, us): &(Sizes, f64)| operations(*sizes) / us * 1e-6;
        let roof = Roof { tflops: times.iter().map(rate).fold(0.0, f64::max), ..roof };
        let at: Vec<[f64; 3]> = times.iter().map(|(sizes, _)| octaves(*sizes)).collect();
        let over: Vec<f64> = times.iter().map(|(sizes, us)| (us / roof.us(*sizes)).ln()).collect();
        let mean = over.iter().sum::<f64>() / over.len().max(1) as f64;
        let rest: Vec<f64> = over.iter().map(|over| over - mean).collect();
        let weights = solved(covariances(&at), rest);
        Self { roof, at, mean, weights }
    }

    /// Microseconds on a card whose operations are `faster` by a factor.
    fn us(&self, sizes: Sizes, faster: f64) -> f64 {
        let x = octaves(sizes);
        let over = self.at.iter().zip(&self.weights).map(|(y, weight)| weight * covariance(&x, y)).sum::<f64>();
        Roof { tflops: self.roof.tflops * faster, ..self.roof }.us(sizes) * (self.mean + over).exp()
    }
}

/// Those of all pairs of sizes.
fn covariances(at: &[[f64; 3]]) -> Vec<Vec<f64>> {
    let row = |(i, x)| {
        let of = |(j, y)| covariance(x, y) + if i == j { NOISE } else { 0.0 };
        at.iter().enumerate().map(of).collect()
    };
    at.iter().enumerate().map(row).collect()
}

fn operations([m, n, k]: Sizes) -> f64 {
    2.0 * m as f64 * n as f64 * k as f64
}

fn octaves(sizes: Sizes) -> [f64; 3] {
    sizes.map(|side| (side.max(1) as f64).log2())
}

/// How much two sizes have in common: a Matern function of their distance.
fn covariance(x: &[f64; 3], y: &[f64; 3]) -> f64 {
    let distance = x.iter().zip(y).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt() / REACH * 3_f64.sqrt();
    (1.0 + distance) * (-distance).exp()
}

/// The solution of a system whose matrix is symmetric and positive definite, by Cholesky's factors.
fn solved(mut rows: Vec<Vec<f64>>, mut values: Vec<f64>) -> Vec<f64> {
    let count = values.len();
    for i in 0..count {
        for j in 0..=i {
            let sum = (0..j).map(|k| rows[i][k] * rows[j][k]).sum::<f64>();
            let rest = rows[i][j] - sum;
            rows[i][j] = if i == j { rest.sqrt() } else { rest / rows[j][j] };
        }
        values[i] = (values[i] - (0..i).map(|k| rows[i][k] * values[k]).sum::<f64>()) / rows[i][i];
    }
    for i in (0..count).rev() {
        values[i] = (values[i] - (i + 1..count).map(|k| rows[k][i] * values[k]).sum::<f64>()) / rows[i][i];
    }
    values
}

/// What limits a product, and how large its elements are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Roof {
    tflops: f64,
    hbm_tbs: f64,
    launch_us: f64,
    bytes: f64,
}

impl Roof {
    /// Microseconds of the operations, of what must come from memory, and of a launch.
    fn us(&self, sizes: Sizes) -> f64 {
        let [m, n, k] = sizes.map(|side| side.max(1) as f64);
        let tensor = operations(sizes) / (self.tflops * 1e6);
        let memory = (m * k + k * n + m * n) * self.bytes / (self.hbm_tbs * 1e6);
        both(tensor, memory, SHARPNESS) + self.launch_us
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn file(text: &str) -> DenseFile {
        let all: HashMap<String, toml::Value> = toml::from_str(text).unwrap();
        all["dense"].clone().try_into().unwrap()
    }

    /// Absolute errors in ascending order, at parts of the list.
    fn quantiles(logs: impl IntoIterator<Item = f64>) -> [f64; 3] {
        let mut errors: Vec<f64> = logs.into_iter().map(|log| log.exp_m1().abs()).collect();
        errors.sort_by(f64::total_cmp);
        [0.5, 0.9, 1.0].map(|part| errors[((errors.len() - 1) as f64 * part) as usize])
    }

    /// Each time by all others of its type: with the inverse of the covariances the error of leaving one out is what it
    /// weighs over its part of the diagonal.
    #[test]
    fn times_that_are_left_out_are_met() {
        for (dtype, surface) in &Card::h200().dense.surfaces {
            let count = surface.at.len();
            let left_out = (0..count).map(|at| {
                let unit = (0..count).map(|other| f64::from(u8::from(other == at))).collect();
                surface.weights[at] / solved(covariances(&surface.at), unit)[at]
            });
            // One in three is enough of the large grid.
            let errors = quantiles(left_out.step_by(if count > 100 { 3 } else { 1 }));
            eprintln!("{dtype}: {count} sizes, errors of those left out: {errors:.3?}");
            let [median, most, worst] = errors;
            assert!(median < 0.06 && most < 0.15 && worst < 0.31, "{dtype}: {errors:?}");
            assert!(*dtype != Dtype::F16 || (median < 0.03 && most < 0.08 && worst < 0.17), "{errors:?}");
        }
    }

    /// Sizes of layers and benchmarks, and some that no tile divides.
    #[test]
    fn sizes_that_were_held_out_are_met() {
        let held_out = parsed(&file(include_str!("../../cards/h200.toml")).held_out[&Dtype::F16]);
        assert_eq!(held_out.len(), 30);
        // The library takes five times as long where a side is odd: padded, it would not.
        let even = held_out.iter().filter(|(sizes, _)| sizes.iter().all(|side| side % 4 == 0));
        let errors = even.map(|(sizes, us)| {
            let predicted = Card::h200().dense_us(*sizes, Dtype::F16);
            eprintln!("{sizes:?}: {:.3} of {us}", predicted / us);
            (predicted / us).ln()
        });
        let [median, most, worst] = quantiles(errors);
        eprintln!("errors: median {median:.3}, 0.9 {most:.3}, worst {worst:.3}");
        assert!(median < 0.04 && most < 0.10 && worst < 0.15, "{median} {most} {worst}");
    }

    #[test]
    fn any_size_has_a_time_that_is_sensible() {
        let us = |sizes, dtype| Card::h200().dense_us(sizes, dtype);
        for dtype in [Dtype::F16, Dtype::BF16, Dtype::E4M3, Dtype::I8, Dtype::F32] {
            for sizes in [[0, 0, 0], [1, 1, 1], [1, 4096, 4096], [131_072, 128, 8192], [65_536, 65_536, 65_536]] {
                assert!(us(sizes, dtype).is_finite() && us(sizes, dtype) > 3.0, "{sizes:?} {dtype}");
            }
        }
        assert_eq!(us([4096; 3], Dtype::BF16), us([4096; 3], Dtype::F16));
        assert_eq!(us([2003, 4096, 2003], Dtype::F16), us([2008, 4096, 2008], Dtype::F16));
        assert!(us([8192; 3], Dtype::E4M3) < 0.6 * us([8192; 3], Dtype::F16));
        // 65536^3 at the rates of large products.
        assert!((0.8e6..1.3e6).contains(&us([65_536; 3], Dtype::F16)));
    }
}
