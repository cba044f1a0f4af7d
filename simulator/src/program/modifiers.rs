//! The modifiers of an opcode, taken in order.

use super::context::Context;
use super::op::Scope;
use super::types::{Space, Ty};
use crate::parse::Parsed;
use crate::parse::ast::Name;

impl<'a> Context<'a> {
    pub(crate) fn head(&self) -> &'a str {
        &self.instr.opcode[0].text
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.instr.opcode.get(self.at).map(|n| n.text.as_str())
    }

    fn modifier(&self) -> Option<&'a Name> {
        self.instr.opcode.get(self.at)
    }

    /// Takes the next modifier if it is `word`.
    pub(crate) fn eat(&mut self, word: &str) -> bool {
        let yes = self.peek() == Some(word);
        self.at += usize::from(yes);
        yes
    }

    /// Takes the next modifier if it is one of `words`.
    pub(crate) fn eat_any<'w>(&mut self, words: &[&'w str]) -> Option<&'w str> {
        let found = words.iter().find(|w| self.peek() == Some(**w)).copied();
        self.at += usize::from(found.is_some());
        found
    }

    pub(crate) fn need(&mut self, words: &[&str]) -> Parsed<&'a str> {
        match self.modifier() {
            Some(n) if words.contains(&n.text.as_str()) => {
                self.at += 1;
                Ok(&n.text)
            }
            _ => self.bad_modifier(&words.iter().map(|w| format!(".{w}")).collect::<Vec<_>>().join(" or ")),
        }
    }

    pub(crate) fn bad_modifier<T>(&self, wanted: &str) -> Parsed<T> {
        let (span, found) = match self.modifier() {
            Some(n) => (n.span, format!("`.{}` of", n.text)),
            None => (self.instr.span, "the end of".into()),
        };
        self.error(span, format!("{found} `{}` is not modelled here; {wanted} is", self.opcode()))
    }

    pub(crate) fn ty(&mut self, allowed: &[Ty]) -> Parsed<Ty> {
        if let Some(t) = self.peek().and_then(Ty::parse)
            && allowed.contains(&t)
        {
            self.at += 1;
            return Ok(t);
        }
        self.bad_modifier(&allowed.iter().map(|t| format!(".{}", t.name())).collect::<Vec<_>>().join(" or "))
    }

    /// No modifier may be left over.
    pub(crate) fn end(&self) -> Parsed<()> {
        match self.modifier() {
            None => Ok(()),
            Some(n) => self.error(n.span, format!("the modifier `.{}` of `{}` is not modelled", n.text, self.opcode())),
        }
    }

    /// The next modifier, if it is a scope.
    pub(crate) fn scope(&mut self) -> Option<Scope> {
        self.eat_any(&["cta", "cluster", "gpu", "sys"]).map(|word| match word {
            "cta" => Scope::Cta,
            "cluster" => Scope::Cluster,
            _ => Scope::Device,
        })
    }

    /// The `.shared`, `.shared::cta` or `.shared::cluster` modifier, or the generic space.
    pub(crate) fn shared_space(&mut self) -> Space {
        match self.eat_any(&["shared", "shared::cta", "shared::cluster"]) {
            Some("shared::cluster") => Space::SharedCluster,
            Some(_) => Space::SharedCta,
            None => Space::Generic,
        }
    }
}
