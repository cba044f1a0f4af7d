//! Order between the blocks of a cluster: what releases, acquires and fences of each scope order.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, Schedule, parse, simulate};

/// Block 0 writes a word to block 1's shared memory and signals; block 1 waits for the signal, reads the word and stores it.
fn run(signal: &str, wait: &str, options: &Options) -> (Report, u32) {
    run_text(&text(signal, wait), options)
}

fn text(signal: &str, wait: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n.maxntid 1, 1, 1\n{{\n\
         .reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n.shared .align 16 .b8 smem[64];\n\
         ld.param.u64 %rd0, [data];\nmov.u32 %r0, %cluster_ctarank;\nmov.u32 %r1, smem;\nst.shared.u32 [%r1], 0;\n\
         mbarrier.init.shared::cta.b64 [%r1+8], 1;\nfence.mbarrier_init.release.cluster;\n\
         barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n\
         setp.ne.u32 %p0, %r0, 0;\n@%p0 bra $reader;\n\
         mapa.shared::cluster.u32 %r2, %r1, 1;\nst.shared::cluster.u32 [%r2+16], 7;\n{signal}\nbra $end;\n\
         $reader:\n{wait}\n@!%p1 bra $reader;\nld.shared.u32 %r5, [%r1+16];\nst.global.u32 [%rd0], %r5;\n\
         $end:\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\nret;\n}}\n"
    )
}

fn run_text(text: &str, options: &Options) -> (Report, u32) {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let data = memory.alloc(16, 128);
    let launch = Launch {
        grid: [2, 1, 1],
        cluster: [2, 1, 1],
        block: [1, 1, 1],
        shared_bytes: 0,
        params: vec![Param::Buffer(data)],
    };
    let report = simulate(&module, "k", &launch, &mut memory, options).unwrap();
    (report, u32::from_le_bytes(memory.bytes(data)[..4].try_into().unwrap()))
}

fn orders() -> Vec<Options> {
    let seeds = (0..4).map(|seed| Options { seed, ..Options::default() });
    let fixed = [Schedule::Early, Schedule::Late].map(|schedule| Options { schedule, ..Options::default() });
    seeds.chain(fixed).collect()
}

fn is_clean(signal: &str, wait: &str) {
    for options in orders() {
        let (report, word) = run(signal, wait, &options);
        assert!(report.is_clean() && word == 7, "{signal} | {wait}: {word}, {:#?}", report.findings);
    }
}

fn races(signal: &str, wait: &str) {
    for options in orders() {
        let (report, _) = run(signal, wait, &options);
        let found = report.findings.iter().any(|f| f.kind == FindingKind::Race);
        assert!(found, "{signal} | {wait}: {options:?}: {:?}", report.findings);
    }
}

/// A flag: the access that sets it with what comes before, and the one that reads it with what comes after.
fn flag(set: &str, read: &str) -> (String, String) {
    (
        set.replace("SET", "shared::cluster.add.u32 [%r2], 1;"),
        read.replace("READ", "shared::cta.u32 %r4, [%r1];") + "\nsetp.ne.u32 %p1, %r4, 0;",
    )
}

#[test]
fn flags_order_blocks_by_cluster_scope_alone() {
    let (set, read) = flag("red.release.cluster.SET", "ld.acquire.cluster.READ");
    is_clean(&set, &read);
    let (set, read) = flag("red.release.gpu.SET", "ld.acquire.sys.READ");
    is_clean(&set, &read);
    let fence = "fence.acq_rel.cluster;\n";
    let (set, read) = flag(&format!("{fence}red.relaxed.cluster.SET"), "ld.relaxed.cluster.READ");
    is_clean(&set, &read.replace("READ", "").replace("[%r1];", &format!("[%r1];\n{fence}")));

    for (set, read) in [
        ("red.release.cta.SET", "ld.acquire.cluster.READ"),
        ("red.release.cluster.SET", "ld.acquire.cta.READ"),
        ("red.relaxed.cluster.SET", "ld.acquire.cluster.READ"),
        ("red.release.cluster.SET", "ld.relaxed.cluster.READ"),
        ("fence.acq_rel.cta;\nred.relaxed.cluster.SET", "ld.acquire.cluster.READ"),
        ("red.release.cluster.SET", "ld.volatile.READ"),
    ] {
        let (set, read) = flag(set, read);
        races(&set, &read);
    }
    let (set, read) = flag("red.release.cluster.SET", "ld.relaxed.cluster.READ");
    races(&set, &read.replace("[%r1];", "[%r1];\nfence.acq_rel.cta;"));
}

