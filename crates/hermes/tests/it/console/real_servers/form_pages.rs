//! Pages that no link leads to, and those of one person alone.

use std::fs;

use serde_json::{Value, json};

use super::{ConsoleSite, Visit, node};
use crate::harness::test_home::{TestHome, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_only_forms_and_refusals_lead_to_are_accessible_and_valid_too() {
    let Some(node) = node() else {
        return;
    };
    let site = ConsoleSite::start().await;
    let _server = site.add_everything().await;
    let tools = "/v1/tenants/acme/mcp-servers/everything/tools";
    let is_there = |list: &Value| list["tools"].to_string().contains("echo");
    site.hub.wait_for(tools, is_there).await;
    let token = site.token(json!({"name": "person", "role": "admin"})).await;
    let argument = json!({"base": site.hub.url, "token": token});
    let looked = tokio::task::spawn_blocking(move || {
        Visit::start(&node, "form_pages.mjs", &argument).read_line()
    });
    let looked = looked.await.unwrap();
    assert_eq!(looked["findings"], json!([]), "{looked:#}");
    assert_eq!(looked["pages"].as_array().unwrap().len(), 11, "{looked:#}");
}

#[test]
fn every_page_of_one_person_is_accessible_valid_and_calm_too() {
    let Some(node) = node() else {
        return;
    };
    let home = TestHome::fresh();
    let mut up = home.start(&["up", "--no-open"]);
    let line = up.wait_for("Hub: http://");
    let mut words = line.split_whitespace();
    let url = words.rfind(|word| word.starts_with("http://"));
    let url = url.unwrap().to_owned();
    let hub = |arguments: &[&str]| home.run(&[arguments, &["--hub", &url]].concat());
    wait_until("the home is a tenant", || {
        let shown = hub(&["tenant", "get", "main"]);
        shown.code == 0 && shown.stdout.contains("status: ready")
    });
    hub(&["tenant", "cron", "create", "main", "0 9 * * *", "Sum up"]).ok();
    let token = home.beside(".local/share/hermes-hub/admin.token");
    let token = fs::read_to_string(token).unwrap();
    let reader = json!({"name": "person", "token": token.trim()});
    let argument = json!({"base": url, "readers": [reader]});
    let walked = Visit::start(&node, "walk.mjs", &argument).read_line();
    assert_eq!(walked["findings"], json!([]), "{walked:#}");
    let pages = walked["visited"]["person"].as_array().unwrap();
    let pages: Vec<&str> = pages.iter().filter_map(Value::as_str).collect();
    for own in ["/tenants/main/mcp", "/tenants/main/cron"] {
        let is_there = pages.iter().any(|page| page.starts_with(own));
        assert!(is_there, "{own}: {pages:?}");
    }
    // What is about many is not there.
    assert!(!pages.contains(&"/nodes"), "{pages:?}");
}
