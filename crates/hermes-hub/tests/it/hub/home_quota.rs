//! The quota of a tenant's home, and its workspace as an archive.

use std::{collections::BTreeMap, io::Read, os::unix::fs::symlink};

use reqwest::Method;
use serde_json::json;

use crate::test_hub::TestHub;

#[tokio::test]
async fn a_tenant_over_its_quota_is_stopped_and_gets_no_run_until_there_is_room() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "storage": {"quotaBytes": 10_000}}))
        .await;
    let large = site.home("acme").join("workspace/large.bin");
    std::fs::write(&large, vec![7; 20_000]).unwrap();
    let is_over = |tenant: &serde_json::Value| {
        let conditions = tenant["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| {
            condition["type"] == "StorageWithinQuota" && condition["status"] == "False"
        })
    };
    let tenant = site.wait_until("/v1/tenants/acme", is_over).await;
    assert!(tenant["storage"]["usedBytes"].as_u64() >= Some(20_000));
    site.wait_until("/v1/tenants/acme/agent", |agent| {
        agent["state"] == "stopped"
    })
    .await;
    let run = json!({"input": "Hi"});
    let refused = site.post("/v1/tenants/acme/runs", &run).await.expect(507);
    assert_eq!(
        (&refused["code"], &refused["reason"]),
        (&json!("resource_exhausted"), &json!("quota"))
    );

    let more = json!({"storage": {"quotaBytes": 1_000_000}});
    site.patch("/v1/tenants/acme", &more).await.expect(200);
    site.post("/v1/tenants/acme/runs", &run).await.expect(202);
    let less = json!({"storage": {"quotaBytes": 10_000}});
    site.patch("/v1/tenants/acme", &less).await.expect(200);
    site.post("/v1/tenants/acme/runs", &run).await.expect(507);
    std::fs::remove_file(large).unwrap();
    site.post("/v1/tenants/acme/runs", &run).await.expect(202);
}

#[tokio::test]
async fn a_tenant_that_nears_its_quota_is_told_of_before_it_is_stopped() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "storage": {"quotaBytes": 1_000_000}}))
        .await;
    let large = site.home("acme").join("workspace/large.bin");
    std::fs::write(&large, vec![7; 950_000]).unwrap();
    let condition = |tenant: &serde_json::Value| {
        let conditions = tenant["conditions"].as_array().unwrap();
        let mut found = conditions.iter();
        let found = found.find(|condition| condition["type"] == "StorageWithinQuota");
        found.cloned().unwrap_or_default()
    };
    let tenant = site
        .wait_until("/v1/tenants/acme", |tenant| {
            condition(tenant)["reason"] == "near_quota"
        })
        .await;
    assert_eq!(condition(&tenant)["status"], "True");
    let told = site
        .get("/v1/events?after=0&follow=false&type=quota.near")
        .await;
    assert_eq!(
        told.text.matches("\"quota.near\"").count(),
        1,
        "{}",
        told.text
    );
    site.post("/v1/tenants/acme/runs", &json!({"input": "Hi"}))
        .await
        .expect(202);
}

/// The files of an archive, directories with a slash.
fn unpacked(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(zstd::stream::read::Decoder::new(archive).unwrap());
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            assert!(!entry.header().entry_type().is_symlink(), "{path}");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, content)
        })
        .collect()
}

#[tokio::test]
async fn a_workspace_is_downloaded_as_one_archive_without_links() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    let workspace = site.home("acme").join("workspace");
    let deep = workspace.join("notes").join("n".repeat(120));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(workspace.join("a.txt"), "one").unwrap();
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(deep.join("large.bin"), &large).unwrap();
    symlink(site.home("acme").join(".env"), workspace.join("link")).unwrap();
    symlink("/etc", workspace.join("notes/etc")).unwrap();

    let archive = async |path: &str| {
        let path = format!("/v1/tenants/acme/files/download?path={path}&format=tar.zst");
        let request = site.request(&site.admin, Method::GET, &path);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.bytes().await.unwrap())
    };
    let (status, whole) = archive("").await;
    assert_eq!(status, 200);
    let files = unpacked(&whole);
    let long = "n".repeat(120);
    assert_eq!(
        files.keys().cloned().collect::<Vec<_>>(),
        [
            "a.txt".to_owned(),
            "notes/".into(),
            format!("notes/{long}/"),
            format!("notes/{long}/large.bin"),
        ]
    );
    assert_eq!(files["a.txt"], b"one");
    assert!(files[&format!("notes/{long}/large.bin")] == large);
    assert_eq!(unpacked(&archive("a.txt").await.1).len(), 1);
    assert_eq!(archive("missing").await.0, 404);
    assert_eq!(archive("..").await.0, 400);
    assert!([403, 404, 409].contains(&archive("link").await.0));
    let wrong = "/v1/tenants/acme/files/download?path=a.txt&format=zip";
    site.get(wrong).await.expect(400);
}

