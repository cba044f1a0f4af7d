//! What texts of compilers have beside instructions: local memory, functions, variables, sections.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, parse, simulate};

use crate::one_cta;

const HEAD: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n";

/// Runs a warp of kernel `k` that gets the address of 32 words, and gives them.
fn run(text: &str) -> (Vec<u32>, Vec<FindingKind>) {
    let module = parse(&format!("{HEAD}{text}")).unwrap();
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(128, 16);
    let (grid, cluster, block) = ([1; 3], [1; 3], [32, 1, 1]);
    let launch = Launch { grid, cluster, block, shared_bytes: 256, params: vec![Param::Buffer(out)] };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    let words = memory.bytes(out).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    (words, report.findings.iter().map(|finding| finding.kind).collect())
}

/// A kernel that stores `%r0`, which `body` computes of `%tid.x` in `%r1`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out) {{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<4>;\nld.param.u64 %rd0, [out];\n\
         mov.u32 %r1, %tid.x;\nmad.wide.u32 %rd0, %r1, 4, %rd0;\n{body}\nst.global.u32 [%rd0], %r0;\nret;\n}}\n"
    )
}

fn each(value: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(value).collect()
}

#[test]
fn every_thread_has_local_memory() {
    let body = ".local .align 8 .b8 mine[16];\nst.local.u32 [mine+4], %r1;\nmov.u64 %rd1, mine;\ncvta.local.u64 %rd1, %rd1;\n\
                ld.u32 %r0, [%rd1+4];";
    assert_eq!(run(&kernel(body)), (each(|t| t), vec![]));
    let unwritten = ".local .align 8 .b8 mine[16];\nld.local.u32 %r0, [mine];";
    assert_eq!(run(&kernel(unwritten)).1, [FindingKind::UninitialisedRead]);
    let outside = ".local .align 8 .b8 mine[16];\nst.local.u32 [mine+16], %r1;\nmov.u32 %r0, 0;";
    assert_eq!(run(&kernel(outside)).1, [FindingKind::OutOfBounds]);
}

#[test]
fn functions_are_called_and_return_early() {
    let function = ".func (.param .b32 result) twice(.param .b32 x) {\n.reg .b32 %r<2>;\n.reg .pred %p;\n\
                    ld.param.u32 %r0, [x];\nsetp.lt.u32 %p, %r0, 8;\nadd.u32 %r1, %r0, %r0;\nst.param.b32 [result], %r1;\n\
                    @%p ret;\nmov.u32 %r1, 7;\nst.param.b32 [result+0], %r1;\nret;\n}\n";
    let body = "{\n.param .b32 p0;\n.param .b32 r0;\nst.param.b32 [p0], %r1;\ncall.uni (r0), twice, (p0);\n\
                ld.param.b32 %r0, [r0];\n}";
    assert_eq!(run(&format!("{function}{}", kernel(body))), (each(|t| if t < 8 { 2 * t } else { 7 }), vec![]));
    let recursive = ".func again() {\ncall again;\nret;\n}\n";
    let refused = parse(&format!("{HEAD}{recursive}{}", kernel("call again;\nmov.u32 %r0, 0;"))).unwrap_err();
    assert!(refused.message.contains("recursion is not modelled"), "{refused}");
}

#[test]
fn a_kernel_may_be_declared_before_it_is_defined() {
    let text = kernel("mov.u32 %r0, %r1;");
    let head = text[..text.find('{').unwrap()].trim_end();
    assert_eq!(run(&format!("{head};\n{text}")), (each(|t| t), vec![]));
}

#[test]
fn variables_of_the_module_hold_their_initial_values() {
    let variables = ".global .align 4 .b32 table[4] = {5, 6, 7, 8};\n.const .align 4 .f32 one = 0f3F800000;\n\
                     .section .debug_str\n{\n.b8 1,2\n}\n";
    let body = "and.b32 %r2, %r1, 3;\nmov.u64 %rd1, table;\nmad.wide.u32 %rd1, %r2, 4, %rd1;\nld.global.u32 %r0, [%rd1];\n\
                ld.const.u32 %r3, [one];\nadd.u32 %r0, %r0, %r3;";
    assert_eq!(run(&format!("{variables}{}", kernel(body))), (each(|t| 5 + t % 4 + 0x3f80_0000), vec![]));
}

