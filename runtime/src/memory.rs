//! What fits memory, before it is taken.

use std::fs;

use bsr_codegen::Refusal;

/// Bytes of memory that this process can still have, as far as the system tells: what is free, the limits of the process
/// (`ulimit -v`, `ulimit -d`) and of its control group.
pub fn memory_available() -> Option<u64> {
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemAvailable:"));
    [free, below_limits(), below_group()].into_iter().flatten().min()
}

/// `Name:  1234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the limits of the process leave of its address space.
fn below_limits() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let left = |limit: &str, used: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        let most: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(most.saturating_sub(kilobytes(&status, used)?))
    };
    [left("Max address space", "VmSize:"), left("Max data size", "VmData:")].into_iter().flatten().min()
}

/// What the control group of a container leaves.
fn below_group() -> Option<u64> {
    let number = |name: &str| fs::read_to_string(name).ok()?.trim().parse::<u64>().ok();
    let new = (number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current"));
    let old = "/sys/fs/cgroup/memory/memory";
    let old = (number(&format!("{old}.limit_in_bytes")), number(&format!("{old}.usage_in_bytes")));
    let (most, used) = if new.0.is_some() { new } else { old };
    Some(most?.saturating_sub(used?))
}

/// Refuses what would not fit memory: parts in words with their bytes. To be called before the memory is taken: the system
/// grants what it does not have, and ends the process that uses it.
///
/// # Errors
/// What does not fit this machine's memory, or the part of it that this process may have, with the arithmetic.
pub fn check_memory(parts: &[(&str, u64)]) -> Result<(), Refusal> {
    // What is always there need not be asked for.
    if parts.iter().all(|(_, bytes)| *bytes < 1 << 16) {
        return Ok(());
    }
    check_against(parts, memory_available().unwrap_or(u64::MAX))
}

pub(crate) fn check_against(parts: &[(&str, u64)], available: u64) -> Result<(), Refusal> {
    let needed = parts.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
    if needed <= available {
        return Ok(());
    }
    let words: Vec<String> = parts.iter().map(|(what, bytes)| format!("{what} {}", size(*bytes))).collect();
    Err(Refusal::new("it does not fit memory")
        .why(format!("{} = {}; {} are available", words.join(" + "), size(needed), size(available)))
        .help("take a smaller matrix, or raise the limit"))
}

/// `1.5 GB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{bytes} B"),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_the_arithmetic() {
        let parts = [("the file", 3_000_000_000), ("its values as f64", 6_000_000_000)];
        let error = check_against(&parts, 4_000_000_000).unwrap_err().to_string();
        assert!(error.contains("the file 3.0 GB + its values as f64 6.0 GB = 9.0 GB"), "{error}");
        assert!(error.contains("4.0 GB are available"), "{error}");
        assert!(check_against(&parts, 9_000_000_000).is_ok());
        assert!(check_against(&[("a", u64::MAX), ("b", 9)], u64::MAX - 1).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_what_is_left() {
        let available = memory_available().unwrap();
        assert!(available > 1 << 20, "{available}");
    }
}
