//! What follows from the table of keys: constants of Rust, JSON, and the table in `docs/src/keys.md`, which `BSR_BLESS=1`
//! writes.

use bsr_codegen::spec::{Key, Takes};
use bsr_codegen::{Accumulate, Dtype, Epilogue, KernelSpec, Layout, Mma, Op, Scale, Schedule, Shape, Switch, Target};

/// A constant, and how it is written.
macro_rules! constant {
    ($($expression:tt)+) => {{
        const SPEC: KernelSpec = $($expression)+;
        (SPEC, stringify!($($expression)+).replace(char::is_whitespace, ""))
    }};
}

#[test]
fn the_expression_of_a_spec_is_the_spec() {
    let specs = [
        constant!(KernelSpec::new(64, 128, 32)),
        constant!(
            KernelSpec::new(64, 128, 32)
                .op(Op::Dds)
                .transpose(Switch::On)
                .a(Dtype::E4M3)
                .b(Dtype::E5M2)
                .out(Dtype::F32)
                .a_layout(Layout::ColMajor)
                .b_layout(Layout::ColMajor)
                .scale(Scale::RowCol)
                .accumulate(Accumulate::Promoted)
                .arch(Target::Sm90a)
                .stages(4)
                .consumers(2)
                .cluster(2)
                .k_step(64)
                .schedule(Schedule::Strided)
                .swizzle(128)
                .swap(Switch::Off)
                .pack(4)
        ),
        constant!(
            KernelSpec::new(16, 64, 16)
                .batch(Switch::On)
                .permute(Switch::On)
                .mma(Mma::Wmma)
                .acc(Dtype::I32)
                .c_layout(Layout::ColMajor)
                .warps((2, 4))
                .shape(Shape::M32N8K16)
                .vector(8)
                .epilogue(Epilogue::compiled("|bias:Rows<f32>|acc+bias"))
        ),
    ];
    for (spec, written) in specs {
        assert_eq!(spec.expression("@").replace("@::", "").replace(' ', ""), written);
        let says = |key: &Key| !key.is_required() && !key.is_alias() && written.contains(&format!(".{key}("));
        for key in Key::ALL.into_iter().filter(says) {
            assert_ne!(spec.value(key), KernelSpec::new(spec.bm, spec.bn, spec.bk).value(key), "{key} in {written}");
        }
    }
}

#[test]
fn every_key_has_a_setter_that_the_canonical_text_shows() {
    for key in Key::ALL.into_iter().filter(|key| !key.is_required()) {
        let value = match key.takes() {
            Takes::Number => "3".to_owned(),
            Takes::Pair => "(3, 5)".to_owned(),
            Takes::Closure if key == Key::Score => "\"|| relu(s)\"".to_owned(),
            Takes::Closure => "\"|| relu(acc)\"".to_owned(),
            takes => {
                let default = KernelSpec::new(64, 128, 32).value(key);
                let words = takes.words().to_vec();
                words.iter().find(|word| !word.is_alias && word.text != default).unwrap().text.to_owned()
            }
        };
        let spec: KernelSpec = format!("bm = 64, bn = 128, bk = 32, {key} = {value}").parse().unwrap();
        assert_ne!(spec.value(key), KernelSpec::new(64, 128, 32).value(key), "{key} = {value}");
        let mut copy = KernelSpec::new(64, 128, 32);
        copy.copy_key(key, &spec);
        assert_eq!(copy.value(key), spec.value(key));
        if !key.is_alias() {
            assert!(spec.expression("bsr").contains(&format!(".{key}(")), "{}", spec.expression("bsr"));
            let json = serde_json::to_string(&spec).unwrap();
            assert!(json.contains(&format!("\"{key}\":")), "{key} in {json}");
            assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), spec);
        }
    }
}

/// Fingerprints of plans are made of these words: a key that came later is in them where it is said.
#[test]
fn words_of_a_spec_say_later_keys_where_they_are_said() {
    let words = |text: &str| format!("{:?}", text.parse::<KernelSpec>().unwrap());
    let plain = words("bm = 64, bn = 128, bk = 32");
    assert!(
        plain.starts_with("KernelSpec { bm: 64, bn: 128, bk: 32, op: Dsd, ")
            && plain.contains("arch: None, warps: None,")
    );
    for (text, said) in [
        ("cta_m = 64", "cta_m: Some(64)"),
        ("maxnreg = 96", "maxnreg: Some(96)"),
        ("opt_level = 2", "opt_level: Some(2)"),
    ] {
        let name = said.split_once(':').unwrap().0;
        assert!(
            !plain.contains(name) && words(&format!("bm = 64, bn = 128, bk = 32, {text}")).contains(said),
            "{text}"
        );
    }
}

