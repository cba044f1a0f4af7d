//! Where a kernel stands in its file: attributes are given their item alone, and rustc's errors about what they make of it name
//! nothing that the user wrote.
//!
//! The file is read up to the kernel's name, as far as it takes to tell blocks, words and attributes. Where that finds nothing,
//! as in an item that another macro made, rustc has the last word.

use std::iter::Peekable;
use std::str::CharIndices;

use proc_macro2::Ident;
use syn::ext::IdentExt;

/// Why no kernel can stand here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// In the block of an `impl` or a `trait`.
    InImpl,
    /// A second one of the name in one block.
    SecondOfName,
}

impl Mistake {
    /// The fact and the remedy.
    pub(crate) fn words(self, name: &Ident) -> (String, String) {
        match self {
            Self::InImpl => (
                "a kernel is an item of its own, and no part of an `impl` or a `trait`".into(),
                "move it out of the block".into(),
            ),
            Self::SecondOfName => (
                format!("there is a kernel `{name}` in this module already"),
                "give one of them another name; kernels that differ in a list of values make one family".into(),
            ),
        }
    }
}

/// What is wrong with the place of a kernel, as far as its file tells.
pub(crate) fn mistake(name: &Ident) -> Option<Mistake> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = name.span().unwrap();
    let text = std::fs::read_to_string(span.local_file()?).ok()?;
    let line_start = text.split_inclusive('\n').take(span.line().checked_sub(1)?).map(str::len).sum::<usize>();
    of(&text, line_start + span.column().checked_sub(1)?, &name.unraw().to_string())
}

/// As [`mistake`], of the kernel whose name starts at a byte of the text.
fn of(text: &str, at: usize, name: &str) -> Option<Mistake> {
    let mut reader = Reader { text, chars: text.char_indices().peekable() };
    let mut blocks = vec![Block::default()];
    while let Some((start, token)) = reader.next() {
        let block = blocks.last_mut()?;
        if start == at {
            return match block {
                Block { is_impl: true, .. } => Some(Mistake::InImpl),
                Block { kernels, item, .. } if kernels.iter().any(|kernel| kernel == name) && !item.has_cfg => {
                    Some(Mistake::SecondOfName)
                }
                _ => None,
            };
        }
        match token {
            Token::Word(word) => block.word(word),
            Token::Sign('(' | '[') => block.brackets += 1,
            Token::Sign(')' | ']') => block.brackets = block.brackets.saturating_sub(1),
            Token::Sign(';') if block.brackets == 0 => block.item = Item::default(),
            Token::Sign('{') => {
                let is_impl = block.item.is_impl();
                blocks.push(Block { is_impl, ..Block::default() });
            }
            Token::Sign('}') => {
                blocks.pop();
                blocks.last_mut()?.item = Item::default();
            }
            Token::Sign(_) => {}
        }
    }
    None
}

/// What lies between two braces, as far as it has been read.
#[derive(Default)]
struct Block {
    is_impl: bool,
    /// The names of its kernels.
    kernels: Vec<String>,
    /// The item that is being read.
    item: Item,
    /// Open round and square brackets.
    brackets: usize,
}

#[derive(Default)]
struct Item {
    /// Its words outside of brackets: `pub fn spmm`.
    words: Vec<String>,
    is_kernel: bool,
    has_cfg: bool,
}

impl Block {
    fn word(&mut self, word: &str) {
        let item = &mut self.item;
        if self.brackets > 0 {
            // Within an attribute, or in arguments, where these words say nothing.
            item.is_kernel |= word == "bsr_kernel";
            item.has_cfg |= word == "cfg";
            return;
        }
        let names = item.words.last().is_some_and(|last| last == "fn" || last == "struct");
        if names && item.is_kernel && !item.has_cfg {
            self.kernels.push(word.to_owned());
        }
        item.words.push(word.to_owned());
    }
}

impl Item {
    fn is_impl(&self) -> bool {
        let first = self.words.iter().find(|word| !["pub", "unsafe", "default", "auto"].contains(&word.as_str()));
        first.is_some_and(|word| word == "impl" || word == "trait")
    }
}

enum Token<'t> {
    Word(&'t str),
    Sign(char),
}

