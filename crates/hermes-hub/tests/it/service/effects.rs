//! Effects of operations on tenants, shares, runs and secrets.

use hermes_testkit::eventually_some;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::{TIMEOUT, TestHub},
};

const SHARE: &str = "/v1/tenants/tenant_123/shares/division1";

#[tokio::test]
async fn reads_by_lines_join_back_to_the_file() {
    let site = TestHub::new().await.with_examples().await;
    let lines: Vec<String> = (0..950).map(|line| format!("line {line} ä\n")).collect();
    let whole = lines.concat();
    site.put(
        &format!("{SHARE}/files/content"),
        &json!({"path": "long.md", "content": whole}),
    )
    .await
    .expect(201);
    let mut joined = String::new();
    let mut offset = Some(0);
    while let Some(from) = offset {
        let part = site
            .get(&format!(
                "{SHARE}/files/content?path=long.md&offset={from}&limit=200"
            ))
            .await
            .expect(200);
        joined.push_str(part["content"].as_str().unwrap());
        assert_eq!(part["totalLines"], 950);
        offset = part["nextOffset"].as_u64();
    }
    assert_eq!(joined, whole);
    let all = site
        .get(&format!("{SHARE}/files/content?path=long.md&limit=0"))
        .await
        .expect(200);
    assert_eq!(all["content"], whole);
    assert_eq!(all["truncated"], false);
}

#[tokio::test]
async fn nothing_is_overwritten_by_moving_and_nothing_full_removed_by_chance() {
    let site = TestHub::new().await.with_examples().await;
    let write = |path: &'static str| json!({"path": path, "content": path});
    let written = site
        .put(&format!("{SHARE}/files/content"), &write("a/b/c.md"))
        .await
        .expect(201);
    assert_eq!(written["bytesWritten"], 8);
    site.put(&format!("{SHARE}/files/content"), &write("d.md"))
        .await
        .expect(201);
    let taken = site
        .post(
            &format!("{SHARE}/move"),
            &json!({"from": "d.md", "to": "a/b/c.md"}),
        )
        .await
        .expect(409);
    assert_eq!(taken["code"], "already_exists");
    let kept = site
        .get(&format!("{SHARE}/files/content?path=a/b/c.md"))
        .await
        .expect(200);
    assert_eq!(kept["content"], "a/b/c.md");
    let full = site
        .delete(&format!("{SHARE}/files?path=a"))
        .await
        .expect(409);
    assert_eq!(
        (&full["code"], &full["reason"]),
        (&json!("failed_precondition"), &json!("not_empty"))
    );
    site.delete(&format!("{SHARE}/files?path=a&recursive=true"))
        .await
        .expect(204);
    site.get(&format!("{SHARE}/stat?path=a")).await.expect(404);
    for path in ["/etc/passwd", "../x", "a/../../x", "a\\b"] {
        let answer = site
            .put(
                &format!("{SHARE}/files/content"),
                &json!({"path": path, "content": "x"}),
            )
            .await;
        assert_eq!(answer.status, 400, "{path}");
    }
    let shares = site.get("/v1/tenants/tenant_123/shares").await.expect(200);
    assert!(
        shares["shares"][0]["usedBytes"].as_u64().unwrap() > 0,
        "{shares}"
    );
}

#[tokio::test]
async fn a_watcher_sees_all_events_from_any_of_them_on() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let run = site
        .post(
            "/v1/tenants/acme/runs",
            &json!({"input": "Hi", "metadata": {"a": 1}}),
        )
        .await
        .expect(202);
    let path = format!("/v1/tenants/acme/runs/{}", run["runId"].as_str().unwrap());
    let watched = site.get(&format!("{path}/events")).await;
    assert_eq!(watched.header("content-type"), "text/event-stream");
    assert!(watched.text.ends_with(": stream closed\n\n"));
    let ids: Vec<u64> = watched
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    let replayed = site.get(&format!("{path}/events")).await;
    assert_eq!(replayed.text, watched.text);
    let request = site
        .request(&site.admin, Method::GET, &format!("{path}/events"))
        .header("last-event-id", "1");
    let (resumed, after) = (
        site.send(request).await,
        site.get(&format!("{path}/events?after=1")).await,
    );
    assert_eq!(resumed.text, after.text);
    assert!(resumed.text.starts_with("id: 2\n"), "{}", resumed.text);
    let done = site.get(&path).await.expect(200);
    assert_eq!(
        (&done["status"], &done["metadata"]),
        (&json!("completed"), &json!({"a": 1}))
    );
    site.get("/v1/tenants/acme/runs?status=completed&trigger=api")
        .await
        .expect(200);
}

