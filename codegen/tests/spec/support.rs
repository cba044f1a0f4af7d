//! `docs/src/support.md`: which family supports which value of which key, determined by planning. `BSR_BLESS=1` writes it.

use std::fmt::Write;

use bsr_codegen::spec::{Key, Target};
use bsr_codegen::{KernelSpec, Mma, Plan};

/// A row: the request in words and as the text of a spec. A key of 8-bit operands alone is tried with these.
struct Row {
    words: &'static str,
    spec: &'static str,
}

const SECTIONS: [(&str, &[Row]); 12] = [
    (
        "Operands",
        &[
            row("`dtype = f16`", "dtype = f16"),
            row("`dtype = bf16`", "dtype = bf16"),
            row("`dtype = f32`", "dtype = f32"),
            row("`dtype = f32, tf32 = on`, column-major B", "dtype = f32, tf32 = on, b_layout = col"),
            row("`dtype = f32, tf32 = on`, row-major B", "dtype = f32, tf32 = on"),
            row("`dtype = f64`", "dtype = f64"),
            row("`dtype = f64`, blocks of 3 x 3, `bn = 1`", "bm = 3, bn = 1, bk = 3, dtype = f64"),
            row("`dtype = e4m3`", "dtype = e4m3"),
            row("`dtype = e5m2`", "dtype = e5m2"),
            row("`a = e4m3, b = e5m2`", "a = e4m3, b = e5m2"),
            row("`a = e5m2, b = e4m3`", "a = e5m2, b = e4m3"),
            row("`dtype = i8`", "dtype = i8"),
        ],
    ),
    (
        "Results of f16 operands",
        &[
            row("`out = f16`", "out = f16"),
            row("`out = bf16`", "out = bf16"),
            row("`out = f32`", "out = f32"),
            row("`out = e4m3`", "out = e4m3"),
        ],
    ),
    (
        "Results of 8-bit operands",
        &[
            row("`dtype = e4m3, out = f16`", "dtype = e4m3, out = f16"),
            row("`dtype = e4m3, out = f32`", "dtype = e4m3, out = f32"),
            row("`dtype = e4m3, out = e4m3`", "dtype = e4m3, out = e4m3"),
            row("`dtype = i8, out = i32`", "dtype = i8, out = i32"),
            row("`dtype = i8, out = f32`", "dtype = i8, out = f32"),
            row("`dtype = i8, out = f16`", "dtype = i8, out = f16"),
        ],
    ),
    (
        "Layouts of 16-bit matrices",
        &[
            row("`b_layout = row`", "b_layout = row"),
            row("`b_layout = col`", "b_layout = col"),
            row("`c_layout = row`", "c_layout = row"),
            row("`c_layout = col`", "c_layout = col"),
        ],
    ),
    (
        "Layouts of 8-bit matrices",
        &[
            row("`dtype = e4m3, b_layout = row`", "dtype = e4m3, b_layout = row"),
            row("`dtype = e4m3, b_layout = col`", "dtype = e4m3, b_layout = col"),
            row("`dtype = e4m3, c_layout = col`", "dtype = e4m3, c_layout = col"),
        ],
    ),
    (
        "Accumulation and scales",
        &[
            row("`accumulate = atomic`", "accumulate = atomic, out = f32"),
            row("`accumulate = register`", "accumulate = register"),
            row("`acc = f16`", "acc = f16"),
            row("`dtype = e4m3, accumulate = fast`", "dtype = e4m3, accumulate = fast"),
            row("`dtype = e4m3, accumulate = promoted`", "dtype = e4m3, accumulate = promoted"),
            row("`dtype = e4m3, scale = tensor`", "dtype = e4m3, scale = tensor"),
            row("`dtype = e4m3, scale = row_col`", "dtype = e4m3, scale = row_col"),
            row("`dtype = e4m3, scale = block`", "dtype = e4m3, scale = block"),
            row("`dtype = i8, scale = row_col, out = f16`", "dtype = i8, scale = row_col, out = f16"),
        ],
    ),
    (
        "Lists of problems",
        &[
            row("`batch = on`", "batch = on"),
            row("`batch = on`, swap-AB", "batch = on, swap = on"),
            row("`op = dds, batch = on`", "op = dds, batch = on"),
            row("`op = sdd, batch = on`", "op = sdd, batch = on"),
            row("`batch = on, split = auto`", "batch = on, split = auto"),
            row("`batch = on, split = auto`, swap-AB", "batch = on, split = auto, swap = on"),
            row("`batch = on` with an epilogue", "batch = on, epilogue = \"|| relu(acc)\""),
        ],
    ),
    (
        "Two sparse factors",
        &[
            row("`op = dss`", "op = dss"),
            row("`op = sss`", "op = sss"),
            row("`op = dss, c_layout = col`", "op = dss, c_layout = col"),
            row("`op = dss, b_layout = col`", "op = dss, b_layout = col"),
            row("`op = dss, dtype = e4m3`", "op = dss, dtype = e4m3"),
            row("`op = sss, dtype = e4m3`", "op = sss, dtype = e4m3"),
            row("`op = dss, dtype = e4m3, scale = row_col`", "op = dss, dtype = e4m3, scale = row_col"),
            row("`op = sss, dtype = e4m3, scale = tensor`", "op = sss, dtype = e4m3, scale = tensor"),
            row("`op = dss, tf32 = on, b_layout = col`", "op = dss, dtype = f32, tf32 = on, b_layout = col"),
            row("`op = dss, transpose = on`", "op = dss, transpose = on"),
            row("`op = dss, batch = on`", "op = dss, batch = on"),
            row("`op = dss, split = auto`", "op = dss, split = auto"),
            row("`op = dss` with vectors", "op = dss, epilogue = \"|x: Rows<f32>, y: Cols<bf16>| acc * x + y\""),
            row("`op = sss` with vectors", "op = sss, epilogue = \"|x: Rows<f32>, y: Cols<bf16>| acc * x + y\""),
            row("`op = sss, beta = on`", "op = sss, beta = on"),
        ],
    ),
    (
        "Epilogues",
        &[
            row("functions: `gelu(acc)`", "epilogue = \"|| gelu(acc)\""),
            row("vectors: `Rows<f32>`, `Cols<bf16>`", "epilogue = \"|x: Rows<f32>, y: Cols<bf16>| acc * x + y\""),
            row("a full operand: `Dense<f16>`", "epilogue = \"|x: Dense<f16>| acc + x\""),
            row("`beta = on`: C is added to", "beta = on"),
            row("vectors, `op = dds`", "op = dds, epilogue = \"|x: Rows<f32>, y: Cols<bf16>| acc * x + y\""),
            row("a second result: `row_sum`, `row_max`", "epilogue = \"|| (acc, row_sum(acc))\""),
            row("the same, `op = dds`", "op = dds, epilogue = \"|| (acc, row_sum(acc))\""),
            row("the same, `op = dds`, swap-AB", "op = dds, swap = on, epilogue = \"|| (acc, row_sum(acc))\""),
            row(
                "vectors and a full operand, swap-AB",
                "swap = on, epilogue = \"|x: Rows<f32>, y: Dense<f16>| acc * x + y\"",
            ),
            row("`op = sdd`: vectors", "op = sdd, epilogue = \"|x: Rows<f32>, y: Cols<bf16>| acc * x + y\""),
            row("`op = sdd`: values of blocks, `Bsr<f16>`", "op = sdd, epilogue = \"|x: Bsr<f16>| acc * x\""),
            row("`op = sdd`: a second result", "op = sdd, epilogue = \"|| (acc, row_max(acc))\""),
            row("`op = sdd`: `beta = on`", "op = sdd, beta = on"),
            row("with 8-bit results", "dtype = e4m3, out = e4m3, epilogue = \"|x: Rows<f32>| acc * x\""),
            row("with i32 results", "dtype = i8, epilogue = \"|x: Rows<f32>| acc * x\""),
        ],
    ),
    (
        "Attention and its gradient",
        &[
            row("`op = attention`", "op = attention"),
            row("`op = attention_dq`", "op = attention_dq"),
            row("`op = attention_dkv`", "op = attention_dkv"),
            row("`op = attention_dq`, a score with vectors", DOCUMENTS_DQ),
            row("`op = attention_dkv`, a score with vectors", DOCUMENTS_DKV),
            row(
                "`op = attention_dkv`, a soft cap",
                "op = attention_dkv, score = \"|cap: f32| cap * tanh(s * scale / cap)\"",
            ),
            row("`op = attention_dq, split = 2`", "op = attention_dq, split = 2"),
            row("`op = attention_dq, dtype = e4m3`", "op = attention_dq, dtype = e4m3"),
        ],
    ),
    (
        "Shape of the kernel",
        &[
            row("`warps = (2, 2)`", "warps = (2, 2)"),
            row("`shape = m16n16k16`", "shape = m16n16k16"),
            row("`shape = m32n8k16`", "shape = m32n8k16"),
            row("`shape = m8n32k16`", "shape = m8n32k16"),
            row("`vector = 8`", "vector = 8"),
            row("`stages = 3`", "stages = 3"),
            row("`k_step = 32`", "k_step = 32"),
            row("`consumers = 2`", "consumers = 2"),
            row("`cluster = 2`", "cluster = 2"),
            row("`swizzle = 64`", "swizzle = 64"),
            row("`permute = on`", "permute = on"),
            row("`permute = on`, swap-AB", "permute = on, swap = on"),
            row("`schedule = strided`", "schedule = strided"),
            row("`split = auto`", "split = auto"),
            row("`split = 4`, swap-AB", "split = 4, swap = on"),
        ],
    ),
    (
        "Architectures",
        &[
            row("`arch = sm_70`", "arch = sm_70"),
            row("`arch = sm_75`", "arch = sm_75"),
            row("`arch = sm_80`", "arch = sm_80"),
            row("`arch = sm_86`", "arch = sm_86"),
            row("`arch = sm_89`", "arch = sm_89"),
            row("`arch = sm_90a`", "arch = sm_90a"),
            row("`arch = sm_120`", "arch = sm_120"),
            row("`arch = sm_80, dtype = bf16`", "arch = sm_80, dtype = bf16"),
            row("`arch = sm_70, dtype = bf16`", "arch = sm_70, dtype = bf16"),
            row("`arch = sm_86, dtype = e4m3`", "arch = sm_86, dtype = e4m3"),
            row("`arch = sm_89, dtype = e4m3`", "arch = sm_89, dtype = e4m3"),
            row("`arch = sm_120, dtype = e4m3`", "arch = sm_120, dtype = e4m3"),
        ],
    ),
];

