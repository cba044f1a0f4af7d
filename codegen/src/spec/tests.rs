//! The grammar from outside: round trips, agreement of the front ends, and the text of every error.

#![allow(clippy::unwrap_used)]

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{
    Accumulate, Dtype, KernelSpec, Key, Layout, LocatedFamily, LocatedSpec, Mma, Op, Scale, Schedule, Shape,
    SpecErrorKind, Switch, Target,
};

const TILE: &str = "bm = 64, bn = 128, bk = 32";

fn tile() -> KernelSpec {
    KernelSpec::new(64, 128, 32)
}

fn read(text: &str) -> KernelSpec {
    text.parse().unwrap()
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
}

/// The reports of every text, each below the text itself.
fn reports(texts: &[&str]) -> String {
    let report = |text: &&str| match text.parse::<KernelSpec>() {
        Ok(spec) => format!("## {text}\nread as {spec}\n"),
        Err(errors) => format!("## {text}\n{errors}\n"),
    };
    texts.iter().map(report).collect::<Vec<_>>().join("\n")
}

fn toml_reports(texts: &[&str]) -> String {
    let report = |text: &&str| match KernelSpec::from_toml(text) {
        Ok(spec) => format!("## {text}\nread as {spec}\n"),
        Err(errors) => format!("## {text}\n{errors}\n"),
    };
    texts.iter().map(report).collect::<Vec<_>>().join("\n")
}

#[test]
fn defaults_fill_everything_but_the_sizes() {
    assert_eq!(read(TILE), tile());
    assert_eq!(read("bk = 32, bn = 128, bm = 64,"), tile());
    assert_eq!(read("bm=0x40,\n\tbn=1_28 , bk=+32 "), tile());
}

#[test]
fn every_key_is_read() {
    let spec = read(
        "bm = 64, bn = 128, bk = 32, op = dsd, mma = wmma, a = e4m3, b = e5m2, acc = f32, out = f32,
         b_layout = row, c_layout = col_major, scale = row_col, accumulate = promoted, arch = sm_89, warps = (2, 4),
         shape = m32n8k16, vector = 4, stages = 4, consumers = 2, cluster = 2, k_step = 64, schedule = strided,
         swizzle = 128, transpose = on, batch = true, a_layout = col, swap = off, pack = 4, epilogue = \"|| relu(acc)\"",
    );
    let expected = KernelSpec {
        mma: Mma::Wmma,
        a: Dtype::E4M3,
        b: Dtype::E5M2,
        out: Dtype::F32,
        b_layout: Layout::RowMajor,
        c_layout: Layout::ColMajor,
        scale: Scale::RowCol,
        accumulate: Some(Accumulate::Promoted),
        arch: Some(Target::Sm89),
        warps: Some((2, 4)),
        shape: Some(Shape::M32N8K16),
        vector: Some(4),
        stages: Some(4),
        consumers: Some(2),
        cluster: Some(2),
        k_step: Some(64),
        schedule: Some(Schedule::Strided),
        swizzle: Some(128),
        transpose: Switch::On,
        batch: Switch::On,
        a_layout: Layout::ColMajor,
        swap: Some(Switch::Off),
        pack: Some(4),
        epilogue: Some("|| relu(acc)".parse().unwrap()),
        ..tile()
    };
    assert_eq!(spec, expected);
}

#[test]
fn auto_is_the_same_as_nothing() {
    // `split = auto` is a value of its own: without the key, K is not divided.
    let others = [Key::Swizzle, Key::Split];
    let keys = Key::ALL.into_iter().filter(|key| !key.is_required() && !others.contains(key));
    let auto: Vec<String> = keys.map(|key| format!("{key} = auto")).collect();
    let auto = format!("{}, swizzle = \"auto\"", auto.join(", "));
    assert_eq!(read(&format!("{TILE}, {auto}")), tile());
}