#[tokio::test]
async fn a_tenant_whose_home_is_gone_has_failed_until_it_is_back() {
    let mut site = TestHub::new().await;
    site.tenant(json!({"id": "acme", "start": false})).await;
    site.tenant(json!({"id": "other", "start": false})).await;
    let (home, aside) = (site.home("acme"), site.directory.path().join("aside"));
    std::fs::rename(&home, &aside).unwrap();
    site.restart().await;
    let failed = site
        .wait_until("/v1/tenants/acme", |tenant| tenant["status"] == "failed")
        .await;
    let conditions = failed["conditions"].as_array().unwrap();
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "HomeReady");
    assert_eq!(ready.unwrap()["reason"], "missing", "{failed}");
    let other = site.get("/v1/tenants/other").await.expect(200);
    assert_eq!(other["status"], "ready");

    std::fs::rename(&aside, &home).unwrap();
    site.restart().await;
    site.wait_until("/v1/tenants/acme", |tenant| tenant["status"] == "ready")
        .await;
}

#[tokio::test]
async fn changed_variables_are_in_force_after_the_agent_was_idle() {
    let site = TestHub::new().await;
    site.tenant(json!({"id": "acme"})).await;
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
    let value = json!({"value": "new"});
    site.put("/v1/tenants/acme/env/SETTING", &value)
        .await
        .expect(204);
    site.wait_until("/v1/tenants/acme/agent", |agent| {
        agent["state"] == "sleeping"
    })
    .await;
    site.post("/v1/tenants/acme/agent/start", &json!({}))
        .await
        .expect(202);
    site.wait_until("/v1/tenants/acme", |tenant| {
        tenant["observedGeneration"] == tenant["generation"]
    })
    .await;
}

#[tokio::test]
async fn figures_tell_of_disk_connections_and_agents() {
    let site = TestHub::with_settings(|settings, _| settings.metrics.per_tenant = true).await;
    site.tenant(json!({"id": "acme"})).await;
    std::fs::write(site.home("acme").join("workspace/a.txt"), "text").unwrap();
    site.wait_until("/v1/tenants/acme/agent", |agent| agent["state"] == "idle")
        .await;
    site.wait_until("/v1/tenants/acme", |tenant| {
        tenant["storage"]["usedBytes"].as_u64() > Some(0)
    })
    .await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let stop = tokio_util::sync::CancellationToken::new();
    let mut serving = tokio::task::JoinSet::new();
    let (hub, until) = (site.hub.clone(), stop.clone());
    serving.spawn(async move { hub.serve_metrics(listener, until).await });
    let text = site.client.get(url).send().await.unwrap();
    let text = text.text().await.unwrap();
    for line in [
        "hermes_hub_agents{state=\"idle\"} 1",
        "hermes_hub_tenants{state=\"ready\"} 1",
        "hermes_hub_approvals_pending 0",
        "hermes_hub_wake_seconds_count 1",
        "# TYPE hermes_hub_disk_free_bytes gauge",
        "# TYPE hermes_hub_database_connections gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for start in [
        "hermes_hub_used_bytes{what=\"homes\"} ",
        "hermes_hub_tenant_used_bytes{tenant=\"acme\"} ",
    ] {
        let found = text.lines().find_map(|line| line.strip_prefix(start));
        let bytes: u64 = found
            .unwrap_or_else(|| panic!("{start}\n{text}"))
            .parse()
            .unwrap();
        assert!(bytes > 0);
    }
    stop.cancel();
}
