//! Buffers whose lines lie far apart: 32-bit arithmetic on addresses overflows.

use bsr_simulator::{FindingKind, GlobalMemory, Launch, Options, Param, Report, parse, simulate};

const PITCH: u32 = 1 << 29;

/// Every thread copies one word of its line of `from` to its line of `to`.
fn run(address: &str, offset: u32) -> (Report, Vec<u32>) {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 pitch)\n{{\n\
         .reg .b32 %r<8>;\n.reg .b64 %rd<8>;\nld.param.u64 %rd0, [from];\nld.param.u64 %rd1, [to];\nld.param.u32 %r0, [pitch];\n\
         mov.u32 %r1, %tid.x;\n{address}\nadd.s64 %rd3, %rd0, %rd2;\nadd.s64 %rd4, %rd1, %rd2;\n\
         ld.global.u32 %r3, [%rd3 + {offset}];\nst.global.u32 [%rd4 + {offset}], %r3;\nret;\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut memory = GlobalMemory::new();
    let words = |line: u32| [line, 100 + line, 0, 0];
    let bytes: Vec<u8> = (0..32).flat_map(words).flat_map(u32::to_le_bytes).collect();
    let from = memory.upload_spread(bytes.clone(), 16, u64::from(PITCH), 256);
    let to = memory.upload_spread(vec![0; bytes.len()], 16, u64::from(PITCH), 256);
    let params = vec![Param::Buffer(from), Param::Buffer(to), Param::U32(PITCH)];
    let launch = Launch { grid: [1; 3], cluster: [1; 3], block: [32, 1, 1], shared_bytes: 0, params };
    let report = simulate(&module, "k", &launch, &mut memory, &Options::default()).unwrap();
    let got = memory.bytes(to).chunks(16).map(|line| u32::from_le_bytes(line[4..8].try_into().unwrap())).collect();
    (report, got)
}

#[test]
fn addresses_in_64_bits_reach_every_line() {
    let (report, got) = run("mul.wide.u32 %rd2, %r1, %r0;", 4);
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(got, (100..132).collect::<Vec<u32>>());
}

#[test]
fn addresses_in_32_bits_reach_the_first_eight() {
    let (_, got) = run("mul.lo.u32 %r2, %r1, %r0;\ncvt.u64.u32 %rd2, %r2;", 4);
    assert_eq!(got[..8], [100, 101, 102, 103, 104, 105, 106, 107]);
    assert!(got[8..].iter().all(|word| *word == 0), "{got:?}");
}

#[test]
fn what_lies_between_two_lines_is_out_of_bounds() {
    let (report, _) = run("mul.wide.u32 %rd2, %r1, %r0;", 16);
    assert_eq!(report.findings[0].kind, FindingKind::OutOfBounds);
    assert!(
        report.findings[0].message.contains("in lines of 16 that are 536870912 apart: byte 16 of line 0"),
        "{}",
        report.findings[0]
    );
}

/// Stores may fill up the last 16 bytes of a line, and nothing between it and the next.
#[test]
fn the_padding_of_a_matrix_is_not_written() {
    let store = |offset: u32| {
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 to)\n{{\n.reg .b64 %rd<2>;\n\
             ld.param.u64 %rd0, [to];\nst.global.u32 [%rd0 + {offset}], 1;\nret;\n}}\n"
        );
        let mut memory = GlobalMemory::new();
        let to = memory.alloc(256, 256);
        memory.pad(to, 20, 64);
        let params = vec![Param::Buffer(to)];
        let launch = Launch { grid: [1; 3], cluster: [1; 3], block: [1, 1, 1], shared_bytes: 0, params };
        simulate(&parse(&text).unwrap(), "k", &launch, &mut memory, &Options::default()).unwrap()
    };
    for offset in [0, 16, 28, 64, 92] {
        assert!(store(offset).is_clean(), "{offset}");
    }
    for offset in [32, 60, 96, 124] {
        let report = store(offset);
        assert_eq!(report.findings[0].kind, FindingKind::OutOfBounds);
        assert!(report.findings[0].message.contains("between the lines"), "{}", report.findings[0]);
    }
}
