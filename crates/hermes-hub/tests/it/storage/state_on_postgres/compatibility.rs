//! Programs of an earlier version beside those of this one: nodes are replaced one after the other, and all use the tables
//! of the newest.
//!
//! A test fails while the list of the present version lacks a statement of this program. `HERMES_WRITE_STATEMENTS=1` adds
//! what is missing. So whoever changes the tables next is held to what was asked of these.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
};

use hermes_testkit::postgres::{PostgresCluster, TestDatabase};

use super::{
    StateFixture,
    all_filters::read_with_all_filters,
    open_postgres,
    recorded_statements::{
        LOGGING, Planner, crate_directory, logged_statements, read_lists, texts_in_sources,
        write_list,
    },
};

const COLUMNS: &str = "SELECT table_name || '.' || column_name || ' ' || data_type || ' '
        || (is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES')
     FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1";
/// What a row must fulfil, by table: constraints, and indexes that are unique without being one.
const DEMANDS: &str = "SELECT conrelid::regclass || '.' || pg_get_constraintdef(c.oid)
     FROM pg_constraint c WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
     UNION SELECT indrelid::regclass || '.unique ' || regexp_replace(pg_get_indexdef(indexrelid), '.* USING ', '')
     FROM pg_index JOIN pg_class t ON t.oid = indrelid
     WHERE indisunique AND t.relnamespace = 'public'::regnamespace";

fn version_of(database: &TestDatabase, column: &str) -> i64 {
    let version = database.run_sql(&format!("SELECT {column} FROM hub_schema"));
    version.parse().unwrap()
}

#[tokio::test]
async fn statements_of_earlier_programs_work_on_the_newest_tables() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let oldest = version_of(database, "readable_since");
    let mut planner = Planner::connect(database).await;
    let mut failed = Vec::new();
    let lists = read_lists();
    let latest = version_of(database, "version");
    assert!(
        lists.contains_key(&(latest - 1)),
        "no list of version {}: write it before tables are changed, and see it with `git log` if it is too late",
        latest - 1
    );
    for (version, list) in lists.range(oldest..) {
        assert!(list.len() > 100, "version {version}");
        for statement in list {
            if let Err(error) = planner.plan(statement).await {
                failed.push(format!("version {version}: {error}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What was asked of these tables is not known to work because nothing looked.
#[tokio::test]
async fn a_statement_that_the_tables_cannot_answer_any_more_is_noticed() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let mut planner = Planner::connect(database).await;
    let works = "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    planner.plan(works).await.unwrap();
    for (statement, cause) in [
        ("SELECT missing FROM meta WHERE name = $1", "does not exist"),
        (
            "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (value) DO NOTHING",
            "ON CONFLICT specification",
        ),
        ("SELECT 1 FROM meta WHERE name = $1 + 1", "text"),
    ] {
        let refused = planner.plan(statement).await.unwrap_err();
        assert!(refused.contains(cause), "{refused}");
    }
    planner.plan("SELECT $1, $2").await.unwrap();
}

/// The tables of an earlier version.
fn create_tables_of(version: i64) -> TestDatabase {
    let earlier = TestDatabase::create();
    for number in 1..=version {
        let script = format!("migrations/postgres/{number:04}.sql");
        let script = fs::read_to_string(crate_directory().join(script)).unwrap();
        earlier.run_sql(&script);
    }
    earlier
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

fn demands_of(database: &TestDatabase) -> BTreeSet<String> {
    let listed = database.run_sql(DEMANDS);
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn newer_tables_demand_nothing_that_earlier_programs_do_not_know() {
    let fresh = StateFixture::new().await;
    let newest = fresh.database.as_ref().unwrap();
    let (newest_columns, newest_demands) = (columns_of(newest), demands_of(newest));
    let oldest = version_of(newest, "readable_since");
    let latest = version_of(newest, "version");
    for version in read_lists().into_keys() {
        if !(oldest..latest).contains(&version) {
            continue;
        }
        let earlier = create_tables_of(version);
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
        let demands = demands_of(&earlier);
        for demand in newest_demands.difference(&demands) {
            assert!(
                !tables.contains(table_of(demand)),
                "{demand}: rows of version {version} may not fulfil it"
            );
        }
    }
}

fn table_of(column: &str) -> &str {
    column.split_once('.').unwrap().0
}

/// What this program asks: what the sources have as a whole, and what they put together.
async fn statements_of_this_program() -> (BTreeSet<String>, i64) {
    let cluster = Arc::new(PostgresCluster::start(&LOGGING));
    let database = TestDatabase::create_in(&cluster);
    let state = open_postgres(database.url(), "n1").await;
    read_with_all_filters(&*state).await;
    state.close().await;
    let mut planner = Planner::connect(&database).await;
    let mut statements = BTreeSet::new();
    for text in texts_in_sources() {
        if planner.plan(&text).await.is_ok() {
            statements.insert(text);
        }
    }
    assert!(statements.len() > 250, "only {} texts", statements.len());
    let logged = logged_statements(&database);
    let assembled = logged.difference(&statements).count();
    assert!(assembled > 15, "only {assembled} are put together");
    statements.extend(logged);
    (statements, version_of(&database, "version"))
}

#[tokio::test]
async fn all_statements_of_this_program_are_recorded_for_the_next_version() {
    let (statements, version) = statements_of_this_program().await;
    let mut recorded = read_lists().remove(&version).unwrap_or_default();
    let missing: Vec<String> = statements.difference(&recorded).cloned().collect();
    if std::env::var_os("HERMES_WRITE_STATEMENTS").is_some() {
        recorded.extend(missing);
        write_list(version, &recorded);
        return;
    }
    assert!(
        missing.is_empty(),
        "the list of version {version} lacks {} statements. Add them with `HERMES_WRITE_STATEMENTS=1 cargo nextest run \
         -p hermes-hub -E 'test(all_statements_of_this_program)'`:\n{}",
        missing.len(),
        missing.join("\n")
    );
}
