//! The cases: block, head, types, sizes, layout, mask, score.

use bsr_codegen::KernelSpec;
use bsr_runtime::attention::{BlockList, Coverage, HeadOrder, HostVector, Mask, Shape, Sharing};
use half::{bf16, f16};

use crate::drawn::{ATTENTIONS, missing};

pub(crate) const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

/// A spec beside `op = attention`, and what it computes.
pub(crate) struct Case {
    pub(crate) spec: String,
    pub(crate) shape: Shape,
    pub(crate) order: HeadOrder,
    pub(crate) mask: Mask,
    /// Numbers of the score.
    pub(crate) scalars: &'static [f32],
    /// Its vectors.
    pub(crate) vectors: Vec<HostVector>,
    /// Keys of each problem, where they are in pages.
    pub(crate) lengths: Option<Vec<usize>>,
    /// The scale over one by the root of the depth: beyond 1, the greatest score of a row grows from step to step.
    pub(crate) steepness: f32,
}

pub(crate) fn shape(
    batch: usize,
    [heads, key_heads]: [usize; 2],
    [queries, keys]: [usize; 2],
    columns: usize,
) -> Shape {
    Shape { batch, heads, key_heads, queries, keys, columns }
}

pub(crate) fn case(spec: &str, shape: Shape, mask: Mask) -> Case {
    Case {
        spec: spec.to_owned(),
        shape,
        order: HeadOrder::HeadsFirst,
        mask,
        scalars: &[],
        vectors: vec![],
        lengths: None,
        steepness: 1.0,
    }
}

/// One kernel of each block and head dimension, dense or nearly so, causal or not.
pub(crate) fn blocks() -> Vec<Case> {
    let mut cases = vec![];
    let blocks = [(128, 128), (64, 64), (128, 64), (64, 128), (192, 96), (256, 256)];
    let columns = [64, 128, 16, 80, 96, 32];
    for ((bm, bk), columns) in blocks.into_iter().zip(columns) {
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = bf16");
        let sizes = [260, 330];
        let mask = Mask::random((sizes[0], sizes[1]), (bm, bk), 0.6, 5).unwrap();
        cases.push(case(&spec, shape(1, [1, 1], sizes, columns), mask));
        let mask = Mask::causal(300, 300, (bm, bk)).unwrap();
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, {CAUSAL}");
        cases.push(case(&spec, shape(1, [1, 1], [300, 300], columns), mask));
    }
    // Heads that leave room for one buffer of Q, or for small steps alone.
    for columns in [256, 192] {
        let mask = Mask::causal(200, 200, (128, 128)).unwrap();
        let spec = format!("bm = 128, bn = {columns}, bk = 128, {CAUSAL}");
        cases.push(case(&spec, shape(1, [2, 1], [200, 200], columns), mask));
        let mask = Mask::random((330, 200), (64, 128), 0.5, 2).unwrap();
        let spec = format!("bm = 64, bn = {columns}, bk = 128, dtype = bf16");
        cases.push(case(&spec, shape(1, [1, 1], [330, 200], columns), mask));
    }
    cases
}

