//! Groups and members in SQLite.

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::{Affected, SqliteState, commit, to_column};
use crate::{
    GroupId, TenantId,
    api_types::{Group, GroupMember, MemberAccess, Share, Time},
    storage::{
        audit::NewAuditEntry,
        state::{
            GroupChange, GroupDeletion, GroupRecord, GroupStore, Page, Paged, StateError,
            columns::ColumnReader,
            records::{group_from_row, share_from_row},
        },
    },
};

/// Selects groups with their usage.
macro_rules! select_group {
    ($condition:literal) => {
        concat!(
            "SELECT g.*, u.bytes AS used_bytes, u.files AS used_files FROM share_groups g
             LEFT JOIN usage u ON u.kind = 'group' AND u.owner = g.id WHERE ",
            $condition
        )
    };
}

/// Selects groups as a member sees them.
macro_rules! select_share {
    ($condition:literal) => {
        concat!(
            "SELECT g.*, m.access, IFNULL(u.bytes, 0) AS used_bytes FROM members m
             JOIN share_groups g ON g.id = m.group_id
             LEFT JOIN usage u ON u.kind = 'group' AND u.owner = g.id WHERE ",
            $condition
        )
    };
}

const NO_GROUP: StateError = StateError::NotFound { what: "group" };

async fn find_group(
    connection: &mut SqliteConnection,
    id: &GroupId,
    expected: Option<u64>,
) -> Result<GroupRecord, StateError> {
    let row = sqlx::query(select_group!("g.id = ?1"))
        .bind(id.as_str())
        .fetch_optional(connection)
        .await?;
    let group = group_from_row(&row.ok_or(NO_GROUP)?)?;
    if expected.is_some_and(|expected| expected != group.revision) {
        return Err(StateError::Changed { what: "group" });
    }
    Ok(group)
}

/// Changed groups change the agent's environment and the tenant's record.
async fn touch_members(
    write: &mut SqliteConnection,
    group: &GroupId,
    tenant: Option<&TenantId>,
) -> Result<u64, StateError> {
    let touched = sqlx::query(
        "UPDATE tenants SET generation = generation + 1, revision = revision + 1, updated_at = ?3
         WHERE id = ?2 OR (?2 IS NULL AND id IN (SELECT tenant FROM members WHERE group_id = ?1))",
    )
    .bind(group.as_str())
    .bind(tenant.map(TenantId::as_str))
    .bind(Time::now().millis())
    .execute(write)
    .await?;
    Ok(touched.rows_affected())
}