#[test]
fn an_assertion_that_fails_is_a_finding_with_its_text() {
    let outside = ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e) .noreturn;\n\
                   .global .align 1 .b8 text[6] = {111, 104, 32, 110, 111};\n.global .align 1 .b8 name[2] = {102};\n";
    let body = "setp.ne.u32 %p0, %r1, 3;\n@%p0 bra $fine;\n{\n.param .b64 a;\n.param .b64 b;\n.param .b32 c;\n.param .b64 d;\n\
                .param .b64 e;\nmov.u64 %rd1, text;\ncvta.global.u64 %rd1, %rd1;\nst.param.b64 [a], %rd1;\nmov.u64 %rd2, name;\n\
                st.param.b64 [b], %rd2;\nst.param.b32 [c], 42;\nst.param.b64 [d], %rd2;\nst.param.b64 [e], 1;\n\
                call.uni __assertfail, (a, b, c, d, e);\n}\n$fine:\nmov.u32 %r0, 1;";
    let module = parse(&format!("{HEAD}{outside}{}", kernel(body))).unwrap();
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(128, 16);
    let launch = one_cta(32, 0, vec![Param::Buffer(out)]);
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    assert_eq!(report.findings[0].kind, FindingKind::Assertion);
    assert!(report.findings[0].message.contains("oh no (f:42, in f"), "{}", report.findings[0].message);
}

#[test]
fn indexed_branches_and_reducing_barriers() {
    let body = "and.b32 %r2, %r1, 1;\n$list: .branchtargets $even, $odd;\nbrx.idx %r2, $list;\n$even:\nmov.u32 %r0, 10;\n\
                bra $end;\n$odd:\nmov.u32 %r0, 20;\n$end:\nsetp.gt.u32 %p0, %r1, 28;\nbar.red.popc.u32 %r3, 0, %p0;\n\
                bar.red.or.pred %p1, 0, %p0;\nbar.red.and.pred %p2, 0, %p0;\nadd.u32 %r0, %r0, %r3;\n@%p1 add.u32 %r0, %r0, 100;\n\
                @%p2 add.u32 %r0, %r0, 1000;";
    assert_eq!(run(&kernel(body)), (each(|t| 113 + 10 * (t % 2)), vec![]));
}

/// CUTLASS writes the number of matrices before their shape, and guards what cannot happen by `brkpt`.
#[test]
fn modifiers_and_instructions_of_cutlass() {
    let body = ".shared .align 16 .b8 tile[512];\nmov.u32 %r2, tile;\nmad.lo.u32 %r3, %r1, 16, %r2;\n\
                st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};\nbar.warp.sync 0xffffffff;\n\
                ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];\nadd.u32 %r0, %r4, %r7;";
    // Lane t gets words of rows t/4 of the first and of the last matrix: what lanes t/4 and 24 + t/4 wrote.
    assert_eq!(run(&kernel(body)), (each(|t| t / 4 + 24 + t / 4), vec![]));
    assert_eq!(run(&kernel("mov.u32 %r0, 0;\nbrkpt;")).1, [FindingKind::Trap]);
    let strong = "ld.global.acquire.gpu.u32 %r0, [%rd0];\nadd.u32 %r0, %r0, 5;\nst.global.release.gpu.u32 [%rd0], %r0;";
    assert_eq!(run(&kernel(strong)), (each(|_| 5), vec![]));
}

#[test]
fn a_launch_has_blocks() {
    let module = parse(&format!("{HEAD}{}", kernel("mov.u32 %r0, 0;"))).unwrap();
    let mut memory = GlobalMemory::new();
    let out = memory.alloc(128, 16);
    let launch = Launch {
        grid: [1, 0, 1],
        cluster: [1; 3],
        block: [32, 1, 1],
        shared_bytes: 0,
        params: vec![Param::Buffer(out)],
    };
    let refused = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap_err();
    assert!(refused.to_string().contains("the grid [1, 0, 1] has no block"), "{refused}");
}

/// The ISA leaves open which lane is elected; CUTLASS relies on the lowest.
#[test]
fn the_lowest_lane_is_elected_where_a_run_says_so() {
    let body = "mov.u32 %r0, 0;\nelect.sync _|%p0, 0xffffffff;\n@%p0 mov.u32 %r0, 1;";
    let module = parse(&format!("{HEAD}{}", kernel(body))).unwrap();
    let elected = |lowest_leader, seed| {
        let mut memory = GlobalMemory::new();
        let out = memory.alloc(128, 16);
        let (grid, cluster, block) = ([1; 3], [1; 3], [32, 1, 1]);
        let launch = Launch { grid, cluster, block, shared_bytes: 0, params: vec![Param::Buffer(out)] };
        simulate(&module, "k", &launch, &mut memory, &Options { seed, lowest_leader, ..Options::default() }).unwrap();
        memory.bytes(out).iter().position(|byte| *byte == 1).map(|at| at / 4)
    };
    assert!((0..8).all(|seed| elected(true, seed) == Some(0)));
    assert!((0..8).any(|seed| elected(false, seed) != Some(0)));
}
