//! A trace as its file tells it: what [`Timeline::perfetto`](super::Timeline::perfetto) drew, on another day perhaps.

use bsr_codegen::Refusal;
use std::collections::BTreeMap;

use bsr_codegen::probes::Group;
use serde_json::Value;

use super::decode::Clock;
use super::perfetto::{SIMULATED, TILE};

/// What the roles of some CTAs did. Times are microseconds of a GPU, or cycles of the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The kernel's spec.
    pub spec: String,
    /// Which clock times are by.
    pub clock: Clock,
    /// The roles of all CTAs, CTA by CTA, producers first.
    pub lanes: Vec<Lane>,
}

/// What one role of a CTA did.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// The number of the CTA.
    pub cta: u64,
    /// What the role is called.
    pub role: String,
    /// Records that the role wrote or would have written.
    pub records: u64,
    /// Records that were kept: the first ones.
    pub kept: u64,
    /// The tiles that it worked on, in order.
    pub tiles: Vec<Span>,
    /// Without gaps, in order.
    pub slices: Vec<(Group, Span)>,
}

/// A part of a role's time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// When it began.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// `wait for a full stage`, `tile (rows 0..64, columns 0..128)`.
    pub name: String,
}

impl Trace {
    /// Reads a file's JSON.
    ///
    /// # Errors
    /// JSON that is no trace of a kernel's roles.
    pub fn read(trace: &Value) -> Result<Self, Refusal> {
        let other = &trace["otherData"];
        let events = trace["traceEvents"].as_array().ok_or_else(|| lacks("there are no `traceEvents`"))?;
        let tracks = other["roles"].as_array().ok_or_else(|| lacks("`otherData` names no `roles`"))?;
        let is_simulated = other["times"].as_str().is_some_and(|times| times.contains(SIMULATED));
        let (mut lanes, mut lane_of) = (vec![], BTreeMap::new());
        for track in tracks {
            let (Some(role), Some(tid)) = (track["role"].as_str(), track["tid"].as_u64()) else {
                return Err(lacks("a role has no name or no thread"));
            };
            lane_of.insert(tid, lanes.len());
            let number = |key: &str| track[key].as_u64().unwrap_or(0);
            lanes.push(Lane {
                cta: number("cta"),
                role: role.to_owned(),
                records: number("records"),
                kept: number("kept"),
                tiles: vec![],
                slices: vec![],
            });
        }
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let at = event["tid"].as_u64().and_then(|tid| lane_of.get(&tid)).copied();
            let lane = at.and_then(|at| lanes.get_mut(at)).ok_or_else(|| lacks("a slice is of no role"))?;
            let (from, dur) = (event["ts"].as_f64(), event["dur"].as_f64());
            let (from, dur) = from.zip(dur).ok_or_else(|| lacks("a slice has no time or no duration"))?;
            let span = Span { from, to: from + dur, name: event["name"].as_str().unwrap_or_default().to_owned() };
            if event["cat"] == TILE {
                lane.tiles.push(span);
                continue;
            }
            let group = Group::ALL.into_iter().find(|group| event["cat"] == group.words());
            lane.slices.push((group.ok_or_else(|| lacks("a slice is of no group"))?, span));
        }
        let spec = other["spec"].as_str().unwrap_or_default().to_owned();
        let clock = if is_simulated { Clock::Simulator } else { Clock::Gpu };
        Ok(Self { spec, clock, lanes })
    }

    /// The unit of times.
    pub fn unit(&self) -> &'static str {
        if self.clock == Clock::Simulator { "cycles" } else { "us" }
    }
}

/// A file that is no trace of this program: what it lacks.
#[doc(hidden)]
pub fn lacks(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(format!("no trace of a kernel's roles: {why}")).help("a file that `bsr trace SPEC -o FILE` wrote")
}
