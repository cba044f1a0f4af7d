//! Tensor copies against what an H200 does, and the copies of other ranks.

use bsr_simulator::{
    FindingKind, GlobalMemory, LaunchError, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse,
    simulate,
};

use crate::one_cta;

/// Loads one box at `coords`, expecting `tx` bytes, and stores the first 2 KiB of shared memory (0xEE before).
fn load(map: TensorMapDesc, memory: &mut GlobalMemory, coords: &[i32], tx: u64) -> (Report, Vec<u8>) {
    let rank = coords.len();
    let list = coords.iter().map(|c| format!("{c}")).collect::<Vec<_>>().join(", ");
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)\n.maxntid 32, 1, 1\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nadd.u32 %r2, %r1, 8192;\nmov.b64 %rd0, map;\ncvta.param.u64 %rd0, %rd0;\nmov.u32 %r3, 0;\n\
         $fill:\nmad.lo.u32 %r4, %r3, 128, %r1;\nmad.lo.u32 %r4, %r0, 4, %r4;\nmov.u32 %r5, 0xeeeeeeee;\nst.shared.u32 [%r4], %r5;\n\
         add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p0, %r3, 64;\n@%p0 bra $fill;\n\
         setp.ne.u32 %p1, %r0, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.proxy.async;\nbar.sync 0;\n@%p1 bra $issued;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {tx};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0, {{{list}}}], [%r2];\n\
         $issued:\nbar.warp.sync 0xffffffff;\n$wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra $wait;\n\
         mov.u32 %r3, 0;\nld.param.u64 %rd1, [out];\nmad.wide.u32 %rd1, %r0, 4, %rd1;\n\
         $read:\nmad.lo.u32 %r4, %r3, 128, %r1;\nmad.lo.u32 %r4, %r0, 4, %r4;\nld.shared.u32 %r5, [%r4];\nst.global.u32 [%rd1], %r5;\nadd.u64 %rd1, %rd1, 128;\n\
         add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p0, %r3, 16;\n@%p0 bra $read;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let out = memory.alloc(2048, 128);
    let launch = one_cta(32, 8200, vec![Param::TensorMap(map), Param::Buffer(out)]);
    let report = simulate(&module, "k", &launch, memory, &Options::default()).unwrap();
    let bytes = memory.bytes(out).to_vec();
    (report, bytes)
}

/// As an H200 leaves shared memory (recorded): rows lie a swizzle span apart even where the box is narrower, the
/// swizzle permutes their 16-byte units, and the barrier counts the bytes of the box alone.
#[test]
fn a_box_narrower_than_its_swizzle() {
    for (inner, recorded) in [
        (48, "012345.. 103254.. 2301..45 3210..54 45..0123 54..1032 ..452301 ..543210"),
        (16, "01...... 10...... ..01.... ..10.... ....01.. ....10.. ......01 ......10"),
    ] {
        let mut memory = GlobalMemory::new();
        let values: Vec<u8> = (0..1024u16).flat_map(|i| (((i / 64) << 8) | (i % 64 / 8)).to_le_bytes()).collect();
        let id = memory.upload(values, 128);
        let map = TensorMapDesc::matrix(id, TensorElement::F16, [64, 16], 128, [inner, 16], Swizzle::B128);
        assert_eq!(map.box_bytes(), u64::from(inner) * 32);
        let (report, out) = load(map.clone(), &mut memory, &[0, 0], map.box_bytes());
        assert!(report.is_clean(), "{}", report.findings[0]);
        for (r, row) in out.chunks(128).enumerate() {
            let pattern = recorded.split(' ').nth(r % 8).unwrap();
            for (unit, c) in row.chunks(16).zip(pattern.chars()) {
                let want = match c.to_digit(10) {
                    Some(u) => [u as u8, r as u8].repeat(8),
                    None => vec![0xee; 16],
                };
                assert_eq!(unit, want, "inner {inner} row {r}");
            }
        }
        // 2048 expected: recorded as never complete.
        let (report, _) = load(map, &mut memory, &[0, 0], 2048);
        assert_eq!(report.findings[0].kind, FindingKind::Deadlock);
    }
}