#[test]
fn dtype_gives_a_and_b_and_an_out_not_given() {
    let dtypes = |text: &str| {
        let spec = read(&format!("{TILE}, {text}"));
        (spec.a, spec.b, spec.out)
    };
    use Dtype::{BF16, F16, F32};
    assert_eq!(dtypes("dtype = bf16"), (BF16, BF16, BF16));
    assert_eq!(dtypes("dtype = bf16, out = f32"), (BF16, BF16, F32));
    assert_eq!(dtypes("out = f16, dtype = bf16"), (BF16, BF16, F16));
    assert_eq!(dtypes("dtype = bf16, a = bf16"), (BF16, BF16, BF16));
    assert_eq!(dtypes("b = bf16"), (F16, BF16, F16));
    use Dtype::{E4M3, E5M2, I8, I32};
    assert_eq!(dtypes("dtype = e4m3"), (E4M3, E4M3, BF16));
    assert_eq!(dtypes("a = e5m2, b = e4m3, out = e4m3"), (E5M2, E4M3, E4M3));
    assert_eq!(dtypes("dtype = i8"), (I8, I8, I32));
}

#[test]
fn what_8_bit_operands_imply_is_not_said() {
    let spec = read(&format!("{TILE}, dtype = i8"));
    assert_eq!((spec.acc, spec.b_layout), (Dtype::I32, Layout::ColMajor));
    assert_eq!(spec, tile().with_dtype(Dtype::I8));
    assert_eq!(spec.to_string(), format!("{TILE}, dtype = i8"));
    let row = format!("{TILE}, dtype = e4m3, out = f16, b_layout = row, warps = (2, 4)");
    assert_eq!(read(&row).to_string(), row);
}

#[test]
fn canonical_text_says_only_what_differs() {
    let canonical = |text: &str| read(&format!("{TILE}, {text}")).to_string();
    assert_eq!(canonical("stages = auto, a = f16, out = f16, c_layout = row"), TILE);
    assert_eq!(canonical("b = bf16, a = bf16, out = bf16"), format!("{TILE}, dtype = bf16"));
    assert_eq!(canonical("b = bf16, a = bf16"), format!("{TILE}, dtype = bf16"));
    assert_eq!(canonical("b = bf16, a = bf16, out = f16"), format!("{TILE}, dtype = bf16, out = f16"));
    assert_eq!(canonical("b = bf16"), format!("{TILE}, b = bf16"));
    assert_eq!(canonical("swizzle = 64, stages = 3"), format!("{TILE}, stages = 3, swizzle = 64"));
}

#[test]
fn toml_is_read_flat_or_from_a_kernel_table() {
    let flat = "bm = 64\nbn = 128 # the dense tile\nbk = 32\nschedule = 'strided'\n";
    let expected = KernelSpec { schedule: Some(Schedule::Strided), ..tile() };
    assert_eq!(KernelSpec::from_toml(flat), Ok(expected));
    let table = format!("[problem]\nm = 3\n[kernel]\n{flat}[sweep]\nstages = [2, 3]\n");
    assert_eq!(KernelSpec::from_toml(&table), Ok(expected));
    assert_eq!(KernelSpec::from_toml("kernel = { bm = 64, bn = 128, bk = 32 }"), Ok(tile()));
}

#[test]
fn json_holds_the_fields_by_name() {
    let spec = read("bm = 64, bn = 128, bk = 32, dtype = bf16, b_layout = col, swizzle = 64");
    let json = serde_json::to_string(&spec).unwrap();
    snapshot("json", &json);
    assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), spec);
}

#[test]
fn reports_of_keys() {
    snapshot(
        "keys",
        &reports(&[
            "bm = 64, bn = 128, bk = 32, stage = 3",
            "bm = 64, bn = 128, bx = 32",
            "bm = 64, bn = 128, bk = 32, frobnicate = 3",
            "bm = 64, bn = 128, bm = 128, bk = 32",
            "bm = 64,\nbn = 128,\nbk = 32,\nbm = 64",
            "bm = 64, bn = 128, bk = 32, stage = 3, stage = 3",
            "bm = 64, stages = 2",
            "",
        ]),
    );
}

