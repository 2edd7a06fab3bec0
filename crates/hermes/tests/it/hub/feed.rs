//! `hermes hub usage`, `events` and `webhook`.

use std::fs;

use hermes_testkit::ReservedPort;
use serde_json::{Value, json};

use crate::{
    harness::test_home::{BackgroundProcess, TestHome, wait_until},
    hub::hub_process::HubProcess,
};

fn hub_with_acme() -> HubProcess {
    hub_with_acme_at("listen=127.0.0.1:0")
}

fn hub_with_acme_at(listen: &str) -> HubProcess {
    let home = TestHome::fresh();
    fs::create_dir(home.path()).unwrap();
    let hub = HubProcess::with_settings(home, &["webhooks.allow_private=true", listen]);
    hub.run(&["tenant", "create", "acme"]).ok();
    wait_until("the tenant is ready", || {
        hub.json(&["tenant", "get", "acme"])["status"] == "ready"
    });
    hub
}

#[test]
fn usage_is_a_table_json_or_comma_separated() {
    let hub = hub_with_acme();
    let none = hub.run(&["hub", "usage"]).ok();
    assert!(none.stderr.contains("Nothing was used"), "{none:?}");
    hub.run(&["tenant", "run", "acme", "Hello", "--watch"]).ok();
    let table = hub.run(&["hub", "usage"]).ok();
    assert!(
        table.stdout.contains("TENANT") && table.stdout.contains("acme"),
        "{table:?}"
    );
    let report = hub.json(&["hub", "usage", "--by", "tenant"]);
    assert_eq!(report["usage"][0]["runs"], 1, "{report}");
    let csv = hub.run(&["hub", "usage", "--by", "tenant", "--csv"]).ok();
    assert!(csv.stdout.starts_with("tenant,runs,"), "{csv:?}");
    assert!(csv.stdout.contains("\nacme,1,"), "{csv:?}");
    let refused = hub.run(&["hub", "usage", "--from", "yesterday"]);
    let refused = refused.exits_with(2);
    assert!(refused.stderr.contains("2026-11-18"), "{refused:?}");
    hub.run(&["hub", "usage", "--by", "hour"]).exits_with(2);
}

#[test]
fn the_whole_hub_is_shown_by_its_tenants_runs_and_jobs() {
    let hub = hub_with_acme();
    let none = hub.run(&["hub", "runs"]).ok();
    assert!(none.stderr.contains("There are no runs"), "{none:?}");
    let none = hub.run(&["hub", "jobs"]).ok();
    assert!(none.stderr.contains("No job has a next time"), "{none:?}");
    hub.run(&["tenant", "run", "acme", "Hello", "--watch"]).ok();
    let job = ["cron", "create", "acme", "every 30m", "x", "--id", "job_1"];
    hub.run(&[&["tenant"], &job[..]].concat()).ok();

    let overview = hub.run(&["hub", "overview"]).ok();
    assert!(overview.stdout.contains("tenants: 1 ready"), "{overview:?}");
    assert!(overview.stdout.contains(": 1, failed 0"), "{overview:?}");
    assert!(
        overview.stderr.contains("No run has failed"),
        "{overview:?}"
    );
    let overview = hub.json(&["hub", "overview"]);
    assert_eq!(overview["tenants"][0]["count"], 1, "{overview}");

    let runs = hub.run(&["hub", "runs", "--status", "completed"]).ok();
    assert!(runs.stdout.contains("acme"), "{runs:?}");
    let failed = hub.json(&["hub", "runs", "--status", "failed"]);
    assert_eq!(failed["runs"], json!([]));
    hub.run(&["hub", "runs", "--status", "odd"]).exits_with(2);
    hub.run(&["hub", "runs", "--since", "monday"]).exits_with(2);

    let jobs = hub.run(&["hub", "jobs", "--limit", "1"]).ok();
    assert!(
        jobs.stdout.contains("job_1") && jobs.stdout.contains("acme"),
        "{jobs:?}"
    );
    hub.run(&["hub", "jobs", "--limit", "0"]).exits_with(2);
}

fn follow(hub: &HubProcess, more: &[&str]) -> BackgroundProcess {
    let arguments = [&["hub", "events", "--follow", "--json"], more].concat();
    BackgroundProcess::start(hub.command(&arguments))
}

