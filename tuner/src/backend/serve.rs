//! The child's side: a backend that answers over standard input and output.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{Reply, Request};
use super::{Backend, Reporter};

/// How long a call may go on after the parent is gone.
const GRACE: Duration = Duration::from_secs(5);

/// Answers calls until the parent closes `input`, or ends, which closes it too.
///
/// A call that goes on for 5 seconds after that is given up: `orphaned` is called, which ends the process.
///
/// # Errors
/// A request that is none, an answer that cannot be written: the parent is gone, or of another version.
pub fn serve(
    backend: &mut dyn Backend,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    orphaned: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let output = Arc::new(Mutex::new(output));
    let busy = Arc::new(AtomicBool::new(false));
    let (requests, next) = mpsc::channel();
    thread::spawn({
        let busy = Arc::clone(&busy);
        move || {
            for line in BufReader::new(input).lines() {
                let Ok(line) = line else { break };
                if requests.send(line).is_err() {
                    return;
                }
            }
            drop(requests);
            let end = Instant::now() + GRACE;
            while busy.load(Ordering::SeqCst) {
                if Instant::now() > end {
                    return orphaned();
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    });
    let reporter: Reporter = {
        let output = Arc::clone(&output);
        Arc::new(move |at| {
            // The answer finds out what is wrong with the output.
            let _ = write(&output, &Reply::At(at));
        })
    };
    backend.report_to(reporter);
    for line in next {
        let request = serde_json::from_str(&line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("`{line}` is no request to a backend: {error}"))
        })?;
        busy.store(true, Ordering::SeqCst);
        let reply = answer(backend, request);
        busy.store(false, Ordering::SeqCst);
        write(&output, &reply)?;
    }
    Ok(())
}

fn answer(backend: &mut dyn Backend, request: Request) -> Reply {
    let reply = match request {
        Request::Compile(kernel) => backend.compile(&kernel).map(Reply::Compiled),
        Request::Open(workload) => backend.open(&workload).map(|opened| Reply::Opened(Box::new(opened))),
        Request::Check(candidate) => backend.check(&candidate).map(Reply::Checked),
        Request::Time { candidates, rounds } => backend.time(&candidates, &rounds).map(Reply::Timed),
    };
    reply.unwrap_or_else(Reply::Trouble)
}

fn write(output: &Mutex<impl Write>, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut output = output.lock().map_err(|_| io::Error::other("a writer of answers has panicked"))?;
    output.write_all(&line)?;
    output.flush()
}
