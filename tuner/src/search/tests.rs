#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use proptest::prelude::*;

use super::{Strategy, *};
use crate::{Facts, Space};

fn specs(text: &str) -> Vec<KernelSpec> {
    let points = Space::from_text(text).unwrap().points(&"bm = 128, bk = 64".parse::<Facts>().unwrap()).unwrap();
    points.legal.into_iter().map(|point| point.spec).collect()
}

fn many() -> Vec<KernelSpec> {
    specs(
        "bn = [64, 128, 192, 256], stages = [2, 3, 4], cluster = [1, 2], schedule = [balanced, strided], k_step = [32, 64]",
    )
}

#[test]
fn every_search_gives_every_point_once() {
    let candidates: Vec<(KernelSpec, f64)> =
        many().into_iter().enumerate().map(|(at, spec)| (spec, 10.0 + (at * 7 % 31) as f64)).collect();
    for strategy in [Strategy::Guided, Strategy::Exhaustive, Strategy::Random { seed: 3 }] {
        let mut search = strategy.search(&candidates);
        let mut given = HashSet::new();
        while let Some(point) = search.next() {
            assert!(given.insert(point), "{strategy:?} gives {point} twice");
            search.observe(point, 5.0 + point as f64);
        }
        assert_eq!(given.len(), candidates.len(), "{strategy:?}");
        assert_eq!(strategy.search(&[]).next(), None);
    }
}

#[test]
fn random_orders_are_those_of_their_seeds() {
    let order = |seed| Random::new(200, seed).collect::<Vec<_>>();
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!(!order(1).is_sorted());
    assert!(Exhaustive::new(200).is_sorted());
}

#[test]
fn the_best_predicted_comes_first_and_its_neighbours_do_not_crowd_out_others() {
    let specs = many();
    // Wide tiles are predicted best, all alike.
    let us = |spec: &KernelSpec| 100.0 + f64::from(256 - spec.bn) / 16.0 + f64::from(spec.stages.unwrap()) / 100.0;
    let candidates: Vec<(KernelSpec, f64)> = specs.iter().map(|spec| (*spec, us(spec))).collect();
    let order: Vec<usize> = Guided::new(&candidates).collect();
    let best = candidates.iter().map(|(_, us)| *us).min_by(f64::total_cmp).unwrap();
    assert_eq!(candidates[order[0]].1, best);
    let differ =
        |x: usize, y: usize| settings(&specs[x]).iter().zip(settings(&specs[y])).filter(|(x, y)| **x != *y).count();
    // While there is choice, no three in a row are each other's neighbours.
    for three in order[..order.len() / 2].windows(3) {
        let near = differ(three[0], three[2]) <= 1 && differ(three[1], three[2]) <= 1;
        assert!(!near, "{:?}", three.iter().map(|at| specs[*at].to_string()).collect::<Vec<_>>());
    }
    // Bad ones are not preferred for being different.
    let far: Vec<(KernelSpec, f64)> =
        specs.iter().map(|spec| (*spec, if spec.cluster == Some(2) { 1000.0 } else { us(spec) })).collect();
    let first: Vec<usize> = Guided::new(&far).take(specs.len() / 2).collect();
    assert!(first.iter().all(|at| specs[*at].cluster == Some(1)));
}

