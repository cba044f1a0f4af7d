//! Probes in a kernel's body. Templates mark where something begins or ends, a line each:
//!
//! ```text
//! //@ enter                     the kernel begins
//! //@ begin producer            the roles part ways: this one is a producer's warp, or a consumer's warpgroup
//! //@ tile %r_row, %r_col       a tile begins; up to three registers, or words of shared memory, say which
//! //@ end wait_full %r_stage    a slice of the role's time ends here, and the next one begins; a register says which stage
//! //@ look                      is there room for more? Only where the slices of a loop do not ask, see [`Kind::looks`]
//! //@ finish producer %p_t      the role ends; with a predicate, if it is true: a branch on it is the next line
//! ```
//!
//! Markers are removed from the text of a kernel that records nothing, and replaced by instructions in one that does.

use serde::Serialize;

use super::joints::joints;
use super::templates;
use crate::probes::{HEADER_BYTES, Kind, Probes, RECORD_BYTES, Roles};

/// What a marker begins with.
const SIGN: &str = "//@";
/// What markers call a warp of the producer.
const PRODUCER: &str = "producer";

/// The body without markers.
pub(super) fn without(body: &str) -> String {
    let kept = body.lines().filter(|line| !line.trim_start().starts_with(SIGN));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// The body with instructions in place of its markers.
pub(super) fn within(body: &str, probes: &Probes, roles: &Roles) -> String {
    let mut text = Text {
        written: String::with_capacity(2 * body.len()),
        behind: 0,
        behind_all: String::new(),
        ends: 0,
        is_producer: false,
        probes,
        roles,
    };
    let joints = joints(body, |line| line.starts_with(SIGN));
    let mut lines = body.lines().zip(joints).peekable();
    while let Some((line, is_joint)) = lines.next() {
        match line.trim_start().strip_prefix(SIGN) {
            Some(marker) => text.instructions(marker, lines.peek().map_or("", |(next, _)| next)),
            None => text.line(line, is_joint),
        }
    }
    text.written + &text.behind_all
}

/// The text as far as it is written.
struct Text<'p> {
    written: String,
    /// Bytes of records that `%r_probe` is behind: it is moved at [joints].
    behind: u32,
    /// The text after the body, whose last instruction is a return.
    behind_all: String,
    /// Ends of roles so far.
    ends: u32,
    /// Whether the role that began last is a producer.
    is_producer: bool,
    probes: &'p Probes,
    roles: &'p Roles,
}

impl Text<'_> {
    /// A line of the kernel itself.
    fn line(&mut self, line: &str, is_joint: bool) {
        if is_joint {
            self.advance();
        }
        self.written.push_str(line);
        self.written.push('\n');
    }

    fn render<C: Serialize>(&mut self, template: &str, context: &C) {
        self.written.push_str(&templates::render(template, context));
    }

    /// The text that replaces a marker. An unknown marker is a bug of a template, which rendering every plan of the
    /// matrix with probes finds.
    fn instructions(&mut self, marker: &str, next: &str) {
        let (verb, rest) = marker.trim().split_once(' ').unwrap_or((marker.trim(), ""));
        let (what, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "enter" => self.render("probes/enter.ptx", &Ring::new(self.probes, self.roles, "", "")),
            "begin" => {
                self.is_producer = what == PRODUCER;
                self.render("probes/begin.ptx", &Ring::new(self.probes, self.roles, what, ""));
                self.slice(Kind::Prologue, "");
            }
            "tile" => self.tile(rest),
            "end" => self.slice(Kind::of_marker(what).expect("a marker names a kind of slice"), more),
            "look" => self.look(),
            "finish" => {
                self.advance();
                // A role that does not end yet still keeps its records, and one that keeps none any more still ends.
                let target = next.split_whitespace().last().unwrap_or_default().trim_end_matches(';');
                let ring = Ring::new(self.probes, self.roles, what, more);
                let ring = Ring { elected: "%p_probe_ends", target, number: self.ends, ..ring };
                self.ends += 1;
                match more {
                    "" => self.render("probes/finish.ptx", &ring),
                    _ => {
                        self.render("probes/finish_if.ptx", &ring);
                        self.behind_all.push_str(&templates::render("probes/finish_there.ptx", &ring));
                    }
                }
            }
            _ => unreachable!("a marker enters, begins, ends, looks, finishes or is a tile"),
        }
    }

    /// The end of a slice.
    fn slice(&mut self, kind: Kind, argument: &str) {
        // A number is known here.
        let (code, argument) = match argument.parse::<u32>() {
            Ok(number) => (kind.code_with(number), ""),
            Err(_) => (kind.code(), argument),
        };
        let at = self.at();
        self.render(
            "probes/slice.ptx",
            &Slice { words: kind.words(), code, argument, at, is_producer: self.is_producer },
        );
        if kind.looks() {
            self.look();
        }
    }

    /// The begin of a tile: a record for each register that says which, or word of shared memory.
    fn tile(&mut self, arguments: &str) {
        let mut words: Vec<&str> = arguments.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            // Every record has a word: its position.
            words.push("%r_probe");
        }
        self.written.push_str("    // Probe: a tile begins.\n");
        for (word, number) in words.into_iter().zip(0..) {
            let place = word.starts_with('[').then_some(word);
            let at = self.at();
            self.render(
                "probes/tile.ptx",
                &Mark {
                    code: Kind::Tile.code_with(number),
                    argument: "",
                    word,
                    place,
                    at,
                    is_producer: self.is_producer,
                },
            );
        }
        self.look();
    }

    /// The offset of the next record from `%r_probe`.
    fn at(&mut self) -> u32 {
        let at = self.behind;
        self.behind += RECORD_BYTES;
        at
    }

    fn advance(&mut self) {
        let bytes = std::mem::take(&mut self.behind);
        if bytes > 0 {
            self.render("probes/advance.ptx", &Advance { bytes });
        }
    }

    fn look(&mut self) {
        self.advance();
        let room = HEADER_BYTES + self.probes.room() * RECORD_BYTES;
        self.render("probes/room.ptx", &Look { ring_mask: self.probes.ring_bytes() - 1, room });
    }
}

