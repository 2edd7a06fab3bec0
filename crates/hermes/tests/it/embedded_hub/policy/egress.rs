//! `egress`: a page at `localhost`, and the tenant's model at `127.0.0.1`.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_not_allowed_is_not_reached() {
    let hub = RealHub::start();
    let page = ModelServer::start(ModelScript::echo().with_models(["planted-words"]));
    let address = format!("http://localhost:{}/v1/models", page.port());
    let model = tenant_calling(&hub, "web_extract", &json!({"urls": [address]})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("planted-words"), "{result}");
    let visits = page.paths().len();

    put(&hub, json!({"egress": {"allowHosts": ["127.0.0.1"]}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("egress.allowHosts"), "{result}");
    assert!(!result.contains("planted-words"), "{result}");
    assert_eq!(page.paths().len(), visits);

    let both = json!(["127.0.0.1", "local*"]);
    put(&hub, json!({"egress": {"allowHosts": both}})).await;
    let result = result_of_call(&hub, &model).await;
    assert!(result.contains("planted-words"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_not_reached_where_they_are_denied() {
    let hub = RealHub::start();
    let model = hub.tenant("acme", json!({}), ModelScript::echo()).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
    let before = model.requests().len();
    put(&hub, json!({"egress": {"denyPrivateNetworks": true}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["status"], "failed", "{run}");
    assert!(
        run["error"].to_string().contains("denyPrivateNetworks"),
        "{run}"
    );
    assert_eq!(model.requests().len(), before);
    put(&hub, json!({"egress": {"denyPrivateNetworks": false}})).await;
    let run = hub.run("acme", "hello").await;
    assert_eq!(run["output"], "hello", "{run}");
}
