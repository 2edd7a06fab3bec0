//! Programs of an earlier version beside those of this one: nodes are replaced one after the other, and all use the tables
//! of the newest.
//!
//! `statements/` has what earlier versions ask of the database, one statement per line, by the version of their tables.
//! `HERMES_WRITE_STATEMENTS=1` writes the list of the present version: do that before a release, so that the next one is
//! tested against it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use hermes_testkit::postgres::TestDatabase;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, postgres::PgConnectOptions,
};

use super::StateFixture;

/// The type of a value is not known, which the driver would tell.
const UNKNOWN_TYPE: &str = "42P18";
const COLUMNS: &str = "SELECT table_name || '.' || column_name || ' ' || data_type || ' '
        || (is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES')
     FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1";

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn lists() -> PathBuf {
    crate_directory().join("tests/it/storage/state_on_postgres/statements")
}

/// The lists of earlier versions.
fn earlier_versions(latest: i64) -> BTreeMap<i64, PathBuf> {
    let files = fs::read_dir(lists()).unwrap();
    let versions = files.map(|file| {
        let path = file.unwrap().path();
        let version = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        (version, path)
    });
    versions.filter(|(version, _)| *version < latest).collect()
}

async fn connect(database: &TestDatabase) -> PgConnection {
    let options: PgConnectOptions = database.url().parse().unwrap();
    options.connect().await.unwrap()
}

/// Has the server parse a statement and look up all that it names.
async fn prepare(connection: &mut PgConnection, statement: &str) -> Result<(), String> {
    let sql = format!("PREPARE one AS {statement}");
    match connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await {
        Ok(_) => {
            connection.execute("DEALLOCATE one").await.unwrap();
            Ok(())
        }
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(UNKNOWN_TYPE) => {
            Ok(())
        }
        Err(error) => Err(format!("{statement}: {error}")),
    }
}

fn version_of(database: &TestDatabase, column: &str) -> i64 {
    let version = database.run_sql(&format!("SELECT {column} FROM hub_schema"));
    version.parse().unwrap()
}

#[tokio::test]
async fn statements_of_earlier_versions_work_on_the_newest_tables() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let (latest, oldest) = (
        version_of(database, "version"),
        version_of(database, "readable_since"),
    );
    let mut connection = connect(database).await;
    let mut failed = Vec::new();
    let earlier = earlier_versions(latest);
    assert!(!earlier.is_empty(), "no list of an earlier version");
    for (version, list) in earlier {
        if version < oldest {
            continue;
        }
        let list = fs::read_to_string(list).unwrap();
        assert!(list.lines().count() > 100, "version {version}");
        for statement in list.lines() {
            if let Err(error) = prepare(&mut connection, statement).await {
                failed.push(format!("version {version}: {error}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Tables and columns, with their type and whether a row may be added without them.
fn columns_of(database: &TestDatabase) -> BTreeMap<String, (String, bool)> {
    let listed = database.run_sql(COLUMNS);
    let columns = listed.lines().map(|line| {
        let (name, rest) = line.split_once(' ').unwrap();
        let (kind, is_optional) = rest.rsplit_once(' ').unwrap();
        (name.to_owned(), (kind.to_owned(), is_optional == "true"))
    });
    columns.collect()
}

#[tokio::test]
async fn what_newer_tables_have_needs_no_value_of_earlier_programs() {
    let fresh = StateFixture::new().await;
    let newest = fresh.database.as_ref().unwrap();
    let newest_columns = columns_of(newest);
    for version in earlier_versions(version_of(newest, "version")).into_keys() {
        let earlier = TestDatabase::create();
        for number in 1..=version {
            let script = format!("migrations/postgres/{number:04}.sql");
            let script = fs::read_to_string(crate_directory().join(script)).unwrap();
            earlier.run_sql(&script);
        }
        let columns = columns_of(&earlier);
        for (name, (kind, _)) in &columns {
            let now = newest_columns.get(name).map(|(kind, _)| kind);
            assert_eq!(now, Some(kind), "{name} of version {version}");
        }
        let tables: BTreeSet<&str> = columns.keys().map(|name| table_of(name)).collect();
        for (name, (_, is_optional)) in &newest_columns {
            let is_new = tables.contains(table_of(name)) && !columns.contains_key(name);
            assert!(
                !is_new || *is_optional,
                "{name} has no default, and version {version} does not know it"
            );
        }
    }
}

fn table_of(column: &str) -> &str {
    column.split_once('.').unwrap().0
}

/// The texts in the sources that begin like a statement.
fn statements_in_sources() -> BTreeSet<String> {
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
            let words: Vec<&str> = text.split_whitespace().collect();
            let begins = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
            if words.first().is_some_and(|first| begins.contains(first)) {
                found.insert(words.join(" "));
            }
        }
    }
    let mut found = BTreeSet::new();
    let state = crate_directory().join("src/storage/state");
    collect(&state.join("postgres"), &mut found);
    collect(&state.join("postgres.rs"), &mut found);
    found
}

#[tokio::test]
async fn the_statements_of_this_version_can_be_listed() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let mut connection = connect(database).await;
    let mut complete = String::new();
    for statement in statements_in_sources() {
        // Some are put together at run time; their parts are not statements.
        if prepare(&mut connection, &statement).await.is_ok() {
            complete.push_str(&statement);
            complete.push('\n');
        }
    }
    let count = complete.lines().count();
    assert!(count > 150, "only {count} statements were found");
    if std::env::var_os("HERMES_WRITE_STATEMENTS").is_some() {
        let version = version_of(database, "version");
        fs::write(lists().join(format!("{version:04}.sql")), complete).unwrap();
    }
}