/// A role's way to its ring.
#[derive(Serialize)]
struct Ring<'m> {
    first: u32,
    last: u32,
    ctas: u32,
    ring_bytes: u32,
    header_bytes: u32,
    /// Bytes of the rings of a CTA.
    cta_bytes: u32,
    /// Roles of a CTA.
    roles: u32,
    /// Which bits of a thread's number are its place in its role, and how many they are.
    place_mask: u32,
    place_bits: u32,
    /// What is added to the number that the further bits are, to have that of the role.
    roles_before: u32,
    is_producer: bool,
    /// The predicate of the thread that writes.
    elected: &'static str,
    condition: &'m str,
    /// Where a role goes that ends on this condition.
    target: &'m str,
    /// The number of the end.
    number: u32,
}

impl<'m> Ring<'m> {
    fn new(probes: &Probes, roles: &Roles, role: &str, condition: &'m str) -> Self {
        // A warp of the producer is one role, a warpgroup of consumers another; the producers are warpgroup 0.
        let (threads, roles_before) = match role {
            PRODUCER => (32u32, 0),
            _ => (128, roles.producers.len() as u32 - 1),
        };
        Self {
            first: probes.first,
            last: probes.first + probes.ctas.saturating_sub(1),
            ctas: probes.ctas,
            ring_bytes: probes.ring_bytes(),
            header_bytes: HEADER_BYTES,
            cta_bytes: probes.ring_bytes() * roles.count(),
            roles: roles.count(),
            place_mask: threads - 1,
            place_bits: threads.ilog2(),
            roles_before,
            is_producer: role == PRODUCER,
            elected: "%p_probe",
            condition,
            target: "",
            number: 0,
        }
    }
}

#[derive(Serialize)]
struct Slice<'m> {
    words: &'static str,
    code: u32,
    /// A register that goes into the record beside the code.
    argument: &'m str,
    at: u32,
    is_producer: bool,
}

#[derive(Serialize)]
struct Mark<'m> {
    code: u32,
    /// A register, or the address of the word in shared memory.
    word: &'m str,
    /// Nothing: the code has the number of the word.
    argument: &'static str,
    place: Option<&'m str>,
    at: u32,
    is_producer: bool,
}

#[derive(Serialize)]
struct Advance {
    bytes: u32,
}

#[derive(Serialize)]
struct Look {
    ring_mask: u32,
    /// Bytes of a ring without its spare slots.
    room: u32,
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
        assert_eq!(text.matches("st.global.v2.u32").count(), 1, "{text}");
        assert!(text.contains("mad.lo.u32 %r_probe_t, %r_stage, 256, "), "{text}");
        assert!(!text.contains("//@"), "{text}");
    }

    #[test]
    fn records_one_after_the_other_share_an_address() {
        let body = "//@ end scores\n    add.u32 %r_t, %r_t, 1;\n//@ end softmax\n    @%p_t bra $step;\n$step:\n//@ end output\n    \
                    bra.uni $step;\n";
        let probes = Probes { first: 0, ctas: 1, records: 100 };
        let text = within(body, &probes, &Roles { producers: &["producer"], consumers: 2, tile: TileName::Rows(64) });
        let of = |word: &str| text.lines().filter(|line| line.contains(word)).map(str::trim).collect::<Vec<_>>();
        let stores = of("st.global");
        assert!(stores[0].contains("[%rd_probe + 0]") && stores[1].contains("[%rd_probe + 8]"), "{text}");
        assert!(stores[2].contains("[%rd_probe + 0]"), "{text}");
        assert_eq!(of("add.u32 %r_probe,"), ["add.u32 %r_probe, %r_probe, 16;", "add.u32 %r_probe, %r_probe, 8;"]);
    }
}