#[test]
fn reports_of_values() {
    snapshot(
        "values",
        &reports(&[
            "bm = \"64\", bn = WIDTH, bk = wide",
            "bm = auto, bn = 1.5, bk = 32u32",
            "bm = 0, bn = -128, bk = 4294967296",
            "bm = 64, bn = 128, bk = 32, stages = \"x\", cluster = 1e3",
            "bm = 64, bn = 128, bk = 32, mma = 3",
            "bm = 64, bn = 128, bk = 32, schedule = balance, b_layout = column, c_layout = \"ROW\"",
            "bm = 64, bn = 128, bk = 32, scale = rowcol, accumulate = atmic, arch = sm_90, shape = m16n8k16",
            "bm = 64, bn = 128, bk = 32, scale = 2, accumulate = (1, 2), arch = 90, vector = \"4\", mma = tensor",
            "bm = 64, bn = 128, bk = 32, warps = 4",
            "bm = 64, bn = 128, bk = 32, warps = (2, 0)",
            "bm = 64, bn = 128, bk = 32, warps = (2, 4, 1), stages = (2, 3)",
            "bm = 64, bn = 128, bk = 32, warps = (auto, 4u32)",
            "bm = 64, bn = 128, bk = 32, warps = \"(2, 4)\", arch = sm90a",
            "bm = 64, bn = [128, 256], bk = 32, stages = 3..=5, warps = [(2, 4), auto]",
        ]),
    );
}

/// A GPU runs PTX of an older architecture, but none that is for Hopper alone.
#[test]
fn a_newer_architecture_is_not_taken_for_hopper() {
    for (arch, older) in [("sm_100", "sm_89"), ("sm_121", "sm_120"), ("sm_87", "sm_86"), ("sm_72", "sm_70")] {
        let errors = format!("bm = 64, bn = 128, bk = 32, arch = {arch}").parse::<crate::KernelSpec>();
        let said = errors.map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(&format!("help: `arch = {older}`")) && !said.contains("did you mean"), "{said}");
    }
}

/// What the attribute embeds beside a kernel is no key of one.
#[test]
fn an_argument_of_the_attribute_is_told_from_a_key() {
    let errors = "bm = 64, bn = 128, bk = 32, fallback = on".parse::<crate::KernelSpec>();
    let said = errors.map(|_| ()).unwrap_err().to_string();
    assert!(
        said.contains("unknown key `fallback`") && said.contains("`fallback` is an argument of the attribute"),
        "{said}"
    );
}

#[test]
fn reports_of_dtypes_and_reserved_words() {
    snapshot(
        "dtypes",
        &reports(&[
            "bm = 64, bn = 128, bk = 32, dtype = fp16",
            "bm = 64, bn = 128, bk = 32, dtype = f32, acc = bf16, out = float",
            "bm = 64, bn = 128, bk = 32, a = e4m3, b = e5m2, out = i8",
            "bm = 64, bn = 128, bk = 32, mma = mma_sync, op = sdd",
            "bm = 64, bn = 128, bk = 32, mma = \"wmma\", op = dds",
            "bm = 64, bn = 128, bk = 32, mma = scalar",
            "bm = 64, bn = 128, bk = 32, dtype = bf16, a = f16",
            "bm = 64, bn = 128, bk = 32, b = f16,\n  dtype = bf16",
            "bm = 64, bn = 128, bk = 32, a = f16, b = f16, dtype = bf16",
        ]),
    );
}

#[test]
fn reports_of_syntax() {
    snapshot(
        "syntax",
        &reports(&[
            "bm: 64, bn 128, bk",
            "bm = , bn == 128, bk =",
            "bm = 8 * 8, bn = 128 bk = 32",
            "bm = 64,, bn = 128, \"bk\" = 32, 7",
            "bm = 64, bn = 128, bk = 32, mma = \"wgmma",
            "bm = 64, bn = 128, bk = 32, é = ü",
            "bm = 64, bn = 128, bk = 32, k-step = 64",
            "bm = [64, 128], bn = 128, bk = (32)",
            "bm = (64, bn = 128, bk = 32)), swizzle = [",
            "bm = 64, bn = 128, bk = 32, warps = (2 4), stages = [3, 4",
            "bm = [], bn = [64,, 128], bk = [[[16]]]",
            "bm = [64 = 3, 128], bn = [128; 3], bk = 32, stages = [2 * 2, 3]",
            "bm = 64, bn = 128, bk = 32, stages = 5..=3, vector = 3..3, cluster = 1..",
            "bm = 64, bn = 128, bk = 32, stages = auto..4, vector = 0..=3, cluster = ..=4",
            "bm = 64, bn = 1..=4294967295, bk = 32, stages = 2...4, k_step = 1.5..3",
        ]),
    );
}