/// Q, K and V of 8 bits: every block and head, masks, scores, factors of tensors, of heads and of the heads of each problem, lengths
/// that end within a group of 16 keys, heads that share keys or a tile, sinks, divided keys.
pub(crate) fn eight_bits() -> Vec<Case> {
    let mut cases = vec![];
    let blocks = [(128, 128), (64, 64), (128, 64), (64, 128), (192, 96), (256, 256), (64, 32)];
    for ((bm, bk), columns) in blocks.into_iter().zip([128, 64, 32, 96, 64, 128, 256]) {
        let mask = Mask::random((261, 331), (bm, bk), 0.6, 5).unwrap();
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = e4m3");
        cases.push(case(&spec, shape(1, [1, 1], [261, 331], columns), mask));
        let mask = Mask::causal(300, 300, (bm, bk)).unwrap();
        let spec = format!("{spec}, scale = tensor, out = f16, {CAUSAL}");
        cases.push(case(&spec, shape(2, [4, 2], [300, 300], columns), mask));
    }
    let one = "bm = 128, bn = 64, bk = 128, dtype = e4m3, scale = tensor";
    for order in [HeadOrder::HeadsFirst, HeadOrder::RowsFirst] {
        let mask = Mask::random((151, 205), (128, 128), 0.7, 2).unwrap();
        cases.push(Case { order, ..case(one, shape(2, [6, 3], [151, 205], 64), mask) });
    }
    for [queries, keys] in [[1, 1], [1, 300], [65, 127], [128, 16], [301, 17], [64, 0]] {
        for (bm, bk) in [(128, 128), (64, 64)] {
            let mask = Mask::full((queries, keys), (bm, bk)).unwrap();
            let spec = format!("bm = {bm}, bn = 64, bk = {bk}, dtype = e4m3, scale = tensor");
            cases.push(case(&spec, shape(1, [2, 2], [queries, keys], 64), mask));
        }
    }
    let of = |spec: &str, heads, sizes: [usize; 2], block| {
        let mask = Mask::random((sizes[0], sizes[1]), block, 0.7, 4).unwrap();
        case(&format!("{spec}, dtype = e4m3"), shape(2, heads, sizes, 64), mask)
    };
    let small = "bm = 64, bn = 64, bk = 64";
    cases.extend([
        of(&format!("{small}, k_step = 64, scale = tensor"), [2, 1], [200, 290], (64, 64)),
        of(&format!("{small}, consumers = 1, stages = 2"), [2, 1], [200, 290], (64, 64)),
        of(&format!("{small}, consumers = 2"), [2, 1], [200, 290], (64, 64)),
        of(&format!("{small}, d = 96, scale = tensor"), [2, 1], [200, 290], (64, 64)),
        of(&format!("{small}, sinks = on, scale = tensor"), [4, 2], [200, 290], (64, 64)),
        of(&format!("{small}, split = 2, scale = tensor"), [2, 2], [100, 600], (64, 64)),
        of(&format!("{small}, pack_heads = 4, split = auto, scale = tensor, sinks = on"), [8, 2], [5, 700], (64, 64)),
        Case { steepness: 6.0, ..of(&format!("{small}, scale = tensor"), [2, 1], [200, 900], (64, 64)) },
    ]);
    let documents = "score = \"|of_query: Rows<f32>, of_key: Cols<f32>| if of_query == of_key { s * scale - 0.01 * s * s } else { -inf }\"";
    let mask = Mask::by_rule((200, 230), (64, 64), |_, _| Coverage::Partial).unwrap();
    let vector = |len: usize| HostVector::from((0..len).map(|at| (at / 50) as f32).collect::<Vec<f32>>());
    cases.push(Case {
        vectors: vec![vector(200), vector(230)],
        ..case(&format!("{small}, dtype = e4m3, scale = tensor, {documents}"), shape(1, [2, 1], [200, 230], 64), mask)
    });
    cases
}

/// Masks of every kind: windows, empty rows, rows that scores leave empty, one pattern a head.
pub(crate) fn patterns() -> Vec<Case> {
    let (sizes, block) = ((490, 490), (64, 64));
    let of = |mask: Mask| case("bm = 64, bn = 64, bk = 64", shape(1, [1, 1], [490, 490], 64), mask);
    let window = "score = \"|before: f32| if i < j { -inf } else if i - j > before { -inf } else { s * scale }\"";
    let mut cases = vec![
        of(Mask::block_window(sizes, block, 1).unwrap()),
        of(Mask::strided(sizes, block, 0, 3).unwrap()),
        of(Mask::big_bird(sizes, block, [1, 1, 1], 7).unwrap()),
        of(Mask::lower_triangle(sizes, block).unwrap()),
        of(Mask::full(sizes, block).unwrap()),
        Case {
            scalars: &[150.0],
            ..case(
                &format!("bm = 64, bn = 64, bk = 64, {window}"),
                shape(1, [1, 1], [490, 490], 64),
                Mask::window(sizes, block, 150, 0).unwrap(),
            )
        },
    ];
    // Rows of blocks without any, at either end of a work tile and of a pair of rows.
    let sparse = |of_row: &dyn Fn(usize) -> Vec<u32>, rows: usize| {
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        for row in 0..rows {
            list.indices.extend(of_row(row));
            list.indptr.push(list.indices.len() as u32);
        }
        list.partial = vec![false; list.indices.len()];
        list
    };
    let lists = [
        sparse(&|row| if row % 3 == 1 { vec![2, 5] } else { vec![] }, 8),
        sparse(&|row| if row < 4 { vec![] } else { vec![row as u32] }, 8),
        sparse(&|row| if row % 2 == 0 { (0..8).collect() } else { vec![1] }, 8),
        sparse(&|_| vec![], 8),
    ];
    for list in lists.clone() {
        cases.push(of(Mask::new(sizes, block, Sharing::All, vec![list]).unwrap()));
    }
    let each = shape(1, [4, 2], [490, 490], 64);
    let mask = Mask::new(sizes, block, Sharing::ByHead, lists.to_vec()).unwrap();
    cases.push(case("bm = 64, bn = 64, bk = 64, dtype = bf16", each, mask));
    let mask = Mask::new(sizes, block, Sharing::ByProblem, lists[1..3].to_vec()).unwrap();
    cases.push(case("bm = 64, bn = 64, bk = 64", shape(2, [1, 1], [490, 490], 64), mask));
    let wide = [
        sparse(&|row| if row == 1 { vec![] } else { vec![0, 3] }, 4),
        sparse(&|row| if row == 3 { vec![3] } else { vec![] }, 4),
    ];
    let mask = Mask::new(sizes, (128, 128), Sharing::ByBoth, wide.to_vec()).unwrap();
    cases.push(case("bm = 128, bn = 64, bk = 128", shape(1, [2, 1], [490, 490], 64), mask));
    // Blocks whose pairs the score takes all: queries without a key although they have blocks.
    let mask = Mask::by_rule((200, 260), (128, 128), |_, _| Coverage::Partial).unwrap();
    let score = "score = \"|| if i > j + 40 { s * scale } else { -inf }\"";
    cases.push(case(&format!("bm = 128, bn = 64, bk = 128, {score}"), shape(1, [1, 1], [200, 260], 64), mask));
    cases
}

