//! `.file` and `.loc`: which line of which source a line of PTX comes from.

use std::collections::HashMap;

/// A place in the source that a text was compiled from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The file, as the compiler named it.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// Its column, from 1; 0 where the compiler gave none.
    pub column: u32,
    /// Where the function that has the line was inlined: innermost first.
    pub inlined: Vec<(String, u32)>,
}

/// As in the text: the file by its number, line, column, and the place where it is inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Loc {
    file: u32,
    line: u32,
    column: u32,
    at: Option<(u32, u32, u32)>,
}

/// The origins of a text.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    files: HashMap<u32, String>,
    all: Vec<Loc>,
    /// Lines of PTX from which on an origin holds, and its number.
    from: Vec<(u32, usize)>,
}

/// Places that inlined places lead to, at most.
const DEEPEST: usize = 16;

impl Origins {
    pub(crate) fn new(text: &str) -> Self {
        let mut out = Self::default();
        // LLVM counts on from the statement, a line for each line of its assembly: those are no lines of the source.
        let mut assembly = false;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start();
            match line {
                "// begin inline asm" => assembly = true,
                "// end inline asm" => assembly = false,
                _ => {}
            }
            if let Some(rest) = line.strip_prefix(".loc").filter(|_| !assembly) {
                if let Some(loc) = loc(rest) {
                    out.from.push((number, out.all.len()));
                    out.all.push(loc);
                }
            } else if let Some((number, name)) = line.strip_prefix(".file").and_then(file) {
                out.files.insert(number, name);
            }
        }
        out
    }

    /// The origin of a line of PTX: that of the nearest `.loc` above it.
    pub(crate) fn of(&self, line: u32) -> Option<Origin> {
        let at = self.from.partition_point(|(from, _)| *from <= line).checked_sub(1)?;
        let loc = self.all[self.from[at].1];
        let mut inlined = Vec::new();
        let mut next = loc.at;
        while let Some((file, line, column)) = next {
            inlined.push((self.file(file), line));
            // The place itself may be inlined: the `.loc` of that place says where.
            let same = |l: &&Loc| (l.file, l.line, l.column) == (file, line, column) && l.at != next;
            next = self.all.iter().find(same).and_then(|l| l.at).filter(|_| inlined.len() < DEEPEST);
        }
        Some(Origin { file: self.file(loc.file), line: loc.line, column: loc.column, inlined })
    }

    fn file(&self, number: u32) -> String {
        self.files.get(&number).cloned().unwrap_or_else(|| format!("file {number}"))
    }
}

/// ` 1 141 0, function_name $L__info_string0, inlined_at 1 20 3`; a line of 0 is none.
fn loc(rest: &str) -> Option<Loc> {
    let rest = rest.split("//").next().unwrap_or_default();
    let three = |text: &str| -> Option<(u32, u32, u32)> {
        let mut numbers = text.split([' ', '\t', ',']).filter(|w| !w.is_empty()).map(|w| w.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    };
    let (file, line, column) = three(rest)?;
    let at = rest.split_once("inlined_at").and_then(|(_, at)| three(at));
    (line > 0).then_some(Loc { file, line, column, at })
}

/// ` 1 "/path/kernels.py"`, and what may follow.
fn file(rest: &str) -> Option<(u32, String)> {
    let mut parts = rest.splitn(3, '"');
    let number = parts.next()?.trim().parse().ok()?;
    Some((number, parts.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_line_has_the_origin_of_the_nearest_loc_above() {
        let text = "\t.loc\t1 7 4\nadd\n.loc 2 40 9, function_name $L__info_string0, inlined_at 1 8 2\nmul\n\
                    .file\t1 \"/src/a.py\"\n.file 2 \"b.py\", 12, 34\n";
        let origins = Origins::new(text);
        let origin = |line| origins.of(line).unwrap();
        assert_eq!((origin(2).file.as_str(), origin(2).line, origin(2).column), ("/src/a.py", 7, 4));
        assert_eq!((origin(4).file.as_str(), origin(4).line), ("b.py", 40));
        assert_eq!(origin(4).inlined, [("/src/a.py".to_owned(), 8)]);
        assert_eq!(Origins::new("add").of(1), None);
    }

    #[test]
    fn all_lines_of_inline_assembly_have_the_origin_of_their_statement() {
        let text = ".loc 1 7 4\n\t// begin inline asm\n.loc 1 7 4\nmov\n.loc 1 8 4\nld\n\n\t// end inline asm\nadd\n.loc 1 9 1\nst";
        let origins = Origins::new(text);
        let line = |of| origins.of(of).unwrap().line;
        assert_eq!([4, 6, 9, 11].map(line), [7, 7, 7, 9]);
    }
}
