//! ptxas assembles every plan of the matrix for its target, without spills and without a performance diagnostic.
//!
//! The diagnostics that matter (`setmaxnreg` ignored, WGMMA serialized) are `info` lines beside exit status 0, so
//! the log is read line by line. Without ptxas the tests say SKIPPED on stderr and pass; with `BSR_REQUIRE_PTXAS=1`
//! they fail instead.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bsr_codegen::emit::fingerprint;
use bsr_codegen::probes::Probes;
use bsr_codegen::spec::Target;
use bsr_codegen::{Arch, KernelSpec, Plan, target_runs_on};

use crate::assembled::Group;
use crate::matrix;
use crate::matrix::epilogues;
use crate::rendered::fingerprint_of;

#[test]
fn every_plan_of_the_matrix_assembles_cleanly() {
    assemble_all(&matrix::plans(), "matrix");
}

/// Which CTAs record changes numbers alone.
const PROBES: Probes = Probes { first: 1, ctas: 3, records: 1 << 16 };

/// Kernels that have no register left for a probe: ptxas 13.0 keeps up to 4 bytes of a thread in memory. `bsr trace` says so
/// where it is.
const NO_REGISTER_LEFT: [&str; 6] = [
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted, epilogue = \"|bias: Cols<f32>, c: Dense<bf16>, \
     beta: f32| (gelu_erf(acc + bias) + beta * c, row_max(acc))\"",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted, split = auto",
    "bm = 128, bn = 256, bk = 128, batch = on, dtype = e4m3, accumulate = promoted",
    "bm = 128, bn = 256, bk = 128, batch = on, dtype = e4m3, accumulate = promoted, split = auto",
    "bm = 512, bn = 128, bk = 112, split = auto",
    "bm = 448, bn = 512, bk = 16, dtype = bf16, out = f32, c_layout = col, swizzle = 64",
];

/// Those of these plans that have roles and a register left, with probes.
fn probed(plans: impl Iterator<Item = Plan>) -> Vec<Plan> {
    let specs = NO_REGISTER_LEFT.map(|text| text.parse::<KernelSpec>().unwrap());
    let plans = plans.filter(|plan| !specs.contains(plan.spec()));
    plans.filter_map(|plan| plan.probed(PROBES).ok()).collect()
}

#[test]
fn probed_plans_assemble_cleanly() {
    // Neighbours in the matrix differ by one axis: every seventh has every value of all of them.
    assemble_all(&probed(matrix::plans().into_iter().step_by(7)), "probed");
}

/// Minutes long, as above.
#[test]
#[ignore = "hundreds of kernels"]
fn every_probed_plan_assembles_cleanly() {
    let plans = probed(matrix::plans().into_iter().chain(epilogues::plans()));
    if let Some(ptxas) = ptxas() {
        ptxas.assemble_plans(&plans.iter().collect::<Vec<_>>(), targets, "all-probed");
    }
}

/// Uniform registers are the scarce ones here: 63 of a warp, and ptxas prefers them.
#[test]
fn many_rows_swapped_with_a_divided_k_assemble_cleanly() {
    let rows = (72..=192).step_by(8);
    let types = ["dtype = bf16, split = 3", "out = f32, split = auto", "split = 2"];
    let specs =
        rows.enumerate().map(|(i, rows)| format!("bm = {rows}, bn = 256, bk = 112, swap = on, {}", types[i % 3]));
    let spilled = [
        "bm = 88, bn = 256, bk = 64, swap = on, split = 2",
        "bm = 136, bn = 256, bk = 112, dtype = bf16, swap = on, split = 3",
        "bm = 176, bn = 256, bk = 64, swap = on, split = 2",
    ];
    let plan = |text: String| Plan::new(&text.parse().unwrap()).unwrap();
    let plans: Vec<Plan> = specs.chain(spilled.map(str::to_owned)).map(plan).collect();
    assemble_all(&plans, "swap-ab-divided");
}

/// A stage gathers two blocks of 16 where four would spill.
#[test]
fn promoted_sums_of_short_blocks_assemble_cleanly() {
    let plan = |bm: u32, more: &str| {
        let text = format!("bm = {bm}, bn = 256, bk = 16, dtype = e4m3, accumulate = promoted{more}");
        Plan::new(&text.parse().unwrap())
    };
    let all = ["", ", pdl = on", ", stages = 2", ", cluster = 2"];
    let plans = [128, 256, 384, 512].iter().flat_map(|bm| all.map(|more| plan(*bm, more).unwrap()));
    assemble_all(&plans.collect::<Vec<_>>(), "promoted-short");
    let refused = plan(128, ", k_step = 64").unwrap_err().to_string();
    assert!(refused.contains("1 or 2 blocks") && refused.contains("k_step = 32"), "{refused}");
}

