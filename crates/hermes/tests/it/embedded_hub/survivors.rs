//! What is left of a tenant after its Hub was killed: nothing, its MCP servers included.

use std::{fs, time::Duration};

use hermes_testkit::model::ModelScript;
use reqwest::Method;
use serde_json::json;

use super::real_hub::RealHub;
use crate::harness::test_home::{assert_gone, wait_until};

/// Processes whose command line holds a text, and their children.
fn processes(mark: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let marked = pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark)
    });
    let with_children = |pid: u32| {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children: Vec<u32> = children
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .collect();
        std::iter::once(pid).chain(children)
    };
    marked.flat_map(with_children).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_mcp_server_of_a_tenant_survives_a_killed_hub() {
    let hub = RealHub::start();
    let _model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let mark = format!("survivor-{}", std::process::id());
    let config = hub.tenant_home("acme").join("config.yaml");
    let program = env!("CARGO_BIN_EXE_hermes");
    let server = format!(
        "mcp_servers:\n  own: {{command: sh, args: [-c, '{program} mcp demo; : {mark}']}}\n"
    );
    fs::write(&config, fs::read_to_string(&config).unwrap() + &server).unwrap();
    let start = "/v1/tenants/acme/agent/start";
    hub.request(Method::POST, start, &json!({}))
        .await
        .expect(202);
    // The shell and the server in it.
    wait_until("the server runs", || processes(&mark).len() >= 2);
    let agent = hub.get("/v1/tenants/acme/agent").await;
    let mut all = processes(&mark);
    all.push(u32::try_from(agent["pid"].as_u64().unwrap()).unwrap());
    hub.kill();
    assert_gone(&all, Duration::from_secs(20));
    assert_eq!(processes(&mark), Vec::<u32>::new());
    hub.into_home();
}
