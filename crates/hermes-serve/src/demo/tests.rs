use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest, ContentBlock,
        GetPromptRequestParams, ProgressNotificationParam, ProtocolVersion,
        ReadResourceRequestParams, Request, ResourceContents,
    },
    service::{NotificationContext, PeerRequestOptions, RunningService},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};

use super::Demo;

/// A client that remembers the progress it is told of.
struct Listener {
    progress: mpsc::UnboundedSender<ProgressNotificationParam>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::default().with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.send(params).unwrap();
    }
}

struct Session {
    client: RunningService<RoleClient, Listener>,
    progress: mpsc::UnboundedReceiver<ProgressNotificationParam>,
    _server: JoinSet<()>,
}

impl Session {
    async fn open(lifecycle: ClientLifecycleMode) -> Self {
        let (client_end, server_end) = tokio::io::duplex(64 * 1024);
        let server = serve(server_end);
        let (sender, progress) = mpsc::unbounded_channel();
        let client = Listener { progress: sender }
            .serve_with_lifecycle(client_end, lifecycle)
            .await
            .unwrap();
        Self {
            client,
            progress,
            _server: server,
        }
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let params =
            CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
        self.client.call_tool(params).await.unwrap()
    }
}

fn serve(end: DuplexStream) -> JoinSet<()> {
    let mut server = JoinSet::new();
    server.spawn(async move {
        let running = Demo.serve(end).await.unwrap();
        running.waiting().await.unwrap();
    });
    server
}

fn stateless() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    }
}

fn text_of(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

async fn check_everything_offered(session: &mut Session) {
    let peer: &Peer<RoleClient> = session.client.peer();
    let info = peer.peer_info().unwrap();
    let server = serde_json::to_value(&*info).unwrap().to_string();
    assert!(server.contains("hermes-demo"), "{server}");
    assert!(info.instructions.as_deref().unwrap().contains("`count`"));

    let tools = peer.list_all_tools().await.unwrap();
    let names: BTreeSet<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(
        names,
        BTreeSet::from(["add", "count", "echo", "now", "picture"])
    );
    for tool in &tools {
        assert!(
            tool.description
                .as_ref()
                .is_some_and(|text| text.len() > 20)
        );
        assert_eq!(
            tool.annotations.as_ref().unwrap().read_only_hint,
            Some(true)
        );
        let structured = ["add", "now"].contains(&tool.name.as_ref());
        assert_eq!(tool.output_schema.is_some(), structured, "{}", tool.name);
        let idempotent = tool.annotations.as_ref().unwrap().idempotent_hint;
        assert_eq!(
            idempotent,
            (tool.name != "now").then_some(true),
            "{}",
            tool.name
        );
    }

    let resources = peer.list_all_resources().await.unwrap();
    assert_eq!(resources[0].uri, "hermes://demo/welcome");
    let templates = peer.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "hermes://demo/greeting/{name}");
    for (uri, start) in [
        ("hermes://demo/welcome", "Welcome to Hermes."),
        (
            "hermes://demo/greeting/Ada%20Lovelace",
            "Hello, Ada Lovelace!",
        ),
    ] {
        let read = peer
            .read_resource(ReadResourceRequestParams::new(uri))
            .await
            .unwrap();
        let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
            panic!("{uri} is no text");
        };
        assert!(text.starts_with(start), "{text}");
    }

    let prompts = peer.list_all_prompts().await.unwrap();
    assert_eq!(prompts[0].name, "introduce");
    assert_eq!(
        prompts[0].arguments.as_ref().unwrap()[0].required,
        Some(true)
    );
    let arguments = json!({"name": "Ada"}).as_object().unwrap().clone();
    let prompt = peer
        .get_prompt(GetPromptRequestParams::new("introduce").with_arguments(arguments))
        .await
        .unwrap();
    assert!(
        serde_json::to_string(&prompt.messages)
            .unwrap()
            .contains("Introduce yourself to Ada")
    );
}

