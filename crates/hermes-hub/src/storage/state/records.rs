//! Records from rows, and rules about them, the same for both databases.

mod runs;
mod tenants;

pub(super) use runs::{apply_change, check_status, record_from_row, requeue_record, run_from_row};
pub(super) use tenants::{merge_conditions, tenant_from_row};

use hermes_protocol::ApprovalChoice;

use super::{
    ConsoleSession, Document, DocumentKind, GroupRecord, NewToken, SpaceReservation, StateError,
    StorageUsage, TokenRecord, UsageOwner,
    columns::{ColumnReader, parse_hash},
};
use crate::{
    ApprovalId, GroupId, RunId, TenantId, TokenId,
    api_types::{
        Approval, ApprovalState, AuditEntry, Group, GroupKind, KeyHash, MemberAccess, Role, Scopes,
        Share, Token, ids::ConsoleSessionId,
    },
};

pub(super) fn approval_from_row(row: &impl ColumnReader) -> Result<Approval, StateError> {
    Ok(Approval {
        approval_id: row.id("id", ApprovalId::parse)?,
        tenant_id: row.id("tenant", TenantId::parse)?,
        run_id: row.id("run_id", RunId::parse)?,
        state: row.word("state", ApprovalState::from_word)?,
        command: row.text("command")?,
        description: row.text("description")?,
        created_at: row.time("created_at")?,
        expires_at: row.optional_time("expires_at")?,
        choices: row
            .optional_json("choices")?
            .unwrap_or_else(|| ApprovalChoice::ALL.to_vec()),
        form: row.optional_json("form")?,
        choice: row
            .optional_text("choice")?
            .map(|word| ApprovalChoice::parse(&word).map_err(StateError::broken))
            .transpose()?,
        decided_by: row.optional_text("decided_by")?,
        decided_at: row.optional_time("decided_at")?,
        reason: row.optional_text("reason")?,
    })
}

pub(super) fn document_from_row(row: &impl ColumnReader) -> Result<Document, StateError> {
    Ok(Document {
        kind: row.word("kind", DocumentKind::from_word)?,
        revision: row.count("revision")?,
        content: row.json("content")?,
        updated_at: row.time("updated_at")?,
        updated_by: row.text("updated_by")?,
    })
}

pub(super) fn group_from_row(row: &impl ColumnReader) -> Result<GroupRecord, StateError> {
    Ok(GroupRecord {
        group: Group {
            id: row.id("id", GroupId::parse)?,
            display_name: row.text("display_name")?,
            kind: row.word("kind", GroupKind::from_word)?,
            quota_bytes: row.count("quota_bytes")?,
        },
        used: StorageUsage {
            bytes: row.optional_count("used_bytes")?.unwrap_or_default(),
            files: row.optional_count("used_files")?.unwrap_or_default(),
        },
        revision: row.count("revision")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}

pub(super) fn share_from_row(row: &impl ColumnReader) -> Result<Share, StateError> {
    Ok(Share {
        group_id: row.id("id", GroupId::parse)?,
        display_name: row.text("display_name")?,
        kind: row.word("kind", GroupKind::from_word)?,
        access: row.word("access", MemberAccess::from_word)?,
        used_bytes: row.count("used_bytes")?,
        quota_bytes: row.count("quota_bytes")?,
    })
}

pub(super) fn token_from_row(row: &impl ColumnReader) -> Result<TokenRecord, StateError> {
    let role = row.optional_text("role")?;
    let old = row
        .optional_hash("old_hash")?
        .zip(row.optional_time("old_until")?);
    Ok(TokenRecord {
        token: Token {
            id: row.id("id", TokenId::parse)?,
            name: row.text("name")?,
            role: role.as_deref().and_then(Role::from_word),
            scopes: row.json("scopes")?,
            tenants: row.optional_json("tenants")?,
            cidrs: row.json("cidrs")?,
            last4: row.text("last4")?,
            expires_at: row.optional_time("expires_at")?,
            last_used_at: row.optional_time("last_used_at")?,
        },
        hash: KeyHash::from_bytes(parse_hash(row.bytes("hash")?)?),
        old: old.map(|(hash, until)| (KeyHash::from_bytes(hash), until)),
        created_at: row.time("created_at")?,
    })
}

/// Whether a token has all rights without restrictions.
pub(super) fn is_unlimited(token: &NewToken) -> bool {
    let scopes = Scopes::granted(token.role, &token.scopes);
    token.tenants.is_none() && Role::Admin.scopes().is_subset_of(scopes)
}

/// Refuses to revoke the last admin token.
pub(super) fn last_admin_token() -> StateError {
    StateError::Conflict {
        reason: "last_admin_token",
        message: "this is the last admin token, or the one that lasts longest; create another before you revoke it"
            .into(),
    }
}

/// Kind and name of an owner of disk space.
pub(super) fn owner_key(owner: &UsageOwner) -> (&'static str, &str) {
    match owner {
        UsageOwner::Tenant(id) => ("tenant", id.as_str()),
        UsageOwner::Group(id) => ("group", id.as_str()),
    }
}

/// Refuses what the owner has no room for, counting the room kept for operations under way.
pub(super) fn check_room(
    reserve: &SpaceReservation,
    bytes: Option<u64>,
    files: Option<u64>,
) -> Result<(), StateError> {
    for (what, taken, wanted, most) in [
        ("bytes", bytes, reserve.bytes, reserve.max_bytes),
        ("files", files, reserve.files, reserve.max_files),
    ] {
        let taken = taken.unwrap_or_default();
        if most.is_some_and(|most| wanted > 0 && taken.saturating_add(wanted) > most) {
            return Err(StateError::OverQuota {
                message: format!(
                    "{wanted} more {what} exceed the quota of {} ({taken} are taken); remove something, or ask for a larger quota",
                    most.unwrap_or_default()
                ),
            });
        }
    }
    Ok(())
}

/// Refuses what no operation under way was affected by.
pub(super) fn check_in_progress(rows_affected: u64) -> Result<(), StateError> {
    if rows_affected == 0 {
        return Err(StateError::Conflict {
            reason: "not_under_way",
            message: "the operation was settled before".into(),
        });
    }
    Ok(())
}

/// Refuses a decision about an approval that somebody has decided.
pub(super) fn not_pending() -> StateError {
    StateError::Conflict {
        reason: "not_pending",
        message: "the approval is no longer pending: it was decided, or its run has ended".into(),
    }
}

/// The progress of a request whose reply is not stored yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyProgress {
    /// It may take effect from now on; set in the transaction of its intent.
    Begun,
    /// It took effect; set in the transaction of the effect.
    Effected,
}

impl KeyProgress {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Effected => "effected",
        }
    }
}

/// Checks that the columns that entries are searched by match the entry.
pub(super) fn check_columns(
    row: &impl ColumnReader,
    entry: AuditEntry,
) -> Result<AuditEntry, String> {
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

pub(super) fn console_session_from_row(
    row: &impl ColumnReader,
) -> Result<ConsoleSession, StateError> {
    Ok(ConsoleSession {
        id: row.id("id", ConsoleSessionId::parse)?,
        holder: row.json("holder")?,
        address: row.text("address")?,
        user_agent: row.text("user_agent")?,
        created_at: row.time("created_at")?,
        used_at: row.time("used_at")?,
        ends_at: row.time("ends_at")?,
    })
}
