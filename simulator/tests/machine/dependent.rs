//! Programmatic dependent launch: what an earlier kernel may still be writing is touched after `griddepcontrol.wait`.

use crate::support::{Case, assert_right, plan, run as run_text};
use bsr_runtime::Pattern;
use bsr_simulator::{
    Finding, FindingKind, GlobalMemory, Launch, Options, Param, Report, Swizzle, TensorElement, TensorMapDesc, parse,
    simulate,
};

/// Runs `body` in 64 threads of a dependent launch: `%rd0` is the buffer, `%rd1` the thread's word of it, `%rd2` the
/// address of a tensor map of it, `%r0` the thread, `%r1` shared memory.
fn run(body: &str, options: &Options, settled: bool) -> Report {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .u64 data, .param .align 64 .b8 map[128])\n.maxntid 64, 1, 1\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n\
         ld.param.u64 %rd0, [data];\nmov.u32 %r0, %tid.x;\nmad.wide.u32 %rd1, %r0, 4, %rd0;\nmov.u32 %r1, smem;\n\
         mov.b64 %rd2, map;\ncvta.param.u64 %rd2, %rd2;\n{body}\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(module.uses_griddepcontrol("k"), text.contains("griddepcontrol"));
    let mut memory = GlobalMemory::new();
    let data = memory.upload(vec![1; 1024], 128);
    if settled {
        memory.settle(data);
    }
    let map = TensorMapDesc::matrix(data, TensorElement::F16, [64, 8], 128, [32, 8], Swizzle::B64);
    let launch = Launch {
        grid: [1; 3],
        cluster: [1; 3],
        block: [64, 1, 1],
        shared_bytes: 2048,
        params: vec![Param::Buffer(data), Param::TensorMap(map)],
    };
    simulate(&module, "k", &launch, &mut memory, options).unwrap()
}

fn dependent(seed: u64) -> Options {
    Options { seed, dependent: true, ..Options::default() }
}

fn clean(body: &str) {
    for seed in 0..6 {
        let report = run(body, &dependent(seed), false);
        assert!(report.is_clean(), "seed {seed}: {}", report.findings[0]);
    }
}

/// The one finding of the body, in every schedule.
fn found(body: &str) -> Finding {
    for seed in 0..6 {
        let report = run(body, &dependent(seed), false);
        let kinds: Vec<_> = report.findings.iter().map(|f| f.kind).collect();
        assert_eq!(kinds, [FindingKind::GridDependency], "seed {seed}: {:?}", report.findings);
        // The same text in a launch that depends on nothing, or on a buffer that nobody writes.
        assert!(run(body, &Options { seed, ..Options::default() }, false).is_clean());
        assert!(run(body, &dependent(seed), true).is_clean());
    }
    run(body, &dependent(0), false).findings.remove(0)
}

const LOAD: &str = "ld.global.u32 %r2, [%rd1];";
const STORE: &str = "st.global.u32 [%rd1], %r0;";
const WAIT: &str = "griddepcontrol.wait;";

/// Thread 0 copies the box to shared memory, `before` stands before the copy, `after` after the barrier.
fn copies(before: &str, after: &str) -> String {
    format!(
        "add.u32 %r3, %r1, 1024;\nsetp.ne.u32 %p1, %r0, 0;\n@!%p1 mbarrier.init.shared::cta.b64 [%r3], 1;\n\
         fence.proxy.async;\nbar.sync 0;\n@%p1 bra $issued;\n{before}\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;\n\
         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {{0, 0}}], [%r3];\n\
         $issued:\nbar.warp.sync 0xffffffff;\n$wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n\
         @!%p2 bra $wait;\n{after}"
    )
}

#[test]
fn a_load_of_constants_reads_nothing_that_an_earlier_kernel_may_write() {
    let body = "griddepcontrol.wait;\nld.global.nc.u32 %r2, [%rd1];";
    for seed in 0..6 {
        let report = run(body, &dependent(seed), false);
        assert_eq!(
            report.findings.iter().map(|f| f.kind).collect::<Vec<_>>(),
            [FindingKind::ReadOnlyPath],
            "seed {seed}"
        );
        assert!(
            report.findings[0].message.contains("before griddepcontrol.wait; use ld.global"),
            "{}",
            report.findings[0]
        );
        assert!(run(body, &dependent(seed), true).is_clean() && run(body, &Options::default(), false).is_clean());
    }
}

