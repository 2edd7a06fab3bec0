//! Tenants: created, changed, blocked, deleted and restored.

use serde_json::{Value, json};

use crate::test_hub::TestHub;

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
async fn null_takes_back_what_a_tenant_was_given() {
    let site = TestHub::new().await;
    let tenant = json!({"id": "acme", "displayName": "Acme", "labels": {"a": "1", "b": "2"},
        "env": {"ONE": "1", "TWO": "2"}});
    site.tenant(tenant).await;
    let patch =
        json!({"displayName": null, "labels": {"a": null}, "env": {"ONE": null, "SIX": "6"}});
    let patched = site.patch("/v1/tenants/acme", &patch).await.expect(200);
    assert_eq!(patched["displayName"], "acme");
    assert_eq!(patched["labels"], json!({"b": "2"}));
    let env = site.get("/v1/tenants/acme/env").await.expect(200);
    let names: Vec<_> = env["env"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["SIX", "TWO"]);
    let patched = site
        .patch("/v1/tenants/acme", &json!({"labels": null}))
        .await;
    assert_eq!(patched.expect(200)["labels"], json!({}));
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
