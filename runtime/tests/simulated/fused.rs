//! Kernels with epilogues on the simulator: what a launch gives them, refused in words where it does not fit.

use bsr_runtime::reference::{self, Comparison};
use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::{Bsr, Dense, Element, Inputs, Layout, Pattern, Permutation, Results, Scales};
use half::{bf16, f16};

use crate::kernel;

const SHAPE: (usize, usize) = (100, 40);

fn fused(epilogue: &str) -> Simulated {
    kernel(&format!("bm = 64, bn = 32, bk = 32{epilogue}"))
}

fn factors() -> (Bsr<f16>, Dense<f16>) {
    let a = Bsr::generate(Pattern::TopK(2), SHAPE.0, 90, (64, 32), 1).unwrap();
    (a, Dense::normal(90, SHAPE.1, Layout::RowMajor, 1))
}

fn run(kernel: &Simulated, inputs: &Inputs) -> Result<Results<Dense<f16>>, String> {
    let (a, b) = factors();
    let run = kernel.multiply::<f16, _>((&a, &b, inputs), &Options::default());
    let (results, report) = run.map_err(|error| error.to_string())?;
    assert!(report.is_clean(), "{}", report.findings[0]);
    Ok(results)
}

const ALL: &str = ", epilogue = \"|bias: Rows<f32>, gate: Cols<bf16>, res: Dense<f16>, s: f32| \
                   (acc * gate + s * bias + res, row_max(abs(acc)))\"";

fn all() -> Inputs {
    Inputs::new()
        .vector("bias", (0..SHAPE.0).map(|row| row as f32 / 8.0).collect::<Vec<_>>())
        .vector("gate", (0..SHAPE.1).map(|col| bf16::from_f32(col as f32)).collect::<Vec<_>>())
        .matrix("res", Dense::<f16>::normal(SHAPE.0, SHAPE.1, Layout::RowMajor, 5))
        .scalar("s", -2.0)
}

#[test]
fn an_epilogue_written_out_by_hand_gives_the_same() {
    let (a, b) = factors();
    let Results { c, rows } = run(&fused(ALL), &all()).unwrap();
    let res = Dense::<f16>::normal(SHAPE.0, SHAPE.1, Layout::RowMajor, 5);
    let sums = reference::multiply(&a, &b).unwrap();
    let want: Vec<f64> = (0..SHAPE.0 * SHAPE.1)
        .map(|at| {
            let (row, col) = (at / SHAPE.1, at % SHAPE.1);
            sums[at] * col as f64 - 2.0 * (row as f64 / 8.0) + res.get(row, col).unwrap().to_f64()
        })
        .collect();
    let comparison = Comparison::of_dense(&c, &want).unwrap();
    assert!(comparison.passes(5e-4), "{comparison}");
    let largest = sums.chunks(SHAPE.1).map(|row| row.iter().fold(0.0_f64, |most, sum| most.max(sum.abs())));
    for (got, want) in rows.unwrap().into_iter().zip(largest) {
        assert!((f64::from(got) - want).abs() <= 1e-5 * want, "{got}, not {want}");
    }
}

#[test]
fn c_itself_may_be_the_full_operand() {
    let kernel = fused(", epilogue = \"|c: Dense<f16>, beta: f32| acc + beta * c\"");
    let before = Dense::<f16>::normal(SHAPE.0, SHAPE.1, Layout::RowMajor, 6);
    let [there, beside] = [
        Inputs::new().result("c", before.clone()).scalar("beta", -1.5),
        Inputs::new().matrix("c", before.clone()).scalar("beta", -1.5),
    ]
    .map(|inputs| run(&kernel, &inputs).unwrap().c);
    assert_eq!(there.to_f64(), beside.to_f64());
    let (a, b) = factors();
    let sums = reference::multiply(&a, &b).unwrap();
    let want: Vec<f64> = sums.iter().zip(before.to_f64()).map(|(sum, before)| sum - 1.5 * before).collect();
    let comparison = Comparison::of_dense(&there, &want).unwrap();
    assert!(comparison.passes(5e-4), "{comparison}");
}

