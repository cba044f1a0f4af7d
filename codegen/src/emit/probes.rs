//! Probes in a kernel's body. Templates mark where something begins or ends, a line each:
//!
//! ```text
//! //@ enter                     the kernel begins
//! //@ begin producer            the roles part ways: this one is a producer's warp, or a consumer's warpgroup
//! //@ tile %r_row, %r_col       a tile begins; up to three registers, or words of shared memory, say which
//! //@ end wait_full %r_stage    a slice of the role's time ends here, and the next one begins; a register says which stage
//! //@ finish producer %p_t      the role ends; with a predicate, if it is true
//! ```
//!
//! Markers are removed from the text of a kernel that records nothing, and replaced by instructions in one that does.

use serde::Serialize;

use super::templates;
use crate::probes::{HEADER_BYTES, Kind, Probes, RECORD_BYTES, Roles, SILENT};

/// What a marker begins with.
const SIGN: &str = "//@";

/// The body without markers.
pub(super) fn without(body: &str) -> String {
    let kept = body.lines().filter(|line| !line.trim_start().starts_with(SIGN));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// The body with instructions in place of its markers.
pub(super) fn within(body: &str, probes: &Probes, roles: &Roles) -> String {
    let mut text = String::with_capacity(2 * body.len());
    for line in body.lines() {
        match line.trim_start().strip_prefix(SIGN) {
            Some(marker) => text.push_str(&instructions(marker, probes, roles)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// A role's way to its ring.
#[derive(Serialize)]
struct Ring {
    first: u32,
    last: u32,
    ctas: u32,
    record_bytes: u32,
    /// Slots of a ring, and of its header.
    slots: u32,
    header_slots: u32,
    silent: u32,
    /// Roles of a CTA.
    roles: u32,
    /// Which bits of a thread's number are its place in its role, and how many they are.
    place_mask: u32,
    place_bits: u32,
    /// What is added to the number that the further bits are, to have that of the role.
    roles_before: u32,
    condition: String,
}

impl Ring {
    fn new(probes: &Probes, roles: &Roles, role: &str, condition: &str) -> Self {
        // A warp of the producer is one role, a warpgroup of consumers another; the producers are warpgroup 0.
        let (threads, roles_before) = match role {
            "producer" => (32u32, 0),
            _ => (128, roles.producers.len() as u32 - 1),
        };
        Self {
            first: probes.first,
            last: probes.first + probes.ctas.saturating_sub(1),
            ctas: probes.ctas,
            record_bytes: RECORD_BYTES,
            slots: probes.slots(),
            header_slots: HEADER_BYTES / RECORD_BYTES,
            silent: SILENT,
            roles: roles.count(),
            place_mask: threads - 1,
            place_bits: threads.ilog2(),
            roles_before,
            condition: condition.to_owned(),
        }
    }
}

/// What every record is written with.
#[derive(Serialize)]
struct Slots {
    record_bytes: u32,
    slot_mask: u32,
    /// The counter of a ring that is full.
    full: u32,
}

impl Slots {
    fn new(probes: &Probes) -> Self {
        let slots = probes.slots();
        Self { record_bytes: RECORD_BYTES, slot_mask: slots - 1, full: SILENT + slots }
    }
}

/// The end of a slice.
#[derive(Serialize)]
struct Slice<'m> {
    words: &'static str,
    code: u32,
    /// A register that goes into the record beside the code.
    argument: &'m str,
    #[serde(flatten)]
    slots: Slots,
}

impl<'m> Slice<'m> {
    fn new(kind: Kind, argument: &'m str, probes: &Probes) -> Self {
        // A number is known here.
        let (code, argument) = match argument.parse::<u32>() {
            Ok(number) => (kind.code_with(number), ""),
            Err(_) => (kind.code(), argument),
        };
        Self { words: kind.words(), code, argument, slots: Slots::new(probes) }
    }
}

/// The begin of a tile: a record for each register that says which.
#[derive(Serialize)]
struct Tile<'m> {
    marks: Vec<Mark<'m>>,
    #[serde(flatten)]
    slots: Slots,
}

#[derive(Serialize)]
struct Mark<'m> {
    code: u32,
    /// A register, or where in shared memory the word lies.
    word: &'m str,
    place: Option<&'m str>,
}

impl<'m> Tile<'m> {
    fn new(arguments: &'m str, probes: &Probes) -> Self {
        let mut words: Vec<&str> = arguments.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            // Every record has a word: the code stands once more.
            words.push("%r_probe_t");
        }
        let mark = |(word, number): (&'m str, u32)| {
            let place = word.starts_with('[').then_some(word);
            Mark { code: Kind::Tile.code_with(number), word, place }
        };
        Self { marks: words.into_iter().zip(0..).map(mark).collect(), slots: Slots::new(probes) }
    }
}

/// What stands in place of a marker. One that says nothing known is a bug of a template, which rendering every plan of the
/// matrix with probes finds.
fn instructions(marker: &str, probes: &Probes, roles: &Roles) -> String {
    let (verb, rest) = marker.trim().split_once(' ').unwrap_or((marker.trim(), ""));
    let (what, more) = rest.split_once(' ').unwrap_or((rest, ""));
    let slice = |kind, argument| templates::render("probes/slice.ptx", &Slice::new(kind, argument, probes));
    match verb {
        "enter" => templates::render("probes/enter.ptx", &Slots::new(probes)),
        "begin" => {
            let ring = Ring::new(probes, roles, what, "");
            templates::render("probes/begin.ptx", &ring) + &slice(Kind::Prologue, "")
        }
        "tile" => templates::render("probes/tile.ptx", &Tile::new(rest, probes)),
        "end" => slice(Kind::of_marker(what).expect("a marker names a kind of slice"), more),
        "finish" => templates::render("probes/finish.ptx", &Ring::new(probes, roles, what, more)),
        _ => unreachable!("a marker enters, begins, ends, finishes or is a tile"),
    }
}

#[cfg(test)]
mod tests {
    use super::{within, without};
    use crate::probes::{Probes, Roles, TileName};

    const BODY: &str = "//@ enter\n    mov.u32 %r_stage, 0;\n  //@ end wait_full %r_stage\n    ret;\n";

    #[test]
    fn without_probes_nothing_is_left_of_markers() {
        assert_eq!(without(BODY), "    mov.u32 %r_stage, 0;\n    ret;\n");
    }

    #[test]
    fn a_marker_is_one_record() {
        let probes = Probes { first: 2, ctas: 3, records: 100 };
        let tile = TileName::Rows(64);
        let text = within(BODY, &probes, &Roles { producers: &["producer"], consumers: 2, tile });
        assert!(text.contains("mov.u32 %r_probe_entered, %clock;"), "{text}");
        assert_eq!(text.matches("st.global.v2.u32").count(), 1, "{text}");
        assert!(text.contains("mad.lo.u32 %r_probe_t, %r_stage, 256, "), "{text}");
        assert!(!text.contains("//@"), "{text}");
    }
}