#[test]
fn a_read_before_the_wait_is_a_finding() {
    clean(&format!("{WAIT}\n{LOAD}"));
    clean(&format!("griddepcontrol.launch_dependents;\n{WAIT}\n{LOAD}\n{STORE}"));
    let finding = found(&format!("{LOAD}\n{WAIT}"));
    assert!(finding.message.contains("reads bytes") && finding.message.contains("of buffer 0"), "{finding}");
    assert!(finding.message.contains("before griddepcontrol.wait"), "{finding}");
    assert_eq!(finding.sides[0].text, LOAD);
}

#[test]
fn a_kernel_that_never_waits_is_found() {
    let finding = found(&format!("griddepcontrol.launch_dependents;\n{LOAD}"));
    assert!(finding.message.contains("execute griddepcontrol.wait first"), "{finding}");
}

#[test]
fn a_write_and_an_atomic_before_the_wait_are_findings() {
    let finding = found(&format!("{STORE}\n{WAIT}"));
    assert!(finding.message.starts_with("writes bytes"), "{finding}");
    assert!(finding.message.contains("reading or writing them"), "{finding}");
    found(&format!("red.global.add.u32 [%rd1], 1;\n{WAIT}"));
}

#[test]
fn the_thread_that_issues_a_copy_must_have_waited() {
    clean(&copies(WAIT, ""));
    let finding = found(&copies("", WAIT));
    assert!(finding.sides[0].does.contains("tensor copy"), "{finding}");
    // Threads that wait beside it do not help.
    let beside = "@%p1 griddepcontrol.wait;\n@%p1 bra $issued;";
    found(&copies("", "").replace("@%p1 bra $issued;", beside));
}

#[test]
fn a_barrier_after_the_wait_passes_it_on() {
    // The wait of one thread covers the grid; the others must be ordered after it.
    let one = "setp.ne.u32 %p0, %r0, 0;\n@!%p0 griddepcontrol.wait;\n";
    clean(&format!("{one}bar.sync 0;\n{LOAD}"));
    clean(&copies(WAIT, &format!("{LOAD}\n{STORE}")));
    found(&format!("{one}{LOAD}"));
}

#[test]
fn the_wait_orders_nothing_inside_the_launch() {
    let store_and_read = |between: &str| {
        format!(
            "mad.lo.u32 %r3, %r0, 4, %r1;\nst.shared.u32 [%r3], %r0;\n{between}\nxor.b32 %r4, %r0, 32;\n\
             mad.lo.u32 %r4, %r4, 4, %r1;\nld.shared.u32 %r5, [%r4];"
        )
    };
    clean(&store_and_read("bar.sync 0;"));
    let kinds = [FindingKind::Race, FindingKind::UninitialisedRead];
    for seed in 0..6 {
        let report = run(&store_and_read(WAIT), &dependent(seed), false);
        assert!(report.findings.iter().any(|f| kinds.contains(&f.kind)), "seed {seed}: {:?}", report.findings);
    }
}

/// The runtime's launches depend on an earlier kernel where the text says that it may still run.
#[test]
fn an_emitted_kernel_waits_before_its_first_access() {
    let plan = plan("bm = 64, bn = 64, bk = 64");
    let (case, options) = (Case::new(192, 128, 256, Pattern::TopK(2)), Options::default());
    let ptx = plan.ptx();
    let text = ptx.text().replace("ld.global.nc.", "ld.global.");
    let first = text.find("    ld.param").or_else(|| text.find("    mov")).unwrap();
    let with = |word: &str| format!("{}    {word}\n{}", &text[..first], &text[first..]);
    let waits = run_text(&plan, &with("griddepcontrol.wait;"), ptx.entry(), &case, &options);
    assert_right(&plan, &waits, "waits");
    let never = run_text(&plan, &with("griddepcontrol.launch_dependents;"), ptx.entry(), &case, &options);
    assert!(never.report.findings.iter().any(|f| f.kind == FindingKind::GridDependency));
    assert!(never.report.findings.iter().all(|f| f.kind == FindingKind::GridDependency));
}