#[test]
fn every_epilogue_assembles_cleanly() {
    assemble_all(&epilogues::plans(), "epilogues");
}

/// Minutes long: `cargo test -p bsr-codegen --test kernels ptxas -- --ignored`.
#[test]
#[ignore = "thousands of kernels"]
fn every_size_type_and_layout_assembles_cleanly() {
    let mut plans = vec![];
    for (bm, bn, bk) in sizes() {
        for types in ["", ", dtype = bf16, out = f32"] {
            for layouts in ["", ", b_layout = col, c_layout = col"] {
                for knob in ["", ", cluster = 2"] {
                    let text = format!("bm = {bm}, bn = {bn}, bk = {bk}{types}{layouts}{knob}");
                    let spec: KernelSpec = text.parse().unwrap();
                    plans.extend(Plan::new(&spec));
                }
            }
        }
    }
    if let Some(ptxas) = ptxas() {
        ptxas.assemble_plans(&plans.iter().collect::<Vec<_>>(), targets, "everything");
    }
}

fn sizes() -> impl Iterator<Item = (u32, u32, u32)> {
    let bms = (1..=8).map(|i| i * 64);
    let bns = [16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 512];
    let bks = [16, 48, 64, 112, 240];
    bms.flat_map(move |bm| bns.into_iter().flat_map(move |bn| bks.map(|bk| (bm, bn, bk))))
}

/// Of kernels that ptxas has accepted before, one in so many is assembled again.
const SAMPLE: usize = 16;

/// ptxas accepts these plans for their own target and, since newer GPUs compile older kernels too, for Hopper: all of them,
/// unless they are recorded.
pub(crate) fn assemble_all(plans: &[Plan], name: &str) {
    assemble_all_for(plans, targets, name);
}

fn assemble_all_for(plans: &[Plan], targets: Targets, name: &str) {
    let Some(ptxas) = ptxas() else { return };
    let texts: Vec<_> = plans.iter().map(|plan| (targets(plan), fingerprint_of(plan))).collect();
    let texts = texts.iter().map(|(targets, fingerprint)| (targets.as_slice(), fingerprint.as_str()));
    let group = Group::of(name, &ptxas.version, texts);
    if group.is_recorded() {
        ptxas.assemble_plans(&plans.iter().step_by(SAMPLE).collect::<Vec<_>>(), targets, name);
    } else {
        ptxas.assemble_plans(&plans.iter().collect::<Vec<_>>(), targets, name);
        group.record();
    }
}

/// What a plan is assembled for.
type Targets = fn(&Plan) -> Vec<&'static str>;

/// Its own target, and Hopper.
fn targets(plan: &Plan) -> Vec<&'static str> {
    let own = known(plan.arch().target);
    all_targets(plan).into_iter().filter(|target| [own, Arch::SM_90A.target].contains(target)).collect()
}

/// Every GPU that runs it.
fn all_targets(plan: &Plan) -> Vec<&'static str> {
    let runs = |arch: &&Arch| target_runs_on(plan.arch().target, arch.compute_capability) == Some(true);
    let mut targets: Vec<_> = Target::ALL.map(Arch::of).iter().copied().filter(runs).map(|a| known(a.target)).collect();
    targets.dedup();
    targets
}

