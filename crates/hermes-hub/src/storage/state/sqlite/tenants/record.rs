//! Reading a tenant's row and memberships.

use serde::Serialize;
use sqlx::SqliteConnection;

use crate::{
    GroupId, TenantId,
    api_types::{GroupMembership, TenantStatus},
    storage::state::{StateError, TenantRecord, records::tenant_from_row},
};

/// Selects tenants with usage and memberships.
macro_rules! select_tenant {
    ($condition:literal) => {
        concat!(
            "SELECT t.*, u.bytes AS used_bytes, u.files AS used_files,
        (SELECT json_group_array(json_object('id', m.group_id, 'access', m.access))
         FROM members m WHERE m.tenant = t.id) AS memberships
    FROM tenants t LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = t.id WHERE ",
            $condition
        )
    };
}
pub(super) use select_tenant;

pub(super) const NO_TENANT: StateError = StateError::NotFound { what: "tenant" };

/// Finds a tenant, deleted or not.
pub(super) async fn find_tenant(
    connection: &mut SqliteConnection,
    id: &TenantId,
) -> Result<Option<TenantRecord>, StateError> {
    let row = sqlx::query(select_tenant!("t.id = ?1"))
        .bind(id.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(|row| tenant_from_row(&row)).transpose()
}

/// Finds a tenant that is not deleted, at the expected revision.
pub(super) async fn find_present(
    connection: &mut SqliteConnection,
    id: &TenantId,
    expected: Option<u64>,
) -> Result<TenantRecord, StateError> {
    let tenant = find_tenant(connection, id)
        .await?
        .filter(|tenant| tenant.status != TenantStatus::Deleted)
        .ok_or(NO_TENANT)?;
    if expected.is_some_and(|expected| expected != tenant.revision) {
        return Err(StateError::Changed { what: "tenant" });
    }
    Ok(tenant)
}

pub(super) async fn reload_tenant(
    connection: &mut SqliteConnection,
    id: &TenantId,
) -> Result<TenantRecord, StateError> {
    find_tenant(connection, id).await?.ok_or(NO_TENANT)
}

pub(super) async fn set_groups(
    write: &mut SqliteConnection,
    id: &TenantId,
    groups: &[GroupMembership],
) -> Result<(), StateError> {
    sqlx::query("DELETE FROM members WHERE tenant = ?1")
        .bind(id.as_str())
        .execute(&mut *write)
        .await?;
    for group in groups {
        let known: Option<i64> = sqlx::query_scalar("SELECT 1 FROM share_groups WHERE id = ?1")
            .bind(group.id.as_str())
            .fetch_optional(&mut *write)
            .await?;
        known.ok_or_else(|| no_group(&group.id))?;
        sqlx::query(
            "INSERT OR REPLACE INTO members (tenant, group_id, access) VALUES (?1, ?2, ?3)",
        )
        .bind(id.as_str())
        .bind(group.id.as_str())
        .bind(group.access.as_str())
        .execute(&mut *write)
        .await?;
    }
    Ok(())
}

fn no_group(id: &GroupId) -> StateError {
    StateError::Conflict {
        reason: "no_such_group",
        message: format!("there is no group `{id}`; create it first"),
    }
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StateError> {
    Ok(serde_json::to_string(value)?)
}

/// A column of JSON, or nothing.
pub(super) fn optional_json<T: Serialize>(value: Option<&T>) -> Result<Option<String>, StateError> {
    value.map(to_json).transpose()
}
