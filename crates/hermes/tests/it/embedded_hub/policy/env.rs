//! `env`: variables that the Hub keeps for a tenant, and those of its own `.env`.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_variable_is_not_there_wherever_it_comes_from() {
    let hub = RealHub::start();
    let command = json!({"command": "echo kept=$KEPT_ONE other=$OTHER_ONE"});
    let model = tenant_calling(&hub, "terminal", &command).await;
    for name in ["KEPT_ONE", "OTHER_ONE"] {
        let path = format!("/v1/tenants/acme/env/{name}");
        hub.request(Method::PUT, &path, &json!({"value": "seen"}))
            .await
            .expect(204);
    }
    // With a token of a platform there is a tool for messages.
    let own = hub.tenant_home("acme").join(".env");
    fs::write(own, "TELEGRAM_BOT_TOKEN=1:a\n").unwrap();
    for (policy, shown, has_token) in [
        (json!({}), "kept=seen other=seen", true),
        (
            json!({"env": {"deny": ["KEPT_*"]}}),
            "kept= other=seen",
            true,
        ),
        (
            json!({"env": {"deny": ["TELEGRAM_BOT_TOKEN"]}}),
            "kept=seen other=seen",
            false,
        ),
        (json!({}), "kept=seen other=seen", true),
    ] {
        put(&hub, policy.clone()).await;
        let result = result_of_call(&hub, &model).await;
        assert!(result.contains(shown), "{policy}: {result}");
        let offered = offered_tools(&model);
        let has_messages = offered.contains(&"send_message".to_owned());
        assert_eq!(has_messages, has_token, "{policy}: {offered:?}");
    }
}
