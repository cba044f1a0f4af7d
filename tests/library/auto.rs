//! Products whose kernel is chosen for their operands, on a real GPU; choices among the members of a family, anywhere.
//!
//! Without a GPU the first say SKIPPED on stderr and pass; with `BSR_REQUIRE_GPU` set they fail instead.
use std::io::Write as _;
use std::sync::Arc;

use bsr::attention::{BlockList, DeviceTensor, HeadOrder, Mask, Shape, Sharing, Tensor};
use bsr::prelude::*;
use bsr::tuner::model::{calibrate_in_small, for_gpu};
use bsr::tuner::pick::{Gpu, Why};
use bsr::{
    Chooser, FirstFit, ProblemFacts, SplitK, Tuner, auto, family, reference, tune_attention, tune_attention_blocks,
};

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn square(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = [16, 64, 256], bk = 64)]
fn widths(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn biased(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> (Dense<f16>, Rows<f32>) {
    let x = acc + bias;
    (x, row_sum(x))
}

#[bsr_kernel(bm = 64, bn = 256, bk = 64, stages = [2, 3])]
fn depths(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

#[bsr_kernel(bm = 64, bn = [64, 32], bk = 64, transpose = on)]
fn transposed(a: Dense<f16>, b: Bsr<f16>) -> Dense<f16>;

#[bsr_kernel(op = attention, bm = 64, bn = 64, bk = 128)]
fn attend(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16>;

fn device() -> Option<Device> {
    match Device::open(0) {
        Ok(device) if device.info().compute_capability == (9, 0) => Some(device),
        other => {
            let why = other.err().map_or("no GPU of compute capability 9.0".to_owned(), |error| error.to_string());
            assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set: {why}");
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {}: tests/library/auto.rs",
                why.lines().next().unwrap_or_default()
            );
            None
        }
    }
}

#[test]
fn a_card_that_is_measured_in_small_is_nearly_the_one_that_was_measured_at_length() {
    let Some(device) = device() else { return };
    let (shipped, _) = for_gpu(&device.info().name, None);
    let measured = calibrate_in_small(&device).unwrap().card(shipped);
    assert_eq!((measured.sms, measured.rates), (shipped.sms, shipped.rates));
    let rates = |card: bsr::tuner::model::Card| [card.dense_tflops, card.l2_tbs, card.hbm_tbs];
    for (here, there) in rates(measured).into_iter().zip(rates(shipped)) {
        assert!((0.7..1.4).contains(&(here / there)), "{measured:?}, and {shipped:?} is shipped");
    }
}

#[test]
fn the_chosen_kernel_multiplies_whatever_the_block() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let product = Auto::<Dsd, f16, f16, f16>::new(&device);
    for (block, n) in [((64, 64), 200), ((32, 32), 256), ((16, 16), 128), ((512, 112), 512), ((24, 40), 96)] {
        let a = Bsr::<f16>::generate(Pattern::Random(0.3), 1000, 900, block, 2).unwrap();
        let b = Dense::<f16>::normal(900, n, Layout::RowMajor, 3);
        let want = reference::multiply(&a, &b).unwrap();
        let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
        let mut c = DeviceDense::<f16>::zeros(&device, 1000, n, Layout::RowMajor).unwrap();
        product.launch(&stream, (&a, &b), &mut c).unwrap();
        stream.synchronize().unwrap();
        let error = reference::relative_error(&c.download().unwrap().to_f64(), &want);
        assert!(error < 1e-3, "{block:?}: {error}\n{}", product.explain((&a, &b)).unwrap());
    }
}

#[test]
fn a_sparse_second_factor_and_a_kernel_of_the_attribute_are_chosen_for_too() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let a = Dense::<f16>::normal(256, 512, Layout::RowMajor, 3);
    let b = Bsr::<f16>::generate(Pattern::Random(0.3), 512, 640, (64, 64), 2).unwrap();
    let want: Vec<f64> =
        reference::multiply(&Bsr::from_dense(&a, (64, 64), Blocks::NonZero).unwrap(), &b.to_dense(Layout::RowMajor))
            .unwrap();
    let (a, b) = (DeviceDense::upload(&device, &a).unwrap(), DeviceBsr::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 256, 640, Layout::RowMajor).unwrap();
    Auto::<Dds, f16, f16, f16>::new(&device).launch(&stream, (&a, &b), &mut c).unwrap();
    stream.synchronize().unwrap();
    assert!(reference::relative_error(&c.download().unwrap().to_f64(), &want) < 1e-3);

    let a = Bsr::<f16>::generate(Pattern::TopK(3), 512, 512, (64, 64), 2).unwrap();
    let b = Dense::<f16>::normal(512, 256, Layout::RowMajor, 3);
    let want = reference::multiply(&a, &b).unwrap();
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 512, 256, Layout::RowMajor).unwrap();
    square::auto(&device).launch(&stream, (&a, &b), &mut c).unwrap();
    stream.synchronize().unwrap();
    assert!(reference::relative_error(&c.download().unwrap().to_f64(), &want) < 1e-3);
}

