//! The trace of a run, and the cost model behind its times.
//!
//! The model is plainly approximate:
//!
//! * A warp instruction takes one cycle; a conversion 2, a division or special function [`SPECIAL_CYCLES`].
//! * A warp's load or store takes a cycle for each [`SHARED_BYTES`] of shared and [`GLOBAL_BYTES`] of global memory.
//!   Latencies of loads and conflicts of banks are not modelled.
//! * A copy lands [`COPY_LATENCY`] cycles after its block's copy engine ([`GLOBAL_BYTES`] a cycle) has taken it.
//! * `wgmma` occupies its block's tensor core for the cycles of the peak rate (N / 2 for m64nNk16 of 16-bit types),
//!   `mma.sync` and `wmma` for twice as long: [`WARP_PRODUCTS`] 16-bit products a cycle, 8-bit ones twice as many.
//!   A warp that finds it busy waits.
//! * Barriers cost nothing beyond waiting.
//!
//! Use [`Schedule::Timed`](crate::Schedule::Timed) so that events are also ordered by it.
//!
//! A trace's times are these cycles. The format knows microseconds only: a viewer shows a cycle as one microsecond, the
//! names of the processes say so, and every event has its cycles as arguments.

use serde_json::{Value, json};

use crate::program::op::{FloatFn, Op, Pure};
use crate::program::types::Space;

/// What a run cost, in the units of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Warp instructions executed.
    pub steps: u64,
    /// Multiplications and additions: the tensor core's, and those of `fma`.
    pub flops: u64,
    /// Cycles the tensor cores were busy, over all blocks.
    pub tensor_cycles: u64,
    /// Bytes moved by asynchronous copies.
    pub bytes_copied: u64,
    /// Cycles of the longest-running cluster; approximate, see the trace's cost model.
    pub cycles: u64,
}

/// Cycles from issue to landing of a copy that finds its engine free.
pub(crate) const COPY_LATENCY: u64 = 600;

/// Bytes of global memory a block moves in a cycle.
pub(crate) const GLOBAL_BYTES: u64 = 64;

/// Bytes of shared memory a block moves in a cycle.
const SHARED_BYTES: u64 = 128;

/// Cycles of a division or special function of a warp.
const SPECIAL_CYCLES: u64 = 8;

/// 16-bit products that a block's tensor core does in a cycle for warp-wide instructions.
const WARP_PRODUCTS: u64 = 1024;

/// Products of f64 a cycle: an eighth (67 of 495 TFLOP/s, an H100's data sheet).
const DOUBLE_PRODUCTS: u64 = WARP_PRODUCTS / 8;

/// Cycles of the tensor core for the products of a warp-wide multiply of types of so many bits.
pub(crate) fn warp_multiply_cycles(products: u64, bits: u32) -> u64 {
    if bits == 64 {
        return products.div_ceil(DOUBLE_PRODUCTS);
    }
    (products * u64::from(bits)).div_ceil(16 * WARP_PRODUCTS)
}

/// Cycles of a warp instruction beyond the first, waits not counted.
pub(crate) fn extra_cycles(op: &Op, lanes: u32) -> u64 {
    use FloatFn::{Cos, Div, Ex2, Lg2, Rcp, Rsqrt, Sin, Sqrt, Tanh};
    let moves = |space: Space, bytes: u64| {
        let rate = match space {
            Space::SharedCta | Space::SharedCluster => SHARED_BYTES,
            Space::Param | Space::Local => return 0,
            Space::Global | Space::Generic => GLOBAL_BYTES,
        };
        bytes.div_ceil(rate).saturating_sub(1)
    };
    let by_lane = |bytes: usize| bytes as u64 * u64::from(lanes);
    match op {
        Op::Pure { f: Pure::Cvt(_), .. } => 1,
        Op::Pure { f: Pure::Float(Div | Rcp | Sqrt | Rsqrt | Ex2 | Lg2 | Sin | Cos | Tanh, ..), .. } => {
            SPECIAL_CYCLES - 1
        }
        Op::Ld { ty, d, addr, .. } => moves(addr.space, by_lane(ty.bytes() as usize * d.len())),
        Op::St { ty, s, addr, .. } => moves(addr.space, by_lane(ty.bytes() as usize * s.len())),
        Op::RedVector { ty, b, .. } => moves(Space::Global, by_lane(ty.bytes() as usize * b.len())),
        Op::Atom { ty, addr, .. } => moves(addr.space, by_lane(ty.bytes() as usize)),
        Op::Ldmatrix { d: regs, .. } | Op::Stmatrix { s: regs, .. } => moves(Space::SharedCta, 128 * regs.len() as u64),
        Op::WmmaLoad { matrix, addr, .. } | Op::WmmaStore { matrix, addr, .. } => {
            moves(addr.space, matrix.elements() as u64 * u64::from(matrix.ty.bytes()))
        }
        _ => 0,
    }
}

