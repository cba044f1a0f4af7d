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
    assert!(is_root || written.is_err_and(|error| error.to_string().contains("read-only")));
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

/// Sizes that no flag asks for, and features that no pattern has.
#[test]
fn what_no_problem_is_like_cannot_be_read() {
    let huge = 10_000_000_000;
    let spoil: [fn(&mut Record, usize); 9] = [
        |record, huge| record.problem.workload.m = huge,
        |record, huge| record.problem.workload.n = huge,
        |record, huge| record.problem.workload.k = huge,
        |record, _| record.problem.workload.n = 0,
        |record, huge| record.problem.features.block_rows = huge,
        |record, huge| record.problem.features.nnzb = huge,
        |record, huge| record.problem.features.longest_row = huge,
        |record, _| record.problem.features.nnzb = 5,
        |record, _| record.problem.features.reuse = f64::INFINITY,
    ];
    let folder = folder();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    store.insert(&[record(1)], None).unwrap();
    for (at, spoil) in spoil.into_iter().enumerate() {
        let mut spoilt = record(2);
        spoil(&mut spoilt, huge);
        store.insert(std::slice::from_ref(&spoilt), None).unwrap();
        let line = serde_json::to_string(&spoilt).unwrap();
        assert!(serde_json::from_str::<Record>(&line).is_err(), "{line}");
        let Contents { records, unreadable } = store.read().unwrap();
        assert_eq!((records, unreadable.len()), (vec![record(1)], at + 1), "{line}");
    }
    assert_eq!(serde_json::from_str::<Record>(&serde_json::to_string(&record(1)).unwrap()).unwrap(), record(1));
}

/// SQLite would run them: a view may have rows without end.
#[test]
fn a_database_with_a_program_in_it_is_refused() {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    for (sql, what) in [
        (format!("CREATE VIEW more AS {endless}"), "view"),
        ("CREATE TRIGGER more AFTER INSERT ON claims BEGIN DELETE FROM records; END".to_owned(), "trigger"),
        (format!("ALTER TABLE records RENAME TO more; CREATE VIEW records AS {endless}"), "view"),
    ] {
        let folder = folder();
        let path = folder.path().join("a.db");
        Store::open(&path).unwrap().insert(&[record(1)], None).unwrap();
        execute(&path, &sql);
        let all = Store::open(folder.path().join("all")).and_then(|mut all| all.merge(&path).map(|_| ()));
        for refused in [Store::open(&path).map(|_| ()), Store::existing(&path).map(|_| ()), all] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&format!("the {what} `")), "{sql}: {refused}");
        }
    }
}

/// Deleted, replaced by another file, and written over, each while a sweep has it open.
#[cfg(unix)]
#[test]
fn a_database_that_is_taken_away_is_noticed_and_what_it_held_is_saved() {
    let taken: [fn(&Path); 4] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| {
            let other = path.with_file_name("other");
            Store::open(&other).unwrap().insert(&[record(7)], None).unwrap();
            std::fs::rename(other, path).unwrap();
        },
        |path| std::fs::write(path, "a text").unwrap(),
        |path| std::fs::write(path, "").unwrap(),
    ];
    for (at, take) in taken.into_iter().enumerate() {
        let folder = folder();
        let path = folder.path().join("a.db");
        let mut store = Store::open(&path).unwrap();
        let id = store.begin(&run()).unwrap();
        store.insert(&[record(1)], Some(id)).unwrap();
        take(&path);
        let error = store.insert(&[record(2)], Some(id)).unwrap_err().to_string();
        assert!(error.contains("help:"), "{error}");
        let saved = error.lines().find_map(|line| line.trim().strip_prefix("what it held is in "));
        match saved {
            Some(saved) => assert_eq!(Store::existing(saved).unwrap().records().unwrap()[0], record(1)),
            // Of what was written over nothing may be left.
            None => assert!(at >= 2, "{error}"),
        }
        assert!(store.conclude(id, "complete", &[]).is_err(), "{at}");
    }
}

#[test]
fn a_sweep_that_was_left_alone_is_concluded() {
    let folder = folder();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    let id = store.begin(&run()).unwrap();
    store.insert(&[record(1), record(2)], Some(id)).unwrap();
    store.conclude(id, "complete", &[]).unwrap();
    assert_eq!(store.runs().unwrap()[0].how.as_deref(), Some("complete"));
}

#[cfg(unix)]
#[test]
fn a_file_is_not_merged_into_itself_by_another_name() {
    let folder = folder();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    std::fs::hard_link(&path, folder.path().join("hard")).unwrap();
    std::os::unix::fs::symlink("a.db", folder.path().join("soft")).unwrap();
    for name in ["a.db", "hard", "soft"] {
        let error = store.merge(folder.path().join(name)).unwrap_err();
        assert!(error.to_string().contains("into itself"), "{name}: {error}");
    }
}

#[test]
fn what_a_model_predicted_is_not_called_timed() {
    let mut simulated = record(1);
    simulated.device.kind = crate::DeviceKind::Sim;
    let mut table = Vec::new();
    export_csv(&[record(1), simulated], &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    let rows: Vec<bool> = table.lines().skip(1).map(|row| row.contains(",timed,")).collect();
    assert_eq!(rows, [true, false], "{table}");
    assert!(table.contains(",predicted,"));
}
