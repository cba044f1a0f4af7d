//! Work on all cores, with its progress.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::exit::Failure;
use super::progress::Progress;

/// Calls `work` for the numbers of `order`, which are those below their count, on all cores; the results by number.
pub(super) fn in_parallel<T: Send>(
    order: &[usize],
    progress: &Progress,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Vec<Option<Result<T, Failure>>> {
    let count = order.len();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Result<T, Failure>>> = (0..count).map(|_| None).collect();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    if sender.send((index, work(index))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (number, (index, result)) in receiver.iter().enumerate() {
            progress.step(format!("{} of {count} problems are done", number + 1));
            results[index] = Some(result);
        }
    });
    results
}
