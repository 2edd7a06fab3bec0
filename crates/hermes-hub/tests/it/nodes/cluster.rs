//! Nodes in this process, each with its own connections, agents and homes. They share a database and object storage.

use std::{path::PathBuf, sync::Arc, time::Duration};

use hermes_hub::{
    HubParts,
    settings::{ObjectSettings, Settings},
    storage::{
        encryption::SecretKey,
        state::{PostgresOptions, PostgresState, State},
    },
};
use hermes_testkit::{
    eventually_some,
    postgres::{Pgbouncer, TestDatabase},
};
use serde_json::{Value, json};
use sqlx::Connection as _;
use tempfile::TempDir;

use crate::{agent_harness::ScriptedRuntime, test_hub::TestHub};

/// Long enough for a machine under load; not reached when tests pass.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// Not lost by a machine under load.
const LEASE_SECONDS: u64 = 30;

pub(crate) struct Cluster {
    pub(crate) url: String,
    pub(crate) lease_seconds: u64,
    /// Where objects are, if not in a directory.
    pub(crate) objects: Option<ObjectSettings>,
    directory: TempDir,
    admin: String,
    key: SecretKey,
    pub(crate) database: TestDatabase,
}

pub(crate) struct Node {
    pub(crate) site: TestHub,
    pub(crate) state: Arc<dyn State>,
    pub(crate) agents: Arc<ScriptedRuntime>,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::create();
        let url = database.url();
        Self::over(database, url).await
    }

    /// Nodes that reach this database at this address.
    pub(crate) async fn over(database: TestDatabase, url: String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = open_state(&url, "setup").await;
        let key_file = directory.path().join("secret.key");
        let key = SecretKey::load(&key_file, &*state).await.unwrap();
        let token_file = directory.path().join("admin.token");
        hermes_hub::auth::create_first_token(&*state, &token_file)
            .await
            .unwrap();
        let admin = std::fs::read_to_string(&token_file).unwrap();
        state.close().await;
        Self {
            url,
            lease_seconds: LEASE_SECONDS,
            objects: None,
            directory,
            admin: admin.trim().to_owned(),
            key,
            database,
        }
    }

    /// The directory of a node, or `objects`.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Ends all connections that nodes listen or notify on.
    pub(crate) async fn cut_notices(&self) {
        let mut connection = sqlx::PgConnection::connect(&self.url).await.unwrap();
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()
                 AND (query ILIKE 'listen%' OR query ILIKE '%pg_notify%')";
        let cut = sqlx::query(cut).fetch_all(&mut connection).await.unwrap();
        assert!(!cut.is_empty(), "nobody listens");
    }

    pub(crate) async fn node(&self, id: &str) -> Node {
        self.node_at(id, &self.url).await
    }

    /// A node with a new tenant, and another that comes when the first one holds it.
    pub(crate) async fn holder_and_other(&self, tenant: &str) -> (Node, Node) {
        let one = self.node("n1").await;
        one.site
            .tenant(json!({"id": tenant, "displayName": "Acme"}))
            .await;
        let other = self.node("n2").await;
        assert_eq!(other.holder(tenant).await.as_deref(), Some("n1"));
        (one, other)
    }

    /// A node that reaches the database at another address.
    pub(crate) async fn node_at(&self, id: &str, url: &str) -> Node {
        self.node_with(id, url, |_| {}).await
    }

    /// A node that takes so many tenants by itself.
    pub(crate) async fn node_with_room(&self, id: &str, capacity: usize) -> Node {
        let room = |settings: &mut Settings| settings.node_capacity = capacity;
        self.node_with(id, &self.url, room).await
    }

    /// A node with other settings.
    pub(crate) async fn node_as(&self, id: &str, change: impl FnOnce(&mut Settings)) -> Node {
        self.node_with(id, &self.url, change).await
    }

    /// A node whose statements go through a pooler. Notices come from the other address, if there is one.
    pub(crate) async fn node_behind(
        &self,
        id: &str,
        pooler: &Pgbouncer,
        listen_url: Option<String>,
    ) -> Node {
        let mut options = database_options(&pooler.url());
        options.listen_url = listen_url.map(Into::into);
        let state = PostgresState::open(&options, id).await.unwrap();
        self.node_over(Arc::new(state), id, |_| {}).await
    }

    async fn node_with(&self, id: &str, url: &str, change: impl FnOnce(&mut Settings)) -> Node {
        self.node_over(open_state(url, id).await, id, change).await
    }

    async fn node_over(
        &self,
        state: Arc<dyn State>,
        id: &str,
        change: impl FnOnce(&mut Settings),
    ) -> Node {
        let directory = self.directory.path().join(id);
        std::fs::create_dir_all(&directory).unwrap();
        let mut settings = Settings::for_directory(&directory).unwrap();
        let objects = self.directory.path().join("objects");
        std::fs::create_dir_all(&objects).unwrap();
        let in_directory = || ObjectSettings::at(format!("file://{}", objects.display()));
        settings.objects = self.objects.clone().unwrap_or_else(in_directory);
        settings.lease_seconds = self.lease_seconds;
        settings.drain_seconds = 5;
        settings.allow_private_webhooks = true;
        change(&mut settings);
        let agents = ScriptedRuntime::new();
        let parts = HubParts {
            state: Arc::clone(&state),
            key: self.key.clone(),
            runtime: agents.clone(),
            settings,
            node: id.to_owned(),
        };
        let site = TestHub::over_state(parts, self.admin.clone()).await;
        Node {
            site,
            state,
            agents,
        }
    }
}

