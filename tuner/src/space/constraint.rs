//! Expressions over the keys of a spec and the numbers of its plan, which a point must satisfy.

use std::sync::OnceLock;

use bsr_codegen::spec::Key;
use bsr_codegen::{KernelSpec, Plan, Refusal};
use rhai::{AST, Array, Dynamic, Engine, Scope};

/// Steps that one expression may take: thousands of times what a comparison needs.
const MOST_OPERATIONS: u64 = 10_000;
/// Levels of parentheses.
const MOST_DEPTH: usize = 64;
/// Bytes of an expression.
const MOST_BYTES: usize = 4096;
/// Operators with one operand, one after the other: the parser descends for each.
const MOST_SIGNS: usize = 64;

/// What a constraint can say of a plan beside the keys of its spec.
///
/// `bm`, `bn`, .. are the values that the spec gives, `()` where it leaves them to the plan; these are what the plan made
/// of them.
pub const PLAN_NAMES: [(&str, &str); 9] = [
    ("threads", "threads of a CTA"),
    ("shared_bytes", "shared memory of a CTA in bytes"),
    ("cta_m", "rows of a CTA's tile"),
    ("cta_n", "columns of a CTA's tile"),
    ("plan_stages", "stages of the ring buffer"),
    ("plan_consumers", "warpgroups that multiply, or warps"),
    ("plan_cluster", "CTAs of a cluster"),
    ("stage_k", "elements of K in a stage"),
    ("overlapped", "whether a tile is stored while the next one is computed"),
];
/// What numbers of a plan were called before: spaces that were written then are still read.
const FORMER_NAMES: [(&str, &str); 1] = [("deferred", "overlapped")];
/// The two numbers of `warps`.
const WARPS: [&str; 2] = ["warps_m", "warps_n"];

/// One expression, compiled.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    text: String,
    ast: AST,
    names: Vec<String>,
}

impl Constraint {
    /// Reads an expression of the part called `name`.
    pub(super) fn new(text: &str, name: &str) -> Result<Self, Refusal> {
        let error = |message: String, help: &str| {
            Refusal::of(name, format_args!("the constraint `{}` {message}", shortened(text))).help(help)
        };
        check_size(text).map_err(|message| error(message, "several constraints: all of them must hold"))?;
        let ast = engine().compile_expression(text).map_err(|found| {
            error(format!("is no expression: {found}"), "compare keys and numbers: \"bn * stages <= 1024\"")
        })?;
        let names = names(text);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            let planned: Vec<&str> = PLAN_NAMES.iter().map(|(name, _)| *name).collect();
            let message = format!("speaks of `{unknown}`, which is no key of a spec and no number of a plan");
            let help = format!("a key, as `bn` or `stages`; warps_m, warps_n; or of the plan {}", planned.join(", "));
            return Err(error(message, &help));
        }
        Ok(Self { text: text.to_owned(), ast, names })
    }

    /// As it is written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Does it ask for something that only a plan knows?
    pub(super) fn needs_plan(&self) -> bool {
        self.names.iter().any(|name| is_of_plan(name))
    }

    /// Is it true of a spec, and of its plan where it speaks of that?
    pub(super) fn holds(&self, spec: &KernelSpec, plan: Option<&Plan>, part: &str) -> Result<bool, Refusal> {
        let mut scope = Scope::new();
        for name in &self.names {
            scope.push_constant_dynamic(name.as_str(), value(name, spec, plan));
        }
        let unset: Vec<String> = self
            .names
            .iter()
            .filter(|name| value(name, spec, plan).is_unit())
            .map(|name| format!("`{name}` is () here, left to the plan: \"{name} == () || ..\""))
            .collect();
        let help = if unset.is_empty() { "a comparison is true or false".to_owned() } else { unset.join("; ") };
        let error = |message: String| {
            let refusal = Refusal::of(part, format_args!("the constraint `{}` {message}", self.text));
            refusal.why(format!("in the point {spec}")).help(&help)
        };
        let answer = engine()
            .eval_ast_with_scope::<Dynamic>(&mut scope, &self.ast)
            .map_err(|found| error(format!("has no answer: {found}")))?;
        answer.as_bool().map_err(|kind| error(format!("is {kind}, neither true nor false")))
    }
}

