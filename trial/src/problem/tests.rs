#![allow(clippy::unwrap_used)]

use bsr_runtime::write::{self, Options};
use bsr_runtime::{Pattern, Permutation};
use half::f16;

use super::defaults::Sizes as Defaults;
use super::source::scale;
use super::*;
use crate::FailureKind;
use crate::subject::Subject;

fn problem(pattern: &str, m: usize, n: usize, k: usize) -> DrawnProblem {
    let source = Source::Pattern { pattern: pattern.parse().unwrap(), k, is_default: false };
    DrawnProblem { source, given: (Some(m), Some(n), None), defaults: (1, 1, 1), batch: None, seed: 0 }
}

#[test]
fn values_that_f16_cannot_multiply_are_scaled_by_a_power_of_two() {
    assert_eq!(scale(1.0), 0);
    assert_eq!(scale(256.0), 0);
    assert_eq!(scale(0.0), 0);
    assert_eq!(scale(257.0), -9);
    assert_eq!(scale(2_f64.powi(40)), -40);
    assert_eq!(scale(1e-3), 9);
    for largest in [3e11, 7e-9, f64::MIN_POSITIVE, f64::MAX] {
        let scaled = largest * f64::from(scale(largest)).exp2();
        assert!(scaled <= 1.0, "{largest} {scaled}");
    }
}

#[test]
fn a_simulated_problem_is_small_and_can_be_had_in_any_block() {
    for bk in [16, 112, 256, 512] {
        let defaults = Defaults::simulator((64, bk));
        for k in [1, 100, defaults.k] {
            let structure = defaults.pattern(k, false).structure(defaults.m, k, (64, bk), 0).unwrap();
            assert!(structure.executed_flops(defaults.n) <= 1 << 30, "{bk} {k}");
        }
    }
    assert_eq!(Defaults::simulator((512, 112)).pattern(784, false), Pattern::TopK(4));
    for defaults in [Defaults::GPU, Defaults::simulator((512, 112))] {
        assert_eq!(defaults.pattern(4096, true), Pattern::Random(0.25));
    }
}

#[test]
fn the_default_pattern_fits_every_operation() {
    for op in ["dsd", "dds", "sdd"] {
        for (bk, transpose) in [(32, "off"), (64, "on"), (112, "off"), (256, "off"), (512, "on")] {
            let spec: KernelSpec =
                format!("bm = 64, bn = 64, bk = {bk}, op = {op}, transpose = {transpose}").parse().unwrap();
            let defaults = Defaults::simulator((64, bk));
            let source =
                Source::Pattern { pattern: defaults.pattern(defaults.k, false), k: defaults.k, is_default: true };
            let given = (None, None, None);
            let problem =
                DrawnProblem { source, given, defaults: (defaults.m, defaults.n, defaults.k), batch: None, seed: 0 };
            let facts = problem.facts(&spec).unwrap_or_else(|failure| panic!("{spec}: {}", failure));
            assert!(facts.structure.nnzb() > 0, "{spec}");
            assert!(facts.structure.density() < 0.8 || facts.structure.block_cols() == 1, "{spec}");
        }
    }
}

#[test]
fn a_problem_says_what_it_is() {
    let problem = problem("topk:4", 1024, 512, 1120);
    let spec = KernelSpec::new(512, 128, 112);
    assert_eq!(problem.about(&spec).unwrap().problem, "C[1024, 512] = A[1024, 1120] * B[1120, 512]");
    let facts = problem.facts(&spec).unwrap();
    assert_eq!(problem.sparse_words(&facts), "8 of 20 blocks of 512 x 112 stored (40.0 %), topk:4, seed 0");
    assert!(facts.fill_in.is_none() && problem.sparse::<f16>(&spec).unwrap().1.is_none());
}

#[test]
fn what_cannot_be_had_is_refused_before_anything_is_drawn() {
    let spec = KernelSpec::new(512, 128, 112);
    assert!(problem("topk:11", 1024, 512, 1120).facts(&spec).is_err());
    if cfg!(target_os = "linux") {
        let huge = problem("random:0.000001", 1 << 27, 1 << 27, 1 << 27).facts(&KernelSpec::new(512, 128, 512));
        assert_eq!(huge.unwrap_err().kind(), FailureKind::BadInput);
    }
    assert!(problem("topk:10", 1024, 512, 1120).facts(&spec).is_ok());
}

