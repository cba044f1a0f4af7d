//! What every timeline must be, whatever it is of.

use std::collections::{BTreeMap, HashMap, HashSet};

use bsr_codegen::probes::Kind;
use bsr_runtime::timeline::{Summary, Timeline};
use serde_json::Value;

/// Perfetto's rule for slices on one track: of two, one lies inside the other, or they do not meet. It drops a slice that
/// ends after the one that was open when it began. How many it would drop; times are in nanoseconds.
fn dropped(slices: &mut [(i64, i64)]) -> usize {
    slices.sort_by_key(|(from, to)| (*from, std::cmp::Reverse(*to)));
    let (mut open, mut dropped) = (Vec::<i64>::new(), 0);
    for (from, to) in slices {
        while open.last().is_some_and(|end| end <= from) {
            open.pop();
        }
        match open.last() {
            Some(end) if &*to > end => dropped += 1,
            _ => open.push(*to),
        }
    }
    dropped
}

#[test]
fn the_rule_drops_what_overlaps_without_nesting() {
    assert_eq!(dropped(&mut [(0, 10), (2, 5), (5, 10), (10, 12)]), 0);
    assert_eq!(dropped(&mut [(0, 10), (5, 12), (12, 13)]), 1);
}

/// Nanoseconds of an event's time.
fn ns(event: &Value, name: &str) -> i64 {
    (event[name].as_f64().unwrap() * 1000.0).round() as i64
}

/// Cycles of a role after its last record, however short it was: it writes its header.
const AT_THE_END: u64 = 16;

/// Roles fill their time, viewers show every slice, flows go from a load to what is later, and shares are shares.
pub(crate) fn hold(timeline: &Timeline) {
    for cta in &timeline.ctas {
        for track in &cta.tracks {
            let (cta, name) = (cta.number, &track.name);
            assert_eq!(track.kept, track.counted, "CTA {cta}, {name}");
            assert_eq!(track.slices[0].kind, Kind::Prologue, "CTA {cta}, {name}");
            let (of_role, of_slices) = (track.to - track.from, track.slices.iter().map(|s| s.to - s.from).sum::<u64>());
            assert!(of_slices <= of_role, "CTA {cta}, {name}: {of_slices} of {of_role}");
            assert!((of_slices + AT_THE_END) * 100 >= of_role * 98, "CTA {cta}, {name}: {of_slices} of {of_role}");
            assert!(track.slices.windows(2).all(|two| two[0].to == two[1].from), "CTA {cta}, {name}");
        }
    }
    let trace = timeline.perfetto();
    let events = trace["traceEvents"].as_array().unwrap();
    let mut tracks = BTreeMap::<(u64, u64), Vec<(i64, i64)>>::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        let from = ns(event, "ts");
        tracks.entry(track).or_default().push((from, from + ns(event, "dur")));
    }
    assert_eq!(tracks.len(), timeline.ctas.iter().map(|cta| cta.tracks.len()).sum::<usize>());
    assert_eq!(tracks.values_mut().map(|slices| dropped(slices)).sum::<usize>(), 0);
    let threads: HashSet<u64> = tracks.keys().map(|(_, thread)| *thread).collect();
    assert_eq!(threads.len(), tracks.len());
    let named = |what: &str| events.iter().filter(|event| event["name"] == what).count();
    assert_eq!((named("process_name"), named("thread_name")), (timeline.ctas.len(), tracks.len()));

    let mut starts = HashMap::new();
    for event in events.iter().filter(|event| event["ph"] == "s") {
        assert!(starts.insert(event["id"].as_u64().unwrap(), ns(event, "ts")).is_none());
    }
    let ends: Vec<&Value> = events.iter().filter(|event| event["ph"] == "f").collect();
    assert!(!ends.is_empty() && ends.len() == starts.len());
    for end in ends {
        assert!(ns(end, "ts") > starts[&end["id"].as_u64().unwrap()], "a stage is used before it is loaded: {end}");
    }
    for role in Summary::of_trace(&trace).unwrap().roles {
        let all: f64 = role.shares.iter().sum();
        assert!((all - 1.0).abs() < 1e-9 && role.time > 0.0, "{}: {all}", role.name);
    }
}
