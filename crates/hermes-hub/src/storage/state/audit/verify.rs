//! Verifying every entry of every chain, at once or in parts, the same for both databases.

use super::{AuditPart, AuditPoint, BrokenEntry, ChainCheck, ChainHead, RECORD_HEAD_ACTION};
use crate::{
    api_types::ids::hex,
    storage::{
        audit::ChainPosition,
        state::{
            StateError,
            columns::{ColumnReader, to_column},
            records::check_columns,
        },
    },
};

/// Reads what is verified. All of it is of one moment.
pub(in crate::storage::state) trait ChainReader: Send {
    /// What the first entry of a chain follows, if older ones were deleted because of their age.
    fn read_anchor(
        &mut self,
        chain: &str,
    ) -> impl Future<Output = Result<Option<ChainPosition>, StateError>> + Send;

    /// The hash that an entry is stored with.
    fn read_hash(
        &mut self,
        chain: &str,
        seq: u64,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, StateError>> + Send;

    /// Has entries verified in their order, until one of them is broken.
    fn read_entries(
        &mut self,
        range: EntryRange,
        verification: &mut ChainVerification,
    ) -> impl Future<Output = Result<(), StateError>> + Send;
}

/// The verification of one chain, entry by entry.
pub(in crate::storage::state) struct ChainVerification {
    /// The last valid entry. The next one must follow it.
    link: ChainPosition,
    check: ChainCheck,
    /// Heads of other chains that the entries have recorded.
    recorded: Vec<String>,
}

impl ChainVerification {
    fn new(chain: &str, link: ChainPosition) -> Self {
        Self {
            check: ChainCheck::new(chain, &link),
            link,
            recorded: Vec::new(),
        }
    }

    pub(in crate::storage::state) fn chain(&self) -> &str {
        &self.check.chain
    }

    /// Verifies the next entry. Returns whether it is valid.
    pub(in crate::storage::state) fn verify(
        &mut self,
        row: &impl ColumnReader,
        indexing: EntryIndexing,
    ) -> Result<bool, StateError> {
        let seq = row.count("seq")?;
        let followed = self
            .link
            .verify_next(&self.check.chain, &row.text("text")?, &row.bytes("hash")?)
            .and_then(|entry| check_columns(row, entry))
            .and_then(|entry| match indexing {
                EntryIndexing::Complete => Ok(entry),
                EntryIndexing::Missing => Err("the list of its tenant's entries lacks it".into()),
            });
        match followed {
            Ok(entry) => {
                self.check.entries += 1;
                self.check.last = seq;
                if entry.action == RECORD_HEAD_ACTION {
                    self.recorded.extend(entry.target);
                }
                Ok(true)
            }
            Err(reason) => {
                // A missing entry counts as changed.
                let seq = seq.min(self.check.last + 1);
                self.check.broken = Some(BrokenEntry { seq, reason });
                Ok(false)
            }
        }
    }
}

/// Whether the tenant index has an entry that it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::storage::state) enum EntryIndexing {
    Complete,
    Missing,
}

/// Verifies all chains, and compares their heads with those that other chains have recorded.
pub(in crate::storage::state) async fn verify_chains(
    reader: &mut impl ChainReader,
    heads: Vec<ChainHead>,
) -> Result<Vec<ChainCheck>, StateError> {
    let mut checks = Vec::new();
    let mut recorded = Vec::new();
    for head in heads {
        let start = read_start(reader, &head.chain).await?;
        let mut verification = ChainVerification::new(&head.chain, start);
        reader
            .read_entries(EntryRange::ALL, &mut verification)
            .await?;
        checks.push(verification.check);
        recorded.extend(verification.recorded);
    }
    for known in recorded {
        compare_head(reader, &mut checks, &known).await?;
    }
    Ok(checks)
}