fn database_options(url: &str) -> PostgresOptions {
    PostgresOptions {
        url: url.to_owned().into(),
        listen_url: None,
        max_connections: 6,
        timeout: Duration::from_secs(5),
    }
}

pub(crate) async fn open_state(url: &str, node: &str) -> Arc<dyn State> {
    let options = database_options(url);
    Arc::new(PostgresState::open(&options, node).await.unwrap())
}

impl Node {
    /// Starts a run that does what the script says, and returns its id.
    pub(crate) async fn run(&self, tenant: &str, script: &str) -> String {
        let path = format!("/v1/tenants/{tenant}/runs");
        let run = self.site.post(&path, &json!({"input": script})).await;
        run.expect(202)["runId"].as_str().unwrap().to_owned()
    }

    /// Waits until a run is as it should be.
    pub(crate) async fn run_becomes(&self, tenant: &str, run: &str, status: &str) -> Value {
        let path = format!("/v1/tenants/{tenant}/runs/{run}");
        let mut last = Value::Null;
        let found = eventually_some(TIMEOUT, async || {
            last = self.site.get(&path).await.expect(200);
            (last["status"] == status).then(|| last.clone())
        });
        found
            .await
            .unwrap_or_else(|| panic!("the run stays {last}, not `{status}`"))
    }

    /// Waits until so many events of a run are stored.
    pub(crate) async fn run_has_events(&self, tenant: &str, run: &str, count: u64) {
        let path = format!("/v1/tenants/{tenant}/runs/{run}");
        let stored = eventually_some(TIMEOUT, async || {
            let run = self.site.get(&path).await.expect(200);
            (run["lastEventId"].as_u64() >= Some(count)).then_some(())
        });
        stored.await.expect("the run has no such events");
    }

    /// The names of a run's events, up to its end.
    pub(crate) async fn watch(&self, tenant: &str, run: &str) -> Vec<String> {
        let path = format!("/v1/tenants/{tenant}/runs/{run}/events");
        let request = self
            .site
            .request(&self.site.admin, reqwest::Method::GET, &path);
        let response = tokio::time::timeout(TIMEOUT, async {
            request.send().await.unwrap().text().await.unwrap()
        });
        let text = response.await.expect("the run does not end");
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let names = data.map(|data| {
            let event: Value = serde_json::from_str(data).unwrap();
            event["event"].as_str().unwrap().to_owned()
        });
        names.collect()
    }

    /// Which node works for a tenant.
    pub(crate) async fn holder(&self, tenant: &str) -> Option<String> {
        let tenant = hermes_hub::TenantId::parse(tenant).unwrap();
        let holder = self.state.lease_holder(&tenant).await.unwrap();
        holder.map(|holder| holder.node)
    }
}
