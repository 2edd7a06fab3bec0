//! The audit log: one chain per node, each entry added in the transaction of its effect.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, SqliteConnection, sqlite::SqliteRow};

use super::{
    Affected, SqliteState, WriteTransaction,
    change::{leave_link, take_link},
    commit, idempotency, to_column, write_error,
};
use crate::{
    api_types::{AuditEntry, AuditPhase, Time, ids::hex},
    storage::{
        audit::{
            ChainPosition, NewAuditEntry,
            chain::{self, AppendedEntry, EntryClock},
        },
        state::{
            AUDIT_PORTION, AuditPart, AuditPoint, AuditQuery, AuditStore, ChainCheck, ChainHead,
            Page, Paged, StateError,
            audit::{
                RECORD_HEAD_ACTION,
                verify::{verify_chains, verify_part},
            },
            columns::{ColumnReader, parse_hash},
            records::KeyProgress,
        },
    },
};

mod search;
mod tenant_index;
mod verify;

pub(super) use crate::storage::state::sqlite::audit::tenant_index::UnindexedEntries;
use verify::SqliteChainReader;

/// Each statement is a round trip to the database's thread.
const MAX_ROWS_PER_INSERT: usize = 100;
const PRUNE_ACTION: &str = "prune_audit";

impl SqliteState {
    /// Adds the entry of a change to its transaction, and marks its idempotency key as effective.
    pub(super) async fn append_effect(
        &self,
        write: &mut WriteTransaction<'_>,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let key = entry.idempotency.clone();
        self.append_entry(write, entry, None, None).await?;
        if let Some(key) = key {
            idempotency::mark_progress(write, &key, KeyProgress::Effected).await?;
        }
        Ok(())
    }

    /// Adds the entries of several changes, which have no idempotency keys, to their transaction.
    pub(super) async fn append_effects(
        &self,
        write: &mut WriteTransaction<'_>,
        entries: Vec<NewAuditEntry>,
    ) -> Result<(), StateError> {
        let mut link = match write.take_chain_position() {
            Some(link) => link,
            None => load_chain_position(write, &self.node)
                .await
                .map_err(audit_write_error)?,
        };
        append_entries(write, &self.node, &mut link, entries).await?;
        write.leave_chain_position(link);
        Ok(())
    }

    /// Adds an entry to the transaction; returns its number.
    pub(super) async fn append_entry(
        &self,
        write: &mut WriteTransaction<'_>,
        entry: NewAuditEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
    ) -> Result<u64, StateError> {
        let mut link = match write.take_chain_position() {
            Some(link) => link,
            None => load_chain_position(write, &self.node)
                .await
                .map_err(audit_write_error)?,
        };
        let clock = &mut EntryClock::now();
        let added = link.append(&self.node, &entry, phase, intent, clock)?;
        let row = StoredEntry::new(entry, added, &link);
        insert_entries(write, &self.node, vec![row])
            .await
            .map_err(audit_write_error)?;
        let seq = link.seq;
        write.leave_chain_position(link);
        Ok(seq)
    }
}

struct StoredEntry {
    entry: NewAuditEntry,
    added: AppendedEntry,
    hash: [u8; 32],
}

impl StoredEntry {
    /// The entry that was just appended.
    fn new(entry: NewAuditEntry, added: AppendedEntry, link: &ChainPosition) -> Self {
        Self {
            entry,
            added,
            hash: link.hash,
        }
    }
}

/// Statements for so many rows are kept prepared: to prepare a long one costs as much as to insert some rows. Fewer rows
/// take the next longer statement.
const STATEMENT_ROWS: [usize; 4] = [1, 8, 32, MAX_ROWS_PER_INSERT];
const COLUMNS: usize = 10;

static INSERTS: LazyLock<[Arc<str>; 4]> =
    LazyLock::new(|| STATEMENT_ROWS.map(|rows| insert_statement(rows).into()));

/// The statement for up to so many rows. A row that is not needed has no number.
fn insert_statement(rows: usize) -> String {
    let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"; rows].join(", ");
    let source = match rows {
        1 => format!("VALUES {values}"),
        _ => format!("SELECT * FROM (VALUES {values}) WHERE column2 IS NOT NULL"),
    };
    format!(
        "INSERT INTO audit (chain, seq, time, tenant, actor, action, decision, request_id, text, hash) {source}"
    )
}

