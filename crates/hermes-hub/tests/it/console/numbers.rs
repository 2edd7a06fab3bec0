//! Numbers on pages, as the reader's language writes them.

use serde_json::json;

use super::{ConsoleBrowser, runs::start_run};
use crate::{agent_harness::ScriptedRuntime, hub::lifecycle::run_sql, test_hub::TestHub};

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_written_as_the_language_of_the_reader_does() {
    let hub = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    hub.tenant(json!({"id": "acme"})).await;
    let run = start_run(&hub, "acme", "say=1").await;
    let path = format!("/v1/tenants/acme/runs/{run}");
    hub.wait_until(&path, |run| run["status"] == "completed")
        .await;
    let limits = json!({"runsPerDay": 12_345, "tokensPerDay": 7_654_321});
    hub.patch("/v1/tenants/acme/limits", &limits)
        .await
        .expect(200);
    let today = match hub.database() {
        Some(_) => "CAST(extract(epoch FROM now()) AS BIGINT) / 86400",
        None => "unixepoch() / 86400",
    };
    let used = format!(
        "INSERT INTO usage_days (day, tenant, model, runs, tool_calls, input_tokens, output_tokens, cached_tokens)
         VALUES ({today}, 'acme', 'm', 4321, 5432, 6543, 7654, 0)"
    );
    run_sql(&hub, &used).await;
    let english = ConsoleBrowser::as_admin(&hub).await;
    let german = ConsoleBrowser::as_admin(&hub).await.speaking("de");
    for (address, numbers) in [
        ("/tenants/acme/limits", &["12,345", "7,654,321"][..]),
        ("/tenants/acme", &["12,345", "7,654,321", "5,432"]),
        ("/usage?by=model", &["4,321", "6,543"]),
    ] {
        let english = english.get(address).await.expect_status(200);
        let german = german.get(address).await.expect_status(200);
        for number in numbers {
            english.assert_shows(number);
            german.assert_shows(&number.replace(',', "."));
            german.assert_lacks(number);
        }
    }
    let address = format!("/tenants/acme/runs/{run}");
    let german = german.get(&address).await.expect_status(200);
    let (_, took) = german.text.split_once("<dt>Dauer</dt><dd>").unwrap();
    let (took, _) = took.split_once("</dd>").unwrap();
    // `0,12 s`, or minutes on a machine under load.
    assert!(took.contains(',') || took.contains("min"), "{took}");
    assert!(!took.contains('.'), "{took}");
}
