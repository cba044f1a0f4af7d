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
    operands: &'l str,
}

impl<'l> Statement<'l> {
    pub(super) fn read(line: &'l str) -> Option<Self> {
        let (opcode, operands) = parts(line)?;
        let is_plain =
            !matches!(opcode.as_bytes().first(), Some(b'@' | b'$' | b'/' | b'.')) && !holds(operands, b"{[|");
        is_plain.then_some(Self { opcode, operands })
    }

    pub(super) fn operands(&self) -> impl Iterator<Item = &'l str> {
        let mut rest = Some(self.operands);
        std::iter::from_fn(move || {
            let text = rest?;
            let end = find(text, 0, |letter| letter == b',');
            rest = text.get(end + 1..);
            Some(text[..end].trim_ascii())
        })
    }

    pub(super) fn base(&self) -> &'l str {
        base(self.opcode)
    }

    pub(super) fn is_pure(&self) -> bool {
        is_pure(self.base())
    }
}

// Bodies have thousands of lines, each of which is looked at many times: the functions below walk over bytes, one by one.

/// The first place from `at` on whose letter is one of some, or the end.
#[inline(always)]
fn find(text: &str, mut at: usize, is: impl Fn(u8) -> bool) -> usize {
    let letters = text.as_bytes();
    while at < letters.len() && !is(letters[at]) {
        at += 1;
    }
    at
}

/// Opcode and operands of a line that is a whole statement.
fn parts(line: &str) -> Option<(&str, &str)> {
    let code = line.strip_suffix(';')?;
    let space = find(code, 0, |letter| letter == b' ');
    Some((&code[..space], code.get(space + 1..)?))
}

/// The opcode without what follows its first word.
pub(super) fn base(code: &str) -> &str {
    &code[..find(code, 0, |letter| matches!(letter, b'.' | b' '))]
}

/// May the line be an instruction whose first operand follows from the others alone?
pub(super) fn may_be_pure(line: &str) -> bool {
    is_pure(base(line))
}

/// Is one of the operands of a line a literal 0 or 1, as far as its letters show it?
pub(super) fn may_name_zero_or_one(line: &str) -> bool {
    let letters = line.as_bytes();
    let mut at = 1;
    while at + 1 < letters.len() {
        if matches!(letters[at], b'0' | b'1')
            && matches!(letters[at - 1], b' ' | b',')
            && matches!(letters[at + 1], b' ' | b',' | b';')
        {
            return true;
        }
        at += 1;
    }
    false
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
        let (opcode, operands) = parts(line)?;
        let is_plain = is_writer(base(opcode)) && !holds(operands, b"{|");
        let comma = find(operands, 0, |letter| letter == b',');
        let rest = operands.get(comma + 1..).filter(|_| is_plain)?;
        Some(Writes::First(operands[..comma].trim_ascii(), rest))
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

/// The line without a comment at its end.
pub(super) fn code(line: &str) -> &str {
    let letters = line.as_bytes();
    let mut at = find(line, 0, |letter| letter == b'/');
    while at < letters.len() {
        if letters.get(at + 1) == Some(&b'/') {
            return &line[..at];
        }
        at = find(line, at + 1, |letter| letter == b'/');
    }
    line
}

/// Is one of these letters in the text?
fn holds<const N: usize>(text: &str, letters: &[u8; N]) -> bool {
    find(text, 0, |letter| letters.contains(&letter)) < text.len()
}

/// Does the line write no register? One that begins with an address holds the operands of a bulk copy.
pub(super) fn reads_all(line: &str) -> bool {
    let is_wait = || line.starts_with("mbarrier.try_wait") || line.starts_with("mbarrier.test_wait");
    line.starts_with('[') || is_reader(base(line)) && !is_wait()
}

/// Does the line end a straight line of code?
pub(super) fn transfers(line: &str) -> bool {
    let code = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')).map_or(line, |(_, code)| code);
    code.starts_with("bra") || code.starts_with("ret")
}

fn is_word(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || letter == b'_'
}

/// The first place from `at` on where an operand, a register's name or a number, stands as a whole word.
fn place(line: &str, operand: &str, mut at: usize) -> Option<usize> {
    let (letters, name) = (line.as_bytes(), operand.as_bytes());
    let first = *name.first()?;
    while at + name.len() <= letters.len() {
        if letters[at] == first
            && letters[at..at + name.len()] == *name
            && letters.get(at + name.len()).is_none_or(|next| !is_word(*next))
        {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The positions of an operand in a line, as a whole word.
pub(super) fn places<'l>(line: &'l str, operand: &'l str) -> impl Iterator<Item = usize> + 'l {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = place(line, operand, from)?;
        from = at + 1;
        Some(at)
    })
}

/// The names of registers in a line.
pub(super) fn registers(line: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = find(line, from, |letter| letter == b'%');
        if at == line.len() {
            return None;
        }
        from = find(line, at + 1, |letter| !is_word(letter));
        Some(&line[at..from])
    })
}

pub(super) fn names(line: &str, register: &str) -> bool {
    place(line, register, 0).is_some()
}
