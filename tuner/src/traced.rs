//! What a trace is of: `bsr trace` writes it into the file, and the report finds the kernel's record by it.

use bsr_codegen::Refusal;
use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::timeline::{Trace, lacks};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DeviceId, DeviceKind, Record, Workload};

/// Where it stands in a trace's `otherData`.
const KEY: &str = "of";

/// What a kernel was traced on, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceOf {
    /// What was computed.
    pub workload: Workload,
    /// On what: a GPU, or the simulator.
    pub device: DeviceId,
    /// Version of this project.
    pub version: String,
    /// When.
    pub at: Timestamp,
    /// The kernel's times beside those of the same with probes; none of the simulator.
    pub times: Option<TracedTimes>,
}

/// Medians from a cold L2 cache, in microseconds, of launches in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedTimes {
    /// Without probes.
    pub plain_us: f64,
    /// With them.
    pub probed_us: f64,
}

impl TracedTimes {
    /// `384.9 us with probes, 380.1 us without, medians from a cold L2 cache: +1.3 %`.
    pub fn words(&self) -> String {
        let Self { plain_us, probed_us } = self;
        let more = 100.0 * (probed_us / plain_us - 1.0);
        format!("{probed_us:.1} us with probes, {plain_us:.1} us without, medians from a cold L2 cache: {more:+.1} %")
    }
}

impl TraceOf {
    /// Of a trace that was taken now.
    pub fn now(workload: Workload, device: DeviceId, times: Option<TracedTimes>) -> Self {
        Self { workload, device, version: env!("CARGO_PKG_VERSION").to_owned(), at: Timestamp::now(), times }
    }

    /// Writes it into a trace.
    pub fn write(&self, trace: &mut Value) {
        // Numbers and text: there is nothing in it that JSON lacks.
        trace["otherData"][KEY] = serde_json::to_value(self).unwrap_or_default();
    }

    /// Reads it; none of a trace that an earlier version wrote.
    pub fn read(trace: &Value) -> Option<Self> {
        Self::checked(trace).ok().flatten()
    }

    /// As [`read`](Self::read), with why it cannot be read.
    ///
    /// # Errors
    /// A trace that says of what it is, in a way that no version writes.
    pub fn checked(trace: &Value) -> Result<Option<Self>, Refusal> {
        match &trace["otherData"][KEY] {
            Value::Null => Ok(None),
            of => Self::deserialize(of).map(Some).map_err(lacks),
        }
    }

    /// Where and when: `NVIDIA H200, driver 580.159.03 (CUDA 13.0), 2026-11-23 05:20 UTC; 384.9 us with probes, ..`.
    pub fn words(&self) -> String {
        let DeviceId { kind, name, driver } = &self.device;
        let at = self.at.strftime("%Y-%m-%d %H:%M UTC");
        let times = self.times.map(|times| format!("; {}", times.words())).unwrap_or_default();
        match kind {
            DeviceKind::Gpu => format!("{name}, driver {driver}, {at}{times}"),
            DeviceKind::Sim | DeviceKind::Fake => format!("{name}, version {driver}, {at}: no time of a GPU"),
        }
    }
}

/// A trace with what it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// What it is of.
    pub of: TraceOf,
    /// What the kernel's roles did.
    pub trace: Trace,
}

impl Traced {
    /// Reads a file's JSON.
    ///
    /// # Errors
    /// JSON that is no trace of a kernel's roles, or does not say of what.
    pub fn read(trace: &Value) -> Result<Self, Refusal> {
        let read = Trace::read(trace)?;
        let of = TraceOf::checked(trace)?;
        let of = of.ok_or_else(|| lacks("it does not say of which problem and device"))?;
        Ok(Self { of, trace: read })
    }

    /// Whether it is of the kernel of a record, on its problem and a device of its name. A driver may have been another.
    pub fn is_of(&self, record: &Record) -> bool {
        let TraceOf { workload, device, .. } = &self.of;
        // Kernels last: they may have to be planned.
        *workload == record.problem.workload
            && device.kind == record.device.kind
            && (device.kind != DeviceKind::Gpu || device.name == record.device.name)
            && is_same_kernel(&self.trace.spec, &record.subject)
    }
}

/// Whether two specs are of one kernel: a text that a report shows leaves out what the plan chooses by itself.
fn is_same_kernel(one: &str, other: &str) -> bool {
    let digest = |text: &str| {
        let spec = text.parse::<KernelSpec>().ok()?;
        Plan::new(&spec).ok().map(|plan| plan.digest())
    };
    one == other || digest(one).is_some_and(|one| digest(other) == Some(one))
}
