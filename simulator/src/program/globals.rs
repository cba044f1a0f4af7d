//! The variables of a module: where each is among them, and what they begin with.

use std::collections::HashMap;
use std::sync::Arc;

use super::context::Symbol;
use crate::parse::ast::Module;
use crate::parse::{ParseError, Parsed};

/// The most bytes that a module's variables may take.
const MOST: u64 = 1 << 28;

pub(super) struct Globals {
    pub(super) symbols: HashMap<String, Symbol>,
    pub(super) image: Arc<[u8]>,
}

impl Globals {
    pub(super) fn new(module: &Module) -> Parsed<Self> {
        let (mut symbols, mut image) = (HashMap::new(), Vec::new());
        for v in &module.globals {
            let at = image.len().next_multiple_of(v.align as usize);
            if at as u64 + v.bytes > MOST {
                let text = format!("the module's variables take more than {MOST} bytes with `{}`", v.name.text);
                return Err(ParseError::new(v.name.span, text));
            }
            image.resize(at, 0);
            image.extend_from_slice(&v.image);
            image.resize(at + v.bytes as usize, 0);
            if symbols.insert(v.name.text.clone(), Symbol::Global(at as u32)).is_some() {
                return Err(ParseError::new(v.name.span, format!("`{}` is declared twice", v.name.text)));
            }
        }
        Ok(Self { symbols, image: image.into() })
    }
}
