//! A backend in a child process: what hangs is ended, what crashes is started again, and the sweep goes on.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bsr_codegen::KernelSpec;

use super::wire::{Reply, Request};
use super::{Backend, Candidate, Checked, Opened, Rounds, Timings, Trouble};
use crate::{Verdict, Workload};

/// How often a child may crash while it opens a workload.
const MOST_CRASHES: usize = 3;
/// Lines of a child's stderr that are quoted.
const MOST_STDERR_LINES: usize = 8;
/// How long a child may take to end that has nothing left to do.
const EXIT_LIMIT: Duration = Duration::from_secs(2);

/// How long a call may take before its child is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To draw operands and compute the reference.
    pub open: Duration,
    /// To compile a kernel.
    pub compile: Duration,
    /// To check a candidate.
    pub check: Duration,
    /// To time candidates, beyond the time that the rounds allow.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { open: seconds(300), compile: seconds(60), check: seconds(30), time: seconds(30) }
    }
}

impl Limits {
    /// The time for candidates to be timed.
    fn timing(&self, rounds: &Rounds) -> Duration {
        self.time + Duration::from_millis(rounds.warmup_ms) + 2 * rounds.limit
    }
}

/// A backend behind a process that [`serve()`](super::serve())s it.
pub struct Remote {
    command: Box<dyn FnMut() -> Command + Send>,
    limits: Limits,
    child: Option<Running>,
    workload: Option<Workload>,
}

impl Remote {
    /// A backend served by what `command` starts, which is asked for again after a child's crash. Nothing is started yet.
    pub fn new(command: impl FnMut() -> Command + Send + 'static, limits: Limits) -> Self {
        Self { command: Box::new(command), limits, child: None, workload: None }
    }

    /// The child, with its workload drawn if there is one: started and opened again where it is gone.
    fn child(&mut self) -> Result<&mut Running, Trouble> {
        match (&self.child, self.workload.clone()) {
            (None, Some(workload)) => drop(self.reopen(&workload)?),
            (None, None) => self.child = Some(self.start()?),
            (Some(_), _) => {}
        }
        self.child.as_mut().ok_or_else(|| Trouble::of_backend("the child process is gone"))
    }

    fn start(&mut self) -> Result<Running, Trouble> {
        Running::start((self.command)())
            .map_err(|error| Trouble::of_backend(format!("the process of the backend cannot be started: {error}")))
    }

    fn reopen(&mut self, workload: &Workload) -> Result<Opened, Trouble> {
        let mut last = String::new();
        for _ in 0..MOST_CRASHES {
            let child = match self.child.take() {
                Some(child) => child,
                None => self.start()?,
            };
            let child = self.child.insert(child);
            match child.call(&Request::Open(workload.clone()), self.limits.open) {
                Ok(Reply::Opened(opened)) => {
                    self.workload = Some(workload.clone());
                    return Ok(*opened);
                }
                Ok(Reply::Trouble(trouble)) => {
                    self.child = None;
                    return Err(Trouble { candidate: None, ..trouble });
                }
                Ok(other) => return Err(self.nonsense(&other)),
                Err(crash) => {
                    self.child = None;
                    last = crash.message(&format!("opening {}", workload.facts), self.limits.open);
                }
            }
        }
        Err(Trouble::of_backend(format!(
            "the backend crashed {MOST_CRASHES} times while opening a workload; at last: {last}"
        )))
    }

    /// Calls for candidates: of one alone, it is its fault if the child does not come back.
    fn call(&mut self, request: &Request, names: &[String], doing: &str, limit: Duration) -> Result<Reply, Trouble> {
        let child = self.child()?;
        let trouble = match child.call(request, limit) {
            Ok(Reply::Trouble(trouble)) => trouble,
            Ok(reply) => return Ok(reply),
            Err(crash) => {
                let candidate = if names.len() == 1 { Some(0) } else { child.at.filter(|at| *at < names.len()) };
                let who = match candidate.and_then(|at| names.get(at)) {
                    Some(name) => format!("{doing} `{name}`"),
                    None => format!("{doing} {} candidates", names.len()),
                };
                let verdict = if matches!(crash, Crash::Silent { .. }) { Verdict::Hang } else { Verdict::Fault };
                Trouble { verdict, candidate, message: crash.message(&who, limit), lost: true }
            }
        };
        if trouble.lost {
            self.child = None;
        }
        Err(trouble)
    }

    fn nonsense(&mut self, reply: &Reply) -> Trouble {
        self.child = None;
        Trouble::of_backend(format!(
            "the backend answered another question: {reply:?}\n  help: is it of another version?"
        ))
    }
}

impl Backend for Remote {
    fn open(&mut self, workload: &Workload) -> Result<Opened, Trouble> {
        self.reopen(workload)
    }

