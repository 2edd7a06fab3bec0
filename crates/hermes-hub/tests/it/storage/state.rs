//! The Hub's state, for any database.

mod approvals;
mod audit;
mod audit_index;
mod console_sessions;
mod cron;
mod documents;
mod files;
mod groups;
mod hub_events;
mod idempotency;
mod mcp_sessions;
mod overview;
pub(crate) mod processes;
mod runs;
mod scale;
mod secrets;
mod skill_library;
mod sqlite_file;
mod tenant_updates;
mod tenants;
mod tokens;
mod usage;
mod webhooks;

use std::{path::Path, sync::Arc, time::Duration};

use hermes_config::Secret;
use hermes_hub::{
    GroupId, JobId, RunId, TenantId, TokenId,
    api_types::{Group, GroupKind, KeyKind, NewKey, Role, RunTrigger, TenantStatus, Time, Via},
    storage::{
        audit::NewAuditEntry,
        encryption::SecretKey,
        state::{
            LEASE_LOST, NewRun, NewRuntimeKey, NewSecret, NewTenant, NewToken, Page,
            PostgresOptions, PostgresState, SqliteState, State, StateError, TenantQuery,
            TenantRecord,
        },
    },
};
use hermes_testkit::postgres::TestDatabase;
use serde_json::{Map, json};
use tempfile::TempDir;

/// A new database, of the kind that the test is for.
pub(crate) struct StateFixture {
    pub(crate) directory: TempDir,
    pub(crate) state: Arc<dyn State>,
    pub(crate) key: SecretKey,
    /// The database, if it is not a file of the directory.
    pub(crate) database: Option<TestDatabase>,
}

/// Whether a test is for PostgreSQL: it is in a module of that name, or all of them are.
pub(crate) fn is_on_postgres() -> bool {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    let is_about_files = ABOUT_FILES.iter().any(|module| test.contains(module));
    let are_all =
        std::env::var_os("HERMES_TEST_HUB_DATABASE").is_some_and(|kind| kind == "postgres");
    test.contains("on_postgres") || (are_all && !is_about_files)
}

/// What is about an SQLite file or the directory of a share or of a home, whatever the other tests are about.
const ABOUT_FILES: [&str; 8] = [
    "::audit_index::",
    "::backup::",
    "::crash_recovery::at_whatever_stage_a_hub_is_killed",
    "::processes::",
    "::reply_consistency::",
    "::scale::",
    "::sqlite_file::",
    "::a_tenant_whose_home_is_gone_has_failed",
];

/// In the cluster of the version that the test is for.
fn create_database() -> TestDatabase {
    let thread = std::thread::current();
    if thread.name().unwrap_or_default().contains("on_postgres_18") {
        TestDatabase::create_18()
    } else {
        TestDatabase::create()
    }
}

pub(crate) async fn open_postgres(url: String, node: &str) -> Arc<dyn State> {
    open_postgres_with(url, node, 5, Duration::from_secs(5)).await
}

pub(crate) async fn open_postgres_with(
    url: String,
    node: &str,
    max_connections: u32,
    timeout: Duration,
) -> Arc<dyn State> {
    let options = PostgresOptions {
        url: Secret::new(url),
        listen_url: None,
        max_connections,
        timeout,
    };
    Arc::new(PostgresState::open(&options, node).await.unwrap())
}

/// Lets the time of the database go on.
pub(crate) async fn next_millisecond() {
    let now = Time::now();
    while Time::now() == now {
        tokio::task::yield_now().await;
    }
}

