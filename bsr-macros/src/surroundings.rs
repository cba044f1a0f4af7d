//! Where a kernel is in its file: an attribute is passed its item alone, and rustc's errors about its expansion name nothing that
//! the user wrote.
//!
//! The file is read as tokens. Where that finds nothing, as in an item that another macro made, rustc has the last word.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// Marks the kernel in its file: a word that precedes its name.
const HERE: &str = "__bsr_kernel_is_here";

/// Why no kernel can be here.
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
                "a kernel is a free item, not a part of an `impl` or a `trait`".into(),
                "move it out of the block".into(),
            ),
            Self::SecondOfName => (
                format!("this module already has a kernel `{name}`"),
                "rename one of them, or declare kernels that differ in a list of values as one family".into(),
            ),
        }
    }
}

/// What is wrong with the place of a kernel, as far as its file shows.
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
    let marked = format!("{}{HERE} {}", text.get(..at)?, &text[at..]);
    search(marked.parse().ok()?, false, name).flatten()
}

/// What is wrong with the kernel's place, if it is among these tokens of one block.
fn search(tokens: TokenStream, is_impl: bool, name: &str) -> Option<Option<Mistake>> {
    let (mut kernels, mut item) = (Vec::new(), Item::default());
    for token in tokens {
        match token {
            TokenTree::Ident(word) if word == HERE => {
                let is_second = kernels.iter().any(|kernel| kernel == name) && !item.has_cfg;
                let second = is_second.then_some(Mistake::SecondOfName);
                return Some(if is_impl { Some(Mistake::InImpl) } else { second });
            }
            TokenTree::Ident(word) => {
                let word = word.unraw().to_string();
                let is_name = item.words.last().is_some_and(|last| last == "fn" || last == "struct");
                if is_name && item.is_kernel && !item.has_cfg {
                    kernels.push(word.clone());
                }
                item.words.push(word);
            }
            TokenTree::Group(group) => {
                let is_block = group.delimiter() == Delimiter::Brace;
                let found = search(group.stream(), if is_block { item.is_impl() } else { is_impl }, name);
                if found.is_some() {
                    return found;
                }
                if is_block {
                    item = Item::default();
                } else {
                    // An attribute, or arguments, in which these words mean nothing.
                    item.is_kernel |= has_word(group.stream(), "bsr_kernel");
                    item.has_cfg |= has_word(group.stream(), "cfg");
                }
            }
            TokenTree::Punct(sign) if sign.as_char() == ';' => item = Item::default(),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    None
}

/// The item that is being read.
#[derive(Default)]
struct Item {
    /// Its words outside of brackets: `pub fn spmm`.
    words: Vec<String>,
    is_kernel: bool,
    has_cfg: bool,
}

impl Item {
    fn is_impl(&self) -> bool {
        let first = self.words.iter().find(|word| !["pub", "unsafe", "default", "auto"].contains(&word.as_str()));
        first.is_some_and(|word| word == "impl" || word == "trait")
    }
}

fn has_word(tokens: TokenStream, wanted: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == wanted,
        TokenTree::Group(group) => has_word(group.stream(), wanted),
        _ => false,
    })
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
    fn a_block_of_an_impl_differs_from_others() {
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
    fn comments_strings_and_characters_have_no_kernels() {
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
            assert_eq!(last(&format!("impl A {{ {text}{KERNEL} }}")), Some(Mistake::InImpl), "{text}");
        }
    }
}
