//! The audit log: one chain per node, each entry added in the transaction of its effect.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, sqlite::SqliteRow};

use super::{
    Affected, Change, SqliteState,
    change::{leave_link, take_link},
    column, commit,
    idempotency::{self, Progress},
    row::{Columns, hash},
    unwritable,
};
use crate::{
    audit::{Link, NewEntry, chain},
    ids::hex,
    shapes::{AuditEntry, AuditPhase, Time},
    state::{AUDIT_PORTION, AuditLog, AuditQuery, ChainCheck, ChainHead, Page, Paged, StateError},
};

mod filing;
mod search;
mod verify;

pub(super) use self::filing::Unfiled;

/// Each statement is a round trip to the database's thread.
const AT_ONCE: usize = 100;
/// The audit action for heads of other chains.
const RECORD_HEAD: &str = "record_chain_head";
const PRUNE: &str = "prune_audit";

impl SqliteState {
    /// Adds the entry of a change to its transaction, and marks its idempotency key as effective.
    pub(super) async fn effect(
        &self,
        write: &mut Change<'_>,
        entry: NewEntry,
    ) -> Result<(), StateError> {
        let key = entry.idempotency.clone();
        self.append(write, entry, None, None).await?;
        if let Some(key) = key {
            idempotency::mark(write, &key, Progress::Effected).await?;
        }
        Ok(())
    }

    /// Adds an entry to the transaction; returns its number.
    pub(super) async fn append(
        &self,
        write: &mut Change<'_>,
        entry: NewEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
    ) -> Result<u64, StateError> {
        let mut link = match write.take_link() {
            Some(link) => link,
            None => head(write, &self.node).await.map_err(unlogged)?,
        };
        let row = StoredEntry::next(&mut link, &self.node, entry, phase, intent)?;
        insert(write, vec![row]).await.map_err(unlogged)?;
        let seq = link.seq;
        write.leave_link(link);
        Ok(seq)
    }
}

struct StoredEntry {
    entry: AuditEntry,
    text: String,
    hash: [u8; 32],
}

impl StoredEntry {
    /// The entry after this position, to which the position advances.
    fn next(
        link: &mut Link,
        node: &str,
        entry: NewEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
    ) -> Result<Self, StateError> {
        let (entry, text) = link.add(node, entry, phase, intent)?;
        Ok(Self {
            entry,
            text,
            hash: link.hash,
        })
    }
}

async fn insert(write: &mut SqliteConnection, rows: Vec<StoredEntry>) -> Result<(), StateError> {
    // Only the two common lengths are worth a prepared statement.
    let lasting = matches!(rows.len(), 1 | AT_ONCE);
    let [mut chain, mut actor, mut action, mut decision] = <[Arc<str>; 4]>::default();
    let mut sql = QueryBuilder::<Sqlite>::new(
        "INSERT INTO audit (chain, seq, time, tenant, actor, action, decision, request_id, text, hash) ",
    );
    sql.push_values(rows, |mut values, StoredEntry { entry, text, hash }| {
        values
            .push_bind(shared(&mut chain, &entry.chain))
            .push_bind(column(entry.seq))
            .push_bind(entry.time.millis())
            .push_bind(entry.tenant)
            .push_bind(shared(&mut actor, &entry.actor))
            .push_bind(shared(&mut action, &entry.action))
            .push_bind(shared(&mut decision, entry.decision.word()))
            .push_bind(entry.request_id)
            .push_bind(text)
            .push_bind(Vec::from(hash));
    });
    sql.build().persistent(lasting).execute(write).await?;
    Ok(())
}

/// Reuses the previous text if it is the same: neighbouring entries are mostly alike.
fn shared(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if **last != *text {
        *last = text.into();
    }
    Arc::clone(last)
}

/// An action that cannot be logged is not done.
fn unlogged(error: StateError) -> StateError {
    match error {
        full @ StateError::DiskFull(_) => full,
        other => StateError::Unavailable(format!("the audit log: {other}")),
    }
}

/// The end of a chain: its last entry, or the anchor left by pruning.
async fn head(connection: &mut SqliteConnection, chain: &str) -> Result<Link, StateError> {
    let row = sqlx::query(
        "SELECT seq, hash FROM (SELECT seq, hash FROM audit WHERE chain = ?1 ORDER BY seq DESC LIMIT 1)
         UNION ALL SELECT seq, hash FROM audit_anchors WHERE chain = ?1 ORDER BY seq DESC LIMIT 1",
    )
    .bind(chain)
    .fetch_optional(connection)
    .await?;
    row.map_or(Ok(Link::origin()), |row| link(&row))
}

fn link(row: &SqliteRow) -> Result<Link, StateError> {
    Ok(Link {
        seq: row.count("seq")?,
        hash: hash(row.bytes("hash")?)?,
    })
}

