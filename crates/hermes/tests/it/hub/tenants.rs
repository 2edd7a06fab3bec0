//! `hermes tenant …`

use serde_json::json;

use crate::hub::hub_process::HubProcess;

#[test]
fn a_tenant_is_made_changed_blocked_deleted_and_restored() {
    let hub = HubProcess::with_acme();
    let shown = hub.run(&["tenant", "list"]).ok();
    assert!(
        shown.stdout.contains("acme") && shown.stdout.contains("Acme"),
        "{shown:?}"
    );
    let tenant = hub.json(&["tenant", "get", "acme"]);
    assert_eq!(tenant["groups"], json!([{"id": "team", "access": "write"}]));

    hub.run(&[
        "tenant",
        "update",
        "acme",
        "--name",
        "Acme Ltd",
        "--label",
        "plan=gold",
    ])
    .ok();
    let tenant = hub.json(&["tenant", "get", "acme"]);
    assert_eq!(tenant["displayName"], "Acme Ltd");
    assert_eq!(tenant["labels"], json!({"plan": "gold"}));

    hub.run(&["tenant", "block", "acme", "--reason", "unpaid", "--yes"])
        .ok();
    assert_eq!(
        hub.json(&["tenant", "get", "acme"])["access"]["status"],
        "blocked"
    );
    let refused = hub.run(&["tenant", "run", "acme", "Hello"]).exits_with(4);
    assert!(refused.stderr.contains("blocked"), "{refused:?}");
    hub.run(&["tenant", "unblock", "acme"]).ok();

    hub.run(&["tenant", "delete", "acme", "--yes"]).ok();
    hub.run(&["tenant", "get", "acme"]).exits_with(3);
    let deleted = hub.json(&["tenant", "list", "--status", "deleted"]);
    assert_eq!(deleted["tenants"][0]["id"], "acme");
    hub.run(&["tenant", "restore", "acme"]).ok();
    assert_eq!(hub.json(&["tenant", "get", "acme"])["status"], "ready");
}

#[test]
fn the_runtime_key_is_not_printed_for_people() {
    let hub = HubProcess::new();
    hub.run(&["tenant", "create", "acme"])
        .ok()
        .hides(&["hub_rt_"]);
    let made = hub.json(&["tenant", "create", "other"]);
    assert!(made["runtimeKey"].as_str().unwrap().starts_with("hub_rt_"));
}

#[test]
fn a_run_is_watched_to_its_end() {
    let hub = HubProcess::with_acme();
    let watched = hub.run(&["tenant", "run", "acme", "Hello", "--watch"]).ok();
    assert_eq!(
        watched.stdout,
        "This Hub runs no agents (`runtime: mock`).\n"
    );

    let run = hub.json(&["tenant", "run", "acme", "Hello"]);
    let id = run["runId"].as_str().unwrap();
    let events = hub.run(&["tenant", "watch", "acme", id, "--json"]).ok();
    let last = events.stdout.lines().last().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["event"], "run.completed");
    assert_eq!(last["runId"], id);

    let runs = hub
        .run(&["tenant", "runs", "acme", "--status", "completed"])
        .ok();
    assert_eq!(runs.stdout.lines().count(), 3, "{runs:?}");
    assert_eq!(
        hub.json(&["tenant", "runs", "acme", id])["status"],
        "completed"
    );
    let waiting = hub.run(&["tenant", "approve"]).ok();
    assert!(
        waiting.stderr.contains("No decision is pending"),
        "{waiting:?}"
    );
    hub.run(&["tenant", "approve", "acme", id]).exits_with(1);
}

#[test]
fn what_is_said_may_come_from_stdin() {
    let hub = HubProcess::with_acme();
    let ran = hub.run_with_input(&["tenant", "run", "acme", "-", "--watch"], "Hello");
    assert!(ran.ok().stdout.contains("runs no agents"));
}

#[test]
fn the_agent_starts_stops_and_restarts() {
    let hub = HubProcess::with_acme();
    for verb in ["stop", "start", "restart"] {
        let ran = hub.run(&["tenant", verb, "acme"]).ok();
        assert!(ran.stderr.contains("The agent of `acme` is"), "{ran:?}");
    }
}

