//! The Hub's state in PostgreSQL, which several nodes share.
//!
//! Reads take a connection of a pool. Writes of this node share transactions on one connection (`group`), so that many
//! of them wait for one commit. Nothing depends on the session of the server: between transactions a pooler may put
//! another one behind a connection.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::{
    ConnectOptions, PgPool, Row,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::sync::watch;

use super::{
    ChangeCount, CheckpointStore, ConnectionCounts, ShareIndexStore, State, StateError,
    columns::to_column, tenant_updates::TenantUpdates,
};
use crate::{TenantId, storage::audit::NewAuditEntry};

mod approvals;
mod audit;
mod checkpoints;
mod commands;
mod console_sessions;
mod cron;
mod documents;
mod env;
mod files;
mod groups;
mod hub_events;
mod idempotency;
mod leases;
mod mcp_sessions;
mod notices;
mod open;
mod overview;
mod provided_skills;
mod queue;
mod retention;
mod runs;
mod schema;
mod seen_changes;
mod server;
mod session;
mod share_index;
mod skill_library;
mod tables;
mod tenants;
mod tokens;
mod usage;
mod webhooks;
mod write_group;
mod writer;

pub use open::{DatabasePosition, PostgresOpenError, PostgresOptions, TablesFound};

use self::{
    server::ServerLink,
    session::Session,
    write_group::{GroupedWrite, WriteGroup},
};

/// Long enough for a busy server, short enough for a caller who waits.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a change waits for its turn.
const MAX_TURN_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct PostgresState {
    readers: PgPool,
    group: Arc<WriteGroup>,
    server: ServerLink,
    /// This node, which has its own audit chain.
    node: String,
    /// The leases this process has taken.
    leases: leases::HeldEpochs,
    notices: notices::NodeNotices,
    changes: seen_changes::ChangeWatch,
    /// Counts events of the Hub that this process has stored, and notices of those that other nodes have.
    event_stored: watch::Sender<u64>,
    /// Changes of tenants that are made together.
    tenant_updates: Arc<TenantUpdates>,
    /// Tenants that are looked up together.
    tenant_lookups: Arc<tenants::TenantLookups>,
}

impl PostgresState {
    fn own_sessions(&self) -> session::OwnSessions {
        session::OwnSessions {
            pool: self.readers.clone(),
            server: self.server.clone(),
        }
    }

    /// A connection to read from.
    async fn read(&self) -> Result<Session, StateError> {
        if self.server.is_pooled {
            let begun = self.readers.begin_with(self.server.begin_read()).await;
            return Ok(Session::in_transaction(
                begun.map_err(session::database_error)?,
                &self.server,
            ));
        }
        self.read_directly().await
    }

    async fn read_directly(&self) -> Result<Session, StateError> {
        Session::reading(&self.readers, &self.server).await
    }

    /// A connection that sees one moment of the database for all that it reads.
    async fn read_moment(&self) -> Result<Session, StateError> {
        let begun = self
            .readers
            .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            .await;
        Ok(Session::in_transaction(
            begun.map_err(session::database_error)?,
            &self.server,
        ))
    }

    /// Begins a change. It shares its commit with others that wait at the same time.
    async fn begin_change(&self) -> Result<GroupedWrite, StateError> {
        let begun = write_group::begin(&self.group);
        match tokio::time::timeout(MAX_TURN_WAIT.max(self.server.timeout), begun).await {
            Ok(begun) => begun,
            Err(_) => Err(StateError::Unavailable(
                "no write could begin in time".into(),
            )),
        }
    }
}

/// Pools for these options: of many connections to read, of those to write.
fn open_pools(
    options: &PgConnectOptions,
    max_connections: u32,
    server: &ServerLink,
) -> [PgPool; 2] {
    let mut options = options.clone().disable_statement_logging();
    if !server.is_pooled {
        // A pooler takes no options, and its transactions have the same.
        let milliseconds = server.timeout.as_millis().to_string();
        options = options.options([("statement_timeout", milliseconds)]);
    }
    let pool = |connections: u32| {
        let server = server.clone();
        let mut pool = PgPoolOptions::new()
            .max_connections(connections.max(1))
            .min_connections(0)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .idle_timeout(Duration::from_mins(5))
            .max_lifetime(Duration::from_hours(1));
        if server.is_pooled {
            // A transaction that was left is rolled back here; a server that does not answer loses the connection.
            pool = pool.after_release(|connection, _| {
                Box::pin(async move {
                    use sqlx::Connection as _;
                    match tokio::time::timeout(ACQUIRE_TIMEOUT, connection.ping()).await {
                        Ok(answered) => answered.map(|()| true),
                        Err(_) => Err(sqlx::Error::PoolTimedOut),
                    }
                })
            });
        }
        // What other connections have found out is enough, unless this one was idle for long.
        pool = pool.before_acquire(move |connection, known| {
            let server = server.clone();
            Box::pin(async move {
                use sqlx::Connection as _;
                if !server.may_use(known.age) {
                    return Ok(false);
                }
                let Some(limit) = server.ping_timeout(known.idle_for) else {
                    return Ok(true);
                };
                let is_there = matches!(
                    tokio::time::timeout(limit, connection.ping()).await,
                    Ok(Ok(()))
                );
                if !is_there {
                    // Those that were made before need not be asked one by one.
                    server.mark_replaced();
                }
                Ok(is_there)
            })
        });
        pool.connect_lazy_with(options.clone())
    };
    // The writer may need another one while the last is still being closed.
    [pool(max_connections.saturating_sub(2)), pool(2)]
}

