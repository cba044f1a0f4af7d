//! `cp.reduce.async.bulk`, of tensors and of bytes: each function on each type that has it, against Rust's own.

use crate::formats::Format;
use crate::one_cta;
use bsr_simulator::{
    FindingKind, GlobalMemory, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};

/// Elements of a line.
const COUNT: usize = 32;

/// A thread reduces 32 elements of `width` bytes at shared memory into those of global memory; gives these.
fn reduce(
    instruction: &str,
    element: Option<TensorElement>,
    width: usize,
    old: impl Fn(usize) -> u64,
    new: impl Fn(usize) -> u64,
) -> (Report, Vec<u64>) {
    let bytes =
        |of: &dyn Fn(usize) -> u64| (0..COUNT).flat_map(|i| of(i).to_le_bytes()[..width].to_vec()).collect::<Vec<u8>>();
    let words = COUNT * width / 4;
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 in)\n.maxntid 64, 1, 1\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<6>;\n.reg .pred %p<2>;\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\n\
         ld.param.u64 %rd1, [out];\nld.param.u64 %rd2, [in];\nsetp.ge.u32 %p1, %r0, {words};\n@%p1 bra $filled;\n\
         mad.wide.u32 %rd3, %r0, 4, %rd2;\nld.global.b32 %r2, [%rd3];\nmad.lo.u32 %r3, %r0, 4, %r1;\nst.shared.b32 [%r3], %r2;\n\
         $filled:\nfence.proxy.async.shared::cta;\nbar.sync 0;\nmov.u32 %r4, 0;\nmov.b64 %rd0, map;\ncvta.param.u64 %rd0, %rd0;\n\
         setp.ne.u32 %p0, %r0, 0;\n@%p0 bra $done;\n{instruction}\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n\
         $done:\nret;\n}}\n"
    );
    let mut memory = GlobalMemory::new();
    let (out, input) = (memory.upload(bytes(&old), 128), memory.upload(bytes(&new), 128));
    let element = element.unwrap_or(TensorElement::B8);
    let side = (COUNT * width / element.bytes() as usize) as u64;
    let map = TensorMapDesc::matrix(
        out,
        element,
        [side, 1],
        side * u64::from(element.bytes()),
        [side as u32, 1],
        Swizzle::None,
    );
    let launch = one_cta(64, 1024, vec![Param::TensorMap(map), Param::Buffer(out), Param::Buffer(input)]);
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    let word = |raw: &[u8]| raw.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
    (report, memory.bytes(out).chunks(width).map(word).collect())
}

/// Type in PTX, type of a tensor map, bytes, functions.
const TYPES: [(&str, Option<TensorElement>, usize, &str); 11] = [
    ("u32", Some(TensorElement::B32), 4, "add min max inc dec"),
    ("b32", Some(TensorElement::B32), 4, "and or xor"),
    ("b32", Some(TensorElement::S32), 4, "and or xor"),
    ("s32", Some(TensorElement::S32), 4, "add min max"),
    ("u64", Some(TensorElement::B64), 8, "add min max"),
    ("b64", Some(TensorElement::B64), 8, "and or xor"),
    ("s64", Some(TensorElement::S64), 8, "min max"),
    ("f16", Some(TensorElement::F16), 2, "add min max"),
    ("bf16", Some(TensorElement::Bf16), 2, "add min max"),
    ("f32", Some(TensorElement::F32), 4, "add"),
    ("f64", Some(TensorElement::F64), 8, "add"),
];

/// Number `i`: small for floats, of all bits for integers, and from 0 to 7 for counters.
fn number(ty: &str, f: &str, i: usize, seed: u32) -> u64 {
    let word = |seed| u64::from(Format("u32").draw(i, seed).rotate_left(i as u32));
    match (ty, f) {
        (_, "inc" | "dec") => word(seed) % 8,
        ("f64", _) => (word(seed) as f64 / 1e9 - 2.0).to_bits(),
        ("f16" | "bf16" | "f32", _) => u64::from(
            Format(if ty == "f16" {
                "f16"
            } else if ty == "bf16" {
                "bf16"
            } else {
                "f32"
            })
            .draw(i, seed),
        ),
        (_, _) if ty.ends_with("64") => word(seed) << 32 | word(seed + 7),
        _ => word(seed),
    }
}

