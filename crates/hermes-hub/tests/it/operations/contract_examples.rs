//! Every example of the documented contract, as printed, in both eras, with its REST twin.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    mcp_client::{self, McpEra},
    test_hub::TestHub,
};

/// A tool, its arguments, and the equivalent REST request: method, path, body.
type Example = (&'static str, Value, Option<(Method, String, Option<Value>)>);

fn reads() -> Vec<Example> {
    let get = |path: &str| Some((Method::GET, path.to_owned(), None));
    let share = "/v1/tenants/tenant_123/shares/division1";
    vec![
        ("list_tenants", json!({}), get("/v1/tenants")),
        (
            "get_tenant",
            json!({"tenant_id": "tenant_123"}),
            get("/v1/tenants/tenant_123"),
        ),
        (
            "list_tenant_skills",
            json!({"tenant_id": "tenant_123"}),
            get("/v1/tenants/tenant_123/skills"),
        ),
        (
            "list_tenant_skill_files",
            json!({"tenant_id": "tenant_123", "category": "content", "skill": "writer"}),
            get("/v1/tenants/tenant_123/skills/content/writer/files"),
        ),
        (
            "get_tenant_skill_file",
            json!({"tenant_id": "tenant_123", "path": "content/writer/SKILL.md"}),
            get("/v1/tenants/tenant_123/skill-files/content/writer/SKILL.md"),
        ),
        (
            "list_shares",
            json!({"tenant_id": "tenant_123"}),
            get("/v1/tenants/tenant_123/shares"),
        ),
        (
            "list_share_files",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": ""}),
            get(&format!("{share}/files?path=")),
        ),
        (
            "read_share_file",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes/report.md", "offset": 0, "limit": 200}),
            get(&format!(
                "{share}/files/content?path=notes/report.md&offset=0&limit=200"
            )),
        ),
        (
            "stat_share_path",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes/report.md"}),
            get(&format!("{share}/stat?path=notes%2Freport.md")),
        ),
        (
            "grep_share",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes", "pattern": "invoice|receipt", "max": 50, "ignore_case": true}),
            get(&format!(
                "{share}/grep?path=notes&pattern=invoice%7Creceipt&max=50&ignoreCase=true"
            )),
        ),
        (
            "grep_share",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes", "pattern": "invoice|receipt", "max": 50, "ignore_case": true}),
            Some((
                Method::POST,
                format!("{share}/grep"),
                Some(
                    json!({"path": "notes", "pattern": "invoice|receipt", "max": 50, "ignoreCase": true}),
                ),
            )),
        ),
        (
            "find_share_files",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": ".", "name": "*.md", "max": 100}),
            get(&format!("{share}/find?path=.&name=*.md&max=100")),
        ),
        (
            "list_tenant_crons",
            json!({"tenant_id": "tenant_123"}),
            get("/v1/tenants/tenant_123/agent-cron"),
        ),
        (
            "get_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123"}),
            get("/v1/tenants/tenant_123/agent-cron/job_123"),
        ),
        (
            "get_tenant_impact_config",
            json!({}),
            get("/v1/config/tenant-impact"),
        ),
        ("get_agent_policy", json!({}), get("/v1/agent-policy")),
        (
            "get_agent_specialization",
            json!({}),
            get("/v1/agent-specialization"),
        ),
        (
            "sync_context",
            json!({"tenant_id": "tenant_123", "destination": "/sync/tenant_123", "dry_run": true, "delete": false}),
            Some((
                Method::POST,
                "/v1/tenants/tenant_123/context/sync".into(),
                Some(json!({"destination": "/sync/tenant_123", "dryRun": true, "delete": false})),
            )),
        ),
    ]
}

