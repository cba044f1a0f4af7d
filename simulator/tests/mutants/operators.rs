//! Operators that make mutants of a kernel's text. They match opcodes and operands, never the names of registers.

/// Statements with their text; comments, labels and blank lines are kept as they are.
pub(crate) fn statements(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let code = line.trim();
        let instruction = code.starts_with('@') || code.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        match out.last_mut() {
            Some(last) if open => {
                last.push('\n');
                last.push_str(line);
                open = !code.ends_with(';');
            }
            _ => {
                out.push(line.to_owned());
                open = instruction && !code.ends_with(';');
            }
        }
    }
    out
}

/// Guard, opcode and operands of a statement that is an instruction.
pub(crate) struct Parts<'s> {
    pub(crate) guard: Option<&'s str>,
    pub(crate) opcode: &'s str,
    pub(crate) operands: &'s str,
}

pub(crate) fn parts(statement: &str) -> Option<Parts<'_>> {
    let code = statement.trim().strip_suffix(';')?;
    if code.starts_with(['.', '/', '{', '}', '$']) {
        return None;
    }
    let (guard, code) = match code.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace).map(|(guard, code)| (Some(guard), code.trim_start()))?,
        None => (None, code),
    };
    let (opcode, operands) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
    Some(Parts { guard, opcode, operands })
}

pub(crate) fn join(p: &Parts<'_>, opcode: &str, operands: &str) -> String {
    let guard = p.guard.map(|guard| format!("@{guard} ")).unwrap_or_default();
    format!("    {guard}{opcode} {operands};")
}

/// What an operator makes of a statement, given the one before it.
pub(crate) type Change = fn(before: &str, statement: &str) -> Option<String>;

/// Name and change of every operator.
pub(crate) const OPERATORS: &[(&str, Change)] = &[
    ("drop a fence", |_, s| drop(s, &["fence."])),
    ("drop a barrier", |_, s| drop(s, &["bar.", "barrier."])),
    ("drop an mbarrier operation", |_, s| drop(s, &["mbarrier.init", "mbarrier.arrive"])),
    ("drop wgmma synchronisation", |_, s| drop(s, &["wgmma.fence", "wgmma.commit", "wgmma.wait"])),
    ("drop a multiplication", |_, s| drop(s, &["wgmma.mma_async", "mma.sync", "wmma.mma"])),
    ("drop a copy", |_, s| drop(s, &["cp.async", "stmatrix"])),
    ("drop setmaxnreg", |_, s| drop(s, &["setmaxnreg"])),
    ("drop a strong access", |_, s| drop(s, &["red.", "atom.", "st.relaxed", "st.release"])),
    ("drop a grid dependency", |_, s| drop(s, &["griddepcontrol.wait"])),
    ("drop an xor", |_, s| drop(s, &["xor.b32"])),
    ("drop a zero", |_, s| parts(s).filter(|p| p.operands.ends_with(", 0")).and_then(|_| drop(s, &["mov."]))),
    ("do not wait", |before, s| before.contains("try_wait").then(|| drop(s, &["bra"])).flatten()),
    ("wait for one group less", |_, s| {
        number(s, &["wgmma.wait_group", "cp.async.bulk.wait", "cp.async.wait"], |n| n + 1)
    }),
    ("one arrival more", |_, s| number(s, &["mbarrier.init"], |n| n + 1)),
    ("a quarter of the arrivals", |_, s| number(s, &["mbarrier.init"], |n| n / 4)),
    ("expect half the bytes", |_, s| number(s, &["mbarrier.arrive.expect_tx"], |n| n / 2)),
    ("expect 128 bytes more", |_, s| number(s, &["mbarrier.arrive.expect_tx"], |n| n + 128)),
    ("subtract", |_, s| word(s, &["add."], "add.", "sub.")),
    ("one more", |_, s| number(s, &["add.u32", "add.s32", "add.s64", "add.u64"], |n| n + 1)),
    ("compare with one more", |_, s| number(s, &["setp."], |n| n + 1)),
    ("or equal", |_, s| word(s, &["setp."], ".lt.", ".le.").or_else(|| word(s, &["setp."], ".gt.", ".ge."))),
    ("equal for unequal", |_, s| word(s, &["setp."], ".ne.", ".eq.").or_else(|| word(s, &["setp."], ".eq.", ".ne."))),
    ("turn the guard", |_, s| turn(s)),
    ("negate a factor", |_, s| negate(s)),
    ("relax an acquire", |_, s| word(s, &["ld.", "atom."], ".acquire", ".relaxed")),
    ("relax a cluster arrive", |_, s| relax(s)),
    ("narrow a scope", |_, s| word(s, &["ld.", "st.", "red.", "atom.", "fence."], ".gpu", ".cta")),
    ("fence global memory alone", |_, s| fence(s)),
    ("setmaxnreg the other way", |_, s| {
        word(s, &["setmaxnreg"], ".dec", ".inc").or_else(|| word(s, &["setmaxnreg"], ".inc", ".dec"))
    }),
    ("eight registers more", |_, s| number(s, &["setmaxnreg.inc"], |n| n + 8)),
    ("another descriptor", |_, s| descriptor(s)),
    ("multicast to one block", |_, s| s.contains("multicast").then(|| mask(s)).flatten()),
    ("read a constant", |_, s| word(s, &["ld.global.u32", "ld.global.v", "ld.global.f"], "ld.global", "ld.global.nc")),
];

