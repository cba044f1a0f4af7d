//! The cases: block, head, types, sizes, layout, mask, score.

use bsr_runtime::attention::{BlockList, Coverage, HeadOrder, Mask, Shape, Sharing};

pub(crate) const CAUSAL: &str = "score = \"|| if i >= j { s * scale } else { -inf }\"";

/// A spec beside `op = attention`, and what it computes.
pub(crate) struct Case {
    pub(crate) spec: String,
    pub(crate) shape: Shape,
    pub(crate) order: HeadOrder,
    pub(crate) mask: Mask,
    /// Numbers of the score.
    pub(crate) scalars: &'static [f32],
}

fn shape(batch: usize, [heads, key_heads]: [usize; 2], [queries, keys]: [usize; 2], columns: usize) -> Shape {
    Shape { batch, heads, key_heads, queries, keys, columns }
}

fn case(spec: &str, shape: Shape, mask: Mask) -> Case {
    Case { spec: spec.to_owned(), shape, order: HeadOrder::HeadsFirst, mask, scalars: &[] }
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
    for keys in ["stages = 2", "k_step = 32", "k_step = 64, stages = 3"] {
        let mask = Mask::random((200, 640), (64, 128), 0.7, 4).unwrap();
        let spec = format!("bm = 64, bn = 64, bk = 128, {keys}");
        cases.push(case(&spec, shape(1, [1, 1], [200, 640], 64), mask));
    }
    cases
}

/// Tiles whose keys CTAs share: every head dimension's sums, rows of very different lengths, parts of which a consumer has
/// none, few queries against many keys.
pub(crate) fn divided() -> Vec<Case> {
    let mut cases = vec![];
    let one = |queries, keys, columns| shape(1, [1, 1], [queries, keys], columns);
    for (number, columns) in [64, 128, 16, 80, 192].into_iter().enumerate() {
        let split = ["auto", "2", "3", "16"][number % 4];
        let (bm, bk) = [(128, 128), (64, 64), (64, 128)][number % 3];
        let mask = Mask::causal(200, 400, (bm, bk)).unwrap();
        let spec = format!("bm = {bm}, bn = {columns}, bk = {bk}, split = {split}, dtype = bf16, {CAUSAL}");
        cases.push(case(&spec, one(200, 400, columns), mask));
    }
    for split in ["auto", "2", "7", "16"] {
        let mask = Mask::lower_triangle((490, 490), (64, 64)).unwrap();
        cases.push(case(&format!("bm = 64, bn = 64, bk = 64, split = {split}"), one(490, 490, 64), mask));
        // Queries of one word against a long cache, in groups of heads.
        let mask = Mask::full((3, 1500), (64, 64)).unwrap();
        let decode = shape(1, [2, 1], [3, 1500], 64);
        cases.push(case(&format!("bm = 64, bn = 64, bk = 64, split = {split}"), decode, mask));
    }
    for (queries, split) in [(1, "auto"), (16, "5"), (65, "auto")] {
        let mask = Mask::full((queries, 1111), (128, 128)).unwrap();
        let spec = format!("bm = 128, bn = 64, bk = 128, split = {split}, dtype = bf16");
        cases.push(Case { order: HeadOrder::RowsFirst, ..case(&spec, shape(2, [2, 2], [queries, 1111], 64), mask) });
    }
    // Rows without blocks beside long ones, blocks that a score empties: parts without any key.
    let list = BlockList {
        indptr: vec![0, 0, 8, 9, 9, 9, 17, 17, 18],
        indices: [(0..8).collect::<Vec<u32>>(), vec![2], (0..8).collect(), vec![7]].concat(),
        partial: vec![false; 18],
    };
    let mask = Mask::new((490, 490), (64, 64), Sharing::All, vec![list]).unwrap();
    for split in ["auto", "4"] {
        let spec = format!("bm = 64, bn = 64, bk = 64, split = {split}");
        cases.push(case(&spec, one(490, 490, 64), mask.clone()));
    }
    let mask = Mask::by_rule((200, 700), (128, 64), |_, _| Coverage::Partial).unwrap();
    let score = "score = \"|| if i > j + 40 { s * scale } else { -inf }\"";
    cases.push(case(&format!("bm = 128, bn = 64, bk = 64, split = 9, {score}"), one(200, 700, 64), mask));
    cases
}
