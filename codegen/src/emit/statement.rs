//! What a line of a body writes and reads.

/// Instructions whose first operand follows from the others alone.
pub(super) const PURE: [&str; 21] = [
    "mov", "add", "sub", "mul", "mad", "fma", "shl", "shr", "and", "or", "xor", "not", "min", "max", "selp", "setp",
    "cvt", "cvta", "bfe", "div", "rem",
];
/// Others that write their first operand and read the rest.
const WRITERS: [&str; 2] = ["ld", "shfl"];
/// Instructions that read all of their operands.
const READERS: [&str; 5] = ["st", "stmatrix", "red", "prefetch", "mbarrier"];

/// An instruction without a predicate, on one line.
pub(super) struct Statement<'l> {
    pub(super) opcode: &'l str,
    pub(super) operands: Vec<&'l str>,
}

impl<'l> Statement<'l> {
    pub(super) fn read(line: &'l str) -> Option<Self> {
        let code = line.strip_suffix(';')?;
        let (opcode, operands) = code.split_once(' ')?;
        let is_plain = !opcode.starts_with(['@', '$', '/', '.']) && !operands.contains(['{', '[', '|']);
        is_plain.then(|| Self { opcode, operands: operands.split(',').map(str::trim).collect() })
    }

    pub(super) fn base(&self) -> &'l str {
        self.opcode.split('.').next().unwrap_or_default()
    }
}

/// Whether a plain instruction writes a register, and whether it reads it; nothing where that is unknown.
pub(super) fn effect(line: &str, register: &str) -> Option<(bool, bool)> {
    if !names(line, register) {
        return Some((false, false));
    }
    if reads_all(line) {
        return Some((false, true));
    }
    let code = line.strip_suffix(';')?;
    let (opcode, operands) = code.split_once(' ')?;
    let base = opcode.split('.').next()?;
    if !PURE.contains(&base) && !WRITERS.contains(&base) || operands.contains(['{', '|']) {
        return None;
    }
    let (first, rest) = operands.split_once(',')?;
    Some((first.trim() == register, names(rest, register)))
}

/// Does the line write no register? One that begins with an address holds the operands of a bulk copy.
pub(super) fn reads_all(line: &str) -> bool {
    let is_wait = line.starts_with("mbarrier.try_wait") || line.starts_with("mbarrier.test_wait");
    let base = line.split(['.', ' ']).next().unwrap_or_default();
    line.starts_with('[') || READERS.contains(&base) && !is_wait
}

/// Does the line end a straight line of code?
pub(super) fn transfers(line: &str) -> bool {
    let code = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')).map_or(line, |(_, code)| code);
    code.starts_with("bra") || code.starts_with("ret")
}

/// The positions of a register's name in a line, as a whole word.
pub(super) fn places<'l>(line: &'l str, register: &'l str) -> impl Iterator<Item = usize> + 'l {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(register)
        .map(|(at, _)| at)
        .filter(move |at| !line[at + register.len()..].chars().next().is_some_and(is_word))
}

pub(super) fn names(line: &str, register: &str) -> bool {
    places(line, register).next().is_some()
}
