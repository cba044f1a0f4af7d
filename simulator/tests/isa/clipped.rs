//! Tensor stores whose box is not all inside the tensor: which bytes they read and write.

use bsr_simulator::{
    FindingKind, GlobalMemory, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};

use crate::one_cta;

/// 32 threads write word `t` of shared memory, each twice the f16 `t`, if it is among `words`; then a box of 16 x 1 f16 is
/// stored at column `x` of a line of 13 f16 in 32 bytes of 0xff, or added to zeros (`.add`). What comes after the store is `after`.
fn store(way: &str, x: i32, words: std::ops::Range<u32>, after: &str) -> (Report, Vec<u16>) {
    let (first, last) = (words.start, words.end);
    let (head, reduction) = if way == "add" { ("cp.reduce", ".add") } else { ("cp", "") };
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 map[128])\n.maxntid 32, 1, 1\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<2>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\nmul.lo.u32 %r3, %r0, 0x10001;\n\
         setp.ge.u32 %p1, %r0, {first};\nsetp.lt.and.u32 %p1, %r0, {last}, %p1;\n@%p1 st.shared.u32 [%r2], %r3;\n\
         fence.proxy.async.shared::cta;\nbar.sync 0;\nmov.u32 %r4, {x};\nmov.u32 %r5, 0;\n\
         mov.b64 %rd0, map;\ncvta.param.u64 %rd0, %rd0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $done;\n\
         {head}.async.bulk.tensor.2d.global.shared::cta{reduction}.bulk_group [%rd0, {{%r4, %r5}}], [%r1];\n\
         cp.async.bulk.commit_group;\n{after}\ncp.async.bulk.wait_group 0;\n$done:\nret;\n}}\n"
    );
    let mut memory = GlobalMemory::new();
    let c = memory.upload(vec![if way == "add" { 0 } else { 0xff }; 32], 128);
    let map = TensorMapDesc::matrix(c, TensorElement::F16, [13, 1], 32, [16, 1], Swizzle::None);
    let launch = one_cta(32, 1024, vec![Param::TensorMap(map)]);
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    let out = memory.bytes(c).as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    (report, out)
}

fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// The bytes behind the tensor's end that complete 16 are stored with what shared memory has there.
#[test]
fn bytes_behind_the_end_are_read_and_written() {
    let (report, out) = store("", 0, 0..8, "");
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(out, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
    // Element 12 is the tensor's last one, in word 6 of shared memory; elements 13 to 15 are written too, with word 7.
    let (report, _) = store("", 0, 0..7, "");
    assert_eq!(kinds(&report), [FindingKind::UninitialisedRead]);
    // They are read until the group's wait.
    let (report, _) = store("", 0, 0..8, "st.shared.u32 [%r1+28], %r4;");
    assert_eq!(kinds(&report), [FindingKind::Race]);
}

/// The end is one of the tensor: from column 8 on, its last elements are in the first 16 bytes of the box.
#[test]
fn the_end_of_a_store_is_one_of_global_memory() {
    let (report, out) = store("", 8, 0..4, "");
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(out[..8], [0xffff; 8]);
    assert_eq!(out[8..], [0, 0, 1, 1, 2, 2, 3, 3]);
    let (report, _) = store("", 8, 0..3, "");
    assert_eq!(kinds(&report), [FindingKind::UninitialisedRead]);
}

/// An H200 raises an illegal instruction where a store begins in front of the tensor, or not at 16 bytes.
#[test]
fn a_store_begins_within_the_tensor_at_16_bytes() {
    for way in ["", "add"] {
        for x in [-8, -2, 1, 4, 7] {
            let (report, out) = store(way, x, 0..8, "");
            assert_eq!(kinds(&report), [FindingKind::CopyStart], "{way} at {x}");
            assert!(out.iter().all(|word| *word == if way == "add" { 0 } else { 0xffff }), "{way} at {x}");
        }
    }
    let (report, _) = store("", 4, 0..8, "");
    let message = &report.findings[0].message;
    assert!(message.contains("byte 8 of a line") && message.contains("a multiple of 8, or"), "{message}");
    let (report, _) = store("", -8, 0..8, "");
    assert!(
        report.findings[0].message.contains("coordinate 0 of a copy to global memory is -8"),
        "{}",
        report.findings[0]
    );
}

/// A reduction has whole 16 bytes, too.
#[test]
fn a_reduction_adds_what_is_behind_the_end() {
    let (report, out) = store("add", 0, 0..8, "");
    assert!(report.is_clean(), "{}", report.findings[0]);
    assert_eq!(out, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
    let (report, _) = store("add", 0, 0..7, "");
    assert_eq!(kinds(&report), [FindingKind::UninitialisedRead]);
}
