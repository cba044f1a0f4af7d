//! The roofs of a GPU: measured by `bsr doctor --roofs`, and what results are held against.

use std::io::Write;

use bsr::Refusal;
use bsr::bench::{Effort, measure_roofs};
use bsr::gpu::Device;
use bsr::roofs::{self, Limit, MeasuredRoofs, Origin, Roofs, TensorRoof};
use bsr_trial::subject::Subject;
use bsr_tuner::{TuningProblem, model};
use comfy_table::Table;

use super::exit::Failure;
use super::line;
use super::progress::Progress;
use super::spec::Planned;
use super::table::markdown;

/// Those that are known of a GPU.
pub(super) fn of(device: &Device) -> Roofs {
    Roofs::of(&device.info().name, &device.info().driver())
}

/// All that were measured on this machine, or why they cannot be read.
pub(super) fn remembered() -> Result<Vec<MeasuredRoofs>, Refusal> {
    roofs::place_of_file().map_or(Ok(vec![]), |path| roofs::read(&path))
}

/// What to know of roofs that were not measured.
pub(super) fn note(roofs: &Roofs) -> Option<String> {
    let is_measured = roofs.hbm_read.is_some_and(|rate| rate.origin == Origin::Measured);
    let gpu = &roofs.gpu;
    match (is_measured, roofs.is_unknown()) {
        (true, _) => None,
        (false, true) => Some(format!("no roofs are known of {gpu}: `bsr doctor --roofs` measures them")),
        (false, false) => Some(format!(
            "the roofs of {gpu} were not measured: those of its data sheet stand in, and `bsr doctor --roofs` measures them"
        )),
    }
}

/// What limits a kernel that took so long; none where no roof is known.
///
/// # Errors
/// A problem that does not exist in the kernel's blocks.
pub(super) fn limit(
    planned: &Planned,
    subject: &dyn Subject,
    us: f64,
    roofs: &Roofs,
) -> Result<Option<Limit>, Failure> {
    let structure = subject.about(planned.spec())?.structure;
    let problem = TuningProblem::new(subject.workload(planned.spec()), &structure);
    let (card, _) = model::for_gpu(&roofs.gpu, None);
    let traffic = model::traffic(&planned.plan, &problem, Some(&structure), &card);
    Ok(Limit::new(traffic, us, roofs))
}

/// Measures the roofs of a GPU, prints them beside those of its data sheet, and remembers them.
///
/// # Errors
/// Those of the device; a file that cannot be written.
pub(super) fn measure(device: &Device, out: &mut dyn Write) -> Result<(), Failure> {
    let progress = Progress::new();
    let measured = measure_roofs(device, Effort::Thorough, &mut |what| progress.step(format!("measuring {what}")))?;
    progress.done();
    writeln!(out, "\n{}", table(&measured))?;
    let no_place =
        || Refusal::new("there is no place for measured roofs: neither XDG_DATA_HOME nor HOME is set").help("set HOME");
    let path = roofs::place_of_file().ok_or_else(no_place)?;
    roofs::remember(&path, measured)?;
    writeln!(out)?;
    line(out, "roofs", format_args!("remembered in {}", path.display()))?;
    Ok(())
}

/// A row each: what, measured, by the data sheet, and under what.
fn table(measured: &MeasuredRoofs) -> Table {
    let sheet = roofs::Sheet::of(&measured.gpu);
    let rate = |value: f64, unit: &str| format!("{value:.2} {unit}");
    let dash = || "-".to_owned();
    let memory = sheet.map_or_else(dash, |sheet| rate(sheet.hbm_tbs, "TB/s"));
    let mut rows = vec![
        ["device memory, read".to_owned(), rate(measured.hbm_read_tbs, "TB/s"), memory.clone(), String::new()],
        ["device memory, copy".to_owned(), rate(measured.hbm_copy_tbs, "TB/s"), memory, "read and written".to_owned()],
    ];
    rows.extend(measured.l2_tbs.map(|tbs| {
        ["L2 to shared memory".to_owned(), rate(tbs, "TB/s"), dash(), "bulk copies of 16 KiB out of 16 MiB".to_owned()]
    }));
    for TensorRoof { dtype, tflops, sm_mhz, watts } in &measured.tensor {
        let unit = if *dtype == bsr::Dtype::I8 { "TOP/s" } else { "TFLOP/s" };
        let listed = sheet.and_then(|sheet| sheet.rate(*dtype));
        let under = [sm_mhz.map(|mhz| format!("{mhz} MHz")), watts.map(|watts| format!("{watts:.0} W"))];
        let under: Vec<String> = under.into_iter().flatten().collect();
        rows.push([
            format!("tensor cores, {dtype}"),
            format!("{tflops:.0} {unit}"),
            listed.map_or_else(dash, |listed| format!("{listed:.0} {unit}")),
            under.join(", "),
        ]);
    }
    let launch = measured.launch;
    for (what, us) in [
        ("one launch", launch.single_us),
        ("a launch in a stream", launch.stream_us),
        ("a launch in a graph", launch.graph_us),
    ] {
        rows.push([what.to_owned(), rate(us, "us"), dash(), "of a kernel that does nothing".to_owned()]);
    }
    let mut table = markdown(["roof", "measured", "data sheet", "under"], &["roof", "under"]);
    table.add_rows(rows);
    table
}

#[cfg(test)]
mod tests {
    use bsr::roofs::LaunchRoof;

    use super::*;

    #[test]
    fn measured_roofs_stand_beside_those_of_the_data_sheet() {
        let measured = MeasuredRoofs {
            gpu: "NVIDIA H200".to_owned(),
            driver: String::new(),
            version: String::new(),
            at: 0,
            hbm_read_tbs: 4.5,
            hbm_copy_tbs: 4.25,
            l2_tbs: Some(9.0),
            tensor: vec![TensorRoof { dtype: bsr::Dtype::F16, tflops: 700.0, sm_mhz: Some(1500), watts: Some(690.0) }],
            launch: LaunchRoof { single_us: 5.0, stream_us: 3.25, graph_us: 2.0 },
        };
        let text = table(&measured).to_string();
        for words in ["4.50 TB/s", "4.80 TB/s", "9.00 TB/s", "700 TFLOP/s", "990 TFLOP/s", "1500 MHz, 690 W", "3.25 us"]
        {
            assert!(text.contains(words), "{words}:\n{text}");
        }
    }

    #[test]
    fn roofs_that_were_not_measured_are_told_of() {
        let of = |gpu: &str| note(&Roofs::new(gpu, None)).unwrap_or_default();
        assert!(of("NVIDIA H200").contains("data sheet") && of("NVIDIA H200").contains("bsr doctor --roofs"));
        assert!(of("NVIDIA H20000").starts_with("no roofs are known"));
    }
}
