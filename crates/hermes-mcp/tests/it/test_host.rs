//! The fixture of the host's own tests: a host on a temporary home, with testkit servers behind it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hermes_config::{Home, ServerName, Settings};
use hermes_mcp::{
    CallOptions, Host, HostOptions, Link, LinkStatus, McpSession, Outcome, ReloadReport,
    ServerRequestHandler, ServerStatus, process::GuardProgram,
};
use hermes_testkit::{Behaviour, TemporaryHome, binary, eventually};
use serde_json::{Map, Value, json};
use tracing::Subscriber;

/// Enough for a busy machine: a test that waits this long has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn guard() -> GuardProgram {
    GuardProgram {
        path: env!("CARGO_BIN_EXE_hermes-mcp-guard").into(),
        args: Vec::new(),
    }
}

/// The entry of a local server with this behaviour.
pub(crate) fn stdio(behaviour: &Behaviour) -> Value {
    let (command, args) = behaviour.stdio_command(&binary("testkit-stdio"));
    json!({ "command": command, "args": args })
}

/// The entry of a local server whose behaviour is read from a file each time it starts.
pub(crate) fn stdio_from(file: &BehaviourFile) -> Value {
    let argument = format!("@{}", file.0.display());
    json!({ "command": binary("testkit-stdio"), "args": [argument] })
}

/// Adds a key to an entry.
pub(crate) fn with(mut entry: Value, key: &str, value: impl Into<Value>) -> Value {
    entry[key] = value.into();
    entry
}

/// A behaviour that may change between two starts of a server.
pub(crate) struct BehaviourFile(PathBuf);

impl BehaviourFile {
    pub(crate) fn new(directory: &Path, behaviour: &Behaviour) -> Self {
        let file = Self(directory.join("behaviour.json"));
        file.set(behaviour);
        file
    }

    pub(crate) fn set(&self, behaviour: &Behaviour) {
        std::fs::write(&self.0, serde_json::to_vec(behaviour).unwrap()).unwrap();
    }

    /// Lets the server fail whenever it is started.
    pub(crate) fn break_it(&self) {
        self.set(&Behaviour::new().process(|process| {
            process.exit_at_start = Some(hermes_testkit::ExitAtStart {
                code: 4,
                stderr: "out of order".into(),
            });
        }));
    }
}

/// A `config.yaml` with these servers, in order.
pub(crate) fn config(servers: &[(&str, Value)]) -> String {
    let entries = servers
        .iter()
        .map(|(name, entry)| format!("  {}: {entry}", json!(name)));
    let lines: Vec<String> = std::iter::once("mcp_servers:".to_owned())
        .chain(entries)
        .collect();
    lines.join("\n") + "\n"
}

/// A running host and its home.
pub(crate) struct TestHost {
    pub(crate) host: Host,
    pub(crate) home: TemporaryHome,
}

impl TestHost {
    /// Starts a host with these servers in a home of its own.
    pub(crate) async fn start(servers: &[(&str, Value)]) -> Self {
        Self::start_in(TemporaryHome::new(), servers).await
    }

    /// Starts a host in a home that is there already.
    pub(crate) async fn start_in(home: TemporaryHome, servers: &[(&str, Value)]) -> Self {
        home.write_config(&config(servers));
        let options = HostOptions::new(Home::at(home.path()), guard());
        Self::start_with(options, home).await
    }

    /// Starts a host that offers more than nothing to its servers.
    pub(crate) async fn start_with_handler(
        inquiries: impl ServerRequestHandler,
        servers: &[(&str, Value)],
    ) -> Self {
        let home = TemporaryHome::with_config(&config(servers));
        let mut options = HostOptions::new(Home::at(home.path()), guard());
        options.request_handler = Arc::new(inquiries);
        Self::start_with(options, home).await
    }

    async fn start_with(options: HostOptions, home: TemporaryHome) -> Self {
        let settings = Settings::load(&options.home).unwrap();
        let host = Host::start(options, &settings).await;
        Self { host, home }
    }

    /// Writes a configuration and reloads it.
    pub(crate) async fn reload(&self, servers: &[(&str, Value)]) -> ReloadReport {
        self.home.write_config(&config(servers));
        self.host.reload_from_home().await.unwrap()
    }