pub(super) fn entry(row: &SqliteRow) -> Result<AuditEntry, StateError> {
    Ok(chain::parse(&row.text("text")?, &row.bytes("hash")?)?)
}

#[async_trait]
impl AuditLog for SqliteState {
    async fn append_audit(&self, entries: Vec<NewEntry>) -> Result<(), StateError> {
        if entries.is_empty() {
            return Ok(());
        }
        let added = entries.len() as u64;
        // Only audit entries, so cached reads stay valid.
        let mut write = self.database.begin_in_group().await.map_err(unwritable)?;
        let mut link = match take_link(&mut write) {
            Some(link) => link,
            None => head(&mut write, &self.node).await.map_err(unlogged)?,
        };
        let mut entries = entries.into_iter().peekable();
        // Written in parts, so that requests are answered in between.
        while entries.peek().is_some() {
            let part = entries.by_ref().take(AT_ONCE);
            let rows: Vec<_> = part
                .map(|entry| StoredEntry::next(&mut link, &self.node, entry, None, None))
                .collect::<Result<_, _>>()?;
            insert(&mut write, rows).await.map_err(unlogged)?;
        }
        leave_link(&mut write, link);
        write.commit().await.map_err(unwritable)?;
        // The entries are already committed; indexing is retried every minute.
        if self.unfiled.are_many(added)
            && let Err(error) = self.file_entries(AUDIT_PORTION).await
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
        search::search(self.readers(), query, page).await
    }

    async fn audit_heads(&self) -> Result<Vec<ChainHead>, StateError> {
        let mut connection = self.readers().acquire().await?;
        heads(&mut connection).await
    }

    async fn record_heads(&self) -> Result<(), StateError> {
        let mut others = self.audit_heads().await?;
        others.retain(|head| head.chain != self.node);
        let entries = others
            .into_iter()
            .map(|head| {
                NewEntry::by_hub(RECORD_HEAD)
                    .to(format!("{}:{}:{}", head.chain, head.seq, head.hash))
            })
            .collect();
        self.append_audit(entries).await
    }

    async fn file_audit(&self, least: u64) -> Result<(), StateError> {
        self.file_entries(least).await
    }

    async fn verify_audit(&self) -> Result<Vec<ChainCheck>, StateError> {
        let mut connection = self.readers().acquire().await?;
        let heads = heads(&mut connection).await?;
        let chains = heads.into_iter().map(|head| head.chain);
        verify::verify(&mut connection, chains.collect()).await
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
        let mut write = self.begin(Affected::NoTenant).await?;
        let row = sqlx::query(
            "SELECT seq, hash FROM audit WHERE chain = ?1 AND seq < MIN(
                 (SELECT MAX(seq) FROM audit WHERE chain = ?1),
                 IFNULL((SELECT MIN(seq) FROM audit WHERE chain = ?1 AND time >= ?2), 9223372036854775807),
                 IFNULL((SELECT MIN(seq) FROM intents WHERE chain = ?1), 9223372036854775807))
             ORDER BY seq DESC LIMIT 1",
        )
        .bind(chain)
        .bind(before.millis())
        .fetch_optional(&mut *write)
        .await?;
        let Some(anchor) = row.map(|row| link(&row)).transpose()? else {
            return Ok(0);
        };
        filing::forget(&mut write, chain, anchor.seq).await?;
        let removed = sqlx::query("DELETE FROM audit WHERE chain = ?1 AND seq <= ?2")
            .bind(chain)
            .bind(column(anchor.seq))
            .execute(&mut *write)
            .await?
            .rows_affected();
        sqlx::query(
            "INSERT INTO audit_anchors (chain, seq, hash) VALUES (?1, ?2, ?3)
             ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        )
        .bind(chain)
        .bind(column(anchor.seq))
        .bind(anchor.hash.as_slice())
        .execute(&mut *write)
        .await?;
        let entry =
            NewEntry::by_hub(PRUNE).to(format!("{chain}:{}:{}", anchor.seq, hex(&anchor.hash)));
        self.append(&mut write, entry, None, None).await?;
        commit(write).await?;
        Ok(removed)
    }
}

async fn heads(connection: &mut SqliteConnection) -> Result<Vec<ChainHead>, StateError> {
    let chains: Vec<String> =
        sqlx::query_scalar("SELECT chain FROM audit_chains UNION SELECT chain FROM audit_anchors")
            .fetch_all(&mut *connection)
            .await?;
    let mut heads = Vec::new();
    for chain in chains {
        let link = head(connection, &chain).await?;
        heads.push(ChainHead {
            chain,
            seq: link.seq,
            hash: hex(&link.hash),
        });
    }
    Ok(heads)
}
