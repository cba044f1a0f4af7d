//! Clusters that communicate through global memory: flags, scopes, and what they order.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, Schedule, parse, simulate};

/// Block 0 writes four words and sets a flag; block 1 waits for the flag, reads the words and stores their sum.
struct Handover<'t> {
    store: &'t str,
    set: &'t str,
    poll: &'t str,
    load: &'t str,
}

const RIGHT: Handover<'static> = Handover {
    store: "st.relaxed.gpu.global.v4.u32 [%rd1], {%r2, %r2, %r2, %r2};",
    set: "red.release.gpu.global.add.u32 [%rd0], 1;",
    poll: "ld.acquire.gpu.global.u32 %r3, [%rd0];",
    load: "ld.relaxed.gpu.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];",
};

impl Handover<'_> {
    fn run(&self, options: &Options) -> (Report, u32) {
        Self::run_text(&self.text(), options)
    }

    fn text(&self) -> String {
        let Self { store, set, poll, load } = self;
        format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n.maxntid 1, 1, 1\n{{\n\
             .reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n\
             ld.param.u64 %rd0, [data];\nadd.s64 %rd1, %rd0, 64;\nmov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p0, %r1, 0;\n\
             @%p0 bra $reader;\nmov.u32 %r2, 7;\n{store}\n{set}\nbra $end;\n\
             $reader:\n{poll}\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $reader;\n{load}\n\
             add.u32 %r8, %r4, %r5;\nadd.u32 %r8, %r8, %r6;\nadd.u32 %r8, %r8, %r7;\nst.global.u32 [%rd0+128], %r8;\n\
             $end:\nret;\n}}\n"
        )
    }

    fn run_text(text: &str, options: &Options) -> (Report, u32) {
        let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut memory = GlobalMemory::new();
        let data = memory.alloc(256, 128);
        let launch = Launch {
            grid: [2, 1, 1],
            cluster: [1; 3],
            block: [1, 1, 1],
            shared_bytes: 0,
            params: vec![Param::Buffer(data)],
        };
        let report = simulate(&module, "k", &launch, &mut memory, options).unwrap();
        let sum = u32::from_le_bytes(memory.bytes(data)[128..132].try_into().unwrap());
        (report, sum)
    }

    fn is_clean(&self) -> bool {
        orders().iter().all(|options| {
            let (report, sum) = self.run(options);
            report.is_clean() && sum == 28
        })
    }

    fn finds(&self, kind: FindingKind) {
        for options in orders() {
            let (report, _) = self.run(&options);
            assert!(report.findings.iter().any(|f| f.kind == kind), "{options:?}: {:?}", report.findings);
        }
    }
}

fn orders() -> Vec<Options> {
    let seeds = (0..4).map(|seed| Options { seed, ..Options::default() });
    let fixed = [Schedule::Early, Schedule::Late].map(|schedule| Options { schedule, ..Options::default() });
    seeds.chain(fixed).collect()
}

#[test]
fn a_flag_hands_data_over() {
    assert!(RIGHT.is_clean());
    let fenced = Handover {
        set: "fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%rd0], 1;",
        poll: "ld.relaxed.gpu.global.u32 %r3, [%rd0];\nfence.acq_rel.gpu;",
        ..RIGHT
    };
    assert!(fenced.is_clean());
}

#[test]
fn a_flag_that_orders_nothing_is_found() {
    let race = FindingKind::ClusterRace;
    Handover { set: "red.relaxed.gpu.global.add.u32 [%rd0], 1;", ..RIGHT }.finds(race);
    Handover { poll: "ld.relaxed.gpu.global.u32 %r3, [%rd0];", ..RIGHT }.finds(race);
    Handover { set: "red.release.cta.global.add.u32 [%rd0], 1;", ..RIGHT }.finds(race);
}

#[test]
fn weak_accesses_are_right_where_the_flag_orders_them_and_there_alone() {
    let (weak_load, weak_store) =
        ("ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];", "st.global.v4.u32 [%rd1], {%r2, %r2, %r2, %r2};");
    let of_block = "st.relaxed.cta.global.v4.u32 [%rd1], {%r2, %r2, %r2, %r2};";
    let relaxed = "red.relaxed.gpu.global.add.u32 [%rd0], 1;";
    for other in [
        Handover { load: weak_load, ..RIGHT },
        Handover { store: weak_store, ..RIGHT },
        Handover { store: of_block, ..RIGHT },
    ] {
        assert!(other.is_clean(), "{} and {}", other.store, other.load);
        Handover { set: relaxed, ..other }.finds(FindingKind::ClusterRace);
    }
    Handover { load: "ld.global.nc.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];", ..RIGHT }.finds(FindingKind::ReadOnlyPath);
}

#[test]
fn a_flag_that_is_never_set_is_a_deadlock() {
    Handover { set: "", ..RIGHT }.finds(FindingKind::Deadlock);
}

/// Block 0 computes for long before it sets the flag: it changes nothing that block 1 could see, and is no poll.
#[test]
fn a_long_computation_is_no_poll() {
    let busy = "mov.u32 %r9, 0;\n$busy:\nadd.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 60000;\n@%p2 bra $busy;\n";
    assert!(Handover { set: &format!("{busy}{}", RIGHT.set), ..RIGHT }.is_clean());
}

/// A loop that counts its polls comes to its end, whether the flag is set or not.
#[test]
fn polls_that_are_counted_end() {
    let text = Handover { set: "", ..RIGHT }.text();
    let counted = text.replace("@%p0 bra $reader;", "mov.u32 %r9, 0;\n@%p0 bra $reader;");
    let counted = counted.replace(
        "setp.eq.u32 %p1,",
        "add.u32 %r9, %r9, 1;\nsetp.gt.u32 %p2, %r9, 2000;\n@%p2 bra $end;\nsetp.eq.u32 %p1,",
    );
    for options in orders() {
        let (report, sum) = Handover::run_text(&counted, &options);
        assert!(report.is_clean() && sum == 0, "{options:?}: {:?}", report.findings);
    }
}

/// Two blocks wait for flags that the other would set after its own wait.
#[test]
fn blocks_that_wait_for_each_other_are_a_deadlock_at_once() {
    let text = Handover {
        set: "$first:\nld.acquire.gpu.global.u32 %r3, [%rd0+4];\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $first;\n",
        ..RIGHT
    }
    .text();
    for options in orders() {
        let (report, _) = Handover::run_text(&text, &options);
        assert!(report.findings.iter().any(|f| f.kind == FindingKind::Deadlock), "{options:?}");
        assert!(report.cost.steps < 2_000, "{}", report.cost.steps);
    }
}
