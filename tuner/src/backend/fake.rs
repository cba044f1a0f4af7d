//! A backend for tests of everything above it: what becomes of a candidate is written in a script.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use bsr_codegen::KernelSpec;
use bsr_runtime::bench::{Clock, Power};

use super::{Backend, Baseline, Candidate, Checked, Opened, Reporter, Rounds, Timings, Trouble};
use crate::{DeviceId, DeviceKind, Timing, TuningProblem, Verdict, Workload};

/// What becomes of candidates: rules in the order of writing, of which all that fit a candidate hold, the last most.
///
/// ```text
/// bn = 64 -> hang; bn = 128, stages = 3 -> fault; * -> noise 0.02; dense -> 95 us
/// ```
///
/// To the left stand keys of a spec with their values, the name of a baseline, or `*`. To the right:
///
/// | action | what becomes of it |
/// |---|---|
/// | `120 us` | its time; without a rule from 100 to 200 us, drawn from seed and name |
/// | `x 10` | so many times its time |
/// | `noise 0.02` | times spread by this part of it, to both sides |
/// | `clock 1500` | the clock in MHz that a driver would tell while it is timed |
/// | `wrong`, `refuse` | its check says so |
/// | `too big` | the compiler refuses it |
/// | `hang`, `fault` | its check never ends; ends the process |
/// | `hang late`, `fault late` | so does its timing |
/// | `unattributed` | timing does not tell which candidate it is at |
/// | `pause 20` | every call for it takes so many milliseconds |
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script(Vec<(Vec<String>, Action)>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Us(f64),
    Times(f64),
    Noise(f64),
    Clock(u32),
    Wrong,
    Refuse,
    TooBig,
    Hang { late: bool },
    Fault { late: bool },
    Unattributed,
    Pause(u64),
}

impl Action {
    fn fault(self) -> Option<Verdict> {
        match self {
            Self::Hang { late: false } => Some(Verdict::Hang),
            Self::Fault { late: false } => Some(Verdict::Fault),
            Self::Wrong => Some(Verdict::Wrong),
            _ => None,
        }
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rules = text.split(';').map(str::trim).filter(|rule| !rule.is_empty()).map(|rule| {
            let (who, what) = rule.split_once("->").ok_or_else(|| format!("`{rule}`: write WHO -> WHAT"))?;
            Ok((who.split(',').map(|part| part.trim().to_owned()).collect(), action(what.trim())?))
        });
        rules.collect::<Result<_, String>>().map(Self)
    }
}

fn action(text: &str) -> Result<Action, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| word.parse::<f64>().map_err(|_| format!("`{text}`: `{word}` is no number"));
    Ok(match words[..] {
        [us, "us"] => Action::Us(number(us)?),
        ["x", factor] => Action::Times(number(factor)?),
        ["noise", part] => Action::Noise(number(part)?),
        ["pause", ms] => Action::Pause(number(ms)? as u64),
        ["clock", mhz] => Action::Clock(number(mhz)? as u32),
        ["wrong"] => Action::Wrong,
        ["refuse"] => Action::Refuse,
        ["too", "big"] => Action::TooBig,
        ["hang"] => Action::Hang { late: false },
        ["hang", "late"] => Action::Hang { late: true },
        ["fault"] => Action::Fault { late: false },
        ["fault", "late"] => Action::Fault { late: true },
        ["unattributed"] => Action::Unattributed,
        _ => return Err(format!("`{text}` is nothing that becomes of a candidate")),
    })
}

impl Script {
    fn actions<'s>(&'s self, name: &'s str) -> impl Iterator<Item = Action> + 's {
        let settings: Vec<&str> = name.split(", ").collect();
        let fits = move |part: &String| part == "*" || part == name || settings.contains(&part.as_str());
        self.0.iter().filter(move |(who, _)| who.iter().all(&fits)).map(|(_, action)| *action)
    }

    /// Whether a kernel's check is to hang, to fault or to be wrong: what fault injection does to a real kernel, too.
    pub fn fault(&self, name: &str) -> Option<Verdict> {
        self.actions(name).filter_map(Action::fault).last()
    }