/// Verifies some entries, and compares the heads of other chains that they have recorded.
pub(in crate::storage::state) async fn verify_part(
    reader: &mut impl ChainReader,
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
    let mut start = read_start(reader, chain).await?;
    let mut is_changed = false;
    // Unless the entries up to there were deleted because of their age.
    if let Some(from) = scope.from.as_ref().filter(|from| from.seq > start.seq) {
        let stored = reader.read_hash(chain, from.seq).await?;
        is_changed = stored.as_deref() != Some(from.hash.as_slice());
        range.after = to_column(from.seq);
        start = from.clone();
    }
    let mut verification = ChainVerification::new(chain, start);
    if is_changed {
        verification.check.broken = Some(BrokenEntry {
            seq: verification.link.seq,
            reason: "it was changed after it had been verified".into(),
        });
    } else {
        reader.read_entries(range, &mut verification).await?;
    }
    let ChainVerification {
        link,
        mut check,
        recorded,
    } = verification;
    scope.check_end(&mut check, &link, most);
    let mut others = Vec::new();
    if !recorded.is_empty() {
        for head in heads.iter().filter(|head| head.chain != *chain) {
            let start = read_start(reader, &head.chain).await?;
            others.push(ChainCheck::new(&head.chain, &start));
        }
    }
    for known in recorded {
        compare_head(reader, &mut others, &known).await?;
    }
    others.retain(|other| other.broken.is_some());
    let next = scope.next(&check, &link);
    others.insert(0, check);
    Ok(AuditPart {
        checks: others,
        next,
    })
}

async fn read_start(
    reader: &mut impl ChainReader,
    chain: &str,
) -> Result<ChainPosition, StateError> {
    let anchor = reader.read_anchor(chain).await?;
    Ok(anchor.unwrap_or_else(ChainPosition::origin))
}

/// Checks that a chain still has the head that another chain recorded.
async fn compare_head(
    reader: &mut impl ChainReader,
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
    let stored = reader.read_hash(chain, seq).await?;
    if stored.is_none_or(|stored| hex(&stored) != known_hash) {
        check.broken = Some(BrokenEntry {
            seq,
            reason: "another chain recorded a different entry here".into(),
        });
    }
    Ok(())
}

/// The entries that one part verifies.
struct PartScope {
    chain: String,
    /// Where the part before has ended in this chain.
    from: Option<ChainPosition>,
    until: u64,
    is_last_chain: bool,
}

impl PartScope {
    /// The rest of the chain that was begun, or the next chain by name.
    fn find(after: Option<&AuditPoint>, heads: &[ChainHead]) -> Option<Self> {
        let begun = after.filter(|point| point.position.seq < point.until);
        let (chain, from, until) = if let Some(point) = begun {
            (&point.chain, Some(point.position.clone()), point.until)
        } else {
            let others = heads.iter();
            let others = others.filter(|head| after.is_none_or(|point| head.chain > point.chain));
            let head = others.min_by(|one, other| one.chain.cmp(&other.chain))?;
            (&head.chain, None, head.seq)
        };
        Some(Self {
            is_last_chain: !heads.iter().any(|head| head.chain > *chain),
            chain: chain.clone(),
            from,
            until,
        })
    }

    /// Notes that entries are missing before the end. `most` were asked for.
    fn check_end(&self, check: &mut ChainCheck, end: &ChainPosition, most: u32) {
        let has_read_all = check.entries < u64::from(most);
        if check.broken.is_none() && has_read_all && end.seq < self.until {
            check.broken = Some(BrokenEntry {
                seq: end.seq + 1,
                reason: "it is missing".into(),
            });
        }
    }

    /// Where the next part goes on.
    fn next(self, check: &ChainCheck, end: &ChainPosition) -> Option<AuditPoint> {
        let is_done = check.broken.is_some() || end.seq >= self.until;
        if is_done && self.is_last_chain {
            return None;
        }
        let seq = if is_done { self.until } else { end.seq };
        Some(AuditPoint {
            chain: self.chain,
            position: ChainPosition {
                seq,
                hash: end.hash,
            },
            until: self.until,
        })
    }
}

/// Numbers of entries of a chain, and how many of them.
#[derive(Clone, Copy)]
pub(in crate::storage::state) struct EntryRange {
    pub(in crate::storage::state) after: i64,
    pub(in crate::storage::state) until: i64,
    pub(in crate::storage::state) most: i64,
}

impl EntryRange {
    /// Also those that are before the beginning, where none may be.
    const ALL: Self = Self {
        after: i64::MIN,
        until: i64::MAX,
        most: i64::MAX,
    };
}