/// Text without the one character that PostgreSQL does not store.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn optional_storable(text: Option<&String>) -> Option<String> {
    text.map(|text| storable(text))
}

#[async_trait]
impl State for PostgresState {
    async fn catch_up(&self) -> Result<(), StateError> {
        self.changes.catch_up().await
    }

    fn changes_of(&self, tenant: &TenantId) -> Option<ChangeCount> {
        Some(self.changes.seen().of_tenant(tenant.as_str()))
    }

    fn token_changes(&self) -> Option<u64> {
        Some(self.changes.seen().of_tokens())
    }

    fn document_changes(&self) -> Option<u64> {
        Some(self.changes.seen().of_documents())
    }

    fn skill_changes(&self) -> Option<u64> {
        Some(self.changes.seen().of_skills())
    }

    async fn ping(&self) -> Result<(), StateError> {
        let mut session = self.read().await?;
        session.one(sqlx::query("SELECT 1")).await?;
        Ok(())
    }

    fn connections(&self) -> ConnectionCounts {
        let (open, idle) = self.group.connections();
        ConnectionCounts {
            open: u64::from(self.readers.size() + open),
            idle: (self.readers.num_idle() + idle) as u64,
        }
    }

    fn share_index(&self) -> Option<Arc<dyn ShareIndexStore>> {
        Some(Arc::new(share_index::PostgresShareIndex {
            sessions: self.own_sessions(),
        }))
    }

    fn checkpoint_rows(&self) -> Option<Arc<dyn CheckpointStore>> {
        Some(Arc::new(checkpoints::PostgresCheckpoints {
            sessions: self.own_sessions(),
            node: self.node.clone(),
        }))
    }

    async fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let query = sqlx::query("SELECT value FROM meta WHERE name = $1").bind(name);
        let row = self.read().await?.optional(query).await?;
        Ok(row.map(|row| row.try_get("value")).transpose()?)
    }

    async fn set_meta(&self, name: &str, value: &[u8]) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        write
            .execute(
                sqlx::query(
                    "INSERT INTO meta (name, value) VALUES ($1, $2)
                     ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                )
                .bind(name)
                .bind(value),
            )
            .await?;
        write.commit().await
    }

    async fn init_meta(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StateError> {
        let mut write = self.begin_change().await?;
        // The update changes nothing; it makes the stored row the one that is returned.
        let insert = sqlx::query(
            "INSERT INTO meta (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = meta.value RETURNING value",
        );
        let row = write.one(insert.bind(name).bind(value)).await?;
        write.commit().await?;
        Ok(row.try_get("value")?)
    }

    async fn has_encrypted(&self) -> Result<bool, StateError> {
        let query = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM env) OR EXISTS (SELECT 1 FROM tenants WHERE key_sealed IS NOT NULL)
                 OR EXISTS (SELECT 1 FROM webhooks WHERE sealed IS NOT NULL)",
        );
        Ok(self.read().await?.one(query).await?.try_get(0)?)
    }

    async fn delete_encrypted(&self, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        for sql in [
            "DELETE FROM env",
            // Without its secret nothing can be signed.
            "UPDATE webhooks SET sealed = NULL, enabled = FALSE, revision = revision + 1",
            // Stored replies may contain secrets and are encrypted, too.
            "DELETE FROM idempotency",
            "UPDATE tenants SET key_hash = NULL, key_sealed = NULL, key_last4 = NULL, key_rotated_at = NULL,
                 old_key_hash = NULL, old_key_until = NULL, generation = generation + 1, revision = revision + 1",
        ] {
            write.execute(sqlx::query(sql)).await?;
        }
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn close(&self) {
        self.notices.close().await;
        self.changes.close().await;
        self.group.close().await;
        self.readers.close().await;
    }
}
