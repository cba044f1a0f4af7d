//! Cases with further operands: sinks, vectors of a score, lengths and pages.

use bsr_codegen::KernelSpec;
use bsr_runtime::attention::{Coverage, HeadOrder, HostVector, Mask, Shape, Sharing};
use half::{bf16, f16};

use super::{CAUSAL, Case, case, shape, with_empty_rows};

/// Sinks: of divided keys, of heads that share a tile, of queries without keys.
pub(crate) fn sinks() -> Vec<Case> {
    let mut cases = vec![];
    for (number, keys) in
        ["", "dtype = bf16, split = auto", "split = 4", "pack_heads = 2", "dtype = bf16, pack_heads = 4, split = 3"]
            .into_iter()
            .enumerate()
    {
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
        let spec = format!("bm = 64, bn = 64, bk = 64, sinks = on, {keys}").trim_end_matches(", ").to_owned();
        cases.push(Case { order, ..case(&spec, shape(1, [4, 1], [490, 490], 64), with_empty_rows()) });
        // Few queries, and lengths that end within a block; decode divides the keys of one tile.
        let mask = Mask::full((3, 301), (64, 64)).unwrap();
        cases.push(Case { order, ..case(&spec, shape(2, [8, 2], [3, 301], 64), mask) });
    }
    // Queries without a key although they have blocks.
    let mask = Mask::by_rule((200, 260), (128, 128), |_, _| Coverage::Partial).unwrap();
    let score = "score = \"|| if i > j + 40 { s * scale } else { -inf }\"";
    for keys in ["", ", split = 2"] {
        let spec = format!("bm = 128, bn = 64, bk = 128, sinks = on, {score}{keys}");
        cases.push(case(&spec, shape(1, [5, 1], [200, 260], 64), mask.clone()));
    }
    let mask = Mask::causal(150, 150, (128, 64)).unwrap();
    let spec = format!("bm = 128, bn = 128, bk = 64, d = 192, dtype = bf16, sinks = on, {CAUSAL}");
    cases.push(case(&spec, shape(1, [3, 1], [150, 150], 128), mask));
    cases
}

/// Scores that read vectors: of every kind and type, shared by all heads and problems or by some.
pub(crate) fn vectors() -> Vec<Case> {
    let wave =
        |len: usize, scale: f32| (0..len).map(|at| scale * ((at * 37 % 101) as f32 - 50.0)).collect::<Vec<f32>>();
    let halves = |len, scale| wave(len, scale).into_iter().map(f16::from_f32).collect::<Vec<f16>>();
    let brains = |len, scale| wave(len, scale).into_iter().map(bf16::from_f32).collect::<Vec<bf16>>();
    let documents = |len: usize, of: usize| (0..len).map(|at| (at / of) as f32).collect::<Vec<f32>>();
    let mut cases = vec![];
    let mut add = |(bm, bk): (usize, usize), score: &str, shape: Shape, vectors: Vec<HostVector>| {
        let rule = |row: std::ops::Range<usize>, column: std::ops::Range<usize>| {
            if (row.start + column.start / 3).is_multiple_of(7) { Coverage::Full } else { Coverage::Partial }
        };
        let mask = Mask::by_rule((shape.queries, shape.keys), (bm, bk), rule).unwrap();
        let spec = format!("bm = {bm}, bn = {}, bk = {bk}, dtype = bf16, score = \"{score}\"", shape.columns);
        cases.push(Case { vectors, ..case(&spec, shape, mask) });
    };
    // Documents of different lengths, one list for all and one for each problem.
    let same = "|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else { -inf }";
    for (block, sizes) in [((128, 128), [140, 200]), ((64, 64), [150, 135]), ((64, 128), [130, 129])] {
        let [queries, keys] = sizes;
        let lists = vec![documents(queries, 41).into(), documents(keys, 41).into()];
        add(block, same, shape(1, [1, 1], sizes, 64), lists);
        let of_both = |len: usize| HostVector::from([documents(len, 50), documents(len, 23)].concat());
        let lists = vec![of_both(queries).shared(Sharing::ByProblem), of_both(keys).shared(Sharing::ByProblem)];
        add(block, same, shape(2, [2, 1], sizes, 64), lists);
    }
    // ALiBi: a slope for each head, for each problem, for each head of each problem.
    let slopes = "|slopes: Heads<f32>| s * scale - slopes * abs(i - j)";
    for (sharing, count) in
        [(None, 3), (Some(Sharing::ByProblem), 2), (Some(Sharing::ByBoth), 6), (Some(Sharing::All), 1)]
    {
        let vector = HostVector::from(wave(count, 0.001));
        let vector = sharing.map_or(vector.clone(), |sharing| vector.shared(sharing));
        add((128, 128), slopes, shape(2, [3, 1], [100, 130], 32), vec![vector]);
    }
    // Biases by key, of a head each, in 16 bits; and factors by query, of a head of a problem each.
    let bias = "|bias: Cols<bf16>| s * scale + bias";
    add(
        (64, 64),
        bias,
        shape(1, [2, 2], [70, 133], 64),
        vec![HostVector::from(brains(266, 0.02)).shared(Sharing::ByHead)],
    );
    let factor = "|f: Rows<f16>, g: Cols<f16>| s * scale * (1 + f) + g * f";
    let of_row = HostVector::from(halves(4 * 67, 0.01)).shared(Sharing::ByBoth);
    add((128, 64), factor, shape(2, [2, 1], [67, 90], 48), vec![of_row, halves(90, 0.03).into()]);
    // As many as there may be, and numbers between them.
    let many = "|a: Cols<f32>, b: Rows<f32>, x: f32, c: Cols<f16>, d: Cols<f32>, h: Heads<bf16>, y: f32, e: Cols<bf16>| \
                s * scale + a * b + x * c + d * h + y * e";
    let vectors = vec![
        wave(150, 0.02).into(),
        wave(129, 0.02).into(),
        halves(150, 0.01).into(),
        wave(150, 0.005).into(),
        brains(2, 0.01).into(),
        brains(150, 0.01).into(),
    ];
    add((64, 128), many, shape(1, [2, 1], [129, 150], 128), vectors);
    if let Some(last) = cases.last_mut() {
        last.scalars = &[0.5, -0.25];
    }
    cases
}

