#![allow(clippy::unwrap_used)]

use bsr_runtime::{Bsr, Layout};

use super::*;
use crate::pick::Table;
use crate::{Source, Workload};

fn of(pattern: Pattern, block: (usize, usize)) -> Sparse {
    let matrix = Bsr::<f32>::generate(pattern, 1024, 1024, block, 0).unwrap();
    Sparse::from_dense(&matrix.to_dense(Layout::RowMajor)).unwrap()
}

fn candidate(advice: &Advice, block: [usize; 2]) -> &Candidate {
    advice.candidates.iter().find(|c| c.block == block).unwrap()
}

#[test]
fn a_full_matrix_stays_dense() {
    let full = of(Pattern::Random(1.0), (64, 64));
    for n in [4096, 512, 16] {
        let blocks = [(16, 16), (64, 64), (128, 64), (128, 128)];
        let advice = advise(&full, &blocks, &Request { n, ..Request::default() }, &Card::h200()).unwrap();
        assert!(advice.candidates.iter().all(|c| c.reordered.is_none() && c.original.fill_in == 1.0));
        assert!(advice.candidates.iter().all(|c| !matches!(c.verdict(), Verdict::Faster(_))), "{n}");
        assert!(advice.best().unwrap().speedup() <= Some(1.0) && advice.spread == Spread::Dense);
        if n == 4096 {
            assert!(matches!(candidate(&advice, [16, 16]).verdict(), Verdict::Slower(times) if times > 2.0));
        }
    }
}

/// Products whose kernels were timed on an H200: where the prediction calls blocks faster than the dense library, they
/// were, by the best time that was measured.
#[test]
fn what_is_called_faster_was_measured_to_be_faster() {
    let card = Card::h200();
    let mut called = 0;
    for tuned in Table::shipped().tuned().iter().filter(|tuned| tuned.device.name == card.name) {
        let Workload { facts, m, n, k, ref source, seed } = tuned.problem.workload;
        let Source::Pattern(words) = source else { continue };
        let ((bm, bk), spec) = (facts.block(), facts.spec(64));
        if facts.to_string() != format!("bm = {bm}, bk = {bk}") {
            continue;
        }
        let structure = words.parse::<Pattern>().unwrap().structure(m, k, (bm, bk), seed).unwrap();
        let dense_us = card.dense_us([m, n, k], spec.a);
        let (_, predicted) = model::fastest(&kernels((bm, bk), n, spec.a).unwrap(), &structure, n, &card)
            .map(|(plan, predicted)| (plan.spec().to_string(), predicted))
            .unwrap();
        let verdict = Verdict::of(dense_us / predicted.us, SURE_PREDICTED, structure.density() >= 1.0);
        eprintln!("{}: {verdict}, measured {:.2}", tuned.problem.key(), dense_us / tuned.us);
        if let Verdict::Faster(times) = verdict {
            called += 1;
            let measured = dense_us / tuned.us;
            assert!(measured > 1.0 && times < 1.35 * measured, "{}: {times:.2}, {measured:.2}", tuned.problem.key());
        }
    }
    assert!(called >= 5, "{called}");
}

#[test]
fn nonzeros_anywhere_are_unstructured_and_in_blocks_are_not() {
    let of = |sparse: &Sparse| {
        let blocks = [(16, 16), (64, 64)];
        advise(sparse, &blocks, &Request { n: 512, ..Request::default() }, &Card::h200()).unwrap()
    };
    // 2 % of all values, nowhere in particular.
    let place = |at: u64| {
        let mixed = (at ^ 0x5555).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 44
    };
    let mut places: Vec<u64> = (1..20_972).map(place).collect();
    places.sort_unstable();
    places.dedup();
    let anywhere = places.into_iter().map(|place| ((place >> 10) as u32, (place & 1023) as u32, 1.0)).collect();
    let advice = of(&Sparse::from_triplets(1024, 1024, anywhere).unwrap());
    assert_eq!(advice.spread, Spread::Unstructured);
    assert!(advice.candidates.iter().all(|c| !matches!(c.verdict(), Verdict::Faster(_))));
    assert_eq!(of(&of_pattern(0.1)).spread, Spread::Blocks);
}

fn of_pattern(density: f64) -> Sparse {
    of(Pattern::Random(density), (64, 64))
}

#[test]
fn pruning_takes_norm_instead_of_filling_in() {
    let full = of(Pattern::Random(1.0), (64, 64));
    let request = Request { keep: Some(Keep::Fraction(0.25)), reorder: false, ..Request::default() };
    let advice = advise(&full, &[(64, 64), (128, 128)], &request, &Card::h200()).unwrap();
    for candidate in &advice.candidates {
        assert_eq!((candidate.original.density, candidate.original.fill_in), (0.25, 1.0));
        let norm = candidate.original.norm.unwrap();
        assert!(norm > 0.5 && norm < 0.6, "{norm}");
    }
}

#[test]
fn what_was_measured_outweighs_what_was_predicted() {
    let sparse = of(Pattern::Random(0.1), (64, 64));
    let mut advice = advise(&sparse, &[(64, 64), (128, 128)], &Request::default(), &Card::h200()).unwrap();
    let measured = |us| Some(Measured { spec: String::new(), us, dense_us: Some(30.0), useful_tflops: 1.0 });
    advice.candidates[1].measured = measured(20.0);
    assert_eq!(advice.best().unwrap().block, [128, 128]);
    advice.candidates[0].measured = measured(10.0);
    assert_eq!((advice.best().unwrap().block, advice.best().unwrap().speedup()), ([64, 64], Some(3.0)));
}

#[test]
fn useful_operations_are_those_on_nonzeros() {
    let diagonal = Sparse::from_triplets(256, 256, (0..256).map(|i| (i, i, 1.0)).collect()).unwrap();
    let request = Request { n: 1000, ..Request::default() };
    let advice = advise(&diagonal, &[(64, 32)], &request, &Card::h200()).unwrap();
    let original = &advice.candidates[0].original;
    assert_eq!((original.blocks, original.fill_in), (8, 64.0));
    let useful = original.useful_tflops.unwrap() * original.us().unwrap() * 1e6;
    assert!((useful - 2.0 * 256.0 * 1000.0).abs() < 1e-3);
}
