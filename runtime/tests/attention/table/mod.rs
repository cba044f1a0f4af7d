//! The cases: block, head, types, sizes, layout, mask, score.

use bsr_runtime::attention::{BlockList, Coverage, HeadOrder, HostVector, Mask, Shape, Sharing};

use crate::drawn::{ATTENTIONS, missing};

mod operands;

pub(crate) use operands::{of_lengths, paged, sinks, vectors};

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
        crate::lists::cases(),
        crate::block_factors::cases(),
        crate::joined::cases(),
        crate::eight_bit_pages::cases(),
    ];
    let parse = |case: &Case| format!("op = attention, {}", case.spec).parse().unwrap();
    let missing = missing(&ATTENTIONS, tables.iter().flatten().map(parse));
    assert!(missing.is_empty(), "{} values are in no row:\n{}", missing.len(), missing.join("\n"));
}