async fn insert_entries(
    write: &mut SqliteConnection,
    chain: &str,
    rows: Vec<StoredEntry>,
) -> Result<(), StateError> {
    let longest = STATEMENT_ROWS.len() - 1;
    let fits = STATEMENT_ROWS.iter().position(|&most| rows.len() <= most);
    let index = fits.unwrap_or(longest);
    let sql = Arc::clone(&INSERTS[index]);
    let empty_rows = STATEMENT_ROWS[index].saturating_sub(rows.len());
    let [mut actor, mut action, mut decision] = <[Arc<str>; 3]>::default();
    let chain: Arc<str> = chain.into();
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for StoredEntry { entry, added, hash } in rows {
        query = query
            .bind(Arc::clone(&chain))
            .bind(to_column(added.seq))
            .bind(added.time.millis())
            .bind(entry.tenant)
            .bind(reuse_text(&mut actor, &entry.actor))
            .bind(reuse_text(&mut action, &entry.action))
            .bind(reuse_text(&mut decision, entry.decision.as_str()))
            .bind(entry.request_id)
            .bind(added.text)
            .bind(Vec::from(hash));
    }
    for _ in 0..empty_rows * COLUMNS {
        query = query.bind(None::<i64>);
    }
    query.execute(write).await?;
    Ok(())
}

/// Appends entries to a chain, and stores them.
async fn append_entries(
    write: &mut SqliteConnection,
    chain: &str,
    link: &mut ChainPosition,
    entries: Vec<NewAuditEntry>,
) -> Result<(), StateError> {
    let mut clock = EntryClock::now();
    let mut entries = entries.into_iter().peekable();
    // Written in parts, so that requests are answered in between.
    while entries.peek().is_some() {
        let part = entries.by_ref().take(MAX_ROWS_PER_INSERT);
        let rows: Vec<_> = part
            .map(|entry| {
                let added = link.append(chain, &entry, None, None, &mut clock)?;
                Ok::<_, StateError>(StoredEntry::new(entry, added, link))
            })
            .collect::<Result<_, _>>()?;
        insert_entries(write, chain, rows)
            .await
            .map_err(audit_write_error)?;
    }
    Ok(())
}

/// Reuses the previous text if it is the same: neighbouring entries are mostly alike.
fn reuse_text(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if **last != *text {
        *last = text.into();
    }
    Arc::clone(last)
}

/// An action that cannot be logged is not done.
fn audit_write_error(error: StateError) -> StateError {
    match error {
        full @ StateError::DiskFull(_) => full,
        other => StateError::Unavailable(format!("the audit log: {other}")),
    }
}

/// The end of a chain: its last entry, or the anchor left by pruning.
async fn load_chain_position(
    connection: &mut SqliteConnection,
    chain: &str,
) -> Result<ChainPosition, StateError> {
    let row = sqlx::query(
        "SELECT seq, hash FROM (SELECT seq, hash FROM audit WHERE chain = ?1 ORDER BY seq DESC LIMIT 1)
         UNION ALL SELECT seq, hash FROM audit_anchors WHERE chain = ?1 ORDER BY seq DESC LIMIT 1",
    )
    .bind(chain)
    .fetch_optional(connection)
    .await?;
    row.map_or(Ok(ChainPosition::origin()), |row| position_from_row(&row))
}

fn position_from_row(row: &SqliteRow) -> Result<ChainPosition, StateError> {
    Ok(ChainPosition {
        seq: row.count("seq")?,
        hash: parse_hash(row.bytes("hash")?)?,
    })
}

pub(super) fn entry_from_row(row: &SqliteRow) -> Result<AuditEntry, StateError> {
    Ok(chain::parse_entry(&row.text("text")?, &row.bytes("hash")?)?)
}

#[async_trait]
impl AuditStore for SqliteState {
    async fn append_audit(&self, entries: Vec<NewAuditEntry>) -> Result<(), StateError> {
        if entries.is_empty() {
            return Ok(());
        }
        let added = entries.len() as u64;
        // Only audit entries, so cached reads stay valid.
        let mut write = self.database.begin_in_group().await.map_err(write_error)?;
        let mut link = match take_link(&mut write) {
            Some(link) => link,
            None => load_chain_position(&mut write, &self.node)
                .await
                .map_err(audit_write_error)?,
        };
        append_entries(&mut write, &self.node, &mut link, entries).await?;
        leave_link(&mut write, link);
        write.commit().await.map_err(write_error)?;
        // The entries are already committed; indexing is retried every minute.
        if self.unindexed.add(added)
            && let Err(error) = self.index_entries(AUDIT_PORTION).await
        {
            tracing::debug!(%error, "failed to index audit entries by tenant");
        }
        Ok(())
    }

