//! Search in the place of a long list of tools.

use hermes_agent::approval::Decision;
use hermes_config::{ToolSearchMode, ToolSearchSettings};
use hermes_testkit::Behaviour;
use serde_json::{Value, json};

use super::{ScriptedModel, Step, mcp::ConnectedTurn};

async fn many(count: usize, keys: Value) -> ConnectedTurn {
    let behaviour = Behaviour {
        generate_tools: count,
        ..Behaviour::new()
    };
    ConnectedTurn::new(behaviour, keys).await
}

async fn listed(connected: &mut ConnectedTurn) -> Vec<String> {
    let model = ScriptedModel::new([Step::Say("hello")]);
    connected.setup.run(&model).await.unwrap();
    model.asked()[0].tools.clone()
}

const THREE: [&str; 3] = ["tool_search", "tool_describe", "tool_call"];

fn with_search(
    mut connected: ConnectedTurn,
    mode: ToolSearchMode,
    context: Option<u32>,
) -> ConnectedTurn {
    let settings = ToolSearchSettings {
        mode,
        ..ToolSearchSettings::default()
    };
    let toolbox = connected.setup.toolbox.clone();
    connected.setup.toolbox = toolbox.with_search(&settings, context);
    connected
}

#[tokio::test]
async fn a_short_list_stays_and_a_long_one_gives_way() {
    let few = many(0, json!({})).await;
    let total = few.setup.toolbox.definitions().len();
    let mut few = with_search(few, ToolSearchMode::Auto, None);
    assert_eq!(listed(&mut few).await.len(), total);
    // The same tools are too many for a small context.
    let mut few = with_search(few, ToolSearchMode::Auto, Some(8_000));
    assert_eq!(listed(&mut few).await, THREE);
    let mut many = with_search(many(1_000, json!({})).await, ToolSearchMode::Auto, None);
    assert_eq!(listed(&mut many).await, THREE);
    let off = with_search(
        self::many(1_000, json!({})).await,
        ToolSearchMode::Off,
        None,
    );
    assert!(off.setup.toolbox.definitions().len() > 1_000);
}

#[tokio::test]
async fn tools_are_found_described_and_called() {
    let mut connected = with_search(many(50, json!({})).await, ToolSearchMode::On, None);
    let inner = json!({"a": 2, "b": 3});
    let results = connected
        .call_all(&[
            (
                "tool_search",
                json!({"query": "add two numbers", "limit": 1}),
            ),
            ("tool_describe", json!({"name": "mcp_box_add"})),
            (
                "tool_call",
                json!({"name": "mcp_box_add", "arguments": inner}),
            ),
            (
                "tool_call",
                json!({"name": "mcp_box_add", "arguments": inner.to_string()}),
            ),
        ])
        .await;
    let found: Value = serde_json::from_str(&results[0]).unwrap();
    assert_eq!(found["query"], "add two numbers");
    assert!(found["total_available"].as_u64().unwrap() > 50);
    assert_eq!(
        found["matches"],
        json!([{
            "name": "mcp_box_add", "source": "mcp", "source_name": "box", "description": "Adds two numbers.",
        }])
    );
    let described: Value = serde_json::from_str(&results[1]).unwrap();
    assert!(
        described["parameters"]["properties"]["a"].is_object(),
        "{described}"
    );
    for result in &results[2..] {
        assert!(result.contains("sum") && result.contains(":5"), "{result}");
    }
    // They are shown under their own names.
    let shown = connected.setup.surface.shown_calls();
    assert_eq!(
        shown.iter().filter(|call| *call == ">mcp_box_add").count(),
        2
    );
    assert!(!shown.contains(&">tool_call".to_owned()));
}

#[tokio::test]
async fn calls_that_make_no_sense_are_errors() {
    let mut connected = with_search(many(0, json!({})).await, ToolSearchMode::On, None);
    let results = connected
        .call_all(&[
            ("tool_call", json!({"arguments": {}})),
            ("tool_call", json!({"name": "tool_call", "arguments": {}})),
            (
                "tool_call",
                json!({"name": "mcp_box_nothing", "arguments": {}}),
            ),
            ("tool_describe", json!({"name": "mcp_box_nothing"})),
            ("tool_search", json!({"query": " "})),
        ])
        .await;
    for result in &results {
        assert!(result.starts_with("{\"error\""), "{result}");
    }
}

#[tokio::test]
async fn filters_and_approvals_hold_for_calls_by_search() {
    let keys = json!({"tools": {"exclude": ["add"], "approve": ["echo"]}});
    let mut connected = with_search(many(0, keys).await, ToolSearchMode::On, None);
    let reason = Some("no".to_owned());
    connected
        .setup
        .session
        .person
        .set_decision(Decision::Denied { reason });
    let results = connected
        .call_all(&[
            (
                "tool_call",
                json!({"name": "mcp_box_add", "arguments": {"a": 1, "b": 2}}),
            ),
            (
                "tool_call",
                json!({"name": "mcp_box_echo", "arguments": {"text": "x"}}),
            ),
        ])
        .await;
    assert!(results[0].contains("Unknown tool"), "{}", results[0]);
    assert!(results[1].contains("not approved"), "{}", results[1]);
    assert_eq!(connected.setup.session.person.asked().len(), 1);
}

/// Looking up a tool must not depend on how many there are.
#[tokio::test]
async fn a_thousand_tools_do_not_slow_a_lookup_down() {
    let connected = many(1_000, json!({})).await;
    let began = std::time::Instant::now();
    for _ in 0..1_000 {
        assert!(connected.setup.toolbox.find("mcp_box_tool_999").is_some());
    }
    // A few milliseconds in fact; describing a thousand tools for each lookup took many seconds.
    assert!(began.elapsed() < std::time::Duration::from_secs(2));
}
