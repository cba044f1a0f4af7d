//! Where paths of a kernel with different numbers of records part or meet.

use std::collections::HashMap;

/// What a line is to the flow of control.
enum Line<'l> {
    Marker,
    Label(&'l str),
    /// A branch, and where it leads.
    Branch(&'l str),
    Other,
}

impl<'l> Line<'l> {
    fn new(line: &'l str, is_marker: impl Fn(&str) -> bool) -> Self {
        let code = line.trim();
        let mut words = code.split_whitespace().skip_while(|word| word.starts_with('@'));
        match words.next() {
            _ if is_marker(code) => Self::Marker,
            Some(label) if label.starts_with('$') && label.ends_with(':') => Self::Label(label.trim_end_matches(':')),
            Some(branch) if branch == "bra" || branch.starts_with("bra.") => {
                Self::Branch(words.next().unwrap_or_default().trim_end_matches(';'))
            }
            _ => Self::Other,
        }
    }
}

/// Of each line, whether it is a label or a branch between which and its branches or its label there are records on some path.
/// A loop that waits for a barrier is none, and no branch over a few instructions.
pub(super) fn joints(body: &str, is_marker: impl Fn(&str) -> bool) -> Vec<bool> {
    let lines: Vec<Line<'_>> = body.lines().map(|line| Line::new(line, &is_marker)).collect();
    let labels: HashMap<&str, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| if let Line::Label(name) = line { Some((*name, at)) } else { None })
        .collect();
    let target = |line: &Line<'_>| if let Line::Branch(name) = line { labels.get(name).copied() } else { None };
    let pairs: Vec<(usize, usize)> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, target(line)?))).collect();
    let mut is_joint = vec![false; lines.len()];
    // A joint between a branch and its label makes joints of these, too.
    loop {
        let before = is_joint.clone();
        for (branch, label) in &pairs {
            let between = branch.min(label) + 1..*branch.max(label);
            let parts = between.clone().any(|at| is_joint[at] || matches!(lines[at], Line::Marker));
            if parts || is_joint[*label] {
                (is_joint[*branch], is_joint[*label]) = (true, true);
            }
        }
        if is_joint == before {
            return is_joint;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::joints;

    fn of(body: &str) -> Vec<&str> {
        let is_joint = joints(body, |line| line.starts_with("//@"));
        body.lines().zip(is_joint).filter(|(_, is_joint)| *is_joint).map(|(line, _)| line.trim()).collect()
    }

    #[test]
    fn only_paths_with_records_part() {
        let wait = "$wait:\n    try_wait %p;\n    @!%p bra $wait;\n";
        let skip = "    @%p bra $kept;\n    mul %f;\n$kept:\n";
        assert_eq!(of(&format!("//@ end a\n{wait}//@ end b\n{skip}//@ end c\n")), [""; 0]);
        assert_eq!(of("$step:\n//@ end a\n    bra.uni $step;\n"), ["$step:", "bra.uni $step;"]);
        assert_eq!(of("    @%p bra $over;\n//@ end a\n$over:\n"), ["@%p bra $over;", "$over:"]);
    }

    #[test]
    fn what_is_across_a_joint_is_one() {
        // On the way to `$to` the records before `bra $else` have been passed, or not.
        let body = "//@ end a\n    @%p bra $to;\n    bra $else;\n$to:\n    ret;\n//@ end b\n$else:\n    ret;\n";
        assert_eq!(of(body), ["@%p bra $to;", "bra $else;", "$to:", "$else:"]);
    }
}
