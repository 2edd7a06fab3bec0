//! `features`: MCP servers and messages.

use super::*;

const SUM: &str = "mcp_own_add";

fn has(offered: &[String], name: &str) -> bool {
    offered.iter().any(|tool| tool == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_feature_its_tools_are_neither_offered_nor_run() {
    let hub = RealHub::start();
    let model = tenant_calling(&hub, SUM, &json!({"a": 40, "b": 2})).await;
    let home = hub.tenant_home("acme");
    let program = env!("CARGO_BIN_EXE_hermes");
    let config = fs::read_to_string(home.join("config.yaml")).unwrap();
    let server = format!("mcp_servers:\n  own: {{command: '{program}', args: [mcp, demo]}}\n");
    fs::write(home.join("config.yaml"), config + &server).unwrap();
    fs::write(home.join(".env"), "TELEGRAM_BOT_TOKEN=1:a\n").unwrap();

    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("42"), "{result}");
    let offered = offered_tools(&model);
    assert!(has(&offered, SUM), "{offered:?}");
    assert!(has(&offered, "send_message"), "{offered:?}");

    put(&hub, json!({"features": {"enabled": ["mcp"]}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("42"), "{result}");
    assert!(!has(&offered_tools(&model), "send_message"));

    put(&hub, json!({"features": {"enabled": ["messaging"]}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(!result.contains("42"), "{result}");
    let offered = offered_tools(&model);
    assert!(!has(&offered, SUM), "{offered:?}");
    assert!(has(&offered, "send_message"), "{offered:?}");

    put(&hub, json!({"features": {"enabled": []}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(!result.contains("42"), "{result}");
    let offered = offered_tools(&model);
    assert!(!has(&offered, SUM), "{offered:?}");
    assert!(!has(&offered, "send_message"), "{offered:?}");
    // What is not optional stays.
    assert!(has(&offered, "read_file"), "{offered:?}");
}