/// Layouts, problems, grouped queries, lengths, scores.
pub(crate) fn tensors() -> Vec<Case> {
    let mut cases = vec![];
    for order in [HeadOrder::HeadsFirst, HeadOrder::RowsFirst] {
        let mask = Mask::causal(150, 150, (64, 64)).unwrap();
        let spec = format!("bm = 64, bn = 64, bk = 64, {CAUSAL}");
        cases.push(Case { order, ..case(&spec, shape(2, [4, 2], [150, 150], 64), mask) });
        let mask = Mask::full((129, 257), (128, 128)).unwrap();
        cases.push(Case { order, ..case("bm = 128, bn = 128, bk = 128", shape(2, [2, 1], [129, 257], 128), mask) });
    }
    for [queries, keys] in [[1, 1], [1, 300], [64, 64], [65, 127], [128, 1], [300, 17]] {
        for (bm, bk) in [(128, 128), (64, 64)] {
            let mask = Mask::full((queries, keys), (bm, bk)).unwrap();
            let spec = format!("bm = {bm}, bn = 64, bk = {bk}");
            cases.push(case(&spec, shape(1, [1, 1], [queries, keys], 64), mask));
        }
    }
    let scores = [
        ("|slope: f32| s * scale - slope * abs(i - j)", &[0.01][..]),
        ("|cap: f32| cap * tanh(s * scale / cap)", &[2.0]),
        ("|| if head < 1 { s * scale } else { if i >= j { s * scale } else { -inf } }", &[]),
        ("|| if batch > 0 { s * scale } else { 0 }", &[]),
        ("|| (s as bf16) * scale", &[]),
    ];
    for (score, scalars) in scores {
        let mask = Mask::by_rule((140, 140), (128, 128), |_, _| Coverage::Partial).unwrap();
        let spec = format!("bm = 128, bn = 64, bk = 128, dtype = bf16, score = \"{score}\"");
        cases.push(Case { scalars, ..case(&spec, shape(2, [2, 2], [140, 140], 64), mask) });
    }
    // Many steps and few stages, few steps and many, and steps that are a part of a block.
    for keys in [
        "stages = 2",
        "k_step = 32",
        "k_step = 64, stages = 3",
        "consumers = 2, arch = sm_90a",
        "consumers = 3",
        "consumers = 1",
    ] {
        let mask = Mask::random((200, 640), (64, 128), 0.7, 4).unwrap();
        let spec = format!("bm = 64, bn = 64, bk = 128, {keys}");
        cases.push(case(&spec, shape(1, [1, 1], [200, 640], 64), mask));
    }
    // An SM has two CTAs: rows of one, two and three tiles, parts of tiles, sinks.
    for (bm, bk, columns, keys) in [
        (64, 64, 128, "dtype = bf16"),
        (128, 64, 64, "dtype = bf16, split = 3"),
        (192, 96, 96, "sinks = on, split = auto"),
        (64, 128, 128, CAUSAL),
    ] {
        let mask = Mask::random((333, 645), (bm, bk), 0.4, 5).unwrap();
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, consumers = 1, {keys}");
        cases.push(case(&spec, shape(2, [2, 1], [333, 645], columns), mask));
    }
    cases
}