#[test]
fn mbarriers_order_blocks_unless_their_scope_is_the_block() {
    let arrive = |words: &str| format!("mbarrier.arrive{words}.shared::cluster.b64 _, [%r2+8];");
    let wait = |words: &str| format!("mbarrier.try_wait.parity{words}.shared::cta.b64 %p1, [%r1+8], 0;");
    is_clean(&arrive(".release.cluster"), &wait(".acquire.cluster"));
    // Where no scope is named, hardware orders the whole cluster.
    is_clean(&arrive(""), &wait(""));
    races(&arrive(".release.cta"), &wait(".acquire.cluster"));
    races(&arrive(".release.cluster"), &wait(".acquire.cta"));
    races(&arrive(".relaxed.cluster"), &wait(""));
}

#[test]
fn strong_accesses_of_block_scope_race_with_those_of_another_block() {
    let poll = "ld.acquire.cluster.shared::cta.u32 %r4, [%r1];\nsetp.ne.u32 %p1, %r4, 0;\n";
    let both = |scope: &str| {
        (
            format!(
                "st.relaxed.{scope}.shared::cluster.u32 [%r2+32], 1;\nred.relaxed.{scope}.shared::cluster.add.u32 [%r2], 1;"
            ),
            format!("{poll}st.relaxed.{scope}.shared::cta.u32 [%r1+32], 2;"),
        )
    };
    // The word itself is not handed over: without it only the strong accesses are left.
    let without = |(signal, wait): (String, String)| {
        let (report, _) = run(&signal, &wait, &Options::default());
        report.findings.iter().filter(|f| f.sides.iter().all(|s| s.text.contains("+32"))).count()
    };
    assert_eq!(without(both("cluster")), 0);
    assert_eq!(without(both("cta")), 1);
}

#[test]
fn a_flag_that_nobody_sets_is_a_deadlock_at_once() {
    let (_, read) = flag("", "ld.acquire.cluster.READ");
    for options in orders() {
        let (report, _) = run("", &read, &options);
        assert_eq!(report.findings.iter().map(|f| f.kind).collect::<Vec<_>>(), [FindingKind::Deadlock]);
        assert!(report.cost.steps < 1_000, "{}", report.cost.steps);
    }
}

/// What a block leaves at the barriers of another must have arrived before that one ends.
#[test]
fn a_relaxed_arrival_at_the_last_cluster_barrier_lets_remote_arrivals_trail() {
    let signal = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2+8];";
    let text = text(signal, "setp.eq.u32 %p1, 0, 0;").replace("st.shared::cluster.u32 [%r2+16], 7;\n", "");
    let text = text.replace("ld.shared.u32 %r5, [%r1+16];", "mov.u32 %r5, 0;");
    let last = text.rfind("arrive.release.aligned").unwrap();
    let relaxed = format!("{}arrive.relaxed.aligned{}", &text[..last], &text[last + 22..]);
    for options in orders() {
        let (report, _) = run_text(&text, &options);
        assert!(report.is_clean(), "{options:?}: {:?}", report.findings);
        let (report, _) = run_text(&relaxed, &options);
        assert!(
            report.findings.iter().any(|f| f.kind == FindingKind::ExitInFlight),
            "{options:?}: {:?}",
            report.findings
        );
    }
}
