//! A timeline as a Chrome / Perfetto trace: a process for each CTA, a thread for each role.
//!
//! Viewers ask that of two slices on one track one lies inside the other or they do not meet. The slices of a role follow each
//! other without gaps, and those of a tile lie inside the tile.

use std::collections::BTreeSet;

use bsr_codegen::probes::{Group, Kind};
use serde_json::{Value, json};

use super::decode::{Clock, Cta, Slice, Timeline, Track};
use super::flows::flows;

/// What the viewer's times are, of the simulator. The format has microseconds only, so a cycle is written as one.
pub(super) const SIMULATED: &str = "1 us = 1 simulated cycle";
/// Thread numbers of one CTA: no two CTAs share one.
pub(super) const TRACKS: u64 = 1 << 16;
/// The category of a tile.
pub(super) const TILE: &str = "tile";
/// Names of the viewers' colours for tiles, in turn.
const TILE_COLOURS: [&str; 4] = ["rail_response", "rail_animation", "rail_idle", "rail_load"];

/// From cycles to nanoseconds of the trace.
struct Scale {
    /// The cycle at which the trace's time is `offset`, and nanoseconds a cycle.
    offset: f64,
    rate: f64,
}

impl Scale {
    /// Nanoseconds of the trace.
    fn ns(&self, cycle: u64) -> u64 {
        (cycle as f64).mul_add(self.rate, self.offset).round().max(0.0) as u64
    }
}