/// Scores so far apart that the reference of the exponentials moves in most steps, and O with it.
pub(crate) fn steep() -> Vec<Case> {
    let specs = [
        ("bm = 128, bn = 128, bk = 128, dtype = bf16", (128, 128), 128),
        ("bm = 128, bn = 64, bk = 128", (128, 128), 64),
        ("bm = 64, bn = 64, bk = 64, dtype = bf16", (64, 64), 64),
        ("bm = 64, bn = 128, bk = 64, k_step = 64", (64, 64), 128),
        ("bm = 64, bn = 64, bk = 128, split = 3, dtype = bf16", (64, 128), 64),
    ];
    let mut cases = vec![];
    for (spec, block, columns) in specs {
        let shape = shape(1, [2, 1], [200, 900], columns);
        let random = case(spec, shape, Mask::random((200, 900), block, 0.8, 6).unwrap());
        let causal = case(&format!("{spec}, {CAUSAL}"), shape, Mask::causal(200, 900, block).unwrap());
        cases.extend([random, causal].map(|case| Case { steepness: 24.0, ..case }));
    }
    cases
}

/// Tiles whose keys CTAs share: every head dimension's sums, rows of very different lengths, parts of which a consumer has
/// none, few queries against many keys.
pub(crate) fn divided() -> Vec<Case> {
    let mut cases = vec![];
    let one = |queries, keys, columns| shape(1, [1, 1], [queries, keys], columns);
    for (number, columns) in [64, 128, 16, 80, 176].into_iter().enumerate() {
        let split = ["auto", "2", "3", "16"][number % 4];
        let (bm, bk) = [(128, 128), (64, 64), (64, 128)][number % 3];
        let mask = Mask::causal(200, 400, (bm, bk)).unwrap();
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, split = {split}, dtype = bf16, {CAUSAL}");
        cases.push(case(&spec, one(200, 400, columns), mask));
    }
    for split in ["auto", "7", "16"] {
        let mask = Mask::lower_triangle((490, 490), (64, 64)).unwrap();
        cases.push(case(&format!("bm = 64, bn = 64, bk = 64, split = {split}"), one(490, 490, 64), mask));
        // Queries of one word against a long cache, in groups of heads.
        let mask = Mask::full((3, 800), (64, 64)).unwrap();
        let decode = shape(1, [2, 1], [3, 800], 64);
        cases.push(case(&format!("bm = 64, bn = 64, bk = 64, split = {split}"), decode, mask));
    }
    for split in [6, 8, 10, 11, 12, 13, 14, 15] {
        let mask = Mask::full((3, 40 * split), (64, 32)).unwrap();
        cases.push(case(&format!("bm = 64, bn = 16, bk = 32, split = {split}"), one(3, 40 * split, 16), mask));
    }
    for (queries, split) in [(1, "auto"), (16, "5"), (65, "auto")] {
        let mask = Mask::full((queries, 600), (128, 128)).unwrap();
        let spec = format!("bm = 128, bn = 64, bk = 128, split = {split}, dtype = bf16");
        cases.push(Case { order: HeadOrder::RowsFirst, ..case(&spec, shape(2, [2, 2], [queries, 600], 64), mask) });
    }
    // Rows without blocks beside long ones, blocks that a score empties: parts without any key.
    for split in ["auto", "4"] {
        let spec = format!("bm = 64, bn = 64, bk = 64, split = {split}");
        cases.push(case(&spec, one(490, 490, 64), with_empty_rows()));
    }
    let mask = Mask::by_rule((200, 700), (128, 64), |_, _| Coverage::Partial).unwrap();
    let score = "score = \"|| if i > j + 40 { s * scale } else { -inf }\"";
    cases.push(case(&format!("bm = 128, bn = 64, bk = 64, split = 9, {score}"), one(200, 700, 64), mask));
    cases
}

/// Rows of blocks without any beside long ones, of 490 queries and keys.
pub(crate) fn with_empty_rows() -> Mask {
    let list = BlockList {
        indptr: vec![0, 0, 8, 9, 9, 9, 17, 17, 18],
        indices: [(0..8).collect::<Vec<u32>>(), vec![2], (0..8).collect(), vec![7]].concat(),
        partial: vec![false; 18],
    };
    Mask::new((490, 490), (64, 64), Sharing::All, vec![list]).unwrap()
}

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

