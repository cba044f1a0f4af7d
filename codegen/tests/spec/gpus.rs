//! `docs/src/which-gpu.md`: what each GPU runs, determined by planning for its architecture. `BSR_BLESS=1` writes it.

use std::fmt::Write;

use bsr_codegen::spec::{Key, Target};
use bsr_codegen::{Arch, KernelSpec, Mma, Plan};

/// Compute capabilities, and GPUs that have them.
const GPUS: [((u32, u32), &str); 8] = [
    ((7, 0), "V100"),
    ((7, 5), "T4, RTX 2080"),
    ((8, 0), "A100, A30"),
    ((8, 6), "A10, A40, RTX 3090"),
    ((8, 9), "L4, L40S, RTX 4090"),
    ((9, 0), "H100, H200, GH200"),
    ((10, 0), "B200"),
    ((12, 0), "RTX 5090, RTX PRO 6000"),
];

/// Types of A and B, and blocks that a kernel of them may have.
const TYPES: [(&str, &str); 7] = [
    ("f16", "bm = 128, bn = 128, bk = 64, dtype = f16"),
    ("bf16", "bm = 128, bn = 128, bk = 64, dtype = bf16"),
    ("FP8", "bm = 128, bn = 128, bk = 64, dtype = e4m3"),
    ("i8", "bm = 128, bn = 128, bk = 64, dtype = i8"),
    ("f32", "bm = 128, bn = 128, bk = 64, dtype = f32"),
    ("f32 in TF32, column-major B", "bm = 128, bn = 128, bk = 64, dtype = f32, tf32 = on, b_layout = col"),
    ("f64, small blocks", "bm = 4, bn = 4, bk = 4, dtype = f64"),
];

/// What is computed.
const PRODUCTS: [(&str, &str); 12] = [
    ("`op = dsd`, A sparse", "op = dsd"),
    ("`op = dds`, B sparse", "op = dds"),
    ("`op = sdd`, SDDMM", "op = sdd"),
    ("`op = dss`, `op = sss`", "op = dss"),
    ("`op = attention`", "op = attention"),
    ("its gradient", "op = attention_dq"),
    ("`transpose = on`", "transpose = on"),
    ("`batch = on`", "batch = on"),
    ("`permute = on`", "permute = on"),
    ("epilogues, `beta`", "beta = on"),
    ("scales of 8-bit operands", "dtype = e4m3, scale = row_col"),
    ("`out = f32`, column-major B and C", "out = f32, b_layout = col, c_layout = col"),
];

const OPENING: &str = "\
# Which GPU runs what

PTX for `sm_70` to `sm_89` runs on every later GPU that has the shared memory that the kernel was planned for; PTX for
`sm_90a` runs on Hopper only. `arch` plans for an architecture, and each GPU has the newest one whose PTX it runs.
`codegen/tests/spec/gpus.rs` generates this page by planning.

## Types

The fastest instruction for products of a sparse and a dense matrix, by the type of A and B.
";

const PRODUCTS_OPENING: &str = "
## Products

Whether any instruction has the product, with f16 unless the row says otherwise.
";

const USE: &str = "
## How a program uses it

- In the attribute, `fallback = on` embeds kernels for other GPUs beside that for Hopper, and `load` and `open` take the
  best that the GPU runs ([details](keys.md#other-gpus)). Without it, `mma` and `arch` choose one kernel.
- `Auto` and `bsr sweep` search a space of kernels that are planned for the GPU's own architecture. `bsr explain --gpu \"RTX 4090\"`
  shows what `Auto` would take there. Except on an H100 or H200, times are predicted from the card's data sheet, in
  proportion to a measured Hopper card, until `bsr sweep` or `bsr calibrate` has measured them; the output says so.
- `bsr run`, `bench` and `check` take the kernel as it is written: `bsr run \"bm = 128, bn = 128, bk = 64, mma = mma_sync\"`.

## How it was tested

- On an H100 and an H200: kernels for `sm_90a`, and PTX for older architectures, which these GPUs run as well.
- By ptxas 13.0: kernels of every instruction, type and architecture, each also for every later architecture up to
  `sm_120`; those for `sm_70` as for `sm_75`, the oldest that ptxas 13.0 has.
- On the simulator: kernels for every architecture, within the shared memory and the instructions of the target.
- Not on a GPU of another compute capability than 9.0. No speed was measured there.
";

#[test]
fn the_page_of_gpus_is_what_the_planner_does() {
    crate::assert_page("which-gpu.md", &page());
}

fn page() -> String {
    let mut text = OPENING.to_owned();
    let types = TYPES.map(|(words, _)| words).join(" | ");
    writeln!(text, "\n| compute capability | GPUs | `arch` | shared memory that a plan may use | {types} |").unwrap();
    writeln!(text, "|---|---|---|---:|{}", "---|".repeat(TYPES.len())).unwrap();
    for ((major, minor), gpus) in GPUS {
        let target = Target::of_gpu((major, minor)).unwrap();
        let kib = Arch::of(target).shared_bytes / 1024;
        let cells = TYPES.map(|(_, spec)| fastest(spec, target).map_or("-".to_owned(), |mma| format!("`{mma}`")));
        let cells = cells.join(" | ");
        writeln!(text, "| {major}.{minor} | {gpus} | `{target}` | {kib} KB | {cells} |").unwrap();
    }
    text.push_str(PRODUCTS_OPENING);
    let capabilities = GPUS.map(|((major, minor), _)| format!("{major}.{minor}")).join(" | ");
    writeln!(text, "\n| | {capabilities} |\n|---|{}", "---|".repeat(GPUS.len())).unwrap();
    for (words, keys) in PRODUCTS {
        let sizes = "bm = 128, bn = 128, bk = 128";
        let runs = |capability| fastest(&format!("{sizes}, {keys}"), Target::of_gpu(capability).unwrap()).is_some();
        let cells = GPUS.map(|(capability, _)| if runs(capability) { "yes" } else { "-" });
        writeln!(text, "| {words} | {} |", cells.join(" | ")).unwrap();
    }
    let hopper = Key::ALL.into_iter().filter(|key| key.instructions() == [Mma::Wgmma]);
    let keys: Vec<String> = hopper.map(|key| format!("`{key}`")).collect();
    writeln!(text, "\nKeys that only kernels for Hopper have: {}.", keys.join(", ")).unwrap();
    text.push_str(USE);
    text
}

/// The fastest instruction that has the product on an architecture.
fn fastest(spec: &str, target: Target) -> Option<Mma> {
    let plans = |mma: &Mma| {
        let spec: KernelSpec = format!("{spec}, mma = {mma}, arch = {target}").parse().unwrap();
        Plan::new(&spec).is_ok()
    };
    Mma::ALL.into_iter().find(plans)
}