#[test]
fn copies_of_every_rank() {
    for rank in 1..=5usize {
        let dims: Vec<u64> = [32, 3, 2, 2, 2][..rank].to_vec();
        let box_dims: Vec<u32> = [16, 2, 2, 1, 2][..rank].to_vec();
        let mut memory = GlobalMemory::new();
        let total: u64 = dims.iter().product();
        let id = memory.upload((0..total as u32).flat_map(|v| v.to_le_bytes()).collect(), 128);
        let mut strides = Vec::new();
        let mut stride = 4;
        for d in &dims[..rank - 1] {
            stride *= d;
            strides.push(stride);
        }
        let map = TensorMapDesc {
            buffer: id,
            offset: 0,
            element: TensorElement::B32,
            dims: dims.clone(),
            strides,
            box_dims: box_dims.clone(),
            element_strides: vec![1; rank],
            swizzle: Swizzle::None,
            im2col: None,
            fill_nan: false,
        };
        // One past the end in dimension 1 where there is one: zeros there.
        let coords: Vec<i32> = [8, 2, 0, 1, 0][..rank].to_vec();
        let (report, out) = load(map.clone(), &mut memory, &coords, map.box_bytes());
        assert!(report.is_clean(), "{}", report.findings[0]);
        let rows: u32 = box_dims[1..].iter().product();
        for r in 0..rows {
            let (mut rest, mut base, mut scale, mut inside) = (r, 0u64, dims[0], true);
            for d in 1..rank {
                let at = coords[d] as u64 + u64::from(rest % box_dims[d]);
                rest /= box_dims[d];
                inside &= at < dims[d];
                base += at * scale;
                scale *= dims[d];
            }
            for i in 0..16u32 {
                let at = ((r * 16 + i) * 4) as usize;
                let got = u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
                let want = if inside { base as u32 + 8 + i } else { 0 };
                assert_eq!(got, want, "rank {rank} row {r} element {i}");
            }
        }
    }
}

#[test]
fn strides_of_elements_and_nan_fill() {
    let mut memory = GlobalMemory::new();
    let id = memory.upload((0..64u32).flat_map(|v| (v as f32).to_le_bytes()).collect(), 128);
    let mut map = TensorMapDesc::matrix(id, TensorElement::F32, [16, 4], 64, [8, 4], Swizzle::None);
    // An H100 loads the same with 1 and with 2 as the innermost one.
    map.element_strides = vec![2, 2];
    map.fill_nan = true;
    let (report, out) = load(map, &mut memory, &[12, 1], 8 * 4 * 2);
    assert!(report.is_clean(), "{}", report.findings[0]);
    let value = |i: usize| f32::from_le_bytes(out[i * 4..i * 4 + 4].try_into().unwrap());
    assert_eq!([value(0), value(3), value(8), value(11)], [28.0, 31.0, 60.0, 63.0]);
    assert!(value(4).is_nan() && value(15).is_nan());
}

/// As an H200 fills what is outside: 0x7ff7 in every 16 bits, whatever the type.
#[test]
fn the_nan_outside_is_the_same_in_every_type() {
    use TensorElement::{Bf16, F16, F32, F64, Tf32};
    for element in [F16, Bf16, F32, F64, Tf32] {
        let mut memory = GlobalMemory::new();
        let id = memory.upload(vec![0; 64], 128);
        let per = 16 / element.bytes();
        let mut map = TensorMapDesc::matrix(id, element, [u64::from(2 * per), 1], 32, [2 * per, 1], Swizzle::None);
        map.fill_nan = true;
        let (report, out) = load(map, &mut memory, &[per as i32, 0], 32);
        assert!(report.is_clean(), "{}", report.findings[0]);
        assert_eq!(out[..16], [0; 16], "{element:?}");
        assert_eq!(out[16..32], [0xf7, 0x7f].repeat(8), "{element:?}");
    }
}

/// As an H200 takes them: a load begins at a multiple of 16 bytes, which may be in front of the tensor in any dimension.
#[test]
fn a_load_begins_at_a_multiple_of_16_bytes() {
    use TensorElement::{B8, B64, F16, F32};
    for element in [B8, F16, F32, B64] {
        let per = (16 / element.bytes()) as i32;
        for x in -9..=17 {
            for y in [-1, 0, 2] {
                let mut memory = GlobalMemory::new();
                let id = memory.upload(vec![1; 512], 128);
                let map =
                    TensorMapDesc::matrix(id, element, [4 * per as u64, 2], 64, [2 * per as u32, 2], Swizzle::None);
                let (report, _) = load(map, &mut memory, &[x, y], 64);
                let refused = report.findings.iter().any(|finding| finding.kind == FindingKind::CopyStart);
                assert_eq!(refused, x % per != 0, "{element:?} at {x}, {y}: {:?}", report.findings);
                assert!(refused || report.is_clean(), "{element:?} at {x}, {y}: {}", report.findings[0]);
            }
        }
    }
}

