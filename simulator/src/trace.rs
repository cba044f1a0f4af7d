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

use serde_json::{Value, json};

use crate::program::op::{FloatFn, Op, Pure};
use crate::program::types::Space;

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

/// Cycles of the tensor core for the products of a warp-wide multiply of types of so many bits.
pub(crate) fn warp_multiply_cycles(products: u64, bits: u32) -> u64 {
    (products * u64::from(bits)).div_ceil(16 * WARP_PRODUCTS)
}

/// Cycles of a warp instruction beyond the first, waits not counted.
pub(crate) fn extra_cycles(op: &Op, lanes: u32) -> u64 {
    use FloatFn::{Cos, Div, Ex2, Lg2, Rcp, Rsqrt, Sin, Sqrt, Tanh};
    let moves = |space: Space, bytes: u64| {
        let rate = match space {
            Space::SharedCta | Space::SharedCluster => SHARED_BYTES,
            Space::Param => return 0,
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
        Op::Atom { ty, addr, .. } => moves(addr.space, by_lane(ty.bytes() as usize)),
        Op::Ldmatrix { d: regs, .. } | Op::Stmatrix { s: regs, .. } => moves(Space::SharedCta, 128 * regs.len() as u64),
        Op::WmmaLoad { matrix, addr, .. } | Op::WmmaStore { matrix, addr, .. } => {
            moves(addr.space, matrix.elements() as u64 * u64::from(matrix.ty.bytes()))
        }
        _ => 0,
    }
}

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
