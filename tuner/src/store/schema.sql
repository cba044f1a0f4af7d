CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- What was multiplied. `key` tells problems apart for the purpose of choosing a kernel; several patterns may share one.
CREATE TABLE problems (
    id          INTEGER PRIMARY KEY,
    digest      TEXT NOT NULL UNIQUE,
    key         TEXT NOT NULL,
    facts       TEXT NOT NULL,
    m           INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    k           INTEGER NOT NULL,
    source_kind TEXT NOT NULL,
    source      TEXT NOT NULL,
    seed        INTEGER NOT NULL,
    block_rows  INTEGER NOT NULL,
    block_cols  INTEGER NOT NULL,
    nnzb        INTEGER NOT NULL,
    longest_row INTEGER NOT NULL,
    row_spread  REAL NOT NULL,
    empty_rows  REAL NOT NULL,
    reuse       REAL NOT NULL
) STRICT;
CREATE INDEX problems_by_key ON problems (key);

CREATE TABLE devices (
    id     INTEGER PRIMARY KEY,
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    driver TEXT NOT NULL,
    UNIQUE (kind, name, driver)
) STRICT;

-- One command that measured. `ended` and `how` are empty while it runs, and stay so if it was killed.
CREATE TABLE runs (
    id           INTEGER PRIMARY KEY,
    digest       TEXT NOT NULL UNIQUE,
    started      TEXT NOT NULL,
    ended        TEXT,
    version      TEXT NOT NULL,
    command      TEXT NOT NULL,
    space        TEXT NOT NULL,
    space_digest TEXT NOT NULL,
    asked        TEXT NOT NULL,
    how          TEXT
) STRICT;

-- Points that never became kernels, by reason. `problem` is the key of the problem that they were for.
CREATE TABLE rejections (
    run     INTEGER NOT NULL REFERENCES runs (id),
    problem TEXT NOT NULL,
    reason  TEXT NOT NULL,
    points  INTEGER NOT NULL,
    PRIMARY KEY (run, problem, reason)
) STRICT;

-- One measurement of one point. `samples` are the times in the order taken: microseconds as little-endian f64.
CREATE TABLE records (
    id             INTEGER PRIMARY KEY,
    digest         TEXT NOT NULL UNIQUE,
    problem        INTEGER NOT NULL REFERENCES problems (id),
    device         INTEGER NOT NULL REFERENCES devices (id),
    run            INTEGER REFERENCES runs (id),
    subject        TEXT NOT NULL,
    baseline       INTEGER NOT NULL,
    plan           TEXT NOT NULL,
    ptx            TEXT NOT NULL,
    version        TEXT NOT NULL,
    verdict        TEXT NOT NULL,
    error          TEXT,
    predicted_us   REAL,
    samples        BLOB,
    median_us      REAL,
    relative_ci    REAL,
    dense_us       REAL,
    dense_flops    INTEGER,
    dense_ratio    REAL,
    relative_error REAL,
    compile_ms     REAL,
    at             TEXT NOT NULL
) STRICT;
CREATE INDEX records_by_problem ON records (problem, device);
