//! Verifying every entry of every chain, at once or in parts.

use super::{
    super::{session::Session, to_column},
    RECORD_HEAD_ACTION, position_from_row,
};
use crate::{
    api_types::ids::hex,
    storage::{
        audit::ChainPosition,
        state::{
            AuditPart, AuditPoint, BrokenEntry, ChainCheck, ChainHead, StateError,
            audit::{EntryRange, PartScope},
            columns::ColumnReader,
            records::check_columns,
        },
    },
};

/// Entries read at a time.
const MAX_READ_ENTRIES: i64 = 1000;

/// Verifies these chains, and compares the recorded heads of the others.
pub(super) async fn verify_chains(
    session: &mut Session,
    chains: Vec<String>,
) -> Result<Vec<ChainCheck>, StateError> {
    let mut checks = Vec::new();
    let mut recorded = Vec::new();
    for chain in chains {
        let mut link = chain_start(session, &chain).await?;
        let all = EntryRange::ALL;
        checks.push(verify_entries(session, &chain, &mut link, all, &mut recorded).await?);
    }
    for known in recorded {
        compare_head(session, &mut checks, &known).await?;
    }
    Ok(checks)
}

/// Verifies some entries, and compares the heads of other chains that they have recorded.
pub(super) async fn verify_part(
    session: &mut Session,
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
    let mut link = chain_start(session, chain).await?;
    let mut is_changed = false;
    // Unless the entries up to there were deleted because of their age.
    if let Some(from) = scope.from.as_ref().filter(|from| from.seq > link.seq) {
        let stored = find_hash(session, chain, from.seq).await?;
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
        verify_entries(session, chain, &mut link, range, &mut recorded).await?
    };
    scope.check_end(&mut check, &link, most);
    let mut others = Vec::new();
    if !recorded.is_empty() {
        for head in heads.iter().filter(|head| head.chain != *chain) {
            let start = chain_start(session, &head.chain).await?;
            others.push(ChainCheck::new(&head.chain, &start));
        }
    }
    for known in recorded {
        compare_head(session, &mut others, &known).await?;
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
async fn chain_start(session: &mut Session, chain: &str) -> Result<ChainPosition, StateError> {
    let anchor = sqlx::query("SELECT seq, hash FROM audit_anchors WHERE chain = $1").bind(chain);
    let anchor = session.optional(anchor).await?;
    anchor.map_or(Ok(ChainPosition::origin()), |row| position_from_row(&row))
}

/// Verifies entries of a chain after `link`, up to the first broken one. Collects records of other chains' heads.
async fn verify_entries(
    session: &mut Session,
    chain: &str,
    link: &mut ChainPosition,
    mut range: EntryRange,
    recorded: &mut Vec<String>,
) -> Result<ChainCheck, StateError> {
    let mut check = ChainCheck::new(chain, link);
    loop {
        let query = sqlx::query(
            "SELECT seq, time, tenant, actor, action, decision, request_id, text, hash
             FROM audit WHERE chain = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        )
        .bind(chain)
        .bind(range.after)
        .bind(range.until)
        .bind(range.most.min(MAX_READ_ENTRIES));
        let rows = session.rows(query).await?;
        for row in &rows {
            let seq = row.count("seq")?;
            range.after = to_column(seq);
            range.most -= 1;
            let followed = link
                .verify_next(chain, &row.text("text")?, &row.bytes("hash")?)
                .and_then(|entry| check_columns(row, entry));
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
                    return Ok(check);
                }
            }
        }
        if rows.is_empty() || range.most == 0 {
            return Ok(check);
        }
    }
}

/// Checks that a chain still has the head that another chain recorded.
async fn compare_head(
    session: &mut Session,
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
    let stored = find_hash(session, chain, seq).await?;
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
    session: &mut Session,
    chain: &str,
    seq: u64,
) -> Result<Option<Vec<u8>>, StateError> {
    let query = sqlx::query("SELECT hash FROM audit WHERE chain = $1 AND seq = $2")
        .bind(chain)
        .bind(to_column(seq));
    let stored = session.optional(query).await?;
    stored.map(|row| row.bytes("hash")).transpose()
}
