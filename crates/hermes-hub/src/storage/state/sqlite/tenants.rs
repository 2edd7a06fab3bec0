//! Tenants in SQLite.

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite};

use super::{Affected, SqliteState, commit, env::set_variable, to_column};
use crate::{
    TenantId,
    api_types::{
        AccessStatus, HubEventType, KeyHash, RuntimeKeyInfo, TenantAccess, TenantStatus, Time,
    },
    storage::{
        audit::NewAuditEntry,
        encryption::EncryptedSecret,
        state::{
            AccessChange, NewHubEvent, NewRuntimeKey, NewTenant, Page, Paged, StateError,
            TenantChange, TenantDeletion, TenantFilter, TenantHome, TenantObservation, TenantQuery,
            TenantRecord, TenantStore,
            columns::{ColumnReader, json_list},
            records::{merge_conditions, tenant_from_row},
            tenant_updates::{MAX_TENANT_UPDATES, TenantUpdate, TenantUpdater as _, update_batch},
            tenants::label_text,
        },
    },
};

mod record;
mod update;

use record::{
    NO_TENANT, find_present, find_tenant, reload_tenant, select_tenant, set_groups, to_json,
};

#[async_trait]
impl TenantStore for SqliteState {
    async fn create_tenant(
        &self,
        tenant: NewTenant,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError> {
        let linked_home = tenant
            .linked_home
            .map(|path| path.into_os_string().into_string())
            .transpose()
            .map_err(|_| StateError::Conflict {
                reason: "path",
                message: "the path of a linked home must be UTF-8; move the home".into(),
            })?;
        let now = Time::now().millis();
        let mut write = self.begin_change(Affected::Tenant(&tenant.id)).await?;
        let made = sqlx::query(
            "INSERT INTO tenants (id, uid, display_name, status, flavor, agent, storage, browser, labels,
                 linked_home, key_hash, key_sealed, key_last4, key_rotated_at, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?14)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(tenant.id.as_str())
        .bind(&tenant.uid)
        .bind(&tenant.display_name)
        .bind(tenant.status.as_str())
        .bind(&tenant.flavor)
        .bind(to_json(&tenant.agent)?)
        .bind(to_json(&tenant.storage)?)
        .bind(to_json(&tenant.browser)?)
        .bind(to_json(&tenant.labels)?)
        .bind(linked_home)
        .bind(tenant.runtime_key.hash.as_bytes().as_slice())
        .bind(tenant.runtime_key.encrypted.as_bytes())
        .bind(&tenant.runtime_key.last4)
        .bind(now)
        .execute(&mut *write)
        .await?;
        if made.rows_affected() == 0 {
            return Err(StateError::Exists {
                what: "tenant",
                name: tenant.id.to_string(),
            });
        }
        set_groups(&mut write, &tenant.id, &tenant.groups).await?;
        for variable in &tenant.env {
            set_variable(&mut write, &tenant.id, variable).await?;
        }
        self.append_effect(&mut write, entry).await?;
        let made = reload_tenant(&mut write, &tenant.id).await?;
        let events = [NewHubEvent::tenant(HubEventType::TenantCreated, &made)];
        self.commit_with(write, &events).await?;
        Ok(made)
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StateError> {
        let row = sqlx::query(select_tenant!("t.id = ?1"))
            .bind(id.as_str())
            .fetch_optional(self.readers())
            .await?;
        row.map(|row| tenant_from_row(&row)).transpose()
    }

    async fn tenants(
        &self,
        query: &TenantQuery,
        page: &Page,
    ) -> Result<Paged<TenantRecord>, StateError> {
        let mut sql = QueryBuilder::<Sqlite>::new(select_tenant!("TRUE"));
        match query.filter {
            TenantFilter::Present => {
                sql.push(" AND t.deleted_at IS NULL");
            }
            TenantFilter::Status(status) => {
                sql.push(" AND t.status = ").push_bind(status.as_str());
            }
            TenantFilter::DeletedBefore(time) => {
                sql.push(" AND t.status = 'deleted' AND t.deleted_at < ")
                    .push_bind(time.millis());
            }
        }
        if let Some(only) = json_list(query.only.as_deref())? {
            sql.push(" AND t.id IN (SELECT value FROM json_each(")
                .push_bind(only)
                .push("))");
        }
        if let Some(text) = &query.text {
            push_text_search(&mut sql, text);
        }
        if let Some(flavor) = &query.flavor {
            sql.push(" AND t.flavor = ").push_bind(flavor.clone());
        }
        if let Some((name, value)) = &query.label {
            // In the order of the table: in that of the ids, each row is a look-up of its own. As text first: most rows need not be parsed.
            sql.push(
                " AND t.id IN (SELECT s.id FROM tenants AS s NOT INDEXED WHERE instr(s.labels, ",
            )
            .push_bind(label_text(name, value.as_deref())?)
            .push(") > 0 AND EXISTS (SELECT 1 FROM json_each(s.labels) AS l WHERE l.key = ")
            .push_bind(name.clone());
            if let Some(value) = value {
                sql.push(" AND l.value = ").push_bind(value.clone());
            }
            sql.push("))");
        }
        if let Some([last]) = page.cursor_key::<1>()? {
            sql.push(" AND t.id > ").push_bind(last);
        }
        sql.push(" ORDER BY t.id LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = sql.build().fetch_all(self.readers()).await?;
        let tenants: Vec<_> = rows.iter().map(tenant_from_row).collect::<Result<_, _>>()?;
        Ok(Paged::from_fetched(tenants, page, |tenant| {
            [tenant.id.to_string()]
        }))
    }

    async fn tenant_homes(
        &self,
        after: Option<&TenantId>,
        most: u32,
    ) -> Result<Vec<TenantHome>, StateError> {
        let rows = sqlx::query(
            "SELECT id, linked_home, status, access_status FROM tenants
             WHERE deleted_at IS NULL AND id > ?1 ORDER BY id LIMIT ?2",
        )
        .bind(after.map_or("", TenantId::as_str))
        .bind(most)
        .fetch_all(self.readers())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(TenantHome {
                    id: row.id("id", TenantId::parse)?,
                    linked_home: row.optional_text("linked_home")?.map(Into::into),
                    status: row.word("status", TenantStatus::from_word)?,
                    access: row.word("access_status", AccessStatus::from_word)?,
                })
            })
            .collect()
    }

    async fn count_tenants(&self) -> Result<Vec<(TenantStatus, u64)>, StateError> {
        let rows = sqlx::query("SELECT status, COUNT(*) AS tenants FROM tenants GROUP BY status")
            .fetch_all(self.readers())
            .await?;
        rows.iter()
            .map(|row| {
                Ok((
                    row.word("status", TenantStatus::from_word)?,
                    row.count("tenants")?,
                ))
            })
            .collect()
    }

    async fn update_tenant(
        &self,
        id: &TenantId,
        change: TenantChange,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError> {
        let update = TenantUpdate {
            id: id.clone(),
            change,
            expected,
            entry,
        };
        if !update.is_of_one_row() {
            return self.update_alone(update).await;
        }
        let together = |updates| update_batch(self, updates);
        self.tenant_updates
            .run(update, MAX_TENANT_UPDATES, together)
            .await
    }

    async fn observe_tenant(
        &self,
        id: &TenantId,
        observation: TenantObservation,
    ) -> Result<TenantRecord, StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        let old = find_tenant(&mut write, id).await?.ok_or(NO_TENANT)?;
        // An observation must not revive a tenant that was deleted meanwhile.
        let status = match observation.status {
            Some(status) if old.deleted_at.is_none() => status,
            _ => old.status,
        };
        let conditions = merge_conditions(&old.conditions, observation.conditions);
        let observed = observation
            .observed_generation
            .unwrap_or(old.observed_generation);
        if status == old.status
            && conditions == old.conditions
            && observed == old.observed_generation
        {
            return Ok(old);
        }
        // No client changed anything, so its version stays.
        sqlx::query(
            "UPDATE tenants SET status = ?2, conditions = ?3, observed_generation = ?4 WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(status.as_str())
        .bind(to_json(&conditions)?)
        .bind(to_column(observed))
        .execute(&mut *write)
        .await?;
        let changed = reload_tenant(&mut write, id).await?;
        let events = NewHubEvent::observed(&old, status, &conditions);
        self.commit_with(write, &events).await?;
        Ok(changed)
    }

    async fn observe_generation(&self, id: &TenantId, generation: u64) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        sqlx::query(
            "UPDATE tenants SET observed_generation = ?2 WHERE id = ?1 AND observed_generation < ?2",
        )
        .bind(id.as_str())
        .bind(to_column(generation))
        .execute(&mut *write)
        .await?;
        commit(write).await
    }

    async fn set_access(
        &self,
        id: &TenantId,
        access: AccessChange,
        entry: NewAuditEntry,
    ) -> Result<TenantAccess, StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        find_present(&mut write, id, None).await?;
        sqlx::query(
            "UPDATE tenants SET access_status = ?2, access_message = ?3, access_reason = ?4, access_at = ?5,
                 access_by = ?6, revision = revision + 1, updated_at = ?5 WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(access.status.as_str())
        .bind(&access.message)
        .bind(&access.reason)
        .bind(Time::now().millis())
        .bind(&access.by)
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let changed = reload_tenant(&mut write, id).await?;
        let events = [NewHubEvent::tenant(HubEventType::TenantChanged, &changed)];
        self.commit_with(write, &events).await?;
        Ok(changed.access)
    }

    async fn delete_tenant(
        &self,
        id: &TenantId,
        deletion: TenantDeletion,
        expected: Option<u64>,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        let old = find_tenant(&mut write, id).await?.ok_or(NO_TENANT)?;
        let is_present = old.status != TenantStatus::Deleted;
        if is_present {
            find_present(&mut write, id, expected).await?;
        }
        let now = Time::now().millis();
        // Earlier than any restorable deletion.
        let deleted_at = match deletion {
            TenantDeletion::Restorable => now,
            TenantDeletion::Permanent => 0,
        };
        if is_present || deletion == TenantDeletion::Permanent {
            sqlx::query(
                "UPDATE tenants SET status = 'deleted', deleted_at = ?2, revision = revision + 1,
                     updated_at = ?3 WHERE id = ?1",
            )
            .bind(id.as_str())
            .bind(deleted_at)
            .bind(now)
            .execute(&mut *write)
            .await?;
        }
        self.append_effect(&mut write, entry).await?;
        let changed = reload_tenant(&mut write, id).await?;
        let deleted =
            is_present.then(|| NewHubEvent::tenant(HubEventType::TenantDeleted, &changed));
        self.commit_with(write, deleted.as_slice()).await?;
        Ok(changed)
    }

    async fn restore_tenant(
        &self,
        id: &TenantId,
        entry: NewAuditEntry,
    ) -> Result<TenantRecord, StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        let restored = sqlx::query(
            "UPDATE tenants SET status = 'ready', deleted_at = NULL, generation = generation + 1,
                 revision = revision + 1, updated_at = ?2
             WHERE id = ?1 AND status = 'deleted' AND deleted_at > 0",
        )
        .bind(id.as_str())
        .bind(Time::now().millis())
        .execute(&mut *write)
        .await?;
        let tenant = reload_tenant(&mut write, id).await?;
        if restored.rows_affected() == 0 {
            return Err(StateError::Conflict {
                reason: "not_deleted",
                message: format!("`{id}` is not deleted, or for good; there is nothing to restore"),
            });
        }
        self.append_effect(&mut write, entry).await?;
        let events = [NewHubEvent::tenant(HubEventType::TenantChanged, &tenant)];
        self.commit_with(write, &events).await?;
        Ok(tenant)
    }

