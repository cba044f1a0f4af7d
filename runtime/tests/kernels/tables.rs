//! The tables: block sizes, types and layouts, shapes, patterns, tile counts, knobs.

use bsr_codegen::Problem;
use bsr_runtime::gpu::tensor_map;

use crate::case::{Blocks, Case, parse};
use crate::run::run_table;

use Blocks::{FullRows, Lengths, Pattern};

#[test]
fn block_sizes() {
    run_table("block sizes", &block_size_cases());
}

#[test]
fn types_and_layouts() {
    run_table("types and layouts", &type_and_layout_cases());
}

#[test]
fn shapes() {
    run_table("shapes", &shape_cases());
}

#[test]
fn patterns() {
    run_table("patterns", &pattern_cases());
}

#[test]
fn tile_counts() {
    run_table("tile counts", &tile_count_cases());
}

#[test]
fn knobs() {
    run_table("knobs", &knob_cases());
}

/// A few small kernels of different make, for
/// `compute-sanitizer --tool memcheck TEST_BINARY sanitizer_sample`.
#[test]
fn sanitizer_sample() {
    run_table("sanitizer sample", &sample_cases());
}

/// Needs no GPU: a misspelt row shows here, and a row that cannot be planned or addressed.
#[test]
fn every_row_of_the_tables_can_be_launched() {
    let tables = [
        block_size_cases(),
        type_and_layout_cases(),
        shape_cases(),
        pattern_cases(),
        tile_count_cases(),
        knob_cases(),
        sample_cases(),
    ];
    let mut wrong = vec![];
    for case in tables.iter().flatten() {
        let checked = case.plan().and_then(|plan| {
            let nnzb = case.structure()?.nnzb() as u64;
            let (m, n, k) = (case.m as u64, case.n as u64, case.k as u64);
            let ld = m.max(n).max(k).next_multiple_of(8);
            let (ldb, ldc) = (ld, ld);
            let launch = plan.launch(&Problem { m, n, k, nnzb, ldb, ldc }, 1);
            for map in &launch.maps {
                tensor_map::validate(4096, map)?;
            }
            Ok(())
        });
        wrong.extend(checked.err().map(|error| format!("{case}\n    {error}")));
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every class of block rows and of block columns, on shapes that are no multiples of anything.
fn block_size_cases() -> Vec<Case> {
    let bms = [64, 128, 192, 256, 320, 384, 448, 512];
    let bks = [16, 32, 48, 64, 80, 96, 112, 128, 240, 512];
    let pairs = [("", 128), (", dtype = bf16", 64), (", out = f32", 96), (", dtype = bf16, b_layout = col", 128)];
    let mut cases = vec![];
    for (i, bm) in bms.into_iter().enumerate() {
        for (j, bk) in bks.into_iter().enumerate() {
            // Every third pair, so that each size meets several of the other kind.
            if (i + j) % 3 != 0 {
                continue;
            }
            let (rest, bn) = pairs[(i + 2 * j) % pairs.len()];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}{rest}");
            let shape = (2 * bm + 37, bn + 45, 5 * bk + 13);
            cases.push(Case::new(&spec, shape, Pattern("random:0.6")));
        }
    }
    cases
}

/// Every operand type, result type and pair of layouts, on tiles that take each way of the epilogue and of the
/// stages.
fn type_and_layout_cases() -> Vec<Case> {
    let layouts = ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"];
    let mut cases = vec![];
    let mut add = |sizes: &str, types: &str, shape| {
        for layout in layouts {
            let spec = format!("{sizes}, {types}{layout}");
            cases.push(Case::new(&spec, shape, Pattern("random:0.4")));
        }
    };
    for a in ["f16", "bf16"] {
        for out in ["f16", "bf16", "f32"] {
            let types = format!("a = {a}, b = {a}, out = {out}");
            add("bm = 128, bn = 128, bk = 64", &types, (411, 333, 521));
        }
    }
    for types in ["dtype = f16", "out = f32"] {
        add("bm = 512, bn = 128, bk = 112", types, (1111, 300, 1001));
        add("bm = 512, bn = 128, bk = 112, cluster = 2", types, (1111, 300, 1001));
    }
    // Gathered blocks, a tile split by columns.
    for types in ["dtype = bf16", "dtype = bf16, out = f32"] {
        add("bm = 64, bn = 256, bk = 32", types, (333, 411, 521));
    }
    // Too many accumulators for a packed copy: 16-bit results stored at once.
    add("bm = 192, bn = 192, bk = 64, consumers = 3", "dtype = f16", (500, 411, 300));
    // Narrow tiles: narrow boxes and swizzles.
    add("bm = 64, bn = 16, bk = 16", "out = f32", (200, 49, 100));
    add("bm = 64, bn = 32, bk = 48", "dtype = bf16", (200, 97, 300));
    cases
}

/// M, N and K at and around the sizes of tiles and blocks, one at a time.
fn shape_cases() -> Vec<Case> {
    let specs = [
        "bm = 512, bn = 128, bk = 112",
        "bm = 64, bn = 64, bk = 16, dtype = bf16",
        "bm = 128, bn = 256, bk = 64, b_layout = col, c_layout = col",
        "bm = 128, bn = 128, bk = 32, out = f32",
        "bm = 64, bn = 128, bk = 64, cluster = 2, c_layout = col",
    ];
    let mut cases = vec![];
    for text in specs {
        let spec = parse(text);
        let (bm, bn, bk) = (spec.bm as usize, spec.bn as usize, spec.bk as usize);
        let (m, n, k) = (2 * bm + 5, bn / 2 + 6, 3 * bk + 7);
        let mut add = |shape| cases.push(Case::new(text, shape, Pattern("random:0.7")));
        for n in [1, 3, 8, 17, bn - 1, bn, bn + 1, 2 * bn + 8, 1000] {
            add((m, n, k));
        }
        for m in [1, 8, 63, bm - 1, bm, bm + 1, 3 * bm, 3 * bm + 17] {
            add((m, n, k));
        }
        for k in [1, 8, 15, 16, bk - 1, bk, bk + 1, 4 * bk, 9 * bk + 9] {
            add((m, n, k));
        }
        add((1, 1, 1));
    }
    // The flagship's ragged last block column.
    cases.push(Case::new(specs[0], (1024, 256, 8192), Pattern("topk:16")));
    cases
}

/// Empty rows, full rows, no blocks at all, rows around the 32 block columns that are fetched at a time.
fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 64, bn = 128, bk = 16", (1000, 200)),
        ("bm = 64, bn = 64, bk = 64, dtype = bf16", (1000, 200)),
        ("bm = 512, bn = 128, bk = 112, cluster = 2", (4000, 130)),
        ("bm = 128, bn = 128, bk = 48, cluster = 2, out = f32", (1000, 300)),
        ("bm = 128, bn = 64, bk = 32, b_layout = col, c_layout = col", (1000, 200)),
    ];
    let shared: [Blocks; 17] = [
        Pattern("random:0.02"),
        Pattern("random:0.3"),
        Pattern("random:1"),
        Pattern("topk:1"),
        Pattern("topk:7"),
        Pattern("window:0.3"),
        Pattern("causal"),
        Pattern("powerlaw:0.2"),
        Pattern("random:0"),
        Lengths(&[0, 1, 2, 3]),
        Lengths(&[3, 0]),
        Lengths(&[1, 0, 0, 0, 0, 0, 0, 9]),
        Lengths(&[8, 4, 5, 9]),
        FullRows(&[0]),
        FullRows(&[2]),
        FullRows(&[7]),
        FullRows(&[0, 3, 4]),
    ];
    let mut cases = vec![];
    for (text, (m, n)) in specs {
        let bk = parse(text).bk as usize;
        let mut add = |k, blocks| cases.push(Case::new(text, (m, n, k), blocks));
        for blocks in &shared {
            add(20 * bk + 5, blocks.clone());
        }
        add(101 * bk - 3, Lengths(&[31, 32, 33, 0, 63, 64, 65, 101]));
        add(101 * bk - 3, Lengths(&[96, 1, 95, 97, 0, 0, 34, 30]));
    }
    cases
}

