//! Names, operands and modifiers of one instruction while it is decoded.

use std::collections::HashMap;

use super::operand::{Addr, PredSrc, Reg, Src};
use super::target::{Level, available_name};
use super::types::{Space, Special, Ty, WITHOUT_VALUE};
use crate::parse::ast::{Instr, Name, Operand, OperandKind};
use crate::parse::{ParseError, Parsed, Span};

/// The condition code register's carry flag, a predicate of each thread that texts cannot name.
pub(crate) const CARRY_FLAG: &str = "CC.CF";

/// What a name means in a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Symbol {
    Reg(Reg, Ty),
    /// Address in the shared window of a block.
    Shared(u32),
    /// Address in parameter space.
    Param(u32),
    /// Address in a thread's local memory; of calls, parameters too.
    Local(u32),
    /// Place among the variables of the module.
    Global(u32),
}

#[derive(Default)]
pub(crate) struct Names {
    pub(crate) symbols: HashMap<String, Symbol>,
    /// Label to (instruction index).
    pub(crate) labels: HashMap<String, u32>,
    /// Lists of labels, of `.branchtargets`.
    pub(crate) targets: HashMap<String, Vec<Name>>,
}

/// Inner scopes first.
pub(crate) struct Context<'a> {
    pub(crate) instr: &'a Instr,
    pub(crate) scopes: &'a [Names],
    pub(super) level: Level,
    pub(super) at: usize,
    pub(crate) reads: Vec<Reg>,
    pub(crate) writes: Vec<Reg>,
    /// The same of predicates.
    pub(crate) pred_reads: Vec<Reg>,
    pub(crate) pred_writes: Vec<Reg>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(instr: &'a Instr, scopes: &'a [Names], level: Level) -> Self {
        let (reads, writes, pred_reads, pred_writes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { instr, scopes, level, at: 1, reads, writes, pred_reads, pred_writes }
    }

    pub(crate) fn error<T>(&self, span: Span, message: impl Into<String>) -> Parsed<T> {
        Err(ParseError::new(span, message))
    }

    pub(super) fn opcode(&self) -> String {
        self.instr.opcode.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(".")
    }

    pub(crate) fn operands(&self) -> usize {
        self.instr.operands.len()
    }

    pub(crate) fn count(&self, least: usize, most: usize) -> Parsed<()> {
        let n = self.operands();
        if (least..=most).contains(&n) {
            return Ok(());
        }
        let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        self.error(self.instr.span, format!("`{}` takes {wanted} operands and has {n}", self.opcode()))
    }

    pub(crate) fn operand(&self, i: usize) -> Parsed<&'a Operand> {
        match self.instr.operands.get(i) {
            Some(o) => Ok(o),
            None => self.error(self.instr.span, format!("`{}` lacks operand {}", self.opcode(), i + 1)),
        }
    }

    fn lookup(&self, name: &str) -> Option<Symbol> {
        lookup(self.scopes, name)
    }

    fn unknown<T>(&self, span: Span, name: &str) -> Parsed<T> {
        self.error(span, format!("`{name}` is not declared"))
    }

    fn reg_named(&self, name: &str, span: Span, ty: Ty) -> Parsed<Reg> {
        match self.lookup(name) {
            Some(Symbol::Reg(r, declared)) if declared.fits(ty) => Ok(r),
            Some(Symbol::Reg(_, declared)) => self.error(
                span,
                format!("`{name}` is a .{} register where `{}` needs .{}", declared.name(), self.opcode(), ty.name()),
            ),
            Some(_) => self.error(span, format!("`{name}` is not a register")),
            None => self.unknown(span, name),
        }
    }

    /// Any register of at least the type's width (loads and conversions), with its declared type.
    fn wide_named(&self, name: &str, span: Span, ty: Ty) -> Parsed<(Reg, u32)> {
        match self.lookup(name) {
            Some(Symbol::Reg(r, declared)) if declared != Ty::Pred && declared.bits() >= ty.bits() => {
                Ok((r, declared.bits()))
            }
            Some(Symbol::Reg(_, declared)) => {
                self.error(span, format!("`{name}` is a .{} register, too narrow for .{}", declared.name(), ty.name()))
            }
            _ => self.unknown(span, name),
        }
    }

    /// The list of written registers, or predicates.
    fn written(&mut self, ty: Ty) -> &mut Vec<Reg> {
        if ty == Ty::Pred { &mut self.pred_writes } else { &mut self.writes }
    }

    pub(crate) fn dst_of(&mut self, o: &Operand, ty: Ty) -> Parsed<Reg> {
        match &o.kind {
            OperandKind::Word(w) => {
                let r = self.reg_named(w, o.span, ty)?;
                self.written(ty).push(r);
                Ok(r)
            }
            _ => self.error(o.span, "the destination is a register"),
        }
    }

    pub(crate) fn dst(&mut self, i: usize, ty: Ty) -> Parsed<Reg> {
        let o = self.operand(i)?;
        self.dst_of(o, ty)
    }

    /// A destination, or none for `_`.
    pub(crate) fn sink(&mut self, i: usize, ty: Ty) -> Parsed<Option<Reg>> {
        let o = self.operand(i)?;
        if matches!(&o.kind, OperandKind::Word(w) if w == "_") { Ok(None) } else { self.dst_of(o, ty).map(Some) }
    }

    /// `%p|%q` or `%p`, each possibly `_`; the types of both sides.
    pub(crate) fn pair(&mut self, i: usize, left: Ty, right: Ty) -> Parsed<(Option<Reg>, Option<Reg>)> {
        let o = self.operand(i)?;
        let (l, r) = match &o.kind {
            OperandKind::Pair(l, r) => (l.as_str(), Some(r.as_str())),
            OperandKind::Word(l) => (l.as_str(), None),
            _ => return self.error(o.span, "the destination is a register or a pair of registers `a|b`"),
        };
        let l = if l == "_" { None } else { Some(self.reg_named(l, o.span, left)?) };
        let r = match r {
            None | Some("_") => None,
            Some(r) => Some(self.reg_named(r, o.span, right)?),
        };
        self.written(left).extend(l);
        self.written(right).extend(r);
        Ok((l, r))
    }

    /// The destination of a load: wider registers are allowed; gives the width.
    pub(crate) fn wide_dst_of(&mut self, o: &Operand, ty: Ty) -> Parsed<(Option<Reg>, u32)> {
        match &o.kind {
            OperandKind::Word(w) if w == "_" => Ok((None, ty.bits())),
            OperandKind::Word(w) => {
                let (r, bits) = self.wide_named(w, o.span, ty)?;
                self.writes.push(r);
                Ok((Some(r), bits))
            }
            _ => self.error(o.span, "the destination is a register"),
        }
    }

    fn constant(&self, o: &Operand, ty: Ty) -> Parsed<Option<u64>> {
        Ok(Some(match &o.kind {
            OperandKind::Int(_) if ty.float() && !matches!(ty, Ty::F16x2 | Ty::Bf16x2) => {
                return self.error(
                    o.span,
                    format!("an integer constant where .{} is needed; write 0f... or a decimal point", ty.name()),
                );
            }
            OperandKind::Int(v) => {
                let fits =
                    ty.bits() == 64 || *v <= ty.mask() || (*v as i64) >= -(1i64 << (ty.bits() - 1)) && (*v as i64) < 0;
                if !fits {
                    return self.error(o.span, format!("the constant {} does not fit .{}", *v as i64, ty.name()));
                }
                v & ty.mask()
            }
            OperandKind::F32(b) if ty == Ty::F64 => f64::from(f32::from_bits(*b)).to_bits(),
            OperandKind::F32(b) if ty.bits() == 32 => u64::from(*b),
            OperandKind::F64(b) if ty.bits() == 64 => *b,
            OperandKind::F64(b) if ty == Ty::F32 => u64::from((f64::from_bits(*b) as f32).to_bits()),
            OperandKind::F32(_) | OperandKind::F64(_) => {
                return self.error(o.span, format!("a floating-point constant where .{} is needed", ty.name()));
            }
            _ => return Ok(None),
        }))
    }

    pub(crate) fn src_of(&mut self, o: &Operand, ty: Ty) -> Parsed<Src> {
        if let Some(v) = self.constant(o, ty)? {
            return Ok(Src::Imm(v));
        }
        let (word, offset) = match &o.kind {
            OperandKind::Word(w) => (w.as_str(), 0),
            OperandKind::Sum(w, offset) => (w.as_str(), *offset),
            _ => return self.error(o.span, format!("`{}` needs a register or a constant here", self.opcode())),
        };
        if word == "WARP_SZ" {
            return Ok(Src::Imm(32));
        }
        match self.lookup(word) {
            Some(Symbol::Reg(..)) => {
                if offset != 0 {
                    return self.error(o.span, "an offset is allowed only in an address or after a symbol");
                }
                let r = self.reg_named(word, o.span, ty)?;
                self.reads.push(r);
                Ok(Src::Reg(r))
            }
            Some(Symbol::Shared(a)) if ty.bits() >= 32 => Ok(Src::Shared((i64::from(a) + offset) as u32)),
            Some(Symbol::Param(a) | Symbol::Local(a)) if ty.bits() >= 32 => {
                Ok(Src::Imm((i64::from(a) + offset) as u64 & ty.mask()))
            }
            Some(Symbol::Global(a)) if ty.bits() == 64 => Ok(Src::Global((i64::from(a) + offset) as u32)),
            Some(_) => self.error(o.span, format!("the address `{word}` does not fit .{}", ty.name())),
            None => match Special::parse(word) {
                Some((s, declared)) if declared.bits() == ty.bits() || (declared == Ty::U32 && ty.bits() == 16) => {
                    available_name(self.level, word, o.span)?;
                    Ok(Src::Special(s))
                }
                Some((_, declared)) => {
                    self.error(o.span, format!("`{word}` is .{} where .{} is needed", declared.name(), ty.name()))
                }
                None if WITHOUT_VALUE.iter().any(|name| word.starts_with(name)) && self.lookup(word).is_none() => self
                    .error(
                        o.span,
                        format!("the special register `{word}` is not modelled: it has no value in a simulation"),
                    ),
                None => self.unknown(o.span, word),
            },
        }
    }

    pub(crate) fn src(&mut self, i: usize, ty: Ty) -> Parsed<Src> {
        let o = self.operand(i)?;
        self.src_of(o, ty)
    }

    /// The source of a store or conversion: a wider register is allowed.
    pub(crate) fn wide_src_of(&mut self, o: &Operand, ty: Ty) -> Parsed<Src> {
        if let OperandKind::Word(w) = &o.kind
            && let Some(Symbol::Reg(..)) = self.lookup(w)
        {
            let (r, _) = self.wide_named(w, o.span, ty)?;
            self.reads.push(r);
            return Ok(Src::Reg(r));
        }
        self.src_of(o, ty)
    }

    pub(crate) fn pred(&mut self, i: usize) -> Parsed<PredSrc> {
        let o = self.operand(i)?;
        let (word, negated) = match &o.kind {
            OperandKind::Word(w) => (w, false),
            OperandKind::Not(w) => (w, true),
            // True is 1, and compilers write -1.
            OperandKind::Int(v @ (0 | 1 | u64::MAX)) => return Ok(PredSrc { reg: None, negated: *v == 0 }),
            _ => return self.error(o.span, "a predicate register is needed here"),
        };
        if word == "%is_explicit_cluster" {
            return self.error(o.span, "`%is_explicit_cluster` is not modelled as an operand");
        }
        let reg = self.reg_named(word, o.span, Ty::Pred)?;
        self.pred_reads.push(reg);
        Ok(PredSrc { reg: Some(reg), negated })
    }

    /// Whether operand `i` is a predicate, negated or not.
    pub(crate) fn is_predicate(&self, i: usize) -> Parsed<bool> {
        Ok(match &self.operand(i)?.kind {
            OperandKind::Not(_) => true,
            OperandKind::Word(w) => matches!(self.lookup(w), Some(Symbol::Reg(_, Ty::Pred))),
            _ => false,
        })
    }

    /// The carry flag, of which the instruction reads or writes, or both.
    pub(crate) fn carry_flag(&mut self, takes: bool, gives: bool) -> Parsed<Reg> {
        let flag = self.reg_named(CARRY_FLAG, self.instr.span, Ty::Pred)?;
        if takes {
            self.pred_reads.push(flag);
        }
        if gives {
            self.pred_writes.push(flag);
        }
        Ok(flag)
    }

    pub(crate) fn guard(&self, negated: bool, name: &Name) -> Parsed<PredSrc> {
        Ok(PredSrc { reg: Some(self.reg_named(&name.text, name.span, Ty::Pred)?), negated })
    }

    pub(crate) fn imm(&self, i: usize) -> Parsed<u64> {
        let o = self.operand(i)?;
        match o.kind {
            OperandKind::Int(v) => Ok(v),
            _ => self.error(o.span, "this operand is a constant"),
        }
    }

    /// The operands of `{...}`, or the single operand itself.
    pub(crate) fn vector(&self, i: usize) -> Parsed<Vec<&'a Operand>> {
        let o = self.operand(i)?;
        Ok(match &o.kind {
            OperandKind::Vector(v) => v.iter().collect(),
            _ => vec![o],
        })
    }

    pub(crate) fn src_regs(&mut self, i: usize, ty: Ty) -> Parsed<Vec<Reg>> {
        let mut out = Vec::new();
        for o in self.vector(i)? {
            match self.src_of(o, ty)? {
                Src::Reg(r) => out.push(r),
                _ => return self.error(o.span, "this list can have only registers"),
            }
        }
        Ok(out)
    }

    pub(crate) fn dst_regs(&mut self, i: usize, ty: Ty) -> Parsed<Vec<Reg>> {
        let list = self.vector(i)?;
        list.into_iter().map(|o| self.dst_of(o, ty)).collect()
    }

    /// `[base + offset]`; a symbol names its own space.
    pub(crate) fn addr(&mut self, i: usize, space: Space) -> Parsed<Addr> {
        let o = self.operand(i)?;
        self.addr_of(o, space)
    }

    pub(crate) fn addr_of(&mut self, o: &Operand, space: Space) -> Parsed<Addr> {
        let OperandKind::Address { base, offset, rest } = &o.kind else {
            return self.error(o.span, "an address `[register + offset]` is needed here");
        };
        if !rest.is_empty() {
            return self.error(o.span, "this address has no coordinates");
        }
        self.base(base.as_deref(), *offset, space)
    }

    pub(crate) fn base(&mut self, base: Option<&Operand>, offset: i64, space: Space) -> Parsed<Addr> {
        let Some(base) = base else {
            return Ok(Addr { base: Src::Imm(0), offset, space });
        };
        let OperandKind::Word(word) = &base.kind else {
            return self.error(base.span, "an address starts with a register or a symbol");
        };
        let shared = matches!(space, Space::SharedCta | Space::SharedCluster);
        let own = matches!(space, Space::Param | Space::Local);
        let src = match self.lookup(word) {
            Some(Symbol::Shared(a)) if shared => Src::Shared(a),
            Some(Symbol::Local(a)) if own => {
                return Ok(Addr { base: Src::Imm(u64::from(a)), offset, space: Space::Local });
            }
            Some(Symbol::Global(a)) if space == Space::Global => Src::Global(a),
            Some(Symbol::Param(a)) if space == Space::Param => Src::Imm(u64::from(a)),
            Some(Symbol::Shared(_) | Symbol::Param(_) | Symbol::Local(_) | Symbol::Global(_)) => {
                return self.error(
                    base.span,
                    format!("`{word}` is in another state space; take its address with mov and cvta"),
                );
            }
            Some(Symbol::Reg(r, t))
                if matches!(t, Ty::B64 | Ty::U64 | Ty::S64)
                    || ((shared || own) && matches!(t, Ty::B32 | Ty::U32 | Ty::S32)) =>
            {
                self.reads.push(r);
                Src::Reg(r)
            }
            Some(Symbol::Reg(_, t)) => {
                return self.error(
                    base.span,
                    format!(
                        "`{word}` is .{}: an address here has {} bits",
                        t.name(),
                        if shared { "32 or 64" } else { "64" }
                    ),
                );
            }
            None => return self.unknown(base.span, word),
        };
        Ok(Addr { base: src, offset, space })
    }

    pub(crate) fn label(&self, i: usize) -> Parsed<u32> {
        let o = self.operand(i)?;
        let OperandKind::Word(w) = &o.kind else {
            return self.error(o.span, "a label is needed here");
        };
        self.label_named(w, o.span)
    }

    fn label_named(&self, w: &str, span: Span) -> Parsed<u32> {
        match self.scopes.iter().rev().find_map(|s| s.labels.get(w)) {
            Some(pc) => Ok(*pc),
            None => self.error(span, format!("the label `{w}` does not exist in this scope")),
        }
    }

    /// The labels of the list that operand `i` names.
    pub(crate) fn targets(&self, i: usize) -> Parsed<Vec<u32>> {
        let o = self.operand(i)?;
        let OperandKind::Word(w) = &o.kind else {
            return self.error(o.span, "the label of a `.branchtargets` is needed here");
        };
        match self.scopes.iter().rev().find_map(|s| s.targets.get(w)) {
            Some(names) => names.iter().map(|name| self.label_named(&name.text, name.span)).collect(),
            None => self.error(o.span, format!("no `.branchtargets` has the label `{w}`")),
        }
    }
}

/// What a name means in the innermost scope that has it.
pub(super) fn lookup(scopes: &[Names], name: &str) -> Option<Symbol> {
    scopes.iter().rev().find_map(|s| s.symbols.get(name).copied())
}