    async fn purge_tenant(&self, id: &TenantId, entry: NewAuditEntry) -> Result<(), StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        let removed = sqlx::query("DELETE FROM tenants WHERE id = ?1 AND status = 'deleted'")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        if removed.rows_affected() == 0 {
            return Err(NO_TENANT);
        }
        sqlx::query("DELETE FROM usage WHERE kind = 'tenant' AND owner = ?1")
            .bind(id.as_str())
            .execute(&mut *write)
            .await?;
        self.append_effect(&mut write, entry).await?;
        commit(write).await
    }

    async fn set_runtime_key(
        &self,
        id: &TenantId,
        key: NewRuntimeKey,
        entry: NewAuditEntry,
    ) -> Result<RuntimeKeyInfo, StateError> {
        let mut write = self.begin_change(Affected::Tenant(id)).await?;
        find_present(&mut write, id, None).await?;
        sqlx::query(
            "UPDATE tenants SET old_key_hash = iif(?6 IS NULL, NULL, key_hash), old_key_until = ?6,
                 key_hash = ?2, key_sealed = ?3, key_last4 = ?4, key_rotated_at = ?5,
                 generation = generation + 1, revision = revision + 1, updated_at = ?5 WHERE id = ?1",
        )
        .bind(id.as_str())
        .bind(key.hash.as_bytes().as_slice())
        .bind(key.encrypted.as_bytes())
        .bind(&key.last4)
        .bind(Time::now().millis())
        .bind(key.grace_until.map(Time::millis))
        .execute(&mut *write)
        .await?;
        self.append_effect(&mut write, entry).await?;
        let changed = reload_tenant(&mut write, id).await?;
        commit(write).await?;
        Ok(changed.runtime_key)
    }

    async fn runtime_key(&self, id: &TenantId) -> Result<Option<EncryptedSecret>, StateError> {
        let sealed: Option<Option<Vec<u8>>> =
            sqlx::query_scalar("SELECT key_sealed FROM tenants WHERE id = ?1")
                .bind(id.as_str())
                .fetch_optional(self.readers())
                .await?;
        Ok(sealed.flatten().map(EncryptedSecret::from_bytes))
    }

    async fn tenant_of_key(&self, hash: &KeyHash) -> Result<Option<TenantId>, StateError> {
        let row = sqlx::query(
            "SELECT id FROM tenants WHERE key_hash = ?1
             UNION ALL SELECT id FROM tenants WHERE old_key_hash = ?1 AND old_key_until > ?2 LIMIT 1",
        )
        .bind(hash.as_bytes().as_slice())
        .bind(Time::now().millis())
        .fetch_optional(self.readers())
        .await?;
        row.map(|row| row.id("id", TenantId::parse)).transpose()
    }
}

/// The longest pattern that SQLite takes has 50,000 bytes.
const MAX_PATTERN: usize = 50_000;

/// Tenants with this text in their id or display name, in capitals or not. They are looked for in the index that has just
/// these: in the order of the ids, each row is a look-up of its own, and the table has much more to read.
fn push_text_search(sql: &mut QueryBuilder<Sqlite>, text: &str) {
    sql.push(" AND t.id IN (SELECT s.id FROM tenants AS s INDEXED BY tenants_by_name WHERE ");
    let pattern = containing(text);
    if pattern.len() <= MAX_PATTERN {
        sql.push("s.id LIKE ")
            .push_bind(pattern.clone())
            .push(" ESCAPE '\\' OR s.display_name LIKE ")
            .push_bind(pattern)
            .push(" ESCAPE '\\')");
    } else {
        sql.push("instr(lower(s.display_name), lower(")
            .push_bind(text.to_owned())
            .push(")))");
    }
}

/// A pattern of `LIKE` for what has this text in it, whether in capitals or not.
fn containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}