impl StateFixture {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = is_on_postgres().then(create_database);
        let state = open_state(directory.path(), database.as_ref(), "n1").await;
        let key = SecretKey::load(&directory.path().join("secret.key"), &*state)
            .await
            .unwrap();
        Self {
            directory,
            state,
            key,
            database,
        }
    }

    /// The same database as another node would open it.
    pub(crate) async fn another_node(&self, node: &str) -> Arc<dyn State> {
        open_state(self.directory.path(), self.database.as_ref(), node).await
    }

    /// Has a node work for a tenant from now on.
    pub(crate) async fn hand_over(&self, tenant: &TenantId, node: &dyn State) {
        if let Some(database) = &self.database {
            database.run_sql(&format!(
                "UPDATE leases SET node = NULL WHERE tenant = '{tenant}'"
            ));
        }
        hold_lease(node, tenant).await;
    }

    /// Closes the database and opens it again.
    pub(crate) async fn reopen(&mut self) {
        self.state.close().await;
        self.state = self.another_node("n1").await;
        let (all, page) = (TenantQuery::default(), Page::first(500));
        let tenants = self.state.tenants(&all, &page).await.unwrap();
        for tenant in tenants.items {
            self.hand_over(&tenant.id, &*self.state).await;
        }
    }

    pub(crate) fn new_tenant(&self, id: &str) -> NewTenant {
        let uid = hermes_hub::api_types::new_uid().unwrap();
        let key = NewKey::random(KeyKind::Runtime).unwrap();
        NewTenant {
            id: tenant_id(id),
            runtime_key: NewRuntimeKey::encrypt(&self.key, &uid, &key, None).unwrap(),
            uid,
            display_name: format!("Tenant {id}"),
            status: TenantStatus::Ready,
            flavor: "standard".into(),
            agent: Map::new(),
            storage: Map::new(),
            browser: Map::new(),
            groups: Vec::new(),
            labels: [("team".to_owned(), "blue".to_owned())].into(),
            linked_home: None,
            env: Vec::new(),
        }
    }

    pub(crate) async fn tenant(&self, id: &str) -> TenantRecord {
        let tenant = self.new_tenant(id);
        let made = self
            .state
            .create_tenant(tenant, entry("create_tenant"))
            .await
            .unwrap();
        hold_lease(&*self.state, &made.id).await;
        made
    }

    pub(crate) async fn group(&self, id: &str) -> GroupId {
        let group = Group {
            id: GroupId::parse(id).unwrap(),
            display_name: id.to_uppercase(),
            kind: GroupKind::Team,
            quota_bytes: 0,
        };
        self.state
            .create_group(group, entry("create_group"))
            .await
            .unwrap()
            .group
            .id
    }

    pub(crate) async fn run(&self, tenant: &TenantId) -> RunId {
        let run = new_run(tenant);
        let id = run.id.clone();
        self.state
            .create_run(run, 100, entry("create_run"))
            .await
            .unwrap();
        id
    }

    pub(crate) async fn token(&self, role: Role) -> (TokenId, NewKey) {
        let (token, key) = new_token(role);
        let id = token.id.clone();
        self.state
            .create_token(token, entry("create_token"))
            .await
            .unwrap();
        (id, key)
    }
}

async fn open_state(
    directory: &Path,
    database: Option<&TestDatabase>,
    node: &str,
) -> Arc<dyn State> {
    match database {
        Some(database) => open_postgres(database.url(), node).await,
        None => Arc::new(
            SqliteState::open(&directory.join("hub.db"), node)
                .await
                .unwrap(),
        ),
    }
}

/// What a node that does not hold the lease has achieved: nothing.
pub(crate) fn or_lease_lost<T: Default>(done: Result<T, StateError>) -> T {
    match done {
        Err(StateError::Conflict { reason, .. }) if reason == LEASE_LOST => T::default(),
        done => done.unwrap(),
    }
}

/// What is written for a tenant needs its lease.
pub(crate) async fn hold_lease(state: &dyn State, tenant: &TenantId) {
    let held = state
        .claim_leases(std::slice::from_ref(tenant), Duration::from_hours(1))
        .await
        .unwrap();
    assert_eq!(held.len(), 1, "the lease of {tenant} is not free");
}

pub(crate) fn entry(action: &str) -> NewAuditEntry {
    NewAuditEntry::new("tok_1", Via::Rest, action)
}

pub(crate) fn tenant_id(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

pub(crate) fn job_id(id: &str) -> JobId {
    JobId::parse(id).unwrap()
}

pub(crate) fn new_run(tenant: &TenantId) -> NewRun {
    NewRun {
        id: RunId::random().unwrap(),
        tenant: tenant.clone(),
        trigger: RunTrigger::Api,
        request: json!({ "input": "Hi" }),
        job: None,
        metadata: Map::new(),
        timeout_seconds: Some(600),
        retry_interrupted: false,
    }
}

pub(crate) fn new_token(role: Role) -> (NewToken, NewKey) {
    let key = NewKey::random(KeyKind::Management).unwrap();
    let token = NewToken {
        id: TokenId::random().unwrap(),
        name: "ci".into(),
        role: Some(role),
        scopes: Vec::new(),
        tenants: None,
        cidrs: Vec::new(),
        expires_at: None,
        secret: NewSecret {
            hash: key.hash,
            last4: key.last4.clone(),
            grace_until: None,
        },
    };
    (token, key)
}
