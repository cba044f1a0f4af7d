//! Long and hostile input: few errors are printed, and the steps that reading takes grow as the length does.

#![allow(clippy::unwrap_used)]

use super::{KernelSpec, LocatedFamily, SpecErrors};
use crate::steps::count::{LINEAR, growth};

fn errors(read: impl FnOnce() -> Result<KernelSpec, SpecErrors>) -> (usize, String) {
    let errors = read().unwrap_err();
    let text = errors.to_string();
    (errors.iter().count(), text)
}

#[test]
fn of_many_errors_ten_are_printed_and_the_rest_is_counted() {
    let spec = |commas: usize| format!("bm = 64{}", ",".repeat(commas + 1)).parse::<KernelSpec>();
    let (count, text) = errors(|| spec(10_000));
    assert_eq!((count, text.matches("error: ").count()), (10_000, 11));
    assert!(text.ends_with("\n\nerror: 9990 more errors are not shown"), "{}", &text[text.len() - 80..]);
    assert!(text.len() < 400_000, "{} bytes", text.len());
    assert!(errors(|| spec(11)).1.ends_with("\n\nerror: 1 more error is not shown"));
    assert_eq!(errors(|| spec(10)).1.matches("error: expected a key, found `,`").count(), 10);
    assert!(!errors(|| spec(10)).1.contains("shown"));
    let epilogue = format!("|| {}", "x + ".repeat(30) + "acc").parse::<crate::Epilogue>().unwrap_err();
    assert_eq!(epilogue.to_string().matches("there is no `x` here").count(), 10);
    assert!(epilogue.to_string().ends_with("\n20 more errors are not shown"));
}

#[test]
fn long_text_is_refused_with_few_words() {
    const TIMES: usize = 30_000;
    let names: String = (0..TIMES).map(|name| format!("let x{name} = y{name}; ")).collect();
    let keys: String = (0..TIMES).map(|key| format!("k{key} = 3, ")).collect();
    let texts = [
        keys.clone(),
        keys.replace("= 3", "= [3, 4]"),
        "bm = 3, ".repeat(TIMES),
        "1..".repeat(TIMES),
        "{".repeat(TIMES),
        "{ } }".repeat(TIMES),
        "(".repeat(TIMES),
        format!("bm = [{}", "[".repeat(TIMES)),
        format!("bm = 64, bn = 64, bk = 64, epilogue = \"|| {}acc\"", "x + ".repeat(TIMES)),
        format!("bm = 64, bn = 64, bk = 64, epilogue = \"|| {{ {names} acc }}\""),
    ];
    for text in &texts {
        assert!(errors(|| text.parse()).1.len() < 40_000_000, "{text:.40}");
        let _ = LocatedFamily::from_text(text).is_ok();
    }
}

#[test]
fn long_toml_is_refused() {
    const TIMES: usize = 20_000;
    let lines = |line: fn(usize) -> String| (0..TIMES).map(line).collect::<String>();
    let texts = [
        lines(|key| format!("k{key} = 3\n")),
        lines(|key| format!("k{key} = \n")),
        lines(|_| "bm = 3\n".to_owned()),
        lines(|key| format!("k{key} = word\n")),
        format!("kernel = {{ {} }}", lines(|key| format!("k{key} = 3, "))),
        format!("bm = [{}]", "3, ".repeat(TIMES)),
        format!("bm = {}{}", "[".repeat(TIMES), "]".repeat(TIMES)),
        format!("bm = {}", "{ a = ".repeat(TIMES)),
    ];
    for text in &texts {
        errors(|| KernelSpec::from_toml(text));
    }
}

/// One line of text, read with errors and without.
#[test]
fn the_steps_of_a_line_grow_as_its_length() {
    type Line = fn(usize) -> String;
    type Case<'c> = (&'static str, Line, &'c dyn Fn(&str));
    let spec = |text: &str| drop(text.parse::<KernelSpec>().map_err(|errors| errors.to_string()));
    let epilogue = |text: &str| drop(text.parse::<crate::Epilogue>().map_err(|errors| errors.to_string()));
    let toml = |text: &str| drop(KernelSpec::from_toml(text).map_err(|errors| errors.to_string()));
    let cases: [Case<'_>; 9] = [
        ("keys", |n| (0..n).map(|key| format!("k{key} = 3, ")).collect(), &spec),
        ("the same key", |n| "bm = 3, ".repeat(n), &spec),
        ("a list", |n| format!("bm = [{}]", "3, ".repeat(n)), &spec),
        ("a sum", |n| format!("|| acc{}", " + acc".repeat(n)), &epilogue),
        ("a product of unknown names", |n| format!("|| acc{}", " * x".repeat(n)), &epilogue),
        (
            "names",
            |n| format!("|| {{ {} acc }}", (0..n).map(|name| format!("let x{name} = acc; ")).collect::<String>()),
            &epilogue,
        ),
        (
            "a table in a line",
            |n| format!("kernel = {{ {} }}", (0..n).map(|key| format!("k{key} = 3, ")).collect::<String>()),
            &toml,
        ),
        ("a list of TOML", |n| format!("bm = [{}]", "3, ".repeat(n)), &toml),
        ("a key of many parts", |n| format!("a{} = 3", ".a".repeat(n)), &toml),
    ];
    for (name, line, read) in cases {
        let growth = growth(200, line, read);
        assert!(growth < LINEAR, "{name}: a line eight times as long takes {growth:.1} times as many steps");
    }
}

/// Many keys, a line each.
#[test]
fn the_steps_of_toml_grow_as_the_number_of_its_keys() {
    let read = |text: &str| drop(KernelSpec::from_toml(text).map_err(|errors| errors.to_string()));
    for key in
        [|key: usize| format!("k{key} = 3\n"), |key: usize| format!("k{key} = word\n"), |_| "bm = 3\n".to_owned()]
    {
        let growth = growth(200, |keys| (0..keys).map(key).collect(), read);
        assert!(growth < LINEAR, "{}: {growth:.1} times as many steps", key(0));
    }
}
