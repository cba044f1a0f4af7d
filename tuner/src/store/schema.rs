//! Opening a database: what kind of file it is, and making a new one.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::error::{PATIENCE_S, StoreError, at};

/// What the file says of whose it is: `bsrt`.
pub(super) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"bsrt");
/// The schema that is written, and the newest that is read.
pub(super) const SCHEMA: i32 = 1;

/// Opens a database, and makes one where there is none and `create` is true. A file that is something else is refused
/// before anything is written.
pub(super) fn open(path: &Path, create: bool) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !create && !path.exists() {
        return Err(StoreError::Missing { path: path.to_owned() });
    }
    let flags = if create { flags | OpenFlags::SQLITE_OPEN_CREATE } else { flags };
    let named = |source| at(path, source);
    let mut connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(Duration::from_secs(PATIENCE_S)).map_err(named)?;
    if identify(&connection, path)? == Kind::Empty {
        if !create {
            return Err(StoreError::Foreign { path: path.to_owned(), found: 0, tables: 0, ours: APPLICATION_ID });
        }
        make(&mut connection, path)?;
    }
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(named)?;
    if found != "ok" {
        return Err(StoreError::Corrupt { path: path.to_owned(), what: found });
    }
    write_ahead(&connection, path)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(named)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(named)?;
    Ok(connection)
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
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(|e| at(path, e));
    let found = number("PRAGMA application_id")?;
    let schema = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_master")?;
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
