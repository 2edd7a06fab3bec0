//! Opening the database: its address, whether a pooler is in between, its version, and where it is now.

use std::{fmt, str::FromStr, time::Duration};

use hermes_config::Secret;
use sqlx::{Connection, PgConnection, PgPool, Row, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::{
    PostgresState,
    leases::HeldEpochs,
    notices::NodeNotices,
    open_pools,
    schema::{self, begin, current_version},
    seen_changes::ChangeWatch,
    server::ServerLink,
    session::{OwnSessions, database_error},
    tenants::TenantLookups,
    write_group::WriteGroup,
    writer::Writer,
};
use crate::{
    api_types::Time,
    storage::state::{StateError, tenant_updates::TenantUpdates},
};

/// Older versions are not tested.
const OLDEST_SERVER: u32 = 130_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Comparisons until two connections count as two sessions of the server.
const POOLER_PROBES: usize = 4;

/// Where the database is.
#[derive(Clone)]
pub struct PostgresOptions {
    /// May have a password.
    pub url: Secret<String>,
    /// The server itself, where `url` leads to a pooler: it does not pass notices on.
    pub listen_url: Option<Secret<String>>,
    /// Of this node.
    pub max_connections: u32,
    /// How long a statement may take.
    pub timeout: Duration,
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

impl PostgresState {
    /// Connects and looks, without changing anything.
    pub async fn look(options: &PostgresOptions) -> Result<TablesFound, PostgresOpenError> {
        let address = parse_address(options.url.expose())?;
        let server = ServerLink::new(is_behind_pooler(&address).await?, options.timeout);
        let [readers, writer] = open_pools(&address, options.max_connections, &server);
        let found = schema::look(&writer, &server).await;
        readers.close().await;
        writer.close().await;
        found
    }

    /// Where the database is now, without changing anything; `None` where it has no tables of a Hub.
    pub async fn position(
        options: &PostgresOptions,
    ) -> Result<Option<DatabasePosition>, PostgresOpenError> {
        let address = parse_address(options.url.expose())?;
        let server = ServerLink::new(is_behind_pooler(&address).await?, options.timeout);
        let [readers, writer] = open_pools(&address, options.max_connections, &server);
        let found = read_position(&writer, &server).await;
        readers.close().await;
        writer.close().await;
        found
    }

    /// Opens the database; creates or migrates its tables.
    pub async fn open(options: &PostgresOptions, node: &str) -> Result<Self, PostgresOpenError> {
        let address = parse_address(options.url.expose())?;
        let server = ServerLink::new(is_behind_pooler(&address).await?, options.timeout);
        if server.is_pooled {
            tracing::info!("connection pooler in transaction mode detected");
        }
        let [readers, writer] = open_pools(&address, options.max_connections, &server);
        schema::migrate(&writer, &server).await?;
        let listen_address = match &options.listen_url {
            Some(url) => Some(parse_address(url.expose())?),
            None => Some(address).filter(|_| !server.is_pooled),
        };
        let sessions = OwnSessions {
            pool: readers.clone(),
            server: server.clone(),
        };
        let event_stored = tokio::sync::watch::Sender::new(0);
        Ok(Self {
            readers,
            group: WriteGroup::new(Writer::new(writer, server.clone())),
            server,
            node: node.to_owned(),
            leases: HeldEpochs::default(),
            notices: NodeNotices::new(listen_address, options.timeout, event_stored.clone()),
            changes: ChangeWatch::new(sessions, options.max_connections),
            event_stored,
            tenant_updates: TenantUpdates::new(),
            tenant_lookups: TenantLookups::new(),
        })
    }
}

/// What the driver takes. Poolers do not know the number of digits of fractions, and nothing here has any.
pub(super) fn parse_address(url: &str) -> Result<PgConnectOptions, PostgresOpenError> {
    let options = PgConnectOptions::from_str(url).map_err(|_| PostgresOpenError::Address)?;
    Ok(options
        .extra_float_digits(None)
        .application_name("hermes-hub"))
}

async fn connect(address: &PgConnectOptions) -> Result<PgConnection, PostgresOpenError> {
    match timeout(CONNECT_TIMEOUT, PgConnection::connect_with(address)).await {
        Ok(connected) => Ok(connected.map_err(database_error)?),
        Err(_) => Err(StateError::Unavailable("the server does not answer".into()).into()),
    }
}

/// Whether transactions of one connection are answered by several sessions of the server, or one session answers
/// several connections. Also refuses a server that is too old.
async fn is_behind_pooler(address: &PgConnectOptions) -> Result<bool, PostgresOpenError> {
    let (mut one, mut other) = (connect(address).await?, connect(address).await?);
    if let Some(version) = one.server_version_num()
        && version < OLDEST_SERVER
    {
        return Err(PostgresOpenError::OldServer { version });
    }
    let first = session_id(&mut one).await?;
    let mut is_pooled = false;
    for _ in 0..POOLER_PROBES {
        is_pooled |= session_id(&mut other).await? == first || session_id(&mut one).await? != first;
    }
    for connection in [one, other] {
        // Its purpose is fulfilled.
        let _ = timeout(CONNECT_TIMEOUT, connection.close()).await;
    }
    Ok(is_pooled)
}

/// The process of the server that answers. Without a prepared statement, which a pooler may not find again.
async fn session_id(connection: &mut PgConnection) -> Result<String, StateError> {
    use sqlx::{Executor as _, Row as _};
    let asked = connection.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()::text"));
    match timeout(CONNECT_TIMEOUT, asked).await {
        Ok(row) => Ok(row.map_err(database_error)?.try_get(0)?),
        Err(_) => Err(StateError::Unavailable("the server does not answer".into())),
    }
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// Without the address, which may have a password.
    #[error(
        "the address is not one of a PostgreSQL database; write `postgres://user@host/database`"
    )]
    Address,
    #[error(
        "the server is PostgreSQL {}; version 13 or newer is needed",
        version / 10_000
    )]
    OldServer {
        /// As the server numbers it.
        version: u32,
    },
    #[error(
        "the database was migrated to version {version} by a newer program; this one knows version {known}. Start the newer program, or restore a backup that was made before"
    )]
    NewerSchema { version: i64, known: i64 },
    #[error(
        "the database has version {version}, and this program migrates from version {oldest} on; start an earlier release first, which migrates it"
    )]
    OlderSchema { version: i64, oldest: i64 },
    #[error(transparent)]
    State(#[from] StateError),
}

