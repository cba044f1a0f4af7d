//! Calls: a function's body is decoded anew where it is called, with registers and local memory of its own.

use super::build::Builder;
use super::context::{Context, Names, Symbol, lookup};
use super::op::Op;
use crate::parse::ast::{Function, Instr, OperandKind, Statement, Variable};
use crate::parse::{ParseError, Parsed};

/// Calls within calls; deeper ones are taken for recursion.
const DEEPEST: usize = 32;
/// The most instructions of a kernel with its calls.
const LONGEST: u32 = 1 << 20;
/// The most calls that are looked at: each is once for every call around it.
const MOST_CALLS: u32 = 1 << 20;

/// The most bytes of local memory that a thread has.
const MOST_LOCAL: u32 = 512 << 10;

/// A call's parts as written: results, function, parameters.
type Parts<'a> = (Vec<&'a str>, &'a str, Vec<&'a str>);

fn parts(instr: &Instr) -> Parsed<Parts<'_>> {
    let bad = |what: &str| Err(ParseError::new(instr.span, format!("`call` {what}")));
    fn words(kind: &OperandKind) -> Option<Vec<&str>> {
        let OperandKind::List(all) = kind else { return None };
        Some(all.iter().map(|o| if let OperandKind::Word(w) = &o.kind { w.as_str() } else { "" }).collect())
    }
    let mut operands = instr.operands.iter().peekable();
    let results = operands.peek().and_then(|o| words(&o.kind));
    if results.is_some() {
        operands.next();
    }
    let Some(OperandKind::Word(name)) = operands.next().map(|o| &o.kind) else {
        return bad("names a function");
    };
    let params = operands.next().and_then(|o| words(&o.kind)).unwrap_or_default();
    match operands.next() {
        Some(_) => bad("through an address is not modelled; a call of a function by its name is"),
        None => Ok((results.unwrap_or_default(), name, params)),
    }
}

impl<'m> Builder<'m> {
    fn function(&self, instr: &Instr) -> Parsed<&'m Function> {
        let (_, name, _) = parts(instr)?;
        let mut named = self.functions.iter().filter(|f| f.name.text == name);
        let first = named.next();
        match named.find(|f| f.body.is_some()).or(first) {
            Some(function) => Ok(function),
            None => Err(ParseError::new(instr.span, format!("the function `{name}` is not declared"))),
        }
    }

    /// Instructions that a statement becomes.
    pub(super) fn length(&self, instr: &Instr, depth: usize) -> Parsed<u32> {
        if instr.opcode[0].text != "call" {
            return Ok(1);
        }
        let Some(body) = &self.function(instr)?.body else { return Ok(1) };
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() > MOST_CALLS {
            let text = format!("the kernel has more than {MOST_CALLS} calls, with those in its functions");
            return Err(ParseError::new(instr.span, text));
        }
        if depth == DEEPEST {
            let text = format!("calls nest deeper than {DEEPEST}: recursion is not modelled");
            return Err(ParseError::new(instr.span, text));
        }
        let all = u32::from(instr.guard.is_some()) + self.length_of(body, depth + 1)?;
        if all > LONGEST {
            let text = format!("the kernel with its calls has more than {LONGEST} instructions");
            return Err(ParseError::new(instr.span, text));
        }
        Ok(all)
    }

    fn length_of(&self, body: &[Statement], depth: usize) -> Parsed<u32> {
        let mut all = 0u32;
        for s in body {
            all += match s {
                Statement::Instr(instr) => self.length(instr, depth)?,
                Statement::Scope(inner) => self.length_of(inner, depth)?,
                _ => 0,
            };
            if all > LONGEST {
                break;
            }
        }
        Ok(all)
    }

    /// What a parameter of a function is where it is called.
    fn bind(&self, instr: &Instr, formal: &Variable, actual: &str) -> Parsed<Symbol> {
        match (lookup(&self.scopes, actual), formal.register) {
            (Some(symbol @ Symbol::Local(_)), false) | (Some(symbol @ Symbol::Reg(..)), true) => Ok(symbol),
            _ => {
                let wanted = if formal.register { "a register" } else { "a `.param` variable of the call" };
                let text = format!("`{}` of the function is {wanted}; `{actual}` is not", formal.name.text);
                Err(ParseError::new(instr.span, text))
            }
        }
    }

    pub(super) fn call(&mut self, instr: &Instr) -> Parsed<()> {
        let function = self.function(instr)?;
        let (results, name, params) = parts(instr)?;
        if results.len() != function.results.len() || params.len() != function.params.len() {
            let text = format!(
                "`{name}` has {} results and {} parameters; the call has {} and {}",
                function.results.len(),
                function.params.len(),
                results.len(),
                params.len()
            );
            return Err(ParseError::new(instr.span, text));
        }
        let mut names = Names::default();
        let formals = function.results.iter().chain(&function.params);
        for (formal, actual) in formals.zip(results.into_iter().chain(params)) {
            names.symbols.insert(formal.name.text.clone(), self.bind(instr, formal, actual)?);
        }
        let Some(body) = &function.body else { return self.outside(instr, function, &names) };
        let end = self.code.len() as u32 + self.length(instr, 0)?;
        if let Some((negated, name)) = &instr.guard {
            let guard = Context::new(instr, &self.scopes, self.level).guard(!negated, name)?;
            self.push(instr.span.line, Some(guard), Op::Bra { target: end, uniform: false });
        }
        // The function sees the module's names and its own.
        let outer = self.scopes.split_off(1);
        self.scopes.push(names);
        let caller = self.end.replace(end);
        let mut at = self.code.len() as u32;
        self.labels(body, &mut at, 0)?;
        self.body(body)?;
        self.end = caller;
        self.scopes.truncate(1);
        self.scopes.extend(outer);
        Ok(())
    }

    /// A function of the driver's.
    fn outside(&mut self, instr: &Instr, function: &Function, names: &Names) -> Parsed<()> {
        let place = |v: &Variable| match names.symbols.get(&v.name.text) {
            Some(Symbol::Local(at)) => Some(*at),
            _ => None,
        };
        let op = match function.name.text.as_str() {
            "vprintf" => Op::Print { result: function.results.first().and_then(place) },
            "__assertfail" => Op::Assert { params: function.params.iter().filter_map(place).collect() },
            other => {
                let text =
                    format!("the function `{other}` is defined elsewhere; vprintf and __assertfail are modelled");
                return Err(ParseError::new(instr.span, text));
            }
        };
        let cx = Context::new(instr, &self.scopes, self.level);
        let guard = instr.guard.as_ref().map(|(negated, name)| cx.guard(*negated, name)).transpose()?;
        self.push(instr.span.line, guard, op);
        Ok(())
    }

    /// A `.local` variable, or a parameter of a call.
    pub(super) fn local(&mut self, v: &Variable) -> Parsed<()> {
        let at = self.local_top.next_multiple_of(v.align);
        self.local_top = at.saturating_add(v.bytes as u32);
        let bytes = self.local_top - crate::address::LOCAL_BASE;
        if bytes > MOST_LOCAL {
            let text = format!("local memory takes {bytes} bytes of a thread; it has {MOST_LOCAL}");
            return Err(ParseError::new(v.name.span, text));
        }
        self.declare(v, Symbol::Local(at))
    }
}