/// In an order in which each one's requirements exist.
fn changes() -> Vec<(&'static str, Value)> {
    vec![
        (
            "create_tenant",
            json!({"id": "tenant_456", "displayName": "Beta", "agent": {}, "storage": {}, "browser": {}, "flavor": "standard"}),
        ),
        (
            "update_tenant",
            json!({"tenant_id": "tenant_123", "displayName": "Acme Inc."}),
        ),
        (
            "set_tenant_access",
            json!({"tenant_id": "tenant_456", "status": "blocked", "message": "Paused", "reason": "invoice 88"}),
        ),
        (
            "write_share_file",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes/report.md", "content": "text", "mode": "overwrite"}),
        ),
        (
            "make_share_dir",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes"}),
        ),
        (
            "make_share_dir",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "archive"}),
        ),
        (
            "move_share_path",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "from": "draft.md", "to": "archive/draft.md"}),
        ),
        (
            "remove_share_path",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "archive/draft.md", "recursive": false}),
        ),
        (
            "create_tenant_cron",
            json!({"tenant_id": "tenant_123", "job": {"name": "Daily summary", "schedule": "0 9 * * *", "prompt": "Summarize yesterday's updates"}}),
        ),
        (
            "update_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123", "patch": {"enabled": false}}),
        ),
        (
            "pause_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123"}),
        ),
        (
            "resume_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123"}),
        ),
        (
            "run_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123"}),
        ),
        (
            "patch_tenant_impact_config",
            json!({"patch": {"feature": {"enabled": true}}}),
        ),
        (
            "put_agent_policy",
            json!({"policy": {"features": {"enabled": []}}}),
        ),
        (
            "put_agent_specialization",
            json!({"content": "Default hosted-agent instructions."}),
        ),
        (
            "delete_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123"}),
        ),
        ("delete_tenant", json!({"tenant_id": "tenant_456"})),
    ]
}

async fn site() -> TestHub {
    TestHub::with_settings(|settings, _| settings.sync.allowed_roots = vec!["/sync".into()])
        .await
        .with_examples()
        .await
}

/// Removes members that change by themselves.
fn steady(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap();
    if let Some(executions) = value.get_mut("executions") {
        *executions = json!([]);
    }
    value
}

