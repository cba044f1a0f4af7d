//! Instructions that compute, thread by thread.

use crate::address::{
    Window, classify, local_to_generic, param_to_generic, shared_to_generic, split_shared, with_rank,
};
use crate::arithmetic::{float, int};
use crate::check::FindingKind;
use crate::check::clock::lanes;
use crate::machine::memory::Who;
use crate::machine::{Exec, Machine};
use crate::program::op::{Class, FloatFn, FloatMods, IntFn, Pure, Reg, Round, Src};
use crate::program::types::{Space, Ty, mask, sign_extend};

/// The values of an operand in all lanes.
type Values = [u64; 32];

/// The sources of one instruction.
struct Sources<'v>([&'v Values; 4]);

impl Sources<'_> {
    fn one(&self, f: impl Fn(u64) -> u64) -> Values {
        self.0[0].map(f)
    }

    fn two(&self, f: impl Fn(u64, u64) -> u64) -> Values {
        let [a, b, ..] = self.0;
        std::array::from_fn(|l| f(a[l], b[l]))
    }

    fn three(&self, f: impl Fn(u64, u64, u64) -> u64) -> Values {
        let [a, b, c, _] = self.0;
        std::array::from_fn(|l| f(a[l], b[l], c[l]))
    }

    /// All lanes at once of what kernels do most; none for the rest.
    fn common(&self, f: Pure) -> Option<Values> {
        const PLAIN: FloatMods =
            FloatMods { ftz: false, sat: false, nan: false, relu: false, xorsign: false, round: Round::None };
        let single = |v: f32| if v.is_nan() { 0x7fff_ffff } else { u64::from(v.to_bits()) };
        let float = |v: u64| f32::from_bits(v as u32);
        Some(match f {
            Pure::Mov(ty) => {
                let m = ty.mask();
                self.one(|a| a & m)
            }
            Pure::Int(f, ty) => {
                let m = mask(ty.bits());
                match f {
                    // Carries do not go from one half to the other.
                    _ if matches!(ty, Ty::U16x2 | Ty::S16x2) => return None,
                    IntFn::Add => self.two(|a, b| a.wrapping_add(b) & m),
                    IntFn::Sub => self.two(|a, b| a.wrapping_sub(b) & m),
                    IntFn::And => self.two(|a, b| a & b & m),
                    IntFn::Or => self.two(|a, b| (a | b) & m),
                    IntFn::Xor => self.two(|a, b| (a ^ b) & m),
                    IntFn::MulLo => self.two(|a, b| a.wrapping_mul(b) & m),
                    IntFn::MadLo => self.three(|a, b, c| a.wrapping_mul(b).wrapping_add(c) & m),
                    IntFn::MulWide | IntFn::MadWide if ty.bits() <= 32 => {
                        let wide = |v: u64| if ty.signed() { sign_extend(v & m, ty.bits()) } else { (v & m) as i64 };
                        let (out, add) = (mask(ty.bits() * 2), f == IntFn::MadWide);
                        self.three(|a, b, c| {
                            let product = wide(a).wrapping_mul(wide(b)) as u64;
                            (if add { product.wrapping_add(c) } else { product }) & out
                        })
                    }
                    _ => return None,
                }
            }
            Pure::Float(FloatFn::Add, Ty::F32, PLAIN) => self.two(|a, b| single(float(a) + float(b))),
            Pure::Float(FloatFn::Mul, Ty::F32, PLAIN) => self.two(|a, b| single(float(a) * float(b))),
            Pure::Float(FloatFn::Fma, Ty::F32, PLAIN) => {
                self.three(|a, b, c| single(float(a).mul_add(float(b), float(c))))
            }
            _ => return None,
        })
    }
}

impl Machine<'_> {
    pub(super) fn pure(&mut self, who: Who, f: Pure, d: Reg, s: &[Src; 4]) -> Exec<()> {
        if let Pure::Float(FloatFn::Fma, ty, _) = f {
            let pair = if matches!(ty, Ty::F16x2 | Ty::Bf16x2) { 2 } else { 1 };
            self.cost.flops += 2 * pair * u64::from(who.mask.count_ones());
        }
        let mut computed: [Values; 4] = [[0; 32]; 4];
        for (values, source) in computed.iter_mut().zip(s) {
            match source {
                Src::Reg(_) | Src::Imm(0) => {}
                other => *values = self.values(who.w, *other),
            }
        }
        let regs = &self.warps[who.w].regs;
        let sources = Sources(std::array::from_fn(|i| match s[i] {
            Src::Reg(r) => &regs[r as usize],
            _ => &computed[i],
        }));
        let out = match sources.common(f) {
            Some(out) => out,
            None => self.lane_by_lane(who, f, sources.0.map(|values| *values))?,
        };
        self.set(who.w, who.mask, d, &out);
        Ok(())
    }

    fn lane_by_lane(&mut self, who: Who, f: Pure, v: [Values; 4]) -> Exec<Values> {
        let w = who.w;
        let mut out = [0u64; 32];
        for l in lanes(who.mask) {
            let [a, b, c, e] = [v[0][l as usize], v[1][l as usize], v[2][l as usize], v[3][l as usize]];
            out[l as usize] = match f {
                Pure::Int(f, ty) => match int::apply(f, ty, a, b, c, e) {
                    Some(v) => v,
                    None => return self.fail(FindingKind::Trap, w, 1 << l, who.pc, "integer division by zero"),
                },
                Pure::Float(f, ty, m) => float::apply(f, ty, m, a, b, c),
                Pure::Cvt(c) => float::convert(&c, a, b),
                Pure::Mov(ty) => a & ty.mask(),
                Pure::CvtaFrom(space) => match space {
                    Space::Global => a,
                    Space::Param => param_to_generic(a as u32),
                    Space::Local => local_to_generic(a as u32),
                    _ => shared_to_generic(a as u32),
                },
                Pure::CvtaTo(space) => match (space, classify(a)) {
                    (Space::Global, Window::Global(g)) => g,
                    (Space::Param, Window::Param(p)) => u64::from(p),
                    (Space::Local, Window::Local(l)) => u64::from(l),
                    (Space::SharedCta | Space::SharedCluster, Window::Shared(s)) => u64::from(s),
                    _ => {
                        let text = format!("the generic address {a:#x} is not in the state space that cvta.to names");
                        return self.fail(FindingKind::OutOfBounds, w, 1 << l, who.pc, text);
                    }
                },
                Pure::Mapa { generic } => {
                    let rank = b as u32;
                    if rank as usize >= self.ctas.len() {
                        let text = format!("mapa to block {rank}; the cluster has {}", self.ctas.len());
                        return self.fail(FindingKind::OutOfBounds, w, 1 << l, who.pc, text);
                    }
                    let to = with_rank(a as u32, rank);
                    if generic { shared_to_generic(to) } else { u64::from(to) }
                }
                Pure::Slct(Ty::F32) if float::is(Class::NotANumber, Ty::F32, c) => b,
                Pure::Slct(Ty::F32) => {
                    if f32::from_bits(c as u32) >= 0.0 {
                        a
                    } else {
                        b
                    }
                }
                Pure::Slct(_) => {
                    if (c as u32).cast_signed() >= 0 {
                        a
                    } else {
                        b
                    }
                }
                Pure::Getctarank { .. } => u64::from(split_shared(a as u32).0),
            };
        }
        Ok(out)
    }
}