/// An attention of problems of so many keys, in pages that end with the longest one.
pub(crate) fn of_lengths(spec: &str, heads: [usize; 2], queries: usize, lengths: &[usize]) -> Case {
    let KernelSpec { bm, bn, bk, page, score, .. } = plan(spec);
    let page = page.unwrap() as usize;
    let keys = lengths.iter().max().unwrap().next_multiple_of(page).max(page);
    let coverage = if score.is_some() { Coverage::Partial } else { Coverage::Full };
    let mask = Mask::by_rule((queries, keys), (bm as usize, bk as usize), |_, _| coverage).unwrap();
    let shape = shape(lengths.len(), heads, [queries, keys], bn as usize);
    Case { lengths: Some(lengths.to_vec()), ..case(spec, shape, mask) }
}

/// Keys in pages: of every size, of problems without keys and with all, of few queries and many, divided and shared.
pub(crate) fn paged() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: &str, heads: [usize; 2], queries: usize, lengths: &[usize]| {
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][cases.len() % 2];
        cases.push(Case { order, ..of_lengths(&format!("bm = 64, {spec}"), heads, queries, lengths) });
    };
    // Decode: one query of heads that share a tile, problems of very different lengths.
    let lengths = [700, 1, 0, 333, 64, 129];
    for (number, page) in [16, 32, 64, 128, 256].into_iter().enumerate() {
        let dtype = ["f16", "bf16"][number % 2];
        let spec = format!("bn = 64, bk = 128, dtype = {dtype}, page = {page}, pack_heads = 4, split = auto");
        add(&spec, [8, 2], 1, &lengths);
        add(&format!("bn = 128, bk = 64, page = {page}, pack_heads = 2"), [4, 2], 3, &lengths[..3]);
    }
    // One long problem, of which every CTA has a part; many queries, of which not all have tiles of both consumers.
    add("bn = 64, bk = 64, k_step = 32, page = 16, split = auto", [1, 1], 1, &[1500]);
    add("bn = 128, bk = 128, page = 64, split = auto, dtype = bf16", [2, 1], 150, &[250, 130]);
    add("bn = 48, bk = 128, page = 32", [2, 2], 300, &[70, 10, 0]);
    add("bn = 64, bk = 96, page = 16, d = 96, split = 4", [3, 1], 40, &[97, 95]);
    add("bn = 192, bk = 128, page = 128, consumers = 2, stages = 2", [1, 1], 100, &[200]);
    add("bn = 32, bk = 48, page = 64, consumers = 3, sinks = on, split = auto", [2, 1], 200, &[100, 0, 47]);
    // Tiles of one consumer, of which two CTAs share an SM: the number of keys ends the second vector of a tile's words.
    add("bn = 64, bk = 64, page = 32, consumers = 1", [2, 1], 3, &lengths);
    add("bn = 128, bk = 64, page = 64, consumers = 1, split = auto, dtype = bf16, pack_heads = 4", [8, 2], 1, &lengths);
    add("bn = 64, bk = 128, page = 16, k_step = 64, consumers = 1, split = auto, sinks = on", [2, 1], 150, &[250, 130]);
    // Each query sees the keys up to its own, which are the last ones of its problem.
    let causal = "score = \"|last: Rows<f32>| if j <= last { s * scale } else { -inf }\"";
    add(&format!("bn = 64, bk = 128, page = 64, pack_heads = 1, split = auto, {causal}"), [4, 2], 5, &[300, 5, 70]);
    add(&format!("bn = 64, bk = 64, page = 32, dtype = bf16, {causal}"), [2, 1], 70, &[70, 200]);
    for case in &mut cases {
        let (Some(lengths), true) = (&case.lengths, case.spec.contains("last")) else { continue };
        let queries = case.shape.queries;
        let last = lengths.iter().flat_map(|length| (0..queries).map(move |query| (length + query - queries) as f32));
        case.vectors = vec![HostVector::from(last.collect::<Vec<_>>()).shared(Sharing::ByProblem)];
    }
    cases
}

fn plan(spec: &str) -> KernelSpec {
    format!("op = attention, {spec}").parse().unwrap()
}
