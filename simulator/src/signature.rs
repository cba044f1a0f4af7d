//! What a kernel takes, as its declarations and its instructions tell.

use crate::program::op::{IntFn, Order};
use crate::program::op::{Op, Pure, Reg, Src, Way};
use crate::program::types::{Space, Ty};
use crate::program::{Module, ParamDecl, Program};

/// What a launch of a kernel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The parameters, in order.
    pub params: Vec<Parameter>,
    /// Threads of a block in x, y, z, where the kernel requires them (`.reqntid`).
    pub block: Option<[u32; 3]>,
    /// The most threads of a block (`.maxntid`).
    pub most_threads: Option<u32>,
    /// Blocks of a cluster in x, y, z, where the kernel requires them (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Bytes of shared arrays of stated length.
    pub static_shared: u32,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the text.
    pub name: String,
    /// Its bytes.
    pub bytes: u32,
    /// What its alignment is.
    pub align: u32,
    /// The type of its declaration, without the dot: `u64`, `b8`.
    pub ty: String,
    /// What it is.
    pub role: Role,
}

/// What a parameter is, as far as the text tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// A value.
    Value,
    /// The address of data, with the narrowest type by which it is accessed, if any is.
    Buffer {
        /// `b16`, `f32`; none if no access was found.
        element: Option<&'static str>,
        /// Whether some instruction writes it.
        written: bool,
        /// Whether an instruction was found that uses it as an address.
        used: bool,
    },
    /// A tensor map, passed by value.
    TensorMap {
        /// The dimensions of the copies through it.
        rank: Option<u32>,
    },
}

/// What the instructions do with each parameter.
#[derive(Clone, Default)]
struct Use {
    accessed: Option<Ty>,
    address: bool,
    written: bool,
    rank: Option<u32>,
}

impl Module {
    /// What a launch of a kernel needs; none for an unknown name.
    #[must_use]
    pub fn signature(&self, entry: &str) -> Option<Signature> {
        self.kernel(entry).map(signature)
    }
}

fn signature(p: &Program) -> Signature {
    let uses = uses(p);
    let params = p.params.iter().zip(uses).map(|(decl, found)| Parameter {
        name: decl.name.clone(),
        bytes: decl.bytes,
        align: decl.align,
        ty: decl.ty.trim_start_matches('.').to_owned(),
        role: role(decl, &found),
    });
    Signature {
        params: params.collect(),
        block: p.limits.req_ntid,
        most_threads: p.limits.max_ntid,
        cluster: p.limits.cluster,
        static_shared: p.static_shared,
    }
}

fn role(decl: &ParamDecl, found: &Use) -> Role {
    if found.rank.is_some() || (decl.bytes == 128 && decl.align >= 64) {
        return Role::TensorMap { rank: found.rank };
    }
    if decl.bytes == 8 && (decl.pointer || found.address) {
        return Role::Buffer { element: found.accessed.map(Ty::name), written: found.written, used: found.address };
    }
    Role::Value
}

/// Sets of parameters, one bit each.
type Set = u64;

/// Follows the values of parameters through registers to addresses, until nothing changes.
fn uses(p: &Program) -> Vec<Use> {
    let mut uses = vec![Use::default(); p.params.len()];
    let mut of = vec![0 as Set; p.registers];
    loop {
        let before = of.clone();
        for inst in &p.code {
            follow(p, &inst.op, &mut of);
        }
        if of == before {
            break;
        }
    }
    let set = |s: Src| match s {
        Src::Reg(r) => of[r as usize],
        Src::Imm(v) => param_at(p, v),
        _ => 0,
    };
    let each = |of: Set, uses: &mut Vec<Use>, f: &dyn Fn(&mut Use)| {
        uses.iter_mut().enumerate().filter(|(i, _)| of >> i & 1 == 1).for_each(|(_, u)| f(u));
    };
    for inst in &p.code {
        let (base, ty, written) = match &inst.op {
            Op::Ld { addr, ty, .. } if addr.space != Space::Param => (addr.base, Some(*ty), false),
            Op::St { addr, ty, .. } => (addr.base, Some(*ty), true),
            Op::Atom { addr, ty, .. } | Op::RedVector { addr, ty, .. } => (addr.base, Some(*ty), true),
            Op::CpAsync { from, .. } => (from.base, None, false),
            Op::Bulk(b) if b.way == Way::ToShared => (b.from.base, None, false),
            Op::Bulk(b) => match &b.to {
                Some(to) => (to.base, None, true),
                None => continue,
            },
            Op::Tensor(t) => {
                let rank = t.coords.len() as u32;
                each(set(t.map.base), &mut uses, &|u| u.rank = Some(rank));
                continue;
            }
            Op::MapRelease { to, .. } => (to.base, None, true),
            Op::MapReplace { value, field: crate::program::op::MapField::Address, .. } => (*value, None, true),
            _ => continue,
        };
        each(set(base), &mut uses, &|u| {
            u.address = true;
            u.written |= written;
            if let Some(ty) = ty
                && u.accessed.is_none_or(|narrowest| ty.bits() < narrowest.bits())
            {
                u.accessed = Some(ty);
            }
        });
    }
    uses
}

/// The parameter whose address in parameter space this is.
fn param_at(p: &Program, address: u64) -> Set {
    let at = |d: &ParamDecl| u64::from(d.offset) + u64::from(crate::address::PARAM_BASE) == address;
    p.params.iter().take(64).position(at).map_or(0, |i| 1 << i)
}

/// What the destination of an instruction carries of its operands.
fn follow(p: &Program, op: &Op, of: &mut [Set]) {
    let set = |s: &Src, of: &[Set]| if let Src::Reg(r) = s { of[*r as usize] } else { 0 };
    let mut add = |d: Reg, found: Set| of[d as usize] |= found;
    match op {
        Op::Ld { addr, d, order: Order::Weak, .. } if addr.space == Space::Param => {
            let Src::Imm(base) = addr.base else { return };
            let found = param_at(p, base.wrapping_add(addr.offset as u64));
            d.iter().flatten().for_each(|d| add(*d, found));
        }
        Op::Pure { f, d, s } => {
            let carries: &[usize] = match f {
                Pure::Int(IntFn::Add | IntFn::Sub | IntFn::Or | IntFn::And, ty) if ty.bits() == 64 => &[0, 1],
                Pure::Int(IntFn::MadLo, ty) if ty.bits() == 64 => &[2],
                Pure::Int(IntFn::MadWide, _) => &[2],
                Pure::Mov(ty) if ty.bits() == 64 => &[0],
                Pure::CvtaTo(_) | Pure::CvtaFrom(_) => &[0],
                _ => return,
            };
            let mut found = 0;
            for at in carries {
                found |= set(&s[*at], of);
                if let (Pure::Mov(_) | Pure::CvtaFrom(Space::Param), Src::Imm(v)) = (f, s[*at]) {
                    found |= param_at(p, v);
                }
            }
            of[*d as usize] |= found;
        }
        Op::Selp { d, a, b, .. } => {
            let found = set(a, of) | set(b, of);
            of[*d as usize] |= found;
        }
        _ => {}
    }
}