#[tokio::test]
async fn planted_secrets_appear_nowhere() {
    let site = TestHub::new().await.with_examples().await;
    let secret = "sk-planted-0123456789abcdef";
    site.put(
        "/v1/tenants/tenant_123/env/API_KEY",
        &json!({"value": secret}),
    )
    .await
    .expect(204);
    let made = site
        .tenant(json!({"id": "second", "env": {"API_KEY": secret}}))
        .await;
    let runtime_key = made["runtimeKey"].as_str().unwrap().to_owned();
    let env = site.get("/v1/tenants/tenant_123/env").await.expect(200);
    assert_eq!(env["env"][0]["name"], "API_KEY");
    assert_eq!(env["env"][0]["last4"], "cdef");
    site.put("/v1/tenants/tenant_123/env/PATH", &json!({"value": secret}))
        .await
        .expect(422);
    site.put("/v1/tenants/tenant_123/env/API_KEY", &json!({"value": 5}))
        .await
        .expect(400);
    let wrong = site
        .put("/v1/tenants/tenant_123/access", &json!({"status": secret}))
        .await;
    assert_eq!(wrong.status, 400);
    assert!(!wrong.text.contains(secret), "{}", wrong.text);
    let token = &site.admin;
    let astray = site.get(&format!("/v1/tenants/{token}")).await;
    assert_eq!(astray.status, 400);
    assert!(!astray.text.contains(token.as_str()), "{}", astray.text);
    for path in [
        "/v1/tenants",
        "/v1/tenants/tenant_123",
        "/v1/tenants/second",
        "/v1/audit?format=ndjson",
        "/v1/tokens",
    ] {
        let answer = site.get(path).await;
        for hidden in [secret, runtime_key.as_str(), token.as_str()] {
            assert!(!answer.text.contains(hidden), "{path} shows a secret");
        }
    }
    // What is still to be logged of reads is written when the Hub ends.
    site.hub.close().await;
    site.hub.state().close().await;
    let database = std::fs::read(site.directory.path().join("hub/hub.db")).unwrap();
    for hidden in [secret, runtime_key.as_str(), token.as_str()] {
        assert!(
            !database
                .windows(hidden.len())
                .any(|part| part == hidden.as_bytes()),
            "the database holds a secret"
        );
    }
}

#[tokio::test]
async fn a_deleted_tenant_is_hidden_until_it_is_restored_and_purging_leaves_nothing() {
    let site = TestHub::new().await.with_examples().await;
    let own = "/v1/tenants/tenant_123";
    site.put(&format!("{own}/env/API_KEY"), &json!({"value": "hunter22"}))
        .await
        .expect(204);
    let owned = async || {
        let mut owned = Vec::new();
        for path in ["env", "shares", "agent-cron", "skills"] {
            owned.push(site.get(&format!("{own}/{path}")).await.expect(200));
        }
        owned
    };
    let before = owned().await;
    site.delete(own).await.expect(204);
    site.get(own).await.expect(404);
    site.delete("/v1/tenants/tenant_123").await.expect(204);
    let deleted = site.get("/v1/tenants?status=deleted").await.expect(200);
    assert_eq!(deleted["tenants"][0]["id"], "tenant_123");
    assert_eq!(
        site.get("/v1/tenants").await.expect(200)["tenants"],
        json!([])
    );
    site.post("/v1/tenants", &json!({"id": "tenant_123"}))
        .await
        .expect(409);
    let restored = site
        .post("/v1/tenants/tenant_123/restore", &json!({}))
        .await
        .expect(200);
    assert_eq!(restored["groups"][0]["id"], "division1");
    assert_eq!(owned().await, before);
    let soul = site.home("tenant_123").join("SOUL.md");
    assert_eq!(std::fs::read_to_string(soul).unwrap(), "I am Acme's.\n");
    site.delete("/v1/tenants/tenant_123?purge=true")
        .await
        .expect(204);
    assert!(!site.home("tenant_123").parent().unwrap().exists());
    site.post("/v1/tenants/tenant_123/restore", &json!({}))
        .await
        .expect(404);
    // Nothing of it is left for the next tenant of its name.
    site.tenant(json!({"id": "tenant_123"})).await;
    assert_eq!(
        owned().await,
        [
            json!({"env": []}),
            json!({"shares": []}),
            json!({"jobs": []}),
            json!({"categories": []})
        ]
    );
}

