//! What the tests of calls, questions and faults stand on: a host over a temporary home, and servers to put into it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hermes_config::{Home, ServerName, Settings};
use hermes_mcp::{
    CallOptions, Host, HostOptions, Link, LinkStatus, ServerRequestHandler, ServerStatus,
    process::GuardProgram, server_request::NoHandler,
};
use hermes_testkit::{Behaviour, Era, HttpServer, HttpTransport, TemporaryHome, binary};
use serde_json::{Map, Value, json};

/// Far longer than anything here takes, so that a busy machine fails no test.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A host and the home it serves.
pub(crate) struct Setup {
    pub(crate) host: Host,
    pub(crate) home: TemporaryHome,
}

impl Setup {
    /// Starts a host with these servers and nobody to ask, and waits until each is connected or has failed once.
    pub(crate) async fn start(servers: Value) -> Self {
        Self::in_home(TemporaryHome::new(), servers).await
    }

    pub(crate) async fn in_home(home: TemporaryHome, servers: Value) -> Self {
        Self::with_handler(home, servers, Arc::new(NoHandler)).await
    }

    pub(crate) async fn with_handler(
        home: TemporaryHome,
        servers: Value,
        inquiries: Arc<dyn ServerRequestHandler>,
    ) -> Self {
        Self::with_options(home, servers, |options| options.request_handler = inquiries).await
    }

    pub(crate) async fn with_options(
        home: TemporaryHome,
        servers: Value,
        change: impl FnOnce(&mut HostOptions),
    ) -> Self {
        // JSON is YAML.
        home.write_config(&json!({ "mcp_servers": servers }).to_string());
        let place = Home::at(home.path());
        let settings = Settings::load(&place).unwrap();
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
        let guard = GuardProgram {
            path: env!("CARGO_BIN_EXE_hermes-mcp-guard").into(),
            args: Vec::new(),
        };
        let mut options = HostOptions::new(place, guard);
        change(&mut options);
        let host = Host::start(options, &settings).await;
        host.wait_until_settled(TIMEOUT).await;
        Self { host, home }
    }

    /// Calls a tool and reads what the model would be told. A call that hangs fails the test.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Value {
        self.call_with(name, arguments, &CallOptions::default())
            .await
    }

    pub(crate) async fn call_with(
        &self,
        name: &str,
        arguments: Value,
        options: &CallOptions,
    ) -> Value {
        let call = Box::pin(self.host.call(name, object(arguments), options));
        let outcome = tokio::time::timeout(TIMEOUT, call).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("`{name}` never came back"));
        serde_json::from_str(&outcome.to_json()).unwrap()
    }

    /// The text of a call that has to fail.
    pub(crate) async fn error(&self, name: &str, arguments: Value) -> String {
        let told = self.call(name, arguments).await;
        let text = told["error"].as_str();
        text.unwrap_or_else(|| panic!("`{name}` succeeded: {told}"))
            .to_owned()
    }

    /// The same of a call that has to fail at once. Others may keep this machine busy, so it is tried again if it was not
    /// as quick.
    pub(crate) async fn error_at_once(&self, name: &str, arguments: Value) -> String {
        let mut took = Vec::new();
        while took.len() < 3 {
            let began = Instant::now();
            let error = self.error(name, arguments.clone()).await;
            took.push(began.elapsed());
            if began.elapsed() < Duration::from_secs(5) {
                return error;
            }
        }
        panic!("`{name}` never failed at once: {took:?}");
    }

    pub(crate) fn status(&self, server: &str) -> ServerStatus {
        let all = self.host.status();
        let found = all.into_iter().find(|status| status.name == server);
        found.unwrap_or_else(|| panic!("no server `{server}`"))
    }

    /// Waits until a server's state is as wanted.
    pub(crate) async fn until(&self, server: &str, wanted: impl FnMut(&Link) -> bool) {
        let mut link = self.host.link(&ServerName::new(server)).unwrap();
        let reached = tokio::time::timeout(TIMEOUT, link.wait_for(wanted)).await;
        assert!(
            matches!(reached, Ok(Ok(_))),
            "{:?}",
            json!(self.status(server))
        );
    }

    pub(crate) fn assert_ready(&self, server: &str) {
        let status = self.status(server);
        assert_eq!(status.status, LinkStatus::Ready, "{:?}", status.error);
    }

    /// Whatever the other servers did, this one has not noticed.
    pub(crate) async fn assert_neighbour_is_well(&self) {
        let told = self
            .call("mcp_neighbour_echo", json!({ "text": "well" }))
            .await;
        assert_eq!(told, json!({ "result": "well" }));
        let status = self.status("neighbour");
        assert_eq!((status.status, status.restarts), (LinkStatus::Ready, 0));
    }

    /// A file of the home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