/// A warp's wait of more cycles than this is an event of its track.
pub(crate) const SHORTEST_SHOWN_WAIT: u64 = 4;

/// What the viewer's times are. The format has microseconds only, so a cycle is written as one.
const UNIT: &str = "1 us = 1 simulated cycle";

/// Thread numbers of one CTA: no two CTAs share one.
const TRACKS: u64 = 1 << 16;

/// What a track shows, in the order of the tracks of a CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    /// The life of a warp, and in it the instructions at which it waits.
    Warp(u32),
    /// The tensor core.
    Tensor,
    /// Asynchronous copies.
    Copies,
}

impl Unit {
    fn name(self, lane: usize) -> String {
        match self {
            Self::Warp(warp) => format!("warp {warp:02}"),
            Self::Tensor if lane == 0 => "tensor core".to_owned(),
            Self::Tensor => format!("tensor core, lane {lane}"),
            Self::Copies => format!("copies, lane {lane:02}"),
        }
    }

    /// Whether what it does may overlap in time without one event lying inside the other.
    fn overlaps(self) -> bool {
        !matches!(self, Self::Warp(_))
    }
}

/// Something that a unit of a CTA does, from one cycle to another.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    cluster: u32,
    cta: u32,
    unit: Unit,
    name: String,
    from: u64,
    to: u64,
}

/// Collects the events of one cluster.
#[derive(Debug)]
pub(crate) struct Recorder {
    cluster: u32,
    events: Vec<Event>,
}

impl Recorder {
    pub(crate) fn new(cluster: u32) -> Self {
        Self { cluster, events: Vec::new() }
    }

    pub(crate) fn copy(&mut self, cta: u32, name: String, from: u64, to: u64) {
        self.event(cta, Unit::Copies, name, from, to);
    }

    pub(crate) fn tensor(&mut self, cta: u32, group: u32, from: u64, to: u64) {
        self.event(cta, Unit::Tensor, format!("wgmma of warpgroup {group}"), from, to);
    }

    /// A warp waits.
    pub(crate) fn wait(&mut self, cta: u32, warp: u32, name: String, from: u64, to: u64) {
        self.event(cta, Unit::Warp(warp), name, from, to);
    }

    /// A warp has come to its end after so many cycles.
    pub(crate) fn life(&mut self, cta: u32, warp: u32, cycles: u64) {
        self.event(cta, Unit::Warp(warp), "runs".to_owned(), 0, cycles);
    }

    fn event(&mut self, cta: u32, unit: Unit, name: String, from: u64, to: u64) {
        self.events.push(Event { cluster: self.cluster, cta, unit, name, from, to: to.max(from + 1) });
    }

    pub(crate) fn finish(self) -> Vec<Event> {
        self.events
    }
}

/// The lanes of events that overlap, by the time at which each is free again.
#[derive(Default)]
struct Lanes(Vec<u64>);

impl Lanes {
    /// The first lane that is free, which is taken until `to`. Events come in the order of their beginnings.
    fn take(&mut self, from: u64, to: u64) -> usize {
        let free = self.0.iter().position(|until| *until <= from).unwrap_or(self.0.len());
        match self.0.get_mut(free) {
            Some(until) => *until = to,
            None => self.0.push(to),
        }
        free
    }
}

