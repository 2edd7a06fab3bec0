//! `hermes hub migrate --to`

use std::fs;

use hermes_testkit::postgres::TestDatabase;
use rustix::process::Signal;

use crate::{harness::test_home::signal_process, hub::hub_process::HubProcess};

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

#[track_caller]
fn expect_everything(hub: &HubProcess) {
    let read = hub.run(&["share", "cat", "team", "a.md", "--tenant", "acme"]);
    assert_eq!(read.ok().stdout.trim(), "carried over");
    assert_eq!(hub.json(&["tenant", "get", "acme"])["status"], "ready");
}