    fn compile(&mut self, kernel: &KernelSpec) -> Result<Option<f64>, Trouble> {
        match self.call(&Request::Compile(*kernel), &[kernel.to_string()], "compiling", self.limits.compile)? {
            Reply::Compiled(ms) => Ok(ms),
            other => Err(self.nonsense(&other)),
        }
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble> {
        let request = Request::Check(candidate.clone());
        match self.call(&request, &[candidate.name()], "checking", self.limits.check)? {
            Reply::Checked(checked) => Ok(checked),
            other => Err(self.nonsense(&other)),
        }
    }

    fn time(&mut self, candidates: &[Candidate], rounds: &Rounds) -> Result<Timings, Trouble> {
        let request = Request::Time { candidates: candidates.to_vec(), rounds: *rounds };
        let names: Vec<String> = candidates.iter().map(Candidate::name).collect();
        match self.call(&request, &names, "timing", self.limits.timing(rounds))? {
            Reply::Timed(times) if times.samples_us.len() == candidates.len() => Ok(times),
            other => Err(self.nonsense(&other)),
        }
    }
}

/// A child process that is alive, as far as is known.
struct Running {
    child: Child,
    /// Taken to tell the child that there is nothing more to do.
    input: Option<ChildStdin>,
    replies: Receiver<Reply>,
    /// The last lines of stderr, and of stdout what is no answer.
    words: Arc<Mutex<VecDeque<String>>>,
    /// Closed when stderr has been read to its end.
    silent: Receiver<()>,
    /// The candidate that the call has come to, where the backend tells.
    at: Option<usize>,
}

/// What became of a child in a call.
enum Crash {
    /// It did not answer in time, and was ended.
    Silent { output: String },
    /// What it was to be asked cannot be written; it waits.
    Unsaid { why: String },
    /// It ended itself.
    Gone { status: Option<ExitStatus>, output: String },
}

impl Crash {
    fn message(&self, doing: &str, limit: Duration) -> String {
        match self {
            Self::Silent { output } => {
                format!("no answer within {} s while {doing}: its process was ended{output}", limit.as_secs_f64())
            }
            Self::Unsaid { why } => format!("the question cannot be written while {doing}: {why}"),
            Self::Gone { status: Some(status), output } => {
                format!("its process ended ({status}) while {doing}{output}")
            }
            Self::Gone { status: None, output } => format!("its process ended while {doing}{output}"),
        }
    }
}

impl Running {
    fn start(mut command: Command) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the parent, which finishes the call.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a pipe to the process is missing");
        let output = child.stdout.take().ok_or_else(missing)?;
        let errors = child.stderr.take().ok_or_else(missing)?;
        let words = Arc::new(Mutex::new(VecDeque::new()));
        let (answers, replies) = mpsc::channel();
        let (quiet, silent) = mpsc::channel();
        listen(output, Arc::clone(&words), move |line| match serde_json::from_str(line) {
            Ok(reply) => answers.send(reply).is_ok(),
            Err(_) => false,
        });
        listen(errors, Arc::clone(&words), move |_| {
            // Dropped with this thread; nothing is ever sent.
            let _held: &mpsc::Sender<()> = &quiet;
            false
        });
        Ok(Self { input: child.stdin.take(), child, replies, words, silent, at: None })
    }

    /// Asks, and waits for the answer, but no longer than `limit`.
    fn call(&mut self, request: &Request, limit: Duration) -> Result<Reply, Crash> {
        self.at = None;
        let end = Instant::now() + limit;
        let mut line = match serde_json::to_vec(request) {
            Ok(line) => line,
            Err(error) => return Err(Crash::Unsaid { why: error.to_string() }),
        };
        line.push(b'\n');
        let sent = self.input.as_mut().map(|input| input.write_all(&line).and_then(|()| input.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.gone());
        }
        loop {
            match self.replies.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Reply::At(at)) => self.at = Some(at),
                Ok(reply) => return Ok(reply),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return Err(Crash::Silent { output: self.stderr_tail() });
                }
            }
        }
    }

    /// A child whose output is closed has ended, or is about to.
    fn gone(&mut self) -> Crash {
        let status = self.wait(EXIT_LIMIT);
        Crash::Gone { status, output: self.stderr_tail() }
    }

    /// Waits for the end, for some time; then ends it.
    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }

    fn stderr_tail(&self) -> String {
        let _ = self.silent.recv_timeout(Duration::from_millis(500));
        let words = match self.words.lock() {
            Ok(words) => words.iter().cloned().collect::<Vec<_>>(),
            Err(_) => vec![],
        };
        if words.is_empty() { String::new() } else { format!("; it said:\n    {}", words.join("\n    ")) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        self.wait(EXIT_LIMIT);
    }
}

/// Hands lines to `take` until the other end closes; keeps the last of those that it does not take.
fn listen(
    from: impl Read + Send + 'static,
    words: Arc<Mutex<VecDeque<String>>>,
    take: impl Fn(&str) -> bool + Send + 'static,
) {
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            if !take(&line)
                && let Ok(mut words) = words.lock()
            {
                words.push_back(line.trim_end().to_owned());
                if words.len() > MOST_STDERR_LINES {
                    words.pop_front();
                }
            }
        }
    });
}