#[test]
fn events_are_printed_and_followed_through_a_restart_of_the_hub() {
    // No other test gets the port while no Hub is there.
    let port = ReservedPort::reserve().unwrap();
    let listen = format!("listen=127.0.0.1:{}", port.number());
    let mut hub = hub_with_acme_at(&listen);
    let shown = hub.run(&["hub", "events", "--tenant", "acme"]).ok();
    assert!(shown.stdout.contains("tenant.created"), "{shown:?}");
    let lines = hub
        .run(&["hub", "events", "--type", "tenant.created", "--json"])
        .ok();
    let first: Value = serde_json::from_str(lines.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["tenantId"], "acme");
    hub.run(&["hub", "events", "--type", "none"]).exits_with(2);

    let mut follower = follow(&hub, &["--after", "0"]);
    follower.wait_for("tenant.created");
    hub.run(&["tenant", "run", "acme", "Hello", "--watch"]).ok();
    follower.wait_for("run.ended");
    // Another Hub on the same port and data.
    hub.process.kill();
    let home = hub.home;
    let hub = HubProcess::with_settings(home, &[listen.as_str()]);
    hub.run(&["tenant", "create", "umbra"]).ok();
    follower.wait_for("umbra");
    let created = follower
        .seen
        .iter()
        .filter(|line| line.contains("tenant.created") && line.contains("acme"));
    assert_eq!(created.count(), 1, "{:?}", follower.seen);
}

#[test]
fn a_webhook_is_created_changed_tested_and_deleted_and_its_secret_is_shown_once() {
    let hub = hub_with_acme();
    // Nobody listens there.
    let unused = ReservedPort::reserve().unwrap();
    let url = format!("http://127.0.0.1:{}/", unused.number());
    let create = ["hub", "webhook", "create", &url, "--event", "run.ended"];
    let made = hub.run(&create).ok();
    let secret = made.stdout.trim();
    assert!(secret.starts_with("whsec_"), "{made:?}");
    let listed = hub.json(&["hub", "webhook", "list"]);
    let id = listed["webhooks"][0]["id"].as_str().unwrap().to_owned();
    assert!(made.stderr.contains(&id), "{made:?}");
    assert!(!listed.to_string().contains(secret), "{listed}");

    let update = ["hub", "webhook", "update", &id];
    let change = ["--event", "run.ended,tenant.failed", "--tenant", "acme"];
    hub.run(&[&update[..], &change].concat()).ok();
    let shown = hub.json(&["hub", "webhook", "get", &id]);
    assert_eq!(shown["events"], json!(["run.ended", "tenant.failed"]));
    assert_eq!(shown["tenants"], json!(["acme"]));
    hub.run(&[&update[..], &["--all-tenants"]].concat()).ok();
    let shown = hub.json(&["hub", "webhook", "get", &id]);
    assert_eq!(shown["tenants"], Value::Null);

    hub.run(&["hub", "webhook", "test", &id]).ok();
    let deliveries = ["hub", "webhook", "deliveries", &id];
    wait_until("an attempt", || {
        hub.json(&deliveries)["deliveries"][0]["attempts"].as_u64() >= Some(1)
    });
    let table = hub.run(&deliveries).ok();
    assert!(table.stdout.contains("webhook.test"), "{table:?}");
    assert!(table.stdout.contains("pending"), "{table:?}");
    let delivery = hub.json(&deliveries)["deliveries"][0]["id"].clone();
    let again = [
        "hub",
        "webhook",
        "redeliver",
        &id,
        delivery.as_str().unwrap(),
    ];
    hub.run(&again).exits_with(1);

    let file = hub.home.beside("secret");
    let path = file.to_str().unwrap();
    let into = [&create[..], &["--disabled", "--output", path]].concat();
    let made = hub.run(&into).ok();
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("whsec_"));
    made.hides(&[written.trim()]);
    let own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let given = [&create[..], &["--secret"]].concat();
    hub.run_with_input(&given, &format!("{own}\n"))
        .ok()
        .hides(&[own]);

    hub.run(&["hub", "webhook", "delete", &id]).exits_with(5);
    hub.run(&["hub", "webhook", "delete", &id, "--yes"]).ok();
    hub.run(&["hub", "webhook", "get", &id]).exits_with(3);
    let private = [
        "hub",
        "webhook",
        "create",
        "ftp://x",
        "--event",
        "run.ended",
    ];
    hub.run(&private).exits_with(2);
}
