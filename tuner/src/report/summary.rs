//! What a group comes to: the best kernel, what the card could do, and what else computes the product.

use bsr_runtime::roofs::Origin;

use super::roofline::{Bound, Roof};
use super::words;
use crate::groups::{Group, Point};
use crate::model::{Known, SURE_PREDICTED, Verdict, for_gpu};
use crate::{DeviceKind, Record};

/// What ratios are of: a dense product of as many operations. It computes another product, so it is a yardstick and no
/// alternative.
const YARDSTICK: &str = "(equal FLOPs)";
/// The dense library on the whole matrix.
const DENSE: &str = "(dense)";
/// Times that differ by less are called equal.
const EQUAL: f64 = 0.03;

/// A group in short.
#[derive(Debug)]
pub(super) struct Summary<'g, 'r> {
    pub(super) winner: Option<&'g Point<'r>>,
    pub(super) tflops: Option<f64>,
    pub(super) ratio: Option<f64>,
    /// TFLOP/s of the dense library in the winner's rounds.
    pub(super) dense_tflops: Option<f64>,
    pub(super) roof: Option<Roof>,
    /// Other libraries' kernels that compute the same product, fastest first.
    pub(super) alternatives: Vec<Alternative<'r>>,
    pub(super) advice: Advice,
}

/// Another way to the same product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alternative<'r> {
    pub(super) name: &'r str,
    pub(super) us: f64,
    /// Operations on stored blocks over its time: what its time is worth in ours.
    pub(super) tflops: Option<f64>,
}

/// Whether to use a kernel of ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Advice {
    /// Ours is the fastest; by how much.
    Ours(String),
    /// Another library's is; by how much.
    Theirs(String),
    /// As fast as one another, or nothing to compare with.
    Open(String),
}

impl Advice {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Ours(text) | Self::Theirs(text) | Self::Open(text) => text,
        }
    }

    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Ours(_) => "ours",
            Self::Theirs(_) => "theirs",
            Self::Open(_) => "open",
        }
    }
}

/// Whether a baseline is the yardstick.
pub(super) fn is_yardstick(record: &Record) -> bool {
    record.baseline && record.subject.ends_with(YARDSTICK)
}

impl<'g, 'r> Summary<'g, 'r> {
    pub(super) fn of(group: &'g Group<'r>) -> Self {
        let winner = group.winner();
        let record = winner.map(|point| point.record);
        let tflops = record.and_then(Record::tflops);
        let ratio = record.and_then(|record| record.dense.as_ref()).map(|dense| dense.ratio);
        let mut alternatives: Vec<Alternative<'r>> = group
            .baselines
            .iter()
            .filter(|record| !is_yardstick(record) && record.verdict.has_time())
            .filter_map(|record| {
                let us = record.timing.as_ref()?.median_us;
                Some(Alternative { name: &record.subject, us, tflops: record.tflops() })
            })
            .collect();
        alternatives.sort_by(|a, b| a.us.total_cmp(&b.us));
        let us = record.and_then(|record| record.timing.as_ref()).map(|timing| timing.median_us);
        Self {
            winner,
            tflops,
            ratio,
            dense_tflops: tflops.zip(ratio).filter(|(_, ratio)| *ratio > 0.0).map(|(rate, ratio)| rate / ratio),
            roof: Roof::of(group.problem, group.device, &group.roofs),
            advice: match alternatives.iter().any(|other| other.name.ends_with(DENSE)) {
                true => None,
                false => stay_dense(group, us),
            }
            .unwrap_or_else(|| advise(us, alternatives.first())),
            alternatives,
        }
    }

    /// What part of the roof the winner reaches.
    pub(super) fn of_roof(&self) -> Option<f64> {
        Some(self.tflops? / self.roof?.tflops)
    }
}

/// What to say of the dense library on the whole matrix, zeros and all, where it was not timed: something where it should be
/// as fast, on cards whose times of the library were measured.
fn stay_dense(group: &Group<'_>, ours: Option<f64>) -> Option<Advice> {
    let (problem, (card, known)) = (group.problem, for_gpu(&group.device.name, None));
    if group.device.kind != DeviceKind::Gpu || known != Known::Measured {
        return None;
    }
    let dense_us = card.dense_us_of(problem)?;
    match Verdict::of(dense_us / ours?, SURE_PREDICTED, problem.features.density() >= 1.0) {
        Verdict::Slower(times) => Some(Advice::Theirs(format!(
            "do not use bsr here: the dense library should take {dense_us:.1} us for the whole matrix, and be {} as fast",
            words::times(times)
        ))),
        Verdict::Full => Some(Advice::Open("every block is stored: the dense library computes the same".to_owned())),
        Verdict::NoKernel | Verdict::Faster(_) | Verdict::Even => None,
    }
}

fn advise(ours: Option<f64>, best: Option<&Alternative<'_>>) -> Advice {
    match (ours, best) {
        (None, None) => Advice::Open("no kernel here was right and timed".to_owned()),
        (None, Some(best)) => Advice::Theirs(format!("use {}: no kernel of ours was right and timed", best.name)),
        (Some(_), None) => Advice::Open("no other library was timed on this product".to_owned()),
        (Some(ours), Some(best)) if best.us > ours * (1.0 + EQUAL) => {
            Advice::Ours(format!("use bsr: {} as fast as {}, the best other", words::times(best.us / ours), best.name))
        }
        (Some(ours), Some(best)) if best.us * (1.0 + EQUAL) < ours => {
            Advice::Theirs(format!("do not use bsr here: {} is {} as fast", best.name, words::times(ours / best.us)))
        }
        (Some(_), Some(best)) => Advice::Open(format!("no difference above 3 % to {}", best.name)),
    }
}

/// A roof in words: `990 (arithmetic, data sheet)`.
pub(super) fn roof_words(roof: &Roof) -> String {
    let what = match roof.bound {
        Bound::Tensor => "arithmetic",
        Bound::Memory => "memory",
    };
    let origin = match roof.origin {
        Origin::Measured => "measured",
        Origin::DataSheet => "data sheet",
    };
    format!("{} ({what}, {origin})", words::number(roof.tflops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_says_plainly_who_is_faster() {
        let other = |us| Alternative { name: "cusparse bsr", us, tflops: None };
        assert_eq!(
            advise(Some(100.0), Some(&other(160.0))),
            Advice::Ours("use bsr: 1.6x as fast as cusparse bsr, the best other".to_owned())
        );
        assert_eq!(
            advise(Some(130.0), Some(&other(100.0))),
            Advice::Theirs("do not use bsr here: cusparse bsr is 1.3x as fast".to_owned())
        );
        assert!(matches!(advise(Some(100.0), Some(&other(102.0))), Advice::Open(_)));
        assert!(matches!(advise(None, Some(&other(102.0))), Advice::Theirs(_)));
        assert!(matches!(advise(Some(1.0), None), Advice::Open(_)));
    }
}
