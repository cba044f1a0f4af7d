//! Which target and which PTX version has what: the simulator's table against a record of what ptxas takes.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bsr_simulator::{GlobalMemory, Launch, Options, parse, simulate};

const RECORD: &str = include_str!("targets.txt");

/// In the order in which features were added: sm_120 has all of sm_90, and nothing of sm_90a alone.
const TARGETS: [&str; 8] = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_120", "sm_90a"];

/// The first version that knows a target.
const SINCE: [&str; 8] = ["6.0", "6.3", "7.0", "7.1", "7.8", "7.8", "8.7", "8.0"];

const VERSIONS: [&str; 25] = [
    "6.0", "6.1", "6.2", "6.3", "6.4", "6.5", "7.0", "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "8.0",
    "8.1", "8.2", "8.3", "8.4", "8.5", "8.6", "8.7", "8.8", "9.0",
];

fn module(instruction: &str, target: &str, version: &str) -> String {
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n\
         .visible .entry k(.param .u64 p, .param .align 64 .b8 map[128])\n{{\n\
         .reg .b16 %h<8>;\n.reg .b32 %r<80>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<140>;\n.reg .f64 %d<4>;\n.reg .pred %p<8>;\n\
         .shared .align 128 .b8 sm[1024];\n{instruction}\nret;\n}}\n"
    )
}

/// (first target, first version, instruction)
fn record() -> Vec<(&'static str, &'static str, &'static str)> {
    let lines = RECORD.lines().filter(|l| !l.starts_with('#'));
    let rows = lines.map(|l| {
        let (target, rest) = l.split_once(' ').unwrap();
        let (version, instruction) = rest.trim_start().split_once(' ').unwrap();
        (target, version, instruction)
    });
    rows.collect()
}

fn refusal(instruction: &str, target: &str, version: &str) -> Option<String> {
    parse(&module(instruction, target, version)).err().map(|e| e.message)
}