/// What a database has of the Hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TablesFound {
    /// The next start makes them.
    None,
    /// The next start migrates them.
    Older,
    Current,
}

/// A position of the database. Everything that was committed before is before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabasePosition {
    /// By the clock of the server.
    pub time: Time,
    /// The server that writes the log, and its copies.
    pub system: String,
    pub timeline: i64,
    /// In the write-ahead log.
    pub wal: String,
    /// The version of the tables.
    pub tables: i64,
}

/// A copy that only reads has no position of its own.
const POSITION: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS time,
     (SELECT system_identifier::text FROM pg_control_system()) AS system,
     (SELECT timeline_id::bigint FROM pg_control_checkpoint()) AS timeline,
     (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)::text AS wal";

/// `None` where there are no tables.
pub(super) async fn read_position(
    pool: &PgPool,
    server: &ServerLink,
) -> Result<Option<DatabasePosition>, PostgresOpenError> {
    let Some(tables) = current_version(pool, server).await? else {
        return Ok(None);
    };
    let mut session = begin(pool, server).await?;
    let row = session.one(sqlx::query(POSITION)).await?;
    let read = || {
        Ok::<_, sqlx::Error>(DatabasePosition {
            time: Time::from_millis(row.try_get("time")?),
            system: row.try_get("system")?,
            timeline: row.try_get("timeline")?,
            wal: row.try_get("wal")?,
            tables,
        })
    };
    Ok(Some(read().map_err(StateError::from)?))
}
