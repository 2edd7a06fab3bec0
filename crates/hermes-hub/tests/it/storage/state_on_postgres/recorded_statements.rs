//! What programs ask of the database, by the version of its tables: `statements/` has a list of each, one statement per
//! line. A list only grows: it has what every program asks that was made for these tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use hermes_testkit::postgres::TestDatabase;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, postgres::PgConnectOptions,
};

/// The type of a value is not known, which the driver would tell.
const UNKNOWN_TYPE: &str = "42P18";

pub(super) fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn list_of(version: i64) -> PathBuf {
    lists().join(format!("{version:04}.sql"))
}

fn lists() -> PathBuf {
    crate_directory().join("tests/it/storage/state_on_postgres/statements")
}

/// All lists, by version.
pub(super) fn read_lists() -> BTreeMap<i64, BTreeSet<String>> {
    let files = fs::read_dir(lists()).unwrap();
    let versions = files.map(|file| {
        let path = file.unwrap().path();
        let version = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let list = fs::read_to_string(path).unwrap();
        (version, list.lines().map(str::to_owned).collect())
    });
    versions.collect()
}

pub(super) fn write_list(version: i64, statements: &BTreeSet<String>) {
    let mut text = String::new();
    for statement in statements {
        text.push_str(statement);
        text.push('\n');
    }
    fs::write(list_of(version), text).unwrap();
}

/// On one line, if it is one that reads or changes rows.
fn normalize(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let begins = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    (words.len() > 1 && begins.contains(&words[0])).then(|| words.join(" "))
}

/// The texts in the sources that begin like a statement. Some are parts of what is put together at run time.
pub(super) fn texts_in_sources() -> BTreeSet<String> {
    fn collect(path: &Path, found: &mut BTreeSet<String>) {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                collect(&entry.unwrap().path(), found);
            }
            return;
        }
        let source = fs::read_to_string(path).unwrap();
        let code: Vec<&str> = source
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let code = code.join("\n").replace("\\\"", "\u{1}");
        for text in code.split('"').skip(1).step_by(2) {
            let text = text.replace('\u{1}', "\"").replace("\\\n", " ");
            found.extend(normalize(&text));
        }
    }
    let mut found = BTreeSet::new();
    let state = crate_directory().join("src/storage/state");
    collect(&state.join("postgres"), &mut found);
    collect(&state.join("postgres.rs"), &mut found);
    found
}

/// Marks lines of a server's log; the others continue the one before.
const LINE_MARK: &str = "~~";

/// Settings of a server that logs all statements.
pub(super) const LOGGING: [&str; 3] = [
    "log_statement = all",
    "log_line_prefix = '~~'",
    "log_parameter_max_length = 0",
];

/// What a server with [`LOGGING`] was asked with values, in this database or another.
pub(super) fn logged_statements(database: &TestDatabase) -> BTreeSet<String> {
    let read = "SELECT pg_read_file(current_setting('data_directory') || '/../log')";
    let log = database.run_sql(read);
    let lines = log.split(LINE_MARK);
    let statements = lines.filter_map(|line| {
        let (_, text) = line.strip_prefix("LOG:  execute ")?.split_once(": ")?;
        normalize(text)
    });
    // The Hub's alone: a driver looks up types.
    statements
        .filter(|statement| !statement.contains("pg_catalog."))
        .collect()
}

/// A server that is asked how it would do statements, whatever the values are.
pub(super) struct Planner(PgConnection);

impl Planner {
    pub(super) async fn connect(database: &TestDatabase) -> Self {
        let options: PgConnectOptions = database.url().parse().unwrap();
        let mut connection = options.connect().await.unwrap();
        let generic = "SET plan_cache_mode = force_generic_plan";
        connection.execute(generic).await.unwrap();
        Self(connection)
    }

    /// Has the server look up all that a statement names, and find a way to do it: only then does it miss, for example, an
    /// index that `ON CONFLICT` needs.
    pub(super) async fn plan(&mut self, statement: &str) -> Result<(), String> {
        let mut types = vec!["unknown"; count_values(statement)];
        // Each attempt learns of one value that it may be of any type.
        for _ in 0..=types.len() {
            match self.prepare(statement, &types).await {
                Ok(()) => break,
                Err(sqlx::Error::Database(error))
                    if error.code().as_deref() == Some(UNKNOWN_TYPE) =>
                {
                    let number = error.message().rsplit_once('$');
                    let number: usize = number.unwrap().1.parse().unwrap();
                    types[number - 1] = "text";
                }
                Err(error) => return Err(format!("{statement}: {error}")),
            }
        }
        let values = in_brackets(&vec!["NULL"; types.len()]);
        let explain = format!("EXPLAIN EXECUTE one{values}");
        let planned = self.0.execute(sqlx::raw_sql(AssertSqlSafe(explain))).await;
        self.0.execute("DEALLOCATE one").await.unwrap();
        match planned {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{statement}: {error}")),
        }
    }

    async fn prepare(&mut self, statement: &str, types: &[&str]) -> Result<(), sqlx::Error> {
        let sql = format!("PREPARE one{} AS {statement}", in_brackets(types));
        let prepared = self.0.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await;
        prepared.map(drop)
    }
}

/// How many values it is given: `$1` and so on.
fn count_values(statement: &str) -> usize {
    let numbers = statement.split('$').skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    numbers.max().unwrap_or_default()
}

fn in_brackets(parts: &[&str]) -> String {
    match parts {
        [] => String::new(),
        parts => format!("({})", parts.join(", ")),
    }
}