fn drop(s: &str, opcodes: &[&str]) -> Option<String> {
    let p = parts(s)?;
    opcodes.iter().any(|o| p.opcode.starts_with(o)).then(String::new)
}

/// Changes the last operand, which is a number.
fn number(s: &str, opcodes: &[&str], change: fn(i64) -> i64) -> Option<String> {
    let p = parts(s).filter(|p| opcodes.iter().any(|o| p.opcode.starts_with(o)))?;
    let (rest, last) = p.operands.rsplit_once(' ').unwrap_or(("", p.operands));
    let n: i64 = last.parse().ok()?;
    let new = change(n);
    // Increments of 1 are counters, which the other operators change.
    (new != n && new >= 0 && !(p.opcode.starts_with("mbarrier.init") && new == 0))
        .then(|| join(&p, p.opcode, format!("{rest} {new}").trim_start()))
}

fn word(s: &str, opcodes: &[&str], from: &str, to: &str) -> Option<String> {
    let p = parts(s).filter(|p| opcodes.iter().any(|o| p.opcode.starts_with(o)) && p.opcode.contains(from))?;
    Some(join(&p, &p.opcode.replacen(from, to, 1), p.operands))
}

fn turn(s: &str) -> Option<String> {
    let p = parts(s)?;
    let guard = p.guard?;
    let turned = guard.strip_prefix('!').map_or_else(|| format!("!{guard}"), str::to_owned);
    Some(format!("    @{turned} {} {};", p.opcode, p.operands))
}

fn relax(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("barrier.cluster.arrive") && !p.opcode.contains("relaxed"))?;
    let opcode = p.opcode.replace(".release", "").replace(".arrive", ".arrive.relaxed");
    Some(join(&p, &opcode, p.operands))
}

fn fence(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("fence.proxy.async") && !p.opcode.contains("generic"))?;
    Some(join(&p, "fence.proxy.async.global", p.operands))
}

/// `scale-d, 1, 1` of a floating-point wgmma becomes `scale-d, -1, 1`.
fn negate(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("wgmma.mma_async"))?;
    let at = p.operands.rfind(", 1, 1")?;
    let operands = format!("{}, -1, 1{}", &p.operands[..at], &p.operands[at + 6..]);
    Some(join(&p, p.opcode, &operands))
}

/// Another swizzle in a descriptor.
fn descriptor(s: &str) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode == "or.b64")?;
    let (rest, last) = p.operands.rsplit_once("0x")?;
    let bits = u64::from_str_radix(last, 16).ok().filter(|bits| bits >> 62 != 0)?;
    Some(join(&p, p.opcode, &format!("{rest}{:#018x}", bits ^ 3 << 62)))
}

fn mask(s: &str) -> Option<String> {
    let (rest, last) = s.trim().strip_suffix(';')?.rsplit_once("0x")?;
    let digits: String = last.chars().take_while(char::is_ascii_hexdigit).collect();
    let all = u32::from_str_radix(&digits, 16).ok().filter(|mask| mask.count_ones() > 1)?;
    Some(format!("    {rest}{:#x}{};", all & all.wrapping_neg(), &last[digits.len()..]))
}

/// All mutants of a text by the operators, at most `most` of each, spread over the places that it fits: (name with line,
/// text). What begins with `REORDER` takes the place of the statement before as well.
pub(crate) fn mutants(text: &str, operators: &[(&str, Change)], most: usize) -> Vec<(String, String)> {
    let all = statements(text);
    let mut lines = Vec::new();
    let mut at = 1;
    for statement in &all {
        lines.push(at);
        at += statement.lines().count().max(1);
    }
    let mut out = Vec::new();
    for (name, change) in operators {
        let fits: Vec<(usize, String)> = (1..all.len())
            .filter_map(|i| parts(&all[i]).and_then(|_| change(&all[i - 1], &all[i])).map(|new| (i, new)))
            .collect();
        let count = fits.len().min(most);
        for n in 0..count {
            let (i, new) = &fits[n * fits.len() / count];
            let mut mutant = all.clone();
            let new = match new.strip_prefix("REORDER ") {
                Some(both) => {
                    mutant[i - 1] = "\n".repeat(all[i - 1].lines().count().saturating_sub(1));
                    both
                }
                None => new,
            };
            // A dropped statement leaves its line, so that findings name the lines of the kernel.
            mutant[*i] =
                format!("{new}{}", "\n".repeat(all[*i].lines().count().saturating_sub(new.lines().count().max(1))));
            let first = all[*i].trim().lines().next().unwrap_or_default();
            out.push((format!("{name} @ {}: {first}", lines[*i]), mutant.join("\n")));
        }
    }
    out
}
