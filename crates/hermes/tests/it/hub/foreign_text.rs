//! What tenants wrote never steers the terminal of whoever manages them: names, files, jobs, skills, runs, the log.

use std::fs;

use serde_json::Value;

use crate::{
    harness::{
        nasty_conversation::{CONVERSATION, store_nasty_conversation},
        terminal::{NASTY, clean},
        test_home::wait_until,
    },
    hub::hub_process::HubProcess,
};

/// A Hub on which everything that somebody can name or write is a text that steers terminals.
fn hub_with_nasty_texts(settings: &[&str]) -> (HubProcess, String) {
    let hub = HubProcess::with_examples(settings);
    let label = format!("note={NASTY}");
    for arguments in [
        &[
            "tenant",
            "update",
            "tenant_123",
            "--name",
            NASTY,
            "--label",
            &label,
        ][..],
        &["group", "update", "division1", "--name", NASTY],
        &[
            "tenant",
            "cron",
            "update",
            "tenant_123",
            "job_123",
            "--name",
            NASTY,
            "--prompt",
            NASTY,
        ],
        &[
            "tenant",
            "block",
            "tenant_123",
            "--message",
            NASTY,
            "--reason",
            NASTY,
            "--yes",
        ],
        &["tenant", "unblock", "tenant_123"],
    ] {
        hub.run(arguments).ok();
    }
    let home = hub.data().join("tenants/tenant_123/home");
    let skill = home.join("skills/content/writer");
    let head = format!(
        "---\nname: writer\ndescription: \"{}\"\n---\n{NASTY}\n",
        escaped()
    );
    fs::write(skill.join("SKILL.md"), head).unwrap();
    fs::write(skill.join(format!("more{NASTY}.md")), NASTY).unwrap();
    let workspace = home.join("workspace");
    fs::create_dir_all(&workspace).unwrap();
    fs::write(workspace.join("note.md"), NASTY).unwrap();
    fs::write(workspace.join(format!("odd{NASTY}.md")), NASTY).unwrap();
    let share = hub.data().join("shares/division1");
    fs::write(share.join("nasty.md"), format!("invoice {NASTY}\n")).unwrap();
    fs::write(share.join(format!("odd{NASTY}.md")), NASTY).unwrap();

    let run = hub.json(&["tenant", "run", "tenant_123", NASTY]);
    let run = run["runId"].as_str().unwrap().to_owned();
    wait_until("the run ends", || {
        let shown = hub.json(&["tenant", "runs", "tenant_123", &run]);
        let status = shown["status"].as_str().unwrap().to_owned();
        ["completed", "failed", "cancelled"].contains(&status.as_str())
    });
    (hub, run)
}

/// For the quotes of YAML, which takes no control characters as they are.
fn escaped() -> String {
    let quoted = Value::from(NASTY).to_string().replace('\u{9b}', "\\u009b");
    quoted.trim_matches('"').to_owned()
}