/// The text of a Chrome / Perfetto trace (JSON): a process for each CTA, a thread for each track.
///
/// Viewers require that of two slices on one track one is inside the other or they do not overlap; Perfetto drops a slice
/// that breaks the rule. A warp's waits are inside its life; copies in flight, which overlap, are spread over lanes.
pub(crate) fn chrome(mut events: Vec<Event>) -> String {
    // On a track the longer of two that begin together contains the other.
    events.sort_by(|a, b| {
        let key = |e: &Event| (e.cluster, e.cta, e.unit, e.from, std::cmp::Reverse(e.to));
        key(a).cmp(&key(b))
    });
    let mut written = Vec::with_capacity(events.len());
    let mut pid = 0;
    for cta in events.chunk_by(|a, b| (a.cluster, a.cta) == (b.cluster, b.cta)) {
        pid += 1;
        let process = format!("cluster {} CTA {} ({UNIT})", cta[0].cluster, cta[0].cta);
        written.push(json!({ "name": "process_name", "ph": "M", "pid": pid, "args": { "name": process } }));
        let mut first = pid * TRACKS;
        for unit in cta.chunk_by(|a, b| a.unit == b.unit) {
            first += tracks(unit, pid, first, &mut written);
        }
    }
    json!({
        "traceEvents": written,
        "displayTimeUnit": "ms",
        "otherData": { "times": format!("{UNIT} of the simulator's cost model, which measures no GPU") },
    })
    .to_string()
}

/// Writes the events of one unit, on as many tracks as it takes; how many that are.
fn tracks(events: &[Event], pid: u64, first: u64, written: &mut Vec<Value>) -> u64 {
    let mut lanes = Lanes::default();
    for Event { unit, name, from, to, .. } in events {
        let lane = if unit.overlaps() { lanes.take(*from, *to) as u64 } else { 0 };
        let cycles = to - from;
        written.push(json!({
            "name": name, "ph": "X", "ts": from, "dur": cycles, "pid": pid, "tid": first + lane,
            "args": { "from cycle": from, "to cycle": to, "cycles": cycles },
        }));
    }
    let count = lanes.0.len().max(1);
    for lane in 0..count {
        let (tid, name) = (first + lane as u64, events[0].unit.name(lane));
        written.push(json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": { "name": name } }));
        let order = json!({ "sort_index": tid });
        written.push(json!({ "name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": order }));
    }
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_in_flight_take_lanes_and_leave_them_to_others() {
        let mut recorder = Recorder::new(3);
        for (from, to) in [(0, 10), (4, 6), (5, 9), (6, 8), (10, 10)] {
            recorder.copy(0, "copy".to_owned(), from, to);
        }
        let trace: Value = serde_json::from_str(&chrome(recorder.finish())).unwrap_or_default();
        let events = trace["traceEvents"].as_array().cloned().unwrap_or_default();
        let of = |ph: &str| events.iter().filter(|e| e["ph"] == ph).cloned().collect::<Vec<_>>();
        let placed: Vec<_> = of("X").iter().map(|e| (e["ts"].as_u64(), e["dur"].as_u64(), e["tid"].as_u64())).collect();
        let tid = |lane: u64| Some(TRACKS + lane);
        let some = |ts, dur, lane| (Some(ts), Some(dur), tid(lane));
        assert_eq!(placed, [some(0, 10, 0), some(4, 2, 1), some(5, 4, 2), some(6, 2, 1), some(10, 1, 0)]);
        let names: Vec<_> = of("M").iter().filter_map(|e| e["args"]["name"].as_str().map(str::to_owned)).collect();
        assert_eq!(names[0], "cluster 3 CTA 0 (1 us = 1 simulated cycle)");
        assert_eq!(names[1..], ["copies, lane 00", "copies, lane 01", "copies, lane 02"]);
    }
}
