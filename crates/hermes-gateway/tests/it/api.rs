//! The local HTTP API, with a scripted model.

mod access;
mod approvals;
mod directives;
mod jobs;
mod observers;
mod openai;
mod responses;
mod runs;
mod sessions;

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use hermes_agent::{
    conversation::{Agent, AgentParts},
    policy::{AgentPolicy, PolicyHandle},
    server_requests::elicitation::ElicitationRegistry,
};
use hermes_config::{Home, Secret, Settings, sync::Mutex};
use hermes_gateway::{
    api::{self, AllowedHosts, ApiListener},
    gateway::{ControlMode, Gateway, GatewayParts, HubHome},
    instance::Instance,
};
use hermes_store::{Access, Store};
use hermes_testkit::{
    TemporaryHome,
    model::{ModelScript, ModelServer},
};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, UnixListener},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(30);
const KEY: &str = "0123456789abcdef";

/// A gateway with its API on a free port, until it is dropped.
struct ApiFixture {
    home: TemporaryHome,
    model: ModelServer,
    gateway: Gateway,
    /// The settings that others were told of last.
    applied: Arc<Mutex<Option<Settings>>>,
    client: Client,
    origin: String,
    _tasks: JoinSet<()>,
}

impl ApiFixture {
    async fn start(script: ModelScript) -> Self {
        Self::start_with(script, "", ControlMode::Own).await
    }

    async fn start_with(script: ModelScript, more: &str, direction: ControlMode) -> Self {
        let model = ModelServer::start(script);
        let config = format!(
            "model: {{default: m, provider: custom, base_url: '{}'}}\nagent: {{api_max_retries: 0}}\n{more}\n",
            model.base_url()
        );
        let temporary = TemporaryHome::with_config(&config);
        let home = Home::at(temporary.path());
        let settings = Settings::load(&home).unwrap();
        let store = Store::open(&home, Access::ReadWrite).await.unwrap();
        let policy = match direction {
            ControlMode::Own => AgentPolicy::default(),
            ControlMode::Hub { .. } => AgentPolicy::closed(),
        };
        let parts = AgentParts {
            policy: PolicyHandle::new(policy),
            ..AgentParts::new(home.clone(), store)
        };
        let agent = Agent::new(parts, settings);
        let applied = Arc::new(Mutex::default());
        let gateway = Gateway::open(GatewayParts {
            agent,
            instance: Arc::new(Instance::acquire(&home).unwrap()),
            control_mode: direction.clone(),
            directory: temporary.path().to_owned(),
            elicitation: ElicitationRegistry::unavailable(),
            on_settings: Some(Box::new({
                let applied = applied.clone();
                move |settings| *applied.lock() = Some(settings.clone())
            })),
            meter: None,
        })
        .await
        .unwrap();
        let client = Client::builder().no_proxy();
        let (api, origin, client) = match direction {
            ControlMode::Own => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let origin = format!("http://{}", listener.local_addr().unwrap());
                (ApiListener::Tcp(listener), origin, client)
            }
            // A Hub connects through a Unix socket, from the process that opened it.
            ControlMode::Hub { .. } => {
                let socket = temporary.path().join("agent.sock");
                let listener = UnixListener::bind(&socket).unwrap();
                let client = client.unix_socket(socket);
                (
                    ApiListener::Unix(listener),
                    "http://127.0.0.1".into(),
                    client,
                )
            }
        };
        let router = api::router(
            gateway.clone(),
            &Secret::new(KEY.to_owned()),
            AllowedHosts::Names(Vec::new()),
        );
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let served = api::serve(api, router, CancellationToken::new());
            served.await.unwrap();
        });
        Self {
            home: temporary,
            model,
            gateway,
            applied,
            client: client.build().unwrap(),
            origin,
            _tasks: tasks,
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .client
            .request(method, format!("{}{path}", self.origin));
        request.bearer_auth(KEY).timeout(TIMEOUT)
    }

    async fn get(&self, path: &str) -> Value {
        send(self.request(Method::GET, path)).await.1
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        send(self.request(Method::POST, path).body(body.to_string())).await
    }

    /// Starts a run and gives back its name.
    async fn run(&self, body: &Value) -> String {
        let (status, started) = self.post("/v1/runs", body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{started}");
        assert_eq!(started["status"], "started");
        started["run_id"].as_str().unwrap().to_owned()
    }

    async fn wait_for_end(&self, run: &str) -> Value {
        self.events(run, 0).await;
        self.get(&format!("/v1/runs/{run}")).await
    }

    /// All events of a run after one, until it is over.
    async fn events(&self, run: &str, after: i64) -> Vec<(i64, Value)> {
        self.watch(run, after).await.read_rest().await
    }

    async fn watch(&self, run: &str, after: i64) -> EventReader {
        let request = self.request(Method::GET, &format!("/v1/runs/{run}/events"));
        let request = request.header("Last-Event-ID", after.to_string());
        EventReader::new(request.send().await.unwrap())
    }

    /// Waits until a run has this many pending approvals, and returns them.
    async fn wait_for_approvals(&self, run: &str, count: usize) -> Vec<Value> {
        let mut watcher = self.watch(run, 0).await;
        let mut asked = Vec::new();
        while asked.len() < count {
            let (_, event) = watcher.next().await.unwrap();
            if event["event"] == "approval.request" {
                asked.push(event);
            }
        }
        asked
    }

    /// The messages of the last request that the model got.
    fn last_messages(&self) -> Vec<Value> {
        let request = self.model.requests().pop().unwrap();
        request.body["messages"].as_array().unwrap().clone()
    }
}

async fn send(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}"));
    (status, body)
}

/// Reads a stream of events.
struct EventReader {
    response: futures::stream::BoxStream<'static, String>,
    read: String,
    comments: Vec<String>,
}

impl EventReader {
    fn new(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        let pieces = response.bytes_stream().map(|piece| {
            let piece = piece.unwrap();
            String::from_utf8(piece.to_vec()).unwrap()
        });
        Self {
            response: pieces.boxed(),
            read: String::new(),
            comments: Vec::new(),
        }
    }

    /// The next block of lines.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.read.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.read = rest;
                return Some(block);
            }
            let piece = tokio::time::timeout(TIMEOUT, self.response.next()).await;
            self.read.push_str(&piece.unwrap()?);
        }
    }

    /// The next event; none at the end of the stream.
    async fn next(&mut self) -> Option<(i64, Value)> {
        loop {
            let block = self.block().await?;
            if let Some(comment) = block.strip_prefix(": ") {
                self.comments.push(comment.to_owned());
                continue;
            }
            let mut lines = block.lines();
            let id = lines.next().unwrap().strip_prefix("id: ").unwrap();
            let data = lines.next().unwrap().strip_prefix("data: ").unwrap();
            return Some((id.parse().unwrap(), serde_json::from_str(data).unwrap()));
        }
    }

    async fn read_rest(mut self) -> Vec<(i64, Value)> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        assert_eq!(self.comments.last().unwrap(), "stream closed");
        events
    }
}

fn names(events: &[(i64, Value)]) -> Vec<&str> {
    events
        .iter()
        .map(|(_, event)| event["event"].as_str().unwrap())
        .collect()
}

fn numbers(events: &[(i64, Value)]) -> Vec<i64> {
    events.iter().map(|(id, _)| *id).collect()
}
