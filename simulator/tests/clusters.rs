//! Clusters that communicate through global memory: flags, scopes, and what they order.
#![allow(clippy::unwrap_used)]

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, Schedule, parse, simulate};

/// Block 0 writes four words and sets a flag; block 1 waits for the flag, reads the words and stores their sum.
struct Handover {
    store: &'static str,
    set: &'static str,
    poll: &'static str,
    load: &'static str,
}

const RIGHT: Handover = Handover {
    store: "st.relaxed.gpu.global.v4.u32 [%rd1], {%r2, %r2, %r2, %r2};",
    set: "red.release.gpu.global.add.u32 [%rd0], 1;",
    poll: "ld.acquire.gpu.global.u32 %r3, [%rd0];",
    load: "ld.relaxed.gpu.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];",
};

impl Handover {
    fn run(&self, options: &Options) -> (Report, u32) {
        let Self { store, set, poll, load } = self;
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 data)\n.maxntid 1, 1, 1\n{{\n\
             .reg .b32 %r<16>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n\
             ld.param.u64 %rd0, [data];\nadd.s64 %rd1, %rd0, 64;\nmov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p0, %r1, 0;\n\
             @%p0 bra $reader;\nmov.u32 %r2, 7;\n{store}\n{set}\nbra $end;\n\
             $reader:\n{poll}\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $reader;\n{load}\n\
             add.u32 %r8, %r4, %r5;\nadd.u32 %r8, %r8, %r6;\nadd.u32 %r8, %r8, %r7;\nst.global.u32 [%rd0+128], %r8;\n\
             $end:\nret;\n}}\n"
        );
        let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
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
fn a_weak_access_beside_a_strong_one_is_found() {
    let race = FindingKind::ClusterRace;
    Handover { load: "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];", ..RIGHT }.finds(race);
    Handover { store: "st.global.v4.u32 [%rd1], {%r2, %r2, %r2, %r2};", ..RIGHT }.finds(race);
    Handover { store: "st.relaxed.cta.global.v4.u32 [%rd1], {%r2, %r2, %r2, %r2};", ..RIGHT }.finds(race);
    Handover { load: "ld.global.nc.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];", ..RIGHT }.finds(FindingKind::ReadOnlyPath);
}

#[test]
fn a_flag_that_is_never_set_is_a_deadlock() {
    Handover { set: "", ..RIGHT }.finds(FindingKind::Deadlock);
}
