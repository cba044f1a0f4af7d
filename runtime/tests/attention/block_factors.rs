//! Factors of blocks of Q, K and V: every block and head, scores, sinks, heads that share keys or a tile, divided keys, and factors of V
//! that are far apart.

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::attention::{
    Coverage, Factors, HeadOrder, HostVector, Mask, QuantisedTensors, ScoreInputs, Shape, Sharing, SimulatedAttention,
    Tensor, quantise, quantise_blocks, reference,
};
use bsr_runtime::e4m3;
use bsr_runtime::simulated::Options;
use half::bf16;

use crate::device::device;
use crate::table::{CAUSAL, Case, case, shape};

/// Factors of every block, those of neighbours far apart: of V up to 2^12.
pub(crate) fn factors(spec: &KernelSpec, shape: &Shape) -> Factors {
    let of_queries = shape.batch * shape.heads * shape.queries.div_ceil(spec.bm as usize);
    let of_keys = shape.batch * shape.key_heads * shape.keys.div_ceil(spec.bk as usize);
    let of = |count: usize, from: &[f32]| (0..count).map(|at| from[(at * at + 3 * at) % from.len()]).collect();
    let v = [0.01, 1.5, 40.0, 0.3, 2.0];
    Factors::of_blocks(of(of_queries, &[1.0, 0.6, 1.5]), of(of_keys, &[0.8, 1.7, 0.5, 1.0]), of(of_keys, &v)).unwrap()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let blocks = [(128, 128), (64, 64), (128, 64), (64, 128), (192, 96), (256, 256), (64, 32)];
    for ((bm, bk), columns) in blocks.into_iter().zip([128, 64, 32, 96, 64, 128, 256]) {
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = e4m3, scale = block");
        let sizes = [260, 330];
        let mask = Mask::random((sizes[0], sizes[1]), (bm, bk), 0.6, 5).unwrap();
        cases.push(case(&spec, shape(2, [2, 1], sizes, columns), mask));
        let mask = Mask::causal(300, 300, (bm, bk)).unwrap();
        let spec = format!("{spec}, out = f16, {CAUSAL}");
        cases.push(case(&spec, shape(2, [4, 2], [300, 300], columns), mask));
    }
    for [queries, keys] in [[1, 1], [65, 127], [301, 17], [64, 0]] {
        let mask = Mask::full((queries, keys), (128, 128)).unwrap();
        let spec = "bm = 128, bn = 64, bk = 128, dtype = e4m3, scale = block, sinks = on";
        cases.push(case(spec, shape(1, [2, 2], [queries, keys], 64), mask));
    }
    let of = |spec: &str, heads, sizes: [usize; 2], block| {
        let mask = Mask::random((sizes[0], sizes[1]), block, 0.7, 4).unwrap();
        let order = HeadOrder::RowsFirst;
        Case { order, ..case(&format!("{spec}, dtype = e4m3, scale = block"), shape(2, heads, sizes, 64), mask) }
    };
    let small = "bm = 64, bn = 64, bk = 64";
    cases.extend([
        of("bm = 128, bn = 64, bk = 256, k_step = 64", [2, 1], [200, 590], (128, 256)),
        of("bm = 128, bn = 64, bk = 96, k_step = 32", [2, 1], [200, 290], (128, 96)),
        of(&format!("{small}, consumers = 1, stages = 2"), [2, 1], [200, 290], (64, 64)),
        of(&format!("{small}, consumers = 3, d = 96"), [2, 1], [200, 290], (64, 64)),
        of(&format!("{small}, split = 2"), [2, 2], [100, 600], (64, 64)),
        of(&format!("{small}, pack_heads = 4, split = auto, sinks = on"), [8, 2], [5, 700], (64, 64)),
        Case { steepness: 6.0, ..of(small, [2, 1], [200, 900], (64, 64)) },
    ]);
    let documents = "score = \"|of_query: Rows<f32>, of_key: Cols<f32>| if of_query == of_key { s * scale - 0.01 * s * s } else { -inf }\"";
    let mask = Mask::by_rule((200, 230), (64, 64), |_, _| Coverage::Partial).unwrap();
    let vector = |len: usize| HostVector::from((0..len).map(|at| (at / 50) as f32).collect::<Vec<f32>>());
    cases.push(Case {
        vectors: vec![vector(200), vector(230)],
        ..case(&format!("{small}, dtype = e4m3, scale = block, {documents}"), shape(1, [2, 1], [200, 230], 64), mask)
    });
    cases
}

#[test]
fn simulated() {
    crate::simulated::run(cases());
}

#[test]
fn on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    crate::gpu::run(&device, cases().into_iter());
}