async fn check_every_tool(session: &mut Session) {
    let echo = session.call("echo", json!({"text": "héllo"})).await;
    assert_eq!(text_of(&echo), "héllo");

    let sum = session.call("add", json!({"a": 40, "b": 2})).await;
    assert_eq!(sum.structured_content, Some(json!({"sum": 42})));

    let now = session
        .call("now", json!({}))
        .await
        .structured_content
        .unwrap();
    assert!(now["utc"].as_str().unwrap().ends_with('Z'), "{now}");
    assert!(now["unix_seconds"].as_u64().unwrap() > 1_700_000_000);

    let picture = session.call("picture", json!({})).await;
    let ContentBlock::Image(image) = &picture.content[1] else {
        panic!("no image");
    };
    assert_eq!(image.mime_type, "image/png");
    assert!(
        BASE64_STANDARD
            .decode(&image.data)
            .unwrap()
            .starts_with(b"\x89PNG")
    );

    let count = session.call("count", json!({"steps": 3})).await;
    assert_eq!(text_of(&count), "counted to 3");
    let mut received = Vec::new();
    for _ in 0..3 {
        let progress = session.progress.recv().await.unwrap();
        received.push((progress.progress, progress.total));
    }
    assert_eq!(
        received,
        [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]
    );
}

#[tokio::test]
async fn a_client_of_the_initialize_era_gets_everything() {
    let mut session = Session::open(ClientLifecycleMode::Initialize).await;
    assert_eq!(
        session.client.peer_info().unwrap().protocol_version,
        ProtocolVersion::V_2025_11_25
    );
    check_everything_offered(&mut session).await;
    check_every_tool(&mut session).await;
}

#[tokio::test]
async fn a_stateless_client_gets_everything() {
    let mut session = Session::open(stateless()).await;
    assert_eq!(
        session.client.peer_info().unwrap().protocol_version,
        ProtocolVersion::V_2026_07_28
    );
    check_everything_offered(&mut session).await;
    check_every_tool(&mut session).await;
}

#[tokio::test]
async fn a_cancelled_count_stops_counting() {
    for lifecycle in [ClientLifecycleMode::Initialize, stateless()] {
        let mut session = Session::open(lifecycle).await;
        let arguments = json!({"steps": 600}).as_object().unwrap().clone();
        let params = CallToolRequestParams::new("count").with_arguments(arguments);
        let handle = session
            .client
            .send_cancellable_request(
                ClientRequest::CallToolRequest(Request::new(params)),
                PeerRequestOptions::no_options(),
            )
            .await
            .unwrap();
        session.progress.recv().await.unwrap();
        handle.cancel(Some("enough".into())).await.unwrap();

        // What was on its way may still arrive; then there is silence, long before a minute of counting is over.
        let silence = async {
            let is_silent = Duration::from_millis(500);
            while timeout(is_silent, session.progress.recv()).await.is_ok() {}
        };
        timeout(Duration::from_secs(30), silence).await.unwrap();
        assert_eq!(
            text_of(&session.call("echo", json!({"text": "still here"})).await),
            "still here"
        );
    }
}

#[tokio::test]
async fn what_a_tool_cannot_do_is_a_tool_error() {
    let session = Session::open(stateless()).await;
    let sum = session.call("add", json!({"a": i64::MAX, "b": 1})).await;
    assert_eq!(sum.is_error, Some(true));
    let count = session.call("count", json!({"steps": 601})).await;
    assert_eq!(count.is_error, Some(true));
    assert!(text_of(&count).contains("from 1 to 600"));
}

#[tokio::test]
async fn an_unknown_resource_is_refused_by_name() {
    let session = Session::open(stateless()).await;
    for uri in [
        "hermes://demo/other",
        "hermes://demo/greeting/",
        "hermes://demo/greeting/%zz",
    ] {
        let error = session
            .client
            .read_resource(ReadResourceRequestParams::new(uri))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(uri), "{error}");
    }
}

/// The wire itself, without rmcp's client: one JSON message a line, short ones, and nothing else.
#[tokio::test]
async fn every_line_is_one_short_message() {
    let (client_end, server_end) = tokio::io::duplex(64 * 1024);
    let _server = serve(server_end);
    let (reader, mut writer) = tokio::io::split(client_end);
    let mut lines = BufReader::new(reader).lines();
    for (id, method, params) in [
        (
            1,
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        ),
        (2, "tools/list", json!({})),
        (3, "tools/call", json!({"name": "picture", "arguments": {}})),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writer
            .write_all(format!("{request}\n").as_bytes())
            .await
            .unwrap();
        let line = lines.next_line().await.unwrap().unwrap();
        assert!(line.len() < 4096, "{method}: {} bytes", line.len());
        let reply: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(reply["id"], id);
        assert!(reply["result"].is_object(), "{reply}");
        if id == 1 {
            assert_eq!(reply["result"]["protocolVersion"], "2025-06-18");
            let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
            writer.write_all(ready.as_bytes()).await.unwrap();
        }
    }
}
