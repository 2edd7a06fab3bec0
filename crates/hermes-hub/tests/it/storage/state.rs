//! The Hub's state, for any database.

mod approvals;
mod audit;
mod audit_index;
mod cron;
mod documents;
mod files;
mod groups;
mod idempotency;
mod mcp_sessions;
mod processes;
mod runs;
mod scale;
mod secrets;
mod tenants;
mod tokens;

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_hub::{
    GroupId, JobId, Problem, RunId, TenantId, TokenId,
    api_types::{Group, GroupKind, KeyKind, NewKey, Role, RunTrigger, TenantStatus, Time, Via},
    storage::{
        audit::NewAuditEntry,
        encryption::SecretKey,
        state::{
            NewRun, NewRuntimeKey, NewSecret, NewTenant, NewToken, SqliteState, State, StateError,
            TenantRecord,
        },
    },
};
use hermes_store::StoreError;
use serde_json::{Map, json};
use tempfile::TempDir;

use crate::storage::state::processes::{hold_lock, run_sql};

/// A new database in a temporary directory.
pub(crate) struct StateFixture {
    pub(crate) directory: TempDir,
    pub(crate) state: Arc<dyn State>,
    pub(crate) key: SecretKey,
}

/// Lets the time of the database go on.
async fn next_millisecond() {
    let now = Time::now();
    while Time::now() == now {
        tokio::task::yield_now().await;
    }
}

impl StateFixture {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hub.db");
        let state: Arc<dyn State> = Arc::new(SqliteState::open(&path, "n1").await.unwrap());
        let key = SecretKey::load(&directory.path().join("secret.key"), &*state)
            .await
            .unwrap();
        Self {
            directory,
            state,
            key,
        }
    }

    /// The same database as another node would open it.
    pub(crate) async fn another_node(&self, node: &str) -> Arc<dyn State> {
        let path = self.directory.path().join("hub.db");
        Arc::new(SqliteState::open(&path, node).await.unwrap())
    }

    /// Closes the database and opens it again.
    pub(crate) async fn reopen(&mut self) {
        self.state.close().await;
        self.state = self.another_node("n1").await;
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
        self.state
            .create_tenant(tenant, entry("create_tenant"))
            .await
            .unwrap()
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

// Opening the database: newer, and locked.

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let fresh = StateFixture::new().await;
    fresh.state.close().await;
    run_sql(&fresh, "PRAGMA user_version = 99").await;
    let path = fresh.directory.path().join("hub.db");
    let before = fs::read(&path).unwrap();
    let refused = SqliteState::open(&path, "n1").await.unwrap_err();
    assert!(matches!(
        refused,
        StoreError::NewerSchema { version: 99, .. }
    ));
    assert!(refused.to_string().contains("newer program"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_unavailable_after_two_seconds() {
    let fresh = StateFixture::new().await;
    fresh.tenant("a").await;
    let holder = hold_lock(&fresh);
    let begun = Instant::now();
    let write = || fresh.state.append_audit(vec![entry("denied")]);
    let several = futures::future::join_all([write(), write(), write()]).await;
    let waited = begun.elapsed();
    for refused in several {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StateError::Unavailable(_)), "{refused}");
        let problem = Problem::from(refused);
        assert_eq!(problem.code.status(), 503);
        assert!(problem.retry_after_ms.is_some());
        assert!(!problem.message.contains("hub.db"), "{}", problem.message);
    }
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    // Two seconds, plus what a busy machine needs.
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    // Reads still work.
    let id = tenant_id("a");
    assert!(fresh.state.tenant(&id).await.unwrap().is_some());
    drop(holder);
    write().await.unwrap();
}