/// Documents by query and key.
const DOCUMENTS_DQ: &str =
    "op = attention_dq, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else { -inf }\"";
const DOCUMENTS_DKV: &str =
    "op = attention_dkv, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } else { -inf }\"";

const fn row(words: &'static str, spec: &'static str) -> Row {
    Row { words, spec }
}

#[test]
fn the_table_of_support_is_what_the_planner_does() {
    crate::assert_page("support.md", &table());
}

fn table() -> String {
    let mut text = String::from(
        "# What is supported\n\n\
         Each cell is the result of planning a kernel with 128 x 64 blocks and tiles of 128 columns; `codegen/tests/spec/support.rs`\n\
         generates this page. The number after a no refers to the reason below; a dash means that only other instructions have the\n\
         key, which [its row in the table of keys](keys.md) names.\n",
    );
    let mut reasons: Vec<String> = vec![];
    for (section, rows) in SECTIONS {
        let families: Vec<String> = Mma::ALL.iter().map(|mma| format!("`{mma}`")).collect();
        writeln!(text, "\n## {section}\n\n| | {} |", families.join(" | ")).unwrap();
        writeln!(text, "|---|{}", "---|".repeat(families.len())).unwrap();
        for row in rows {
            let cells: Vec<String> = Mma::ALL.iter().map(|mma| cell(*mma, row.spec, &mut reasons)).collect();
            writeln!(text, "| {} | {} |", row.words, cells.join(" | ")).unwrap();
        }
    }
    writeln!(text, "\n## Sizes\n\n| | {} |", Mma::ALL.map(|mma| format!("`{mma}`")).join(" | ")).unwrap();
    writeln!(text, "|---|{}", "---|".repeat(Mma::ALL.len())).unwrap();
    for (words, key, dtype) in [
        ("`bm`, 16-bit", Key::Bm, "f16"),
        ("`bk`, 16-bit", Key::Bk, "f16"),
        ("`bn`, 16-bit", Key::Bn, "f16"),
        ("`bm`, e4m3", Key::Bm, "e4m3"),
        ("`bk`, e4m3", Key::Bk, "e4m3"),
        ("`bn`, e4m3", Key::Bn, "e4m3"),
    ] {
        let cells: Vec<String> = Mma::ALL.iter().map(|mma| sizes(*mma, key, dtype)).collect();
        writeln!(text, "| {words} | {} |", cells.join(" | ")).unwrap();
    }
    writeln!(text, "\n## Why not\n").unwrap();
    for (i, reason) in reasons.iter().enumerate() {
        writeln!(text, "{}. {reason}", i + 1).unwrap();
    }
    text
}