    /// What a driver would tell while these are timed.
    fn power(&self, names: &[String]) -> Option<Power> {
        let clock = |action| if let Action::Clock(mhz) = action { Some(mhz) } else { None };
        let mhz = names.iter().flat_map(|name| self.actions(name)).filter_map(clock).next()?;
        let sm_mhz = Some(Clock { min: mhz, median: mhz, max: mhz });
        Some(Power { watts: None, limit_watts: None, sm_mhz, memory_mhz: None, reasons: vec![], samples: 1 })
    }

    fn has(&self, name: &str, wanted: Action) -> bool {
        self.actions(name).any(|action| action == wanted)
    }
}

/// How a hanging or faulting candidate behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashMode {
    /// As on a GPU: sleeps for ever, aborts the process. For a backend in a child process.
    Real,
    /// Reported, as [`Remote`](super::Remote) does.
    Reported,
}

/// A backend that makes times up.
pub struct Fake {
    script: Script,
    seed: u64,
    crash_mode: CrashMode,
    reporter: Option<Reporter>,
    problem: Option<TuningProblem>,
    /// How often each was timed, so that noise is new every time.
    calls: HashMap<String, u64>,
}

impl Fake {
    /// The baseline on equal work.
    pub const DENSE: &'static str = "dense";
    /// A baseline that cannot be timed.
    pub const REFUSED: &'static str = "refused";

    /// A backend that follows a script; the same seed makes the same times.
    pub fn new(script: Script, seed: u64, crash_mode: CrashMode) -> Self {
        Self { script, seed, crash_mode, reporter: None, problem: None, calls: HashMap::new() }
    }

    fn crash(&self, verdict: Verdict, at: usize, name: &str) -> Trouble {
        match (self.crash_mode, verdict) {
            (CrashMode::Reported, _) => {
                Trouble { lost: true, ..Trouble::with(verdict, at, format!("`{name}` as scripted")) }
            }
            (CrashMode::Real, Verdict::Hang) => loop {
                std::thread::sleep(Duration::from_secs(3600));
            },
            (CrashMode::Real, _) => {
                let _ = std::io::Write::write_all(&mut std::io::stderr(), b"fault as scripted\n");
                std::process::abort()
            }
        }
    }

    fn pause(&self, name: &str) {
        for action in self.script.actions(name) {
            if let Action::Pause(ms) = action {
                std::thread::sleep(Duration::from_millis(ms));
            }
        }
    }

    /// A number in 0..1 from seed, name and count.
    fn draw(&self, name: &str, count: u64) -> f64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes()).update(&count.to_le_bytes()).update(name.as_bytes());
        let bytes: [u8; 32] = *hasher.finalize().as_bytes();
        let (words, _) = bytes.as_chunks::<8>();
        (u64::from_le_bytes(words[0]) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The time of a candidate without noise, and the noise.
    fn time_of(&self, name: &str) -> (f64, f64) {
        let (mut us, mut noise) = (100.0 + 100.0 * self.draw(name, 0), 0.002);
        for action in self.script.actions(name) {
            match action {
                Action::Us(given) => us = given,
                Action::Times(factor) => us *= factor,
                Action::Noise(part) => noise = part,
                _ => {}
            }
        }
        (us, noise)
    }
}

impl Backend for Fake {
    fn report_to(&mut self, reporter: Reporter) {
        self.reporter = Some(reporter);
    }

    fn open(&mut self, workload: &Workload) -> Result<Opened, Trouble> {
        let name = "open";
        for (action, verdict) in
            [(Action::Hang { late: false }, Verdict::Hang), (Action::Fault { late: false }, Verdict::Fault)]
        {
            if self.script.0.iter().any(|(who, what)| who == &[name] && *what == action) {
                return Err(Trouble { candidate: None, ..self.crash(verdict, 0, name) });
            }
        }
        let problem = TuningProblem::new(workload.clone(), &workload.structure()?);
        let baseline = |name: &str, refused: Option<&str>| Baseline {
            name: name.to_owned(),
            flops: problem.executed_flops(),
            refused: refused.map(str::to_owned),
        };
        let baselines = vec![baseline(Self::DENSE, None), baseline(Self::REFUSED, Some("refused: as scripted"))];
        let device = DeviceId { kind: DeviceKind::Fake, name: "fake".into(), driver: "1".into() };
        self.problem = Some(problem.clone());
        Ok(Opened { problem, device, baselines })
    }

