//! Other processes using the same database, some of them killed. Children are this test binary.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use hermes_hub::{
    TenantId,
    storage::{
        data_dir::{DataDir, DataDirError},
        encryption::SecretKey,
        state::{
            FileChange, NewEvent, NewFileOperation, Page, RunUpdate, SqliteState, State,
            TenantQuery,
        },
    },
};
use hermes_protocol::RunEvent;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use super::{StateFixture, entry, tenant_id};

/// The child's directory.
const DIRECTORY: &str = "TEST_CHILD_DIRECTORY";

/// Changes the database directly, without the Hub.
pub(crate) async fn run_sql(fresh: &StateFixture, statement: &str) {
    if let Some(database) = &fresh.database {
        let zeros = "decode(repeat('00', 32), 'hex')";
        // The list of chains is a view of the log.
        let statement = statement.replace("zeroblob(32)", zeros);
        database.run_sql(&statement.replace("DROP TABLE audit", "DROP TABLE audit CASCADE"));
        return;
    }
    let path = fresh.directory.path().join("hub.db");
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// Starts the test of that name in a child process.
fn start_child(test: &str, directory: &Path) -> ChildProcess {
    let child = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("storage::state::processes::{test}"),
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    ChildProcess(child)
}

/// A child that does not outlive the test.
pub(crate) struct ChildProcess(Child);

impl ChildProcess {
    /// Its output, line by line.
    fn lines(&mut self) -> impl Iterator<Item = String> {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        lines.map_while(Result::ok)
    }

    /// Waits for its first output.
    fn wait_for_work(&mut self) {
        assert!(self.lines().any(|line| line.contains("at work")));
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The child's directory; `None` in the test itself.
fn child_directory() -> Option<PathBuf> {
    env::var_os(DIRECTORY).map(PathBuf::from)
}

fn print_line(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Another process that holds the database's lock until it is dropped.
pub(crate) fn hold_lock(fresh: &StateFixture) -> ChildProcess {
    let mut child = start_child("hold_the_lock_in_a_child", fresh.directory.path());
    child.wait_for_work();
    child
}

#[tokio::test]
async fn hold_the_lock_in_a_child() {
    let Some(directory) = child_directory() else {
        return;
    };
    let mut connection = SqliteConnectOptions::new()
        .filename(directory.join("hub.db"))
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut connection)
        .await
        .unwrap();
    print_line("at work");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_hub_is_killed() {
    if let Some(directory) = child_directory() {
        write_until_killed(&directory).await;
        return;
    }
    let fresh = StateFixture::new().await;
    fresh.tenant("main").await;
    let run = fresh.run(&tenant_id("main")).await;
    fresh.state.close().await;
    std::fs::write(fresh.directory.path().join("run"), run.as_str()).unwrap();
    let mut tenants = Vec::new();
    let mut last_event = 0;
    for round in 0..4 {
        let mut child = start_child(
            "nothing_acknowledged_is_lost_when_the_hub_is_killed",
            fresh.directory.path(),
        );
        for (number, line) in child.lines().enumerate() {
            let (_, said) = line.split_once("done ").unwrap_or_default();
            match said.split_once(' ') {
                Some(("tenant", id)) => tenants.push(tenant_id(id)),
                Some(("event", id)) => last_event = id.parse().unwrap(),
                _ => {}
            }
            if number > 20 + 7 * round {
                break;
            }
        }
        drop(child);
        let state = fresh.another_node("n1").await;
        check(&*state, &tenants, last_event, &run).await;
        state.close().await;
    }
    assert!(tenants.len() > 10, "{}", tenants.len());
    assert!(last_event > 10);
}

/// Creates tenants and events as fast as possible and reports each.
async fn write_until_killed(directory: &Path) {
    let path = directory.join("hub.db");
    let state: Arc<dyn State> = Arc::new(SqliteState::open(&path, "n1").await.unwrap());
    let key = SecretKey::load(&directory.join("secret.key"), &*state)
        .await
        .unwrap();
    let run = std::fs::read_to_string(directory.join("run")).unwrap();
    let run = hermes_hub::RunId::parse(&run).unwrap();
    let fresh = StateFixture {
        directory: tempfile::tempdir().unwrap(),
        state,
        key,
        database: None,
    };
    loop {
        let tenant = TenantId::random().unwrap();
        fresh.tenant(tenant.as_str()).await;
        print_line(&format!("done tenant {tenant}"));
        let event = NewEvent {
            event: RunEvent::delta("x"),
            agent_sequence: None,
        };
        let update = RunUpdate {
            events: vec![event; 3],
            ..RunUpdate::default()
        };
        let main = tenant_id("main");
        let updated = fresh.state.update_run(&main, &run, update).await.unwrap();
        print_line(&format!("done event {}", updated.record.run.last_event_id));
        let intent = NewFileOperation {
            entry: entry("write_share_file"),
            change: FileChange::Copy,
            reserve: None,
        };
        let _ = fresh.state.begin_file_operation(intent).await.unwrap();
    }
}

async fn check(state: &dyn State, tenants: &[TenantId], last_event: u64, run: &hermes_hub::RunId) {
    for tenant in tenants {
        assert!(
            state.tenant(tenant).await.unwrap().is_some(),
            "{tenant} is lost"
        );
    }
    let page = state
        .run_events(&tenant_id("main"), run, 0, u32::MAX)
        .await
        .unwrap();
    assert!(page.last >= last_event, "{} of {last_event}", page.last);
    let ids: Vec<_> = page.events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=page.last).collect::<Vec<_>>());
    assert_eq!(page.last % 3, 0, "a write was torn");
    let checks = state.verify_audit().await.unwrap();
    assert_eq!(checks[0].broken, None);
    // Each tenant has its audit entry, whether it was reported or not.
    let mut made = 0;
    let mut page = Page::first(500);
    loop {
        let paged = state.tenants(&TenantQuery::default(), &page).await.unwrap();
        made += paged.items.len();
        match paged.next {
            Some(cursor) => page = Page::after(500, cursor),
            None => break,
        }
    }
    let query = hermes_hub::storage::state::AuditQuery {
        action: Some("create_tenant".into()),
        ..Default::default()
    };
    let mut entries = 0;
    let mut page = Page::first(500);
    loop {
        let paged = state.audit(&query, &page).await.unwrap();
        entries += paged.items.len();
        match paged.next {
            Some(cursor) => page = Page::after(500, cursor),
            None => break,
        }
    }
    assert_eq!(entries, made);
    let unfinished = state.unfinished_file_operations().await.unwrap();
    for begun in unfinished.into_iter().filter(|one| !one.is_settled) {
        state
            .settle_file_operation(
                begun.operation,
                hermes_hub::api_types::AuditPhase::Interrupted,
            )
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_hub_in_another_process_keeps_this_one_out() {
    if let Some(directory) = child_directory() {
        let directory = DataDir::create(directory).unwrap();
        let _lock = directory.lock().unwrap();
        print_line("at work");
        std::future::pending::<()>().await;
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut other = start_child("a_hub_in_another_process_keeps_this_one_out", root.path());
    other.wait_for_work();
    let pid = other.0.id().to_string();
    let directory = DataDir::create(root.path()).unwrap();
    let refused = directory.lock().unwrap_err();
    let DataDirError::InUse { holder, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(holder.contains(&pid), "{holder} is not {pid}");
    drop(other);
    directory.lock().unwrap();
}
