//! Over HTTP: what belongs to an MCP session, and what to a request without one.

use hermes_config::Secret;
use hermes_serve::{HttpServeOptions, Principal, http};
use rmcp::transport::{
    StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
};
use tokio::net::TcpListener;

use super::*;

struct HttpBridge {
    url: String,
    stop: CancellationToken,
    _server: JoinSet<()>,
}

impl Drop for HttpBridge {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl HttpBridge {
    async fn new(bridge: Bridge) -> Self {
        bridge.open_log().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let router = http::router(
            move || bridge.new_connection(),
            HttpServeOptions::default(),
            &stop,
        );
        let router = http::with_bearer(router, &Secret::new("t".to_owned()), Principal::new("me"));
        let mut server = JoinSet::new();
        let end = stop.clone();
        server.spawn(async move { http::serve(listener, router, end).await.unwrap() });
        Self {
            url,
            stop,
            _server: server,
        }
    }

    async fn client(&self, era: ClientLifecycleMode) -> Client {
        let config =
            StreamableHttpClientTransportConfig::with_uri(self.url.clone()).auth_header("t");
        let transport = StreamableHttpClientTransport::from_config(config);
        let (sender, told) = mpsc::unbounded_channel();
        let listener = Listener {
            name: "test",
            notifications: sender,
        };
        let running = listener.serve_with_lifecycle(transport, era).await.unwrap();
        Client {
            running,
            notifications: told,
            _server: JoinSet::new(),
        }
    }
}

async fn polled(client: &Client, count: usize) -> Vec<String> {
    let page = client.poll_events(&json!({}), count).await;
    let events = page["events"].as_array().unwrap().iter();
    events
        .map(|event| event["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn events_begin_with_the_session_or_with_the_process() {
    let (place, store) = with_chat().await;
    let site = HttpBridge::new(place.bridge(BridgeOptions::default())).await;
    let early = site.client(ClientLifecycleMode::Initialize).await;
    store.append(&id(SESSION), &user("one")).await.unwrap();
    assert_eq!(polled(&early, 1).await, ["one"]);
    let late = site.client(ClientLifecycleMode::Initialize).await;
    store.append(&id(SESSION), &user("two")).await.unwrap();
    assert_eq!(polled(&late, 1).await, ["two"]);
    assert_eq!(polled(&early, 2).await, ["one", "two"]);
    let without = site.client(stateless()).await;
    assert_eq!(polled(&without, 2).await, ["one", "two"]);
}

#[tokio::test]
async fn a_wait_ends_with_an_event_in_both_eras() {
    let (place, store) = with_chat().await;
    let site = HttpBridge::new(place.bridge(BridgeOptions::default())).await;
    for era in [ClientLifecycleMode::Initialize, stateless()] {
        let client = site.client(era).await;
        let last = client.call_document("events_poll", json!({})).await["last_cursor"].clone();
        let wait = client.call_document(
            "events_wait",
            json!({"after_cursor": last, "timeout_ms": 30_000}),
        );
        let say = async {
            // Answered while the other one waits.
            client.running.list_all_tools().await.unwrap();
            store.append(&id(SESSION), &user("now")).await.unwrap();
        };
        let (event, ()) = tokio::join!(wait, say);
        assert_eq!(event["event"]["content"], "now", "{event}");
    }
}

#[tokio::test]
async fn a_watched_conversation_is_told_of_over_http() {
    let (place, store) = with_chat().await;
    let site = HttpBridge::new(place.bridge(BridgeOptions::default())).await;
    let mut client = site.client(ClientLifecycleMode::Initialize).await;
    let watch = rmcp::model::SubscribeRequestParams::new("hermes://conversations");
    #[allow(deprecated, reason = "the method of the older revisions")]
    client.running.subscribe(watch).await.unwrap();
    store.append(&id(SESSION), &user("hello")).await.unwrap();
    let Notification::Updated(uri) = client.next().await else {
        panic!("something else was told");
    };
    assert_eq!(uri, "hermes://conversations");
}
