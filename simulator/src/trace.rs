//! The trace of a run, and the cost model behind its times.
//!
//! The model is plainly approximate: a warp instruction takes one cycle, a copy lands [`COPY_LATENCY`] cycles after
//! its block's copy engine (64 bytes a cycle) has taken it, `wgmma` occupies its block's tensor core for the cycles
//! of the peak rate (N / 2 for m64nNk16 of 16-bit types), barriers cost nothing beyond waiting. Use
//! [`Schedule::Timed`](crate::Schedule::Timed) so that events are also ordered by it.

use serde_json::{Value, json};

/// Cycles from issue to landing of a copy that finds its engine free.
pub(crate) const COPY_LATENCY: u64 = 600;

/// A warp's wait of more cycles than this is an event of its track.
pub(crate) const WORTH_SHOWING: u64 = 4;

/// Collects the events of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    events: Vec<Value>,
}

impl Recorder {
    pub(crate) fn copy(&mut self, cta: u32, name: &str, from: u64, to: u64) {
        self.event(cta, "copies", name, from, to);
    }

    pub(crate) fn tensor(&mut self, cta: u32, group: u32, from: u64, to: u64) {
        self.event(cta, "tensor core", &format!("wgmma of warpgroup {group}"), from, to);
    }

    pub(crate) fn warp(&mut self, cta: u32, warp: u32, name: &str, from: u64, to: u64) {
        self.event(cta, &format!("warp {warp:02}"), name, from, to);
    }

    fn event(&mut self, cta: u32, track: &str, name: &str, from: u64, to: u64) {
        self.events.push(json!({
            "name": name, "ph": "X", "ts": from, "dur": to.saturating_sub(from).max(1), "pid": cta, "tid": track,
        }));
    }

    pub(crate) fn finish(self, cluster: u32) -> Vec<Value> {
        let mut events = self.events;
        for e in &mut events {
            let cta = e["pid"].as_u64().unwrap_or(0);
            e["pid"] = json!(format!("cluster {cluster} block {cta}"));
        }
        events
    }
}

/// The text of a Chrome / Perfetto trace (JSON); one microsecond stands for one cycle.
pub(crate) fn chrome(events: Vec<Value>) -> String {
    json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
}
