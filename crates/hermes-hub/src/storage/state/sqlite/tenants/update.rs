//! Changing tenants' rows: one, with all that belongs to it, or several at once.

use std::collections::HashMap;

use async_trait::async_trait;
use sqlx::SqliteConnection;

use super::{
    super::{
        Affected, SqliteState, commit,
        env::{set_variable, unset_variable},
        to_column,
    },
    record::{find_present, optional_json, reload_tenant, set_groups},
};
use crate::{
    TenantId,
    api_types::{HubEventType, Time},
    storage::state::{
        NewHubEvent, StateError, TenantRecord,
        records::tenant_from_row,
        tenant_updates::{BatchError, TenantUpdate, TenantUpdater},
    },
};

#[async_trait]
impl TenantUpdater for SqliteState {
    async fn update_alone(&self, update: TenantUpdate) -> Result<TenantRecord, StateError> {
        let TenantUpdate {
            id,
            change,
            expected,
            entry,
        } = update;
        let mut write = self.begin_change(Affected::Tenant(&id)).await?;
        // One statement: each is a way to the database's thread and back, which costs more than the work there.
        let changed = sqlx::query(
            "UPDATE tenants SET display_name = IFNULL(?3, display_name), flavor = IFNULL(?4, flavor),
                 agent = IFNULL(?5, agent), storage = IFNULL(?6, storage), browser = IFNULL(?7, browser),
                 labels = IFNULL(?8, labels), generation = generation + 1, revision = revision + 1, updated_at = ?9,
                 observed_generation = CASE
                     WHEN ?10 = 'no agent' OR (?10 = 'nobody' AND observed_generation = generation) THEN generation + 1
                     ELSE observed_generation END
             WHERE id = ?1 AND status <> 'deleted' AND revision = IFNULL(?2, revision)
             RETURNING *,
                 (SELECT bytes FROM usage WHERE kind = 'tenant' AND owner = ?1) AS used_bytes,
                 (SELECT files FROM usage WHERE kind = 'tenant' AND owner = ?1) AS used_files,
                 (SELECT json_group_array(json_object('id', group_id, 'access', access))
                  FROM members WHERE tenant = ?1) AS memberships",
        )
        .bind(id.as_str())
        .bind(expected.map(to_column))
        .bind(&change.display_name)
        .bind(&change.flavor)
        .bind(optional_json(change.agent.as_ref())?)
        .bind(optional_json(change.storage.as_ref())?)
        .bind(optional_json(change.browser.as_ref())?)
        .bind(optional_json(change.labels.as_ref())?)
        .bind(Time::now().millis())
        .bind(change.propagation.as_word())
        .fetch_optional(&mut *write)
        .await?;
        let Some(changed) = changed else {
            find_present(&mut write, &id, expected).await?;
            return Err(StateError::Changed { what: "tenant" });
        };
        let mut tenant = tenant_from_row(&changed)?;
        if let Some(groups) = &change.groups {
            set_groups(&mut write, &id, groups).await?;
        }
        for variable in &change.env {
            set_variable(&mut write, &id, variable).await?;
        }
        for name in &change.unset_env {
            unset_variable(&mut write, &id, name).await?;
        }
        self.append_effect(&mut write, entry).await?;
        if change.groups.is_some() {
            tenant = reload_tenant(&mut write, &id).await?;
        }
        let events = [NewHubEvent::tenant(HubEventType::TenantChanged, &tenant)];
        self.commit_with(write, &events).await?;
        Ok(tenant)
    }

    async fn update_rows(
        &self,
        updates: &[TenantUpdate],
    ) -> Result<Vec<Option<TenantRecord>>, BatchError> {
        let ids: Vec<&TenantId> = updates.iter().map(|update| &update.id).collect();
        let begun = self.begin_change(Affected::Tenants(&ids)).await;
        let mut write = begun.map_err(BatchError::All)?;
        let changed = async {
            let mut changed = change_rows(&mut write, updates).await?;
            let records: Vec<_> = ids.iter().map(|id| changed.remove(*id)).collect();
            let (mut entries, mut events) = (Vec::new(), Vec::new());
            for (update, record) in updates.iter().zip(&records) {
                if let Some(record) = record {
                    entries.push(update.entry.clone());
                    events.push(NewHubEvent::tenant(HubEventType::TenantChanged, record));
                }
            }
            self.append_effects(&mut write, entries).await?;
            self.add_events(&mut write, &events).await?;
            Ok::<_, StateError>(records)
        };
        let Ok(records) = changed.await else {
            return Err(BatchError::TryAlone);
        };
        commit(write).await.map_err(BatchError::All)?;
        self.tell_watchers();
        Ok(records)
    }
}

/// Changes the rows that are as expected; returns them as they are then.
async fn change_rows(
    write: &mut SqliteConnection,
    updates: &[TenantUpdate],
) -> Result<HashMap<TenantId, TenantRecord>, StateError> {
    let mut rows = Vec::with_capacity(updates.len());
    for TenantUpdate {
        id,
        change,
        expected,
        ..
    } in updates
    {
        rows.push((
            id.as_str(),
            expected.map(to_column),
            &change.display_name,
            &change.flavor,
            optional_json(change.agent.as_ref())?,
            optional_json(change.storage.as_ref())?,
            optional_json(change.browser.as_ref())?,
            optional_json(change.labels.as_ref())?,
            change.propagation.as_word(),
        ));
    }
    let changed = sqlx::query(
        "UPDATE tenants SET display_name = IFNULL(c.value ->> 2, display_name), flavor = IFNULL(c.value ->> 3, flavor),
             agent = IFNULL(c.value ->> 4, agent), storage = IFNULL(c.value ->> 5, storage),
             browser = IFNULL(c.value ->> 6, browser), labels = IFNULL(c.value ->> 7, labels),
             generation = generation + 1, revision = revision + 1, updated_at = ?2,
             observed_generation = CASE
                 WHEN c.value ->> 8 = 'no agent' OR (c.value ->> 8 = 'nobody' AND observed_generation = generation)
                 THEN generation + 1 ELSE observed_generation END
         FROM json_each(?1) AS c
         WHERE tenants.id = c.value ->> 0 AND status <> 'deleted' AND revision = IFNULL(c.value ->> 1, revision)
         RETURNING *,
             (SELECT bytes FROM usage WHERE kind = 'tenant' AND owner = tenants.id) AS used_bytes,
             (SELECT files FROM usage WHERE kind = 'tenant' AND owner = tenants.id) AS used_files,
             (SELECT json_group_array(json_object('id', group_id, 'access', access))
              FROM members WHERE tenant = tenants.id) AS memberships",
    )
    .bind(serde_json::to_string(&rows)?)
    .bind(Time::now().millis())
    .fetch_all(write)
    .await?;
    let records = changed.iter().map(tenant_from_row);
    records
        .map(|record| record.map(|record| (record.id.clone(), record)))
        .collect()
}