#[test]
fn reports_of_toml() {
    snapshot(
        "toml",
        &toml_reports(&[
            "bm = 64\nbn = 128\nbm = 128\nbk = 32\n",
            "bm = 64\nbn = 128\nbk = 32\nmma = wgmma\n",
            "bm = 64\nbn = 128\nbk = \n",
            "bm = 64 bn = 128\nbk = 32",
            "[kernel]\nbm = 64\nbk = 1.5\nstages = true\nmma = ['wgmma']\n",
            "stages = 3\n[kernel]\nbm = 64\nbn = 128\nbk = 32\nstages = 4",
            "bm = 64\r\nbn = 128\r\nbk = 32\r\nschedule = 1979-05-27\r\n[stages]\nn = 3\n",
            "kernel = 3",
            "bm = 64\nbn = 128\nbk = 32\nwarps = [2, 4, 1]\nstages = []\n",
            "bm = 64\nbn = [128, 256]\nbk = \"16..=32\"\nwarps = \"(2, 4\"\n",
            "bm = 64\nbn = 128\nbk = \"3\\u002e.1\"\n",
            "bm = 64\nbn = [[128, 256], 64]\nbk = 32\n",
        ]),
    );
}

#[test]
fn a_later_error_is_printed_under_the_value_it_blames() {
    let text = "bm = 64, bn = 128,\nbk = 30, dtype = bf16";
    let located = LocatedSpec::from_text(text).unwrap().named("kernels.txt");
    let message = "`bk` is not a multiple of 16\n30 = 1 x 16 + 14";
    let help = ["bk = 16 or bk = 32".to_string()];
    snapshot(
        "blame",
        &[
            located.blame("bk", message, &help),
            located.blame("a", "A is bf16", &[]),
            located.blame("stages", "too many stages", &[]),
        ]
        .join("\n\n"),
    );
}

#[test]
fn errors_are_kept_in_the_order_of_the_text() {
    let errors = "stage = 3, bm = 0, bn = 64, bn = 64".parse::<KernelSpec>().unwrap_err();
    let starts: Vec<_> = errors.iter().map(|error| error.place.clone()).collect();
    assert_eq!(starts, [0..5, 16..17, 28..30, 35..35]);
    let kinds = errors.iter().map(|error| &error.kind).collect::<Vec<_>>();
    assert!(matches!(kinds[3], SpecErrorKind::Missing { .. }));
}

fn size() -> impl Strategy<Value = u32> {
    1..=u32::MAX
}

fn layout() -> impl Strategy<Value = Layout> {
    select(vec![Layout::RowMajor, Layout::ColMajor])
}

fn factor() -> impl Strategy<Value = Dtype> {
    select(vec![Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::E4M3, Dtype::E5M2, Dtype::I8])
}

fn result() -> impl Strategy<Value = Dtype> {
    select(vec![Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::E4M3, Dtype::I32])
}

prop_compose! {
    /// The keys that only some families of kernels take.
    fn family_keys()(
        mma in select(Mma::ALL.to_vec()),
        scale in select(vec![Scale::Unscaled, Scale::Tensor, Scale::RowCol, Scale::Block]),
        accumulate in option::of(select(vec![
            Accumulate::Atomic, Accumulate::Register, Accumulate::Fast, Accumulate::Promoted,
        ])),
        arch in option::of(select(Target::ALL.to_vec())),
        warps in option::of((size(), size())),
        shape in option::of(select(Shape::ALL.to_vec())),
        vector in option::of(size()),
        (op, a_layout) in (select(Op::ALL.to_vec()), layout()),
        (transpose, batch, swap) in (switch(), switch(), option::of(switch())),
        pack in option::of(size()),
    ) -> KernelSpec {
        KernelSpec {
            mma, scale, accumulate, arch, warps, shape, vector, op, a_layout, transpose, batch, swap, pack, ..tile()
        }
    }
}

