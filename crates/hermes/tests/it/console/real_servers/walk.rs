//! Every page, as every reader.

use serde_json::{Value, json};

use super::{ConsoleSite, Visit, node};

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_valid_and_calm_for_every_reader() {
    let Some(node) = node() else {
        return;
    };
    let site = ConsoleSite::start().await;
    let _server = site.fill().await;
    // Runs that ended differently, one that waits, and a tenant with a hostile name.
    let runs = site.hub.get("/v1/tenants/acme/runs").await;
    let runs = runs["runs"].as_array().unwrap().iter();
    let runs = runs.map(|run| format!("/tenants/acme/runs/{}", run["runId"].as_str().unwrap()));
    let runs: Vec<String> = runs.collect();
    let mut readers = Vec::new();
    for (name, rights) in [
        ("admin", json!({"role": "admin"})),
        ("operator", json!({"role": "operator"})),
        ("viewer", json!({"role": "viewer"})),
        ("bound", json!({"role": "admin", "tenants": ["acme"]})),
    ] {
        let mut rights = rights;
        rights["name"] = json!(name);
        let token = site.token(rights).await;
        let mut also = runs.clone();
        if name == "admin" {
            also.push("/tenants/hostile".to_owned());
        }
        readers.push(json!({"name": name, "token": token, "also": also}));
    }
    let argument = json!({"base": site.hub.url, "readers": readers});
    let walked =
        tokio::task::spawn_blocking(move || Visit::start(&node, "walk.mjs", &argument).read_line());
    let walked = walked.await.unwrap();
    assert_eq!(walked["findings"], json!([]), "{walked:#}");
    for (reader, pages) in walked["visited"].as_object().unwrap() {
        let pages: Vec<&str> = pages
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let runs = "/tenants/acme/runs/";
        let sees_a_run = pages.iter().any(|page| page.starts_with(runs));
        assert!(sees_a_run, "{reader} sees no run: {pages:?}");
        let sees_others = pages
            .iter()
            .any(|page| page.starts_with("/tenants/hostile"));
        match reader.as_str() {
            "admin" => assert!(sees_others, "{pages:?}"),
            "bound" => assert!(!sees_others, "{pages:?}"),
            _ => {}
        }
    }
}
