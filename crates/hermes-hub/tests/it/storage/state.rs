//! The Hub's state, for any database.

use std::sync::Arc;

use hermes_hub::{
    GroupId, JobId, RunId, TenantId, TokenId,
    api_types::{Group, GroupKind, KeyKind, NewKey, Role, RunTrigger, TenantStatus, Time, Via},
    storage::{
        audit::NewAuditEntry,
        encryption::SecretKey,
        state::{
            NewRun, NewRuntimeKey, NewSecret, NewTenant, NewToken, SqliteState, State, TenantRecord,
        },
    },
};
use serde_json::{Map, json};
use tempfile::TempDir;

mod approvals;
mod audit;
mod audit_index;
mod cron;
mod documents;
mod files;
mod groups;
mod idempotency;
mod mcp_sessions;
mod opening;
mod processes;
mod runs;
mod scale;
mod secrets;
mod tenants;
mod tokens;

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
