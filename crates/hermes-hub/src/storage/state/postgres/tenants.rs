//! Tenants in PostgreSQL.

use async_trait::async_trait;
use sqlx::{Postgres, QueryBuilder};

use super::{PostgresState, env::set_variable, optional_storable, storable, to_column};
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
            columns::ColumnReader,
            records::{merge_conditions, tenant_from_row},
            tenant_updates::{MAX_TENANT_UPDATES, TenantUpdate, TenantUpdater as _, update_batch},
            tenants::label_text,
        },
    },
};

mod lookup;
mod record;
mod update;

pub(super) use lookup::TenantLookups;

use record::{NO_TENANT, lock_present, lock_tenant, select_tenant, set_groups, to_json};

#[async_trait]
impl TenantStore for PostgresState {
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
        let mut write = self.begin_change().await?;
        let insert = sqlx::query(
            "INSERT INTO tenants (id, uid, display_name, status, flavor, agent, storage, browser, labels,
                 linked_home, key_hash, key_sealed, key_last4, key_rotated_at, created_at, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $14)
             ON CONFLICT (id) DO NOTHING",
        )
        .bind(tenant.id.as_str())
        .bind(&tenant.uid)
        .bind(storable(&tenant.display_name))
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
        .bind(Time::now().millis());
        if write.execute(insert).await? == 0 {
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
        let made = lock_tenant(&mut write, &tenant.id).await?;
        let events = [NewHubEvent::tenant(HubEventType::TenantCreated, &made)];
        self.commit_with(write, &events).await?;
        Ok(made)
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<TenantRecord>, StateError> {
        let together = |ids| lookup::find_tenants(self, ids);
        self.tenant_lookups
            .run(id.clone(), lookup::MAX_LOOKUPS, together)
            .await
    }

    async fn tenants(
        &self,
        query: &TenantQuery,
        page: &Page,
    ) -> Result<Paged<TenantRecord>, StateError> {
        let mut sql = QueryBuilder::<Postgres>::new(select_tenant!("TRUE"));
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
        if let Some(only) = &query.only {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            sql.push(" AND t.id = ANY(").push_bind(only).push(")");
        }
        if let Some(text) = &query.text {
            let text = storable(text).to_ascii_lowercase();
            sql.push(" AND (strpos(t.id, ")
                .push_bind(text.clone())
                .push(") > 0 OR strpos(lower(t.display_name), ")
                .push_bind(text)
                .push(") > 0)");
        }
        if let Some(flavor) = &query.flavor {
            sql.push(" AND t.flavor = ").push_bind(storable(flavor));
        }
        if let Some((name, value)) = &query.label {
            // As text first: most rows need not be parsed.
            sql.push(" AND strpos(t.labels, ")
                .push_bind(label_text(name, value.as_deref())?)
                .push(") > 0 AND (t.labels::jsonb ->> ")
                .push_bind(storable(name));
            match value {
                Some(value) => sql.push(") = ").push_bind(storable(value)),
                None => sql.push(") IS NOT NULL"),
            };
        }
        if let Some([last]) = page.cursor_key::<1>()? {
            sql.push(" AND t.id > ").push_bind(last);
        }
        sql.push(" ORDER BY t.id LIMIT ")
            .push_bind(page.fetch_limit());
        let rows = self.read().await?.rows(sql.build()).await?;
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
        let query = sqlx::query(
            "SELECT id, linked_home, status, access_status FROM tenants
             WHERE deleted_at IS NULL AND id > $1 ORDER BY id LIMIT $2",
        )
        .bind(after.map_or("", TenantId::as_str))
        .bind(i64::from(most));
        let rows = self.read().await?.rows(query).await?;
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
        let query = sqlx::query("SELECT status, COUNT(*) AS tenants FROM tenants GROUP BY status");
        let rows = self.read().await?.rows(query).await?;
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
        let mut write = self.begin_change().await?;
        self.fence(&mut write, id).await?;
        let old = lock_tenant(&mut write, id).await?;
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
        let update = sqlx::query(
            "UPDATE tenants SET status = $2, conditions = $3, observed_generation = $4 WHERE id = $1",
        )
        .bind(id.as_str())
        .bind(status.as_str())
        .bind(to_json(&conditions)?)
        .bind(to_column(observed));
        write.execute(update).await?;
        let changed = lock_tenant(&mut write, id).await?;
        let events = NewHubEvent::observed(&old, status, &conditions);
        self.commit_with(write, &events).await?;
        Ok(changed)
    }

    async fn observe_generation(&self, id: &TenantId, generation: u64) -> Result<(), StateError> {
        let mut write = self.begin_change().await?;
        self.fence(&mut write, id).await?;
        let update = sqlx::query(
            "UPDATE tenants SET observed_generation = $2 WHERE id = $1 AND observed_generation < $2",
        )
        .bind(id.as_str())
        .bind(to_column(generation));
        write.execute(update).await?;
        write.commit().await
    }

    async fn set_access(
        &self,
        id: &TenantId,
        access: AccessChange,
        entry: NewAuditEntry,
    ) -> Result<TenantAccess, StateError> {
        let mut write = self.begin_change().await?;
        lock_present(&mut write, id, None).await?;
        let update = sqlx::query(
            "UPDATE tenants SET access_status = $2, access_message = $3, access_reason = $4, access_at = $5,
                 access_by = $6, revision = revision + 1, updated_at = $5 WHERE id = $1",
        )
        .bind(id.as_str())
        .bind(access.status.as_str())
        .bind(optional_storable(access.message.as_ref()))
        .bind(optional_storable(access.reason.as_ref()))
        .bind(Time::now().millis())
        .bind(&access.by);
        write.execute(update).await?;
        self.append_effect(&mut write, entry).await?;
        let changed = lock_tenant(&mut write, id).await?;
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
        let mut write = self.begin_change().await?;
        let old = lock_tenant(&mut write, id).await?;
        let is_present = old.status != TenantStatus::Deleted;
        if is_present {
            lock_present(&mut write, id, expected).await?;
        }
        let now = Time::now().millis();
        // Earlier than any restorable deletion.
        let deleted_at = match deletion {
            TenantDeletion::Restorable => now,
            TenantDeletion::Permanent => 0,
        };
        if is_present || deletion == TenantDeletion::Permanent {
            let update = sqlx::query(
                "UPDATE tenants SET status = 'deleted', deleted_at = $2, revision = revision + 1,
                     updated_at = $3 WHERE id = $1",
            )
            .bind(id.as_str())
            .bind(deleted_at)
            .bind(now);
            write.execute(update).await?;
        }
        self.append_effect(&mut write, entry).await?;
        let changed = lock_tenant(&mut write, id).await?;
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
        let mut write = self.begin_change().await?;
        let update = sqlx::query(
            "UPDATE tenants SET status = 'ready', deleted_at = NULL, generation = generation + 1,
                 revision = revision + 1, updated_at = $2
             WHERE id = $1 AND status = 'deleted' AND deleted_at > 0",
        )
        .bind(id.as_str())
        .bind(Time::now().millis());
        let restored = write.execute(update).await?;
        let tenant = lock_tenant(&mut write, id).await?;
        if restored == 0 {
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
        let mut write = self.begin_change().await?;
        let delete = sqlx::query("DELETE FROM tenants WHERE id = $1 AND status = 'deleted'")
            .bind(id.as_str());
        if write.execute(delete).await? == 0 {
            return Err(NO_TENANT);
        }
        let usage = sqlx::query("DELETE FROM usage WHERE kind = 'tenant' AND owner = $1");
        write.execute(usage.bind(id.as_str())).await?;
        self.append_effect(&mut write, entry).await?;
        write.commit().await
    }

    async fn set_runtime_key(
        &self,
        id: &TenantId,
        key: NewRuntimeKey,
        entry: NewAuditEntry,
    ) -> Result<RuntimeKeyInfo, StateError> {
        let mut write = self.begin_change().await?;
        lock_present(&mut write, id, None).await?;
        let update = sqlx::query(
            "UPDATE tenants SET old_key_hash = CASE WHEN $6::bigint IS NULL THEN NULL ELSE key_hash END,
                 old_key_until = $6, key_hash = $2, key_sealed = $3, key_last4 = $4, key_rotated_at = $5,
                 generation = generation + 1, revision = revision + 1, updated_at = $5 WHERE id = $1",
        )
        .bind(id.as_str())
        .bind(key.hash.as_bytes().as_slice())
        .bind(key.encrypted.as_bytes())
        .bind(&key.last4)
        .bind(Time::now().millis())
        .bind(key.grace_until.map(Time::millis));
        write.execute(update).await?;
        self.append_effect(&mut write, entry).await?;
        let changed = lock_tenant(&mut write, id).await?;
        write.commit().await?;
        Ok(changed.runtime_key)
    }

    async fn runtime_key(&self, id: &TenantId) -> Result<Option<EncryptedSecret>, StateError> {
        let query = sqlx::query("SELECT key_sealed FROM tenants WHERE id = $1").bind(id.as_str());
        let row = self.read().await?.optional(query).await?;
        let sealed = row.map_or(Ok(None), |row| row.optional_bytes("key_sealed"))?;
        Ok(sealed.map(EncryptedSecret::from_bytes))
    }

    async fn tenant_of_key(&self, hash: &KeyHash) -> Result<Option<TenantId>, StateError> {
        let query = sqlx::query(
            "SELECT id FROM tenants WHERE key_hash = $1
             UNION ALL SELECT id FROM tenants WHERE old_key_hash = $1 AND old_key_until > hub_now() LIMIT 1",
        )
        .bind(hash.as_bytes().as_slice());
        let row = self.read().await?.optional(query).await?;
        row.map(|row| row.id("id", TenantId::parse)).transpose()
    }
}
