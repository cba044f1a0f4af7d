//! A spec that the shell took apart, because it has no quotes.

use std::ffi::OsString;

use bsr_codegen::spec::Key;

/// What to write in place of a command line whose arguments are a spec in pieces: `bm`, `=`, `64,`, or `bm=64`, `bn=64`.
/// `None` where there is no such run of arguments.
pub(super) fn quoted(args: &[OsString]) -> Option<String> {
    let texts: Vec<&str> = args.iter().map(|arg| arg.to_str()).collect::<Option<_>>()?;
    let first = texts.iter().position(|text| begins_with_key(text))?;
    let length = texts[first..].iter().position(|text| text.starts_with("--")).unwrap_or(texts.len() - first);
    let (pieces, behind) = texts[first..].split_at(length);
    if pieces.len() < 2 || !pieces.iter().any(|piece| piece.contains('=')) {
        return None;
    }
    // `bm=64 bn=64` has no commas.
    let is_whole =
        |piece: &&str| piece.trim_end_matches(',').split_once('=').is_some_and(|(_, value)| !value.is_empty());
    let spec = match pieces.iter().all(is_whole) {
        true => pieces.iter().map(|piece| piece.trim_end_matches(',')).collect::<Vec<_>>().join(", "),
        false => pieces.join(" "),
    };
    let mut line = vec!["bsr".to_owned()];
    line.extend(texts[..first].iter().map(|text| (*text).to_owned()));
    line.push(format!("\"{spec}\""));
    line.extend(behind.iter().map(|text| (*text).to_owned()));
    Some(line.join(" "))
}

/// `bm`, `bm=64` or `bm=`, but no path.
fn begins_with_key(text: &str) -> bool {
    Key::find(text.split_once('=').map_or(text, |(name, _)| name)).is_some()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    fn of(line: &str) -> Option<String> {
        quoted(&line.split(' ').map(Into::into).collect::<Vec<_>>())
    }

    #[test]
    fn a_spec_in_pieces_is_put_together() {
        let whole = |text: &str| Some(text.to_owned());
        let spaced = "plan bm = 64, bn = 64, bk = 32 --json";
        assert_eq!(of(spaced), whole("bsr plan \"bm = 64, bn = 64, bk = 32\" --json"));
        assert_eq!(of("plan bm=64 bn=64, bk=32"), whole("bsr plan \"bm=64, bn=64, bk=32\""));
        let list = "sweep --space bm = 64, bn = [64, 128], bk = 32 --m 64";
        assert_eq!(of(list), whole("bsr sweep --space \"bm = 64, bn = [64, 128], bk = 32\" --m 64"));
        assert_eq!((of("plan spec.toml more.toml"), of("plan"), of("plan bm")), (None, None, None));
    }
}
