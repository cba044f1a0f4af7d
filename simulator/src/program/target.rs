//! Which target has which instruction: the one table.
//!
//! Targets and versions as `ptxas` 13.0 accepts them; `tests/targets.rs` holds the table against it.

use crate::parse::ast::Name;
use crate::parse::{ParseError, Parsed, Span};

/// A `.target`, in the order in which features were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Sm70,
    Sm75,
    Sm80,
    Sm86,
    Sm89,
    Sm90,
    /// Everything of sm_90, and nothing that sm_90a adds.
    Sm120,
    Sm90a,
}

use Target::{Sm70, Sm75, Sm80, Sm86, Sm89, Sm90, Sm90a, Sm120};

/// What a target is: its name, the first PTX version that knows it, and the bytes of shared memory that a block of
/// the device has.
struct Facts {
    target: Target,
    name: &'static str,
    version: Version,
    shared: u32,
}

/// PTX major and minor version.
type Version = (u32, u32);

const TARGETS: &[Facts] = &[
    Facts { target: Sm70, name: "sm_70", version: (6, 0), shared: 98_304 },
    Facts { target: Sm75, name: "sm_75", version: (6, 3), shared: 65_536 },
    Facts { target: Sm80, name: "sm_80", version: (7, 0), shared: 166_912 },
    Facts { target: Sm86, name: "sm_86", version: (7, 1), shared: 101_376 },
    Facts { target: Sm89, name: "sm_89", version: (7, 8), shared: 101_376 },
    Facts { target: Sm90, name: "sm_90", version: (7, 8), shared: 232_448 },
    Facts { target: Sm120, name: "sm_120", version: (8, 7), shared: 101_376 },
    Facts { target: Sm90a, name: "sm_90a", version: (8, 0), shared: 232_448 },
];

impl Target {
    fn facts(self) -> &'static Facts {
        &TARGETS[self as usize]
    }

    /// `sm_80`
    pub(crate) fn name(self) -> &'static str {
        self.facts().name
    }

    /// The most shared memory that a block may have on the first device of this target.
    pub(crate) fn shared_bytes(self) -> u32 {
        self.facts().shared
    }
}

/// What a module may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub(crate) target: Target,
    pub(crate) version: Version,
}

impl Level {
    /// Reads `.version` and `.target`.
    pub(crate) fn of(version: Option<&Name>, target: Option<&Name>) -> Parsed<Self> {
        let (Some(v), Some(t)) = (version, target) else {
            let span = version.or(target).map_or(Span { line: 1, column: 1 }, |n| n.span);
            return Err(ParseError::new(span, "a module states its `.version` and its `.target`, in this order"));
        };
        let parts = v.text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let Some(version) = parts.filter(|p| *p >= TARGETS[0].version) else {
            return Err(ParseError::new(v.span, format!("PTX {} is not modelled; 6.0 and later is", v.text)));
        };
        let Some(facts) = TARGETS.iter().find(|f| f.name == t.text) else {
            let known = TARGETS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
            return Err(ParseError::new(t.span, format!("the target `{}` is not modelled; {known} are", t.text)));
        };
        if version < facts.version {
            let (major, minor) = facts.version;
            let text = format!("{} came with PTX {major}.{minor}; this module says `.version {}`", t.text, v.text);
            return Err(ParseError::new(t.span, text));
        }
        Ok(Self { target: facts.target, version })
    }

    /// Refuses what `need` says is not there yet.
    fn grant(self, what: &str, span: Span, target: Target, version: Version) -> Parsed<()> {
        if self.target < target {
            let text = format!(
                "`{what}` does not exist on {}, the module's target; the first target that has it is {}",
                self.target.name(),
                target.name()
            );
            return Err(ParseError::new(span, text));
        }
        if self.version < version {
            let text = format!(
                "`{what}` needs PTX {}.{}; the module says `.version {}.{}`",
                version.0, version.1, self.version.0, self.version.1
            );
            return Err(ParseError::new(span, text));
        }
        Ok(())
    }
}

/// A fact: an opcode that begins so and has these words needs this target and this PTX version.
struct Need {
    /// Words of the opcode from its start; `a|b` is either, `*` is any.
    opcode: &'static str,
    /// Words that occur anywhere in it, all of them; `a|b` is either.
    with: &'static [&'static str],
    target: Target,
    version: Version,
}