#[async_trait]
impl GroupStore for SqliteState {
    async fn create_group(
        &self,
        group: Group,
        entry: NewAuditEntry,
    ) -> Result<GroupRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let made = sqlx::query(
            "INSERT INTO share_groups (id, display_name, kind, quota_bytes, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (id) DO NOTHING",
        )
        .bind(group.id.as_str())
        .bind(&group.display_name)
        .bind(group.kind.as_str())
        .bind(to_column(group.quota_bytes))
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        if made.rows_affected() == 0 {
            return Err(StateError::Exists {
                what: "group",
                name: group.id.to_string(),
            });
        }
        self.append_effect(&mut write, entry).await?;
        let made = find_group(&mut write, &group.id, None).await?;
        commit(write).await?;
        Ok(made)
    }

    async fn group(&self, id: &GroupId) -> Result<Option<GroupRecord>, StateError> {
        let row = sqlx::query(select_group!("g.id = ?1"))
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await?;
        row.map(|row| group_from_row(&row)).transpose()
    }

    async fn groups(&self, page: &Page) -> Result<Paged<GroupRecord>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new(select_group!("TRUE"));
        if let Some([last]) = page.cursor_key::<1>()? {
            sql.push(" AND g.id > ").push_bind(last);
        }
        sql.push(" ORDER BY g.id LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = sql.build().fetch_all(self.readers()).await?;
        let groups: Vec<_> = rows.iter().map(group_from_row).collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(groups, page, |group| {
            [group.group.id.to_string()]
        }))
    }

    async fn update_group(
        &self,
        id: &GroupId,
        change: GroupChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<GroupRecord, StateError> {
        let mut write = self.begin_change(Affected::NoTenant).await?;
        let old = find_group(&mut write, id, expected).await?.group;
        sqlx::query(
            "UPDATE share_groups SET display_name = ?2, kind = ?3, quota_bytes = ?4, revision = revision + 1,
                 updated_at = ?5 WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(change.display_name.unwrap_or(old.display_name))
        .bind(change.kind.unwrap_or(old.kind).as_str())
        .bind(to_column(change.quota_bytes.unwrap_or(old.quota_bytes)))
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let changed = find_group(&mut write, id, None).await?;
        commit(write).await?;
        Ok(changed)
    }

    async fn delete_group(
        &self,
        id: &GroupId,
        emptiness: GroupDeletion,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::AllTenants).await?;
        let group = find_group(&mut write, id, expected).await?;
        let members = touch_members(&mut write, id, None).await?;
        if emptiness == GroupDeletion::OnlyIfEmpty && (members > 0 || group.used.files > 0) {
            return Err(StateError::Conflict {
                reason: "not_empty",
                message: format!(
                    "`{id}` has {members} members and {} files; pass force=true to delete it anyway",
                    group.used.files
                ),
            });
        }
        sqlx::query("DELETE FROM share_groups WHERE id = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        sqlx::query("DELETE FROM usage WHERE kind = 'group' AND owner = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn members(&self, id: &GroupId, page: &Page) -> Result<Paged<GroupMember>, StateError> {
        let last = page
            .cursor_key::<1>()?
            .map(|[last]| last)
            .unwrap_or_default();
        let rows = sqlx::query(
            "SELECT tenant, access FROM members WHERE group_id = ?1 AND tenant > ?2 ORDER BY tenant LIMIT ?3",
        )
        .bind(id.as_str())
        .bind(last)
        .bind(page.fetch_limit())
        .fetch_all(self.readers())
        .await?;
        let members: Vec<_> = rows
            .iter()
            .map(|row| {
                Ok::<_, StateError>(GroupMember {
                    tenant_id: row.id("tenant", TenantId::parse)?,
                    access: row.word("access", MemberAccess::from_word)?,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(members, page, |member| {
            [member.tenant_id.to_string()]
        }))
    }

    async fn put_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        access: MemberAccess,
        entry: NewAuditEntry,
    ) -> Result<GroupMember, StateError> {
        let mut write = self.begin_change(Affected::Tenant(tenant)).await?;
        find_group(&mut write, id, None).await?;
        if touch_members(&mut write, id, Some(tenant)).await? == 0 {
            return Err(StateError::NotFound { what: "tenant" });
        }
        sqlx::query(
            "INSERT INTO members (tenant, group_id, access) VALUES (?1, ?2, ?3)
             ON CONFLICT (tenant, group_id) DO UPDATE SET access = excluded.access",
        )
        .bind(tenant.as_str())
        .bind(id.as_str())
        .bind(access.as_str())
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(GroupMember {
            tenant_id: tenant.clone(),
            access,
        })
    }

    async fn remove_member(
        &self,
        id: &GroupId,
        tenant: &TenantId,
        entry: NewAuditEntry,
    ) -> Result<bool, StateError> {
        let mut write = self.begin_change(Affected::Tenant(tenant)).await?;
        let removed = sqlx::query("DELETE FROM members WHERE tenant = ?1 AND group_id = ?2")
            .bind(tenant.as_str())
            .bind(id.as_str())
            .execute(&mut *write)
            .await?
            .rows_affected();
        if removed > 0 {
            touch_members(&mut write, id, Some(tenant)).await?;
        }
        self.append_effect(&mut write, entry).await?;
        commit(write).await?;
        Ok(removed > 0)
    }

    async fn share(&self, tenant: &TenantId, id: &GroupId) -> Result<Option<Share>, StateError> {
        let row = sqlx::query(select_share!("m.tenant = ?1 AND m.group_id = ?2"))
            .bind(tenant.as_str())
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await?;
        row.map(|row| share_from_row(&row)).transpose()
    }

    async fn shares(&self, tenant: &TenantId) -> Result<Vec<Share>, StateError> {
        let rows = sqlx::query(select_share!("m.tenant = ?1 ORDER BY g.id"))
            .bind(tenant.as_str())
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(share_from_row).collect()
    }
}