fn expected(ty: &str, f: &str, old: u64, new: u64) -> u64 {
    let half = |f16: bool, bits: u64| {
        if f16 { half::f16::from_bits(bits as u16).to_f32() } else { half::bf16::from_bits(bits as u16).to_f32() }
    };
    let bits = |f16: bool, value: f32| {
        u64::from(if f16 { half::f16::from_f32(value).to_bits() } else { half::bf16::from_f32(value).to_bits() })
    };
    let pick = |first: bool| if first == (f == "min") { old } else { new };
    match (ty, f) {
        (_, "and") => old & new,
        (_, "or") => old | new,
        (_, "xor") => old ^ new,
        (_, "inc") => {
            if old >= new {
                0
            } else {
                old + 1
            }
        }
        (_, "dec") => {
            if old == 0 || old > new {
                new
            } else {
                old - 1
            }
        }
        ("u64", "add") => old.wrapping_add(new),
        ("u32" | "s32", "add") => u64::from((old as u32).wrapping_add(new as u32)),
        ("f32", _) => u64::from((f32::from_bits(old as u32) + f32::from_bits(new as u32)).to_bits()),
        ("f64", _) => (f64::from_bits(old) + f64::from_bits(new)).to_bits(),
        ("f16" | "bf16", "add") => bits(ty == "f16", half(ty == "f16", old) + half(ty == "f16", new)),
        ("f16" | "bf16", _) => pick(half(ty == "f16", old) < half(ty == "f16", new)),
        ("s32", _) => pick((old as u32).cast_signed() < (new as u32).cast_signed()),
        ("s64", _) => pick(old.cast_signed() < new.cast_signed()),
        _ => pick(old < new),
    }
}

#[test]
fn every_function_is_that_of_its_type() {
    for (ty, element, width, functions) in TYPES {
        for f in functions.split(' ') {
            let (old, new) = (|i| number(ty, f, i, 1), |i| number(ty, f, i, 2));
            let want: Vec<u64> = (0..COUNT).map(|i| expected(ty, f, old(i), new(i))).collect();
            let tensor = format!(
                "cp.reduce.async.bulk.tensor.2d.global.shared::cta.{f}.bulk_group [%rd0, {{%r4, %r4}}], [%r1];"
            );
            let (report, got) = reduce(&tensor, element, width, old, new);
            assert!(report.is_clean(), "{ty} {f}: {}", report.findings[0]);
            assert_eq!(got, want, "a tensor of {ty}, {f}");
            let rounding = if f == "add" && ty.ends_with("f16") { ".noftz" } else { "" };
            let bulk = format!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.{f}{rounding}.{ty} [%rd1], [%r1], {};",
                COUNT * width
            );
            let (report, got) = reduce(&bulk, None, width, old, new);
            assert!(report.is_clean(), "{ty} {f}: {}", report.findings[0]);
            assert_eq!(got, want, "bytes of {ty}, {f}");
        }
    }
}

#[test]
fn functions_that_a_type_does_not_have_are_found() {
    for (element, f, width) in [
        (TensorElement::F32, "max", 4),
        (TensorElement::B8, "add", 4),
        (TensorElement::S32, "inc", 4),
        (TensorElement::Bf16, "and", 2),
        (TensorElement::S64, "xor", 8),
    ] {
        let tensor =
            format!("cp.reduce.async.bulk.tensor.2d.global.shared::cta.{f}.bulk_group [%rd0, {{%r4, %r4}}], [%r1];");
        let (report, _) = reduce(&tensor, Some(element), width, |_| 0, |_| 0);
        assert_eq!(report.findings[0].kind, FindingKind::TensorCopy, "{element:?} {f}");
        assert!(report.findings[0].message.contains("does not exist"), "{}", report.findings[0]);
    }
}
