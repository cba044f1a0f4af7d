//! The modifiers of an opcode, taken in order.

use super::context::Context;
use super::op::Scope;
use super::types::{Space, Ty};
use crate::parse::Parsed;
use crate::parse::ast::Name;

const SCOPES: &[(&str, Scope)] =
    &[("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Device), ("sys", Scope::Device)];

const SHARED: &[(&str, Space)] =
    &[("shared", Space::SharedCta), ("shared::cta", Space::SharedCta), ("shared::cluster", Space::SharedCluster)];

fn one_of<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.map(|word| format!(".{word}")).collect::<Vec<_>>().join(" or ")
}

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

    /// How many words of the opcode have been taken.
    pub(crate) fn at(&self) -> usize {
        self.at
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

    /// Takes the next modifier if the table has it, and returns what stands beside it there.
    pub(crate) fn choose_any<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let found = table.iter().find(|(word, _)| self.peek() == Some(*word)).map(|(_, value)| *value);
        self.at += usize::from(found.is_some());
        found
    }

    /// The same of a modifier that must be there.
    pub(crate) fn choose<T: Copy>(&mut self, table: &[(&str, T)]) -> Parsed<T> {
        match self.choose_any(table) {
            Some(value) => Ok(value),
            None => self.bad_modifier(&one_of(table.iter().map(|(word, _)| *word))),
        }
    }

    /// The row whose name is the opcode, as far as modifiers tell the rows of one first word apart: these are taken. None
    /// where no row has this first word.
    pub(crate) fn row<'t, R>(&mut self, rows: &'t [R], name: fn(&R) -> &'static str) -> Parsed<Option<&'t R>> {
        let word = |row: &R, at: usize| name(row).split('.').nth(at);
        let mut all: Vec<&R> = rows.iter().filter(|row| word(row, 0) == Some(self.head())).collect();
        for at in 1.. {
            let mut words: Vec<&str> = all.iter().filter_map(|row| word(row, at)).collect();
            words.dedup();
            let Some(taken) = self.eat_any(&words) else {
                let ends = all.iter().find(|row| word(row, at).is_none()).copied();
                return if words.is_empty() || ends.is_some() { Ok(ends) } else { self.need(&words).map(|_| None) };
            };
            all.retain(|row| word(row, at) == Some(taken));
        }
        Ok(None)
    }

    /// Whether the opcode has this word anywhere.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.instr.opcode.iter().any(|name| name.text == word)
    }

    /// `.sync.aligned`
    pub(crate) fn sync_aligned(&mut self) -> Parsed<()> {
        self.need(&["sync"])?;
        self.need(&["aligned"])?;
        Ok(())
    }

    pub(crate) fn need(&mut self, words: &[&str]) -> Parsed<&'a str> {
        match self.modifier() {
            Some(n) if words.contains(&n.text.as_str()) => {
                self.at += 1;
                Ok(&n.text)
            }
            _ => self.bad_modifier(&one_of(words.iter().copied())),
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
        self.bad_modifier(&one_of(allowed.iter().map(|t| t.name())))
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
        self.choose_any(SCOPES)
    }

    /// The `.shared`, `.shared::cta` or `.shared::cluster` modifier, or the generic space.
    pub(crate) fn shared_space(&mut self) -> Space {
        self.choose_any(SHARED).unwrap_or(Space::Generic)
    }
}
