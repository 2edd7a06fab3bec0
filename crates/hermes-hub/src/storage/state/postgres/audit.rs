//! The audit log: one chain per node, each entry added in the transaction of its effect.

use async_trait::async_trait;

use super::{PostgresState, session::Session, to_column, write_group::GroupedWrite};
use crate::{
    api_types::{AuditEntry, AuditPhase, Time, ids::hex},
    storage::{
        audit::{
            ChainPosition, NewAuditEntry,
            chain::{self, AppendedEntry, EntryClock},
        },
        state::{
            AuditPart, AuditPoint, AuditQuery, AuditStore, ChainCheck, ChainHead, Page, Paged,
            StateError,
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
mod verify;

const MAX_ROWS_PER_INSERT: usize = 500;
/// Entries deleted in one transaction, so that others do not wait long.
const MAX_PRUNED_ENTRIES: i64 = 10_000;
const PRUNE_ACTION: &str = "prune_audit";

impl PostgresState {
    /// Adds the entry of a change to its transaction, and marks its idempotency key as effective.
    pub(super) async fn append_effect(
        &self,
        write: &mut GroupedWrite,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let key = entry.idempotency.clone();
        self.append_entry(write, entry, None, None).await?;
        if let Some(key) = key {
            self.mark_progress(write, &key, KeyProgress::Effected)
                .await?;
        }
        Ok(())
    }

    /// Adds the entries of several changes, which have no idempotency keys, to their transaction.
    pub(super) async fn append_effects(
        &self,
        write: &mut GroupedWrite,
        entries: Vec<NewAuditEntry>,
    ) -> Result<(), StateError> {
        let mut end = self.take_chain_end(write).await?;
        let mut clock = EntryClock::now();
        let mut entries = entries.into_iter().peekable();
        while entries.peek().is_some() {
            let mut rows = EntryColumns::default();
            for entry in entries.by_ref().take(MAX_ROWS_PER_INSERT) {
                let added = end.append(&self.node, &entry, None, None, &mut clock)?;
                rows.push(entry, added, end.hash);
            }
            rows.insert(write, &self.node)
                .await
                .map_err(audit_write_error)?;
        }
        write.leave_chain_end(end);
        Ok(())
    }

    /// Adds an entry to the transaction; returns its number.
    pub(super) async fn append_entry(
        &self,
        write: &mut GroupedWrite,
        entry: NewAuditEntry,
        phase: Option<AuditPhase>,
        intent: Option<u64>,
    ) -> Result<u64, StateError> {
        let mut end = self.take_chain_end(write).await?;
        let clock = &mut EntryClock::now();
        let added = end.append(&self.node, &entry, phase, intent, clock)?;
        let mut rows = EntryColumns::default();
        rows.push(entry, added, end.hash);
        rows.insert(write, &self.node)
            .await
            .map_err(audit_write_error)?;
        let seq = end.seq;
        write.leave_chain_end(end);
        Ok(seq)
    }

    /// The end of this node's chain. Nobody else writes to it, so what a writer left is true.
    async fn take_chain_end(&self, write: &mut GroupedWrite) -> Result<ChainPosition, StateError> {
        match write.take_chain_end() {
            Some(end) => Ok(end),
            None => load_chain_end(write.session()?, &self.node)
                .await
                .map_err(audit_write_error),
        }
    }
}

/// Entries, by column: any number is one statement.
#[derive(Default)]
struct EntryColumns {
    seqs: Vec<i64>,
    times: Vec<i64>,
    tenants: Vec<Option<String>>,
    actors: Vec<String>,
    actions: Vec<String>,
    decisions: Vec<&'static str>,
    request_ids: Vec<String>,
    texts: Vec<String>,
    hashes: Vec<Vec<u8>>,
}

impl EntryColumns {
    fn push(&mut self, entry: NewAuditEntry, added: AppendedEntry, hash: [u8; 32]) {
        self.seqs.push(to_column(added.seq));
        self.times.push(added.time.millis());
        self.tenants.push(entry.tenant);
        self.actors.push(entry.actor);
        self.actions.push(entry.action);
        self.decisions.push(entry.decision.as_str());
        self.request_ids.push(entry.request_id);
        self.texts.push(added.text);
        self.hashes.push(hash.to_vec());
    }

    async fn insert(self, write: &mut GroupedWrite, chain: &str) -> Result<(), StateError> {
        let insert = sqlx::query(
            "INSERT INTO audit (chain, seq, time, tenant, actor, action, decision, request_id, text, hash)
             SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                 $8::text[], $9::text[], $10::bytea[])",
        )
        .bind(chain)
        .bind(self.seqs)
        .bind(self.times)
        .bind(self.tenants)
        .bind(self.actors)
        .bind(self.actions)
        .bind(self.decisions)
        .bind(self.request_ids)
        .bind(self.texts)
        .bind(self.hashes);
        write.execute(insert).await?;
        Ok(())
    }
}

/// An action that cannot be logged is not done. If the entry is there already, another process uses the name of this
/// node; the next attempt reads where the chain ends.
fn audit_write_error(error: StateError) -> StateError {
    match error {
        full @ StateError::DiskFull(_) => full,
        other => StateError::Unavailable(format!("the audit log: {other}")),
    }
}

/// The end of a chain: its last entry, or the anchor left by pruning.
async fn load_chain_end(session: &mut Session, chain: &str) -> Result<ChainPosition, StateError> {
    let query = sqlx::query(
        "SELECT seq, hash FROM (SELECT seq, hash FROM audit WHERE chain = $1 ORDER BY seq DESC LIMIT 1) AS last
         UNION ALL SELECT seq, hash FROM audit_anchors WHERE chain = $1 ORDER BY seq DESC LIMIT 1",
    )
    .bind(chain);
    let row = session.optional(query).await?;
    row.map_or(Ok(ChainPosition::origin()), |row| position_from_row(&row))
}

fn position_from_row(row: &impl ColumnReader) -> Result<ChainPosition, StateError> {
    Ok(ChainPosition {
        seq: row.count("seq")?,
        hash: parse_hash(row.bytes("hash")?)?,
    })
}

pub(super) fn entry_from_row(row: &impl ColumnReader) -> Result<AuditEntry, StateError> {
    Ok(chain::parse_entry(&row.text("text")?, &row.bytes("hash")?)?)
}

#[async_trait]
impl AuditStore for PostgresState {
    async fn append_audit(&self, entries: Vec<NewAuditEntry>) -> Result<(), StateError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut write = self.begin_change().await?;
        self.append_effects(&mut write, entries).await?;
        write.commit().await
    }

    async fn audit(
        &self,
        query: &AuditQuery,
        page: &Page,
    ) -> Result<Paged<AuditEntry>, StateError> {
        let mut session = self.read().await?;
        search::search_entries(&mut session, query, page).await
    }

    async fn audit_heads(&self) -> Result<Vec<ChainHead>, StateError> {
        let mut session = self.read().await?;
        load_heads(&mut session).await
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

    /// An ordinary index has every entry from the beginning.
    async fn index_audit(&self, _least: u64) -> Result<(), StateError> {
        Ok(())
    }

    async fn verify_audit(&self) -> Result<Vec<ChainCheck>, StateError> {
        let mut session = self.read_moment().await?;
        let heads = load_heads(&mut session).await?;
        verify_chains(&mut session, heads).await
    }

    async fn verify_audit_part(
        &self,
        after: Option<&AuditPoint>,
        most: u32,
    ) -> Result<AuditPart, StateError> {
        let mut session = self.read_moment().await?;
        let heads = load_heads(&mut session).await?;
        verify_part(&mut session, after, most, &heads).await
    }

    async fn prune_audit(&self, before: Time) -> Result<u64, StateError> {
        let query = sqlx::query("SELECT chain FROM audit_chains");
        let rows = self.read().await?.rows(query).await?;
        let mut pruned = 0;
        for row in rows {
            let chain = row.text("chain")?;
            loop {
                let some = self.prune_chain(&chain, before).await?;
                pruned += some;
                if some < MAX_PRUNED_ENTRIES.unsigned_abs() {
                    break;
                }
            }
        }
        Ok(pruned)
    }
}

impl PostgresState {
    /// Removes a part of the beginning of a chain, up to the first entry that is recent enough or belongs to an
    /// operation in progress. The last entry always stays.
    async fn prune_chain(&self, chain: &str, before: Time) -> Result<u64, StateError> {
        let mut write = self.begin_change().await?;
        // Of nodes that prune together, one does it.
        let lock = sqlx::query("LOCK TABLE audit_anchors IN SHARE ROW EXCLUSIVE MODE");
        write.execute(lock).await?;
        let query = sqlx::query(
            "SELECT seq, hash FROM audit WHERE chain = $1 AND seq < LEAST(
                 (SELECT MAX(seq) FROM audit WHERE chain = $1),
                 (SELECT MIN(seq) FROM audit WHERE chain = $1) + $3,
                 (SELECT seq FROM audit WHERE chain = $1 AND time >= $2 ORDER BY seq LIMIT 1),
                 (SELECT MIN(seq) FROM intents WHERE chain = $1 AND NOT settled))
             ORDER BY seq DESC LIMIT 1",
        )
        .bind(chain)
        .bind(before.millis())
        .bind(MAX_PRUNED_ENTRIES);
        let row = write.optional(query).await?;
        let Some(anchor) = row.map(|row| position_from_row(&row)).transpose()? else {
            return Ok(0);
        };
        let delete = sqlx::query("DELETE FROM audit WHERE chain = $1 AND seq <= $2")
            .bind(chain)
            .bind(to_column(anchor.seq));
        let removed = write.execute(delete).await?;
        let upsert = sqlx::query(
            "INSERT INTO audit_anchors (chain, seq, hash) VALUES ($1, $2, $3)
             ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
        )
        .bind(chain)
        .bind(to_column(anchor.seq))
        .bind(anchor.hash.as_slice());
        write.execute(upsert).await?;
        let entry = NewAuditEntry::by_hub(PRUNE_ACTION).with_target(format!(
            "{chain}:{}:{}",
            anchor.seq,
            hex(&anchor.hash)
        ));
        self.append_entry(&mut write, entry, None, None).await?;
        write.commit().await?;
        Ok(removed)
    }
}

async fn load_heads(session: &mut Session) -> Result<Vec<ChainHead>, StateError> {
    let query = sqlx::query(
        "SELECT chain FROM audit_chains UNION SELECT chain FROM audit_anchors ORDER BY 1",
    );
    let mut heads = Vec::new();
    for row in session.rows(query).await? {
        let chain = row.text("chain")?;
        let end = load_chain_end(session, &chain).await?;
        heads.push(ChainHead {
            chain,
            seq: end.seq,
            hash: hex(&end.hash),
        });
    }
    Ok(heads)
}
