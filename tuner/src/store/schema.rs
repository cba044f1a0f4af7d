//! Opening a database: what kind of file it is, and making a new one.

use std::path::Path;
use std::time::{Duration, Instant};

use bsr_codegen::Refusal;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::error::{self, PATIENCE_S, at};

/// What the file says of whose it is: `bsrt`.
pub(super) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"bsrt");
/// The schema that is written, and the newest that is read.
pub(super) const SCHEMA: i32 = 1;

/// Opens a database to write it, and makes one where there is none. A file that is something else is refused before anything
/// is written.
pub(super) fn open_to_write(path: &Path) -> Result<Connection, Refusal> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let named = |source| at(path, source);
    // What begins with `file:` would be a URI.
    let plain = Path::new(".").join(path);
    let mut connection = connect(&plain, flags).map_err(named)?;
    if Marks::of(&connection).map_err(named)?.are_none(path)? {
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
pub(super) fn open_to_read(path: &Path) -> Result<Connection, Refusal> {
    if !path.exists() {
        return Err(error::of(path, "no such file").help("`bsr sweep --db FILE` makes one"));
    }
    let named = |source| at(path, source);
    let open =
        |path: &Path, flags| connect(path, flags).and_then(|connection| Ok((Marks::of(&connection)?, connection)));
    let (marks, connection) = match open(path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
        Err(error) if !has_log(path) && !says_of_the_file(&error) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            open(Path::new(&uri(path, "immutable=1")), flags)
        }
        opened => opened,
    }
    .map_err(named)?;
    if marks.are_none(path)? {
        return Err(marks.foreign(path));
    }
    check(&connection, path)?;
    connection.pragma_update(None, "query_only", true).map_err(named)?;
    Ok(connection)
}

/// Whether an error is of the file itself or of its other users, and not of the medium that it is on.
fn says_of_the_file(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseCorrupt, DatabaseLocked, NotADatabase};
    matches!(error.sqlite_error_code(), Some(NotADatabase | DatabaseCorrupt | DatabaseBusy | DatabaseLocked))
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

fn check(connection: &Connection, path: &Path) -> Result<(), Refusal> {
    // What SQLite would run and not read: none of it is ours, and a view may be endless.
    let sql = "SELECT type, name FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1";
    let foreign = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).optional();
    if let Some((kind, name)) = foreign.map_err(|source| at(path, source))? {
        let (kind, name): (String, String) = (kind, name);
        let fact = format_args!("the {kind} `{name}` is in it, and databases of bsr hold tables alone");
        return Err(error::left_alone(path, fact, "name another file, or drop it there"));
    }
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(|source| at(path, source))? {
        found if found == "ok" => Ok(()),
        what => Err(error::corrupt(path, what)),
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

/// What a file says of whose it is.
#[derive(Clone, Copy)]
struct Marks {
    application: i32,
    schema: i32,
    tables: i64,
}

impl Marks {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        // One statement reads all three from one state of the file: another process may be making the tables.
        let sql = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) \
                   FROM pragma_application_id, pragma_user_version";
        let read =
            |row: &rusqlite::Row<'_>| Ok(Self { application: row.get(0)?, schema: row.get(1)?, tables: row.get(2)? });
        connection.query_row(sql, [], read)
    }

    /// Whether the file is nobody's yet; otherwise it is ours, of this schema.
    fn are_none(self, path: &Path) -> Result<bool, Refusal> {
        let Self { application, schema, tables } = self;
        match application {
            0 if schema == 0 && tables == 0 => Ok(true),
            APPLICATION_ID if schema == SCHEMA => Ok(false),
            APPLICATION_ID if schema > SCHEMA => {
                let fact =
                    format_args!("written by a newer version: schema {schema}, this version reads up to {SCHEMA}");
                Err(error::left_alone(path, fact, "update bsr, or name another file"))
            }
            _ => Err(self.foreign(path)),
        }
    }

    fn foreign(self, path: &Path) -> Refusal {
        let Self { application, tables, .. } = self;
        let marks = format!("application_id {application:#010x}, {tables} tables; ours is {APPLICATION_ID:#010x}");
        error::left_alone(path, format_args!("a database of another application ({marks})"), "name another file")
    }
}

/// Makes the tables, unless another process has done so in the meantime.
fn make(connection: &mut Connection, path: &Path) -> Result<(), Refusal> {
    let named = |source| at(path, source);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(named)?;
    if Marks::of(&transaction).map_err(named)?.are_none(path)? {
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
fn write_ahead(connection: &Connection, path: &Path) -> Result<(), Refusal> {
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
