//! A Hub on a TCP listener, with the mock runtime.

use std::{path::Path, sync::Arc, time::Duration};

use hermes_hub::{
    Hub, HubParts, OpenedHub,
    settings::Settings,
    storage::state::OpenedState,
    tenants::runtime::{Runtime, mock::MockRuntime},
};
use hermes_testkit::{eventually_some, postgres::TestDatabase};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::storage::state::is_on_postgres;

/// Long enough for a machine under load; not reached when tests pass.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

const DEFAULT_URL: &str = "http://127.0.0.1:7878";

pub(crate) struct TestHub {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) admin: String,
    pub(crate) hub: Hub,
    pub(crate) directory: TempDir,
    lock: Option<hermes_hub::storage::data_dir::DataDirLock>,
    /// The database, if it is not a file of the directory.
    database: Option<TestDatabase>,
    server: JoinSet<()>,
    stop: CancellationToken,
}

impl Drop for TestHub {
    fn drop(&mut self) {
        self.stop.cancel();
        self.server.abort_all();
    }
}

/// The status and the JSON of a response.
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl HttpAnswer {
    pub(crate) async fn from_response(response: Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("no JSON ({}): {}", self.status, self.text))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }
}

impl TestHub {
    pub(crate) async fn new() -> Self {
        Self::with_settings(|_, _| {}).await
    }

    /// With other settings.
    pub(crate) async fn with_settings(change: impl FnOnce(&mut Settings, &Path)) -> Self {
        Self::with_runtime(Arc::new(MockRuntime::default()), change).await
    }

    /// With other agents and other settings.
    pub(crate) async fn with_runtime(
        runtime: Arc<dyn Runtime>,
        change: impl FnOnce(&mut Settings, &Path),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut settings = Settings::for_directory(&directory.path().join("hub")).unwrap();
        settings.listen = address;
        settings.public_url = format!("http://{address}");
        settings.limits.rps_per_token = 100_000;
        settings.limits.burst = 100_000;
        settings.drain_seconds = 1;
        let database = is_on_postgres().then(TestDatabase::create);
        if let Some(database) = &database {
            settings.database.url = database.url().into();
            settings.database.max_connections = 6;
        }
        change(&mut settings, directory.path());
        let opened = Hub::open(settings, runtime).await.unwrap();
        let OpenedHub {
            hub,
            first_token,
            lock,
        } = opened;
        let admin = std::fs::read_to_string(first_token.unwrap())
            .unwrap()
            .trim()
            .to_owned();
        let mut site = Self {
            url: format!("http://{address}"),
            client: Client::builder().no_proxy().build().unwrap(),
            admin,
            hub,
            directory,
            lock: Some(lock),
            database,
            server: JoinSet::new(),
            stop: CancellationToken::new(),
        };
        site.serve(listener);
        site
    }

    fn serve(&mut self, listener: TcpListener) {
        let (hub, stop) = (self.hub.clone(), self.stop.clone());
        self.server.spawn(async move {
            hub.serve(listener, stop).await.unwrap();
        });
    }

    /// The settings, on another port.
    async fn settings_on_new_port(&self) -> (Settings, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = Settings::clone(&self.hub.settings());
        settings.listen = listener.local_addr().unwrap();
        settings.public_url = format!("http://{}", settings.listen);
        (settings, listener)
    }

    /// Stops the Hub and starts it again on the same directory.
    pub(crate) async fn restart(&mut self) {
        let (settings, listener) = self.settings_on_new_port().await;
        self.stop.cancel();
        self.server.shutdown().await;
        self.hub.close().await;
        self.hub.state().close().await;
        self.lock = None;
        self.url.clone_from(&settings.public_url);
        let runtime = Arc::new(MockRuntime::default());
        let OpenedHub { hub, lock, .. } = Hub::open(settings, runtime).await.unwrap();
        self.hub = hub;
        self.lock = Some(lock);
        self.stop = CancellationToken::new();
        self.serve(listener);
    }

    /// Another node over the same database.
    pub(crate) async fn second_node(&self) -> Self {
        let (settings, listener) = self.settings_on_new_port().await;
        let url = settings.public_url.clone();
        let state = match &self.database {
            Some(_) => {
                let opened = OpenedState::open(&settings.database, "n2").await;
                opened.unwrap().shared()
            }
            None => self.hub.shared_state(),
        };
        let hub = Hub::start(HubParts {
            state,
            key: self.hub.key().clone(),
            runtime: Arc::new(MockRuntime::default()),
            settings,
            node: "n2".into(),
        })
        .await
        .unwrap();
        let mut site = Self {
            url,
            client: self.client.clone(),
            admin: self.admin.clone(),
            hub,
            directory: tempfile::tempdir().unwrap(),
            lock: None,
            database: None,
            server: JoinSet::new(),
            stop: CancellationToken::new(),
        };
        site.serve(listener);
        site
    }

