//! Numbers and problems in words, the same on the page and in a terminal.

use crate::{DeviceId, DeviceKind, Record, TuningProblem};

/// Three significant digits of a time or a rate: `1285`, `618`, `61.8`, `6.18`.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A ratio: `0.960`.
pub(super) fn ratio(value: f64) -> String {
    format!("{value:.3}")
}

/// How much faster: `1.6x`.
pub(super) fn times(value: f64) -> String {
    if value < 1.095 { format!("{value:.2}x") } else { format!("{value:.1}x") }
}

/// The product in a line: `8192 x 8192 x 8288, 512 x 112, topk:16`.
pub(super) fn product(problem: &TuningProblem) -> String {
    let workload = &problem.workload;
    let (bm, bk) = workload.facts.block();
    format!("{} x {} x {}, {bm} x {bk}, {}", workload.m, workload.n, workload.k, workload.source)
}

/// What of the product the line does not tell: `bf16, op = dds`; nothing of the usual f16.
pub(super) fn particulars(problem: &TuningProblem) -> String {
    let facts = problem.workload.facts.to_string();
    let beyond_block = facts.split_once(", bk = ").and_then(|(_, rest)| rest.split_once(", "));
    beyond_block.map_or(String::new(), |(_, rest)| rest.to_owned())
}

/// The product in a line with its particulars.
pub(super) fn product_in_full(problem: &TuningProblem) -> String {
    let more = particulars(problem);
    if more.is_empty() { product(problem) } else { format!("{}; {more}", product(problem)) }
}

/// How the GPU ran while a kernel was timed, and its cycles: `688 of 700 W, SM clock 1485 MHz (1410 to 1755), 564 thousand
/// cycles`.
pub(super) fn power(record: &Record) -> Option<String> {
    let power = record.power.as_ref()?.words();
    let cycles = record.kilocycles().map(|thousands| format!("{} thousand cycles", number(thousands)));
    Some([power].into_iter().chain(cycles).collect::<Vec<_>>().join(", "))
}

/// What a kind of device is, for a heading.
pub(super) fn kind(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Gpu => "measured on a GPU",
        DeviceKind::Sim => "a model, not measured",
        DeviceKind::Fake => "made up, not measured",
    }
}

/// The head of a column of times.
pub(super) fn microseconds(kind: DeviceKind) -> &'static str {
    if kind == DeviceKind::Sim { "predicted us" } else { "us" }
}

/// What a reader must not take for a measurement; nothing of a GPU.
pub(super) fn warning(kind: DeviceKind) -> Option<&'static str> {
    match kind {
        DeviceKind::Gpu => None,
        DeviceKind::Sim => Some(
            "MODEL: these times were predicted by the analytic model, and no GPU took them. They order kernels and do not \
             measure them; they are never beside times of a GPU.",
        ),
        DeviceKind::Fake => Some(
            "MADE UP: these times are a test's. They say nothing of any kernel, and are never beside times of a GPU.",
        ),
    }
}

/// `NVIDIA H200, driver 580.159.03 (CUDA 13.0)`; of a model its version.
pub(super) fn device(device: &DeviceId) -> String {
    let what = if device.kind == DeviceKind::Gpu { "driver" } else { "version" };
    format!("{}, {what} {}", device.name, device.driver)
}
