//! `hermes hub migrate --to`

use std::{fs, net::SocketAddr, time::Duration};

use hermes_testkit::{ChaosProxy, NetworkFault, postgres::TestDatabase};
use rustix::process::Signal;

use crate::{
    harness::test_home::{BackgroundProcess, signal_process, wait_until},
    hub::hub_process::HubProcess,
};

#[test]
fn a_hub_that_was_carried_over_to_postgresql_and_back_has_everything() {
    let database = TestDatabase::create();
    let mut hub = HubProcess::with_acme();
    let file = ["share", "write", "team", "a.md", "--tenant", "acme"];
    hub.run_with_input(&file, "carried over").ok();
    let objects = format!("file://{}", hub.home.beside("objects").display());
    let url = database.url();
    let migrate = ["hub", "migrate", "--to", &url, "--objects", &objects];
    hub.run(&migrate).exits_with(1);
    signal_process(hub.process.pid(), Signal::TERM);
    hub.process.wait();

    let missing = hub.run(&["hub", "migrate", "--to", &url]).exits_with(2);
    assert!(missing.stderr.contains("--objects"), "{missing:?}");
    let report = hub.json(&migrate);
    assert_eq!(report["tables"]["tenants"], 1, "{report}");
    assert_eq!(
        (&report["shareFiles"], &report["homes"]),
        (&1.into(), &1.into())
    );
    hub.run(&migrate).exits_with(1);

    let settings = [
        format!("database.url={url}"),
        format!("objects.url={objects}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut hub = HubProcess::with_settings(hub.home, &settings);
    expect_everything(&hub);
    assert_eq!(hub.json(&["hub", "status"])["objects"], true);

    // And back, to another directory. The settings say where everything is.
    signal_process(hub.process.pid(), Signal::TERM);
    hub.process.wait();
    let (elsewhere, key) = (hub.home.beside("elsewhere"), hub.data().join("secret.key"));
    let file = hub.home.beside("shared.yaml");
    let text = format!(
        "database:\n  url: {url}\nsecrets:\n  key_file: {}\n",
        key.display()
    );
    fs::write(&file, text).unwrap();
    let back = ["hub", "migrate", "--to", "sqlite:", "--objects", &objects];
    let place = ["--config", file.to_str().unwrap()];
    let place = [&place[..], &["--data-dir", elsewhere.to_str().unwrap()]].concat();
    let back = [&back[..], &place].concat();
    let refused = hub.run(&back).exits_with(1);
    assert!(refused.stderr.contains("stop all nodes"), "{refused:?}");
    database.run_sql("UPDATE nodes SET seen_at = seen_at - INTERVAL '1 hour'");
    let report = hub.json(&back);
    assert_eq!(
        (&report["shareFiles"], &report["homes"]),
        (&1.into(), &1.into()),
        "{report}"
    );
    let directory = format!("data_dir={}", elsewhere.display());
    let key = format!("secrets.key_file={}", key.display());
    let hub = HubProcess::with_settings(hub.home, &[&directory, &key]);
    expect_everything(&hub);
    assert!(elsewhere.join("hub.db").is_file());
}

/// A way to the database on which each message takes a while.
fn slow_way(database: &TestDatabase) -> (ChaosProxy, String) {
    let server = ([127, 0, 0, 1], database.cluster().port());
    let proxy = ChaosProxy::start(SocketAddr::from(server));
    proxy.set(NetworkFault::Delay(Duration::from_millis(30)));
    let url = format!("postgres://hermes@{}/{}", proxy.address(), database.name());
    (proxy, url)
}

/// Kills a migration at a moment in the middle of it.
fn kill_migration(hub: &HubProcess, migrate: &[&str], what: &str, is_moment: impl FnMut() -> bool) {
    let mut process = BackgroundProcess::start(hub.command(migrate));
    wait_until(what, is_moment);
    signal_process(process.pid(), Signal::KILL);
    // A signal ended it: it had neither finished nor failed by itself.
    assert_eq!(process.wait(), None, "{:?}", process.seen);
}

/// A Hub does not start on a copy that is not complete.
#[track_caller]
fn expect_incomplete(hub: &HubProcess, settings: &[&str]) {
    let mut serve = vec!["hub", "serve", "--set", "runtime=mock"];
    serve.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    let refused = hub.run(&serve);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("hermes hub migrate"), "{refused:?}");
}

/// Holds whoever writes the index of a share's files.
const HOLD: &str = "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
    CREATE TRIGGER hold BEFORE INSERT OR UPDATE ON share_entries FOR EACH ROW EXECUTE FUNCTION hold()";
const HELD: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'PgSleep'";
/// The server does not know that the client is gone.
const RELEASE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// The same migration once more, which finishes.
#[track_caller]
fn expect_carried_over(hub: &HubProcess, migrate: &[&str]) {
    let report = hub.json(migrate);
    assert_eq!(
        (&report["shareFiles"], &report["homes"]),
        (&1.into(), &1.into()),
        "{report}"
    );
}

fn stop(hub: &mut HubProcess) {
    signal_process(hub.process.pid(), Signal::TERM);
    hub.process.wait();
}

#[test]
fn a_migration_that_was_killed_in_the_middle_is_refused_and_can_be_done_again_in_both_directions() {
    let database = TestDatabase::create();
    let (proxy, url) = slow_way(&database);
    let mut hub = HubProcess::with_acme();
    let file = ["share", "write", "team", "a.md", "--tenant", "acme"];
    hub.run_with_input(&file, "carried over").ok();
    stop(&mut hub);
    let objects = format!("file://{}", hub.home.beside("objects").display());
    let migrate = ["hub", "migrate", "--to", &url, "--objects", &objects];
    let settings = [
        format!("database.url={url}"),
        format!("objects.url={objects}"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();

    // Before the tables are copied.
    let begun = "SELECT count(*) FROM meta WHERE name = 'migration_incomplete' AND value <> ''";
    kill_migration(&hub, &migrate, "the copy is marked", || {
        let marked = database.cluster().try_sql(database.name(), begun);
        marked.is_ok_and(|count| count == "1")
    });
    proxy.set(NetworkFault::None);
    expect_incomplete(&hub, &settings);
    // When all tables are copied, and files are.
    database.run_sql(HOLD);
    kill_migration(&hub, &migrate, "a file is being copied", || {
        database.run_sql(HELD) != "0"
    });
    database.run_sql(RELEASE);
    database.run_sql("DROP FUNCTION hold CASCADE");
    assert_eq!(database.run_sql("SELECT count(*) FROM tenants"), "1");
    expect_incomplete(&hub, &settings);
    expect_carried_over(&hub, &migrate);
    let mut hub = HubProcess::with_settings(hub.home, &settings);
    expect_everything(&hub);
    stop(&mut hub);
    carry_back_with_a_kill(hub, &database, &proxy, [&url, &objects]);
}

fn carry_back_with_a_kill(
    hub: HubProcess,
    database: &TestDatabase,
    proxy: &ChaosProxy,
    [url, objects]: [&str; 2],
) {
    database.run_sql("UPDATE nodes SET seen_at = seen_at - INTERVAL '1 hour'");
    let (elsewhere, key) = (hub.home.beside("elsewhere"), hub.data().join("secret.key"));
    let file = hub.home.beside("shared.yaml");
    let key_file = format!("secrets.key_file={}", key.display());
    let text = format!(
        "database:\n  url: {url}\nsecrets:\n  key_file: {}\n",
        key.display()
    );
    fs::write(&file, text).unwrap();
    let back = [
        "hub",
        "migrate",
        "--to",
        "sqlite:",
        "--objects",
        objects,
        "--config",
        file.to_str().unwrap(),
        "--data-dir",
        elsewhere.to_str().unwrap(),
    ];
    proxy.set(NetworkFault::Delay(Duration::from_millis(30)));
    let share = elsewhere.join("shares/team");
    kill_migration(&hub, &back, "files are being copied", || {
        let is_moment = share.exists();
        if is_moment {
            // Nothing goes on any more.
            proxy.set(NetworkFault::BlackHole);
        }
        is_moment
    });
    proxy.cut_connections();
    proxy.set(NetworkFault::None);
    let directory = format!("data_dir={}", elsewhere.display());
    let settings = [directory.as_str(), key_file.as_str()];
    expect_incomplete(&hub, &settings);
    expect_carried_over(&hub, &back);
    let hub = HubProcess::with_settings(hub.home, &settings);
    expect_everything(&hub);
}

#[track_caller]
fn expect_everything(hub: &HubProcess) {
    let read = hub.run(&["share", "cat", "team", "a.md", "--tenant", "acme"]);
    assert_eq!(read.ok().stdout.trim(), "carried over");
    assert_eq!(hub.json(&["tenant", "get", "acme"])["status"], "ready");
}
