//! schemathesis draws requests from the OpenAPI document, sound and unsound ones, and looks at every answer: none is a
//! fault of the Hub, and none is undocumented.

use std::{fs, path::Path, process::Command};

use hermes_hub::operations::table;
use serde_json::Value;

use crate::{harness::program::installed, hub::hub_process::HubProcess};

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,missing_required_header,ignored_auth";

/// The same requests in every run.
const SEED: &str = "20261115";

/// As many requests as it likes, however wrong their tokens are.
const SETTINGS: [&str; 4] = [
    "sync.allowed_roots=/sync",
    "limits.rps_per_token=1000000",
    "limits.burst=1000000",
    "limits.auth_failures_per_minute=1000000",
];

/// A stream that follows has no end.
const ENDLESS: &str = r#"
[[operations]]
include-operation-id = "watch_events"
parameters = { "query.follow" = false }
"#;

/// Operations that take something away, which must not be what the others need.
const DESTRUCTIVE: &str = r#"
[[operations]]
include-operation-id = ["delete_tenant", "update_tenant", "set_tenant_access", "restore_tenant"]
parameters = { "path.tenant_id" = "tenant_456" }

[[operations]]
include-operation-id = ["delete_group", "update_group", "put_member", "remove_member"]
parameters = { "path.group_id" = "spare" }

[[operations]]
include-operation-id = "delete_tenant_cron"
parameters = { "path.job_id" = "spare" }
"#;

/// Arguments that lead to things which exist.
fn known(hub: &HubProcess) -> String {
    let created = hub.json(&["tenant", "run", "tenant_123", "Hello"]);
    let run = created["runId"].as_str().unwrap().to_owned();
    let spare = hub.json(&["token", "create", "spare", "--role", "viewer"]);
    let spare = spare["id"].as_str().unwrap().to_owned();
    format!(
        r#"
[parameters]
"path.tenant_id" = "tenant_123"
"path.group_id" = "division1"
"path.member_id" = "tenant_456"
"path.job_id" = "job_123"
"path.run_id" = "{run}"
"path.token_id" = "{spare}"
"path.category" = "content"
"path.skill" = "writer"
"path.path" = "content/writer/SKILL.md"
"path.name" = "API_KEY"
"path.revision" = 1
"path.server" = "demo"
{DESTRUCTIVE}{ENDLESS}"#
    )
}

fn prepared() -> HubProcess {
    let hub = HubProcess::with_examples(&SETTINGS);
    hub.run(&["tenant", "create", "tenant_456"]).ok();
    hub.run(&["group", "create", "spare"]).ok();
    let job = ["tenant", "cron", "create", "tenant_123", "every 1h", "Look"];
    hub.run(&[&job[..], &["--id", "spare"]].concat()).ok();
    hub.run_with_input(&["specialization", "put", "-", "--yes"], "Be brief.")
        .ok();
    let workspace = hub.data().join("tenants/tenant_123/home/workspace");
    fs::write(workspace.join("a.txt"), "text\n").unwrap();
    hub
}

fn jobs(hub: &HubProcess) -> Value {
    hub.json(&["tenant", "cron", "list", "tenant_123"])
}

/// Runs it with this configuration and gives back what it told.
fn run(program: &Path, hub: &HubProcess, name: &str, config: &str, arguments: &[&str]) -> String {
    let file = hub.home.beside(&format!("{name}.toml"));
    fs::write(&file, config).unwrap();
    let output = Command::new(program)
        .arg("--config-file")
        .arg(&file)
        .arg("run")
        .arg(format!("{}/v1/openapi.json", hub.url))
        .args([
            "--header",
            &format!("Authorization: Bearer {}", hub.token()),
        ])
        .args(["--checks", CHECKS, "--seed", SEED])
        .args([
            "--generation-database",
            "none",
            "--no-color",
            "--warnings",
            "off",
        ])
        .args(["--continue-on-failure", "--request-timeout", "30"])
        // Names in routes have patterns that few random texts fit.
        .args(["--suppress-health-check", "filter_too_much"])
        .args(arguments)
        .current_dir(hub.home.beside("."))
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{name}: {told}");
    told
}

/// How many operations it has tested, by its own account.
fn tested(told: &str) -> Option<usize> {
    let line = told.lines().find(|line| line.contains("Tested:"))?;
    line.split_whitespace().last()?.parse().ok()
}

#[test]
fn no_answer_is_a_fault_or_undocumented() {
    let Some(program) = installed("HERMES_TEST_VENV_SCHEMATHESIS", "bin/schemathesis") else {
        return;
    };
    let hub = prepared();
    let offered: usize = table()
        .rows()
        .map(|operation| operation.methods.len())
        .sum();
    // It leaves out the one that it has read the document by.
    let operations = offered - 1;
    // First requests that reach what exists, then everything that can be wrong with each argument: that also deletes
    // what it finds.
    let config = known(&hub);
    let before = jobs(&hub);
    let deep = run(
        &program,
        &hub,
        "deep",
        &config,
        &["--phases", "fuzzing", "--max-examples", "8"],
    );
    assert_eq!(tested(&deep), Some(operations), "{deep}");
    // They did reach it.
    assert_ne!(jobs(&hub), before);
    let wrong = run(
        &program,
        &hub,
        "wrong",
        ENDLESS,
        &["--phases", "examples,coverage"],
    );
    assert_eq!(tested(&wrong), Some(operations), "{wrong}");
    // Its token was good to the end.
    hub.run(&["token", "whoami"]).ok();
    let health = hub.run(&["hub", "status"]).ok();
    assert!(health.stdout.contains("is ready"), "{health:?}");
}
