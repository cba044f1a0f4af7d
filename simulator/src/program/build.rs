//! A kernel's syntax tree to its decoded program: names, layout of parameters and shared memory, labels.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use super::context::{CARRY_FLAG, Context, Names, Symbol};
use super::decode::decode;
use super::globals::Globals;
use super::op::{Op, Order, PredSrc};
use super::target::{Level, available_name};
use super::types::{Space, Ty};
use super::uses::Uses;
use super::{Inst, Limits, ParamDecl, Program, Source};
use crate::address::{LOCAL_BASE, SHARED_BASE};
use crate::parse::ast::{Directive, Entry, Function, Module, Statement, Variable};
use crate::parse::{ParseError, Parsed};

/// The most registers a kernel may declare: a thread's file is allocated whole.
const MAX_REGISTERS: usize = 1 << 16;

/// The most bytes that shared arrays of stated length may take, on every target.
const MAX_STATIC_SHARED: u32 = 49_152;

pub(super) struct Builder<'m> {
    pub(super) level: Level,
    pub(super) functions: &'m [Function],
    /// The module's names, then those of the kernel or function, then of inner scopes.
    pub(super) scopes: Vec<Names>,
    registers: Vec<String>,
    predicates: Vec<String>,
    shared_top: u32,
    pub(super) local_top: u32,
    pub(super) code: Vec<Inst>,
    /// In a function: what follows its call.
    pub(super) end: Option<u32>,
    /// Calls that have been looked at.
    pub(super) calls: Cell<u32>,
}