/// Words and signs of Rust text; comments, strings and characters are passed over.
struct Reader<'t> {
    text: &'t str,
    chars: Peekable<CharIndices<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<(usize, Token<'t>)> {
        loop {
            let (start, c) = self.chars.next()?;
            match c {
                '/' if self.rest().starts_with('/') => self.pass_through("\n"),
                '/' if self.rest().starts_with('*') => self.pass_comment(),
                '"' => self.pass_string(),
                '\'' => self.pass_character(),
                c if c.is_alphanumeric() || c == '_' => {
                    while self.chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_').is_some() {}
                    let word = &self.text[start..self.here()];
                    if ["r", "br", "cr"].contains(&word) && self.rest().starts_with(['"', '#']) {
                        let marks = self.rest().chars().take_while(|c| *c == '#').count();
                        if self.rest()[marks..].starts_with('"') {
                            self.chars.by_ref().nth(marks);
                            self.pass_through(&format!("\"{}", "#".repeat(marks)));
                            continue;
                        }
                    }
                    return Some((start, Token::Word(word)));
                }
                c if c.is_whitespace() => {}
                c => return Some((start, Token::Sign(c))),
            }
        }
    }

    fn here(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn rest(&mut self) -> &'t str {
        let here = self.here();
        &self.text[here..]
    }

    /// To behind the next `end`.
    fn pass_through(&mut self, end: &str) {
        let target = self.rest().find(end).map_or(self.text.len(), |at| self.here() + at + end.len());
        while self.chars.next_if(|(at, _)| *at < target).is_some() {}
    }

    fn pass_comment(&mut self) {
        let mut depth = 1;
        self.chars.next();
        while depth > 0 {
            let opens = self.rest().starts_with("/*");
            depth = match self.rest() {
                "" => 0,
                _ if opens => depth + 1,
                rest if rest.starts_with("*/") => depth - 1,
                _ => {
                    self.chars.next();
                    continue;
                }
            };
            self.chars.by_ref().nth(1);
        }
    }

    fn pass_string(&mut self) {
        while let Some((_, c)) = self.chars.next() {
            match c {
                '\\' => drop(self.chars.next()),
                '"' => return,
                _ => {}
            }
        }
    }

    /// `'x'` or `'\n'`, but of a lifetime the tick alone.
    fn pass_character(&mut self) {
        let mut rest = self.rest().chars();
        match (rest.next(), rest.next()) {
            (Some('\\'), _) => {
                self.chars.by_ref().nth(1);
                self.pass_through("'");
            }
            (Some(_), Some('\'')) => drop(self.chars.by_ref().nth(1)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with the last `spmm` of a text.
    fn last(text: &str) -> Option<Mistake> {
        of(text, text.rfind("spmm").expect("a kernel"), "spmm")
    }

    const KERNEL: &str = "#[bsr_kernel(bm = 64, bn = 64, bk = 32)]\npub(crate) fn spmm(a: Bsr<[f16; 1]>) -> Dense;\n";

    #[test]
    fn a_block_of_an_impl_is_told_from_others() {
        let within = |head: &str| last(&format!("use x;\n{head} {{ const X: [u8; 2] = [b'{{', 1]; {KERNEL} }}"));
        for head in
            ["impl Layer", "unsafe impl<'a> X for [u8; 4]", "pub trait Kernels: Sized", "impl<const N: usize> A<N>"]
        {
            assert_eq!(within(head), Some(Mistake::InImpl), "{head}");
        }
        for head in
            ["mod inner", "pub fn f() -> impl Copy", "kernels!", "impl A { fn f(&self)", "fn f(c: char) -> bool"]
        {
            assert_eq!(within(head), None, "{head}");
        }
    }

    #[test]
    fn a_second_kernel_of_a_name_is_found_in_its_block_alone() {
        let twice = Some(Mistake::SecondOfName);
        assert_eq!(last(KERNEL), None);
        assert_eq!(last(&format!("{KERNEL}{KERNEL}")), twice);
        assert_eq!(last(&format!("{KERNEL} fn main() {{}} {KERNEL}")), twice);
        assert_eq!(last(&format!("mod a {{ {KERNEL} }} {KERNEL}")), None);
        assert_eq!(last(&format!("{KERNEL} mod a {{ {KERNEL} }}")), None);
        assert_eq!(last(&format!("{KERNEL} #[cfg(feature = \"x\")] {KERNEL}")), None);
        assert_eq!(last(&format!("#[cfg(test)] {KERNEL} {KERNEL}")), None);
        assert_eq!(last(&format!("{KERNEL} fn other() {{ spmm }}")), None);
    }

    #[test]
    fn comments_strings_and_characters_hold_no_kernels() {
        for text in [
            "// impl X {\n",
            "/* impl X { /* { */ { */",
            "const T: &str = \"impl X { \\\" {\";",
            "const T: &str = r#\"impl X { \" {\"#;",
            "const T: char = '{'; const U: char = '\\''; const V: char = '\\u{7b}';",
            "fn f<'a>(x: &'a str) {}",
            "const T: &[u8] = br\"{\";",
        ] {
            assert_eq!(last(&format!("{text}{KERNEL}")), None, "{text}");
            assert_eq!(last(&format!("impl A {{ {text}{KERNEL}")), Some(Mistake::InImpl), "{text}");
        }
    }
}