fn switch() -> impl Strategy<Value = Switch> {
    select(vec![Switch::Off, Switch::On])
}

prop_compose! {
    fn any_spec()(
        family_keys in family_keys(),
        (bm, bn, bk) in (size(), size(), size()),
        (a, b, out, acc) in (factor(), factor(), result(), select(vec![Dtype::F32, Dtype::I32])),
        (b_layout, c_layout) in (layout(), layout()),
        (stages, consumers) in (option::of(size()), option::of(size())),
        (cluster, k_step) in (option::of(size()), option::of(size())),
        schedule in option::of(select(vec![Schedule::Balanced, Schedule::Strided])),
        swizzle in option::of(select(vec![32_u32, 64, 128])),
    ) -> KernelSpec {
        KernelSpec {
            bm, bn, bk, a, b, acc, out, b_layout, c_layout, stages, consumers, cluster, k_step, schedule, swizzle,
            ..family_keys
        }
    }
}

/// The canonical text as TOML.
fn toml(spec: &KernelSpec) -> String {
    let text = spec.to_string();
    let keys: Vec<Key> = Key::ALL.into_iter().filter(|key| text.contains(&format!("{key} = "))).collect();
    let is_written = |key: &&Key| text.starts_with(&format!("{key} = ")) || text.contains(&format!(", {key} = "));
    let line = |key: &Key| match (key, spec.value(*key)) {
        (Key::Warps, pair) => format!("{key} = {}\n", pair.replace('(', "[").replace(')', "]")),
        (_, value) if value.parse::<u32>().is_ok() => format!("{key} = {value}\n"),
        (_, value) => format!("{key} = \"{value}\"\n"),
    };
    keys.iter().filter(is_written).map(line).collect()
}

/// Fragments that look like a spec more often than random letters do.
fn scrap() -> impl Strategy<Value = String> {
    let fragments = vec![
        "bm", "bn", "bk", "dtype", "a", "mma", "stages", "=", "=", "=", ",", ",", "64", "0", "-1", "bf16", "e4m3",
        "wgmma", "\"", "\"auto\"", "auto", "[kernel]", "\n", "{", "é", "'", ".", "warps", "(", ")", "[", "]", "..",
        "..=",
    ];
    prop::collection::vec(select(fragments), 0..24).prop_map(|fragments| fragments.join(" "))
}

proptest! {
    #[test]
    fn canonical_text_reads_back(spec in any_spec()) {
        prop_assert_eq!(spec.to_string().parse::<KernelSpec>(), Ok(spec));
        prop_assert_eq!(KernelSpec::from_toml(&toml(&spec)), Ok(spec));
        let json = serde_json::to_string(&spec).unwrap();
        prop_assert_eq!(serde_json::from_str::<KernelSpec>(&json).ok(), KernelSpec::from_record(&spec.to_string()).ok());
    }

    #[test]
    fn no_text_panics(text in "\\PC*", scrap in scrap()) {
        for text in [text, scrap] {
            if let Err(errors) = text.parse::<KernelSpec>() {
                prop_assert!(errors.iter().count() > 0);
                prop_assert!(errors.to_string().contains("error: "));
            }
            if let Err(errors) = KernelSpec::from_toml(&text) {
                prop_assert!(errors.to_string().contains("error: "));
            }
            for family in [LocatedFamily::from_text(&text), LocatedFamily::from_toml(&text)] {
                match family {
                    Ok(family) => prop_assert!(!family.family().members().is_empty()),
                    Err(errors) => prop_assert!(errors.to_string().contains("error: ")),
                }
            }
        }
    }
}
