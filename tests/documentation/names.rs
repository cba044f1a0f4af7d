//! What pages put in backticks exists: files and folders, Rust paths and types, commands and options of `bsr`.
//!
//! A word counts as existing where the code has it, comments left out. Pages that tell of the past, the changelog and the log of
//! measurements, are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use pulldown_cmark::Event;

use crate::pages::{Page, all, root};

const FOLDERS: [&str; 15] = [
    ".ci",
    "benches",
    "bsr-macros",
    "burn-bsr",
    "codegen",
    "docs",
    "examples",
    "python",
    "runtime",
    "simulator",
    "src",
    "templates",
    "tests",
    "trial",
    "tuner",
];

/// Read once.
static REPOSITORY: LazyLock<Repository> = LazyLock::new(Repository::read);

/// The repository's files, by their path from its root, and the words of those that are code.
struct Repository {
    files: BTreeMap<String, BTreeSet<String>>,
    words: BTreeSet<String>,
}

impl Repository {
    fn read() -> Self {
        let mut found = Self { files: BTreeMap::new(), words: BTreeSet::new() };
        let at_root = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        at_root.for_each(|path| found.add(&path));
        let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|name| root().join(name)).collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                let is_ours = !matches!(entry.file_name().to_str(), Some("target" | "__pycache__" | "node_modules"));
                match entry.file_type().unwrap().is_dir() {
                    true if is_ours => folders.push(entry.path()),
                    true => {}
                    false => found.add(&entry.path()),
                }
            }
        }
        found
    }

    fn add(&mut self, path: &Path) {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        let comment = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => "//",
            Some("py" | "pyi" | "toml") => "#",
            Some("tera" | "js" | "html" | "snap" | "txt") => "\0",
            None if name.starts_with(".ci/") => "#",
            _ => {
                self.files.insert(name, BTreeSet::new());
                return;
            }
        };
        let text = fs::read_to_string(path).unwrap_or_default();
        let code = text.lines().map(|line| line.split(comment).next().unwrap_or_default());
        let words: BTreeSet<String> = code.flat_map(words).map(str::to_owned).collect();
        self.words.extend(words.iter().cloned());
        self.files.insert(name, words);
    }

    /// Is there a file or folder of this name, from the root or at the end of a path?
    fn has_path(&self, page: &Page, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let within = format!("/{path}/");
        let ends = |name: &String| format!("/{name}/").contains(&within);
        self.files.keys().any(ends) || page.path.parent().unwrap_or(root()).join(path).exists()
    }

    /// Does a module of this name, or a file below it, have the word, or is the word a module in it?
    fn has_in_module(&self, module: &str, word: &str) -> bool {
        let (folder, file) = (format!("/{module}/"), format!("/{module}."));
        let (below, inner) = (format!("/{module}/{word}/"), format!("/{module}/{word}."));
        self.files.iter().any(|(name, words)| {
            let name = format!("/{name}");
            name.contains(&below)
                || name.contains(&inner)
                || ((name.contains(&folder) || name.contains(&file)) && words.contains(word))
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// `a/{b,c}` as `a/b` and `a/c`.
fn expand(span: &str) -> Vec<String> {
    let braces = span.find('{').and_then(|open| Some((open, open + span[open..].find('}')?)));
    let Some((open, close)) = braces else { return vec![span.to_owned()] };
    let parts = span[open + 1..close].split(',').map(str::trim);
    parts.flat_map(|part| expand(&format!("{}{part}{}", &span[..open], &span[close + 1..]))).collect()
}

/// Is it written as a path of files: `a/b`, or one name with an ending that our files have?
fn is_path(span: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    let endings = [".rs", ".md", ".toml", ".tera", ".py", ".txt", ".jsonl"];
    let has_folder = span.split_once('/').is_some_and(|(first, rest)| !first.is_empty() && !rest.is_empty());
    span.chars().all(is_name) && (has_folder || endings.iter().any(|ending| span.ends_with(ending)))
}

/// The names of a Rust path or of a type with a field or method, without arguments; none where it is neither.
fn rust_path(span: &str) -> Vec<&str> {
    let base = span.split(['(', '<', '!']).next().unwrap_or_default();
    let names: Vec<&str> = base.split("::").flat_map(|part| part.split('.')).collect();
    let is_name = |name: &&str| !name.is_empty() && words(name).eq([*name]);
    let is_type = |name: &str| name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    let is_rust = base.contains("::") || names.first().is_some_and(|name| is_type(name));
    if is_rust && names.iter().all(is_name) { names } else { vec![] }
}

/// What is wrong with a Rust path. A type, a crate, a kernel of an example and PTX's `shared::cta` say nothing of where to look.
fn missing_name(repository: &Repository, span: &str) -> Option<String> {
    const NO_MODULES: [&str; 7] = ["bsr", "burn_bsr", "bsr_codegen", "std", "crate", "spmm", "shared"];
    let names = rust_path(span);
    if let Some(name) = names.iter().find(|name| !repository.words.contains(**name)) {
        return Some(format!("no code names `{name}`"));
    }
    let modules = names.windows(2).filter(|pair| {
        span.contains(&pair.join("::")) && pair[0].starts_with(char::is_lowercase) && !NO_MODULES.contains(&pair[0])
    });
    let is_module =
        |name: &str| repository.files.keys().any(|file| format!("/{file}").contains(&format!("/{name}.rs")));
    modules
        .filter(|pair| is_module(pair[0]) && !repository.has_in_module(pair[0], pair[1]))
        .map(|pair| format!("module `{}` does not name `{}`", pair[0], pair[1]))
        .next()
}

/// What `bsr SUBCOMMAND --help` prints; none where there is no such command.
fn help(command: &str) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_bsr")).args([command, "--help"]).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What is wrong with `bsr COMMAND ..`: its name, or an option that its help does not have.
fn missing_option(span: &str, helps: &mut BTreeMap<String, Option<String>>) -> Option<String> {
    let mut parts = span.strip_prefix("bsr ")?.split_whitespace();
    let command = parts.next().filter(|word| word.starts_with(char::is_lowercase))?;
    let text = helps.entry(command.to_owned()).or_insert_with(|| help(command));
    let Some(text) = text else { return Some(format!("there is no command `bsr {command}`")) };
    let options = parts.filter(|part| part.starts_with("--")).map(|part| part.split('=').next().unwrap_or(part));
    let missing: Vec<&str> = options.filter(|option| !words_and_hyphens(text).any(|word| word == *option)).collect();
    missing.first().map(|option| format!("`bsr {command}` has no {option}"))
}

fn words_and_hyphens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '-')
}

#[test]
fn every_path_type_and_command_in_backticks_exists() {
    let repository = &*REPOSITORY;
    let (mut wrong, mut helps) = (vec![], BTreeMap::new());
    let is_history = |page: &Page| page.path.ends_with("CHANGELOG.md") || page.path.ends_with("benches/LOG.md");
    for page in all().iter().filter(|page| !is_history(page)) {
        let spans = page.events().filter_map(|event| if let Event::Code(span) = event { Some(span) } else { None });
        for span in spans.flat_map(|span| expand(&span)) {
            let why = match is_path(&span) {
                true => (!repository.has_path(page, &span)).then(|| "there is no such file or folder".to_owned()),
                false => missing_option(&span, &mut helps).or_else(|| missing_name(repository, &span)),
            };
            wrong.extend(why.map(|why| format!("{}: `{span}`: {why}", page.path.display())));
        }
    }
    assert!(wrong.is_empty(), "{} of the documents' names:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_not_there_is_found() {
    let (repository, page) = (&*REPOSITORY, Page::read(root().join("README.md")));
    assert!(repository.has_path(&page, "codegen/src/words") && !repository.has_path(&page, "codegen/src/word"));
    assert_eq!(expand("src/{bsr,dense}/x"), ["src/bsr/x", "src/dense/x"]);
    assert_eq!(missing_name(repository, "plan::KernelPlan"), None);
    assert!(missing_name(repository, &["Frobni", "cator"].concat()).is_some());
    assert!(missing_name(repository, "schedule::KernelPlan").is_some());
    let mut helps = BTreeMap::new();
    assert_eq!(missing_option("bsr bench \"bm = 64\" --json", &mut helps), None);
    assert!(missing_option("bsr plan --frobnicate", &mut helps).is_some());
    assert!(missing_option("bsr frobnicate", &mut helps).is_some());
}