#[test]
fn the_first_use_measures_and_later_ones_do_not() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    // A shape that no table has.
    let a = Bsr::<f16>::generate(Pattern::Random(0.2), 1984, 1344, (64, 64), 2).unwrap();
    let b = Dense::<f16>::normal(1344, 1000, Layout::RowMajor, 3);
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 1984, 1000, Layout::RowMajor).unwrap();
    let tuner = Arc::new(auto::tuner(&device).first_use(FirstUse::Measure));
    let product = Auto::<Dsd, f16, f16, f16>::with(&device, tuner, square::SPEC);
    product.launch(&stream, (&a, &b), &mut c).unwrap();
    let choice = product.explain((&a, &b)).unwrap();
    assert!(matches!(choice.why, Why::Measured { us, of } if us > 0.0 && of > 1), "{choice}");
    // Another measurement would have other times.
    for _ in 0..3 {
        assert_eq!(product.explain((&a, &b)).unwrap().why, choice.why);
    }
}

#[test]
fn sampled_products_are_chosen_for_and_measured_too() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let (a, b) = (Dense::<f16>::normal(700, 300, Layout::RowMajor, 1), Dense::normal(300, 900, Layout::RowMajor, 2));
    let pattern = Pattern::Random(0.3).structure(700, 900, (64, 64), 3).unwrap();
    let want = reference::sddmm(&a, &b, &pattern).unwrap();
    let (a, b) = (DeviceDense::upload(&device, &a).unwrap(), DeviceDense::<f16>::upload(&device, &b).unwrap());
    let mut c = DeviceBsr::<f16>::zeros(&device, &pattern).unwrap();
    let measuring = Arc::new(auto::tuner(&device).first_use(FirstUse::Measure));
    for product in [Auto::<Sdd, f16, f16, f16>::new(&device), Auto::with(&device, measuring, square::SPEC)] {
        c.values_mut().fill_bytes(0xFF).unwrap();
        product.launch(&stream, (&a, &b), &mut c).unwrap();
        stream.synchronize().unwrap();
        let got: Vec<f64> = c.values().to_vec().unwrap().iter().map(|value| f64::from(value.to_f32())).collect();
        let choice = product.explain((&a, &b, &c)).unwrap();
        assert!(reference::relative_error(&got, &want) < 1e-3, "{choice}");
        assert_eq!(choice.spec.op, bsr::Op::Sdd);
    }
}

#[test]
fn products_of_two_sparse_factors_are_chosen_for_and_measured_too() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let a = Bsr::<f16>::generate(Pattern::Random(0.3), 700, 500, (64, 64), 2).unwrap();
    let b = Bsr::<f16>::generate(Pattern::Random(0.3), 500, 600, (64, 64), 3).unwrap();
    let (want, pattern) = {
        let right = b.to_dense(Layout::RowMajor);
        (reference::multiply(&a, &right).unwrap(), a.structure().product(b.structure()).unwrap())
    };
    let [a, b] = [&a, &b].map(|factor| DeviceBsr::upload(&device, factor).unwrap());
    let mut dense = DeviceDense::<f16>::zeros(&device, 700, 600, Layout::RowMajor).unwrap();
    let mut sparse = DeviceBsr::<f16>::zeros(&device, &pattern).unwrap();
    let measuring = || Arc::new(auto::tuner(&device).first_use(FirstUse::Measure));
    for product in [Auto::<Dss, f16, f16, f16>::new(&device), Auto::with(&device, measuring(), square::SPEC)] {
        dense.fill_bytes(0xFF).unwrap();
        product.launch(&stream, (&a, &b), &mut dense).unwrap();
        stream.synchronize().unwrap();
        let choice = product.explain((&a, &b)).unwrap();
        let error = reference::relative_error(&dense.download().unwrap().to_f64(), &want);
        assert!(error < 1e-3 && choice.spec.op == bsr::Op::Dss, "{error}: {choice}");
    }
    for product in [Auto::<Sss, f16, f16, f16>::new(&device), Auto::with(&device, measuring(), square::SPEC)] {
        sparse.values_mut().fill_bytes(0xFF).unwrap();
        product.launch(&stream, (&a, &b), &mut sparse).unwrap();
        stream.synchronize().unwrap();
        let choice = product.explain((&a, &b, &sparse)).unwrap();
        let got = sparse.download().unwrap().to_dense(Layout::RowMajor);
        let error = reference::relative_error(&got.to_f64(), &want);
        assert!(error < 1e-3 && choice.spec.op == bsr::Op::Sss, "{error}: {choice}");
    }
}