    /// Ends the host and gives its home back, for the next one.
    pub(crate) async fn end(self) -> TemporaryHome {
        self.host.shutdown().await;
        self.home
    }

    /// Waits for a server's link to be as wanted.
    pub(crate) async fn until(&self, server: &str, wanted: impl FnMut(&Link) -> bool) -> Link {
        let mut link = self.host.link(&ServerName::new(server)).unwrap();
        match tokio::time::timeout(TIMEOUT, link.wait_for(wanted)).await {
            Ok(Ok(link)) => link.clone(),
            _ => panic!("`{server}` did not get there: {:?}", self.status(server)),
        }
    }

    /// Waits for a state.
    pub(crate) async fn reaches(&self, server: &str, status: LinkStatus) -> Link {
        self.until(server, |link| link.status == status).await
    }

    /// Waits until a server is ready and returns its session.
    pub(crate) async fn ready(&self, server: &str) -> Arc<McpSession> {
        let link = self.reaches(server, LinkStatus::Ready).await;
        link.session.unwrap()
    }

    /// Waits until all lists of a server are known and remembered.
    pub(crate) async fn remembered(&self, server: &str) {
        self.until(server, |link| {
            link.catalog.as_ref().is_some_and(|known| known.is_complete)
        })
        .await;
        assert!(
            eventually(TIMEOUT, || !self.manifests().is_empty()).await,
            "no manifest was written"
        );
    }

    /// The manifests that are written. One that is being written has another ending.
    pub(crate) fn manifests(&self) -> Vec<PathBuf> {
        let cache = self.home.path().join("cache/mcp");
        let files = std::fs::read_dir(cache).into_iter().flatten().flatten();
        files
            .map(|file| file.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .collect()
    }

    pub(crate) fn status(&self, server: &str) -> ServerStatus {
        let all = self.host.status();
        all.into_iter()
            .find(|status| status.name == server)
            .unwrap()
    }

    pub(crate) fn pid(&self, server: &str) -> u32 {
        self.status(server).pid.unwrap()
    }

    /// The names of the tools that a server has on the list now.
    pub(crate) fn tools(&self, server: &str) -> Vec<String> {
        let registry = self.host.registry();
        registry
            .tools()
            .filter(|tool| tool.server.as_str() == server)
            .map(|tool| tool.original_name().to_owned())
            .collect()
    }

    /// Waits until a tool is on the list, or off it.
    pub(crate) async fn shows(&self, server: &str, tool: &str, shown: bool) -> bool {
        eventually(TIMEOUT, || {
            self.tools(server).iter().any(|t| t == tool) == shown
        })
        .await
    }

    /// Calls a tool by the name the model says.
    pub(crate) async fn call(&self, server: &str, tool: &str, arguments: Value) -> Outcome {
        let arguments: Map<String, Value> = serde_json::from_value(arguments).unwrap();
        let name = format!("mcp_{server}_{tool}");
        let options = CallOptions::default();
        let call = self.host.call(&name, arguments, &options);
        tokio::time::timeout(TIMEOUT, call).await.unwrap()
    }

    /// Calls a tool that must succeed, and returns its text.
    pub(crate) async fn text(&self, server: &str, tool: &str, arguments: Value) -> String {
        let outcome = self.call(server, tool, arguments).await;
        assert!(!outcome.is_error(), "{}", outcome.to_json());
        outcome.text().into_owned()
    }
}

/// Ends a process as nobody can refuse.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The pids that servers have written to their `pid_file`.
pub(crate) fn pids(file: &Path) -> Vec<u32> {
    std::fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

/// Tells of every log event on this thread, as an object of its fields, until the guard is dropped.
pub(crate) fn listen(
    tell: impl Fn(Value) + Send + Sync + 'static,
) -> tracing::subscriber::DefaultGuard {
    tracing::subscriber::set_default(Listener(tell))
}

struct Listener<F>(F);

impl<F: Fn(Value) + Send + Sync + 'static> Subscriber for Listener<F> {
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(json!({}));
        event.record(&mut fields);
        (self.0)(fields.0);
    }

    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// The fields of one event.
struct Fields(Value);

impl tracing::field::Visit for Fields {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.0[field.name()] = json!(value);
    }

    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0[field.name()] = json!(format!("{value:?}"));
    }
}
