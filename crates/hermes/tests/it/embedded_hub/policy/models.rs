//! `models`: the tenant's own one is `m`.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_allowed_is_not_asked() {
    let hub = RealHub::start();
    let model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
    let before = model.requests().len();
    for allowed in [json!([]), json!(["other-*"])] {
        put(&hub, json!({"models": {"allow": allowed}})).await;
        let run = hub.run("acme", "hello").await;
        assert_eq!(run["status"], "failed", "{run}");
        assert_eq!(run["error"]["code"], "no_model", "{run}");
        assert_eq!(model.requests().len(), before);
    }
    put(&hub, json!({"models": {"allow": ["m"]}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
}
