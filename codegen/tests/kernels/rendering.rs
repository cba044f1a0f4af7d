//! Every plan renders to tidy PTX: nothing undefined, nothing declared in vain, nothing used undeclared.

use std::collections::{BTreeMap, BTreeSet};

use bsr_codegen::solver::{Method, SolverModule};
use bsr_codegen::{Dtype, KernelSpec, Plan};

use crate::matrix;
use crate::rendered::fingerprint_of;

#[test]
fn every_plan_of_the_matrix_renders_tidily() {
    let mut complaints = vec![];
    for plan in matrix::plans() {
        let (spec, ptx) = (plan.spec(), plan.ptx());
        let text = ptx.text();
        let found = [head(&plan, text), whitespace(text), leftovers(text), registers(text), labels(text), braces(text)];
        complaints.extend(found.into_iter().flatten().map(|what| format!("{spec}\n    {what}")));
        assert_eq!(fingerprint_of(&plan), ptx.fingerprint(), "{spec}: the same plan, another text");
    }
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}",
        complaints.len(),
        complaints[..complaints.len().min(24)].join("\n")
    );
}

#[test]
fn the_kernels_that_list_work_have_no_instructions_that_do_nothing() {
    let text = bsr_codegen::lists::ptx();
    let complaints: Vec<String> = text
        .split(".visible .entry")
        .skip(1)
        .flat_map(|kernel| useless_lines(kernel.split("\n}\n").next().unwrap()))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(!text.contains("{{") && !text.contains("<%") && text.lines().all(|line| line.trim_end() == line), "{text}");
}