    fn compile(&mut self, kernel: &KernelSpec) -> Result<Option<f64>, Trouble> {
        let name = kernel.to_string();
        match self.script.has(&name, Action::TooBig) {
            true => Err(Trouble::with(Verdict::Refused, 0, format!("`{name}` is too big, as scripted"))),
            false => Ok(Some(1.0)),
        }
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble> {
        if self.problem.is_none() {
            return Err(Trouble::of_backend("no workload is open"));
        }
        let name = candidate.name();
        self.pause(&name);
        for action in self.script.actions(&name) {
            match action {
                Action::Wrong => return Err(Trouble::with(Verdict::Wrong, 0, "relative error 0.5, as scripted")),
                Action::Refuse => return Err(Trouble::with(Verdict::Refused, 0, "refused, as scripted")),
                Action::Hang { late: false } => return Err(self.crash(Verdict::Hang, 0, &name)),
                Action::Fault { late: false } => return Err(self.crash(Verdict::Fault, 0, &name)),
                _ => {}
            }
        }
        Ok(Checked { relative_error: matches!(candidate, Candidate::Kernel(_)).then(|| 1e-4 * self.draw(&name, 1)) })
    }

    fn time(&mut self, candidates: &[Candidate], rounds: &Rounds) -> Result<Timings, Trouble> {
        let names: Vec<String> = candidates.iter().map(Candidate::name).collect();
        let unattributed = names.iter().any(|name| self.script.has(name, Action::Unattributed));
        for (at, name) in names.iter().enumerate() {
            if let Some(reporter) = self.reporter.as_ref().filter(|_| !unattributed) {
                reporter(at);
            }
            self.pause(name);
            for (action, verdict) in
                [(Action::Hang { late: true }, Verdict::Hang), (Action::Fault { late: true }, Verdict::Fault)]
            {
                if self.script.has(name, action) {
                    return Err(Trouble {
                        candidate: (!unattributed || names.len() == 1).then_some(at),
                        ..self.crash(verdict, at, name)
                    });
                }
            }
            *self.calls.entry(name.clone()).or_default() += 1;
        }
        let mut times = vec![Vec::new(); names.len()];
        for round in 0..rounds.most {
            for (name, times) in names.iter().zip(&mut times) {
                let (us, noise) = self.time_of(name);
                let count = (self.calls[name] << 32) + round as u64 + 2;
                times.push(us * (1.0 + noise * (2.0 * self.draw(name, count) - 1.0)));
            }
            let tight =
                |times: &Vec<f64>| Timing::new(times.clone()).relative_ci.is_some_and(|ci| ci <= rounds.relative_ci);
            if round + 1 >= rounds.least && times.iter().all(tight) {
                break;
            }
        }
        Ok(Timings { samples_us: times, power: self.script.power(&names) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rules_fit_whole_settings() {
        let script: Script = "bn = 64 -> hang; bn = 128, stages = 3 -> 5 us; * -> x 2".parse().unwrap();
        let actions = |name: &str| script.actions(name).collect::<Vec<_>>();
        assert_eq!(actions("bm = 64, bn = 64, bk = 32"), [Action::Hang { late: false }, Action::Times(2.0)]);
        assert_eq!(actions("bm = 64, bn = 640, bk = 32"), [Action::Times(2.0)]);
        assert_eq!(actions("bm = 64, bn = 128, bk = 32, stages = 3"), [Action::Us(5.0), Action::Times(2.0)]);
        for wrong in ["bn = 64", "bn = 64 -> explode", "* -> x much"] {
            assert!(wrong.parse::<Script>().is_err(), "{wrong}");
        }
    }
}