/// ptxas 13 no longer assembles for sm_70: such kernels go through it for the next architecture.
fn known(target: &'static str) -> &'static str {
    if target == Arch::SM_70.target { Arch::SM_75.target } else { target }
}

/// Kernels that GPUs other than Hopper run.
const OF_EVERY_GPU: [&str; 20] = [
    "bm = 128, bn = 128, bk = 128, mma = mma_sync",
    "bm = 512, bn = 128, bk = 112, mma = mma_sync, out = f32",
    "bm = 96, bn = 128, bk = 80, mma = mma_sync, dtype = bf16, c_layout = col",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = e4m3",
    "bm = 64, bn = 64, bk = 144, mma = mma_sync, a = e5m2, b = e4m3, out = e4m3",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = i8",
    "bm = 128, bn = 128, bk = 128, mma = wmma",
    "bm = 128, bn = 128, bk = 112, mma = wmma, dtype = bf16, b_layout = col",
    "bm = 8, bn = 32, bk = 16, mma = wmma, shape = m8n32k16",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, transpose = on",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, op = dds, split = auto",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, batch = on",
    "bm = 128, bn = 128, bk = 128, mma = wmma, transpose = on",
    "bm = 128, bn = 128, bk = 64, mma = wmma, op = dds, split = auto",
    "bm = 128, bn = 128, bk = 64, mma = wmma, batch = on",
    "bm = 48, bn = 256, bk = 112, mma = scalar, vector = 8",
    "bm = 64, bn = 64, bk = 32, mma = scalar, dtype = bf16",
    "bm = 64, bn = 64, bk = 32, mma = scalar, out = f32, accumulate = atomic",
    "bm = 3, bn = 4, bk = 3, mma = scalar, dtype = f64",
    "bm = 8, bn = 1, bk = 2, mma = scalar, a = bf16, b = f32, b_layout = col",
];

/// PTX for an architecture runs on every later one: ptxas accepts it there, too.
#[test]
fn every_architecture_assembles_what_is_planned_for_it_and_for_older_ones() {
    let plan = |text: &str, target: Target| {
        let spec: KernelSpec = format!("{text}, arch = {target}").parse().unwrap();
        Plan::new(&spec).ok().inspect(|plan| {
            let (target, version) = (plan.arch().target, ptx_version(plan));
            assert!(version >= ptx_number(plan.arch().ptx_version), "{spec}: {target} is not in PTX {version:?}");
        })
    };
    let of = |target| OF_EVERY_GPU.iter().filter_map(move |text| plan(text, target));
    for target in [Target::Sm89, Target::Sm120] {
        assert_eq!(of(target).count(), OF_EVERY_GPU.len(), "{target}");
    }
    assert_eq!(of(Target::Sm86).count(), OF_EVERY_GPU.len() - 2, "all but FP8");
    assemble_all_for(&Target::ALL.into_iter().flat_map(of).collect::<Vec<_>>(), all_targets, "every-gpu");
}

/// The `.version` of a kernel's text.
fn ptx_version(plan: &Plan) -> Vec<u32> {
    let ptx = plan.ptx();
    let versions = ptx.text().lines().filter_map(|line| line.strip_prefix(".version "));
    versions.map(ptx_number).next().unwrap()
}

fn ptx_number(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap()).collect()
}

#[test]
fn the_kernels_that_list_work_assemble_cleanly() {
    let Some(ptxas) = ptxas() else { return };
    assert_eq!(ptxas.assemble_for("sm_90", bsr_codegen::lists::ptx(), &folder("lists")), [""; 0]);
}

#[test]
fn the_kernels_that_measure_roofs_assemble_cleanly() {
    let Some(ptxas) = ptxas() else { return };
    for kernel in bsr_codegen::roofs::RoofKernel::ALL {
        let complaints = ptxas.assemble_for(known(kernel.arch().target), &kernel.ptx(), &folder("roofs"));
        assert_eq!(complaints, [""; 0], "{kernel:?}");
    }
}

#[test]
fn the_kernels_of_solvers_assemble_cleanly() {
    let Some(ptxas) = ptxas() else { return };
    let targets = ["sm_90"];
    let modules: Vec<_> = crate::rendering::solvers().map(|module| (module.ptx(), module)).collect();
    let fingerprints: Vec<String> = modules.iter().map(|(text, _)| fingerprint(text)).collect();
    let texts = fingerprints.iter().map(|fingerprint| (&targets[..], fingerprint.as_str()));
    let group = Group::of("solvers", &ptxas.version, texts);
    let is_recorded = group.is_recorded();
    for (text, module) in modules.iter().step_by(if is_recorded { SAMPLE } else { 1 }) {
        assert_eq!(ptxas.assemble_for(targets[0], text, &folder("solver")), [""; 0], "{module:?}");
    }
    if !is_recorded {
        group.record();
    }
}

/// The net holds: kernels spoilt in the ways that cost speed in silence are caught.
#[test]
fn spoilt_kernels_are_caught() {
    let Some(ptxas) = ptxas() else { return };
    let spec: KernelSpec = "bm = 128, bn = 128, bk = 64".parse().unwrap();
    let plan = Plan::new(&spec).unwrap();
    let text = plan.ptx().text().to_owned();
    let folder = folder("spoilt");
    assert_eq!(ptxas.assemble(&plan, &text, &folder), [""; 0]);

    let without = |word: &str| -> String {
        let kept = text.lines().filter(|line| !line.contains(word));
        kept.flat_map(|line| [line, "\n"]).collect()
    };
    for (spoilt, sign) in [
        (without(".maxntid"), "C7508"),
        (without("wgmma.fence"), "C75"),
        (text.replace("{\n", ".maxnreg 40\n{\n"), "C7"),
        (text.replace("    ret;", "    rot;"), "exit status"),
    ] {
        assert_ne!(spoilt, text, "{sign}: nothing to spoil");
        let complaints = ptxas.assemble(&plan, &spoilt, &folder).join("\n");
        assert!(complaints.contains(sign), "{sign} is not in: {complaints}");
    }
}

