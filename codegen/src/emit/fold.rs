//! Instructions that do nothing are folded away: additions of zero, products with one, shifts by nothing, branches to the
//! next line.
//!
//! Templates are written for the general case, so a number of a plan may make an instruction an identity. Its result is a
//! copy of one of its operands. Where the copy is used in the same straight line of code and nowhere after, the uses name
//! the operand itself and the copy is gone; elsewhere it stays as a `mov`. A register that is zero and nothing else is a zero
//! wherever it is read. A division by one stays for ptxas to fold: without
//! it ptxas 13.0 spills a register of a `mma.sync` kernel (e5m2 to e4m3, 96x80 blocks of 80).

use std::collections::HashMap;

use super::statement::{
    Statement, effect, may_be_pure, may_name_zero_or_one, names, places, reads_all, registers, transfers,
};

/// The body without instructions that do nothing.
pub(super) fn folded(body: &str) -> String {
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut lines = Lines::new(lines.map(str::to_owned).collect());
    for at in 0..lines.all.len() {
        let line = &lines.all[at];
        let may_be_one = may_be_pure(line) && (line.starts_with("mov") || may_name_zero_or_one(line));
        let statement = if may_be_one { Statement::read(line) } else { None };
        match statement.as_ref().and_then(identity) {
            Some(Identity::Copy { to, from, bits }) => {
                let is_zero = from == "0";
                if to == from
                    || replaced(&mut lines, at, &to, &from)
                    || is_zero && replaced_everywhere(&mut lines, at, &to, &from)
                {
                    lines.set(at, String::new());
                } else {
                    lines.set(at, format!("mov.{bits} {to}, {from};"));
                }
            }
            Some(Identity::Sum { text }) => lines.set(at, text),
            None => {}
        }
    }
    let mut lines = lines.all;
    lines.retain(|line| !line.is_empty());
    without_idle_branches(&lines)
}

enum Identity {
    /// The instruction copies an operand.
    Copy { to: String, from: String, bits: &'static str },
    /// A multiply-add with a factor of one is an addition.
    Sum { text: String },
}

/// What the statement comes to, where that is less than it says.
fn identity(statement: &Statement<'_>) -> Option<Identity> {
    let operands: Vec<&str> = statement.operands().collect();
    let bits = if statement.opcode.ends_with("64") { "b64" } else { "b32" };
    let copy = |from: &str| Some(Identity::Copy { to: operands[0].to_owned(), from: from.to_owned(), bits });
    let is_f32 = statement.opcode.contains("f32");
    match (statement.base(), &operands[..]) {
        ("mov", [to, from]) if to == from => copy(from),
        _ if is_f32 || statement.opcode.contains("wide") || statement.opcode.contains("pred") => None,
        ("add" | "sub" | "shl" | "shr" | "or" | "xor", [_, from, "0"]) => copy(from),
        ("add" | "or" | "xor", [_, "0", from]) => copy(from),
        ("mul", [_, from, "1"]) => copy(from),
        ("mul", [_, _, "0"] | [_, "0", _]) => copy("0"),
        ("mad", [_, _, "0", from] | [_, "0", _, from]) => copy(from),
        ("mad", [to, factor, "1", more]) => {
            let kind = if bits == "b64" { "s64" } else { "u32" };
            Some(Identity::Sum { text: format!("add.{kind} {to}, {factor}, {more};") })
        }
        _ => None,
    }
}

/// Has what is copied at line `at` its own name in all that uses the copy, so that the copy is not needed?
fn replaced(lines: &mut Lines, at: usize, to: &str, from: &str) -> bool {
    let mut renamed = vec![];
    for (number, line) in lines.all.iter().enumerate().skip(at + 1) {
        if line.starts_with("//") || line.is_empty() {
            continue;
        }
        if lines.is_end(number) {
            // Nobody behind it may ask for the copy.
            if names(line, to) || lines.lives_between_blocks(to) {
                return false;
            }
            break;
        }
        if !names(line, to) && !names(line, from) {
            continue;
        }
        let Some((writes, reads_to)) = effect(line, to) else { return false };
        if reads_to {
            renamed.push(number);
        }
        if writes {
            break;
        }
        match effect(line, from) {
            Some((false, _)) => {}
            // The operand changes: the copy must not be used afterwards.
            _ if names(line, from) => return false,
            _ => {}
        }
    }
    for number in renamed {
        lines.set(number, renamed_line(&lines.all[number], to, from));
    }
    true
}

/// Is the copy of a literal at line `at` the only value of a register, so that the literal can replace it?
fn replaced_everywhere(lines: &mut Lines, at: usize, register: &str, literal: &str) -> bool {
    let named: Vec<usize> = lines.naming(register).filter(|line| *line != at).collect();
    // An address is no place for a literal.
    let only_reads = |line: &str| !line.contains('[') && effect(line, register) == Some((false, true));
    let can = named.iter().all(|line| lines.all[*line].starts_with("//") || only_reads(&lines.all[*line]));
    if can {
        for line in named {
            lines.set(line, renamed_line(&lines.all[line], register, literal));
        }
    }
    can
}

/// The lines of a body, and where they name each register.
struct Lines {
    all: Vec<String>,
    /// The straight line of code that each is in: labels and branches end one.
    blocks: Vec<usize>,
    /// By register, the lines that name it or have named it, in order.
    named: HashMap<String, Vec<usize>>,
}

impl Lines {
    fn new(all: Vec<String>) -> Self {
        let mut named: HashMap<String, Vec<usize>> = HashMap::new();
        let mut blocks = Vec::with_capacity(all.len());
        let mut block = 0;
        for (at, line) in all.iter().enumerate() {
            block += usize::from(ends_block(line));
            blocks.push(block);
            for register in registers(line) {
                note(&mut named, register, at);
            }
        }
        Self { all, blocks, named }
    }