impl Timeline {
    /// The trace, for ui.perfetto.dev or chrome://tracing. Times are microseconds of the GPU, or the simulator's cycles, each
    /// shown as one; every slice has its cycles as arguments.
    pub fn perfetto(&self) -> Value {
        let scales = self.scales();
        let mut events = vec![];
        let mut tracks = vec![];
        let mut flow = 0u64;
        for ((cta, scale), pid) in self.ctas.iter().zip(&scales).zip(1..) {
            let process = match self.clock {
                Clock::Gpu => format!("CTA {} on multiprocessor {}", cta.number, cta.multiprocessor),
                Clock::Simulator => format!("CTA {} ({SIMULATED})", cta.number),
            };
            events.push(json!({ "name": "process_name", "ph": "M", "pid": pid, "args": { "name": process } }));
            for track in &cta.tracks {
                let tid = thread(pid, track);
                let name = json!({ "name": track.name });
                events.push(json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": name }));
                let order = json!({ "sort_index": tid });
                events.push(json!({ "name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": order }));
                self.tiles(cta, track, (pid, scale), &mut events);
                events.extend(track.slices.iter().map(|slice| leaf(slice, (pid, tid, scale))));
                tracks.push(json!({
                    "tid": tid, "cta": cta.number, "role": track.name, "records": track.counted, "kept": track.kept,
                    "from cycle": track.from, "to cycle": track.to,
                }));
            }
            for found in flows(cta, self.roles.producers.len()) {
                flow += 1;
                let end = |(track, slice): (usize, usize), phase: &str| {
                    let track = &cta.tracks[track];
                    let Slice { from, to, .. } = track.slices[slice];
                    let at = us(u64::midpoint(scale.ns(from), scale.ns(to)));
                    json!({
                        "name": "load to use", "cat": "load to use", "ph": phase, "bp": "e", "id": flow, "pid": pid,
                        "tid": thread(pid, track), "ts": at,
                    })
                };
                events.extend([end(found.from, "s"), end(found.to, "f")]);
            }
        }
        let times = match self.clock {
            Clock::Gpu => {
                "microseconds of %globaltimer; cycles in the arguments are those of each multiprocessor".to_owned()
            }
            Clock::Simulator => format!("{SIMULATED} of the simulator's cost model, which measures no GPU"),
        };
        json!({
            "traceEvents": events,
            "displayTimeUnit": "ns",
            "otherData": { "spec": self.spec, "times": times, "roles": tracks },
        })
    }

    /// The tiles that a role worked on, each from where it began to where the next one did.
    fn tiles(&self, cta: &Cta, track: &Track, (pid, scale): (u64, &Scale), events: &mut Vec<Value>) {
        let end = track.slices.last().map_or(track.to, |slice| slice.to);
        for (number, tile) in track.tiles.iter().enumerate() {
            let to = track.tiles.get(number + 1).map_or(end, |next| next.at);
            let words = match self.roles.is_producer(track.role) {
                false => self.roles.tile.words(tile.place),
                // A producer loads for all consumers.
                true => {
                    let consumers = cta.tracks.iter().filter(|track| !self.roles.is_producer(track.role));
                    let places = consumers.filter_map(|consumer| consumer.tiles.get(number));
                    let words: BTreeSet<String> = places.map(|tile| self.roles.tile.words(tile.place)).collect();
                    words.into_iter().collect::<Vec<_>>().join("; ")
                }
            };
            let (from, until) = (scale.ns(tile.at), scale.ns(to));
            events.push(json!({
                "name": format!("tile ({words})"), "cat": TILE, "ph": "X", "ts": us(from), "dur": us(until - from),
                "pid": pid, "tid": thread(pid, track), "cname": TILE_COLOURS[number % TILE_COLOURS.len()],
                "args": { "tile": number, "from cycle": tile.at, "to cycle": to, "cycles": to - tile.at },
            }));
        }
    }

    /// The times of each CTA. The clocks of multiprocessors begin anywhere: `%globaltimer`, read beside them at the begin and
    /// the end of every role, lays them over each other.
    fn scales(&self) -> Vec<Scale> {
        if self.clock == Clock::Simulator {
            // 1000 ns a cycle.
            return self.ctas.iter().map(|_| Scale { offset: 0.0, rate: 1000.0 }).collect();
        }
        let tracks = || self.ctas.iter().flat_map(|cta| &cta.tracks);
        let [cycles, ns] = [|pair: (u64, u64)| pair.0, |pair: (u64, u64)| pair.1].map(|part| {
            tracks().map(|track| part(track.anchors[1]).saturating_sub(part(track.anchors[0]))).sum::<u64>() as f64
        });
        let rate = if cycles > 0.0 && ns > 0.0 { ns / cycles } else { 1.0 };
        let start = tracks().map(|track| track.anchors[0].1).min().unwrap_or(0);
        let raw = |cta: &Cta| {
            let anchors: Vec<(u64, u64)> = cta.tracks.iter().flat_map(|track| track.anchors).collect();
            let apart = |(cycle, ns): &(u64, u64)| (*ns as i64 - start as i64) as f64 - *cycle as f64 * rate;
            anchors.iter().map(apart).sum::<f64>() / anchors.len().max(1) as f64
        };
        let offsets: Vec<f64> = self.ctas.iter().map(raw).collect();
        // The trace begins with the first slice.
        let first =
            self.ctas.iter().zip(&offsets).flat_map(|(cta, offset)| {
                cta.tracks.iter().map(move |track| (track.from as f64).mul_add(rate, *offset))
            });
        let first = first.fold(f64::INFINITY, f64::min);
        offsets.iter().map(|offset| Scale { offset: offset - first, rate }).collect()
    }
}

fn thread(pid: u64, track: &Track) -> u64 {
    pid * TRACKS + track.role as u64
}

/// Microseconds, exact to the nanosecond.
fn us(ns: u64) -> Value {
    if ns.is_multiple_of(1000) { json!(ns / 1000) } else { json!(ns as f64 / 1000.0) }
}

fn leaf(slice: &Slice, (pid, tid, scale): (u64, u64, &Scale)) -> Value {
    let Slice { kind, from, to, argument } = *slice;
    let name = match kind {
        Kind::Store => format!("{} {argument}", kind.words()),
        kind => kind.words().to_owned(),
    };
    let mut arguments = json!({ "from cycle": from, "to cycle": to, "cycles": to - from });
    if matches!(kind.group(), Group::Full | Group::Empty) {
        arguments["stage"] = json!(argument);
    }
    let (begin, end) = (scale.ns(from), scale.ns(to));
    json!({
        "name": name, "cat": kind.group().words(), "ph": "X", "ts": us(begin), "dur": us(end - begin), "pid": pid,
        "tid": tid, "cname": colour(kind.group()), "args": arguments,
    })
}

/// The viewers' name of a group's colour.
fn colour(group: Group) -> &'static str {
    match group {
        Group::Full => "terrible",
        Group::Empty => "bad",
        Group::Loads => "thread_state_runnable",
        Group::Wgmma => "good",
        Group::Softmax => "yellow",
        Group::Release => "grey",
        Group::Epilogue => "thread_state_iowait",
        Group::Switch => "olive",
        Group::Merge => "thread_state_uninterruptible",
    }
}
