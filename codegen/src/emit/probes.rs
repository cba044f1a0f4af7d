//! Probes in a kernel's body. Templates mark where something begins or ends, a line each:
//!
//! ```text
//! //@ enter                     the kernel begins
//! //@ begin producer            the roles part ways: this one is a producer's warp, or a consumer's warpgroup
//! //@ tile %r_row, %r_col       a tile begins; up to three registers say which
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
    capacity: u32,
    record_bytes: u32,
    header_bytes: u32,
    ring_bytes: u32,
    silent: u32,
    /// Roles of a CTA.
    roles: u32,
    /// Which bits of a thread's number are its place in its role, and how many they are.
    place_mask: u32,
    place_bits: u32,
    /// Bytes from ring 0 of a CTA to the one that the number of threads of a role before this one points to.
    rings_before: i64,
    condition: String,
}

impl Ring {
    fn new(probes: &Probes, roles: &Roles, is_producer: bool, condition: &str) -> Self {
        // A warp of the producer is one role, a warpgroup of consumers another; the producers are warpgroup 0.
        let threads = if is_producer { 32u32 } else { 128 };
        let before = if is_producer { 0 } else { roles.producers.len() as i64 - 1 };
        Self {
            first: probes.first,
            last: probes.first + probes.ctas.saturating_sub(1),
            ctas: probes.ctas,
            capacity: probes.capacity,
            record_bytes: RECORD_BYTES,
            header_bytes: HEADER_BYTES,
            ring_bytes: probes.ring_bytes(),
            silent: SILENT,
            roles: roles.count(),
            place_mask: threads - 1,
            place_bits: threads.ilog2(),
            rings_before: before * i64::from(probes.ring_bytes()),
            condition: condition.to_owned(),
        }
    }
}

/// A record.
#[derive(Serialize)]
struct Slice<'m> {
    words: &'static str,
    code: u32,
    capacity: u32,
    record_bytes: u32,
    argument: &'m str,
}

/// The mark of a tile.
#[derive(Serialize)]
struct Tile<'m> {
    code: u32,
    capacity: u32,
    record_bytes: u32,
    first_argument: &'m str,
    second: &'m str,
    /// What is added to the code, in its upper 24 bits.
    third: Option<&'m str>,
}

/// What stands in place of a marker. One that says nothing known is a bug of a template, which rendering every plan of the
/// matrix with probes finds.
fn instructions(marker: &str, probes: &Probes, roles: &Roles) -> String {
    let (verb, rest) = marker.trim().split_once(' ').unwrap_or((marker.trim(), ""));
    let Probes { capacity, .. } = *probes;
    match verb {
        "enter" => templates::render("probes/enter.ptx", &Nothing {}),
        "begin" => {
            let ring = Ring::new(probes, roles, rest == "producer", "");
            let begin = templates::render("probes/begin.ptx", &ring);
            begin + &slice(Kind::Prologue, "", capacity)
        }
        "tile" => {
            let mut arguments = rest.split(',').map(str::trim).filter(|argument| !argument.is_empty());
            // Every record has four words: where the marker names no register, the code stands once more.
            let [first_argument, second] = [(); 2].map(|()| arguments.next().unwrap_or("%r_probe_t"));
            let third = arguments.next();
            let code = Kind::Tile.code();
            let tile = Tile { code, capacity, record_bytes: RECORD_BYTES, first_argument, second, third };
            templates::render("probes/tile.ptx", &tile)
        }
        "end" => {
            let (name, argument) = rest.split_once(' ').unwrap_or((rest, ""));
            slice(Kind::of_marker(name).expect("a marker names a kind of slice"), argument, capacity)
        }
        "finish" => {
            let (role, condition) = rest.split_once(' ').unwrap_or((rest, ""));
            templates::render("probes/finish.ptx", &Ring::new(probes, roles, role == "producer", condition))
        }
        _ => unreachable!("a marker enters, begins, ends, finishes or is a tile"),
    }
}

/// A template that asks for nothing.
#[derive(Serialize)]
struct Nothing {}

fn slice(kind: Kind, argument: &str, capacity: u32) -> String {
    // Every record has a fourth word: without an argument it is the code once more.
    let argument = if argument.is_empty() { "%r_probe_t" } else { argument };
    let (words, code, record_bytes) = (kind.words(), kind.code(), RECORD_BYTES);
    templates::render("probes/slice.ptx", &Slice { words, code, capacity, record_bytes, argument })
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
        let probes = Probes { first: 2, ctas: 3, capacity: 100 };
        let tile = TileName::Rows(64);
        let text = within(BODY, &probes, &Roles { producers: &["producer"], consumers: 2, tile });
        assert!(text.contains("mov.u32 %r_probe_from, %clock;"), "{text}");
        assert_eq!(text.matches("st.global.v4.u32").count(), 1, "{text}");
        assert!(text.contains("%r_probe_t, %r_stage };"), "{text}");
        assert!(!text.contains("//@"), "{text}");
    }
}
