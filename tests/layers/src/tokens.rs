//! The paths in code, read from its tokens, so that those in the arguments of macros count too.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

#[derive(Default)]
pub(crate) struct Scan {
    /// `a::b::c`, of two segments or more.
    pub(crate) paths: BTreeSet<Vec<String>>,
    /// Words that are no field, no method and no part of a longer path but its first.
    pub(crate) words: BTreeSet<String>,
    /// Fields and methods.
    pub(crate) members: BTreeSet<String>,
}

impl Scan {
    pub(crate) fn read(&mut self, code: TokenStream) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        let is = |at: usize, c: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == c);
        let joined = |at: usize| is(at, ':') && is(at + 1, ':');
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(first) => {
                    let is_member = at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.'));
                    let is_tail = at > 1 && joined(at - 2);
                    let mut path = vec![first.to_string()];
                    while joined(at + 1) {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                        path.push(next.to_string());
                        at += 3;
                    }
                    if is_member {
                        self.members.insert(first.to_string());
                    }
                    if !is_member && !is_tail {
                        self.words.insert(path[0].clone());
                        if path.len() > 1 {
                            self.paths.insert(path);
                        }
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}