/// `yes`, a dash where the instruction's kernels do not have the key, or `no` and the numbers of the reasons.
fn cell(mma: Mma, keys: &str, reasons: &mut Vec<String>) -> String {
    // An architecture is tried as it is; everything else on the newest that the family has.
    let sizes = if keys.contains("bm") { "" } else { "bm = 128, bn = 128, bk = 64, " };
    let spec = format!("{sizes}mma = {mma}, {keys}");
    let Err(errors) = best(&spec, keys.contains("arch")) else { return "yes".to_owned() };
    let errors: Vec<String> = errors.into_iter().filter(|error| !is_of_another(error)).collect();
    if errors.is_empty() {
        return "-".to_owned();
    }
    let mut numbers: Vec<String> = vec![];
    for error in errors {
        let error = MERGED.iter().fold(error, |error, (one, all)| error.replace(one, all));
        let at = reasons.iter().position(|known| *known == error).unwrap_or_else(|| {
            reasons.push(error);
            reasons.len() - 1
        });
        numbers.push((at + 1).to_string());
    }
    numbers.dedup();
    format!("no ({})", numbers.join(", "))
}

/// What refusals of several cells differ in, which their rows and columns name, and the common words. Applied in this order.
const MERGED: [(&str, &str); 22] = [
    ("operand a is", "an operand is"),
    ("operand b is", "an operand is"),
    ("an operand is e4m3", "an operand has 8 bits"),
    ("an operand is e5m2", "an operand has 8 bits"),
    ("an operand is i8", "an operand has 8 bits"),
    ("A is e4m3 and B is e5m2", "A and B have different types"),
    ("A is e5m2 and B is e4m3", "A and B have different types"),
    ("in a column-major C", "in a column-major B"),
    ("C is column-major", "B is column-major"),
    ("B is column-major", "B or C is column-major"),
    ("accumulate = atomic needs", "accumulate = register needs"),
    ("accumulate = register needs", "accumulate = atomic and register need"),
    ("mma_sync does not multiply", "wmma does not multiply"),
    ("mma = mma_sync has no kernels", "mma = scalar has no kernels"),
    ("mma = wmma has no kernels", "mma = scalar has no kernels"),
    ("mma = scalar has no kernels", "the instruction has no kernels"),
    ("does not exist on sm_70", "does not exist on this architecture"),
    ("does not exist on sm_75", "does not exist on this architecture"),
    ("does not exist on sm_80", "does not exist on this architecture"),
    ("does not exist on sm_86", "does not exist on this architecture"),
    ("does not exist on sm_89", "does not exist on this architecture"),
    ("does not exist on sm_120", "does not exist on this architecture"),
];

