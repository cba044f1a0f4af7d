//! Instructions that compute again what their register holds are dropped, as far as a straight line of code shows it.
//!
//! Templates compute an address or a coordinate where it is used, and loops in Rust do so for each use. The second of two
//! equal instructions does nothing if no line between them writes one of its registers.

use std::collections::HashMap;

use super::statement::{Statement, Writes, may_be_pure, registers, writes};

/// The body without repeated instructions.
pub(super) fn dropped(body: &str) -> String {
    // Instructions that would change nothing if no line behind them wrote one of their registers: where they are, and these.
    let mut held: HashMap<&str, (usize, Vec<&str>)> = HashMap::new();
    // The last line that wrote each register.
    let mut written: HashMap<&str, usize> = HashMap::new();
    let mut kept = vec![];
    for (at, line) in body.lines().enumerate() {
        let is_unchanged = |(from, registers): &(usize, Vec<&str>)| {
            registers.iter().all(|register| written.get(register) <= Some(from))
        };
        let may_be_pure = may_be_pure(line);
        if may_be_pure && held.get(line).is_some_and(is_unchanged) {
            continue;
        }
        kept.push(line);
        if line.starts_with("//") {
            continue;
        }
        if line.ends_with(':') {
            held.clear();
            continue;
        }
        match writes(line) {
            // A line that begins with a register holds the descriptors of a WGMMA.
            _ if line.starts_with('%') => {}
            Writes::Nothing => {}
            Writes::First(changed, _) => {
                written.insert(changed, at);
            }
            Writes::Unknown => written.extend(registers(line).map(|register| (register, at))),
        }
        if may_be_pure && let Some(registers) = pure(line) {
            held.insert(line, (at, registers));
        }
    }
    kept.join("\n")
}

/// The registers of an instruction that could be repeated: the one that it writes is none of those that it reads.
fn pure(line: &str) -> Option<Vec<&str>> {
    let statement = Statement::read(line).filter(Statement::is_pure)?;
    let registers: Vec<&str> = statement.operands().filter(|operand| operand.starts_with('%')).collect();
    // Special registers, such as `%clock`, have values of their own.
    let is_own =
        |register: &&str| ["%r_", "%rd_", "%f_", "%d_", "%p_", "%h_"].iter().any(|class| register.starts_with(class));
    let (written, read) = registers.split_first()?;
    (registers.iter().all(is_own) && !read.contains(written)).then_some(registers)
}

#[cfg(test)]
mod tests {
    use super::dropped;

    #[test]
    fn the_second_of_two_equal_instructions_is_dropped() {
        let body = "add.s64 %rd_b_k, %rd_b, 128;\nwgmma.mma_async\n{ %f_acc0 },\n%rd_a_k, %rd_b_k, %p_add;\n\
                    // Again.\nadd.s64 %rd_b_k, %rd_b, 128;\nret;";
        assert_eq!(dropped(body).matches("add.s64").count(), 1);
        let branch = "add.u32 %r_i, %r_b, 64;\n@%p_t bra $exit;\nadd.u32 %r_i, %r_b, 64;\nret;";
        assert_eq!(dropped(branch), "add.u32 %r_i, %r_b, 64;\n@%p_t bra $exit;\nret;");
    }

    #[test]
    fn what_is_changed_in_between_is_computed_again() {
        let again = "add.u32 %r_i, %r_b, 64;";
        for between in [
            "add.u32 %r_b, %r_b, 1;",
            "@%p_t mov.u32 %r_i, 0;",
            "ld.shared.v2.u32 { %r_i, %r_c }, [%r_at];",
            "redux.sync.add.u32 %r_i, %r_c, 0xffffffff;",
            "$loop:",
            "mov.u32 %r_i, %r_c;",
        ] {
            let body = format!("{again}\n{between}\n{again}\nret;");
            assert_eq!(dropped(&body), body);
        }
        let wait = "setp.ne.u32 %p_t, %r_a, 0;\nmbarrier.try_wait.parity.shared::cta.b64 %p_t, [%r_at], %r_t;\n\
                    setp.ne.u32 %p_t, %r_a, 0;";
        assert_eq!(dropped(wait), wait);
    }

    #[test]
    fn what_follows_from_more_than_registers_is_kept() {
        for line in [
            "add.u32 %r_i, %r_i, 1;",
            "mov.u32 %r_t, %clock;",
            "ld.global.u32 %r_t, [%rd_a];",
            "@%p_t mov.u32 %r_t, 0;",
        ] {
            let body = format!("{line}\n{line}");
            assert_eq!(dropped(&body), body);
        }
    }
}