pub(super) fn kernel(
    module: &Module,
    entry: &Entry,
    level: Level,
    source: &Arc<Source>,
    globals: &Globals,
) -> Parsed<Program> {
    let mut b = Builder {
        level,
        functions: &module.functions,
        scopes: vec![Names { symbols: globals.symbols.clone(), ..Names::default() }],
        registers: Vec::new(),
        predicates: Vec::new(),
        shared_top: SHARED_BASE,
        local_top: LOCAL_BASE,
        code: Vec::new(),
        end: None,
        calls: Cell::new(0),
    };
    b.register(Ty::Pred, CARRY_FLAG.to_owned(), entry.name.span)?;
    // Arrays of stated length first, the dynamic array after all of them.
    let of_functions = module.functions.iter().filter_map(|f| f.body.as_ref()).flat_map(|body| shared_of(body));
    let of_module: Vec<&Variable> = module.shared.iter().chain(of_functions).collect();
    for v in of_module.iter().filter(|v| v.bytes > 0) {
        b.static_shared(v)?;
    }
    b.scopes.push(Names::default());
    let mut params = Vec::new();
    let mut offset = 0u32;
    // CUDA C++ Programming Guide, "`__global__` Function Parameters".
    let most = if level.version >= (8, 1) { 32_764 } else { 4096 };
    for p in &entry.params {
        offset = offset.next_multiple_of(p.align);
        let (name, bytes) = (p.name.text.clone(), p.bytes as u32);
        params.push(ParamDecl { name, offset, bytes, align: p.align, ty: p.ty.clone(), pointer: p.pointer });
        b.declare(p, Symbol::Param(crate::address::PARAM_BASE + offset))?;
        offset = offset.saturating_add(p.bytes as u32);
        if offset > most {
            return Err(ParseError::new(
                p.name.span,
                format!("the parameters take {offset} bytes; a kernel has {most}"),
            ));
        }
    }
    let inner = shared_of(&entry.body);
    for v in inner.iter().filter(|v| v.bytes > 0) {
        b.static_shared(v)?;
    }
    let dynamic = |list: &[&'_ Variable]| list.iter().filter(|v| v.bytes == 0).map(|v| v.align).max();
    let align = dynamic(&of_module).max(dynamic(&inner)).unwrap_or(16);
    let start = b.shared_top.next_multiple_of(align);
    for v in inner.iter().filter(|v| v.bytes == 0) {
        b.declare(v, Symbol::Shared(start))?;
    }
    for v in of_module.iter().filter(|v| v.bytes == 0) {
        b.scopes[0].symbols.insert(v.name.text.clone(), Symbol::Shared(start));
    }
    let mut at = 0;
    b.labels(&entry.body, &mut at, 0)?;
    b.body(&entry.body)?;
    b.push(0, None, Op::Exit);
    let tracked = tensor_registers(&b.code);
    let uses_griddepcontrol = b.code.iter().any(|i| matches!(i.op, Op::GridWait | Op::GridLaunch));
    let mut uses_global_atomics = false;
    for i in &mut b.code {
        let keep = |list: &[u32]| list.iter().copied().filter(|r| tracked.contains(r)).collect();
        i.reads = keep(&i.reads);
        i.writes = keep(&i.writes);
        uses_global_atomics |= match &i.op {
            Op::RedVector { .. } => true,
            Op::Atom { addr, .. } => !matches!(addr.space, Space::SharedCta | Space::SharedCluster),
            Op::Tensor(t) => t.way.reduction().is_some(),
            Op::Bulk(b) => b.way.reduction().is_some(),
            Op::Ld { addr, order: Order::Strong(_), .. } | Op::St { addr, order: Order::Strong(_), .. } => {
                matches!(addr.space, Space::Global | Space::Generic)
            }
            _ => false,
        };
    }
    Ok(Program {
        name: entry.name.text.clone(),
        target: level.target,
        params,
        param_bytes: offset,
        code: b.code,
        registers: b.registers.len(),
        predicates: b.predicates.len(),
        predicate_names: b.predicates,
        register_names: b.registers,
        globals: Arc::clone(&globals.image),
        local_bytes: b.local_top - LOCAL_BASE,
        static_shared: start - SHARED_BASE,
        limits: limits(&entry.directives, level)?,
        source: Arc::clone(source),
        uses_global_atomics,
        uses_griddepcontrol,
    })
}

fn shared_of(body: &[Statement]) -> Vec<&Variable> {
    let mut out = Vec::new();
    for s in body {
        match s {
            Statement::Shared(v) => out.push(v),
            Statement::Scope(inner) => out.extend(shared_of(inner)),
            _ => {}
        }
    }
    out
}

/// Registers that the tensor core reads or writes.
fn tensor_registers(code: &[Inst]) -> HashSet<u32> {
    let mut set = HashSet::new();
    for i in code {
        if let Op::Wgmma(w) = &i.op {
            set.extend(w.d.iter().copied());
            set.extend(w.inputs());
        }
    }
    set
}

fn limits(directives: &[Directive], level: Level) -> Parsed<Limits> {
    let mut out = Limits { min_ctas: 1, ..Limits::default() };
    for d in directives {
        available_name(level, &d.name.text, d.name.span)?;
        let three = || -> Parsed<[u32; 3]> {
            let mut v = [1u32; 3];
            if d.values.is_empty() || d.values.len() > 3 || d.values.iter().any(|x| *x == 0 || *x > 1 << 20) {
                return Err(ParseError::new(
                    d.name.span,
                    format!("`{}` takes one to three sizes of 1 or more", d.name.text),
                ));
            }
            for (slot, x) in v.iter_mut().zip(&d.values) {
                *slot = *x as u32;
            }
            Ok(v)
        };
        let one = || -> Parsed<u32> {
            match d.values.as_slice() {
                [x] if *x > 0 && *x < 1 << 20 => Ok(*x as u32),
                _ => Err(ParseError::new(d.name.span, format!("`{}` takes one number of 1 or more", d.name.text))),
            }
        };
        match d.name.text.as_str() {
            ".maxntid" => out.max_ntid = Some(three()?.iter().product()),
            ".reqntid" => out.req_ntid = Some(three()?),
            ".minnctapersm" => out.min_ctas = one()?,
            ".maxnreg" => out.max_nreg = Some(one()?),
            ".reqnctapercluster" => out.cluster = Some(three()?),
            ".maxclusterrank" => {
                one()?;
            }
            ".explicitcluster" | ".noreturn" => {}
            other => return Err(ParseError::new(d.name.span, format!("the directive `{other}` is not modelled"))),
        }
    }
    Ok(out)
}

/// The type of a register that is declared so.
fn register_type(ty: &str) -> Option<Ty> {
    ty.strip_prefix('.').and_then(Ty::parse).filter(|t| t.bits() >= 8 || *t == Ty::Pred)
}

impl Builder<'_> {
    fn scope(&mut self) -> &mut Names {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    pub(super) fn declare(&mut self, v: &Variable, symbol: Symbol) -> Parsed<()> {
        if self.scope().symbols.insert(v.name.text.clone(), symbol).is_some() {
            return Err(ParseError::new(v.name.span, format!("`{}` is declared twice", v.name.text)));
        }
        Ok(())
    }

    fn static_shared(&mut self, v: &Variable) -> Parsed<()> {
        let at = self.shared_top.next_multiple_of(v.align);
        self.shared_top = at.saturating_add(v.bytes as u32);
        let bytes = self.shared_top - SHARED_BASE;
        if bytes > MAX_STATIC_SHARED {
            return Err(ParseError::new(
                v.name.span,
                format!(
                    "shared arrays of stated length take {bytes} bytes and may take {MAX_STATIC_SHARED}; declare one as `.extern .shared .. {}[]` and request its bytes at launch",
                    v.name.text
                ),
            ));
        }
        self.declare(v, Symbol::Shared(at))
    }

    /// First pass: the index of every label of this scope (inner scopes keep theirs).
    pub(super) fn labels(&mut self, body: &[Statement], at: &mut u32, depth: u32) -> Parsed<()> {
        for s in body {
            match s {
                Statement::Label(name) if depth == 0 => {
                    let before = self.scope().labels.insert(name.text.clone(), *at);
                    if before.is_some() {
                        let text = format!("the label `{}` is defined twice", name.text);
                        return Err(ParseError::new(name.span, text));
                    }
                }
                Statement::Targets(name, list) if depth == 0 => {
                    self.scope().targets.insert(name.text.clone(), list.clone());
                }
                Statement::Instr(instr) => *at += self.length(instr, 0)?,
                Statement::Scope(inner) => self.labels(inner, at, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn register(&mut self, ty: Ty, name: String, span: crate::parse::Span) -> Parsed<()> {
        let index = if ty == Ty::Pred {
            self.predicates.push(name.clone());
            self.predicates.len() - 1
        } else {
            self.registers.push(name.clone());
            self.registers.len() - 1
        };
        if self.registers.len() + self.predicates.len() > MAX_REGISTERS {
            return Err(ParseError::new(span, format!("more than {MAX_REGISTERS} registers are declared")));
        }
        if self.scope().symbols.insert(name.clone(), Symbol::Reg(index as u32, ty)).is_some() {
            return Err(ParseError::new(span, format!("`{name}` is declared twice")));
        }
        Ok(())
    }

    /// Appends an instruction without operands in registers.
    pub(super) fn push(&mut self, line: u32, guard: Option<PredSrc>, op: Op) {
        let (reads, writes, uses) = (Box::default(), Box::default(), Uses::default());
        self.code.push(Inst { line, guard, op, reads, writes, uses });
    }

    pub(super) fn body(&mut self, body: &[Statement]) -> Parsed<()> {
        for s in body {
            match s {
                Statement::Reg { ty, name, count } => {
                    let Some(t) = register_type(&ty.text) else {
                        return Err(ParseError::new(
                            ty.span,
                            format!("`{}` is not a register type that is modelled", ty.text),
                        ));
                    };
                    match count {
                        Some(n) => {
                            for i in 0..*n {
                                self.register(t, format!("{}{i}", name.text), name.span)?;
                            }
                        }
                        None => self.register(t, name.text.clone(), name.span)?,
                    }
                }
                Statement::Scope(inner) => {
                    self.scopes.push(Names::default());
                    let mut at = self.code.len() as u32;
                    self.labels(inner, &mut at, 0)?;
                    self.body(inner)?;
                    self.scopes.pop();
                }
                Statement::Local(v) => self.local(v)?,
                Statement::Instr(instr) if instr.opcode[0].text == "call" => self.call(instr)?,
                Statement::Instr(instr) => {
                    let mut cx = Context::new(instr, &self.scopes, self.level);
                    let (mut op, guard) = decode(&mut cx)?;
                    if let ("ret", Some(end)) = (instr.opcode[0].text.as_str(), self.end) {
                        op = Op::Bra { target: end, uniform: false };
                    }
                    let mut writes = std::mem::take(&mut cx.writes);
                    let mut reads = std::mem::take(&mut cx.reads);
                    let uses = Uses::new(&op, &reads, &writes, (&cx.pred_reads, &cx.pred_writes));
                    if matches!(op, Op::Wgmma(_)) {
                        // The tensor core's own accesses are checked by its model.
                        writes.clear();
                        reads.clear();
                    }
                    self.code.push(Inst {
                        line: instr.span.line,
                        guard,
                        op,
                        reads: reads.into_boxed_slice(),
                        writes: writes.into_boxed_slice(),
                        uses,
                    });
                }
                Statement::Label(_) | Statement::Shared(_) | Statement::Targets(..) => {}
            }
        }
        Ok(())
    }
}