#[test]
fn what_is_measured_corrects_what_is_predicted() {
    let specs = many();
    // The model likes clusters, which cost a third, and two stages, which cost half.
    let model = |spec: &KernelSpec| {
        let cluster = if spec.cluster == Some(2) { 0.8 } else { 1.0 };
        100.0 * cluster * (1.0 + f64::from(spec.stages.unwrap()) / 8.0) * (1.0 + 8.0 / f64::from(spec.bn))
    };
    let truth = |spec: &KernelSpec| {
        let stages = if spec.stages == Some(2) { 1.5 } else { 1.0 };
        let cluster = if spec.cluster == Some(2) { 1.33 } else { 1.0 };
        model(spec) * stages * cluster
    };
    let candidates: Vec<(KernelSpec, f64)> = specs.iter().map(|spec| (*spec, model(spec))).collect();
    let best = (0..specs.len()).min_by(|x, y| truth(&specs[*x]).total_cmp(&truth(&specs[*y]))).unwrap();
    let until_best = |tell: bool| {
        let mut search = Guided::new(&candidates);
        let mut asked = 0;
        while let Some(point) = search.next() {
            asked += 1;
            if tell {
                search.observe(point, truth(&specs[point]));
            }
            if point == best {
                break;
            }
        }
        (asked, search)
    };
    let ((corrected, mut search), (blind, _)) = (until_best(true), until_best(false));
    eprintln!("the best of {} is found after {corrected} with corrections, {blind} without", specs.len());
    assert!(corrected * 2 <= blind && corrected <= specs.len() / 4, "{corrected} {blind}");
    let ranks = |us: Vec<f64>| rank_correlation(&us, &specs.iter().map(truth).collect::<Vec<_>>()).unwrap();
    let before = ranks(specs.iter().map(model).collect());
    let after = ranks((0..specs.len()).map(|at| search.corrected_us(at)).collect());
    assert!(after > 0.5 && before < 0.0, "{before} {after}");
}

#[test]
fn nonsense_is_neither_proposed_early_nor_believed() {
    let specs = many();
    let mut candidates: Vec<(KernelSpec, f64)> = specs.iter().map(|spec| (*spec, 100.0)).collect();
    candidates[0].1 = f64::NAN;
    candidates[1].1 = -1.0;
    candidates[2].1 = f64::INFINITY;
    let mut search = Guided::new(&candidates);
    for point in 3..20 {
        search.observe(point, f64::NAN);
        search.observe(point, 0.0);
    }
    search.observe(1_000_000, 3.0);
    search.observe(0, 1.0);
    let order: Vec<usize> = search.collect();
    let last: HashSet<usize> = order[order.len() - 3..].iter().copied().collect();
    assert_eq!(last, HashSet::from([0, 1, 2]));
}

#[test]
fn rank_correlations_are_those_of_the_textbook() {
    let close = |x: &[f64], y: &[f64], expected: f64| {
        let found = rank_correlation(x, y).unwrap();
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    };
    close(&[1.0, 2.0, 3.0], &[10.0, 200.0, 3000.0], 1.0);
    close(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0], -1.0);
    // 1 - 6 * (25 + 16 + 1 + 36 + 1 + 25 + 9 + 81) / (10 * 99) with two pairs equal: the IQ and television example.
    let iq = [86.0, 97.0, 99.0, 100.0, 101.0, 103.0, 106.0, 110.0, 112.0, 113.0];
    let hours = [2.0, 20.0, 28.0, 27.0, 50.0, 29.0, 7.0, 17.0, 6.0, 12.0];
    close(&iq, &hours, -29.0 / 165.0);
    // Ties: ranks 1.5 1.5 3 4 against 1 2 3.5 3.5.
    close(&[1.0, 1.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 3.0], 4.0 / 4.5);
    for (x, y) in [(&[1.0][..], &[1.0][..]), (&[], &[]), (&[1.0, 1.0], &[1.0, 2.0]), (&[1.0, f64::NAN], &[1.0, 2.0])] {
        assert_eq!(rank_correlation(x, y), None);
    }
}

proptest! {
    #[test]
    fn rank_correlation_knows_order_alone(pairs in prop::collection::vec((-100_i32..100, -100_i32..100), 2..40)) {
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(x, y)| (f64::from(*x), f64::from(*y))).unzip();
        let found = rank_correlation(&x, &y);
        let stretched: Vec<f64> = x.iter().map(|x| (x / 50.0).exp()).collect();
        let again = rank_correlation(&stretched, &y);
        prop_assert_eq!(found.is_some(), again.is_some());
        if let (Some(found), Some(again)) = (found, again) {
            prop_assert!((found - again).abs() < 1e-9 && (-1.0..=1.0).contains(&found));
            let turned: Vec<f64> = y.iter().map(|y| -y).collect();
            prop_assert!((rank_correlation(&x, &turned).unwrap() + found).abs() < 1e-9);
            prop_assert!((rank_correlation(&y, &x).unwrap() - found).abs() < 1e-9);
        }
    }
}
