//! What the time of each role went to, read off a trace, and where two traces differ.

use bsr_codegen::Refusal;
use std::fmt;

use bsr_codegen::probes::Group;
use serde_json::Value;

use super::read::{Lane, Trace};

/// The shares of each role's time, over all CTAs of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The kernel's spec.
    pub spec: String,
    /// The unit of times.
    pub unit: &'static str,
    /// Producers, then consumers.
    pub roles: Vec<RoleTime>,
    /// Roles whose ring was too small, and how much of theirs was kept.
    pub cut: Vec<String>,
}

/// What one role's time went to.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleTime {
    /// What the role is called.
    pub name: String,
    /// CTAs that have it in the trace.
    pub ctas: usize,
    /// Its time in microseconds, or in cycles of the simulator, on average over the CTAs.
    pub time: f64,
    /// Shares of that time, in the order of [`Group::ALL`].
    pub shares: [f64; Group::ALL.len()],
}

impl Summary {
    /// Sums the slices of a trace's JSON.
    ///
    /// # Errors
    /// JSON that is no trace of a kernel's roles.
    pub fn of_trace(trace: &Value) -> Result<Self, Refusal> {
        Trace::read(trace).map(|trace| Self::of(&trace))
    }

    /// Sums the slices of a trace.
    pub fn of(trace: &Trace) -> Self {
        let (mut roles, mut cut) = (Vec::<RoleTime>::new(), vec![]);
        for Lane { cta, role: name, records, kept, slices, .. } in &trace.lanes {
            let at = roles.iter().position(|role| role.name == *name).unwrap_or_else(|| {
                roles.push(RoleTime { name: name.clone(), ctas: 0, time: 0.0, shares: [0.0; Group::ALL.len()] });
                roles.len() - 1
            });
            let role = &mut roles[at];
            role.ctas += 1;
            if kept < records {
                cut.push(format!("{name} of CTA {cta}: {kept} of {records} events kept"));
            }
            for (group, span) in slices {
                role.time += span.to - span.from;
                role.shares[*group as usize] += span.to - span.from;
            }
        }
        for role in &mut roles {
            let all = role.time.max(f64::MIN_POSITIVE);
            role.shares.iter_mut().for_each(|share| *share /= all);
            role.time /= role.ctas as f64;
        }
        Self { spec: trace.spec.clone(), unit: trace.unit(), roles, cut }
    }

    /// The groups that some role has a share of.
    fn groups(&self) -> impl Iterator<Item = usize> + '_ {
        (0..Group::ALL.len()).filter(|group| self.roles.iter().any(|role| role.shares[*group] > 0.0))
    }
}

/// Columns of a role's name, and of a number.
const NAME: usize = 20;
const NUMBER: usize = 9;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<NAME$} {:>12}", "role", self.unit)?;
        for group in self.groups() {
            let words = Group::ALL[group].words();
            write!(f, "  {words:>NUMBER$}")?;
        }
        for role in &self.roles {
            write!(f, "\n{:<NAME$} {:>12.1}", role.name, role.time)?;
            for group in self.groups() {
                let width = NUMBER.max(Group::ALL[group].words().len()) - 1;
                write!(f, "  {:>width$.1}%", 100.0 * role.shares[group])?;
            }
        }
        for cut in &self.cut {
            write!(f, "\n{cut}; shares are of these")?;
        }
        Ok(())
    }
}

/// Where two kernels differ: the shares of both, and by how many points of a hundred the second one has more.
pub fn compare(a: &Summary, b: &Summary) -> String {
    let mut text = format!("A  {}\nB  {}\n\n", a.spec, b.spec);
    text.push_str(&format!("{:<NAME$} {:<18} {:>11} {:>11} {:>11}", "role", "time", "A", "B", "B - A"));
    let names = a.roles.iter().chain(&b.roles).map(|role| role.name.as_str());
    let mut seen: Vec<&str> = vec![];
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let of = |summary: &Summary| summary.roles.iter().find(|role| role.name == name).cloned();
        let (left, right) = (of(a), of(b));
        let time = |role: &Option<RoleTime>, unit: &str| match role {
            Some(role) => format!("{:.1} {unit}", role.time),
            None => "none".to_owned(),
        };
        text.push_str(&format!(
            "\n{name:<NAME$} {:<18} {:>11} {:>11}",
            "in all",
            time(&left, a.unit),
            time(&right, b.unit)
        ));
        if let (Some(left), Some(right), true) = (&left, &right, a.unit == b.unit) {
            text.push_str(&format!(" {:>+11.1}", right.time - left.time));
        }
        for (group, words) in Group::ALL.iter().map(|group| group.words()).enumerate() {
            let share = |role: &Option<RoleTime>| role.as_ref().map_or(0.0, |role| 100.0 * role.shares[group]);
            let (from, to) = (share(&left), share(&right));
            if from > 0.0 || to > 0.0 {
                let less = to - from;
                text.push_str(&format!("\n{:<NAME$} {words:<18} {from:>10.1}% {to:>10.1}% {less:>+11.1}", ""));
            }
        }
    }
    if a.unit != b.unit {
        text.push_str(&format!("\n\nA is in {}, B in {}: shares can be compared, times cannot", a.unit, b.unit));
    }
    for (of, cut) in a.cut.iter().map(|cut| ("A", cut)).chain(b.cut.iter().map(|cut| ("B", cut))) {
        text.push_str(&format!("\n{of}: {cut}; shares are of these"));
    }
    text
}
