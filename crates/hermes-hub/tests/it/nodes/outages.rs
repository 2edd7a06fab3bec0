//! Nodes without their database or their object storage: they say so, refuse soon, and come back by themselves.

use std::{net::SocketAddr, time::Duration};

use hermes_hub::settings::ObjectSettings;
use hermes_testkit::{ChaosProxy, MotoKeys, MotoServer, NetworkFault, eventually_some};
use serde_json::{Value, json};

use super::cluster::{Cluster, Node, TIMEOUT};

const CONTENT: &str = "/v1/tenants/acme/shares/team/files/content";

/// Waits until a node answers with this status whether it is ready.
async fn readiness(node: &Node, status: u16) -> Value {
    let mut last = String::new();
    let said = eventually_some(TIMEOUT, async || {
        let said = node.site.get("/v1/readyz").await;
        last.clone_from(&said.text);
        (said.status == status).then(|| said.json())
    });
    said.await
        .unwrap_or_else(|| panic!("the readiness is not {status}: {last}"))
}

/// A node that reaches its database through a proxy.
async fn node_behind_proxy(cluster: &Cluster) -> (Node, ChaosProxy) {
    let server = ([127, 0, 0, 1], cluster.database.cluster().port());
    let proxy = ChaosProxy::start(SocketAddr::from(server));
    let (address, name) = (proxy.address(), cluster.database.name());
    let url = format!("postgres://hermes@{address}/{name}");
    (cluster.node_at("n1", &url).await, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_object_storage_is_not_ready_and_refuses_work_on_files() {
    let moto = MotoServer::start("hub", MotoKeys::Any);
    let proxy = ChaosProxy::start(moto.address());
    let mut cluster = Cluster::new().await;
    cluster.objects = Some(ObjectSettings {
        endpoint: Some(format!("http://{}", proxy.address())),
        region: Some("us-east-1".into()),
        allow_http: true,
        access_key_id: Some("test".into()),
        secret_access_key: Some(String::from("test").into()),
        ..ObjectSettings::at("s3://hub/nodes")
    });
    let node = cluster.node("n1").await;
    let group = json!({"id": "team", "displayName": "Team"});
    node.site.post("/v1/groups", &group).await.expect(201);
    let member = json!([{"id": "team", "access": "write"}]);
    node.site
        .tenant(json!({"id": "acme", "start": false, "groups": member}))
        .await;
    let write = async |name: &str| {
        let file = json!({"path": name, "content": "text"});
        node.site.put(CONTENT, &file).await
    };
    let read = async || node.site.get(&format!("{CONTENT}?path=a.md")).await;
    // Slow is not away.
    proxy.set(NetworkFault::Delay(Duration::from_millis(100)));
    write("a.md").await.expect(201);
    proxy.set(NetworkFault::None);
    readiness(&node, 200).await;

    proxy.set(NetworkFault::Cut);
    let said = readiness(&node, 503).await;
    assert_eq!(
        (&said["objects"], &said["database"]),
        (&json!(false), &json!(true))
    );
    for refused in [read().await, write("b.md").await] {
        assert_ne!(refused.header("retry-after"), "");
        assert_eq!(refused.expect(503)["reason"], "objects");
    }
    // What needs no file goes on.
    node.site.get("/v1/tenants/acme").await.expect(200);

    proxy.set(NetworkFault::None);
    let said = readiness(&node, 200).await;
    assert_eq!(said["objects"], true);
    assert_eq!(read().await.expect(200)["content"], "text");
    write("b.md").await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_database_is_not_ready_until_it_is_back() {
    let cluster = Cluster::new().await;
    let (node, proxy) = node_behind_proxy(&cluster).await;
    readiness(&node, 200).await;
    for fault in [NetworkFault::Cut, NetworkFault::BlackHole] {
        proxy.set(fault);
        let said = readiness(&node, 503).await;
        assert_eq!(
            (&said["objects"], &said["database"]),
            (&json!(true), &json!(false))
        );
        proxy.set(NetworkFault::None);
        proxy.cut_connections();
        readiness(&node, 200).await;
    }
}
