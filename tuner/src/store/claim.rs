//! Who measures what: several sweeps may write one file, and none repeats what another is at.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bsr_codegen::Refusal;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::row::point;
use super::{Store, error};
use crate::{DeviceId, Record, Workload};

/// A claim ends after this time, whatever has become of its owner.
const LEASE: Duration = Duration::from_secs(30 * 60);

/// A process that measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner(String);

impl Owner {
    /// This process.
    pub fn this() -> Self {
        Self::of(std::process::id())
    }

    /// A process of this machine.
    pub(super) fn of(process: u32) -> Self {
        let machine = machine().unwrap_or_else(|| "?".to_owned());
        Self(format!("{machine} {process} {}", started(process).unwrap_or_else(|| "?".to_owned())))
    }

    #[cfg(test)]
    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Whether it has ended, as far as this machine knows: of a process elsewhere nothing is known.
    fn has_ended(&self) -> bool {
        let mut words = self.0.split(' ');
        let (Some(there), Some(Ok(process)), Some(begun)) = (words.next(), words.next().map(str::parse), words.next())
        else {
            return false;
        };
        machine().is_some_and(|here| here == there) && begun != "?" && started(process).as_deref() != Some(begun)
    }
}

/// What tells machines apart, and process numbers on them: since when the machine runs, and in which space of numbers.
fn machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let space = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), space.to_string_lossy()))
}

/// When a process began, in ticks since the machine did; none if there is none.
fn started(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may hold anything, and ends with the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

/// What came of asking for a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Claimed {
    /// It is this process's to measure.
    Mine,
    /// Another process is at it.
    Elsewhere,
    /// It has been measured since.
    Known(Box<Record>),
}

impl Store {
    /// Asks for a point - a subject and the fingerprint of its PTX - of a workload on a device, so that no other process
    /// measures it at the same time. A record counts as known if it is none of `disregarded`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn claim(
        &mut self,
        (workload, device): (&Workload, &DeviceId),
        (subject, ptx): (&str, &str),
        owner: &Owner,
        disregarded: Option<&Record>,
    ) -> Result<Claimed, Refusal> {
        let point = point(workload, device, subject, ptx).map_err(|what| error::of(&self.path, what))?;
        let path = self.path.clone();
        let named = |source| error::at(&path, source);
        let mine = claim(&mut self.connection, &point, owner).map_err(named)?;
        let known = self.of_point(workload, device, subject, ptx)?;
        match known.filter(|known| Some(known) != disregarded) {
            Some(known) => {
                let sql = "DELETE FROM claims WHERE point = ?1 AND owner = ?2";
                self.connection.execute(sql, [&point, &owner.0]).map_err(named)?;
                Ok(Claimed::Known(Box::new(known)))
            }
            None if mine => Ok(Claimed::Mine),
            None => Ok(Claimed::Elsewhere),
        }
    }

    /// Gives back all that a process has asked for and not measured.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn release_all(&mut self, owner: &Owner) -> Result<(), Refusal> {
        let released = self.connection.execute("DELETE FROM claims WHERE owner = ?1", [&owner.0]);
        released.map(|_| ()).map_err(|source| error::at(&self.path, source))
    }
}

/// Whether the point is this owner's now.
fn claim(connection: &mut Connection, point: &str, owner: &Owner) -> rusqlite::Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now = seconds(SystemTime::now());
    let sql = "SELECT owner, until FROM claims WHERE point = ?1";
    let there =
        transaction.query_row(sql, [point], |row| Ok((Owner(row.get(0)?), row.get::<_, i64>(1)?))).optional()?;
    let is_free = there.is_none_or(|(other, until)| other == *owner || until <= now || other.has_ended());
    if is_free {
        let sql = "INSERT OR REPLACE INTO claims (point, owner, until) VALUES (?1, ?2, ?3)";
        transaction.execute(sql, params![point, owner.0, seconds(SystemTime::now() + LEASE)])?;
    }
    transaction.commit()?;
    Ok(is_free)
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}
