//! Rows that cannot be read, databases that cannot be written, and points that another process is at.

#![allow(clippy::unwrap_used)]

use super::tests::{folder, record, run};
use super::*;
use crate::Verdict;

/// Spoils rows behind the back of the store.
fn execute(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    connection.execute_batch(sql).unwrap();
}

/// Six records, of which four are spoilt, and a run that is.
fn spoilt(path: &Path) {
    let mut store = Store::open(path).unwrap();
    let runs = [(); 2].map(|()| {
        store.begin(&run()).unwrap_or_else(|_| {
            let later = Run { command: "bsr sweep again".into(), ..run() };
            store.begin(&later).unwrap()
        })
    });
    store.insert(&[record(1), record(2), record(3), record(4)], Some(runs[0])).unwrap();
    store.insert(&[record(5), record(6)], Some(runs[1])).unwrap();
    drop(store);
    execute(path, "UPDATE records SET verdict = 'splendid' WHERE id = 1");
    execute(path, "UPDATE records SET at = 'yesterday' WHERE id = 2");
    execute(path, "UPDATE records SET median_us = median_us + 1 WHERE id = 3");
    execute(path, "UPDATE records SET device = 99 WHERE id = 4");
    execute(path, "UPDATE runs SET started = 'once' WHERE id = 1");
}

#[test]
fn rows_that_cannot_be_read_are_told_and_the_others_are_read() {
    let folder = folder();
    let path = folder.path().join("a.db");
    spoilt(&path);
    let store = Store::existing(&path).unwrap();
    let Contents { records, unreadable } = store.read().unwrap();
    assert_eq!(records, [record(5), record(6)]);
    let told: Vec<(&str, i64)> = unreadable.iter().map(|row| (row.table, row.row)).collect();
    assert_eq!(told, [("records", 1), ("records", 2), ("records", 3), ("records", 4), ("runs", 1)]);
    for (row, words) in unreadable.iter().zip(["splendid", "at:", "differs from its digest", "", ""]) {
        assert!(row.why.contains(words), "{row:?}");
    }
    assert_eq!((store.records().unwrap().len(), store.runs().unwrap().len()), (2, 1));
    assert!(store.hit(&record(1).problem.key(), &record(1).device).unwrap().is_some());
}

#[test]
fn a_problem_that_was_altered_takes_its_records_along() {
    let folder = folder();
    let path = folder.path().join("a.db");
    Store::open(&path).unwrap().insert(&[record(1)], None).unwrap();
    execute(&path, "UPDATE problems SET nnzb = nnzb + 1");
    let Contents { records, unreadable } = Store::existing(&path).unwrap().read().unwrap();
    assert!(records.is_empty() && unreadable[0].why.contains("differs from its digest"), "{unreadable:?}");
}

#[test]
fn a_spec_of_brackets_without_end_is_a_row_that_cannot_be_read() {
    let folder = folder();
    let path = folder.path().join("a.db");
    Store::open(&path).unwrap().insert(&[record(1), record(2)], None).unwrap();
    let deep = format!("bm = 64, bk = 32, epilogue = \"|| {}acc\"", "(".repeat(50_000));
    execute(&path, &format!("UPDATE records SET subject = '{deep}' WHERE id = 1"));
    let Contents { records, unreadable } = Store::existing(&path).unwrap().read().unwrap();
    assert_eq!((records, unreadable.len()), (vec![record(2)], 1), "{unreadable:?}");
    execute(&path, &format!("UPDATE problems SET facts = '{deep}'"));
    let Contents { records, unreadable } = Store::existing(&path).unwrap().read().unwrap();
    assert!(records.is_empty() && !unreadable.is_empty(), "{unreadable:?}");
}

#[test]
fn merging_leaves_such_rows_where_they_are() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    spoilt(&path("spoilt"));
    let mut all = Store::open(path("all")).unwrap();
    let merged = all.merge(path("spoilt")).unwrap();
    assert_eq!((merged.read, merged.new, merged.left.len()), (6, 2, 5));
    let read = all.read().unwrap();
    assert_eq!((read.records, read.unreadable), (vec![record(5), record(6)], vec![]));
    assert_eq!((all.len().unwrap(), all.runs().unwrap().len()), (2, 1));
}