#[test]
fn no_command_about_tenants_lets_their_texts_steer_the_terminal() {
    let (hub, run) = hub_with_nasty_texts(&[]);
    let of = ["--tenant", "tenant_123"];
    let tenant = "tenant_123";
    let ended = hub.json(&["tenant", "runs", tenant, &run]);
    let is_completed = ended["status"] == "completed";
    let watched = i32::from(!is_completed);
    for (arguments, code) in [
        (&["tenant", "list"][..], 0),
        (&["tenant", "get", tenant], 0),
        (&["tenant", "get", "no-such-tenant"], 3),
        (&["tenant", "update", tenant, "--label", "a=b"], 0),
        (&["tenant", "runs", tenant], 0),
        (&["tenant", "runs", tenant, &run], 0),
        (&["tenant", "watch", tenant, &run], watched),
        (&["tenant", "cron", "list", tenant], 0),
        (&["tenant", "cron", "get", tenant, "job_123"], 0),
        (&["tenant", "cron", "pause", tenant, "job_123"], 0),
        (&["tenant", "skill", "list", tenant], 0),
        (
            &[
                "tenant",
                "skill",
                "files",
                tenant,
                "writer",
                "--category",
                "content",
            ],
            0,
        ),
        (
            &["tenant", "skill", "show", tenant, "content/writer/SKILL.md"],
            0,
        ),
        (&["tenant", "files", tenant], 0),
        (&["tenant", "files", tenant, "note.md", "--cat"], 0),
        (&["tenant", "files", tenant, "note.md", "--output", "-"], 0),
        (&["tenant", "env", "list", tenant], 0),
        (&["tenant", "approve"], 0),
        (&["tenant", "block", tenant, "--message", NASTY, "--yes"], 0),
        (&["tenant", "run", tenant, NASTY], 4),
        (&["tenant", "unblock", tenant], 0),
        (&["share", "list", of[0], of[1]], 0),
        (&["share", "ls", "division1", of[0], of[1]], 0),
        (&["share", "cat", "division1", "nasty.md", of[0], of[1]], 0),
        (&["share", "grep", "division1", "invoice", of[0], of[1]], 0),
        (&["share", "find", "division1", of[0], of[1]], 0),
        (&["share", "cat", "division1", NASTY, of[0], of[1]], 2),
        (&["group", "list"], 0),
        (&["group", "get", "division1"], 0),
        (&["group", "member", "list", "division1"], 0),
        (&["hub", "status"], 0),
        (&["hub", "audit", "tail"], 0),
        (&["hub", "audit", "export"], 0),
        (&["hub", "config", "get"], 0),
    ] {
        clean(hub.command(arguments), code);
        let json = [arguments, &["--json"]].concat();
        if code == 0
            && !matches!(
                arguments,
                ["hub", "audit", "export"] | [_, "files", .., "-"]
            )
        {
            clean(hub.command(&json), 0);
        }
    }
    // What is text of it is still shown.
    let shown = clean(hub.command(&["tenant", "get", tenant]), 0);
    assert!(shown.contains("ABCDE"), "{shown:?}");
    let file = clean(
        hub.command(&["tenant", "files", tenant, "note.md", "--cat"]),
        0,
    );
    assert!(file.contains("ABCDE"), "{file:?}");
}

#[test]
fn feeds_servers_and_conversations_of_tenants_do_not_steer_the_terminal() {
    let (hub, _) = hub_with_nasty_texts(&["webhooks.allow_private=true"]);
    let tenant = "tenant_123";
    let home = hub.data().join("tenants/tenant_123/home");
    store_nasty_conversation(&home);
    let text = escaped();
    let config = format!(
        "model: {{default: \"{text}\"}}\nmcp_servers: {{odd: {{command: uvx, args: [\"{text}\"]}}}}\n"
    );
    fs::write(home.join("config.yaml"), config).unwrap();
    let create = ["hub", "webhook", "create", "http://127.0.0.1:9/"];
    hub.run(&[&create[..], &["--event", "run.ended"]].concat())
        .ok();
    let listed = hub.json(&["hub", "webhook", "list"]);
    let webhook = listed["webhooks"][0]["id"].as_str().unwrap();
    for arguments in [
        &["hub", "events"][..],
        &["hub", "events", "--tenant", tenant],
        &["hub", "usage"],
        &["hub", "usage", "--by", "tenant"],
        &["hub", "overview"],
        &["hub", "runs"],
        &["hub", "jobs"],
        &["hub", "webhook", "list"],
        &["hub", "webhook", "get", webhook],
        &["hub", "webhook", "test", webhook],
        &["hub", "webhook", "deliveries", webhook],
        &["tenant", "mcp", tenant, "list"],
        &["tenant", "mcp", tenant, "get", "odd"],
        &["tenant", "model", tenant],
        &["tenant", "sessions", tenant, "list"],
        &["tenant", "sessions", tenant, "show", CONVERSATION],
        &["tenant", "sessions", tenant, "search", "needle"],
    ] {
        clean(hub.command(arguments), 0);
        clean(hub.command(&[arguments, &["--json"]].concat()), 0);
    }
    for arguments in [
        &["tenant", "model", tenant][..],
        &["tenant", "sessions", tenant, "show", CONVERSATION],
    ] {
        let shown = clean(hub.command(arguments), 0);
        assert!(shown.contains("ABCDE"), "{arguments:?}: {shown:?}");
    }
}

#[test]
fn a_pipe_gets_a_tenants_file_as_it_is() {
    let (hub, _) = hub_with_nasty_texts(&[]);
    let file = hub
        .run(&["tenant", "files", "tenant_123", "note.md", "--output", "-"])
        .ok();
    assert_eq!(file.stdout, NASTY);
}