#[test]
fn the_kernels_that_measure_roofs_have_no_instructions_that_do_nothing() {
    for kernel in bsr_codegen::roofs::RoofKernel::ALL {
        let text = kernel.ptx();
        assert_eq!(useless_lines(&text), [""; 0], "{text}");
        assert!(!text.contains("{{") && !text.contains("<%"), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }
}

#[test]
fn the_kernels_of_solvers_have_no_instructions_that_do_nothing() {
    for module in solvers() {
        let text = module.ptx();
        for kernel in text.split(".visible .entry").skip(1) {
            assert_eq!(useless_lines(kernel.split("\n}\n").next().unwrap()), [""; 0], "{module:?}: {kernel}");
        }
        assert!(!text.contains("{{") && !text.contains("<%"), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }
}

/// Every module of vector kernels of a solver; of GMRES with the shortest and the longest cycles too.
pub(crate) fn solvers() -> impl Iterator<Item = SolverModule> {
    let blocks = [None].into_iter().chain((1..=SolverModule::MOST_ROWS).map(Some));
    blocks.flat_map(|block| {
        let cycles = [1, Method::MOST_RESTART].map(|restart| Method::Gmres { restart });
        let methods =
            Method::ALL.into_iter().chain(cycles.into_iter().filter(move |_| block.is_none_or(|rows| rows == 3)));
        methods.flat_map(move |method| {
            [Dtype::F64, Dtype::F32].map(|dtype| SolverModule::new(method, dtype, block).unwrap())
        })
    })
}

/// Instructions that a person would not have written.
pub(crate) fn useless_lines(text: &str) -> Vec<String> {
    let mut complaints = vec![];
    let body: Vec<&str> = text.lines().skip_while(|line| *line != "{").collect();
    let code = body.iter().map(|line| line.trim()).filter(|line| !line.is_empty() && !line.starts_with("//"));
    let code: Vec<&str> = code.collect();
    let at_margin = body.iter().filter(|line| line.starts_with(|c: char| !c.is_whitespace()) && !line.starts_with('$'));
    complaints.extend(at_margin.filter(|line| !["{", "}"].contains(line)).map(|line| format!("margin: {line}")));
    complaints.extend(code.iter().filter(|line| is_identity(line)).map(|line| format!("identity: {line}")));
    complaints.extend((0..code.len()).filter(|at| is_repeated(&code[*at..])).map(|at| format!("twice: {}", code[at])));
    complaints.extend(code.windows(2).filter(|pair| branches_to(pair[0], pair[1])).map(|pair| pair.join(" ")));
    complaints
}

/// Does an integer instruction copy one of its operands, or a `mov` a register to itself? Divisions by one are left to ptxas
/// (`emit/fold.rs` says why).
fn is_identity(line: &str) -> bool {
    let code = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')).map_or(line, |(_, code)| code);
    let Some((opcode, operands)) = code.trim_end_matches(';').split_once(' ') else { return false };
    let operands: Vec<&str> = operands.split(',').map(str::trim).collect();
    if opcode.contains("f32") || opcode.contains("pred") {
        return false;
    }
    match (opcode.split('.').next().unwrap_or_default(), &operands[..]) {
        ("mov", [to, from]) => to == from,
        ("add" | "sub" | "shl" | "shr" | "or" | "xor", [_, _, last]) => *last == "0",
        ("mul", [_, _, last]) => ["0", "1"].contains(last) && !opcode.contains("wide"),
        ("mad", [_, _, factor, _]) => ["0", "1"].contains(factor) && !opcode.contains("wide"),
        _ => false,
    }
}

/// Is the first of these additions written again, although only bulk copies and WGMMAs name its registers in between?
fn is_repeated(code: &[&str]) -> bool {
    let Some((_, operands)) =
        code[0].trim_end_matches(';').split_once(' ').filter(|(opcode, _)| opcode.starts_with("add."))
    else {
        return false;
    };
    let registers: Vec<&str> = operands.split(", ").filter(|operand| operand.starts_with('%')).collect();
    let named = |line: &str| {
        let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "[]{},;".contains(c)).collect();
        !line.starts_with(['[', '%']) && registers.iter().any(|register| words.contains(register))
    };
    let reads_what_it_writes = registers[1..].contains(&registers[0]);
    let ends = |line: &&&str| line.ends_with(':') || **line == code[0] || named(line);
    !reads_what_it_writes && code[1..].iter().find(ends).is_some_and(|line| *line == code[0])
}

fn branches_to(line: &str, next: &str) -> bool {
    let label = next.strip_suffix(':').filter(|label| label.starts_with('$'));
    label.is_some_and(|label| line.contains("bra") && line.trim_end_matches(';').ends_with(&format!(" {label}")))
}

#[test]
fn the_matrix_reaches_every_value_of_every_axis() {
    let specs: Vec<KernelSpec> = matrix::plans().iter().map(|plan| *plan.spec()).collect();
    assert!((100..=260).contains(&specs.len()), "{} specs", specs.len());
    let count = |values: Vec<String>| values.into_iter().collect::<BTreeSet<_>>().len();
    let axis = |of: &dyn Fn(&KernelSpec) -> String| count(specs.iter().map(of).collect());
    assert!(axis(&|s| s.bm.to_string()) >= 8, "bm");
    assert!(axis(&|s| s.bk.to_string()) >= 9, "bk");
    assert_eq!(axis(&|s| s.bn.to_string()), 8, "bn");
    assert!(axis(&|s| format!("{} {} {}", s.a, s.b, s.out)) >= 16, "types");
    assert_eq!(axis(&|s| format!("{} {}", s.b_layout, s.c_layout)), 4, "layouts");
    assert_eq!(axis(&|s| format!("{} {}", s.op, s.transpose)), 5, "operations");
    assert_eq!(axis(&|s| format!("{} {}", s.out, s.c_layout)), 10, "stagings");
    assert_eq!(axis(&|s| s.scale.to_string()), 4, "scales");
    assert!(axis(&|s| format!("{:?}", s.cluster)) >= 4, "cluster");
    assert!(axis(&|s| format!("{:?}", s.stages)) >= 5, "stages");
    assert!(axis(&|s| format!("{:?}", s.k_step)) >= 5, "k_step");
    assert_eq!(axis(&|s| format!("{:?}", s.swizzle)), 3, "swizzle");
    assert_eq!(axis(&|s| format!("{:?}", s.consumers)), 3, "consumers");
}

#[test]
fn equal_texts_have_equal_fingerprints_and_others_do_not() {
    let mut seen = BTreeMap::new();
    for plan in matrix::plans() {
        let print = fingerprint_of(&plan);
        assert!(print.len() == 16 && print.bytes().all(|b| b.is_ascii_hexdigit()), "{print}");
        let twin = seen.insert(print, *plan.spec());
        assert_eq!(twin, None, "the head of the text is its spec, so no two are alike");
    }
}

/// Line 1 is the spec, line 2 the plan; the entry is the one that the launcher asks for.
fn head(plan: &Plan, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().take(5).collect();
    let mut wrong = vec![];
    let written = lines[0].strip_prefix("// ").and_then(|spec| spec.parse().ok());
    if written != Some(*plan.spec()) {
        wrong.push(format!("line 1 is not the spec: {}", lines[0]));
    }
    if lines[1].strip_prefix("// ") != Some(plan.summary().as_str()) {
        wrong.push(format!("line 2 is not the plan: {}", lines[1]));
    }
    let arch = plan.arch();
    // Tensor maps in global memory are fenced, which came with PTX 8.3.
    let version = if plan.spec().batch.is_on() { "8.3" } else { arch.ptx_version };
    for line in [
        format!(".version {version}"),
        format!(".target {}", arch.target),
        format!(".visible .entry {}(", plan.entry()),
    ] {
        if !text.lines().any(|l| l == line) {
            wrong.push(format!("no line `{line}`"));
        }
    }
    wrong
}

/// No tabs, no spaces before a line's end, no two blank lines, one newline at the end; inside of the body labels
/// stand at the margin and all else is indented.
fn whitespace(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    let lines: Vec<&str> = text.lines().collect();
    let mut body = false;
    for (at, line) in lines.iter().enumerate() {
        let mut complain = |what: &str| wrong.push(format!("line {}: {what}: `{line}`", at + 1));
        if !line.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            complain("a tab or another character that is not printable ASCII");
        }
        if line.ends_with(' ') {
            complain("a space at the end");
        }
        if line.is_empty() && at > 0 && lines[at - 1].is_empty() {
            complain("two blank lines");
        }
        match *line {
            "{" => body = true,
            "}" => body = false,
            _ if body && !line.is_empty() && line.starts_with('$') != line.ends_with(':') => {
                complain("a label not at the margin");
            }
            _ if body && !line.is_empty() && !line.starts_with('$') && !line.starts_with("    ") => {
                complain("an instruction at the margin");
            }
            _ => {}
        }
    }
    if !text.ends_with("}\n") {
        wrong.push("the last line is not a closing brace".to_owned());
    }
    wrong
}