/// As versions before this one wrote them: all keys, and without those that came later.
const JSON: [&str; 2] = [
    r#"{"bm":64,"bn":128,"bk":32,"op":"dds","transpose":"on","batch":"off","permute":"off","mma":"wgmma","a":"bf16","b":"bf16","acc":"f32","out":"bf16","a_layout":"col","b_layout":"col","c_layout":"row","scale":"none","accumulate":"fast","arch":"sm_90a","warps":[2,4],"shape":"m16n16k16","vector":null,"stages":null,"consumers":2,"cluster":null,"k_step":null,"schedule":"balanced","swizzle":64,"swap":"on","pack":null,"epilogue":"|| relu(acc)"}"#,
    r#"{"bm":64,"bn":128,"bk":32,"op":"dsd","mma":"mma_sync","a":"bf16","b":"bf16","acc":"f32","out":"bf16","b_layout":"col","c_layout":"row","stages":3,"consumers":null,"cluster":null,"k_step":null,"schedule":null,"swizzle":64}"#,
];

#[test]
fn json_that_was_written_before_is_read_and_written_as_it_was() {
    let [all, fewer] = JSON;
    let spec: KernelSpec = serde_json::from_str(all).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), all);
    let text = "bm = 64, bn = 128, bk = 32, op = dds, transpose = on, dtype = bf16, a_layout = col, b_layout = col, \
                accumulate = fast, arch = sm_90a, warps = (2, 4), shape = m16n16k16, consumers = 2, schedule = balanced, \
                swizzle = 64, swap = on, epilogue = \"|| relu(acc)\"";
    assert_eq!(spec.to_string(), text);
    let spec: KernelSpec = serde_json::from_str(fewer).unwrap();
    let text = "bm = 64, bn = 128, bk = 32, mma = mma_sync, dtype = bf16, b_layout = col, stages = 3, swizzle = 64";
    assert_eq!(spec, text.parse().unwrap());
    let unknown = all.replace("\"bm\"", "\"bx\":1,\"bm\"");
    assert!(serde_json::from_str::<KernelSpec>(&unknown).is_err());
    let missing = all.replace("\"mma\":\"wgmma\",", "");
    assert!(serde_json::from_str::<KernelSpec>(&missing).is_err());
}

/// Records of attentions that were written before `pack_heads` was a key.
#[test]
fn pack_of_a_recorded_attention_is_read_as_pack_heads() {
    let old = "op = attention, bm = 64, bn = 64, bk = 64, pack = 4";
    let new: KernelSpec = old.replace("pack", "pack_heads").parse().unwrap();
    assert_eq!(KernelSpec::from_record(old).unwrap(), new);
    let json = serde_json::to_string(&old.parse::<KernelSpec>().unwrap()).unwrap();
    assert!(!json.contains("pack_heads"));
    assert_eq!(serde_json::from_str::<KernelSpec>(&json).unwrap(), new);
    let product = "bm = 64, bn = 64, bk = 64, swap = on, pack = 4";
    assert_eq!(KernelSpec::from_record(product).unwrap(), product.parse().unwrap());
}

#[test]
fn the_documented_keys_are_those_of_the_table() {
    const BEFORE: &str = "<!-- The table of keys, which codegen/tests/spec/keys.rs makes: -->\n";
    const AFTER: &str = "<!-- The end of the table of keys. -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/keys.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEFORE).unwrap();
    let (written, after) = rest.split_once(AFTER).unwrap();
    let made = table();
    if std::env::var_os("BSR_BLESS").is_some() {
        return std::fs::write(path, format!("{before}{BEFORE}{made}{AFTER}{after}")).unwrap();
    }
    assert!(made == written, "the table in docs/src/keys.md is not that of the keys: BSR_BLESS=1 writes it\n{made}");
}

fn table() -> String {
    let row = |key: Key| {
        let cells = [format!("`{key}`"), key.meaning().to_owned(), takes(key), by_default(key), instructions(key)];
        format!("| {} |\n", cells.join(" | "))
    };
    let head = "| key | says | takes | by default | `mma` that has it |\n|---|---|---|---|---|\n";
    head.to_owned() + &Key::ALL.map(row).concat()
}

fn takes(key: Key) -> String {
    let takes = key.takes();
    let words = |alias: bool| {
        let words = takes.words().iter().filter(|word| word.is_alias == alias);
        words.map(|word| format!("`{}`", word.text)).collect::<Vec<_>>().join(", ")
    };
    match (&takes, words(true)) {
        (Takes::Number, _) => "a positive integer".to_owned(),
        (Takes::Pair, _) => "two positive integers: `(2, 4)`".to_owned(),
        (Takes::Closure, _) => "a closure in a string".to_owned(),
        (_, further) if further.is_empty() => words(false),
        (_, further) => format!("{} (or {further})", words(false)),
    }
}

fn by_default(key: Key) -> String {
    match key.by_default() {
        _ if key.is_required() => "must be given".to_owned(),
        Some(text) => text.to_owned(),
        None => format!("`{}`", KernelSpec::new(64, 64, 64).value(key)),
    }
}

fn instructions(key: Key) -> String {
    match key.instructions() {
        all if all.len() == Mma::ALL.len() => "all".to_owned(),
        some => some.iter().map(|mma| format!("`{mma}`")).collect::<Vec<_>>().join(", "),
    }
}
