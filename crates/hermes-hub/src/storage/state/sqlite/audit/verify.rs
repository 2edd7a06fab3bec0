//! Verifying every entry of every chain, at once or in parts.

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
        state::{
            AuditPart, AuditPoint, BrokenEntry, ChainCheck, ChainHead, StateError,
            audit::{EntryRange, PartScope},
            records::check_columns,
        },
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
        let mut link = chain_start(connection, &chain).await?;
        let all = EntryRange::ALL;
        checks.push(verify_entries(connection, &chain, &mut link, all, &mut recorded).await?);
    }
    for known in recorded {
        compare_head(connection, &mut checks, &known).await?;
    }
    Ok(checks)
}

/// Verifies some entries, and compares the heads of other chains that they have recorded.
pub(super) async fn verify_part(
    connection: &mut SqliteConnection,
    after: Option<&AuditPoint>,
    most: u32,
    heads: &[ChainHead],
) -> Result<AuditPart, StateError> {
    let Some(scope) = PartScope::find(after, heads) else {
        return Ok(AuditPart::default());
    };
    let chain = &scope.chain;
    let mut range = EntryRange {
        until: to_column(scope.until),
        most: i64::from(most),
        ..EntryRange::ALL
    };
    let mut link = chain_start(connection, chain).await?;
    let mut is_changed = false;
    // Unless the entries up to there were deleted because of their age.
    if let Some(from) = scope.from.as_ref().filter(|from| from.seq > link.seq) {
        let stored = find_hash(connection, chain, from.seq).await?;
        is_changed = stored.as_deref() != Some(from.hash.as_slice());
        range.after = to_column(from.seq);
        link = from.clone();
    }
    let mut recorded = Vec::new();
    let mut check = if is_changed {
        let mut check = ChainCheck::new(chain, &link);
        check.broken = Some(BrokenEntry {
            seq: link.seq,
            reason: "it was changed after it had been verified".into(),
        });
        check
    } else {
        verify_entries(connection, chain, &mut link, range, &mut recorded).await?
    };
    scope.check_end(&mut check, &link, most);
    let mut others = Vec::new();
    if !recorded.is_empty() {
        for head in heads.iter().filter(|head| head.chain != *chain) {
            let start = chain_start(connection, &head.chain).await?;
            others.push(ChainCheck::new(&head.chain, &start));
        }
    }
    for known in recorded {
        compare_head(connection, &mut others, &known).await?;
    }
    others.retain(|other| other.broken.is_some());
    let next = scope.next(&check, &link);
    others.insert(0, check);
    Ok(AuditPart {
        checks: others,
        next,
    })
}

/// What the first entry of a chain follows.
async fn chain_start(
    connection: &mut SqliteConnection,
    chain: &str,
) -> Result<ChainPosition, StateError> {
    let anchor = sqlx::query("SELECT seq, hash FROM audit_anchors WHERE chain = ?1")
        .bind(chain)
        .fetch_optional(connection)
        .await?;
    anchor.map_or(Ok(ChainPosition::origin()), |row| position_from_row(&row))
}

/// Verifies entries of a chain after `link`, up to the first broken one. Collects records of other chains' heads.
async fn verify_entries(
    connection: &mut SqliteConnection,
    chain: &str,
    link: &mut ChainPosition,
    range: EntryRange,
    recorded: &mut Vec<String>,
) -> Result<ChainCheck, StateError> {
    let mut check = ChainCheck::new(chain, link);
    let mut rows = sqlx::query(
        "SELECT seq, time, tenant, actor, action, decision, request_id, text, hash,
             tenant IS NULL
                 OR NOT EXISTS (SELECT 1 FROM audit_portions WHERE chain = ?1 AND last >= audit.seq)
                 OR EXISTS (SELECT 1 FROM audit_of_tenants AS filed
                     WHERE filed.chain = ?1 AND filed.tenant = audit.tenant AND filed.time = audit.time
                       AND filed.seq = audit.seq AND filed.portion =
                         (SELECT MIN(last) FROM audit_portions WHERE chain = ?1 AND last >= audit.seq)) AS is_listed
         FROM audit WHERE chain = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4",
    )
    .bind(chain)
    .bind(range.after)
    .bind(range.until)
    .bind(range.most)
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
    let stored = find_hash(connection, chain, seq).await?;
    if stored.is_none_or(|stored| hex(&stored) != known_hash) {
        check.broken = Some(BrokenEntry {
            seq,
            reason: "another chain recorded a different entry here".into(),
        });
    }
    Ok(())
}

/// The hash that an entry is stored with.
async fn find_hash(
    connection: &mut SqliteConnection,
    chain: &str,
    seq: u64,
) -> Result<Option<Vec<u8>>, StateError> {
    let query = sqlx::query_scalar("SELECT hash FROM audit WHERE chain = ?1 AND seq = ?2")
        .bind(chain)
        .bind(to_column(seq));
    Ok(query.fetch_optional(connection).await?)
}
