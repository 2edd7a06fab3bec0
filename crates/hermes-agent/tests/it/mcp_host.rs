//! A host with test servers and a request handler.

use std::{path::PathBuf, sync::Arc, time::Duration};

use hermes_config::{Home, ServerName, Settings};
use hermes_mcp::{
    CallOptions, Host, HostOptions, ServerRequestHandler, ServerStatus,
    process::GuardProgram,
    server_request::{ConversationId, NoHandler},
};
use hermes_testkit::{Behaviour, Era, HttpServer, TemporaryHome, binary, binary_of};
use serde_json::{Map, Value, json};

/// Far longer than anything here takes, so that a busy machine fails no test.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Every transport in both eras.
pub(crate) const WIRES_AND_ERAS: [(Wire, Era); 4] = [
    (Wire::Stdio, Era::Legacy),
    (Wire::Stdio, Era::Stateless),
    (Wire::Http, Era::Legacy),
    (Wire::Http, Era::Stateless),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Stdio,
    Http,
}

/// A test server and the entry that leads to it.
pub(crate) struct Peer {
    entry: Value,
    record: Option<PathBuf>,
    /// Lives as long as the peer.
    _server: Option<HttpServer>,
}

impl Peer {
    pub(crate) fn new(wire: Wire, behaviour: Behaviour) -> Self {
        let record = behaviour.record.clone();
        let (entry, server) = match wire {
            Wire::Stdio => {
                let (command, args) = behaviour.stdio_command(&binary("testkit-stdio"));
                (json!({ "command": command, "args": args }), None)
            }
            Wire::Http => {
                let server = HttpServer::start(behaviour);
                (json!({ "url": server.url() }), Some(server))
            }
        };
        Self {
            entry,
            record,
            _server: server,
        }
    }

    pub(crate) fn entry(&self, keys: &Value) -> Value {
        let mut entry = self.entry.clone();
        for (key, value) in keys.as_object().unwrap() {
            entry[key] = value.clone();
        }
        entry
    }

    /// What the server received of one method.
    pub(crate) fn received(&self, method: &str) -> Vec<Value> {
        hermes_testkit::recorded(self.record.as_deref().unwrap(), method)
    }
}

/// A home, its settings and perhaps its host.
pub(crate) struct ConfiguredHome {
    pub(crate) directory: TemporaryHome,
    pub(crate) home: Home,
    pub(crate) settings: Settings,
}

impl ConfiguredHome {
    /// A home with this configuration. JSON is YAML.
    pub(crate) fn new(config: &Value) -> Self {
        let directory = TemporaryHome::with_config(&config.to_string());
        let home = Home::at(directory.path());
        let settings = Settings::load(&home).unwrap();
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        Self {
            directory,
            home,
            settings,
        }
    }

    /// Starts its host and waits until all servers have listed what they have.
    pub(crate) async fn start_host(self, inquiries: Arc<dyn ServerRequestHandler>) -> RunningHost {
        let guard = GuardProgram {
            path: binary_of("hermes-mcp", "hermes-mcp-guard"),
            args: Vec::new(),
        };
        let options = HostOptions {
            request_handler: inquiries,
            ..HostOptions::new(self.home.clone(), guard)
        };
        let host = Host::start(options, &self.settings).await;
        let missing = host.wait_until_settled(TIMEOUT).await;
        assert!(missing.is_empty(), "{:?}", json!(host.status()));
        host.wait_until_listed(TIMEOUT).await;
        RunningHost { host, home: self }
    }
}

pub(crate) struct RunningHost {
    pub(crate) host: Host,
    pub(crate) home: ConfiguredHome,
}

impl RunningHost {
    /// A host with one server `s`, without elicitation.
    pub(crate) async fn without_handlers(peer: &Peer, keys: &Value) -> Self {
        let config = json!({ "mcp_servers": { "s": peer.entry(keys) } });
        ConfiguredHome::new(&config)
            .start_host(Arc::new(NoHandler))
            .await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.call_in(None, tool, arguments).await
    }

    /// Calls a tool of `s` in a conversation, and returns the model's view of the result.
    pub(crate) async fn call_in(
        &self,
        conversation: Option<&str>,
        tool: &str,
        arguments: Value,
    ) -> Value {
        let options = CallOptions {
            conversation: conversation.map(|name| ConversationId(name.into())),
            ..CallOptions::default()
        };
        let name = format!("mcp_s_{tool}");
        let call = Box::pin(self.host.call(&name, object(arguments), &options));
        let outcome = tokio::time::timeout(TIMEOUT, call).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("`{name}` never came back"));
        serde_json::from_str(&outcome.to_json()).unwrap()
    }

    pub(crate) fn status(&self, server: &str) -> ServerStatus {
        let all = self.host.status();
        let found = all.into_iter().find(|status| status.name == server);
        found.unwrap_or_else(|| panic!("no server `{server}`"))
    }

    /// What the client declared to the server.
    pub(crate) async fn client_capabilities(&self) -> Value {
        reported_answer(&self.call("protocol", json!({})).await)["capabilities"].clone()
    }
}

pub(crate) fn server_name() -> ServerName {
    ServerName::new("s")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("no object: {other}"),
    }
}

/// The answer that a tool reports.
pub(crate) fn reported_answer(told: &Value) -> Value {
    let text = told["result"].as_str();
    let text = text.unwrap_or_else(|| panic!("{told}"));
    serde_json::from_str(text).unwrap()
}

/// Waits until a condition holds, or fails the test.
pub(crate) async fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(
        hermes_testkit::eventually(TIMEOUT, condition).await,
        "never: {what}"
    );
}