    /// A node over any state, to which this admin token belongs.
    pub(crate) async fn over_state(mut parts: HubParts, admin: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = &mut parts.settings;
        settings.listen = listener.local_addr().unwrap();
        let url = format!("http://{}", settings.listen);
        if settings.public_url == DEFAULT_URL {
            settings.public_url.clone_from(&url);
        } else {
            // Nodes have one address for people, and each its own for the test.
            settings.allowed_origins.push(url.clone());
        }
        settings.limits.rps_per_token = 100_000;
        settings.limits.burst = 100_000;
        let mut site = Self {
            url,
            client: Client::builder().no_proxy().build().unwrap(),
            admin,
            hub: Hub::start(parts).await.unwrap(),
            directory: tempfile::tempdir().unwrap(),
            lock: None,
            database: None,
            server: JoinSet::new(),
            stop: CancellationToken::new(),
        };
        site.serve(listener);
        site
    }

    /// Polls until the condition holds.
    pub(crate) async fn wait_until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = eventually_some(TIMEOUT, async || {
            last = self.get(path).await.expect(200);
            is_so(&last).then(|| last.clone())
        });
        found.await.unwrap_or_else(|| panic!("{path} stays {last}"))
    }

    /// A request with a token, or without if that is empty.
    pub(crate) fn request(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.url));
        if token.is_empty() {
            request
        } else {
            request.bearer_auth(token)
        }
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> HttpAnswer {
        let response = tokio::time::timeout(TIMEOUT, request.send()).await;
        HttpAnswer::from_response(response.expect("no answer in time").unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> HttpAnswer {
        self.send(self.request(&self.admin, Method::GET, path))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> HttpAnswer {
        self.send(self.request(&self.admin, Method::DELETE, path))
            .await
    }

    pub(crate) async fn send_json(&self, method: Method, path: &str, body: &Value) -> HttpAnswer {
        let request = self.request(&self.admin, method, path);
        self.send(
            request
                .header("content-type", "application/json")
                .body(body.to_string()),
        )
        .await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send_json(Method::POST, path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send_json(Method::PUT, path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send_json(Method::PATCH, path, body).await
    }

    /// A token with these rights.
    pub(crate) async fn token(&self, request: Value) -> String {
        let minted = self.post("/v1/tokens", &request).await.expect(201);
        minted["token"].as_str().unwrap().to_owned()
    }

    /// A tenant that is ready.
    pub(crate) async fn tenant(&self, request: Value) -> Value {
        let made = self.post("/v1/tenants", &request).await.expect(201);
        let id = made["id"].as_str().unwrap().to_owned();
        self.wait_until(&format!("/v1/tenants/{id}"), |tenant| {
            tenant["status"] == "ready"
        })
        .await;
        made
    }

    /// The tenant, group, skill and job of the source document's examples.
    pub(crate) async fn with_examples(self) -> Self {
        let group = json!({"id": "division1", "displayName": "Division 1", "kind": "department"});
        self.post("/v1/groups", &group).await.expect(201);
        self.tenant(json!({"id": "tenant_123", "displayName": "Acme",
            "groups": [{"id": "division1", "access": "write"}]}))
            .await;
        let home = self.home("tenant_123");
        let skill = home.join("skills/content/writer");
        std::fs::create_dir_all(&skill).unwrap();
        std::fs::write(
            skill.join("SKILL.md"),
            "---\nname: writer\ndescription: Writes.\nversion: 1.0\n---\nWrite.\n",
        )
        .unwrap();
        std::fs::write(home.join("SOUL.md"), "I am Acme's.\n").unwrap();
        let servers = "mcp_servers:\n  demo:\n    command: server\n";
        std::fs::write(home.join("config.yaml"), servers).unwrap();
        for (path, content) in [
            ("notes/report.md", "an invoice\na Receipt\n"),
            ("draft.md", "draft\n"),
        ] {
            let body = json!({"path": path, "content": content});
            self.put(
                "/v1/tenants/tenant_123/shares/division1/files/content",
                &body,
            )
            .await
            .expect(201);
        }
        let job = json!({"id": "job_123", "schedule": "0 9 * * *", "prompt": "Summarize"});
        self.post("/v1/tenants/tenant_123/agent-cron", &job)
            .await
            .expect(201);
        self
    }

    /// The database, if it is not a file of the directory.
    pub(crate) fn database(&self) -> Option<&TestDatabase> {
        self.database.as_ref()
    }

    /// Whether the database has a text as it is. The Hub must be closed.
    pub(crate) fn stores(&self, text: &str) -> bool {
        if let Some(database) = &self.database {
            return database.contains(text);
        }
        let database = std::fs::read(self.directory.path().join("hub/hub.db")).unwrap();
        let mut parts = database.windows(text.len());
        parts.any(|part| part == text.as_bytes())
    }

    pub(crate) fn home(&self, tenant: &str) -> std::path::PathBuf {
        self.directory
            .path()
            .join("hub/tenants")
            .join(tenant)
            .join("home")
    }
}