#[tokio::test]
async fn reads_give_the_bytes_of_their_rest_twins_in_both_eras() {
    let site = site().await;
    let session = mcp_client::open_session(&site, &site.admin).await;
    for (tool, arguments, twin) in reads() {
        let (method, path, body) = twin.unwrap();
        let over_rest = async || {
            let request = site.request(&site.admin, method.clone(), &path);
            let request = match &body {
                Some(body) => request
                    .header("content-type", "application/json")
                    .body(body.to_string()),
                None => request,
            };
            let rest = site.send(request).await;
            assert_eq!(rest.status, 200, "{tool}: {}", rest.text);
            rest.text
        };
        for era in [&session, &McpEra::Stateless] {
            // The home may be measured in between.
            loop {
                let before = over_rest().await;
                let text =
                    mcp_client::call_for_text(&site, &site.admin, era, tool, &arguments).await;
                if before == over_rest().await {
                    assert_eq!(text, before, "{tool} in {era:?}");
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn every_documented_change_is_accepted_as_printed_in_both_eras() {
    for is_stateless in [true, false] {
        let site = site().await;
        let era = if is_stateless {
            McpEra::Stateless
        } else {
            mcp_client::open_session(&site, &site.admin).await
        };
        for (tool, arguments) in changes() {
            let text = mcp_client::call_for_text(&site, &site.admin, &era, tool, &arguments).await;
            let is_empty =
                ["delete_tenant", "remove_share_path", "delete_tenant_cron"].contains(&tool);
            assert_eq!(text == r#"{"ok": true}"#, is_empty, "{tool}: {text}");
            assert!(!text.contains("hub_rt_"), "{tool} shows a runtime key");
        }
    }
}

#[tokio::test]
async fn changes_over_rest_say_the_same_as_over_mcp() {
    let (one, other) = (site().await, site().await);
    let share = "/v1/tenants/tenant_123/shares/division1";
    let twins = [
        (
            Method::PATCH,
            "/v1/tenants/tenant_123".to_owned(),
            json!({"displayName": "Acme Inc."}),
            "update_tenant",
            json!({"tenant_id": "tenant_123", "displayName": "Acme Inc."}),
            200,
        ),
        (
            Method::PUT,
            format!("{share}/files/content"),
            json!({"path": "notes/report.md", "content": "text", "mode": "overwrite"}),
            "write_share_file",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "notes/report.md", "content": "text", "mode": "overwrite"}),
            200,
        ),
        (
            Method::PUT,
            format!("{share}/dirs"),
            json!({"path": "archive"}),
            "make_share_dir",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "path": "archive"}),
            201,
        ),
        (
            Method::POST,
            format!("{share}/move"),
            json!({"from": "draft.md", "to": "archive/draft.md"}),
            "move_share_path",
            json!({"tenant_id": "tenant_123", "group_id": "division1", "from": "draft.md", "to": "archive/draft.md"}),
            200,
        ),
        (
            Method::PATCH,
            "/v1/tenants/tenant_123/agent-cron/job_123".to_owned(),
            json!({"enabled": false}),
            "update_tenant_cron",
            json!({"tenant_id": "tenant_123", "job_id": "job_123", "patch": {"enabled": false}}),
            200,
        ),
        (
            Method::PATCH,
            "/v1/config/tenant-impact".to_owned(),
            json!({"feature": {"enabled": true}}),
            "patch_tenant_impact_config",
            json!({"patch": {"feature": {"enabled": true}}}),
            200,
        ),
        (
            Method::PUT,
            "/v1/agent-policy".to_owned(),
            json!({"policy": {"features": {"enabled": []}}}),
            "put_agent_policy",
            json!({"policy": {"features": {"enabled": []}}}),
            200,
        ),
        (
            Method::PUT,
            "/v1/agent-specialization".to_owned(),
            json!({"content": "Default hosted-agent instructions."}),
            "put_agent_specialization",
            json!({"content": "Default hosted-agent instructions."}),
            200,
        ),
    ];
    for (method, path, body, tool, arguments, status) in twins {
        let rest = one.send_json(method, &path, &body).await;
        assert_eq!(rest.status, status, "{tool}: {}", rest.text);
        let mcp =
            mcp_client::call_for_text(&other, &other.admin, &McpEra::Stateless, tool, &arguments)
                .await;
        assert_eq!(
            without_moments(steady(&rest.text)),
            without_moments(steady(&mcp)),
            "{tool}"
        );
    }
}

/// Removes times, file versions and whatever else differs between two Hubs.
fn without_moments(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            // Homes are measured periodically.
            if members.contains_key("linked") {
                members.remove("usedBytes");
            }
            members.retain(|name, _| {
                !name.ends_with("At")
                    && !name.ends_with("_at")
                    && name != "etag"
                    && name != "keys"
                    && name != "restartTenants"
                    && name != "conditions"
                    && name != "observedGeneration"
                    && name != "generation"
            });
            for member in members.values_mut() {
                *member = without_moments(member.take());
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = without_moments(item.take())),
        _ => {}
    }
    value
}

#[tokio::test]
async fn documents_round_trip_and_bad_ones_change_nothing() {
    let site = TestHub::new().await;
    let fresh = site.get("/v1/agent-policy").await.expect(200);
    assert_eq!(fresh["revision"], 0);
    let policy = json!({"features": {"enabled": []}});
    let put = site.put("/v1/agent-policy", &policy).await.expect(200);
    assert_eq!(
        (&put["policy"], &put["revision"], &put["affectedTenants"]),
        (&policy, &json!(1), &json!(0))
    );
    assert_eq!(
        site.get("/v1/agent-policy").await.expect(200)["policy"],
        policy
    );
    let bad = site
        .put("/v1/agent-policy", &json!({"tools": {"dney": []}}))
        .await
        .expect(422);
    assert_eq!(bad["details"][0]["field"], "/tools");
    assert_eq!(
        site.get("/v1/agent-policy").await.expect(200)["revision"],
        1
    );
    let patched = site
        .patch(
            "/v1/config/tenant-impact",
            &json!({"patch": {"feature": {"enabled": true}}}),
        )
        .await
        .expect(200);
    assert_eq!(patched["changed"], json!(["feature.enabled"]));
    assert_eq!(patched["config"]["feature"], json!({"enabled": true}));
    site.patch("/v1/config/tenant-impact", &json!({"listen": "0.0.0.0"}))
        .await
        .expect(422);
    let text = json!({"content": "Default hosted-agent instructions."});
    let put = site
        .put("/v1/agent-specialization", &text)
        .await
        .expect(200);
    assert_eq!(put["content"], text["content"]);
    assert_eq!(
        site.put("/v1/agent-specialization", &json!({"content": ""}))
            .await
            .expect(200)["status"],
        "unset"
    );
    let revisions = site
        .get("/v1/agent-specialization/revisions")
        .await
        .expect(200);
    assert_eq!(revisions["revisions"].as_array().unwrap().len(), 2);
    site.post("/v1/agent-specialization/revisions/1/restore", &json!({}))
        .await
        .expect(200);
    assert_eq!(
        site.get("/v1/agent-specialization").await.expect(200)["content"],
        text["content"]
    );
}
