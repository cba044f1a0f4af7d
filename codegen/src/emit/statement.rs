//! What a line of a body writes and reads.

/// Does the first operand of such an instruction follow from the others alone?
fn is_pure(base: &str) -> bool {
    matches!(
        base,
        "mov" | "add" | "sub" | "mul" | "mad" | "fma" | "shl" | "shr" | "and" | "or" | "xor" | "not" | "min" | "max"
    ) || matches!(base, "selp" | "setp" | "cvt" | "cvta" | "bfe" | "div" | "rem")
}

/// Does such an instruction write its first operand and read the rest?
fn is_writer(base: &str) -> bool {
    is_pure(base) || matches!(base, "ld" | "shfl")
}

/// Does such an instruction read all of its operands?
fn is_reader(base: &str) -> bool {
    matches!(base, "st" | "stmatrix" | "red" | "prefetch" | "mbarrier")
}

/// An instruction without a predicate, on one line.
pub(super) struct Statement<'l> {
    pub(super) opcode: &'l str,
    pub(super) operands: Vec<&'l str>,
}

impl<'l> Statement<'l> {
    pub(super) fn read(line: &'l str) -> Option<Self> {
        let code = line.strip_suffix(';')?;
        let (opcode, operands) = code.split_once(' ')?;
        let is_plain = !opcode.starts_with(['@', '$', '/', '.']) && !holds(operands, b"{[|");
        is_plain.then(|| Self { opcode, operands: operands.split(',').map(str::trim_ascii).collect() })
    }

    pub(super) fn base(&self) -> &'l str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    pub(super) fn is_pure(&self) -> bool {
        is_pure(self.base())
    }
}

/// The registers that a line writes.
pub(super) enum Writes<'l> {
    Nothing,
    /// A plain instruction writes its first operand, and reads the rest.
    First(&'l str, &'l str),
    /// It may be any that the line names.
    Unknown,
}

pub(super) fn writes(line: &str) -> Writes<'_> {
    if reads_all(line) {
        return Writes::Nothing;
    }
    let plain = || {
        let (opcode, operands) = line.strip_suffix(';')?.split_once(' ')?;
        let is_plain = is_writer(opcode.split('.').next()?) && !holds(operands, b"{|");
        let (first, rest) = operands.split_once(',').filter(|_| is_plain)?;
        Some(Writes::First(first.trim_ascii(), rest))
    };
    plain().unwrap_or(Writes::Unknown)
}

/// Whether a plain instruction writes a register, and whether it reads it; nothing where that is unknown.
pub(super) fn effect(line: &str, register: &str) -> Option<(bool, bool)> {
    if !names(line, register) {
        return Some((false, false));
    }
    match writes(line) {
        Writes::Nothing => Some((false, true)),
        Writes::First(first, rest) => Some((first == register, names(rest, register))),
        Writes::Unknown => None,
    }
}

/// Is one of these letters in the text?
fn holds(text: &str, letters: &[u8]) -> bool {
    text.bytes().any(|letter| letters.contains(&letter))
}

/// Does the line write no register? One that begins with an address holds the operands of a bulk copy.
pub(super) fn reads_all(line: &str) -> bool {
    let is_wait = line.starts_with("mbarrier.try_wait") || line.starts_with("mbarrier.test_wait");
    let base = line.split(['.', ' ']).next().unwrap_or_default();
    line.starts_with('[') || is_reader(base) && !is_wait
}

/// Does the line end a straight line of code?
pub(super) fn transfers(line: &str) -> bool {
    let code = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')).map_or(line, |(_, code)| code);
    code.starts_with("bra") || code.starts_with("ret")
}

fn is_word(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || letter == b'_'
}

/// The positions of an operand, a register's name or a number, in a line, as a whole word.
pub(super) fn places<'l>(line: &'l str, operand: &'l str) -> impl Iterator<Item = usize> + 'l {
    // Most lines have few places where a name may begin, and none for a name that begins otherwise.
    let first = operand.as_bytes().first().map_or('%', |letter| char::from(*letter));
    line.match_indices(first).map(|(at, _)| at).filter(move |at| {
        let rest = line[*at..].strip_prefix(operand);
        rest.is_some_and(|rest| !rest.bytes().next().is_some_and(is_word))
    })
}

/// The names of registers in a line.
pub(super) fn registers(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('%').map(|(at, _)| {
        let letters = line.as_bytes()[at + 1..].iter().take_while(|letter| is_word(**letter)).count();
        &line[at..at + 1 + letters]
    })
}

pub(super) fn names(line: &str, register: &str) -> bool {
    places(line, register).next().is_some()
}