#[test]
fn families_and_epilogues_are_launched_by_their_operands() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let a = Bsr::<f16>::generate(Pattern::TopK(3), 512, 512, (64, 64), 2).unwrap();
    let b = Dense::<f16>::normal(512, 256, Layout::RowMajor, 3);
    let mut sums = reference::multiply(&a, &b).unwrap();
    let (a, b) = (DeviceBsr::upload(&device, &a).unwrap(), DeviceDense::upload(&device, &b).unwrap());
    let mut c = DeviceDense::<f16>::zeros(&device, 512, 256, Layout::RowMajor).unwrap();
    let product = widths::auto::<f16, f16, f16>(&device).unwrap();
    product.launch(&stream, (&a, &b), &mut c).unwrap();
    stream.synchronize().unwrap();
    assert!(reference::relative_error(&c.download().unwrap().to_f64(), &sums) < 1e-3);
    let chosen = product.explain((&a, &b)).unwrap().spec;
    assert!(widths::MEMBERS.iter().any(|member| *member.spec() == chosen), "{chosen}");

    let member =
        widths::load_for::<f16, f16, f16>(&device, &family::auto(&device), &widths::problem(a.structure(), 256));
    member.unwrap().launch(&stream, (&a, &b), &mut c).unwrap();
    let (bias, mut rows) = (vec![0.5_f32; 512], DeviceVector::zeros(&device, 512).unwrap());
    let bias = DeviceVector::upload(&device, &bias).unwrap();
    let (inputs, places) = ((&a, &b, biased_inputs { bias: &bias }), (&mut c, &mut rows));
    biased::auto(&device).launch(&stream, inputs, places).unwrap();
    stream.synchronize().unwrap();
    sums.iter_mut().for_each(|sum| *sum += 0.5);
    assert!(reference::relative_error(&c.download().unwrap().to_f64(), &sums) < 1e-3);
    let want: Vec<f64> = sums.chunks(256).map(|row| row.iter().sum()).collect();
    let got: Vec<f64> = rows.download().unwrap().into_iter().map(f64::from).collect();
    assert!(reference::relative_error(&got, &want) < 1e-3);
}

#[test]
fn a_tuner_chooses_among_the_members_of_a_family() {
    let gpu = Gpu { name: "NVIDIA H200".into(), driver: String::new(), capability: (9, 0) };
    let tuner = Tuner::new(gpu);
    let members: Vec<&'static bsr::Member> = widths::MEMBERS.iter().collect();
    let a = Pattern::Random(0.25).structure(4096, 4096, (64, 64), 0).unwrap();
    let chosen = |n: usize| members[Chooser::choose(&tuner, &members, &widths::problem(&a, n))].spec().bn;
    // A wide product reads A least often with wide tiles; a narrow one would waste them.
    assert_eq!((chosen(4096), chosen(16)), (256, 16));
}

#[test]
fn a_tuner_chooses_for_sampled_products_of_a_family() {
    let tuner = Tuner::new(Gpu { name: "NVIDIA H200".into(), driver: String::new(), capability: (9, 0) });
    let members: Vec<&'static bsr::Member> = depths::MEMBERS.iter().collect();
    let pattern = Pattern::Random(0.25).structure(4096, 2048, (64, 64), 0).unwrap();
    let problem = depths::problem(&pattern, 1024);
    assert_eq!((problem.op, problem.m, problem.n, problem.k), (bsr::Op::Sdd, 4096, 2048, 1024));
    assert!(Chooser::choose(&tuner, &members, &problem) < members.len());
    // Without a family too, by the cost model: all kernels of the space are of this operation.
    let workload = bsr::tuner::Workload::given(bsr::tuner::Facts::of(members[0].spec()), (4096, 2048, 1024));
    let choice = tuner.pick(&bsr::tuner::TuningProblem::new(workload, &pattern), None).unwrap();
    assert_eq!(choice.spec.op, bsr::Op::Sdd);
}

#[test]
fn what_a_chooser_knows_follows_the_operation() {
    let pattern = Pattern::Random(0.5).structure(640, 320, (64, 64), 0).unwrap();
    let extents = |problem: ProblemFacts| (problem.m, problem.n, problem.k);
    assert_eq!(extents(widths::problem(&pattern, 50)), (640, 50, 320));
    assert_eq!(extents(transposed::problem(&pattern, 50)), (50, 640, 320));
    // Rows beyond M are wasted where B is sparse: 64 - 50, 32 x 2 - 50.
    let members: Vec<&'static bsr::Member> = transposed::MEMBERS.iter().collect();
    assert_eq!(members[FirstFit.choose(&members, &transposed::problem(&pattern, 32))].spec().bn, 32);
}