/// The beginning of a text that may be very long.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text.to_owned(),
    }
}

/// Refuses what would take the parser's stack: it descends a level for each bracket and each sign.
fn check_size(text: &str) -> Result<(), String> {
    if text.len() > MOST_BYTES {
        return Err(format!("has {} bytes; it may have {MOST_BYTES}", text.len()));
    }
    let (mut depth, mut signs) = (0_usize, 0_usize);
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        signs = if matches!(c, '!' | '-' | '+') { signs + 1 } else { 0 };
        if depth > MOST_DEPTH {
            return Err(format!("has more than {MOST_DEPTH} levels of brackets"));
        }
        if signs > MOST_SIGNS {
            return Err(format!("has more than {MOST_SIGNS} signs in a row"));
        }
    }
    Ok(())
}

/// Expressions alone: no statements, no functions of its own, nothing that reads or prints.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut engine = Engine::new_raw();
        engine.set_max_operations(MOST_OPERATIONS);
        engine.set_max_expr_depths(MOST_DEPTH);
        // An expression that makes an expression would get round every limit.
        engine.disable_symbol("eval");
        engine.set_max_string_size(1000);
        engine.set_max_array_size(1000);
        engine.register_fn("min", |x: i64, y: i64| x.min(y));
        engine.register_fn("max", |x: i64, y: i64| x.max(y));
        engine.register_fn("contains", |list: &mut Array, number: i64| {
            list.iter().any(|element| element.as_int().is_ok_and(|element| element == number))
        });
        engine.register_fn("contains", |list: &mut Array, word: &str| {
            list.iter().any(|element| element.clone().into_immutable_string().is_ok_and(|element| element == word))
        });
        engine.register_fn("contains", |list: &mut Array, (): ()| list.iter().any(Dynamic::is_unit));
        engine
    })
}

fn is_known(name: &str) -> bool {
    Key::find(name).is_some() || WARPS.contains(&name) || is_of_plan(name)
}

fn is_of_plan(name: &str) -> bool {
    PLAN_NAMES.iter().chain(&FORMER_NAMES).any(|(planned, _)| *planned == name)
}