#[test]
fn logs_are_read_to_the_letter() {
    let clean = "ptxas info    : 0 bytes gmem\n\
        ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
        ptxas info    : Function properties for k\n    \
        0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 168 registers, used 16 barriers\n\
        ptxas info    : Compile time = 520.505 ms\n";
    assert_eq!(complaints(clean), [""; 0]);
    assert_eq!(complaints(""), ["the log does not say that nothing was spilled"]);
    for (from, to) in [
        ("0 bytes spill stores", "8 bytes spill stores"),
        ("0 bytes stack frame", "16 bytes stack frame"),
        ("ptxas info    : 0 bytes gmem", "ptxas warning : something"),
        (
            "ptxas info    : 0 bytes gmem",
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
        ),
        ("ptxas info    : 0 bytes gmem", "ptxas info    : (C7602) Register cap too low"),
    ] {
        let log = clean.replace(from, to);
        assert_ne!(complaints(&log), [""; 0], "{to}");
    }
}

struct Ptxas {
    path: PathBuf,
    version: String,
}

/// The assembler: `$PTXAS`, else `ptxas` of the path, else that of `$CUDA_HOME` or `$CUDA_PATH`.
fn ptxas() -> Option<Ptxas> {
    let named = std::env::var_os("PTXAS").map(PathBuf::from);
    let homes = ["CUDA_HOME", "CUDA_PATH"].map(std::env::var_os);
    let homes = homes.into_iter().flatten().map(|home| Path::new(&home).join("bin/ptxas"));
    let candidates = match named {
        Some(path) => vec![path],
        None => std::iter::once(PathBuf::from("ptxas")).chain(homes).collect(),
    };
    for path in candidates {
        if let Ok(output) = Command::new(&path).arg("--version").output()
            && output.status.success()
        {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let release = text.lines().find(|line| line.contains("release"));
            let version = format!("ptxas {}", release.unwrap_or("of unknown release"));
            return Some(Ptxas { path, version });
        }
    }
    let missing = "ptxas not found, nothing was assembled; set PTXAS, or put ptxas on the PATH or into CUDA_HOME";
    assert!(
        std::env::var_os("BSR_REQUIRE_PTXAS").as_deref() != Some(OsStr::new("1")),
        "BSR_REQUIRE_PTXAS=1: {missing}"
    );
    tell(&format!("SKIPPED: {missing}"));
    None
}

impl Ptxas {
    /// Assembles these plans on all cores and panics where one is not clean.
    fn assemble_plans(&self, plans: &[&Plan], targets: Targets, name: &str) {
        let (next, bad) = (AtomicUsize::new(0), Mutex::new(vec![]));
        let work = |folder: &Path| {
            while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                for target in targets(plan) {
                    let complaints = self.assemble_for(target, plan.ptx().text(), folder);
                    if !complaints.is_empty() {
                        let (spec, lines) = (plan.spec(), complaints.join("\n    "));
                        bad.lock().unwrap().push(format!("{spec} for {target}\n    {lines}"));
                    }
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (folder, work) = (folder(&format!("{name}-{thread}")), &work);
                scope.spawn(move || work(&folder));
            }
        });
        let mut bad = bad.into_inner().unwrap();
        bad.sort();
        tell(&format!("{}: {} plans assembled, {} of them badly", self.version, plans.len(), bad.len()));
        assert!(bad.is_empty(), "{}", bad.join("\n"));
    }

    /// Assembles `text` and returns what is wrong with the outcome.
    fn assemble(&self, plan: &Plan, text: &str, folder: &Path) -> Vec<String> {
        self.assemble_for(plan.arch().target, text, folder)
    }

    fn assemble_for(&self, target: &str, text: &str, folder: &Path) -> Vec<String> {
        let (source, image) = (folder.join("kernel.ptx"), folder.join("kernel.cubin"));
        std::fs::write(&source, text).unwrap();
        let output =
            Command::new(&self.path).args(["-v", "-arch", target, "-o"]).args([&image, &source]).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return vec![format!("{}: {log}", output.status)];
        }
        complaints(&log)
    }
}

/// The lines of a log of `ptxas -v` that a clean kernel does not have.
fn complaints(log: &str) -> Vec<String> {
    let mut spills_known = false;
    let mut complaints = vec![];
    for line in log.lines().map(str::trim) {
        let numbered =
            line.match_indices("(C7").any(|(at, _)| line[at + 3..].starts_with(|c: char| c.is_ascii_digit()));
        let spills = line.contains("bytes spill stores");
        spills_known |= spills;
        let clean = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        let noise = ["warning", "error", "serialized", "Performance Loss"];
        if numbered || spills && line != clean || noise.iter().any(|word| line.contains(word)) {
            complaints.push(line.to_owned());
        }
    }
    if !spills_known {
        complaints.push("the log does not say that nothing was spilled".to_owned());
    }
    complaints
}

/// A folder of its own under the target directory.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptxas").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Says so past the test harness, which keeps what is printed by tests that pass.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
