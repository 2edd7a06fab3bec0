//! Reading a tenant's row and memberships for a change of them.

use serde::Serialize;

use super::super::write_group::GroupedWrite;
use crate::{
    TenantId,
    api_types::{GroupMembership, TenantStatus},
    storage::state::{StateError, TenantRecord, records::tenant_from_row},
};

/// Selects tenants with usage and memberships.
macro_rules! select_tenant {
    ($condition:literal) => {
        concat!(
            "SELECT t.*, u.bytes AS used_bytes, u.files AS used_files,
        COALESCE((SELECT json_agg(json_build_object('id', m.group_id, 'access', m.access))
         FROM members m WHERE m.tenant = t.id)::text, '[]') AS memberships
    FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE ",
            $condition
        )
    };
}
pub(super) use select_tenant;

pub(super) const NO_TENANT: StateError = StateError::NotFound { what: "tenant" };

/// A tenant, deleted or not. Other nodes do not change it until the end of the write.
pub(super) async fn lock_tenant(
    write: &mut GroupedWrite,
    id: &TenantId,
) -> Result<TenantRecord, StateError> {
    let query = sqlx::query(select_tenant!("t.id = $1 FOR NO KEY UPDATE OF t")).bind(id.as_str());
    let row = write.optional(query).await?;
    tenant_from_row(&row.ok_or(NO_TENANT)?)
}

/// A tenant that is not deleted, at the expected revision.
pub(super) async fn lock_present(
    write: &mut GroupedWrite,
    id: &TenantId,
    expected: Option<u64>,
) -> Result<TenantRecord, StateError> {
    let tenant = lock_tenant(write, id).await?;
    if tenant.status == TenantStatus::Deleted {
        return Err(NO_TENANT);
    }
    if expected.is_some_and(|expected| expected != tenant.revision) {
        return Err(StateError::Changed { what: "tenant" });
    }
    Ok(tenant)
}

pub(super) async fn set_groups(
    write: &mut GroupedWrite,
    id: &TenantId,
    groups: &[GroupMembership],
) -> Result<(), StateError> {
    let delete = sqlx::query("DELETE FROM members WHERE tenant = $1").bind(id.as_str());
    write.execute(delete).await?;
    for group in groups {
        let insert = sqlx::query(
            "INSERT INTO members (tenant, group_id, access) SELECT $1, id, $3 FROM share_groups WHERE id = $2
             ON CONFLICT (tenant, group_id) DO UPDATE SET access = excluded.access",
        )
        .bind(id.as_str())
        .bind(group.id.as_str())
        .bind(group.access.as_str());
        if write.execute(insert).await? == 0 {
            return Err(StateError::Conflict {
                reason: "no_such_group",
                message: format!("there is no group `{}`; create it first", group.id),
            });
        }
    }
    Ok(())
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StateError> {
    Ok(serde_json::to_string(value)?)
}

/// A column of JSON, or nothing.
pub(super) fn optional_json<T: Serialize>(value: Option<&T>) -> Result<Option<String>, StateError> {
    value.map(to_json).transpose()
}
