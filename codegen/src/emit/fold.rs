//! Instructions that do nothing are folded away: additions of zero, products with one, shifts by nothing, branches to the
//! next line.
//!
//! Templates are written for the general case, so a number of a plan may make an instruction an identity. Its result is a
//! copy of one of its operands. Where the copy is used in the same straight line of code and nowhere after, the uses name
//! the operand itself and the copy is gone; elsewhere it stays as a `mov`. A register that is zero and nothing else is a zero
//! wherever it is read. A division by one stays for ptxas to fold: without
//! it ptxas 13.0 spills a register of a `mma.sync` kernel (e5m2 to e4m3, 96x80 blocks of 80).

use super::statement::{Statement, effect, names, places, reads_all, transfers};

/// The body without instructions that do nothing.
pub(super) fn folded(body: &str) -> String {
    let mut lines: Vec<String> = body.lines().map(|line| line.trim().to_owned()).collect();
    lines.retain(|line| !line.is_empty());
    for at in 0..lines.len() {
        match Statement::read(&lines[at]).as_ref().and_then(identity) {
            Some(Identity::Copy { to, from, bits }) => {
                let is_zero = from == "0";
                if to == from
                    || replaced(&mut lines, at, &to, &from)
                    || is_zero && replaced_everywhere(&mut lines, at, &to, &from)
                {
                    lines[at].clear();
                } else {
                    lines[at] = format!("mov.{bits} {to}, {from};");
                }
            }
            Some(Identity::Sum { text }) => lines[at] = text,
            None => {}
        }
    }
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
    let bits = if statement.opcode.ends_with("64") { "b64" } else { "b32" };
    let copy = |from: &str| Some(Identity::Copy { to: statement.operands[0].to_owned(), from: from.to_owned(), bits });
    let is_f32 = statement.opcode.contains("f32");
    match (statement.base(), &statement.operands[..]) {
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
fn replaced(lines: &mut [String], at: usize, to: &str, from: &str) -> bool {
    let mut renamed = vec![];
    for (number, line) in lines.iter().enumerate().skip(at + 1) {
        if line.starts_with("//") || line.is_empty() {
            continue;
        }
        if line.ends_with(':') || transfers(line) || !names(line, to) && !names(line, from) {
            if line.ends_with(':') || transfers(line) {
                // The line ends here: nobody behind it may ask for the copy.
                if names(line, to) || lives_between_blocks(lines, to) {
                    return false;
                }
                break;
            }
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
        lines[number] = renamed_line(&lines[number], to, from);
    }
    true
}

/// Is the copy of a literal at line `at` the only value of a register, so that the literal can replace it?
fn replaced_everywhere(lines: &mut [String], at: usize, register: &str, literal: &str) -> bool {
    let named: Vec<usize> = (0..lines.len()).filter(|line| *line != at && names(&lines[*line], register)).collect();
    // An address is no place for a literal.
    let only_reads = |line: &str| !line.contains('[') && effect(line, register) == Some((false, true));
    let can = named.iter().all(|line| lines[*line].starts_with("//") || only_reads(&lines[*line]));
    if can {
        for line in named {
            lines[line] = renamed_line(&lines[line], register, literal);
        }
    }
    can
}

/// Does some straight line of code read the register before it writes it?
fn lives_between_blocks(lines: &[String], register: &str) -> bool {
    let mut is_written = false;
    for line in lines {
        if line.ends_with(':') || transfers(line) {
            if names(line, register) {
                return true;
            }
            is_written = false;
        } else if !line.starts_with("//") && names(line, register) && !is_written {
            match effect(line, register) {
                Some((true, false)) => is_written = true,
                _ => return true,
            }
        }
    }
    false
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
