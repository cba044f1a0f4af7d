//! Sections of our PTX, and what was sampled in each: every section opens with a comment that says what it does.

use std::collections::BTreeMap;

use super::lines::Counted;

/// A part of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    /// Its first line, from 1, and its last one.
    pub(super) lines: (usize, usize),
    /// What it does.
    pub(super) title: String,
    pub(super) samples: f64,
    /// Samples by what warps waited for there.
    pub(super) stalls: BTreeMap<String, f64>,
}

/// The sections of a module's text: from a comment in a kernel's body, or from a label without one, to the next. A label at
/// which warps wait for a barrier is within a section.
pub(super) fn of(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = vec![];
    let mut body = false;
    let mut after_title = false;
    let mut lines = text.lines().map(str::trim).zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        let is_wait = lines.peek().is_some_and(|(next, _)| next.starts_with("mbarrier.try_wait"));
        body |= line == "{";
        let title = match line.strip_prefix("//") {
            Some(comment) if body => Some(comment.trim().to_owned()),
            None if body && !is_wait && line.starts_with('$') && line.ends_with(':') => {
                Some(line.trim_end_matches(':').to_owned())
            }
            _ => None,
        };
        match (title, sections.last_mut()) {
            // A comment of several lines, and a label under a comment, are one title.
            (Some(more), Some(last)) if after_title && line.starts_with("//") => {
                last.title = if last.title.starts_with('$') { more } else { format!("{} {more}", last.title) };
            }
            (Some(_), Some(_)) if after_title => {}
            (Some(title), _) => {
                sections.push(Section { lines: (number, number), title, samples: 0.0, stalls: BTreeMap::new() });
            }
            (None, _) => {}
        }
        after_title = line.starts_with("//") || line.ends_with(':') && !is_wait || (after_title && line.is_empty());
        if let Some(last) = sections.last_mut() {
            last.lines.1 = number;
        }
    }
    sections
}

/// The sections with what was counted on their lines. What is before the first one, or on no line, is of none.
pub(super) fn counted(text: &str, lines: &[Counted]) -> Vec<Section> {
    let mut sections = of(text);
    for counted in lines {
        let mut with_line =
            sections.iter_mut().filter(|section| (section.lines.0..=section.lines.1).contains(&counted.line));
        let Some(section) = with_line.next() else { continue };
        section.samples += counted.samples;
        for (reason, count) in &counted.stalls {
            *section.stalls.entry(reason.clone()).or_default() += count;
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr::{KernelSpec, Plan};

    use super::*;

    const TEXT: &str = "\
// bm = 64
.visible .entry k()
{
    .reg .b32 %r_a;

    // Where it begins,
    // and why.
    mov.u32 %r_a, %tid.x;
    add.u32 %r_a, %r_a, 1;

    // The loop.
$loop:
    add.u32 %r_a, %r_a, 1;
    bra $loop;
$exit:
    mov.u32 %r_a, 0;
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p_a, [%r_a], 0;
    @!%p_a bra $wait;
    ret;
}
";

    #[test]
    fn a_section_is_what_stands_under_a_comment_or_a_label() {
        let found: Vec<((usize, usize), String)> = of(TEXT).into_iter().map(|s| (s.lines, s.title)).collect();
        let of = |lines, title: &str| (lines, title.to_owned());
        assert_eq!(found, [of((6, 10), "Where it begins, and why."), of((11, 14), "The loop."), of((15, 21), "$exit")]);
    }

    #[test]
    fn samples_are_of_the_section_of_their_line() {
        let counted =
            |line, samples: f64, reason: &str| Counted { line, samples, stalls: [(reason.to_owned(), samples)].into() };
        let lines = [
            counted(0, 9.0, "gmma"),
            counted(3, 9.0, "gmma"),
            counted(8, 1.0, "wait"),
            counted(9, 2.0, "math"),
            counted(13, 5.0, "gmma"),
            counted(16, 4.0, "exit"),
        ];
        let found: Vec<(f64, usize)> =
            super::counted(TEXT, &lines).into_iter().map(|section| (section.samples, section.stalls.len())).collect();
        assert_eq!(found, [(3.0, 2), (5.0, 1), (4.0, 1)]);
    }

    #[test]
    fn every_family_has_sections_that_cover_its_body() {
        for text in
            ["bm = 512, bn = 128, bk = 112", "bm = 16, bn = 256, bk = 16", "bm = 64, bn = 64, bk = 64, mma = mma_sync"]
        {
            let spec: KernelSpec = text.parse().unwrap();
            let ptx = Plan::new(&spec).unwrap().ptx();
            let sections = of(ptx.text());
            assert!(sections.len() > 10, "{text}: {} sections", sections.len());
            assert!(sections.windows(2).all(|pair| pair[0].lines.1 + 1 == pair[1].lines.0), "{text}");
            assert_eq!(sections.last().unwrap().lines.1, ptx.text().lines().count(), "{text}");
        }
    }
}