#[test]
fn a_file_in_8_bits_is_as_wide_as_what_is_drawn() {
    for (dtype, spread) in [(Dtype::E4M3, 1.0), (Dtype::E5M2, 1.0), (Dtype::I8, 20.0)] {
        for largest in [1.0 / 256.0, 0.3, 1.0, 4.0, 80.0, 256.0] {
            let scaled = largest * f64::from(narrow_exponent(largest, dtype)).exp2() / spread;
            assert!(scaled > 2.0 && scaled <= 4.0, "{dtype} {largest} {scaled}");
        }
        assert_eq!(narrow_exponent(0.0, dtype), 0);
    }
    assert_eq!(narrow_exponent(1e-3, Dtype::BF16), 0);

    let sparse = Sparse::from_triplets(40, 40, vec![(0, 0, 1.0), (39, 39, -0.25)]).unwrap();
    let problem = DrawnProblem {
        source: Source::File { path: "a.mtx".into(), tensor: None, sparse, exponent: 0 },
        given: (None, Some(8), None),
        defaults: (16, 16, 16),
        batch: None,
        seed: 0,
    };
    let spec = KernelSpec::new(16, 16, 16);
    let facts = problem.facts(&spec.with_dtype(Dtype::I8)).unwrap();
    let words = problem.sparse_words(&facts);
    assert!(words.ends_with("a.mtx, seed 0, values * 2^6"), "{words}");
    assert_eq!(problem.sparse::<i8>(&spec).unwrap().0.values()[0], 64);
    assert_eq!(problem.sparse::<f16>(&spec).unwrap().0.values()[0], f16::ONE);
}

#[test]
fn the_sparse_factor_is_given_as_it_is_stored() {
    let problem = problem("topk:1", 100, 200, 300);
    let sizes = |text: &str| {
        let Sizes { sparse, dense, along, .. } = problem.sizes(&text.parse().unwrap());
        (sparse, dense, along)
    };
    let block = "bm = 64, bn = 64, bk = 64";
    assert_eq!(sizes(block), ((100, 300), (300, 200), 200));
    assert_eq!(sizes(&format!("{block}, transpose = on")), ((300, 100), (300, 200), 200));
    assert_eq!(sizes(&format!("{block}, op = dds")), ((300, 200), (100, 300), 100));
    assert_eq!(sizes(&format!("{block}, op = dds, transpose = on")), ((200, 300), (100, 300), 100));
    assert_eq!(sizes(&format!("{block}, op = sdd")), ((100, 200), (300, 200), 300));
    assert_eq!(sizes(&format!("{block}, op = sdd, transpose = on")), ((200, 100), (300, 200), 300));
}

#[test]
fn a_file_says_two_of_the_extents() {
    let sparse = Sparse::from_triplets(40, 50, vec![(0, 0, 1.0)]).unwrap();
    let source = Source::File { path: "a.mtx".into(), tensor: None, sparse, exponent: 0 };
    let problem = DrawnProblem { source, given: (Some(7), None, None), defaults: (16, 16, 9), batch: None, seed: 0 };
    let spec = |text: &str| format!("bm = 16, bn = 16, bk = 16{text}").parse::<KernelSpec>().unwrap();
    let Sizes { m, n, k, .. } = problem.sizes(&spec(", op = dds, transpose = on"));
    assert_eq!((m, n, k), (7, 40, 50));
    let Sizes { m, n, k, .. } = problem.sizes(&spec(", op = sdd, transpose = on"));
    assert_eq!((m, n, k), (50, 40, 9));
    let refused = problem.facts(&spec("")).unwrap_err().to_string();
    assert!(refused.contains("--m beside --matrix") && refused.contains("--n is free in op = dsd"), "{refused}");
}

#[test]
fn rows_of_a_reordered_file_go_back_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Bsr::<f16>::generate(Pattern::Random(0.5), 100, 96, (32, 32), 0).unwrap();
    let order = Permutation::new((0..100).rev().collect()).unwrap();
    let spec = |text: &str| text.parse::<KernelSpec>().unwrap();
    for (name, row_order) in [("reordered.npz", Some(&order)), ("plain.npz", None)] {
        let path = folder.path().join(name);
        write::save(&matrix, &path, Options { row_order, overwrite: false }).unwrap();
        let problem = DrawnProblem::of(&path, read::load(&path, 0).unwrap(), 64, 0).unwrap();
        let put_back = problem.inputs(&spec("bm = 32, bn = 64, bk = 32, permute = on"));
        assert_eq!(put_back.rows_to() == Some(&order), row_order.is_some());
        assert!(put_back.rows_to().is_some());
        assert!(problem.inputs(&spec("bm = 32, bn = 64, bk = 32")).rows_to().is_none());
    }
}