/// Ties, a carry into the exponent, an overflow, and what is not finite.
#[test]
fn loads_round_to_tf32() {
    let cases: [(u32, u32); 8] = [
        (0x3f80_1000, 0x3f80_0000),
        (0x3f80_3000, 0x3f80_4000),
        (0x3f80_1001, 0x3f80_2000),
        (0xbf80_0fff, 0xbf80_0000),
        (0x3fff_f000, 0x4000_0000),
        (0x7f7f_ffff, 0x7f80_0000),
        (0xff80_0000, 0xff80_0000),
        (0x7f80_0001, 0x7f80_0001),
    ];
    let mut memory = GlobalMemory::new();
    let id = memory.upload(cases.iter().flat_map(|(from, _)| from.to_le_bytes()).collect(), 128);
    for (element, rounds) in [(TensorElement::Tf32, true), (TensorElement::F32, false)] {
        let map = TensorMapDesc::matrix(id, element, [8, 1], 32, [8, 1], Swizzle::None);
        let (report, out) = load(map, &mut memory, &[0, 0], 32);
        assert!(report.is_clean(), "{}", report.findings[0]);
        for ((from, to), got) in cases.iter().zip(out.as_chunks::<4>().0) {
            assert_eq!(u32::from_le_bytes(*got), if rounds { *to } else { *from }, "{from:#x}");
        }
    }
}

/// As an H200 leaves global memory: a line of 5 f16 (10 bytes) is written as one whole piece of 16 bytes, and nothing
/// beyond it.
#[test]
fn stores_write_whole_pieces_at_a_line_end() {
    let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
        .visible .entry k(.param .align 64 .b8 map[128])\n.maxntid 32, 1, 1\n{\n\
        .reg .b32 %r<8>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\n\
        mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nmad.lo.u32 %r2, %r0, 4, %r1;\nmov.u32 %r3, 0x3c003c00;\n\
        st.shared.u32 [%r2], %r3;\nfence.proxy.async.shared::cta;\nbar.sync 0;\nmov.u32 %r4, 0;\n\
        mov.b64 %rd0, map;\ncvta.param.u64 %rd0, %rd0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra $done;\n\
        cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd0, {%r4, %r4}], [%r1];\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n$done:\nret;\n}\n";
    let mut memory = GlobalMemory::new();
    let c = memory.upload(vec![0xff; 64], 128);
    let map = TensorMapDesc::matrix(c, TensorElement::F16, [5, 2], 32, [8, 2], Swizzle::None);
    let launch = one_cta(32, 1024, vec![Param::TensorMap(map)]);
    let report = simulate(&parse(text).unwrap(), "k", &launch, &mut memory, &Options::default()).unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    for line in memory.bytes(c).chunks(32) {
        assert_eq!(line[..16], [0x00, 0x3c].repeat(8));
        assert_eq!(line[16..], [0xff; 16]);
    }
}

/// Copies one box through a tensor map in global memory, 256 B into a buffer; `before` comes before the copy.
fn through_global_memory(before: &str, place: u64) -> Result<Report, LaunchError> {
    let text = format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .u64 maps)\n.maxntid 32, 1, 1\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n\
         mov.u32 %r0, %tid.x;\nmov.u32 %r1, smem;\nadd.u32 %r2, %r1, 2048;\nld.param.u64 %rd0, [maps];\nadd.s64 %rd0, %rd0, {place};\n\
         setp.ne.u32 %p1, %r0, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%r2], 1;\nfence.proxy.async;\nbar.sync 0;\n@%p1 bra $issued;\n\
         {before}\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;\n\
         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0, {{0, 0}}], [%r2];\n\
         $issued:\nbar.warp.sync 0xffffffff;\n$wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra $wait;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let mut memory = GlobalMemory::new();
    let values = memory.upload(vec![1; 4096], 128);
    let maps = memory.alloc(1024, 128);
    memory.place_map(
        maps,
        place,
        TensorMapDesc::matrix(values, TensorElement::F16, [64, 16], 128, [32, 8], Swizzle::B64),
    );
    let launch = one_cta(32, 2056, vec![Param::Buffer(maps)]);
    simulate(&module, "k", &launch, &mut memory, &Options::default())
}

#[test]
fn a_tensor_map_in_global_memory_is_fenced_before_it_is_used() {
    let fence = "fence.proxy.tensormap::generic.acquire.sys [%rd0], 128;";
    let report = through_global_memory(fence, 128).unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    let found = |before: &str| {
        let report = through_global_memory(before, 0).unwrap();
        let finding = report.findings.iter().find(|finding| finding.kind == FindingKind::TensorCopy).unwrap();
        finding.to_string()
    };
    let unfenced = found("");
    assert!(unfenced.contains("has not fenced it"), "{unfenced}");
    let other = found("add.s64 %rd1, %rd0, 256;\nfence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;");
    assert!(other.contains("has not fenced it"), "{other}");
    let read = found(&format!("{fence}\nld.global.u32 %r5, [%rd0+124];"));
    assert!(read.contains("opaque"), "{read}");
    let misplaced = through_global_memory(fence, 32).unwrap_err();
    assert!(misplaced.to_string().contains("aligned to 64 bytes"), "{misplaced}");
    let beyond = through_global_memory(fence, 960).unwrap_err();
    assert!(beyond.to_string().contains("not all in one buffer"), "{beyond}");
}
