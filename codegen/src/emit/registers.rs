//! Register declarations, read off the body: what is named is declared, in its class, and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::statement;

/// PTX type of each register class, by the prefix of its names.
const CLASSES: [(&str, &str); 6] =
    [("%p_", ".pred"), ("%h_", ".b16"), ("%r_", ".b32"), ("%rd_", ".b64"), ("%f_", ".f32"), ("%d_", ".f64")];

/// `.pred %p_ready, %p_lead` and so on: one line per numbered family, the rest gathered by class.
pub(super) fn declarations(body: &str) -> Vec<String> {
    let names = names(body);
    let mut lines = Vec::new();
    for (prefix, class) in CLASSES {
        let mut families: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        let mut singles = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(prefix)) {
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            match name[stem.len()..].parse() {
                Ok(number) => {
                    families.entry(stem).or_default().insert(number);
                }
                Err(_) => singles.push((*name).to_owned()),
            }
        }
        for (stem, numbers) in families {
            let count = numbers.last().map_or(0, |last| last + 1);
            lines.push(format!("{class} {stem}<{count}>"));
        }
        for line in singles.chunks(8) {
            lines.push(format!("{class} {}", line.join(", ")));
        }
    }
    lines
}

/// Every register name in the instructions of `body` (comments are skipped), in order of first appearance.
fn names(body: &str) -> Vec<&str> {
    let named = body.lines().flat_map(|line| statement::registers(statement::code(line)));
    let (mut seen, mut names) = (HashSet::new(), vec![]);
    for name in named {
        if seen.insert(name) && CLASSES.iter().any(|(prefix, _)| name.starts_with(prefix)) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::declarations;

    #[test]
    fn families_are_counted_and_special_registers_left_alone() {
        let body =
            "    mov.u32 %r_tid, %tid.x; // %r_comment\n    add.f32 %f_acc0, %f_acc12, %f_acc3;\n    @%p_t bra $x;\n";
        assert_eq!(declarations(body), [".pred %p_t", ".b32 %r_tid", ".f32 %f_acc<13>"]);
    }
}