/// Heads that share a tile: groups of one tile and of several, few queries and many, in both layouts.
pub(crate) fn packed() -> Vec<Case> {
    let mut cases = vec![];
    for (number, (pack, [heads, key_heads], queries)) in [
        (4, [8, 2], 1),
        (1, [4, 2], 150),
        (2, [4, 1], 16),
        (32, [64, 2], 7),
        (8, [8, 1], 5),
        (64, [64, 1], 3),
        (16, [16, 1], 9),
        (4, [4, 1], 150),
        (2, [4, 2], 200),
    ]
    .into_iter()
    .enumerate()
    {
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][number % 2];
        let (bm, bk) = [(64, 128), (64, 64), (128, 128)][number % 3];
        let keys = ["", ", split = auto", ", split = 3", ", dtype = bf16, split = auto"][number % 4];
        let mask = Mask::random((queries, 350), (bm, bk), 0.8, 3).unwrap();
        let spec = format!("bm = {bm}, bn = 64, bk = {bk}, pack_heads = {pack}{keys}");
        cases.push(Case { order, ..case(&spec, shape(2, [heads, key_heads], [queries, 350], 64), mask) });
    }
    let mask = Mask::causal(200, 200, (64, 64)).unwrap();
    let spec = format!("bm = 64, bn = 64, bk = 64, pack_heads = 4, {CAUSAL}");
    cases.push(case(&spec, shape(1, [8, 2], [200, 200], 64), mask.clone()));
    let window = "score = \"|before: f32| if i < j { -inf } else if i - j > before { -inf } else { s * scale }\"";
    let spec = format!("bm = 128, bn = 128, bk = 64, pack_heads = 2, dtype = bf16, {window}");
    let mask = Mask::window((300, 300), (128, 64), 90, 0).unwrap();
    cases.push(Case { scalars: &[90.0], ..case(&spec, shape(1, [2, 1], [300, 300], 128), mask) });
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

/// Q and K of other columns than V.
pub(crate) fn depths() -> Vec<Case> {
    let mut cases = vec![];
    let pairs = [(192, 128), (64, 128), (128, 64), (80, 64), (16, 96), (96, 16), (256, 32)];
    for (at, (depth, columns)) in pairs.into_iter().enumerate() {
        let (bm, bk) = [(128, 128), (64, 64)][at % 2];
        let dtype = ["f16", "bf16"][at / 2 % 2];
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}, d = {depth}, {CAUSAL}");
        let mask = Mask::causal(170, 170, (bm, bk)).unwrap();
        let order = [HeadOrder::HeadsFirst, HeadOrder::RowsFirst][at % 2];
        cases.push(Case { order, ..case(&spec, shape(1, [2, 1], [170, 170], columns), mask) });
    }
    cases
}

/// Every multiple of 16 columns, in blocks of the sizes that masks have, for a GPU: the simulator computes some of them.
pub(crate) fn all_columns() -> Vec<Case> {
    let mut cases = vec![];
    for columns in (16..=256).step_by(16) {
        for (number, (bm, bk)) in [(64, 64), (64, 128), (128, 64), (128, 128)].into_iter().enumerate() {
            let dtype = ["f16", "bf16"][(number + columns / 16) % 2];
            let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, dtype = {dtype}, {CAUSAL}");
            let mask = Mask::causal(300, 300, (bm, bk)).unwrap();
            cases.push(case(&spec, shape(1, [2, 1], [300, 300], columns), mask));
        }
    }
    cases
}

#[test]
fn every_value_of_every_key_is_drawn() {
    let tables = [
        blocks(),
        patterns(),
        tensors(),
        steep(),
        divided(),
        packed(),
        vectors(),
        sinks(),
        paged(),
        depths(),
        eight_bits(),
        crate::clusters::cases(),
        crate::block_factors::cases(),
        crate::joined::cases(),
        crate::eight_bit_pages::cases(),
    ];
    let parse = |case: &Case| format!("op = attention, {}", case.spec).parse().unwrap();
    let missing = missing(&ATTENTIONS, tables.iter().flatten().map(parse));
    assert!(missing.is_empty(), "{} values are in no row:\n{}", missing.len(), missing.join("\n"));
}
