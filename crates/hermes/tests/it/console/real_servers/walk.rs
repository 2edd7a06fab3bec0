//! Every page, as every reader.

use hermes_hub::{
    api_types::Role,
    operations::{Gate, table},
};
use serde_json::{Value, json};

use super::{ConsoleSite, Visit, node};

/// The addresses of all pages, with `{name}` for values, by the table of pages.
fn page_paths() -> Vec<&'static str> {
    let table = include_str!("../../../../../hermes-hub/src/console/pages.rs");
    let rows = table.split("page!(");
    let paths = rows.filter_map(|row| row.trim_start().strip_prefix('"')?.split('"').next());
    paths.collect()
}

/// Whether an address is one with `{name}` for values.
fn is_at(address: &str, path: &str) -> bool {
    let address = address.split('?').next().unwrap_or_default();
    let (here, there): (Vec<&str>, Vec<&str>) =
        (address.split('/').collect(), path.split('/').collect());
    let is_same = |(part, wanted): (&&str, &&str)| wanted.starts_with('{') || part == wanted;
    here.len() == there.len() && here.iter().zip(&there).all(is_same)
}

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
            "admin" => {
                assert!(sees_others, "{pages:?}");
                let mut paths = page_paths();
                assert!(paths.len() > 30, "{paths:?}");
                paths.retain(|path| !pages.iter().any(|page| is_at(page, path)));
                assert!(
                    paths.is_empty(),
                    "nobody has looked at {paths:?}: {pages:?}"
                );
            }
            "bound" => assert!(!sees_others, "{pages:?}"),
            _ => {}
        }
        judge_offers(reader, &walked["offered"]);
    }
}

/// What a reader may not do is absent, and what they may is there as for the administrator.
fn judge_offers(reader: &str, offered: &Value) {
    let role = match reader {
        "viewer" => Role::Viewer,
        "operator" => Role::Operator,
        _ => Role::Admin,
    };
    let may = |operation: &str| {
        let row = table().find(operation).unwrap();
        let is_beyond = reader == "bound" && row.gate == Gate::WholeHub;
        !is_beyond
            && row
                .required_scope()
                .is_none_or(|scope| role.scopes().contains(scope))
    };
    let own = offered[reader].as_object().unwrap();
    for (operation, page) in own {
        assert!(may(operation), "{page} offers {operation} to {reader}");
    }
    let all = offered["admin"].as_object().unwrap();
    assert!(all.len() > 40, "{all:?}");
    if reader == "operator" {
        let missing: Vec<_> = all
            .keys()
            .filter(|operation| may(operation) && !own.contains_key(*operation))
            .collect();
        assert!(missing.is_empty(), "nobody offers {missing:?} to {reader}");
    }
}
