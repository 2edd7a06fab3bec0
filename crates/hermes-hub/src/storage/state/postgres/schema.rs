//! The tables: their version, and migrations to the present one.
//!
//! A migration is one transaction under a lock of the version's table, so that a node that is killed in the middle of it
//! leaves nothing, neither a table nor the lock, and nodes that start together migrate one after the other. A version
//! says since which one programs can work with it: they run on, while others are replaced by newer ones.

use std::time::Duration;

use sqlx::{PgPool, Row};

use super::{
    PostgresOpenError, TablesFound,
    server::ServerLink,
    session::{Session, database_error, is_duplicate},
};
use crate::storage::state::StateError;

/// Migrations, in order. A released one is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../../migrations/postgres/0001.sql"),
    include_str!("../../../../migrations/postgres/0002.sql"),
    include_str!("../../../../migrations/postgres/0003.sql"),
    include_str!("../../../../migrations/postgres/0004.sql"),
    include_str!("../../../../migrations/postgres/0005.sql"),
    include_str!("../../../../migrations/postgres/0006.sql"),
    include_str!("../../../../migrations/postgres/0007.sql"),
    include_str!("../../../../migrations/postgres/0008.sql"),
    include_str!("../../../../migrations/postgres/0009.sql"),
    include_str!("../../../../migrations/postgres/0010.sql"),
    include_str!("../../../../migrations/postgres/0011.sql"),
    include_str!("../../../../migrations/postgres/0012.sql"),
    include_str!("../../../../migrations/postgres/0013.sql"),
    include_str!("../../../../migrations/postgres/0014.sql"),
];
/// Programs that know this version can work with the present one.
const READABLE_SINCE: i64 = 1;
/// The oldest version that can be migrated.
const OLDEST_VERSION: i64 = 1;
/// A migration of large tables takes time, and nodes wait for it.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(30);

const CREATE_VERSION: &str = "CREATE TABLE IF NOT EXISTS hub_schema (
    only_one BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_one),
    version BIGINT NOT NULL,
    readable_since BIGINT NOT NULL
)";

fn latest_version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Whether the tables are there, and of the version of this program. Changes nothing.
pub(super) async fn look(
    pool: &PgPool,
    server: &ServerLink,
) -> Result<TablesFound, PostgresOpenError> {
    Ok(match current_version(pool, server).await? {
        None => TablesFound::None,
        Some(version) if version < latest_version() => TablesFound::Older,
        Some(_) => TablesFound::Current,
    })
}

/// Brings the tables to the version of this program, or refuses them.
pub(super) async fn migrate(pool: &PgPool, server: &ServerLink) -> Result<(), PostgresOpenError> {
    let latest = latest_version();
    if current_version(pool, server).await? == Some(latest) {
        return Ok(());
    }
    create_version_table(pool, server).await?;
    for (script, version) in MIGRATIONS.iter().zip(1..) {
        migrate_to(pool, server, version, script).await?;
    }
    Ok(())
}

/// `None` for an empty database.
pub(super) async fn current_version(
    pool: &PgPool,
    server: &ServerLink,
) -> Result<Option<i64>, PostgresOpenError> {
    let mut session = begin(pool, server).await?;
    let known = sqlx::query("SELECT to_regclass('hub_schema') IS NOT NULL");
    let is_known: bool = session
        .one(known)
        .await?
        .try_get(0)
        .map_err(StateError::from)?;
    if !is_known {
        return Ok(None);
    }
    read_version(&mut session).await
}

/// The version, if this program can work with it or migrate it.
async fn read_version(session: &mut Session) -> Result<Option<i64>, PostgresOpenError> {
    let query = sqlx::query("SELECT version, readable_since FROM hub_schema");
    let Some(row) = session.optional(query).await? else {
        return Ok(None);
    };
    let (version, readable_since): (i64, i64) = (
        row.try_get("version").map_err(StateError::from)?,
        row.try_get("readable_since").map_err(StateError::from)?,
    );
    let known = latest_version();
    if version > known && readable_since > known {
        return Err(PostgresOpenError::NewerSchema { version, known });
    }
    if version < OLDEST_VERSION {
        return Err(PostgresOpenError::OlderSchema {
            version,
            oldest: OLDEST_VERSION,
        });
    }
    // A newer one that this program can work with counts as the present one.
    Ok(Some(version.min(known)))
}

async fn create_version_table(pool: &PgPool, server: &ServerLink) -> Result<(), PostgresOpenError> {
    for attempt in 0.. {
        let mut session = begin(pool, server).await?;
        match session.execute(sqlx::query(CREATE_VERSION)).await {
            // Another node makes it at the same time.
            Err(error) if is_made_by_another(&error) && attempt < 5 => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                session.commit().await?;
                break;
            }
        }
    }
    Ok(())
}

/// `IF NOT EXISTS` does not keep two from making the same table, its type or its entry in the catalogue at once.
fn is_made_by_another(error: &StateError) -> bool {
    let codes = ["(42P07)", "(42710)"];
    is_duplicate(error)
        || matches!(error, StateError::Broken(text) if codes.iter().any(|code| text.ends_with(code)))
}

async fn migrate_to(
    pool: &PgPool,
    server: &ServerLink,
    version: i64,
    script: &'static str,
) -> Result<(), PostgresOpenError> {
    let mut session = begin(pool, server).await?;
    session
        .run_script(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
             SET LOCAL idle_in_transaction_session_timeout = '60s';
             LOCK TABLE hub_schema IN EXCLUSIVE MODE",
            MIGRATION_TIMEOUT,
        )
        .await?;
    let before = read_version(&mut session).await?;
    if before.is_some_and(|before| before >= version) {
        return Ok(());
    }
    tracing::info!(version, "migrating the database");
    session.run_script(script, MIGRATION_TIMEOUT).await?;
    let store = sqlx::query(
        "INSERT INTO hub_schema (version, readable_since) VALUES ($1, $2)
         ON CONFLICT (only_one) DO UPDATE SET version = excluded.version, readable_since = excluded.readable_since",
    );
    session
        .execute(store.bind(version).bind(READABLE_SINCE.min(version)))
        .await?;
    session.commit().await?;
    Ok(())
}

pub(super) async fn begin(pool: &PgPool, server: &ServerLink) -> Result<Session, StateError> {
    let begun = pool.begin().await.map_err(database_error)?;
    Ok(Session::in_transaction(begun, server))
}