/// The names that an expression speaks of: identifiers that are no words of the language and no functions.
fn names(text: &str) -> Vec<String> {
    const WORDS: [&str; 6] = ["true", "false", "if", "else", "in", "switch"];
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' | '`' | '\'' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            _ if is_part(first) => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        let is_name = is_part(first) && !first.is_ascii_digit();
        let is_function = after.trim_start().starts_with('(');
        if is_name && !is_function && !WORDS.contains(&word) && found.iter().all(|known| known != word) {
            found.push(word.to_owned());
        }
        rest = after;
    }
    found
}

/// The value of a name: numbers are numbers, words are strings, what is left to the plan is `()`.
fn value(name: &str, spec: &KernelSpec, plan: Option<&Plan>) -> Dynamic {
    let number = |number: u32| Dynamic::from(i64::from(number));
    match name {
        "warps_m" => return spec.warps.map_or(Dynamic::UNIT, |(m, _)| number(m)),
        "warps_n" => return spec.warps.map_or(Dynamic::UNIT, |(_, n)| number(n)),
        _ => {}
    }
    if let Some(key) = Key::find(name) {
        return match spec.value(key) {
            text if text == "auto" => Dynamic::UNIT,
            text => text.parse::<i64>().map_or_else(|_| Dynamic::from(text), Dynamic::from),
        };
    }
    let Some(plan) = plan else { return Dynamic::UNIT };
    let profile = plan.profile();
    match FORMER_NAMES.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| now) {
        "threads" => number(plan.threads()),
        "shared_bytes" => number(plan.shared_bytes()),
        "cta_m" => number(profile.cta_m),
        "cta_n" => number(profile.cta_n),
        "plan_stages" => number(profile.stages),
        "plan_consumers" => number(profile.consumers),
        "plan_cluster" => number(profile.cluster),
        "stage_k" => number(profile.stage_k),
        "overlapped" => Dynamic::from(profile.overlapped),
        _ => Dynamic::UNIT,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn holds(text: &str, spec: &str) -> Result<bool, String> {
        let spec: KernelSpec = spec.parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let constraint = Constraint::new(text, "here").map_err(|error| error.to_string())?;
        constraint.holds(&spec, Some(&plan), "here").map_err(|error| error.to_string())
    }

    #[test]
    fn keys_words_and_numbers_of_the_plan_are_compared() {
        let spec = "bm = 128, bn = 256, bk = 64, stages = 3, schedule = strided";
        for (text, expected) in [
            ("bn * stages <= 768", true),
            ("bn * stages < 768", false),
            ("cluster == () || bn <= 128", true),
            ("cluster != ()", false),
            ("schedule == \"strided\" && mma == \"wgmma\"", true),
            ("shared_bytes <= 232448 && threads == 384", true),
            ("plan_stages == stages && plan_cluster == 1 && stage_k == 64", true),
            ("bn in [128, 256] && schedule in [(), \"strided\"]", true),
            ("cluster in [1, 2]", false),
            ("max(bm, bn) == 256 && min(bm, bn) == 128", true),
            ("warps_m == ()", true),
            ("if bm > 64 { overlapped } else { false }", true),
            ("overlapped == deferred", true),
        ] {
            assert_eq!(holds(text, spec), Ok(expected), "{text}");
        }
        assert_eq!(
            holds("warps_m * warps_n == 8", "bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (2, 4)"),
            Ok(true)
        );
    }

    #[test]
    fn wrong_expressions_are_quoted_and_explained() {
        let spec = "bm = 128, bn = 256, bk = 64";
        let mut report = String::new();
        for text in [
            "bn * stages <= 1024",
            "bn <=",
            "stagse > 2",
            "bn + 1",
            "let x = 1; x == 1",
            "bn / 0 == 1",
            "print(bn) == ()",
        ] {
            let error = holds(text, spec).unwrap_err();
            assert!(error.contains(&format!("`{text}`")) && error.contains("help: "), "{error}");
            report += &format!("{error}\n\n");
        }
        insta::assert_snapshot!(report);
    }

    #[test]
    fn no_expression_runs_for_long() {
        let long = format!("{}1 == 1", "1 + ".repeat(20_000));
        assert!(holds(&long, "bm = 128, bn = 256, bk = 64").is_err());
        let deep = format!("{}1{} == 1", "(".repeat(500), ")".repeat(500));
        assert!(holds(&deep, "bm = 128, bn = 256, bk = 64").is_err());
    }

    #[test]
    fn deep_expressions_and_eval_are_refused_with_a_reason() {
        let spec = "bm = 128, bn = 256, bk = 64";
        for (open, close) in
            [("(", ")"), ("[", "]"), ("#{a: ", "}"), ("if true { ", " }"), ("!", ""), ("- ", ""), ("`${", "}`")]
        {
            for count in [2_000, 200_000] {
                let error = holds(&format!("{}1{} == 1", open.repeat(count), close.repeat(count)), spec).unwrap_err();
                let end: String = error.chars().rev().take(400).collect::<Vec<_>>().into_iter().rev().collect();
                assert!(error.contains("it may have 4096") || error.contains("more than 64"), "{open}: {end}");
                assert!(error.len() < 1000, "{open}: {} bytes of error", error.len());
            }
        }
        let error = holds("eval(\"bm == 128\")", spec).unwrap_err();
        assert!(error.contains("eval"), "{error}");
    }
}