    fn set(&mut self, at: usize, line: String) {
        for register in registers(&line) {
            note(&mut self.named, register, at);
        }
        self.all[at] = line;
    }

    /// Does the line end a straight line of code?
    fn is_end(&self, at: usize) -> bool {
        self.blocks[at] != at.checked_sub(1).map_or(0, |before| self.blocks[before])
    }

    /// The lines that name the register.
    fn naming<'l>(&'l self, register: &'l str) -> impl Iterator<Item = usize> + 'l {
        let noted = self.named.get(register).into_iter().flatten().copied();
        noted.filter(|at| names(&self.all[*at], register))
    }

    /// Does some straight line of code read the register before it writes it?
    fn lives_between_blocks(&self, register: &str) -> bool {
        let mut written_in = None;
        for at in self.naming(register) {
            let line = &self.all[at];
            if self.is_end(at) {
                return true;
            }
            if line.starts_with("//") || written_in == Some(self.blocks[at]) {
                continue;
            }
            match effect(line, register) {
                Some((true, false)) => written_in = Some(self.blocks[at]),
                _ => return true,
            }
        }
        false
    }
}

/// Notes that a line names a register.
fn note(named: &mut HashMap<String, Vec<usize>>, register: &str, at: usize) {
    let Some(lines) = named.get_mut(register) else {
        named.insert(register.to_owned(), vec![at]);
        return;
    };
    if let Err(place) = lines.binary_search(&at) {
        lines.insert(place, at);
    }
}

fn ends_block(line: &str) -> bool {
    line.ends_with(':') || transfers(line)
}

/// The line with another name for what it reads.
fn renamed_line(line: &str, from: &str, to: &str) -> String {
    let first = if reads_all(line) { 0 } else { line.find(',').unwrap_or(0) };
    let (mut text, mut done) = (String::new(), 0);
    for at in places(line, from).filter(|at| *at >= first) {
        text.push_str(&line[done..at]);
        text.push_str(to);
        done = at + from.len();
    }
    text + &line[done..]
}

/// The lines without branches to the label that follows.
fn without_idle_branches(lines: &[String]) -> String {
    let next = |at: usize| lines[at + 1..].iter().find(|line| !line.starts_with("//"));
    let is_idle = |(at, line): &(usize, &String)| {
        let target = line.strip_suffix(';').filter(|_| transfers(line)).and_then(|code| code.rsplit(' ').next());
        target.is_some_and(|target| next(*at).and_then(|label| label.strip_suffix(':')) == Some(target))
    };
    let kept = lines.iter().enumerate().filter(|line| !is_idle(line));
    kept.map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn a_copy_that_is_used_on_the_spot_is_gone() {
        let body = "mad.lo.u32 %r_t, %r_consumer, 0, %r_smem;\nbfe.u32 %r_t, %r_t, 4, 14;\nret;";
        assert_eq!(folded(body), "bfe.u32 %r_t, %r_smem, 4, 14;\nret;");
        let chain = "shr.u32 %r_t, %r_row, 0;\nand.b32 %r_t, %r_t, 7;\nxor.b32 %r_c, %r_t, 0;\nadd.u32 %r_st0, %r_s, %r_c;\nret;";
        assert_eq!(folded(chain), "and.b32 %r_t, %r_row, 7;\nadd.u32 %r_st0, %r_s, %r_t;\nret;");
    }

    #[test]
    fn a_copy_that_is_used_behind_a_label_stays() {
        let body = "add.u32 %r_a, %r_b, 0;\n$loop:\nadd.u32 %r_b, %r_a, 1;\nbra $loop;";
        assert_eq!(folded(body), "mov.b32 %r_a, %r_b;\n$loop:\nadd.u32 %r_b, %r_a, 1;\nbra $loop;");
    }

    #[test]
    fn a_copy_whose_operand_changes_stays() {
        let body = "add.u32 %r_a, %r_b, 0;\nadd.u32 %r_b, %r_b, 1;\nadd.u32 %r_c, %r_a, %r_b;\nret;";
        assert_eq!(folded(body), "mov.b32 %r_a, %r_b;\nadd.u32 %r_b, %r_b, 1;\nadd.u32 %r_c, %r_a, %r_b;\nret;");
    }

    #[test]
    fn products_with_one_are_sums_and_branches_to_the_next_line_are_gone() {
        let body = "mad.lo.u32 %r_a, %r_b, 1, %r_c;\nadd.s64 %rd_a, %rd_a, 0;\nbra $leave;\n// Here.\n$leave:\nret;";
        assert_eq!(folded(body), "add.u32 %r_a, %r_b, %r_c;\n// Here.\n$leave:\nret;");
    }

    #[test]
    fn a_register_that_is_always_zero_is_gone() {
        let body =
            "mul.lo.u32 %r_col, %r_c, 0;\n$tile:\nadd.u32 %r_t, %r_work, %r_col;\nmov.u32 %r_work, 8;\nbra $tile;";
        assert_eq!(folded(body), "$tile:\nmov.b32 %r_t, %r_work;\nmov.u32 %r_work, 8;\nbra $tile;");
        for other in ["add.u32 %r_col, %r_col, 1;", "@%p_t mov.u32 %r_col, 1;", "ld.shared.u32 %r_t, [%r_col];"] {
            let body = format!("mul.lo.u32 %r_col, %r_c, 0;\n$tile:\nadd.u32 %r_t, %r_t, %r_col;\n{other}\nbra $tile;");
            assert!(folded(&body).starts_with("mov.b32 %r_col, 0;\n$tile:\nadd.u32 %r_t, %r_t, %r_col;"));
        }
    }

    #[test]
    fn predicated_instructions_are_left_alone() {
        let body = "@%p_t add.u32 %r_a, %r_b, 0;\nret;";
        assert_eq!(folded(body), body);
    }
}
