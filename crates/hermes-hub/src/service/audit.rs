//! Reading and checking the audit log.

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page_request;
use crate::{
    Problem, TenantId,
    api_types::{AuditEntry, Decision, Time},
    service::call::{Call, Reply, ReplyBody},
    storage::state::{AuditOrder, AuditPoint, AuditQuery, Page},
};

/// Entries that one part of a verification may have.
const MAX_PART: u32 = 10_000;

/// The format of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditFormat {
    /// A page of JSON.
    Json,
    /// All entries, one JSON document in each line, oldest first.
    Ndjson,
}

/// A filter of entries.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAudit {
    /// Only entries of this tenant.
    tenant: Option<TenantId>,
    /// Only entries caused by this token or tenant.
    actor: Option<String>,
    /// Only entries of this operation.
    action: Option<String>,
    /// Only allowed, or only denied requests.
    decision: Option<Decision>,
    /// Only entries of this request.
    request_id: Option<String>,
    /// Not before this time.
    since: Option<Time>,
    /// Before this time.
    until: Option<Time>,
    /// `ndjson` exports all of them.
    format: Option<AuditFormat>,
    /// How many entries are looked at for one page, at least 1: the page can then have fewer entries than `limit`, and a
    /// `nextCursor`. All that are needed if absent.
    reach: Option<u32>,
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// Entries, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditList {
    entries: Vec<AuditEntry>,
    next_cursor: Option<String>,
}

pub(crate) async fn list(call: Call, input: ListAudit) -> Result<Reply, Problem> {
    let mut query = AuditQuery {
        only: call.principal().visible_tenants(),
        tenant: input.tenant,
        actor: input.actor,
        action: input.action,
        decision: input.decision,
        request_id: input.request_id,
        since: input.since,
        until: input.until,
        order: AuditOrder::NewestFirst,
        reach: input.reach,
    };
    if input.reach == Some(0) {
        let message = "`reach` must be at least 1; leave it out to look at all entries";
        return Err(Problem::invalid(message).with_detail("reach", "out of range"));
    }
    if input.format == Some(AuditFormat::Ndjson) {
        query.order = AuditOrder::OldestFirst;
        query.reach = None;
        return Ok(export_entries(&call, query));
    }
    let page = page_request(input.limit, input.cursor)?;
    let entries = call.hub.state().audit(&query, &page).await?;
    Reply::json(&AuditList {
        entries: entries.items,
        next_cursor: entries.next,
    })
}

/// Streams all entries as lines, read page by page.
fn export_entries(call: &Call, query: AuditQuery) -> Reply {
    let state = call.hub.shared_state();
    let pieces = stream::unfold(Some(Page::first(500)), move |page| {
        let (state, query) = (state.clone(), query.clone());
        async move {
            let page = page?;
            let entries = state.audit(&query, &page).await;
            Some(match entries {
                Ok(entries) => {
                    let lines: Vec<u8> = entries
                        .items
                        .iter()
                        .filter_map(entry_line)
                        .flatten()
                        .collect();
                    (
                        Ok(Bytes::from(lines)),
                        entries.next.map(|next| Page::after(500, next)),
                    )
                }
                Err(error) => (Err(std::io::Error::other(error.to_string())), None),
            })
        }
    });
    let headers = HeaderMap::from_iter([(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    )]);
    Reply {
        status: 200,
        etag: None,
        body: ReplyBody::Bytes(headers, axum::body::Body::from_stream(pieces.boxed())),
    }
}

fn entry_line(entry: &AuditEntry) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(entry).ok()?;
    line.push(b'\n');
    Some(line)
}

/// Which entries to verify: all of them, unless this says otherwise.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifyAudit {
    /// How many entries at most, 1 to 10000, of one chain. The next ones are verified with the `nextCursor` of the reply.
    limit: Option<u32>,
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}

/// The result of verifying all chains, or a part of one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditCheck {
    /// Whether no entry was changed.
    ok: bool,
    chains: Vec<ChainReport>,
    /// Where the next part begins, if there is one.
    next_cursor: Option<String>,
}

/// The result of verifying one chain.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChainReport {
    chain: String,
    first_seq: u64,
    last_seq: u64,
    entries: u64,
    /// The first entry that was changed.
    first_broken_seq: Option<u64>,
    reason: Option<String>,
}

pub(crate) async fn verify(call: Call, input: VerifyAudit) -> Result<Reply, Problem> {
    let state = call.hub.state();
    let (checks, next) = if input.limit.is_none() && input.cursor.is_none() {
        (state.verify_audit().await?, None)
    } else {
        let limit = input.limit.unwrap_or(MAX_PART);
        if !(1..=MAX_PART).contains(&limit) {
            let message = format!("`limit` must be 1 to {MAX_PART}");
            return Err(Problem::invalid(message).with_detail("limit", "out of range"));
        }
        let cursor = input.cursor;
        let after = AuditPoint::from_page(&Page { limit, cursor })?;
        let part = state.verify_audit_part(after.as_ref(), limit).await?;
        (part.checks, part.next)
    };
    let chains: Vec<_> = checks
        .into_iter()
        .map(|check| ChainReport {
            chain: check.chain,
            first_seq: check.first,
            last_seq: check.last,
            entries: check.entries,
            first_broken_seq: check.broken.as_ref().map(|fault| fault.seq),
            reason: check.broken.map(|fault| fault.reason),
        })
        .collect();
    let ok = chains.iter().all(|chain| chain.first_broken_seq.is_none());
    Reply::json(&AuditCheck {
        ok,
        chains,
        next_cursor: next.as_ref().and_then(AuditPoint::to_cursor),
    })
}
