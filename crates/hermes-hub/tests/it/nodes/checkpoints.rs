//! Checkpoints of homes whose node loses the lease meanwhile.

use std::time::{Duration, Instant};

use hermes_hub::settings::ObjectSettings;
use hermes_testkit::{ChaosProxy, MotoKeys, MotoServer, NetworkFault, eventually_some};
use serde_json::json;

use super::cluster::{Cluster, TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_ends_when_the_lease_is_lost_in_the_middle_of_it() {
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let proxy = ChaosProxy::start(moto.address());
    let mut cluster = Cluster::new().await;
    cluster.lease_seconds = 6;
    cluster.objects = Some(ObjectSettings {
        endpoint: Some(format!("http://{}", proxy.address())),
        region: Some("us-east-1".into()),
        allow_http: true,
        access_key_id: Some("test".into()),
        secret_access_key: Some(String::from("test").into()),
        ..ObjectSettings::at("s3://hub/nodes")
    });
    let node = cluster.node("n1").await;
    let tenant = json!({"id": "acme", "displayName": "Acme", "start": false});
    node.site.tenant(tenant).await;
    // The bucket takes everything and answers nothing: by itself, the checkpoint would wait for minutes.
    proxy.set(NetworkFault::BlackHole);
    let job = json!({"schedule": "every 1h", "prompt": "x"});
    let request = node
        .site
        .request(
            &node.site.admin,
            reqwest::Method::POST,
            "/v1/tenants/acme/agent-cron",
        )
        .header("content-type", "application/json")
        .body(job.to_string());
    let connections = proxy.connections();
    let change = async { request.send().await.unwrap().status().as_u16() };
    let lose = async {
        let begun = eventually_some(TIMEOUT, async || {
            (proxy.connections() > connections).then_some(())
        });
        begun.await.expect("no checkpoint is made");
        let taken = "UPDATE leases SET node = 'n2', epoch = epoch + 1, expires_at = clock_timestamp() + INTERVAL '1 hour'";
        cluster.database.run_sql(taken);
        Instant::now()
    };
    let (status, lost_at) = tokio::join!(tokio::time::timeout(TIMEOUT * 2, change), lose);
    let status = status.expect("the change is not answered");
    assert!(status >= 400, "{status}");
    let took = lost_at.elapsed();
    assert!(took < Duration::from_secs(50), "it ended after {took:?}");
    assert_eq!(node.holder("acme").await.as_deref(), Some("n2"));
}