/// Nothing of the templates' language, no value that a number was not found for.
fn leftovers(text: &str) -> Vec<String> {
    ["<%", "%>", "<#", "#>", "{{", "}}", "undefined", "None", "Some(", "null", "NaN", "[object", "[array"]
        .into_iter()
        .filter(|word| text.contains(word))
        .map(|word| format!("`{word}` in the text"))
        .collect()
}

/// What is declared is what is named: every register, and every family up to its last member.
fn registers(text: &str) -> Vec<String> {
    let (mut declared, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    let mut used = BTreeSet::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        let names = code
            .split('%')
            .skip(1)
            .map(|tail| {
                let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && !"_<>.".contains(c));
                tail[..end.unwrap_or(tail.len())].to_owned()
            })
            .filter(|name| ["p_", "r_", "rd_", "f_"].iter().any(|c| name.starts_with(c)));
        if !code.starts_with(".reg") {
            used.extend(names);
            continue;
        }
        for name in names {
            match name.strip_suffix('>').and_then(|n| n.split_once('<')) {
                Some((family, count)) => {
                    let count: u32 = count.parse().unwrap();
                    declared.extend((0..count).map(|i| format!("{family}{i}")));
                    wanted.insert(format!("{family}{}", count - 1));
                }
                None => {
                    declared.insert(name.clone());
                    wanted.insert(name);
                }
            }
        }
    }
    let list = |names: Vec<&String>, what: &str| (!names.is_empty()).then(|| format!("registers {what}: {names:?}"));
    let undeclared = list(used.difference(&declared).collect(), "used and not declared");
    let unused = list(wanted.difference(&used).collect(), "declared and not used");
    undeclared.into_iter().chain(unused).collect()
}

/// Every label is defined once and is the target of a branch, and every branch has its label.
fn labels(text: &str) -> Vec<String> {
    let mut wrong = vec![];
    let (mut defined, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        if let Some(label) = code.strip_suffix(':') {
            if !defined.insert(label) {
                wrong.push(format!("label {label} is defined twice"));
            }
        } else if let Some((_, target)) = code.split_once("bra") {
            targets.insert(target.trim_start_matches(".uni").trim().trim_end_matches(';'));
        }
    }
    // Labels that only say where we are may be fallen into.
    let spoken = ["$producer"];
    for label in defined.difference(&targets) {
        if !spoken.contains(label) {
            wrong.push(format!("nothing branches to {label}"));
        }
    }
    wrong.extend(targets.difference(&defined).map(|t| format!("no label {t}")));
    wrong
}

fn braces(text: &str) -> Vec<String> {
    let count = |c: char| text.matches(c).count();
    let pairs = [('{', '}'), ('[', ']'), ('(', ')')];
    pairs
        .into_iter()
        .filter(|(open, close)| count(*open) != count(*close))
        .map(|(open, close)| format!("`{open}` and `{close}` do not pair up"))
        .collect()
}
