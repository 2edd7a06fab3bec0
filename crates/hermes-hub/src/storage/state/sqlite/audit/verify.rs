//! Verifying every entry of every chain.

use futures::TryStreamExt;
use sqlx::{SqliteConnection, sqlite::SqliteRow};

use super::{
    super::{row::ColumnReader, to_column},
    RECORD_HEAD_ACTION, position_from_row,
};
use crate::{
    api_types::{AuditEntry, ids::hex},
    storage::{
        audit::ChainPosition,
        state::{BrokenEntry, ChainCheck, StateError},
    },
};

/// Verifies these chains, and compares the recorded heads of the others.
pub(super) async fn verify_chains(
    connection: &mut SqliteConnection,
    chains: Vec<String>,
) -> Result<Vec<ChainCheck>, StateError> {
    let mut checks = Vec::new();
    let mut recorded = Vec::new();
    for chain in chains {
        checks.push(verify_chain(connection, &chain, &mut recorded).await?);
    }
    for known in recorded {
        compare_head(connection, &mut checks, &known).await?;
    }
    Ok(checks)
}

/// Verifies a chain up to the first broken entry. Collects its records of other chains' heads.
async fn verify_chain(
    connection: &mut SqliteConnection,
    chain: &str,
    recorded: &mut Vec<String>,
) -> Result<ChainCheck, StateError> {
    let anchor = sqlx::query("SELECT seq, hash FROM audit_anchors WHERE chain = ?1")
        .bind(chain)
        .fetch_optional(&mut *connection)
        .await?;
    let mut link = anchor.map_or(Ok(ChainPosition::origin()), |row| position_from_row(&row))?;
    let mut check = ChainCheck {
        chain: chain.to_owned(),
        first: link.seq + 1,
        last: link.seq,
        entries: 0,
        broken: None,
    };
    let mut rows = sqlx::query(
        "SELECT seq, time, tenant, actor, action, decision, request_id, text, hash,
             tenant IS NULL
                 OR NOT EXISTS (SELECT 1 FROM audit_portions WHERE chain = ?1 AND last >= audit.seq)
                 OR EXISTS (SELECT 1 FROM audit_of_tenants AS filed
                     WHERE filed.chain = ?1 AND filed.tenant = audit.tenant AND filed.time = audit.time
                       AND filed.seq = audit.seq AND filed.portion =
                         (SELECT MIN(last) FROM audit_portions WHERE chain = ?1 AND last >= audit.seq)) AS is_listed
         FROM audit WHERE chain = ?1 ORDER BY seq",
    )
    .bind(chain)
    .fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let seq = row.count("seq")?;
        let followed = link
            .verify_next(chain, &row.text("text")?, &row.bytes("hash")?)
            .and_then(|entry| check_columns(&row, entry))
            .and_then(|entry| check_listed(&row, entry));
        match followed {
            Ok(entry) => {
                check.entries += 1;
                check.last = seq;
                if entry.action == RECORD_HEAD_ACTION {
                    recorded.extend(entry.target);
                }
            }
            Err(reason) => {
                // A missing entry counts as changed.
                let seq = seq.min(check.last + 1);
                check.broken = Some(BrokenEntry { seq, reason });
                break;
            }
        }
    }
    Ok(check)
}

/// Checks that the search columns match the entry.
fn check_columns(row: &SqliteRow, entry: AuditEntry) -> Result<AuditEntry, String> {
    let read = || -> Result<bool, StateError> {
        Ok(row.count("seq")? == entry.seq
            && row.time("time")? == entry.time
            && row.optional_text("tenant")? == entry.tenant
            && row.text("actor")? == entry.actor
            && row.text("action")? == entry.action
            && row.text("decision")? == entry.decision.as_str()
            && row.text("request_id")? == entry.request_id)
    };
    match read() {
        Ok(true) => Ok(entry),
        Ok(false) | Err(_) => Err("its columns differ from its content".into()),
    }
}

/// Checks that the tenant index has the entry, if it was indexed.
fn check_listed(row: &SqliteRow, entry: AuditEntry) -> Result<AuditEntry, String> {
    match row.flag("is_listed") {
        Ok(true) => Ok(entry),
        Ok(false) | Err(_) => Err("the list of its tenant's entries lacks it".into()),
    }
}

/// Checks that a chain still has the head that another chain recorded.
async fn compare_head(
    connection: &mut SqliteConnection,
    checks: &mut [ChainCheck],
    known: &str,
) -> Result<(), StateError> {
    let mut parts = known.rsplitn(3, ':');
    let (Some(known_hash), Some(seq), Some(chain)) = (parts.next(), parts.next(), parts.next())
    else {
        return Ok(());
    };
    let seq: u64 = seq.parse().unwrap_or_default();
    let Some(check) = checks
        .iter_mut()
        .find(|check| check.chain == chain && check.broken.is_none() && seq >= check.first)
    else {
        return Ok(());
    };
    let stored: Option<Vec<u8>> =
        sqlx::query_scalar("SELECT hash FROM audit WHERE chain = ?1 AND seq = ?2")
            .bind(chain)
            .bind(to_column(seq))
            .fetch_optional(connection)
            .await?;
    if stored.is_none_or(|stored| hex(&stored) != known_hash) {
        check.broken = Some(BrokenEntry {
            seq,
            reason: "another chain recorded a different entry here".into(),
        });
    }
    Ok(())
}