#[tokio::test]
async fn settings_of_a_tenant_come_from_it_from_its_flavor_and_from_the_hub() {
    let site = TestHub::new().await;
    let patch = json!({"agent": {"idleStopSeconds": 60}, "flavors": {"large": {"agent": {"maxConcurrentRuns": 3}}}});
    site.patch("/v1/config/tenant-impact", &patch)
        .await
        .expect(200);
    site.tenant(json!({"id": "acme", "flavor": "large", "agent": {"timezone": "Europe/Berlin"}}))
        .await;
    let agent = site.get("/v1/tenants/acme").await.expect(200)["agent"].clone();
    assert_eq!(
        agent,
        json!({"model": null, "timezone": "Europe/Berlin", "autoStart": true, "idleStopSeconds": 60, "maxConcurrentRuns": 3})
    );
    let changed = site
        .patch(
            "/v1/tenants/acme",
            &json!({"agent": {"timezone": null, "model": "a/b"}}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&changed["agent"]["timezone"], &changed["agent"]["model"]),
        (&json!("UTC"), &json!("a/b"))
    );
    let reset = site
        .patch("/v1/tenants/acme", &json!({"agent": null, "flavor": null}))
        .await
        .expect(200);
    assert_eq!(
        (&reset["agent"]["model"], &reset["flavor"]),
        (&Value::Null, &json!("standard"))
    );
    site.patch(
        "/v1/tenants/acme",
        &json!({"agent": {"timezone": "Mars/Olympus"}}),
    )
    .await
    .expect(422);
    let labels = site
        .patch("/v1/tenants/acme", &json!({"labels": {"a": "1", "b": "2"}}))
        .await
        .expect(200);
    assert_eq!(labels["labels"], json!({"a": "1", "b": "2"}));
    let labels = site
        .patch("/v1/tenants/acme", &json!({"labels": {"a": null}}))
        .await
        .expect(200);
    assert_eq!(labels["labels"], json!({"b": "2"}));
}

#[tokio::test]
async fn sync_stays_beneath_allowed_roots() {
    let site = TestHub::with_settings(|settings, directory| {
        let root = directory.join("out");
        std::fs::create_dir(&root).unwrap();
        settings.sync.allowed_roots = vec![root];
    })
    .await
    .with_examples()
    .await;
    let destination = site.directory.path().join("out/tenant_123");
    let path = "/v1/tenants/tenant_123/context/sync";
    let plan = site
        .post(path, &json!({"destination": destination, "dryRun": true}))
        .await
        .expect(200);
    assert!(
        plan["copied"]
            .as_array()
            .unwrap()
            .contains(&json!("SOUL.md")),
        "{plan}"
    );
    assert!(!destination.exists());
    let done = site
        .post(path, &json!({"destination": destination}))
        .await
        .expect(200);
    assert_eq!(done["copied"], plan["copied"]);
    assert!(destination.join("SOUL.md").exists());
    site.post(path, &json!({"destination": "/elsewhere/x"}))
        .await
        .expect(403);
    let own = mcp_client::call_for_text(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "sync_context",
        &json!({"tenant_id": "tenant_123", "destination": "copy"}),
    )
    .await;
    assert!(own.contains("SOUL.md"));
    assert!(site.directory.path().join("hub/sync/copy/SOUL.md").exists());
}

#[tokio::test]
async fn blocking_refuses_runs_and_the_agent_can_be_started_and_stopped() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    site.post("/v1/tenants/acme/agent/start", &json!({}))
        .await
        .expect(202);
    let state = site.get("/v1/tenants/acme/agent").await.expect(200);
    assert!(state["state"].is_string());
    site.put(
        "/v1/tenants/acme/access",
        &json!({"status": "blocked", "message": "Paused"}),
    )
    .await
    .expect(200);
    let refused = site
        .post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await
        .expect(403);
    assert_eq!(refused["reason"], "tenant_blocked");
    site.post("/v1/tenants/acme/agent/start", &json!({}))
        .await
        .expect(403);
    site.put("/v1/tenants/acme/access", &json!({"status": "active"}))
        .await
        .expect(200);
    site.post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await
        .expect(202);
    site.post("/v1/tenants/acme/agent/stop", &json!({}))
        .await
        .expect(202);
}

#[tokio::test]
async fn every_change_and_every_tool_call_is_in_the_log_and_the_log_holds() {
    let site = TestHub::new().await.with_examples().await;
    mcp_client::call_for_text(
        &site,
        &site.admin,
        &McpEra::Stateless,
        "get_tenant",
        &json!({"tenant_id": "tenant_123"}),
    )
    .await;
    for action in [
        "create_group",
        "create_tenant",
        "write_share_file",
        "create_tenant_cron",
        "get_tenant",
    ] {
        let path = format!("/v1/audit?action={action}");
        let logged = eventually_some(TIMEOUT, async || {
            let audit = site.get(&path).await.expect(200);
            let entries = audit["entries"].as_array().unwrap();
            (!entries.is_empty()).then_some(())
        });
        assert!(logged.await.is_some(), "{action} is not in the log");
    }
    let write = site
        .get("/v1/audit?action=write_share_file&limit=1")
        .await
        .expect(200);
    let entry = &write["entries"][0];
    assert!(
        entry["target"].as_str().unwrap().starts_with("division1:"),
        "{entry}"
    );
    assert!(!entry["contentSha256"].as_str().unwrap().is_empty());
    assert_eq!(site.get("/v1/audit/verify").await.expect(200)["ok"], true);
    let metrics = site.hub.metrics().render(&[]);
    assert!(
        metrics.contains("operation=\"get_tenant\",via=\"mcp\",code=\"200\""),
        "{metrics}"
    );
}
