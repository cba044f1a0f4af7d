//! The layout of a kernel's body: indentation and blank lines follow from what a line is, not from how a template was
//! written.
//!
//! Labels are in column 0, statements four columns in, the further lines of a statement eight, and an operand list that
//! takes several lines ten. A blank line precedes every comment that does not follow a label or another comment, and
//! before a label that is reached by branches alone.

use super::statement;

/// Columns of a statement, of its further lines, and of an operand list that is open.
const STATEMENT: usize = 4;
const FURTHER: usize = 8;
const LIST: usize = 10;

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    Comment,
    Label,
    Statement,
    /// A statement after which control never goes on to the next line.
    Leaving,
    /// A line of a statement that is not complete yet, or its last one.
    Part,
}

/// The same lines, laid out.
pub(super) fn laid_out(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut before = None;
    let (mut open_statement, mut open_list) = (false, false);
    for code in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = kind(code, open_statement);
        if needs_blank(before, line) {
            text.push('\n');
        }
        let columns = match line {
            Line::Label => 0,
            Line::Part if open_list => LIST,
            Line::Part if open_statement => FURTHER,
            _ => STATEMENT,
        };
        text.extend(std::iter::repeat_n(' ', columns));
        text.push_str(code);
        text.push('\n');
        if line != Line::Comment && line != Line::Label {
            let code = statement::code(code);
            open_statement = !code.trim_end().ends_with(';');
            open_list = match (code.rfind('{'), code.rfind('}')) {
                (Some(open), Some(close)) => open > close,
                (open, close) => open.is_some() || open_list && close.is_none(),
            };
        }
        before = Some(line);
    }
    text
}

fn kind(code: &str, open_statement: bool) -> Line {
    if open_statement {
        Line::Part
    } else if code.starts_with("//") {
        Line::Comment
    } else if code.starts_with('$') && code.ends_with(':') {
        Line::Label
    } else if code.starts_with("bra") || code.starts_with("ret") {
        Line::Leaving
    } else if statement::code(code).trim_end().ends_with(';') {
        Line::Statement
    } else {
        Line::Part
    }
}

fn needs_blank(before: Option<Line>, line: Line) -> bool {
    match (before, line) {
        (None | Some(Line::Comment | Line::Label), _) => false,
        (_, Line::Comment) => true,
        (Some(Line::Leaving), Line::Label) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::laid_out;

    #[test]
    fn lines_are_indented_by_what_they_are() {
        let body = "  // A heading.\n\n\nmov.u32 %r_a, 0;\n$loop:\nwgmma.x\n{ %f_0,\n%f_1 },\n%rd_a; // why\n  bra $loop;\n$end:\nret;";
        let text = "    // A heading.\n    mov.u32 %r_a, 0;\n$loop:\n    wgmma.x\n        { %f_0,\n          %f_1 },\n        %rd_a; // why\n    bra $loop;\n\n$end:\n    ret;\n";
        assert_eq!(laid_out(body), text);
    }

    #[test]
    fn comments_begin_paragraphs() {
        let body = "add.u32 %r_a, %r_a, 1;\n// Why.\n// More.\nadd.u32 %r_a, %r_a, 2;\n$at:\n// Here.\nret;\n";
        let text = "    add.u32 %r_a, %r_a, 1;\n\n    // Why.\n    // More.\n    add.u32 %r_a, %r_a, 2;\n$at:\n    // Here.\n    ret;\n";
        assert_eq!(laid_out(body), text);
    }
}
