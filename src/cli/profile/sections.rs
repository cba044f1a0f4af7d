//! Sections of our PTX, and what was sampled in each: every section opens with a comment that says what it does.

use super::source::Row;

/// A part of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    /// Its first line, from 1, and its last one.
    pub(super) lines: (usize, usize),
    /// What it does.
    pub(super) title: String,
    pub(super) samples: f64,
    /// What warps waited for there, most first.
    pub(super) stalls: Vec<(String, f64)>,
}

/// The sections of a module's text: from a comment in a kernel's body, or from a label without one, to the next.
pub(super) fn of(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = vec![];
    let mut body = false;
    let mut after_title = false;
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        body |= line == "{";
        let title = match line.strip_prefix("//") {
            Some(comment) if body => Some(comment.trim().to_owned()),
            None if body && line.starts_with('$') && line.ends_with(':') => Some(line.trim_end_matches(':').to_owned()),
            _ => None,
        };
        match (title, sections.last_mut()) {
            // A comment of several lines, and a label under a comment, are one title.
            (Some(more), Some(last)) if after_title && line.starts_with("//") => {
                last.title = if last.title.starts_with('$') { more } else { format!("{} {more}", last.title) };
            }
            (Some(_), Some(_)) if after_title => {}
            (Some(title), _) => {
                sections.push(Section { lines: (number, number), title, samples: 0.0, stalls: vec![] });
            }
            (None, _) => {}
        }
        after_title = line.starts_with("//") || line.ends_with(':') || (after_title && line.is_empty());
        if let Some(last) = sections.last_mut() {
            last.lines.1 = number;
        }
    }
    sections
}

/// Adds what was counted on the lines of the text. Lines are found by what they say, in their order: whoever prints them may
/// count them otherwise.
pub(super) fn counted(text: &str, rows: &[Row]) -> Vec<Section> {
    let mut sections = of(text);
    let lines: Vec<String> = text.lines().map(plain).collect();
    let mut next = 0;
    for row in rows {
        let wanted = plain(&row.source);
        let Some(found) = lines[next..].iter().position(|line| *line == wanted) else { continue };
        let number = next + found + 1;
        next = number;
        let Some(section) = sections.iter_mut().find(|section| (section.lines.0..=section.lines.1).contains(&number))
        else {
            continue;
        };
        section.samples += row.samples;
        for (reason, count) in &row.stalls {
            match section.stalls.iter_mut().find(|(known, _)| known == reason) {
                Some((_, sum)) => *sum += count,
                None => section.stalls.push((reason.clone(), *count)),
            }
        }
    }
    sections.iter_mut().for_each(|section| section.stalls.sort_by(|x, y| y.1.total_cmp(&x.1)));
    sections
}

/// A line without its blanks.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
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
    ret;
}
";

    #[test]
    fn a_section_is_what_stands_under_a_comment_or_a_label() {
        let found: Vec<((usize, usize), String)> = of(TEXT).into_iter().map(|s| (s.lines, s.title)).collect();
        let of = |lines, title: &str| (lines, title.to_owned());
        assert_eq!(found, [of((6, 10), "Where it begins, and why."), of((11, 14), "The loop."), of((15, 17), "$exit")]);
    }

    #[test]
    fn samples_are_of_the_section_of_their_line_in_order() {
        let row = |source: &str, samples: f64, reason: &str| Row {
            source: source.to_owned(),
            samples,
            executed: 0.0,
            stalls: vec![(reason.to_owned(), samples)],
        };
        // The same instruction stands in two sections.
        let rows = [
            row("mov.u32 %r_a,   %tid.x;", 1.0, "wait"),
            row("add.u32 %r_a, %r_a, 1;", 2.0, "math"),
            row("add.u32 %r_a, %r_a, 1;", 5.0, "gmma"),
            row("no such line", 9.0, "gmma"),
            row("ret;", 4.0, "exit"),
        ];
        let found: Vec<(f64, String)> = counted(TEXT, &rows)
            .into_iter()
            .map(|section| (section.samples, section.stalls.first().map_or(String::new(), |stall| stall.0.clone())))
            .collect();
        assert_eq!(found, [(3.0, "math".to_owned()), (5.0, "gmma".to_owned()), (4.0, "exit".to_owned())]);
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
