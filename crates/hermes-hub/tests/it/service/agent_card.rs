//! The card of a tenant's agent.

use serde_json::json;

use crate::{tenant_fixture::skill_head, test_hub::TestHub};

const OWN: &str = "/v1/tenants/tenant_123";

#[tokio::test]
async fn a_card_names_the_agent_where_it_is_reached_and_the_skills_that_are_on() {
    let site = TestHub::new().await.with_examples().await;
    for skill in ["review", "hidden"] {
        let files = json!({"files": [skill_head(skill)]});
        site.put(&format!("{OWN}/skills/{skill}"), &files)
            .await
            .expect(201);
    }
    site.put(
        &format!("{OWN}/skills/hidden/state"),
        &json!({"enabled": false}),
    )
    .await
    .expect(200);
    let card = site.get(&format!("{OWN}/agent-card")).await.expect(200);
    let tenant = site.get(OWN).await.expect(200);
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(card["name"], tenant["displayName"]);
    let url = card["url"].as_str().unwrap();
    assert!(url.starts_with("http") && url.ends_with("/v1/tenants/tenant_123/runs"));
    assert_eq!(card["security"], json!([{"bearer": []}]));
    let skills = card["skills"].as_array().unwrap();
    let has = |name: &str| skills.iter().any(|skill| skill["id"] == name);
    assert!(has("review") && !has("hidden"), "{skills:?}");
}

#[tokio::test]
async fn there_is_no_card_without_the_feature() {
    let site = TestHub::new().await.with_examples().await;
    let policy = json!({"features": {"enabled": ["mcp"]}});
    site.put("/v1/agent-policy", &policy).await.expect(200);
    let missing = site.get(&format!("{OWN}/agent-card")).await.expect(404);
    assert!(missing["message"].as_str().unwrap().contains("a2a"));
}
