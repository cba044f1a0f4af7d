//! The pages, and the blocks of code in them.

use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// A page of the documentation.
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A fenced block of code.
pub(crate) struct Block {
    pub(crate) language: String,
    /// What follows the language in the first line of the fence, as `gpu` in `sh,gpu`.
    pub(crate) marks: Vec<String>,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    pub(crate) fn events(&self) -> Parser<'_> {
        Parser::new_ext(&self.text, Options::ENABLE_TABLES)
    }

    /// The fenced blocks, in order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for event in self.events() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let mut words = info.split(',').map(|word| word.trim().to_owned());
                    let language = words.next().unwrap_or_default();
                    open = Some(Block { language, marks: words.collect(), text: String::new() });
                }
                Event::Text(text) => {
                    if let Some(block) = &mut open {
                        block.text += &text;
                    }
                }
                Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
                _ => {}
            }
        }
        blocks
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the book, in the order of their names.
pub(crate) fn book() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join("docs/src"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

/// The book, and the documents at the root and beside the benchmarks.
pub(crate) fn all() -> Vec<Page> {
    let others = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "benches/LOG.md",
        "benches/peers/README.md",
        "simulator/AGREEMENT.md",
        "simulator/INSTRUCTIONS.md",
    ];
    others.into_iter().map(|name| Page::read(root().join(name))).chain(book()).collect()
}