/// Fewer tiles than multiprocessors, as many, many more; even and uneven rows; both schedules.
fn tile_count_cases() -> Vec<Case> {
    let mut cases = vec![];
    for text in [
        "bm = 64, bn = 64, bk = 64",
        "bm = 64, bn = 64, bk = 64, schedule = strided, dtype = bf16",
        "bm = 128, bn = 64, bk = 32, cluster = 2, schedule = balanced",
        "bm = 512, bn = 64, bk = 64, b_layout = col, c_layout = col",
    ] {
        let (bm, bn) = (parse(text).bm as usize, parse(text).bn as usize);
        for (rows, columns, blocks) in [
            (1, 1, Pattern("topk:3")),
            (1, 2, Pattern("topk:3")),
            (3, 7, Pattern("random:0.5")),
            (4, 32, Pattern("random:0.5")),
            (4, 33, Pattern("topk:4")),
            (7, 19, Pattern("powerlaw:0.3")),
            (4, 200, Pattern("powerlaw:0.3")),
            (2, 301, FullRows(&[1])),
        ] {
            let shape = (rows * bm - 3, columns * bn - 5, 500);
            cases.push(Case::new(text, shape, blocks));
        }
    }
    let many = "bm = 64, bn = 64, bk = 64";
    cases.push(Case::new(many, (2048, 4096, 512), Pattern("random:0.2")));
    cases.push(Case::new(many, (4096, 1000, 512), Pattern("powerlaw:0.2")));
    cases
}

