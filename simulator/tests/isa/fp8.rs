//! FP8 `wgmma`, and its two ways to sum.

use bsr_simulator::{Fp8Accumulate, GlobalMemory, Options, Param, parse, simulate};

use crate::one_cta;

/// Two products into one accumulator: operands full of `big`, then operands full of `small` (e4m3 bytes). Tiles full
/// of one value are the same in every layout.
const PTX: &str = r"
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry sums(.param .u64 out, .param .u32 big, .param .u32 small) {
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<4>;
    .reg .pred %p<3>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, smem;
    ld.param.u32 %r2, [big];
    ld.param.u32 %r3, [small];
    mad.lo.u32 %r4, %r0, 4, %r1;
    mov.u32 %r5, 0;
$fill:
    st.shared.u32 [%r4], %r2;
    st.shared.u32 [%r4 + 4096], %r3;
    add.u32 %r4, %r4, 512;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 8;
    @%p0 bra $fill;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p1, 0, 0;
    setp.eq.u32 %p2, 0, 0;
    bfe.u32 %r6, %r1, 4, 14;
    cvt.u64.u32 %rd0, %r6;
    or.b64 %rd0, %rd0, 0x0000001000080000;
    add.s64 %rd1, %rd0, 256;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd0, %rd0, %p1, 1, 1;
    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd1, %rd1, %p2, 1, 1;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %rd2, [out];
    cvta.to.global.u64 %rd2, %rd2;
    mad.wide.u32 %rd2, %r0, 16, %rd2;
    st.global.v4.f32 [%rd2], {%f0, %f1, %f2, %f3};
    ret;
}";

fn run(big: u8, small: u8, fp8: Fp8Accumulate) -> Vec<f32> {
    let module = parse(PTX).unwrap();
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(128 * 16, 16);
    let word = |byte: u8| Param::U32(u32::from_ne_bytes([byte; 4]));
    let launch = one_cta(128, 8192, vec![Param::Buffer(out), word(big), word(small)]);
    let report = simulate(&module, "sums", &launch, &mut memory, &Options { fp8, ..Options::default() }).unwrap();
    assert!(report.is_clean(), "{}", report.findings[0]);
    memory.bytes(out).chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn single_precision_keeps_what_the_tensor_core_cuts() {
    // e4m3: 0x7e is 448, 0x38 is 1. 32 products of 448 x 448, then 32 of 1 x 1.
    let large = 32.0 * 448.0 * 448.0;
    assert_eq!(run(0x7e, 0x38, Fp8Accumulate::Single), [large + 32.0; 512]);
    assert_eq!(run(0x7e, 0x38, Fp8Accumulate::Reduced), [large; 512]);
}

#[test]
fn sums_of_equals_are_the_same_either_way() {
    // 0xb8 is -1: its square is 1 again.
    for fp8 in [Fp8Accumulate::Single, Fp8Accumulate::Reduced] {
        assert_eq!(run(0x38, 0xb8, fp8), [64.0; 512]);
    }
}