#[test]
fn jobs_are_made_changed_run_and_deleted() {
    let hub = HubProcess::with_acme();
    let cron = |args: &[&str]| hub.run(&[&["tenant", "cron"], args].concat());
    cron(&[
        "create",
        "acme",
        "every 30m",
        "Look around",
        "--id",
        "job_123",
        "--name",
        "Look",
    ])
    .ok();
    let listed = cron(&["list", "acme"]).ok();
    assert!(
        listed.stdout.contains("job_123") && listed.stdout.contains("every 30m"),
        "{listed:?}"
    );
    cron(&["update", "acme", "job_123", "--schedule", "0 9 * * 1"]).ok();
    cron(&["pause", "acme", "job_123", "--reason", "holidays"]).ok();
    let job = hub.json(&["tenant", "cron", "get", "acme", "job_123"]);
    assert_eq!(job["job"]["state"], "paused", "{job}");
    assert_eq!(job["job"]["schedule"]["expr"], "0 9 * * 1", "{job}");
    cron(&["resume", "acme", "job_123"]).ok();
    let ran = cron(&["run", "acme", "job_123", "--watch"]).ok();
    assert!(ran.stdout.contains("runs no agents"), "{ran:?}");
    cron(&["delete", "acme", "job_123", "--yes"]).ok();
    cron(&["get", "acme", "job_123"]).exits_with(3);
    cron(&["create", "acme", "whenever", "x"]).exits_with(2);
}

#[test]
fn skills_are_listed_shown_and_switched() {
    let hub = HubProcess::with_acme();
    let skill = hub.data().join("tenants/acme/home/skills/writing/letters");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: letters\ndescription: How letters are written\n---\nBriefly.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    let verb = |args: &[&str]| hub.run(&[&["tenant", "skill"], args].concat());

    let listed = verb(&["list", "acme"]).ok();
    assert!(listed.stdout.contains("letters"), "{listed:?}");
    let files = hub.json(&[
        "tenant",
        "skill",
        "files",
        "acme",
        "letters",
        "--category",
        "writing",
    ]);
    let path = files["files"][0]["path"].as_str().unwrap();
    assert_eq!(verb(&["show", "acme", path]).ok().stdout, text);
    verb(&["disable", "acme", "letters"]).ok();
    let skills = hub.json(&["tenant", "skill", "list", "acme"]);
    assert_eq!(skills["categories"][0]["skills"][0]["enabled"], false);
    verb(&["enable", "acme", "letters"]).ok();
    verb(&["enable", "acme", "nothing"]).exits_with(3);
}

#[test]
fn values_of_variables_go_in_and_never_come_out() {
    let hub = HubProcess::with_acme();
    let secret = "sk-super-secret-value-1234";
    let set = hub.run_with_input(
        &["tenant", "env", "set", "acme", "API_KEY"],
        &format!("{secret}\n"),
    );
    set.ok().hides(&[secret]);
    let listed = hub
        .run(&["tenant", "env", "list", "acme"])
        .ok()
        .hides(&[secret]);
    assert!(
        listed.stdout.contains("API_KEY") && listed.stdout.contains("1234"),
        "{listed:?}"
    );
    hub.run_with_input(&["tenant", "env", "set", "acme", "PATH"], "/evil")
        .exits_with(1);
    hub.run_with_input(&["tenant", "env", "set", "acme", "EMPTY"], "")
        .exits_with(2);
    hub.run(&["tenant", "env", "unset", "acme", "API_KEY", "--yes"])
        .ok();
    assert_eq!(
        hub.json(&["tenant", "env", "list", "acme"])["env"],
        json!([])
    );
}