/// Every choice that a spec can take out of the plan's hands.
fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for cluster in [1, 2, 4, 8] {
        add(format!("bm = 512, bn = 256, bk = 64, cluster = {cluster}"), (1200, 300, 500));
        add(format!("bm = 64, bn = 64, bk = 64, cluster = {cluster}"), (300, 700, 500));
        add(format!("bm = 64, bn = 64, bk = 16, cluster = {cluster}"), (300, 700, 500));
        let layouts = "b_layout = col, c_layout = col, dtype = bf16";
        add(format!("bm = 512, bn = 128, bk = 48, cluster = {cluster}, {layouts}"), (1200, 300, 500));
    }
    for stages in 2..=8 {
        add(format!("bm = 128, bn = 64, bk = 64, stages = {stages}"), (500, 300, 900));
    }
    for k_step in [16, 32, 48, 64, 80, 96, 112] {
        add(format!("bm = 128, bn = 128, bk = 112, k_step = {k_step}"), (500, 300, 900));
    }
    for k_step in [16, 32, 64, 128] {
        let layouts = "b_layout = col, out = f32";
        add(format!("bm = 64, bn = 128, bk = 16, k_step = {k_step}"), (300, 300, 333));
        add(format!("bm = 64, bn = 128, bk = 16, k_step = {k_step}, {layouts}"), (300, 300, 333));
    }
    for swizzle in [32, 64, 128] {
        for layout in ["row", "col"] {
            let rest = format!("swizzle = {swizzle}, b_layout = {layout}");
            add(format!("bm = 128, bn = 128, bk = 64, {rest}"), (500, 300, 500));
            add(format!("bm = 128, bn = 128, bk = 80, {rest}"), (500, 300, 500));
        }
    }
    for consumers in [1, 2, 3] {
        add(format!("bm = 192, bn = 64, bk = 64, consumers = {consumers}"), (500, 300, 500));
        add(format!("bm = 64, bn = 192, bk = 64, consumers = {consumers}, out = f32"), (300, 500, 500));
    }
    for schedule in ["strided", "balanced"] {
        add(format!("bm = 64, bn = 128, bk = 64, schedule = {schedule}"), (1000, 3000, 500));
    }
    for bn in [16, 32, 64, 96, 160, 192, 256, 320, 384, 512] {
        add(format!("bm = 64, bn = {bn}, bk = 64"), (300, 600, 300));
        add(format!("bm = 64, bn = {bn}, bk = 64, b_layout = col, c_layout = col"), (300, 600, 300));
    }
    cases
}

fn sample_cases() -> Vec<Case> {
    [
        ("bm = 512, bn = 128, bk = 112", (600, 130, 300)),
        ("bm = 512, bn = 128, bk = 112, cluster = 2", (600, 130, 300)),
        ("bm = 64, bn = 64, bk = 16, dtype = bf16, out = f32", (130, 70, 100)),
        ("bm = 128, bn = 128, bk = 64, b_layout = col, c_layout = col", (200, 150, 200)),
        ("bm = 64, bn = 128, bk = 32, cluster = 2, out = f32, c_layout = col", (130, 300, 100)),
        ("bm = 192, bn = 192, bk = 48, consumers = 3", (200, 260, 200)),
        ("bm = 128, bn = 16, bk = 80, dtype = bf16, c_layout = col", (200, 1, 200)),
    ]
    .map(|(spec, shape)| Case::new(spec, shape, Lengths(&[2, 0, 3])))
    .to_vec()
}