/// Is it the refusal of a key that the instruction's kernels do not have?
fn is_of_another(error: &str) -> bool {
    error.starts_with("kernels with mma = ") && error.contains(" have no `")
}

/// Plans on the family's own choice of an architecture, or else on any that has what is asked for.
fn best(spec: &str, fixed: bool) -> Result<(), Vec<String>> {
    let first = planned(spec);
    if fixed || first.is_ok() {
        return first;
    }
    let newer = Target::ALL.iter().rev().map(|target| planned(&format!("{spec}, arch = {target}")));
    newer.into_iter().find(Result::is_ok).unwrap_or(first)
}

fn planned(spec: &str) -> Result<(), Vec<String>> {
    let spec: KernelSpec = spec.parse().unwrap_or_else(|error| panic!("{error}"));
    match Plan::new(&spec) {
        Ok(_) => Ok(()),
        Err(errors) => Err(errors.iter().map(|error| error.to_string().replace("\n  ", ": ")).collect()),
    }
}

/// The sizes that plan: `64, 128 .. 512`.
fn sizes(mma: Mma, key: Key, dtype: &str) -> String {
    let plans = |value: u32| {
        let [bm, bn, bk] = [Key::Bm, Key::Bn, Key::Bk].map(|of| match (of == key, of) {
            (true, _) => value,
            (_, Key::Bk) => 64,
            _ => 128,
        });
        let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = {mma}, dtype = {dtype}");
        best(&spec, false).is_ok()
    };
    let legal: Vec<u32> = (1..=520).filter(|value| plans(*value)).collect();
    let Some((first, last)) = legal.first().zip(legal.last()) else { return "-".to_owned() };
    let step = legal.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(0);
    let whole = legal.windows(2).all(|pair| pair[1] - pair[0] == step);
    let gaps = if whole { "" } else { ", with gaps" };
    format!("{first} to {last} by {step}{gaps}")
}
