//! The arguments of the attribute, as tokens of the spec grammar.

use bsr_codegen::spec::{Bracket, Place, Token, TokenKind};
use proc_macro2::{Delimiter, Group, Literal, Spacing, Span, TokenStream, TokenTree};
use syn::Lit;

/// The place of one token or of several: the spans of the first and of the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    pub(crate) first: Span,
    pub(crate) last: Span,
}

impl Place for Tokens {
    fn through(&self, last: &Self) -> Self {
        Self { first: self.first, last: last.last }
    }
}

impl From<Span> for Tokens {
    fn from(span: Span) -> Self {
        Self { first: span, last: span }
    }
}

/// Rust tokens as tokens of the grammar. Total: what the grammar has no token for becomes [`TokenKind::Other`].
pub(crate) fn tokens(args: TokenStream) -> Vec<Token<Tokens>> {
    let mut tokens = Vec::new();
    let mut args = args.into_iter().peekable();
    while let Some(tree) = args.next() {
        let place = Tokens::from(tree.span());
        match tree {
            TokenTree::Group(group) => tokens.extend(self::group(&group)),
            TokenTree::Ident(ident) => tokens.push(Token { kind: TokenKind::Word(ident.to_string()), place }),
            TokenTree::Punct(punct) if punct.as_char() == '.' && punct.spacing() == Spacing::Joint => {
                // `..` or `..=`, if the dots go on; a punct that is joint has another one behind it.
                let mut last = place;
                let mut next = |wanted: char| {
                    args.next_if(|tree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == wanted))
                        .inspect(|punct| last = punct.span().into())
                };
                let kind = match next('.') {
                    Some(TokenTree::Punct(dot)) => {
                        TokenKind::Range { inclusive: dot.spacing() == Spacing::Joint && next('=').is_some() }
                    }
                    _ => TokenKind::Other(".".into()),
                };
                tokens.push(Token { kind, place: place.through(&last) });
            }
            TokenTree::Punct(punct) => tokens.push(Token {
                kind: match punct.as_char() {
                    '=' => TokenKind::Equals,
                    ',' => TokenKind::Comma,
                    other => TokenKind::Other(other.into()),
                },
                place,
            }),
            TokenTree::Literal(literal) => {
                let token = self::literal(&literal, place);
                let sign = sign_of(&token.kind, &mut tokens);
                tokens.push(signed(sign, token));
            }
        }
    }
    tokens
}

/// A group as its brackets and what is between them.
fn group(group: &Group) -> Vec<Token<Tokens>> {
    let (open, close) = (group.span_open().into(), group.span_close().into());
    let bracket = match group.delimiter() {
        // What a `macro_rules` macro hands on.
        Delimiter::None => return tokens(group.stream()),
        Delimiter::Parenthesis => Bracket::Round,
        Delimiter::Bracket => Bracket::Square,
        Delimiter::Brace => {
            let place = Tokens { first: group.span_open(), last: group.span_close() };
            return vec![Token { kind: TokenKind::Other(group.to_string()), place }];
        }
    };
    let mut tokens = tokens(group.stream());
    tokens.insert(0, Token { kind: TokenKind::Open(bracket), place: open });
    tokens.push(Token { kind: TokenKind::Close(bracket), place: close });
    tokens
}

/// True where the arguments hold a list or a range, rightly or wrongly written.
pub(crate) fn hold_a_list(tokens: &[Token<Tokens>]) -> bool {
    let is_list = |kind: &TokenKind| matches!(kind, TokenKind::Open(Bracket::Square) | TokenKind::Range { .. });
    tokens.iter().any(|token| is_list(&token.kind))
}

fn literal(literal: &Literal, place: Tokens) -> Token<Tokens> {
    let text = literal.to_string();
    let kind = match syn::parse_str::<Lit>(&text) {
        Ok(Lit::Str(string)) => TokenKind::Quoted(string.value()),
        Ok(Lit::Int(_) | Lit::Float(_)) => TokenKind::Number(text),
        _ => TokenKind::Other(text),
    };
    Token { kind, place }
}

/// Takes back the sign before a number: Rust knows no signed literals, the grammar does.
fn sign_of(kind: &TokenKind, tokens: &mut Vec<Token<Tokens>>) -> Option<Token<Tokens>> {
    let is_sign =
        |token: &mut Token<Tokens>| matches!(&token.kind, TokenKind::Other(text) if text == "-" || text == "+");
    match kind {
        TokenKind::Number(_) => tokens.pop_if(is_sign),
        _ => None,
    }
}

fn signed(sign: Option<Token<Tokens>>, token: Token<Tokens>) -> Token<Tokens> {
    match (sign, token.kind) {
        (Some(Token { kind: TokenKind::Other(sign), place }), TokenKind::Number(digits)) => {
            Token { kind: TokenKind::Number(sign + &digits), place: place.through(&token.place) }
        }
        (_, kind) => Token { kind, place: token.place },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::KernelSpec;
    use bsr_codegen::spec::{Request, build, entries};
    use proc_macro2::{Span, TokenStream};

    use super::{Tokens, tokens};

    /// What the attribute reads, errors as text.
    fn read(text: &str) -> Result<KernelSpec, Vec<String>> {
        let whole = Tokens::from(Span::call_site());
        let args: TokenStream = text.parse().unwrap();
        let (entries, errors) = entries(&tokens(args), &whole);
        let request = Request { entries, signature: Vec::new(), epilogue: None, errors, whole };
        build(&request).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn attribute_and_text_read_alike() {
        for text in [
            "bm = 512, bn = 128, bk = 112",
            "bm = 0x40, bn = 1_28, bk = +32, mma = \"wgmma\", stages = auto, dtype = bf16,",
            "bm = -1, bn = 64u32, bk = 1.5",
            "bm = \"64\", bn = WIDTH, bk = true",
            "bm = 64, bn = 64, bk = 64, stage = 3, bm = 32",
            "bm: 64, bn 128, bk",
            "bm = , bn == 128, bk =",
            "bm = 8 * 8, bn = 128 bk = 32",
            "bm = [64], bn = 128, bk = (32)",
            "bm = 64, bn = 64, bk = 64, mma = wmma, a = e4m3, op = sdd, swizzle = 16",
            "bm = 64, bn = 64, bk = 64, warps = (2, 4), arch = sm_80, shape = m16n16k16, vector = 4, scale = none",
            "bm = 64, bn = [64, 128,], bk = 16..=32, stages = 3..6, warps = [(2, 4), auto]",
            "bm = 64, bn = [64 128], bk = 32..=16, stages = 3.., warps = (2, (4)), cluster = ..2, k_step = { 16 }",
            "bm = 64, bn = [], bk = [[32]], stages = [3; 2], warps = (2, 4, 1), cluster = 1. .2, swizzle = 1..-3",
            "",
        ] {
            let from_text = text.parse::<KernelSpec>();
            let mut messages = from_text.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
            let mut from_tokens = read(text);
            for errors in [&mut messages, &mut from_tokens] {
                let _ = errors.as_mut().map_err(|errors| errors.sort());
            }
            assert_eq!(from_tokens, messages, "{text}");
        }
    }
}
