//! `hermes group …` and `hermes share …`

use serde_json::json;

use crate::hub::hub_process::HubProcess;

#[test]
fn groups_and_their_members() {
    let hub = HubProcess::new();
    hub.run(&["tenant", "create", "acme"]).ok();
    hub.run(&[
        "group",
        "create",
        "sales",
        "--name",
        "Sales",
        "--kind",
        "department",
    ])
    .ok();
    hub.run(&["group", "update", "sales", "--quota", "1000"])
        .ok();
    let group = hub.json(&["group", "get", "sales"]);
    assert_eq!(group["kind"], "department");
    assert_eq!(group["quotaBytes"], 1000);
    hub.run(&[
        "group", "member", "add", "sales", "acme", "--access", "write",
    ])
    .ok();
    let members = hub.run(&["group", "member", "list", "sales"]).ok();
    assert!(
        members.stdout.contains("acme") && members.stdout.contains("write"),
        "{members:?}"
    );
    hub.run(&["group", "delete", "sales", "--yes"])
        .exits_with(1);
    hub.run(&["group", "member", "remove", "sales", "acme", "--yes"])
        .ok();
    hub.run(&["group", "delete", "sales", "--yes"]).ok();
    let none = hub.run(&["group", "list"]).ok();
    assert!(none.stderr.contains("There are no groups"), "{none:?}");
}

#[test]
fn files_of_a_share() {
    let hub = HubProcess::with_acme();
    let share = |args: &[&str]| hub.run(&[&["share"], args, &["--tenant", "acme"]].concat());
    assert!(share(&["list"]).ok().stdout.contains("team"));
    let write = |args: &[&str], text: &str| {
        hub.run_with_input(
            &[&["share", "write", "team"], args, &["--tenant", "acme"]].concat(),
            text,
        )
    };
    write(&["notes/a.md"], "an invoice\n").ok();
    write(&["notes/a.md", "--append"], "An Invoice\n").ok();
    assert_eq!(
        share(&["cat", "team", "notes/a.md"]).ok().stdout,
        "an invoice\nAn Invoice\n"
    );
    let first = share(&["cat", "team", "notes/a.md", "--limit", "1"]).ok();
    assert_eq!(first.stdout, "an invoice\n");
    assert!(share(&["ls", "team"]).ok().stdout.contains("notes"));
    assert!(
        share(&["stat", "team", "notes/a.md"])
            .ok()
            .stdout
            .contains("type: file")
    );
    let found = share(&["grep", "team", "invoice", "-i"]).ok();
    assert_eq!(
        found.stdout,
        "notes/a.md:1: an invoice\nnotes/a.md:2: An Invoice\n"
    );
    assert_eq!(
        share(&["find", "team", "--name", "*.md"]).ok().stdout,
        "notes/a.md\n"
    );
    share(&["mkdir", "team", "old"]).ok();
    share(&["mv", "team", "notes/a.md", "old/a.md"]).ok();
    share(&["mv", "team", "notes/a.md", "old/b.md"]).exits_with(3);
    share(&["rm", "team", "old", "--yes"]).exits_with(1);
    share(&["rm", "team", "old", "--recursive", "--yes"]).ok();
    share(&["cat", "team", "old/a.md"]).exits_with(3);
    share(&["ls", "team", "../x"]).exits_with(2);
    share(&["ls", "elsewhere"]).exits_with(3);
    hub.run(&["share", "list"]).exits_with(2);
}

#[test]
fn files_of_any_kind_go_to_a_share_and_back_and_what_was_removed_is_restored() {
    let hub = HubProcess::with_acme();
    let share = |args: &[&str]| hub.run(&[&["share"], args, &["--tenant", "acme"]].concat());
    let bytes = [0, 159, 146, 150, b'\n'];
    let (own, copy) = (hub.home.beside("scan.bin"), hub.home.beside("copy.bin"));
    std::fs::write(&own, bytes).unwrap();
    let (own, copy) = (own.to_str().unwrap(), copy.to_str().unwrap());
    let sent = share(&["upload", "team", own, "scans/1.bin"]).ok();
    assert!(
        sent.stderr.contains("Wrote 5 bytes to `scans/1.bin`"),
        "{sent:?}"
    );
    share(&["download", "team", "scans/1.bin", copy]).ok();
    assert_eq!(std::fs::read(copy).unwrap(), bytes);
    let stale = [
        "upload",
        "team",
        own,
        "scans/1.bin",
        "--if-match",
        "\"old\"",
    ];
    share(&stale).exits_with(1);
    share(&["download", "team", "scans/2.bin", copy]).exits_with(3);
    share(&["upload", "team", "/nowhere", "scans/2.bin"]).exits_with(2);

    let none = share(&["trash", "team"]).ok();
    assert!(none.stderr.contains("The trash is empty"), "{none:?}");
    share(&["rm", "team", "scans/1.bin", "--yes"]).ok();
    let listed = share(&["trash", "team"]).ok();
    assert!(listed.stdout.contains("scans/1.bin"), "{listed:?}");
    let trash = hub.json(&["share", "trash", "team", "--tenant", "acme"]);
    let id = trash["entries"][0]["id"].as_str().unwrap();
    let back = share(&["restore", "team", id]).ok();
    assert!(back.stderr.contains("`scans/1.bin` is there"), "{back:?}");
    share(&["stat", "team", "scans/1.bin"]).ok();
    share(&["restore", "team", id]).exits_with(3);
}

#[test]
fn a_version_that_is_gone_changes_nothing() {
    let hub = HubProcess::with_acme();
    let args = ["share", "write", "team", "a.md", "--tenant", "acme"];
    let written = hub
        .run_with_input(&[&args[..], &["--json"]].concat(), "one")
        .ok()
        .json();
    assert_eq!(written["bytesWritten"], json!(3));
    let stale = hub.run_with_input(&[&args[..], &["--if-match", "\"other\""]].concat(), "two");
    stale.exits_with(1);
    let text = hub
        .run(&["share", "cat", "team", "a.md", "--tenant", "acme"])
        .ok();
    assert_eq!(text.stdout, "one");
}