    async fn audit(
        &self,
        query: &AuditQuery,
        page: &Page,
    ) -> Result<Paged<AuditEntry>, StateError> {
        search::search_entries(self.readers(), query, page).await
    }

    async fn audit_heads(&self) -> Result<Vec<ChainHead>, StateError> {
        let mut connection = self.readers().acquire().await?;
        load_heads(&mut connection).await
    }

    async fn record_heads(&self) -> Result<(), StateError> {
        let mut others = self.audit_heads().await?;
        others.retain(|head| head.chain != self.node);
        let entries = others
            .into_iter()
            .map(|head| {
                NewAuditEntry::by_hub(RECORD_HEAD_ACTION)
                    .with_target(format!("{}:{}:{}", head.chain, head.seq, head.hash))
            })
            .collect();
        self.append_audit(entries).await
    }

    async fn index_audit(&self, least: u64) -> Result<(), StateError> {
        self.index_entries(least).await
    }

    async fn verify_audit(&self) -> Result<Vec<ChainCheck>, StateError> {
        let mut connection = self.readers().acquire().await?;
        let heads = load_heads(&mut connection).await?;
        verify_chains(&mut SqliteChainReader(&mut connection), heads).await
    }

    async fn verify_audit_part(
        &self,
        after: Option<&AuditPoint>,
        most: u32,
    ) -> Result<AuditPart, StateError> {
        // In one read transaction, so that nothing is deleted meanwhile because of its age.
        let mut moment = self.readers().begin().await?;
        let heads = load_heads(&mut moment).await?;
        let mut reader = SqliteChainReader(&mut moment);
        verify_part(&mut reader, after, most, &heads).await
    }

    async fn prune_audit(&self, before: Time) -> Result<u64, StateError> {
        let chains: Vec<String> = sqlx::query_scalar("SELECT chain FROM audit_chains")
            .fetch_all(self.readers())
            .await?;
        let mut pruned = 0;
        for chain in chains {
            pruned += self.prune_chain(&chain, before).await?;
        }
        Ok(pruned)
    }
}

impl SqliteState {
    /// Removes the beginning of a chain, up to the first entry that is recent enough or belongs to an operation in
    /// progress. The last entry always stays.
    async fn prune_chain(&self, chain: &str, before: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let row = sqlx::query(
            "SELECT seq, hash FROM audit WHERE chain = ?1 AND seq < MIN(
                 (SELECT MAX(seq) FROM audit WHERE chain = ?1),
                 IFNULL((SELECT MIN(seq) FROM audit WHERE chain = ?1 AND time >= ?2), 9223372036854775807),
                 IFNULL((SELECT MIN(seq) FROM intents WHERE chain = ?1 AND settled = 0), 9223372036854775807))
             ORDER BY seq DESC LIMIT 1",
        )
        .bind(chain)
        .bind(before.millis())
        .fetch_optional(&mut *write)
        .await?;
        let Some(anchor) = row.map(|row| position_from_row(&row)).transpose()? else {
            return Ok(0);
        };
        crate::storage::state::sqlite::audit::tenant_index::forget_portions(
            &mut write, chain, anchor.seq,
        )
        .await?;
        let removed = sqlx::query("DELETE FROM audit WHERE chain = ?1 AND seq <= ?2")
            .bind(chain)
            .bind(to_column(anchor.seq))
            .execute(&mut *write)
            .await?
            .rows_affected();
        sqlx::query(
            "INSERT INTO audit_anchors (chain, seq, hash) VALUES (?1, ?2, ?3)
             ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        )
        .bind(chain)
        .bind(to_column(anchor.seq))
        .bind(anchor.hash.as_slice())
        .execute(&mut *write)
        .await?;
        let entry = NewAuditEntry::by_hub(PRUNE_ACTION).with_target(format!(
            "{chain}:{}:{}",
            anchor.seq,
            hex(&anchor.hash)
        ));
        self.append_entry(&mut write, entry, None, None).await?;
        commit(write).await?;
        Ok(removed)
    }
}

async fn load_heads(connection: &mut SqliteConnection) -> Result<Vec<ChainHead>, StateError> {
    let chains: Vec<String> =
        sqlx::query_scalar("SELECT chain FROM audit_chains UNION SELECT chain FROM audit_anchors")
            .fetch_all(&mut *connection)
            .await?;
    let mut heads = Vec::new();
    for chain in chains {
        let link = load_chain_position(connection, &chain).await?;
        heads.push(ChainHead {
            chain,
            seq: link.seq,
            hash: hex(&link.hash),
        });
    }
    Ok(heads)
}