/// These servers and a healthy one that must not notice what happens to them.
pub(crate) fn with_neighbour(mut servers: Value) -> Value {
    servers["neighbour"] = stdio(&Behaviour::new());
    servers
}

/// The entry of a local test server.
pub(crate) fn stdio(behaviour: &Behaviour) -> Value {
    let (command, args) = behaviour.stdio_command(&binary("testkit-stdio"));
    json!({ "command": command, "args": args })
}

/// The entry of a remote server.
pub(crate) fn http(server: &HttpServer) -> Value {
    json!({ "url": server.url() })
}

/// An entry with more keys.
pub(crate) fn with(mut entry: Value, more: Value) -> Value {
    let entry_keys = entry.as_object_mut().unwrap();
    entry_keys.extend(object(more));
    entry
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("no object: {other}"),
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransportKind {
    Stdio,
    Http,
    Sse,
}

/// Every combination of wire and era that exists.
pub(crate) const ALL_TRANSPORTS: [(TransportKind, Era); 5] = [
    (TransportKind::Stdio, Era::Legacy),
    (TransportKind::Stdio, Era::Stateless),
    (TransportKind::Http, Era::Legacy),
    (TransportKind::Http, Era::Stateless),
    (TransportKind::Sse, Era::Legacy),
];

/// Checks something over every transport at the same time, because it waits.
pub(crate) async fn over_every_transport(check: impl AsyncFn(TransportKind, Era)) {
    let mut checks = Vec::new();
    for (wire, era) in ALL_TRANSPORTS {
        checks.push(Box::pin(check(wire, era)));
    }
    futures::future::join_all(checks).await;
}

/// A test server and the entry that leads to it.
pub(crate) struct RecordedServer {
    pub(crate) entry: Value,
    /// Where the server records what it received.
    pub(crate) record: PathBuf,
    /// Lives as long as the peer.
    pub(crate) server: Option<HttpServer>,
}

impl RecordedServer {
    /// Serves a behaviour over one wire, recording in the given home.
    pub(crate) fn new(wire: TransportKind, behaviour: Behaviour, home: &Path) -> Self {
        let record = home.join("record.jsonl");
        let behaviour = behaviour.record(&record);
        let (entry, server) = match wire {
            TransportKind::Stdio => (stdio(&behaviour), None),
            TransportKind::Http => {
                let server = HttpServer::start(behaviour);
                (http(&server), Some(server))
            }
            TransportKind::Sse => {
                let behaviour = behaviour.http(|http| http.transport = HttpTransport::Sse);
                let server = HttpServer::start(behaviour);
                let entry = with(http(&server), json!({ "transport": "sse" }));
                (entry, Some(server))
            }
        };
        Self {
            entry,
            record,
            server,
        }
    }

    /// The recorded calls of one tool.
    pub(crate) fn calls(&self, tool: &str) -> Vec<Value> {
        let calls = hermes_testkit::recorded(&self.record, "tools/call");
        calls
            .into_iter()
            .filter(|call| call["params"]["name"] == tool)
            .collect()
    }

    /// The ids of requests that the client took back.
    pub(crate) fn cancelled(&self) -> Vec<Value> {
        let cancelled = hermes_testkit::recorded(&self.record, "notifications/cancelled");
        cancelled
            .into_iter()
            .map(|message| message["params"]["requestId"].clone())
            .collect()
    }
}

/// Waits until something can be seen, or fails the test.
pub(crate) async fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(
        hermes_testkit::eventually(TIMEOUT, condition).await,
        "never: {what}"
    );
}

/// The most memory used since the last look, in MiB, over what is used now.
pub(crate) struct Growth(u64);

impl Growth {
    /// Starts to watch.
    pub(crate) fn watch() -> Self {
        // 5 resets the peak.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        Self(mebibytes("VmRSS"))
    }

    pub(crate) fn peak(&self) -> u64 {
        mebibytes("VmHWM").saturating_sub(self.0)
    }
}

fn mebibytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() / 1024
}

/// Everything logged on this thread, which is all of a single-threaded test.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let sink = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || sink.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines of our own crates; what libraries say at debug level is theirs.
    pub(crate) fn own_lines(&self) -> Vec<String> {
        let text = self.text();
        let own = text.lines().filter(|line| line.contains(" hermes_"));
        own.map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
