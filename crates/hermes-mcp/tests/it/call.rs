//! Tool calls from the registered name to the JSON that the model gets.

mod batch;
mod interrupt;
mod outcome;
mod retry;
mod timeout;
mod utilities;

use hermes_testkit::{Behaviour, Tool};
use serde_json::json;

use crate::setup::{Setup, stdio};

// What becomes of a model's arguments on the way to the server.

#[tokio::test]
async fn arguments_are_coerced_where_the_schema_is_plain_and_sent_as_they_are_elsewhere() {
    let tool = Tool::named("show")
        .with(
            "inputSchema",
            json!({
                "type": "object",
                "properties": {
                    "count": { "type": "integer" },
                    "ratio": { "type": "number" },
                    "flag": { "type": "boolean" },
                    "tags": { "type": "array", "items": { "type": "string" } },
                    "list": { "type": "array", "items": { "type": "integer" } },
                    "options": { "type": "object" },
                    "perhaps": { "type": ["integer", "null"] },
                    "text": { "type": "string" },
                    "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
                },
            }),
        )
        .acting_as("protocol");
    // `protocol` would not show them, so the arguments are read from the server's record.
    let home = hermes_testkit::TemporaryHome::new();
    let record = home.path().join("record.jsonl");
    let behaviour = Behaviour::new().tools([tool]).record(&record);
    let setup = Setup::in_home(home, json!({ "s": stdio(&behaviour) })).await;
    let given = json!({
        "count": "42", "ratio": "0.5", "flag": "true", "tags": "one", "list": "[1, 2]",
        "options": "{\"a\": 1}", "perhaps": "null", "text": "42", "either": "42", "unlisted": "42",
    });
    setup.call("mcp_s_show", given).await;
    let sent = hermes_testkit::recorded(&record, "tools/call");
    assert_eq!(
        sent[0]["params"]["arguments"],
        json!({
            "count": 42, "ratio": 0.5, "flag": true, "tags": ["one"], "list": [1, 2],
            "options": { "a": 1 }, "perhaps": null, "text": "42", "either": "42", "unlisted": "42",
        })
    );
}

#[tokio::test]
async fn what_cannot_be_coerced_is_sent_as_it_is() {
    let setup = Setup::start(json!({ "s": stdio(&Behaviour::new()) })).await;
    let told = setup
        .call("mcp_s_add", json!({ "a": "2", "b": "40" }))
        .await;
    assert_eq!(told, json!({ "result": "{\"sum\":42}" }));
    let told = setup
        .call("mcp_s_add", json!({ "a": "two", "b": "40" }))
        .await;
    assert_eq!(told, json!({ "result": "{\"sum\":40}" }));
}
