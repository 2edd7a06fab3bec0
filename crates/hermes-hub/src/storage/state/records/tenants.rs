//! Tenants from their rows, and their conditions.

use super::super::{StateError, StorageUsage, TenantRecord, columns::ColumnReader};
use crate::{
    TenantId,
    api_types::{
        AccessStatus, Condition, GroupMembership, RuntimeKeyInfo, TenantAccess, TenantStatus,
    },
};

pub(in super::super) fn tenant_from_row(
    row: &impl ColumnReader,
) -> Result<TenantRecord, StateError> {
    let mut groups: Vec<GroupMembership> = row.json("memberships")?;
    groups.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(TenantRecord {
        id: row.id("id", TenantId::parse)?,
        uid: row.text("uid")?,
        display_name: row.text("display_name")?,
        status: row.word("status", TenantStatus::from_word)?,
        access: TenantAccess {
            status: row.word("access_status", AccessStatus::from_word)?,
            message: row.optional_text("access_message")?,
            reason: row.optional_text("access_reason")?,
            updated_at: row.optional_time("access_at")?,
            updated_by: row.optional_text("access_by")?,
        },
        flavor: row.text("flavor")?,
        agent: row.json("agent")?,
        storage: row.json("storage")?,
        browser: row.json("browser")?,
        groups,
        labels: row.json("labels")?,
        linked_home: row.optional_text("linked_home")?.map(Into::into),
        runtime_key: RuntimeKeyInfo {
            present: row.optional_bytes("key_hash")?.is_some(),
            last4: row.optional_text("key_last4")?,
            rotated_at: row.optional_time("key_rotated_at")?,
        },
        conditions: row.json("conditions")?,
        used: StorageUsage {
            bytes: row.optional_count("used_bytes")?.unwrap_or_default(),
            files: row.optional_count("used_files")?.unwrap_or_default(),
        },
        generation: row.count("generation")?,
        observed_generation: row.count("observed_generation")?,
        revision: row.count("revision")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        deleted_at: row.optional_time("deleted_at")?,
    })
}

/// New conditions among the old ones. One whose status is the same keeps the time since when.
pub(in super::super) fn merge_conditions(old: &[Condition], new: Vec<Condition>) -> Vec<Condition> {
    let mut merged = old.to_vec();
    for mut condition in new {
        match merged.iter_mut().find(|known| known.kind == condition.kind) {
            Some(known) => {
                if known.status == condition.status {
                    condition.last_transition_time = known.last_transition_time;
                }
                *known = condition;
            }
            None => merged.push(condition),
        }
    }
    merged
}
