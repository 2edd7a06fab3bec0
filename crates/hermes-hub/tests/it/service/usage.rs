//! What runs used, by tenant, model and day, with prices.

use std::collections::BTreeMap;

use hermes_hub::settings::ModelPrice;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

async fn used_hub() -> TestHub {
    let price = ModelPrice {
        input: 1_000_000.0,
        output: 2_000_000.0,
        cached: 500_000.0,
    };
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |settings, _| {
        settings.usage_prices = BTreeMap::from([("scripted".to_owned(), price)]);
    })
    .await;
    for tenant in ["a", "b"] {
        site.tenant(json!({"id": tenant})).await;
        let path = format!("/v1/tenants/{tenant}/runs");
        let run = site.post(&path, &json!({"input": "tool say=1 tool"})).await;
        let run = run.expect(202)["runId"].as_str().unwrap().to_owned();
        site.wait_until(&format!("{path}/{run}"), |run| run["status"] == "completed")
            .await;
    }
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_summed_up_with_its_cost_and_shown_as_csv_too() {
    let site = used_hub().await;
    let report = site.get("/v1/usage?by=tenant").await.expect(200);
    let row = json!({"runs": 1, "toolCalls": 2, "inputTokens": 1, "outputTokens": 2, "cachedTokens": 1, "cost": 4.5});
    let mut a = row.clone();
    a["key"] = "a".into();
    assert_eq!(report["usage"][0], a, "{report}");
    assert_eq!(report["total"]["runs"], 2);
    assert_eq!(report["total"]["cost"], 9.0);
    let models = site.get("/v1/usage?by=model").await.expect(200);
    assert_eq!(models["usage"].as_array().unwrap().len(), 1);
    assert_eq!(models["usage"][0]["key"], "scripted");
    let days = site.get("/v1/usage?by=day").await.expect(200);
    let last = &report["to"];
    assert!(days["usage"][0]["key"].as_str() <= last.as_str(), "{days}");
    let csv = site.get("/v1/usage?by=tenant&format=csv").await;
    assert!(csv.header("content-type").starts_with("text/csv"));
    let lines: Vec<_> = csv.text.lines().collect();
    assert_eq!(
        lines,
        [
            "tenant,runs,toolCalls,inputTokens,outputTokens,cachedTokens,cost",
            "a,1,2,1,2,1,4.5",
            "b,1,2,1,2,1,4.5"
        ]
    );
    for (accept, is_csv) in [
        ("text/csv", true),
        ("Text/CSV;q=0.9, application/json;q=0.5", true),
        ("text/csv;q=0", false),
        ("application/json, text/csv;q=0.5", false),
        ("*/*", false),
    ] {
        let request = site.request(&site.admin, Method::GET, "/v1/usage");
        let answer = site.send(request.header("accept", accept)).await;
        let kind = answer.header("content-type");
        assert_eq!(kind.starts_with("text/csv"), is_csv, "{accept}: {kind}");
    }
    let request = site.request(&site.admin, Method::GET, "/v1/usage?format=json");
    let asked = site.send(request.header("accept", "text/csv")).await;
    assert!(asked.header("content-type").starts_with("application/json"));
    let nothing = site.get("/v1/usage?from=2020-01-01&to=2020-01-31").await;
    assert_eq!(nothing.expect(200)["usage"], json!([]));
    for wrong in ["from=yesterday", "from=2026-02-02&to=2026-02-01", "by=hour"] {
        let refused = site.get(&format!("/v1/usage?{wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_some_tenants_sees_their_usage_only() {
    let site = used_hub().await;
    let bound = json!({"name": "bound", "role": "viewer", "tenants": ["b"]});
    let bound = site.token(bound).await;
    let request = site.request(&bound, Method::GET, "/v1/usage");
    let report = site.send(request).await.expect(200);
    let keys = report["usage"].as_array().unwrap().iter();
    let keys: Vec<&Value> = keys.map(|row| &row["key"]).collect();
    assert_eq!(keys, ["b"]);
    assert_eq!(report["total"]["runs"], 1);
    for (token, tenant, runs) in [(&bound, "b", 1), (&bound, "a", 0), (&site.admin, "a", 1)] {
        let path = format!("/v1/usage?tenant={tenant}");
        let report = site.send(site.request(token, Method::GET, &path)).await;
        assert_eq!(report.expect(200)["total"]["runs"], runs, "{tenant}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_used_counts_though_it_failed_was_stopped_or_began_anew() {
    let site = TestHub::with_runtime(ScriptedRuntime::new(), |_, _| {}).await;
    for (tenant, script, status, times) in [
        ("failed", "tool fail", "failed", 1),
        ("stopped", "wait", "cancelled", 1),
        // Cut off before it called a tool, it is done once more.
        ("repeated", "say=1 die", "completed", 2),
        ("lost", "tool die", "failed", 1),
    ] {
        site.tenant(json!({"id": tenant})).await;
        let runs = format!("/v1/tenants/{tenant}/runs");
        let run = site.post(&runs, &json!({"input": script})).await;
        let run = run.expect(202)["runId"].as_str().unwrap().to_owned();
        let run = format!("{runs}/{run}");
        if status == "cancelled" {
            site.wait_until(&run, |run| run["status"] == "running")
                .await;
            site.post(&format!("{run}/stop"), &json!({}))
                .await
                .expect(202);
        }
        let ended = site.wait_until(&run, |run| run["status"] == status).await;
        let tokens = json!({"inputTokens": times, "outputTokens": 2 * times, "totalTokens": 3 * times,
            "cachedTokens": times});
        assert_eq!(ended["usage"], tokens, "{script}: {ended}");
        assert_eq!(ended["model"], "scripted", "{script}: {ended}");
        let report = site.get(&format!("/v1/usage?tenant={tenant}")).await;
        let total = report.expect(200)["total"].clone();
        assert_eq!(total["outputTokens"], 2 * times, "{script}: {total}");
        let limits = site.get(&format!("/v1/tenants/{tenant}/limits")).await;
        assert_eq!(limits.expect(200)["tokensToday"], 3 * times, "{script}");
    }
}
