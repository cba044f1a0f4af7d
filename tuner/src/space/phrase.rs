//! Constraints in words, for tables of reasons: people read those who have not written the space.

/// Signs with what they say, longer ones first: `<=` begins with `<`.
const SIGNS: [(&str, &str); 13] = [
    ("== ()", "is left to the plan"),
    ("!= ()", "is given"),
    ("<=", "is at most"),
    (">=", "is at least"),
    ("==", "is"),
    ("!=", "is not"),
    ("<", "is below"),
    (">", "is above"),
    ("||", "or"),
    ("&&", "and"),
    ("\"", ""),
    ("[", ""),
    ("]", ""),
];

/// `pack == () || pack * bm <= 512` as `pack is left to the plan or pack * bm is at most 512`.
pub(super) fn in_words(constraint: &str) -> String {
    let mut words = String::new();
    let mut rest = constraint;
    while let Some(first) = rest.chars().next() {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let length = match SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            Some((sign, said)) => {
                let space = if said.is_empty() { "" } else { " " };
                words.extend([space, said, space]);
                sign.len()
            }
            None if name.is_empty() => {
                if first == '!' {
                    words.push_str("not ")
                } else {
                    words.push(first)
                }
                first.len_utf8()
            }
            None => {
                words.push_str(if name == "in" { "is one of" } else { &name });
                name.len()
            }
        };
        rest = &rest[length..];
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ").replace(" )", ")")
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn constraints_are_told_in_words() {
        for (constraint, words) in [
            ("pack == () || pack * bm <= 512", "pack is left to the plan or pack * bm is at most 512"),
            (
                "cluster < 4 || (bn in [128, 256, 512] && consumers != ())",
                "cluster is below 4 or (bn is one of 128, 256, 512 and consumers is given)",
            ),
            ("op == \"sdd\"", "op is sdd"),
            ("!overlapped && plan_stages>=3", "not overlapped and plan_stages is at least 3"),
        ] {
            assert_eq!(in_words(constraint), words);
        }
    }
}