/// Of few queries the heads of a group share tiles, whose keys are divided, but not where heads have patterns of their own.
#[test]
fn an_attention_is_chosen_for_its_mask_and_shape() {
    let tuner = Tuner::new(Gpu { name: "NVIDIA H100 80GB HBM3".into(), driver: String::new(), capability: (9, 0) });
    let chosen = |queries: usize, key_heads: usize, by_head: bool| {
        let (sizes, heads, block) = ((queries, 32_768), 32, (64, 128));
        let mask = match by_head {
            false => Mask::full(sizes, block).unwrap(),
            true => {
                let list = BlockList { indptr: vec![0, 256], indices: (0..256).collect(), partial: vec![false; 256] };
                Mask::new(sizes, block, Sharing::ByHead, vec![list; heads]).unwrap()
            }
        };
        let shape = Shape { batch: 8, heads, key_heads, queries, keys: sizes.1, columns: 64 };
        tune_attention(&tuner, attend::plan().spec(), &mask, &shape).unwrap().spec
    };
    let (one, four) = (chosen(1, 4, false), chosen(4, 8, false));
    assert_eq!((one.pack_heads, four.pack_heads), (Some(8), Some(4)), "{one}; {four}");
    assert!(one.split != SplitK::Off, "{one}");
    let alone = chosen(1, 4, true);
    assert!(alone.pack_heads.is_none(), "{alone}");
}

/// Blocks of a rule are chosen: of one query those with the fewest rows; where none is computed in vain, the first.
#[test]
fn the_blocks_of_a_rule_are_chosen() {
    let tuner = Tuner::new(Gpu { name: "NVIDIA H200".into(), driver: String::new(), capability: (9, 0) });
    let spec = "op = attention, bm = 64, bn = 128, bk = 64, dtype = bf16".parse().unwrap();
    let chosen = |shape: Shape| {
        let mask = |block| Mask::full((shape.queries, shape.keys), block);
        let (mask, choice) = tune_attention_blocks(&tuner, &spec, &shape, mask).unwrap();
        assert_eq!(mask.block(), (choice.spec.bm as usize, choice.spec.bk as usize));
        assert_eq!(choice.spec.bn, spec.bn);
        mask.block()
    };
    let decode = Shape { batch: 8, heads: 32, key_heads: 4, queries: 1, keys: 32_768, columns: 128 };
    let whole = Shape { batch: 1, heads: 8, key_heads: 8, queries: 1024, keys: 1024, columns: 128 };
    assert_eq!((chosen(decode), chosen(whole)), ((64, 128), (128, 128)));
}

/// A mask that cannot be made is an error of its own.
#[test]
fn blocks_are_not_chosen_for_a_mask_that_is_refused() {
    let tuner = Tuner::new(Gpu { name: "NVIDIA H200".into(), driver: String::new(), capability: (9, 0) });
    let shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 64, keys: 64, columns: 64 };
    let refused = |_| Mask::new((64, 64), (64, 64), Sharing::All, Vec::new());
    assert!(tune_attention_blocks(&tuner, attend::plan().spec(), &shape, refused).is_err());
}

#[test]
fn the_chosen_attention_is_right_at_decode_and_at_length() {
    let Some(device) = device() else { return };
    let stream = Stream::new(&device).unwrap();
    let attention = attend::auto(&device).unwrap();
    for (queries, keys) in [(1, 3000), (5, 700), (300, 300)] {
        let shape = Shape { batch: 2, heads: 8, key_heads: 2, queries, keys, columns: 64 };
        let tensor = |heads, rows, seed| Tensor::<bf16>::normal([2, heads, rows, 64], HeadOrder::HeadsFirst, seed);
        let host = [tensor(8, queries, 1), tensor(2, keys, 2), tensor(2, keys, 3)];
        let [q, k, v] = host.each_ref().map(|tensor| DeviceTensor::upload(&device, tensor).unwrap());
        let mut o = DeviceTensor::uninit(&device, q.sizes(), HeadOrder::HeadsFirst).unwrap();
        o.fill_bytes(0xFF).unwrap();
        let mask = Mask::full((queries, keys), (64, 128)).unwrap();
        let ready = match queries {
            1 => attention.pattern(&mask, shape).unwrap(),
            _ => attention.pattern_of(shape, |block| Mask::full((queries, keys), block)).unwrap(),
        };
        ready.launch(&stream, (&q, &k, &v, 0.125), &mut o).unwrap();
        stream.synchronize().unwrap();
        let expected = bsr::attention::reference(&shape, &mask, host.each_ref(), 0.125, None).output;
        let found = o.download().unwrap();
        let far = found.data().iter().zip(&expected).map(|(found, want)| (f64::from(found.to_f32()) - want).abs());
        assert!(far.fold(0.0, f64::max) < 1e-2, "{queries} x {keys}: {}", ready.choice());
    }
}
