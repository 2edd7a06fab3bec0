use std::sync::Arc;

use hermes_config::{Redactor, ServerName, Variables};
use rmcp::{RoleClient, service::RunningService};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::{broadcast, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    connection::{
        connect::client_config,
        counters::Counters,
        era::HandshakeMode,
        handshake,
        handshake::ProbeTimeout,
        session::{SessionActivity, SessionHandler},
    },
    server_request::{NoHandler, OfferedCapabilities},
    transport::{boxed::BoxedTransport, stdio::LineTransport},
};

/// How a server takes a ping.
#[derive(Clone, Copy)]
enum Ping {
    Answered,
    Unknown,
    Ignored,
}

/// A legacy server in memory, so that the clock can be paused: it reports the methods it hears.
async fn serve(wire: DuplexStream, ping: Ping, received: mpsc::UnboundedSender<String>) {
    let (reader, mut writer) = tokio::io::split(wire);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let _ = received.send(method.to_owned());
        let outcome = match (method, ping) {
            ("initialize", _) => json!({ "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "memory", "version": "1" },
            } }),
            ("tools/list", _) => json!({ "result": { "tools": [] } }),
            ("ping", Ping::Answered) => json!({ "result": {} }),
            ("ping", Ping::Unknown) => json!({ "error": { "code": -32601, "message": "no" } }),
            _ => continue,
        };
        let mut answer = json!({ "jsonrpc": "2.0", "id": message["id"] });
        let (key, value) = outcome.as_object().unwrap().iter().next().unwrap();
        answer[key] = value.clone();
        writer
            .write_all(format!("{answer}\n").as_bytes())
            .await
            .unwrap();
    }
}

fn keepalive(session: &Arc<McpSession>) -> Keepalive {
    let template = json!({ "command": "memory", "keepalive_interval": 5 });
    let none = Variables::from_pairs::<String, String>([]);
    let (entry, _) = hermes_config::ServerEntry::parse("memory", template, &none);
    Keepalive::new(&entry.server.unwrap(), session)
}

/// A session with a server in memory, and what keeps it alive.
struct Quiet {
    session: Arc<McpSession>,
    keepalive: Keepalive,
    received: mpsc::UnboundedReceiver<String>,
    _service: RunningService<RoleClient, SessionHandler>,
    _server: JoinSet<()>,
}

impl Quiet {
    async fn new(ping: Ping) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (sender, mut received) = mpsc::unbounded_channel();
        let mut server = JoinSet::new();
        server.spawn(serve(theirs, ping, sender));
        let name = ServerName::new("memory");
        let (resource_updates, _) = broadcast::channel(1);
        let handler = SessionHandler {
            config: client_config(OfferedCapabilities::default()),
            activity: Arc::new(SessionActivity::new(name.clone(), resource_updates)),
            request_handler: Arc::new(NoHandler),
            counters: Arc::new(Counters::default()),
            redactor: Arc::new(Redactor::default()),
            elicitation_timeout: Duration::from_secs(1),
        };
        let (reader, writer) = tokio::io::split(ours);
        let transport = BoxedTransport::new(LineTransport::new(reader, writer));
        let opening = HandshakeMode::Initialize;
        let opened =
            handshake::open_session(handler.clone(), transport, opening, ProbeTimeout::Never);
        let (service, era) = Box::pin(opened).await.unwrap();
        assert_eq!(received.recv().await.unwrap(), "initialize");
        assert_eq!(received.recv().await.unwrap(), "notifications/initialized");
        let session = Arc::new(McpSession {
            server: name,
            peer: service.peer().clone(),
            era,
            info: service.peer().peer_info().unwrap(),
            pid: None,
            confined: None,
            since: std::time::Instant::now(),
            ended: CancellationToken::new(),
            activity: handler.activity.clone(),
            handler,
        });
        Self {
            keepalive: keepalive(&session),
            session,
            received,
            _service: service,
            _server: server,
        }
    }

    /// The same as a session of this era, of a local server if it has a process.
    fn of(mut self, era: Era, pid: Option<u32>) -> Self {
        let session = Arc::get_mut(&mut self.session).unwrap();
        session.era = era;
        session.pid = pid;
        self.keepalive = keepalive(&self.session);
        self
    }

    /// Beats until the server has heard this much, and returns it.
    async fn hears(&mut self, count: usize) -> Vec<String> {
        let mut methods = Vec::new();
        let enough = async {
            while methods.len() < count {
                methods.push(self.received.recv().await.unwrap());
            }
        };
        tokio::select! {
            reason = self.keepalive.ping_until_failure(&self.session) => panic!("{reason}"),
            () = enough => methods,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_is_asked_again_and_again() {
    let mut quiet = Quiet::new(Ping::Answered).await;
    let began = Instant::now();
    assert_eq!(quiet.hears(3).await, ["ping"; 3]);
    let least = Duration::from_secs(3 * 5).mul_f64(0.8);
    let most = Duration::from_secs(3 * 5).mul_f64(1.2);
    assert!((least..=most).contains(&began.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn where_ping_is_unknown_the_list_of_tools_serves_instead() {
    let mut quiet = Quiet::new(Ping::Unknown).await;
    assert_eq!(
        quiet.hears(4).await,
        ["ping", "tools/list", "tools/list", "tools/list"]
    );
}

#[tokio::test(start_paused = true)]
async fn silence_ends_the_session() {
    let mut quiet = Quiet::new(Ping::Ignored).await;
    let began = Instant::now();
    let reason = quiet.keepalive.ping_until_failure(&quiet.session).await;
    assert!(reason.contains("30 s"), "{reason}");
    assert!(began.elapsed() >= PING_TIMEOUT);
    assert!(began.elapsed() < PING_TIMEOUT * 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_a_call_runs() {
    let mut quiet = Quiet::new(Ping::Answered).await;
    let call = quiet.session.activity.start_call();
    let beats = tokio::time::timeout(Duration::from_mins(1), quiet.hears(1)).await;
    assert!(beats.is_err());
    drop(call);
    assert_eq!(quiet.hears(1).await, ["ping"]);
}

#[tokio::test(start_paused = true)]
async fn after_the_machine_slept_one_interval_passes_first() {
    let mut quiet = Quiet::new(Ping::Answered).await;
    quiet.keepalive.due_wall_clock -= Duration::from_hours(1);
    let began = Instant::now();
    assert_eq!(quiet.hears(1).await, ["ping"]);
    assert!(began.elapsed() >= Duration::from_secs(2 * 5).mul_f64(0.8));
}

#[tokio::test(start_paused = true)]
async fn a_remote_server_of_the_stateless_era_is_asked_for_its_tools() {
    let mut quiet = Quiet::new(Ping::Answered).await.of(Era::Stateless, None);
    assert_eq!(quiet.hears(2).await, ["tools/list"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_local_server_of_the_stateless_era_is_left_alone() {
    let mut quiet = Quiet::new(Ping::Answered).await.of(Era::Stateless, Some(1));
    let beats = tokio::time::timeout(Duration::from_hours(1), quiet.hears(1)).await;
    assert!(beats.is_err());
}