#[test]
fn a_row_without_blocks_still_has_its_epilogue() {
    let kernel = fused(", epilogue = \"|bias: Rows<f32>| (acc + bias, row_sum(acc + bias))\"");
    let a = Bsr::<f16>::normal(bsr_runtime::Structure::empty(70, 64, (64, 32)).unwrap(), 0);
    let b = Dense::<f16>::normal(64, 9, Layout::RowMajor, 0);
    let inputs = Inputs::new().vector("bias", (0..70).map(|row| row as f32).collect::<Vec<_>>());
    let options = Options::default();
    let (Results { c, rows }, report) = kernel.multiply::<f16, _>((&a, &b, &inputs), &options).unwrap();
    assert!(report.is_clean());
    for row in 0..70 {
        assert_eq!(c.get(row, 8).unwrap().to_f32(), row as f32);
        assert_eq!(rows.as_ref().unwrap()[row], 9.0 * row as f32);
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused_by_name() {
    let kernel = fused(ALL);
    let matrix = |rows, cols, layout| Dense::<f16>::zeros(rows, cols, layout);
    for (inputs, facts) in [
        (Inputs::new(), ["reads `bias`, which is not given", "give `bias`, a Rows<f32>"]),
        (all().scalar("beta", 1.0), ["has no `beta`", "it takes bias: Rows<f32>, gate: Cols<bf16>"]),
        (
            all().vector("bias", vec![0.0_f32; 99]),
            ["`bias` is a vector of 99 f32", "100 x 40 C is a vector of 100 f32"],
        ),
        (all().vector("gate", vec![bf16::ZERO; 100]), ["`gate` is a vector of 100 bf16", "is a vector of 40 bf16"]),
        (all().vector("gate", vec![0.0_f32; 40]), ["`gate` is a vector of 40 f32", "is a vector of 40 bf16"]),
        (all().scalar("bias", 1.0), ["`bias` is an f32", "is a vector of 100 f32"]),
        (all().vector("s", vec![1.0_f32]), ["`s` is a vector of 1 f32", "`s: f32` for a 100 x 40 C is an f32"]),
        (
            all().matrix("res", matrix(40, 100, Layout::RowMajor)),
            ["a 40 x 100 matrix of f16", "a 100 x 40 matrix of f16"],
        ),
        (all().matrix("res", matrix(100, 40, Layout::ColMajor)), ["is a col-major matrix", "is a row-major matrix"]),
        (
            all().matrix("res", Dense::<bf16>::zeros(100, 40, Layout::RowMajor)),
            ["a 100 x 40 matrix of bf16", "a 100 x 40 matrix of f16"],
        ),
    ] {
        let Err(refused) = run(&kernel, &inputs) else { panic!("{facts:?}") };
        assert!(facts.iter().all(|fact| refused.contains(fact)), "{facts:?} are not in: {refused}");
    }
    let refused = run(&fused(""), &Inputs::new().scalar("s", 1.0)).map(drop).unwrap_err();
    assert!(refused.contains("`s` is given, and the kernel's epilogue has no parameters"), "{refused}");
}

/// A reordered A, and a kernel that writes each row of C back to where it was: the product of the original.
#[test]
fn an_order_kept_with_a_matrix_is_undone_where_c_is_written() {
    let (a, b) = factors();
    let order = Permutation::random(SHAPE.0, 8);
    for spec in ["bm = 64, bn = 32, bk = 32, permute = on", "bm = 64, bn = 64, bk = 32, swap = on, permute = on"] {
        let kernel = kernel(spec);
        let c = run(&kernel, &Inputs::new().order(order.clone())).unwrap().c;
        let product = reference::multiply(&a, &b).unwrap();
        let back = order.inverse();
        let row = |row: &u32| product[*row as usize * SHAPE.1..][..SHAPE.1].to_vec();
        let want: Vec<f64> = back.as_slice().iter().flat_map(row).collect();
        let comparison = Comparison::of_dense(&c, &want).unwrap();
        assert!(comparison.passes(5e-4), "{spec}: {comparison}");
        for (inputs, fact) in [
            (Inputs::new(), "and none is given"),
            (Inputs::new().order(Permutation::identity(SHAPE.0 - 1)), "the order is of 99 rows, and C has 100"),
        ] {
            let refused = run(&kernel, &inputs).map(drop).unwrap_err();
            assert!(refused.contains(fact), "{refused}");
        }
    }
    let refused = run(&fused(""), &Inputs::new().order(order)).map(drop).unwrap_err();
    assert!(refused.contains("the kernel takes none"), "{refused}");
}

#[test]
fn a_plain_launch_of_a_kernel_that_reads_more_is_refused() {
    let (a, b) = factors();
    let refused = fused(ALL).multiply::<f16, _>((&a, &b), &Options::default()).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("`bias`, which is not given") && refused.contains("`(&a, &b, NAME_inputs { .. })`"),
        "{refused}"
    );
}

/// A sparse right factor: rows of C are columns of the kernel's tiles. Ragged in both, with empty block columns, stored late
/// and at once, with a full operand and without, in one row group and in several.
#[test]
fn rows_are_collected_where_they_are_columns_of_a_tile() {
    for (at, spec) in [
        "bm = 128, bn = 128, bk = 64",
        "bm = 64, bn = 64, bk = 128, transpose = on",
        "bm = 32, bn = 64, bk = 256, out = f32",
        "bm = 64, bn = 32, bk = 64, c_layout = col, consumers = 1",
        "bm = 64, bn = 64, bk = 256, out = f32, c_layout = col",
    ]
    .into_iter()
    .enumerate()
    {
        for epilogue in [
            "|bias: Rows<f32>, s: f32| (acc + bias, row_sum(s * acc + bias))",
            "|low: Cols<f16>| (acc, row_max(acc + low - 9))",
            "|res: Dense<OUT>| (acc + res, row_sum(acc * res + 1))",
        ] {
            let epilogue = epilogue.replace("OUT", if spec.contains("f32") { "f32" } else { "f16" });
            let text = format!("op = dds, {spec}, epilogue = \"{epilogue}\"");
            let kernel = kernel(&text);
            let spec = *kernel.plan().spec();
            let (m, k, n) = (150 + 7 * at, 200, 270 - 9 * at);
            let (rows, cols) = if spec.transpose.is_on() { (n, k) } else { (k, n) };
            let block = (spec.bm as usize, spec.bk as usize);
            let b = Bsr::<f16>::generate(Pattern::Random(0.4), rows, cols, block, at as u64).unwrap();
            let a = Dense::<f16>::normal(m, k, spec.a_layout, 2);
            let inputs = Inputs::random(spec.epilogue.unwrap().program(), (m, n), spec.c_layout, 3);
            let sums = reference::product(&spec, &b, &a, &Scales::NONE).unwrap();
            let all: Vec<usize> = (0..m).collect();
            let want = reference::fuse(&spec, sums, &all, n, k, &inputs).unwrap();
            let (rows, c) = match spec.out == bsr_runtime::Dtype::F32 {
                true => collected::<f32>(&kernel, &b, &a, &inputs),
                false => collected::<f16>(&kernel, &b, &a, &inputs),
            };
            let comparison = Comparison::new(&c, &want.c, n).unwrap();
            assert!(comparison.passes(want.tolerance), "{text}: {comparison}");
            let comparison = want.compare_rows(Some(&rows)).unwrap();
            assert!(comparison.passes(want.rows_tolerance()), "{text}: rows: {comparison}");
        }
    }
}

fn collected<C: Element>(kernel: &Simulated, b: &Bsr<f16>, a: &Dense<f16>, inputs: &Inputs) -> (Vec<f32>, Vec<f64>) {
    let run = kernel.multiply::<C, _>((a, b, inputs), &Options::default());
    let (Results { c, rows }, report) = run.unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    let (m, n) = (c.rows(), c.cols());
    let values = (0..m * n).map(|at| c.get(at / n, at % n).unwrap().to_f64()).collect();
    (rows.unwrap(), values)
}
