//! What the driver's just-in-time compiler had to say, beside the PTX lines it speaks of.

/// The log with, under each line that names a line of the PTX, that line of the PTX.
pub(crate) fn quoted(log: &str, ptx: &str) -> String {
    let mut text = String::new();
    for line in log.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
        let number = named_line(line);
        if let Some(source) = number.and_then(|n| ptx.lines().nth(n.checked_sub(1)?)) {
            text.push_str(&format!("  {:>6} | {}\n", number.unwrap_or(0), source.trim_end()));
        }
    }
    if text.is_empty() {
        text.push_str("  the driver left no log\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// The lines of a log that a clean module does not have: warnings, spills, serialized WGMMA, ignored
/// register splits. The compiler reports most of them as mere information.
pub(crate) fn warnings(log: &str) -> Vec<&str> {
    log.lines().map(str::trim).filter(|line| is_warning(line)).collect()
}

fn is_warning(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let spills =
        lower.split(", ").filter_map(|part| part.trim().strip_suffix(" bytes spill stores")).any(|bytes| bytes != "0");
    spills
        || lower.contains("warning")
        || lower.contains("(c75")
        || lower.contains("serializ")
        || lower.contains("setmaxnreg")
}

/// The number in `..., line 17; ...`.
fn named_line(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("line ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.0\n.target sm_90a\n\tadd.u32 %r1, %r9, 1;\n";

    #[test]
    fn an_error_stands_above_the_line_it_names() {
        let log = "ptxas application ptx input, line 3; error   : Unknown symbol '%r9'\nptxas fatal   : Ptx assembly aborted due to errors\n";
        let text = quoted(log, PTX);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1].trim(), "3 | \tadd.u32 %r1, %r9, 1;");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_line_outside_of_the_text_is_not_quoted() {
        assert_eq!(quoted("error at line 99; bad", PTX), "  error at line 99; bad");
        assert_eq!(quoted("error at line 0; bad", PTX), "  error at line 0; bad");
        assert!(quoted("", PTX).contains("no log"));
    }

    #[test]
    fn information_that_is_really_a_warning_is_found() {
        let log = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...\n\
                   ptxas info    : 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : 16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n\
                   ptxas info    : Used 168 registers, used 1 barriers\n";
        let found = warnings(log);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("C7510") && found[1].contains("8 bytes spill stores"));
    }
}