/// Rows of K and V whose magnitudes are far apart from block to block, as outliers make them.
fn uneven(shape: &Shape) -> [Tensor<f32>; 3] {
    let Shape { queries, keys, columns, .. } = *shape;
    let normal = |rows, seed| Tensor::<f32>::normal([1, 2, rows, columns], HeadOrder::HeadsFirst, seed);
    let uneven = |seed: u64, most: f32| {
        let mut tensor = normal(keys, seed);
        for (head, row) in (0..2).flat_map(|head| (0..keys).map(move |row| (head, row))) {
            let of_block = if row / 64 % 4 == 1 { most } else { most / 65_536.0 };
            tensor.row_mut([0, head, row]).iter_mut().for_each(|value| *value *= of_block);
        }
        tensor
    };
    [normal(queries, 1), uneven(2, 1.0), uneven(3, 100.0)]
}

#[test]
fn blocks_are_more_exact_than_heads_where_magnitudes_differ() {
    let shape = Shape { batch: 1, heads: 2, key_heads: 2, queries: 70, keys: 250, columns: 64 };
    let (tensors, scale) = (uneven(&shape), 0.125);
    // Every second row of blocks sees small values alone.
    let mask = Mask::by_rule((70, 250), (64, 64), |i, j| match i.start == 0 && j.start == 64 {
        true => Coverage::None,
        false => Coverage::Full,
    });
    let mask = mask.unwrap();
    let right = reference(&shape, &mask, tensors.each_ref(), scale, None).output;
    let error = |keys: &str, QuantisedTensors { tensors, factors }: &QuantisedTensors| {
        let spec = format!("op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3, {keys}");
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let ptx = plan.ptx();
        let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap();
        let inputs = ScoreInputs::new(scale).factors(factors);
        let run = kernel.run_into::<e4m3, bf16>(tensors.each_ref(), &mask, inputs, &Options::default());
        let (output, _, report) = run.unwrap();
        assert!(report.is_clean());
        // The first rows of blocks, whose O is small.
        let rows = |head: usize| (0..64).map(move |query| (head, query));
        let (mut wrong, mut whole) = (0.0, 0.0);
        for (head, query) in (0..2).flat_map(rows) {
            for (column, found) in output.row([0, head, query]).iter().enumerate() {
                let right = right[(head * 70 + query) * 64 + column];
                wrong += (f64::from(found.to_f32()) - right).powi(2);
                whole += right.powi(2);
            }
        }
        f64::sqrt(wrong / whole)
    };
    let of_heads = error("scale = tensor", &quantise(tensors.each_ref(), Sharing::ByHead).unwrap());
    let of_blocks = error("scale = block", &quantise_blocks(tensors.each_ref(), (64, 64)).unwrap());
    println!("factors of heads {of_heads:.1e}, of blocks {of_blocks:.1e}");
    assert!(of_blocks < 0.07 && of_heads > 2.0 * of_blocks, "{of_heads:.1e}, {of_blocks:.1e}");
}

#[test]
fn factors_that_do_not_fit_are_refused() {
    let plan = |keys: &str| {
        Plan::new(
            &format!("op = attention, bm = 64, bn = 64, bk = 32, dtype = e4m3, out = bf16, {keys}").parse().unwrap(),
        )
        .unwrap()
    };
    let (q, k) = ([2, 4, 100, 64], [2, 2, 70, 64]);
    let tensors = [q, k, k].map(|sizes| Tensor::<e4m3>::filled(sizes, HeadOrder::HeadsFirst, e4m3::from_f32(1.0)));
    let mask = Mask::full((100, 70), (64, 32)).unwrap();
    let run = |keys: &str, factors: &Factors| {
        let plan = plan(keys);
        let ptx = plan.ptx();
        let kernel = SimulatedAttention::new(&plan, ptx.text(), ptx.entry()).unwrap();
        let inputs = ScoreInputs::new(0.125).factors(factors);
        kernel.run_into::<e4m3, bf16>(tensors.each_ref(), &mask, inputs, &Options::default())
    };
    let of = |counts: [usize; 3]| {
        let [q, k, v] = counts.map(|count| vec![1.0; count]);
        Factors::of_blocks(q, k, v)
    };
    // 2 x 4 heads of 2 blocks of queries; 2 x 2 heads of 3 blocks of keys.
    assert!(run("scale = block", &of([16, 12, 12]).unwrap()).is_ok());
    let one = Factors::new(vec![1.0], vec![1.0], vec![1.0]).unwrap();
    let wrong = [
        ("scale = block", of([8, 12, 12]).unwrap(), "8 heads of all problems x 2 blocks of 64 queries = 16"),
        ("scale = block", of([16, 8, 8]).unwrap(), "4 heads of all problems x 3 blocks of 32 keys = 12"),
        ("scale = block", one, "`Factors::of_blocks`"),
        ("scale = tensor", of([16, 12, 12]).unwrap(), "a kernel with scale = block"),
        ("scale = none", of([16, 12, 12]).unwrap(), "takes none"),
    ];
    for (keys, factors, words) in wrong {
        let error = run(keys, &factors).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("help: "), "{words}: {error}");
    }
    assert!(of([16, 12, 11]).unwrap_err().to_string().contains("12 factors of K and 11 of V"));
    assert!(Factors::of_blocks(vec![0.0], vec![1.0], vec![1.0]).unwrap_err().to_string().contains("factor 0 of Q"));
}