const fn need(opcode: &'static str, with: &'static [&'static str], target: Target, version: Version) -> Need {
    Need { opcode, with, target, version }
}

const INTS: &str = "u8|u16|u32|u64|s8|s16|s32|s64";

/// Everything that not every target has. All facts that an opcode matches apply.
const NEEDS: &[Need] = &[
    // Any instruction: state spaces, scopes, cache hints.
    need("*", &["shared::cta"], Sm70, (7, 8)),
    need("*", &["shared::cluster|cluster"], Sm90, (7, 8)),
    need("*", &["L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"], Sm70, (7, 4)),
    need("*", &["L2::64B|L2::128B"], Sm75, (7, 4)),
    need("*", &["L2::256B|L2::cache_hint|L2::evict_last|L2::evict_normal|L2::evict_first"], Sm80, (7, 4)),
    need("ld.param::entry", &[], Sm70, (8, 3)),
    need("cvta.param", &[], Sm70, (7, 7)),
    // Arithmetic and conversions.
    need("add|sub|mul|setp", &["bf16|bf16x2"], Sm90, (7, 8)),
    need("fma|neg|abs|min|max", &["bf16|bf16x2"], Sm80, (7, 0)),
    need("abs", &["f16|f16x2"], Sm70, (6, 5)),
    need("min|max", &["f16|f16x2|NaN"], Sm80, (7, 0)),
    need("min|max", &["xorsign"], Sm86, (7, 2)),
    need("add|min|max", &["u16x2|s16x2"], Sm90, (8, 0)),
    need("min|max", &["relu"], Sm90, (8, 0)),
    need("szext|bmsk", &[], Sm70, (7, 6)),
    need("lop3.or|and", &[], Sm70, (8, 2)),
    need("isspacep.param", &[], Sm70, (7, 7)),
    need("cvt.pack", &[], Sm75, (6, 5)),
    need("fma", &["relu"], Sm80, (7, 0)),
    need("ex2", &["f16|f16x2"], Sm75, (7, 0)),
    need("tanh", &[], Sm75, (7, 0)),
    need("ex2|tanh", &["bf16|bf16x2"], Sm90, (7, 8)),
    need("cvt", &["bf16|bf16x2|f16x2|tf32|relu"], Sm80, (7, 0)),
    need("cvt.f32.bf16", &[], Sm80, (7, 1)),
    need("cvt", &["bf16", "f16|f64"], Sm90, (7, 8)),
    need("cvt", &["bf16", INTS], Sm90, (7, 8)),
    need("cvt", &["tf32", "rn|rz"], Sm90, (7, 8)),
    need("cvt", &["satfinite", "f16|bf16|f16x2|bf16x2|tf32"], Sm70, (8, 1)),
    need("cvt", &["e4m3x2|e5m2x2"], Sm89, (7, 8)),
    // Memory.
    need("atom|red", &["f16x2"], Sm70, (6, 2)),
    need("atom|red", &["f16"], Sm70, (6, 3)),
    need("atom|red", &["bf16|bf16x2"], Sm90, (7, 8)),
    need("atom|red", &["v2|v4|v8"], Sm90, (8, 1)),
    need("atom", &["b16"], Sm70, (6, 3)),
    need("ld|st", &["mmio"], Sm70, (8, 2)),
    need("prefetch", &["tensormap"], Sm90, (8, 0)),
    need("tensormap", &[], Sm90a, (8, 3)),
    need("createpolicy|applypriority", &[], Sm80, (7, 4)),
    need("mapa|getctarank", &[], Sm90, (7, 8)),
    need("cp.async", &[], Sm80, (7, 0)),
    need("cp.async.bulk", &[], Sm90, (8, 0)),
    need("cp.async.bulk.shared::cta", &[], Sm90, (8, 6)),
    need("cp.async.bulk.tensor.*.shared::cta", &[], Sm90, (8, 6)),
    need("cp.reduce", &[], Sm90, (8, 0)),
    // Threads among themselves.
    need("st.async", &[], Sm90, (8, 1)),
    need("red.async", &[], Sm90, (8, 1)),
    need("activemask|nanosleep", &[], Sm70, (6, 2)),
    need("redux", &[], Sm80, (7, 0)),
    need("elect", &[], Sm90, (8, 0)),
    need("griddepcontrol", &[], Sm90, (7, 8)),
    need("setmaxnreg", &[], Sm90a, (8, 0)),
    need("bar|barrier.cta", &[], Sm70, (7, 8)),
    need("barrier.cluster", &[], Sm90, (7, 8)),
    need("barrier.cluster", &["release|relaxed|acquire"], Sm90, (8, 0)),
    need("fence|membar.proxy.alias", &[], Sm70, (7, 5)),
    need("fence.proxy.async|async::generic|tensormap::generic", &[], Sm90, (8, 0)),
    need("fence.mbarrier_init", &[], Sm90, (8, 0)),
    need("fence.proxy.async::generic", &[], Sm90, (8, 6)),
    need("fence.proxy.tensormap::generic", &[], Sm90, (8, 3)),
    need("mbarrier", &[], Sm80, (7, 0)),
    need("mbarrier", &["parity"], Sm80, (7, 1)),
    need("mbarrier", &["release|acquire|shared::cluster"], Sm80, (8, 0)),
    need("mbarrier.try_wait", &[], Sm90, (7, 8)),
    need("mbarrier", &["expect_tx|complete_tx"], Sm90, (8, 0)),
    need("mbarrier.arrive|arrive_drop|test_wait|try_wait", &["relaxed"], Sm90, (8, 6)),
    // Matrices.
    need("ldmatrix", &[], Sm75, (6, 5)),
    need("stmatrix", &[], Sm90, (7, 8)),
    need("wmma", &[], Sm70, (6, 3)),
    need("wmma", &["bf16"], Sm80, (7, 0)),
    need("movmatrix", &[], Sm75, (7, 8)),
    need("mma", &[], Sm70, (6, 4)),
    need("mma", &["m16n8k8|m8n8k16|m8n8k32"], Sm75, (6, 5)),
    need("mma", &["m8n8k128"], Sm75, (7, 0)),
    need("mma", &["bf16|tf32"], Sm80, (7, 0)),
    need("mma", &["m16n8k16|m16n8k32|m16n8k64|m16n8k128|m16n8k256"], Sm80, (7, 0)),
    need("mma", &["b1", "and"], Sm80, (7, 1)),
    need("mma.sp|sp::ordered_metadata", &[], Sm80, (7, 1)),
    need("mma.sp::ordered_metadata", &[], Sm80, (8, 5)),
    need("mma", &["f64"], Sm80, (7, 0)),
    need("mma", &["m16n8k4|m16n8k8|m16n8k16", "f64"], Sm90, (7, 8)),
    need("mma", &["e4m3|e5m2"], Sm89, (8, 4)),
    need("mma", &["e4m3|e5m2", "m16n8k16|f16"], Sm89, (8, 7)),
    need("wgmma", &[], Sm90a, (8, 0)),
    need("wgmma", &["s8", "u8"], Sm90a, (8, 4)),
    need("wgmma", &["sp"], Sm90a, (8, 2)),
];

/// What the named target, older than sm_90, got in a later version of PTX than sm_90 had it in.
const LATER: &[Need] = &[need("cvt", &["e4m3x2|e5m2x2"], Sm89, (8, 1))];

/// Special registers and directives of clusters, by how their names begin.
const CLUSTER_NAMES: &[&str] =
    &["%cluster", "%ncluster", "%is_explicit_cluster", ".reqnctapercluster", ".explicitcluster", ".maxclusterrank"];

fn either(pattern: &str, word: &str) -> bool {
    pattern == "*" || pattern.split('|').any(|p| p == word)
}

impl Need {
    fn applies(&self, opcode: &[Name]) -> bool {
        let mut words = opcode.iter().map(|n| n.text.as_str());
        self.opcode.split('.').all(|p| words.next().is_some_and(|w| either(p, w)))
            && self.with.iter().all(|p| opcode.iter().skip(1).any(|n| either(p, &n.text)))
    }
}

/// Refuses an opcode that the module's target or version does not have.
pub(super) fn available(level: Level, opcode: &[Name]) -> Parsed<()> {
    let later = LATER.iter().filter(|n| n.target == level.target);
    let facts = NEEDS.iter().chain(later).filter(|n| n.applies(opcode));
    let (target, version) =
        facts.fold((TARGETS[0].target, TARGETS[0].version), |(t, v), n| (t.max(n.target), v.max(n.version)));
    let name = opcode.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(".");
    level.grant(&name, opcode[0].span, target, version)
}

/// Refuses a special register or a directive that the module's target does not have.
pub(super) fn available_name(level: Level, name: &str, span: Span) -> Parsed<()> {
    if CLUSTER_NAMES.iter().any(|n| name.starts_with(n)) { level.grant(name, span, Sm90, (7, 8)) } else { Ok(()) }
}

/// The table in Markdown, for the documentation.
pub(super) fn target_table() -> String {
    let mut out = String::from("| opcode | with | first target | PTX |\n|---|---|---|---|\n");
    let code = |s: &str| format!("`{}`", s.replace('|', "` `"));
    for n in NEEDS {
        let opcode = if n.opcode == "*" { "any".to_owned() } else { code(n.opcode) };
        let with = n.with.iter().map(|w| code(w)).collect::<Vec<_>>().join(", and ");
        out.push_str(&format!("| {opcode} | {with} | {} | {}.{} |\n", n.target.name(), n.version.0, n.version.1));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_stand_in_their_order() {
        for (i, f) in TARGETS.iter().enumerate() {
            assert_eq!(f.target as usize, i);
        }
    }
}