#[test]
fn every_instruction_has_its_first_target_and_version() {
    let record = record();
    assert!(record.len() > 200);
    let mut wrong = Vec::new();
    for (target, version, instruction) in record {
        let first = TARGETS.iter().position(|t| *t == target).unwrap();
        for (i, t) in TARGETS.iter().enumerate() {
            match refusal(instruction, t, "9.0") {
                None if i >= first => {}
                Some(m) if i < first && m.contains("does not exist on") && m.ends_with(&format!("is {target}")) => {}
                got => wrong.push(format!("{instruction} on {t}, recorded {target}: {got:?}")),
            }
        }
        for v in VERSIONS.into_iter().skip_while(|v| *v < SINCE[first]) {
            match refusal(instruction, target, v) {
                None if v >= version => {}
                Some(m)
                    if v < version && m.contains(&format!("needs PTX {version}; the module says `.version {v}`")) => {}
                got => wrong.push(format!("{instruction} in PTX {v}, recorded {version}: {got:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} wrong", wrong.join("\n"), wrong.len());
}

#[test]
fn a_refusal_names_instruction_target_and_remedy() {
    let text = module("wgmma.fence.sync.aligned;", "sm_80", "8.0");
    assert_eq!(
        parse(&text).unwrap_err().to_string(),
        "13:1: `wgmma.fence.sync.aligned` does not exist on sm_80, the module's target; the first target that has it is sm_90a"
    );
    let ctarank = refusal("mov.u32 %r0, %cluster_ctarank;", "sm_89", "8.0").unwrap();
    assert!(ctarank.starts_with("`%cluster_ctarank` does not exist on sm_89"), "{ctarank}");
    let clusters = module("", "sm_89", "8.0").replace("[128])", "[128])\n.reqnctapercluster 2, 1, 1");
    let clusters = parse(&clusters).unwrap_err().message;
    assert!(clusters.starts_with("`.reqnctapercluster` does not exist on sm_89"), "{clusters}");
}

#[test]
fn targets_and_versions_that_are_not_modelled() {
    let message = |head: &str| parse(&format!("{head}\n.visible .entry k()\n{{\nret;\n}}\n")).unwrap_err().to_string();
    for (head, wanted) in [
        (".version 5.0\n.target sm_60", "1:10: PTX 5.0 is not modelled; 6.0 and later is"),
        (".version 8.0\n.target sm_60", "2:9: the target `sm_60` is not modelled; sm_70, sm_75, sm_80, sm_86,"),
        (".version 7.0\n.target sm_90a", "2:9: sm_90a came with PTX 8.0; this module says `.version 7.0`"),
        (".version 8.0", "1:10: a module states its `.version` and its `.target`"),
        ("", "1:1: a module states"),
    ] {
        let got = message(head);
        assert!(got.starts_with(wanted), "wanted {wanted}\ngot    {got}");
    }
}

#[test]
fn a_launch_keeps_to_the_target() {
    let launch = |target: &str, version: &str, shared_bytes: u32, cluster: u32| {
        let text = format!(".version {version}\n.target {target}\n.visible .entry k()\n{{\nret;\n}}\n");
        let launch =
            Launch { grid: [cluster, 1, 1], cluster: [cluster, 1, 1], block: [32, 1, 1], shared_bytes, params: vec![] };
        simulate(&parse(&text).unwrap(), "k", &launch, &mut GlobalMemory::new(), &Options::default())
    };
    for (target, version, most) in
        [("sm_70", "6.0", 96), ("sm_75", "6.3", 64), ("sm_80", "7.0", 163), ("sm_86", "7.1", 99), ("sm_89", "7.8", 99)]
    {
        assert!(launch(target, version, most * 1024, 1).is_ok());
        let text = launch(target, version, most * 1024 + 16, 1).unwrap_err().to_string();
        assert!(text.contains(&format!("a block of {target} has {}", most * 1024)), "{text}");
        let text = launch(target, version, 0, 2).unwrap_err().to_string();
        assert!(text.contains("the first target that has them is sm_90"), "{text}");
    }
    assert!(launch("sm_90", "7.8", 227 * 1024, 2).is_ok());
    assert!(launch("sm_120", "8.7", 99 * 1024, 2).is_ok());
    let text = launch("sm_120", "8.7", 100 * 1024, 1).unwrap_err().to_string();
    assert!(text.contains("a block of sm_120 has 101376"), "{text}");
}

#[test]
fn static_shared_memory_ends_at_48_kilobytes() {
    let text = |bytes: u32| module(&format!(".shared .b8 more[{bytes}];"), "sm_90a", "8.0");
    assert!(parse(&text(49_152 - 1024)).is_ok());
    let message = parse(&text(49_153 - 1024)).unwrap_err().message;
    assert!(message.starts_with("shared arrays of stated length take 49153 bytes and may take 49152"), "{message}");
}

/// Holds the record against ptxas; without one it says so and passes.
#[test]
fn the_record_is_what_ptxas_takes() {
    let Some(ptxas) = std::env::var_os("PTXAS").map(PathBuf::from) else {
        let required = std::env::var_os("BSR_REQUIRE_PTXAS").is_some_and(|v| v == "1");
        assert!(!required, "BSR_REQUIRE_PTXAS=1: PTXAS does not say where ptxas is");
        eprintln!("SKIPPED: PTXAS does not say where ptxas is; the record was not compared");
        return;
    };
    let takes = |instruction: &str, target: &str, version: &str| {
        // Older devices are parsed only.
        let device = if target == "sm_70" { "sm_75" } else { target };
        let mut child = Command::new(&ptxas)
            .args(["--gpu-name", device, "--output-file", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(module(instruction, target, version).as_bytes()).unwrap();
        child.wait().unwrap().success()
    };
    let mut wrong = Vec::new();
    for (target, version, instruction) in record() {
        let first = TARGETS.iter().position(|t| *t == target).unwrap();
        let at = VERSIONS.iter().position(|v| *v == version).unwrap();
        let mut right = takes(instruction, target, version);
        right &= TARGETS[first..].iter().all(|later| takes(instruction, later, "9.0"));
        if first > 0 {
            right &= !takes(instruction, TARGETS[first - 1], "9.0");
        }
        if version > SINCE[first] {
            right &= !takes(instruction, target, VERSIONS[at - 1]);
        }
        if !right {
            wrong.push(format!("{target} {version} {instruction}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