#[test]
fn the_workspace_is_listed_printed_and_saved() {
    let hub = HubProcess::with_acme();
    let workspace = hub.data().join("tenants/acme/home/workspace");
    std::fs::create_dir_all(workspace.join("notes")).unwrap();
    std::fs::write(workspace.join("notes/a.txt"), "one\ntwo\n").unwrap();
    let files = |args: &[&str]| hub.run(&[&["tenant", "files", "acme"], args].concat());
    assert!(files(&["notes"]).ok().stdout.contains("notes/a.txt"));
    assert_eq!(files(&["notes/a.txt", "--cat"]).ok().stdout, "one\ntwo\n");
    assert_eq!(
        files(&["notes/a.txt", "--output", "-"]).ok().stdout,
        "one\ntwo\n"
    );
    let copy = hub.home.beside("copy.txt");
    files(&["notes/a.txt", "--output", copy.to_str().unwrap()]).ok();
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "one\ntwo\n");
    let gone = hub.home.beside("gone.txt");
    files(&["notes/none.txt", "--output", gone.to_str().unwrap()]).exits_with(3);
    assert!(!gone.exists());
}

#[test]
fn a_context_is_copied_after_a_dry_run_told_the_same() {
    let hub = HubProcess::with_acme();
    let home = hub.data().join("tenants/acme/home");
    std::fs::write(home.join("SOUL.md"), "Be kind.").unwrap();
    let dry = hub
        .run(&["tenant", "sync", "acme", "acme", "--dry-run"])
        .ok();
    assert!(dry.stdout.contains("+ SOUL.md"), "{dry:?}");
    assert!(!hub.data().join("sync/acme/SOUL.md").exists());
    hub.run(&["tenant", "sync", "acme", "acme"]).ok();
    let copied = std::fs::read_to_string(hub.data().join("sync/acme/SOUL.md"));
    assert_eq!(copied.unwrap(), "Be kind.");
    hub.run(&["tenant", "sync", "acme", "/etc/hermes"])
        .exits_with(4);
}

#[test]
fn a_rotated_runtime_key_is_shown_this_once() {
    let hub = HubProcess::with_acme();
    hub.run(&["tenant", "rotate-key", "acme"]).exits_with(5);
    let rotated = hub
        .run(&["tenant", "rotate-key", "acme", "--grace", "60", "--yes"])
        .ok();
    assert!(rotated.stdout.starts_with("hub_rt_"), "{rotated:?}");
    let last4 = rotated.stdout.trim().chars().rev().take(4);
    let last4: String = last4.collect::<Vec<_>>().into_iter().rev().collect();
    let tenant = hub.json(&["tenant", "get", "acme"]);
    assert_eq!(tenant["keys"]["runtimeKey"]["last4"], last4.as_str());
}

#[test]
fn a_workspace_is_saved_as_an_archive() {
    let hub = HubProcess::with_acme();
    let workspace = hub.data().join("tenants/acme/home/workspace");
    std::fs::create_dir_all(workspace.join("notes")).unwrap();
    std::fs::write(workspace.join("notes/a.md"), "a note").unwrap();
    let file = hub.home.beside("acme.tar.zst");
    let path = file.to_str().unwrap();
    hub.run(&["tenant", "files", "acme", "--archive", "-o", path])
        .ok();
    // The mark that every zstd file begins with.
    assert!(
        std::fs::read(&file)
            .unwrap()
            .starts_with(&[0x28, 0xB5, 0x2F, 0xFD])
    );
    hub.run(&["tenant", "files", "acme", "-o", path])
        .exits_with(2);
    hub.run(&["tenant", "files", "acme", "--archive"])
        .exits_with(2);
}

#[test]
fn a_mistyped_tenant_gets_the_one_that_was_meant_and_names_are_completed() {
    let hub = HubProcess::with_acme();
    let missed = hub.run(&["tenant", "get", "acne"]).exits_with(3);
    assert!(missed.stderr.contains("did you mean `acme`?"), "{missed:?}");
    let mut command = hub.command(&["--", "hermes", "tenant", "get", "ac"]);
    command.env("HERMES_COMPLETE", "fish");
    let offered = crate::harness::program::run(command, "").ok();
    assert_eq!(offered.stdout.trim(), "acme");
}
