//! Opening a database: what kind of file it is, and making a new one.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::error::{PATIENCE_S, StoreError, at};

/// What the file says of whose it is: `bsrt`.
pub(super) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"bsrt");
/// The schema that is written, and the newest that is read.
pub(super) const SCHEMA: i32 = 1;

/// Opens a database to write it, and makes one where there is none. A file that is something else is refused before anything
/// is written.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let named = |source| at(path, source);
    // What begins with `file:` would be a URI.
    let plain = Path::new(".").join(path);
    let mut connection = connect(&plain, flags).map_err(named)?;
    if identify(&connection, path)? == Kind::Empty {
        make(&mut connection, path)?;
    }
    check(&connection, path)?;
    write_ahead(&connection, path)?;
    complete(&connection).map_err(named)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(named)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(named)?;
    Ok(connection)
}

/// Opens a database that there is, to read it: as one who may write, where that is so, since whoever may not leaves the files
/// behind that SQLite makes for readers. One on a medium that cannot be written, where SQLite cannot keep the files
/// that it shares with writers, is read as it lies there: nobody can write it.
pub(super) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    if !path.exists() {
        return Err(StoreError::Missing { path: path.to_owned() });
    }
    let plain =
        connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|source| at(path, source)).and_then(|connection| {
            let kind = identify(&connection, path)?;
            Ok((connection, kind))
        });
    let (connection, kind) = match plain {
        Err(StoreError::ReadOnly { .. } | StoreError::Sqlite { .. }) if !has_log(path) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let connection = connect(Path::new(&uri(path, "immutable=1")), flags).map_err(|source| at(path, source))?;
            let kind = identify(&connection, path)?;
            (connection, kind)
        }
        opened => opened?,
    };
    if kind == Kind::Empty {
        return Err(StoreError::Foreign { path: path.to_owned(), found: 0, tables: 0, ours: APPLICATION_ID });
    }
    check(&connection, path)?;
    connection.pragma_update(None, "query_only", true).map_err(|source| at(path, source))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(PATIENCE_S))?;
    Ok(connection)
}

/// The name of a file for SQLite with a parameter ("Uniform Resource Identifiers", SQLite's documentation).
pub(super) fn uri(path: &Path, parameter: &str) -> String {
    let mut name = String::from("file:");
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => name.push(char::from(*byte)),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{name}?{parameter}")
}

/// Whether there are writes beside the file that have not come into it.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn check(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    // What SQLite would run and not read: none of it is ours, and a view may be endless.
    let sql = "SELECT type, name FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1";
    let foreign = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional();
    if let Some((kind, name)) = foreign.map_err(|source| at(path, source))? {
        return Err(StoreError::Program { path: path.to_owned(), kind, name });
    }
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(|source| at(path, source))? {
        found if found == "ok" => Ok(()),
        what => Err(StoreError::Corrupt { path: path.to_owned(), what }),
    }
}

/// Columns of records that the first version did not know, with their types. A database without them is read and goes on.
const LATER: [(&str, &str); 2] = [("watchdog_s", "REAL"), ("power", "TEXT")];

/// Those columns of a database's records, each as an expression that selects it: of one that is not there, nothing.
pub(super) fn later(connection: &Connection, database: &str) -> rusqlite::Result<[String; LATER.len()]> {
    let mut columns = LATER.map(|(column, _)| format!("r.{column}"));
    for (column, (name, _)) in columns.iter_mut().zip(LATER) {
        if !has(connection, database, name)? {
            *column = "NULL".to_owned();
        }
    }
    Ok(columns)
}

fn has(connection: &Connection, database: &str, column: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info('records', ?1) WHERE name = ?2";
    connection.query_row(sql, [database, column], |row| row.get::<_, i64>(0)).map(|count| count > 0)
}

/// Adds what earlier versions did not make, and do without.
fn complete(connection: &Connection) -> rusqlite::Result<()> {
    for (column, kind) in LATER {
        if !has(connection, "main", column)? {
            let added = connection.execute_batch(&format!("ALTER TABLE records ADD COLUMN {column} {kind}"));
            // Another process may have been faster.
            if added.is_err() && !has(connection, "main", column)? {
                return added;
            }
        }
    }
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS claims (point TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL) STRICT",
    )
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nobody's: no tables.
    Empty,
    /// Ours, of this schema.
    Ours,
}

fn identify(connection: &Connection, path: &Path) -> Result<Kind, StoreError> {
    // One statement reads all three from one state of the file: another process may be making the tables.
    let sql = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) \
               FROM pragma_application_id, pragma_user_version";
    let read = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get::<_, i32>(1)?, row.get::<_, i64>(2)?)));
    let (found, schema, tables): (i32, i32, i64) = read.map_err(|source| at(path, source))?;
    match found {
        0 if schema == 0 && tables == 0 => Ok(Kind::Empty),
        APPLICATION_ID if schema > SCHEMA => {
            Err(StoreError::Newer { path: path.to_owned(), found: schema, known: SCHEMA })
        }
        APPLICATION_ID if schema == SCHEMA => Ok(Kind::Ours),
        _ => Err(StoreError::Foreign {
            path: path.to_owned(),
            found,
            tables: usize::try_from(tables).unwrap_or(0),
            ours: APPLICATION_ID,
        }),
    }
}

/// Makes the tables, unless another process has done so in the meantime.
fn make(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let named = |source| at(path, source);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
    if identify(&transaction, path)? == Kind::Empty {
        transaction.execute_batch(include_str!("schema.sql")).map_err(named)?;
        let mut meta = transaction.prepare("INSERT INTO meta (key, value) VALUES (?1, ?2)").map_err(named)?;
        let made = jiff::Timestamp::now().to_string();
        for (key, value) in [("format", "bsr-tuner"), ("made_by", env!("CARGO_PKG_VERSION")), ("made_at", &made)] {
            meta.execute([key, value]).map_err(named)?;
        }
        drop(meta);
        transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(named)?;
        transaction.pragma_update(None, "user_version", SCHEMA).map_err(named)?;
    }
    transaction.commit().map_err(named)
}

/// Changes to a write-ahead log, so that readers and a writer do not wait for each other. SQLite does not wait for this
/// change itself: several processes may ask for it at once.
fn write_ahead(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let start = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(error)
                if matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
                    && start.elapsed() < Duration::from_secs(PATIENCE_S) =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(at(path, error)),
        }
    }
}
