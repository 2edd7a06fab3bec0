//! The bridge over MCP.

mod errors;
pub(crate) mod events;
mod http;
mod own_platforms;
mod resources;
mod tools;

use std::time::Duration;

use hermes_config::{Home, Settings, Variables};
use hermes_gateway::bridge::{Bridge, BridgeOptions};
use hermes_serve::stdio;
use hermes_store::{Access, NewMessage, NewSession, Origin, Role, SessionId, SessionKey, Store};
use hermes_testkit::eventually_some;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, ClientConfig, CustomNotification, Implementation,
        ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam,
    },
    service::{NotificationContext, RunningService},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(30);
const KEY: &str = "agent:main:telegram:dm:1";
const SESSION: &str = "20260101_010101_0badcafe";

/// A home without a database.
struct BridgeFixture {
    _directory: TempDir,
    home: Home,
}

impl BridgeFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::at(directory.path());
        Self {
            _directory: directory,
            home,
        }
    }

    async fn store(&self) -> Store {
        Store::open(&self.home, Access::ReadWrite).await.unwrap()
    }

    fn bridge(&self, options: BridgeOptions) -> Bridge {
        self.bridge_with("", options)
    }

    fn bridge_with(&self, config: &str, options: BridgeOptions) -> Bridge {
        self.bridge_with_variables(config, Variables::default(), options)
    }

    fn bridge_with_variables(
        &self,
        config: &str,
        variables: Variables,
        options: BridgeOptions,
    ) -> Bridge {
        let settings = Settings::parse(config, variables).unwrap();
        assert_eq!(settings.warnings, []);
        Bridge::new(self.home.clone(), settings, options)
    }

    async fn client(&self) -> Client {
        Client::legacy(&self.bridge(BridgeOptions::default())).await
    }
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

/// A chat with Ann, in an open session.
async fn add_chat(store: &Store, session: &str, key: &str, chat: &str) {
    add_chat_on(store, "telegram", session, key, chat).await;
}

async fn add_chat_on(store: &Store, platform: &str, session: &str, key: &str, chat: &str) {
    let mut new = NewSession::new(id(session), platform);
    new.session_key = Some(SessionKey::new(key));
    new.origin = Some(Origin {
        platform: platform.into(),
        chat_id: Some(chat.into()),
        chat_type: "dm".into(),
        chat_name: Some("Ann".into()),
        user_name: Some("ann".into()),
        ..Origin::default()
    });
    new.started_at = Some(1_780_000_000.5);
    store.create_session(&new).await.unwrap();
}

async fn with_chat() -> (BridgeFixture, Store) {
    let place = BridgeFixture::new();
    let store = place.store().await;
    add_chat(&store, SESSION, KEY, "1").await;
    (place, store)
}

fn user(text: &str) -> NewMessage {
    NewMessage::new(Role::User, text)
}

fn assistant(text: &str) -> NewMessage {
    NewMessage::new(Role::Assistant, text)
}

/// A notification to a client.
#[derive(Debug)]
enum Notification {
    Progress(ProgressNotificationParam),
    Updated(String),
    Custom(CustomNotification),
}

struct Listener {
    name: &'static str,
    notifications: mpsc::UnboundedSender<Notification>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let mut config =
            ClientConfig::default().with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        config.client_info = Implementation::new(self.name, "1");
        config
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.notifications
            .send(Notification::Progress(params))
            .unwrap();
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.notifications
            .send(Notification::Updated(params.uri))
            .unwrap();
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        self.notifications
            .send(Notification::Custom(notification))
            .unwrap();
    }
}

/// A client that is connected to a bridge.
struct Client {
    running: RunningService<RoleClient, Listener>,
    notifications: mpsc::UnboundedReceiver<Notification>,
    _server: JoinSet<()>,
}

impl Client {
    async fn legacy(bridge: &Bridge) -> Self {
        Self::connect(bridge, "test", ClientLifecycleMode::Initialize).await
    }

    async fn connect(bridge: &Bridge, name: &'static str, era: ClientLifecycleMode) -> Self {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(server);
        let connection = bridge.new_connection();
        bridge.open_log().await;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let stop = CancellationToken::new();
            let bridging = stdio::serve_on(connection, input, output, || false, stop);
            bridging.await.unwrap();
        });
        let (sender, told) = mpsc::unbounded_channel();
        let listener = Listener {
            name,
            notifications: sender,
        };
        let running = listener.serve_with_lifecycle(client, era).await.unwrap();
        Self {
            running,
            notifications: told,
            _server: task,
        }
    }

    async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        let params = CallToolRequestParams::new(tool.to_owned())
            .with_arguments(arguments.as_object().unwrap().clone());
        let called = tokio::time::timeout(TIMEOUT, self.running.call_tool(params)).await;
        called.unwrap().unwrap()
    }

    /// The document a tool answers with, after checking its envelope.
    async fn call_document(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        let text = only_text(&result);
        assert_eq!(result.is_error, Some(false), "{text}");
        assert_eq!(result.structured_content, Some(json!({"result": text})));
        serde_json::from_str(text).unwrap()
    }

    /// A page with so many events at least: on a busy machine a poll answers with what is known so far.
    async fn poll_events(&self, arguments: &Value, count: usize) -> Value {
        let page = eventually_some(TIMEOUT, async || {
            let page = self.call_document("events_poll", arguments.clone()).await;
            (page["events"].as_array().unwrap().len() >= count).then_some(page)
        });
        page.await.expect("the events are never polled")
    }

    async fn next(&mut self) -> Notification {
        let told = tokio::time::timeout(TIMEOUT, self.notifications.recv()).await;
        told.unwrap().unwrap()
    }
}

fn only_text(result: &CallToolResult) -> &str {
    assert_eq!(result.content.len(), 1);
    &result.content[0].as_text().unwrap().text
}

fn stateless() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    }
}