#[test]
fn a_database_of_an_earlier_version_goes_on() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    for name in ["1", "2"] {
        Store::open(path(name)).unwrap().insert(&[record(1)], None).unwrap();
        execute(
            &path(name),
            "ALTER TABLE records DROP COLUMN watchdog_s; ALTER TABLE records DROP COLUMN power; DROP TABLE claims",
        );
    }
    assert_eq!(Store::existing(path("1")).unwrap().records().unwrap(), [record(1)]);
    let mut all = Store::open(path("all")).unwrap();
    assert_eq!(all.merge(path("1")).unwrap().new, 1);
    let hang = Record { verdict: Verdict::Hang, watchdog_s: Some(0.5), ..record(2) };
    let mut store = Store::open(path("2")).unwrap();
    store.insert(std::slice::from_ref(&hang), None).unwrap();
    assert_eq!(store.records().unwrap(), [record(1), hang]);
}

#[cfg(unix)]
#[test]
fn a_database_that_cannot_be_written_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let place = folder.path().join("read-only");
    std::fs::create_dir(&place).unwrap();
    let path = place.join("a ?%.db");
    Store::open(&path).unwrap().insert(&[record(1)], None).unwrap();
    let may = |mode: u32, file: &Path| std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    may(0o444, &path);
    may(0o555, &place);
    let read = Store::existing(&path).and_then(|store| store.records());
    let merged = Store::open(folder.path().join("all")).unwrap().merge(&path);
    // Whoever may do anything may write this, too.
    let written = Store::open(&path).and_then(|mut store| store.insert(&[record(2)], None));
    let is_root = std::fs::write(place.join("new"), "").is_ok();
    may(0o755, &place);
    assert_eq!(read.unwrap(), [record(1)]);
    assert_eq!(merged.unwrap().new, 1);
    assert!(is_root || matches!(written, Err(StoreError::ReadOnly { .. })), "{written:?}");
    assert!(std::fs::read_dir(&place).unwrap().count() == 1 || is_root);
}

#[test]
fn a_point_is_claimed_once_until_it_is_recorded_or_its_owner_has_ended() {
    let folder = folder();
    let mut store = Store::open(folder.path().join("a.db")).unwrap();
    let Record { problem, device, subject, ptx, .. } = record(1);
    let place = (&problem.workload, &device);
    let (mine, other) = (Owner::this(), Owner::named("elsewhere 1 1"));
    let claim = |store: &mut Store, owner: &Owner| store.claim(place, (&subject, &ptx), owner, None).unwrap();
    assert_eq!(claim(&mut store, &mine), Claimed::Mine);
    assert_eq!(claim(&mut store, &mine), Claimed::Mine);
    assert_eq!(claim(&mut store, &other), Claimed::Elsewhere);
    store.release_all(&mine).unwrap();
    assert_eq!(claim(&mut store, &other), Claimed::Mine);
    assert_eq!(claim(&mut store, &mine), Claimed::Elsewhere);
    store.insert(&[record(1)], None).unwrap();
    assert_eq!(claim(&mut store, &mine), Claimed::Known(Box::new(record(1))));
    let again = store.claim(place, (&subject, &ptx), &other, Some(&record(1))).unwrap();
    assert_eq!(again, Claimed::Mine, "a record that is disregarded");
    if cfg!(target_os = "linux") {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = Owner::of(child.id());
        child.wait().unwrap();
        store.release_all(&other).unwrap();
        assert_eq!(store.claim(place, (&subject, &ptx), &ended, Some(&record(1))).unwrap(), Claimed::Mine);
        assert_eq!(store.claim(place, (&subject, &ptx), &mine, Some(&record(1))).unwrap(), Claimed::Mine);
    }
}
